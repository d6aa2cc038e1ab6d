"""The report of a fit: a page with the question, the answer, choices, checks, warnings and how to repeat it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from cbq.common import Array, between_0_and_1, digits_apart, shown, text
from cbq.fit.answer_grid import OBSERVED_ONLY, AnswerGrid
from cbq.fit.answer_section import MAX_DRAWN, AnswerSection
from cbq.fit.answers import TruthFunction
from cbq.fit.base import Fit
from cbq.fit.diagnostics import LEVEL, TRUTH_DRAWS, TRUTH_SEED, Diagnostic, diagnose
from cbq.fit.figures import slope_panels
from cbq.fit.naming import expectation_names
from cbq.fit.summary import DESIGNS, count_range
from cbq.fit.thetas import theta_prior
from cbq.measures import Measure
from cbq.plotting import INK, ORANGE, Axis, Dots, Panel, Rule, plain, series
from cbq.report import (
    Fragment,
    Kind,
    Page,
    Section,
    Table,
    bullets,
    capital,
    code,
    facts,
    figure_html,
    folded,
    heading,
    joined,
    made_with,
    notice,
    paragraph,
)
from cbq.samples import Samples

MAX_TITLE, MAX_FACT = 300, 400  # characters
SLOPE_POINTS = 61  # along each coordinate


@dataclass(frozen=True, eq=False)
class FitReport:
    """A fit, its question and how it was made, and the page of it.

    samples, prior, truth : where known: the samples of the fit, the distribution of theta, and the true I.
    name : of the problem. title : of the page. repeat : code or a command that makes the fit again.
    record : further facts about how it was made, such as the seed.
    first : the arguments of a notice that comes before all others, such as whether a goal was reached.
    more : sections after the answer.
    """

    fit: Fit
    samples: Samples | None = None
    prior: Measure | None = None
    truth: TruthFunction | None = None
    level: float = 0.95
    title: str | None = None
    name: str | None = None
    repeat: str | None = None
    record: Mapping[str, str] = field(default_factory=dict)
    first: tuple[Kind, str, str, str] | None = None
    more: Sequence[Section] = ()

    @classmethod
    def asked(
        cls, fit: Fit, samples: Any, prior: Any, truth: Any, level: Any, title: Any, repeat: Any, **known: Any
    ) -> FitReport:
        """From the arguments of `Fit.report`, checked."""
        if samples is not None and not isinstance(samples, Samples):
            raise TypeError(f"samples must be cbq.Samples, or None, but it is {shown(samples)}.")
        if samples is not None and (samples.p, samples.C) != (fit.p, fit.C):
            raise ValueError(f"samples have p = {samples.p} and C = {samples.C}, but the fit {fit.p} and {fit.C}.")
        if truth is not None and not callable(truth):
            raise TypeError(f"truth must be a function of theta (M, p), or None, but it is {shown(truth)}.")
        for value, name in ((title, "title"), (repeat, "repeat")):
            if value is not None:
                text(value, name)
        if title is not None and len(title) > MAX_TITLE:
            raise ValueError(f"title must have {MAX_TITLE} characters at the most, but it has {len(title)}.")
        measure = None if prior is None else theta_prior(prior, fit.p)
        level = between_0_and_1(level, "level")
        return cls(fit, samples, measure, truth, level, title=title, repeat=repeat, **known)

    @property
    def page(self) -> Page:
        """The whole page."""
        return replace(self, fit=self.fit._quiet)._page  # the page itself shows all findings

    @property
    def _page(self) -> Page:
        sections = [
            Section("The question", self._question()),
            Section("The answer", self._answer.html()),
            *self._slopes(),
            *self.more,
            Section("What was chosen, and why", self._choice()),
            Section("Does it look right?", self._diagnostics()),
            Section("How to repeat it", self._repeat()),
        ]
        return Page(self._title, self._subtitle, self._warnings(), sections)

    # The question

    @cached_property
    def _names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.fit.names.theta, expectation_names(self.fit)

    @cached_property
    def _digits(self) -> list[int]:
        return [digits_apart(column) for column in self.fit.theta.T]

    @property
    def _title(self) -> str:
        if self.title:
            return self.title
        what, of = _listed(self._names[1]), _listed(self._names[0])
        return f"{self.name}: {what} as a function of {of}" if self.name else capital(f"{what} as a function of {of}")

    @property
    def _subtitle(self) -> str:
        T = len(self.fit.theta)
        runs = "" if self.samples is None else f" from {self.samples.n_evaluations} evaluations of f,"
        return f"An estimate with {100 * self.level:.4g}% intervals,{runs} at {T} theta{'s' * (T > 1)}."

    def _question(self) -> Fragment:
        of = _listed(self._names[0])
        what = _listed([f"the {name}" if name.startswith("expected ") else name for name in self._names[1]])
        lines = [paragraph(f"What {'is' if len(self._names[1]) == 1 else 'are'} {what} as a function of {of}?")]
        if any(name.startswith("I") and name.endswith("(theta)") for name in self._names[1]):
            lines.append(paragraph("I(theta) = E[f(X, theta)] is the expectation of f over its random input X."))
        known: dict[str, str] = {} if self.name is None else {"problem": self.name}
        if self.prior is not None:
            known[f"prior of {of}"] = repr(self.prior)
        if self.samples is not None:
            known |= self._sampled(self.samples)
        ends = zip(self._names[0], self._digits, np.min(self.fit.theta, 0), np.max(self.fit.theta, 0), strict=True)
        known["observed thetas"] = "; ".join(f"{name} from {a:.{n}g} to {b:.{n}g}" for name, n, a, b in ends)
        return joined([*lines, facts({name: _elided(value) for name, value in known.items()})])

    def _sampled(self, samples: Samples) -> dict[str, str]:
        middle = int(np.argsort(samples.theta[:, 0], kind="stable")[samples.T // 2])
        at = zip(self._names[0], self._digits, samples.theta[middle], strict=True)
        where = ", ".join(f"{name} = {value:.{n}g}" for name, n, value in at)
        found = {"evaluations of f": f"{samples.n_evaluations}: {self._sizes(samples)}"}
        try:
            return {"distribution of X": f"{' '.join(repr(samples.measure(middle)).split())}, for {where}", **found}
        except (ValueError, TypeError, AttributeError):  # samples without measures
            return found

    def _sizes(self, samples: Samples) -> str:
        return f"{samples.T} thetas with {count_range(samples.counts)} {DESIGNS[samples.design]} points each"

    @property
    def _answer(self) -> AnswerSection:
        return AnswerSection(self.fit, self._grid, self.level, self.truth)

    @cached_property
    def _grid(self) -> AnswerGrid:
        return AnswerGrid.of(self.fit, self.prior, self.level)

    def _slopes(self) -> list[Section]:
        """The slopes along each coordinate, the others near their median; nothing for fits that have none."""
        try:
            rows = slope_panels(self.fit, self.prior, self.level, SLOPE_POINTS)
        except OBSERVED_ONLY:
            return []
        others = " The other coordinates are at their median." if self.fit.p > 1 else ""
        lines = [paragraph(f"Derivatives of the expectation in each coordinate of theta.{others}")]
        for panels, name in zip(rows, self._names[1], strict=False):
            lines.append(figure_html(panels, f"Slopes of {name}.", height=230))
        return [Section("How fast it changes", joined(lines))]

    # Choices, checks, and how to repeat it

    def _warnings(self) -> Fragment:
        found = sorted(self.fit.findings, key=lambda each: each.is_remark)
        labels: dict[bool, tuple[Kind, str]] = {False: ("warning", "Warning:"), True: ("remark", "Remark:")}
        notices = [] if self.first is None else [self.first]
        notices += [(*labels[each.is_remark], capital(each.text), each.remedy) for each in found]
        if all(kind == "good" for kind, *_ in notices):
            text = "Nothing in the samples or in the fit makes its intervals doubtful."
            notices.append(("good", "No warnings.", text, ""))
        return joined(notice(*each) for each in notices)

    def _choice(self) -> Fragment:
        lines = [*filter(None, [self.fit.choice]), *self.fit._description()]
        return joined(
            [bullets(_paragraphs(lines)), folded("The summary of the fit", code(str(self.fit.summary()), "summary"))]
        )

    def _diagnostics(self) -> Fragment:
        theta = self._grid.theta if self.prior is None else self.prior.sample(TRUTH_DRAWS, TRUTH_SEED)
        found = diagnose(self.fit, self.samples, self.truth, theta)
        if not found:
            return paragraph(
                "There is nothing to check this fit by: it leaves nothing out, and its estimates are averages."
            )
        return joined(self._diagnostic(each) for each in found)

    def _diagnostic(self, each: Diagnostic) -> Fragment:
        parts = [heading(each.title), paragraph(each.meaning)]
        parts.append(notice("good" if each.good else "warning", "", each.verdict))
        if each.theta is not None and each.residual is not None:
            parts.append(_residuals(each.theta, each.residual, self._names[0], self.fit.names.f))
        return joined(parts)

    def _repeat(self) -> Fragment:
        estimator = type(self.fit).__name__.removesuffix("Fit")
        lines = self.repeat or "\n".join(
            [
                "import cbq",
                "",
                "samples = ...  # " + ("values of f" if self.samples is None else self._sizes(self.samples)),
                f"fit = cbq.{estimator}().fit(samples)",
                'fit.report("report.html")',
            ]
        )
        known = {"estimator": estimator, **self.record}
        if self.samples is not None:
            known["samples"] = f"{self.samples.n_evaluations} evaluations of f: {self._sizes(self.samples)}"
        settings = ", ".join(f"{key} = {value}" for key, value in getattr(self.fit, "settings", {}).items())
        known |= {"settings": settings} if settings else {}
        return joined([code(lines, "how to repeat it"), facts({**known, **made_with()})])


def checked_tables(tables: Any) -> Sequence[Table]:
    """The results to show in further sections."""
    if not isinstance(tables, list | tuple) or not all(isinstance(each, Table) for each in tables):
        raise TypeError(f"more must be a list of results that are tables, but it is {shown(tables)}.")
    return tables


def _residuals(theta: Array, residual: Array, names: Sequence[str], outputs: Sequence[str]) -> Fragment:
    """Standardised residuals (m, C) against the first coordinate of theta (m, p)."""
    reach, several = float(ndtri(0.5 * (1 + LEVEL))), residual.shape[1] > 1
    marks: list[Any] = [Rule(at, "y", f"{LEVEL:.0%}", ORANGE) for at in (reach, -reach)]
    for c, column in enumerate(residual.T[:MAX_DRAWN]):
        colour = series(c)["colour"] if several else INK
        marks.append(Dots(theta[:, 0], column, label=plain(outputs[c]) if several else "residual", colour=colour))
    caption = f"Residuals over {names[0]}, in units of their standard deviation."
    return figure_html(Panel(marks, Axis(plain(names[0])), Axis("residual")), caption, height=200)


def _listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first few of many."""
    few = list(names[:4])
    if len(names) > 4:
        return f"{', '.join(few)} and {len(names) - 4} more"
    return few[0] if len(few) == 1 else f"{', '.join(few[:-1])} and {few[-1]}"


def _paragraphs(lines: Sequence[str]) -> list[str]:
    """Lines of a summary, with indented lines joined to the one before."""
    found: list[str] = []
    for line in lines:
        if line.startswith(" ") and found:
            found[-1] += f" {line.strip()}"
        else:
            found.append(line)
    return found


def _elided(words: str) -> str:
    """The same words, if they are not too many."""
    return words if len(words) <= MAX_FACT else f"{words[:MAX_FACT]} ..."
