"""The report of an adaptive run: the report of its fit, with the goal and the course of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.fit.answer_section import MAX_DRAWN
from cbq.fit.naming import capital
from cbq.fit.report import FitReport
from cbq.report import charts
from cbq.report.charts import Axis, Lines, figure
from cbq.report.document import Page, Section
from cbq.report.parts import Html, Kind, joined, paragraph

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
    return "warning", f"{title}:", capital(text), " ".join(filter(None, [remedy, answer.advice]))


def _course(answer: AdaptiveAnswer) -> Html:
    """The summary of the run, without the summary of its fit, and the half-width round by round."""
    lines = answer.lines()
    history, C = answer.history, answer.rounds[0].mean.shape[1]
    series = []
    for c, name in enumerate(answer.fit.names.f[:MAX_DRAWN]):
        of = f" of {name}" if C > 1 else ""
        half, target = history.half_width[:, c], history.target[:, c]
        known = np.isfinite(half)
        series.append(charts.dots(f"half-width{of}", history.runs[known], half[known], colour=c % 6))
        series.append(charts.line(f"half-width{of}", history.runs[known], half[known], c % 6))
        if np.any(np.isfinite(target)):
            series.append(charts.line(f"asked for{of}", history.runs, target, (c + 1) % 6, dashed=True))
    chart = Lines(Axis("runs", log=True), Axis("half-width", log=True), series, height=240)
    caption = "The half-width of the interval against the number of runs; the run stops when it is below the goal."
    drawn = [figure([(chart, "half-width against runs")], caption)] if len(history) > 1 else []
    return joined([*(paragraph(line) for line in lines), *drawn])
