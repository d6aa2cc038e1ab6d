"""The report of an adaptive run: the report of its fit, with the goal and the course of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cbq.fit import MAX_DRAWN, FitReport
from cbq.report import Fragment, Kind, Page, Section, capital, figure_html, joined, paragraph
from cbq.runs.figures import history_figure

if TYPE_CHECKING:
    from cbq.runs.answer import AdaptiveAnswer


def answer_page(answer: AdaptiveAnswer, truth: Any = None, title: Any = None, repeat: Any = None, **known: Any) -> Page:
    """The page of an answer; see `Fit.report` for the arguments."""
    level = answer.goal.level
    record = {"runs": str(answer.n_runs), "rounds": str(len(answer.rounds)), "asked for": str(answer.goal)}
    more = (Section("How the run went", _course(answer)),)
    known = (
        {"name": answer.name, "first": _headline(answer), "more": more}
        | known
        | {"record": record | dict(known.get("record", {}))}
    )
    return FitReport.asked(answer.fit, answer.samples, answer.prior, truth, level, title, repeat, **known).page


def _headline(answer: AdaptiveAnswer) -> tuple[Kind, str, str, str]:
    """The notice on whether the goal was reached, with advice if it was not."""
    title, text = answer.outcome
    if answer.reached or not answer.goal.has_target:
        return "good" if answer.reached else "remark", f"{title}:", capital(text), ""
    remedy = "Take the intervals as they are, wider than asked for, or continue with a larger budget."
    return "failed", f"{title}:", capital(text), " ".join(filter(None, [remedy, answer.advice]))


def _course(answer: AdaptiveAnswer) -> Fragment:
    """The summary of the run, without the summary of its fit, and the half-width round by round."""
    lines, history = [paragraph(line) for line in answer.lines()], answer.history
    if len(history) < 2:
        return joined(lines)
    caption = "The half-width of the interval against the number of runs; the run stops when it is below the goal."
    return joined([*lines, figure_html(history_figure(history, MAX_DRAWN).panels, caption, height=240)])
