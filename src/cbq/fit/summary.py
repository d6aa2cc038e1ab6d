"""The summary of a fit, a string with structured attributes: its lines, and how notebooks show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common import Integers
from cbq.fit.findings import Finding
from cbq.report import html
from cbq.samples import Design, Samples

if TYPE_CHECKING:
    from cbq.fit.base import Fit


DESIGNS = {"iid": "iid", "sobol": "Sobol", "mcmc": "MCMC", "adaptive": "adaptive"}


def chosen_findings(design: Design) -> tuple[Finding, ...]:
    """A finding about averages of f over points that are no draws of their measures."""
    if design != "adaptive":
        return ()
    text = (
        "some points were chosen by a rule and are no draws of their measures, so averages of f over them are biased, "
        "and standard errors say nothing about it."
    )
    return (Finding("chosen points", text),)


def design_findings(design: Design) -> tuple[Finding, ...]:
    """Findings about standard errors that assume independent points."""
    if design == "sobol":
        text = (
            "Sobol points are more accurate than independent points, so these standard errors, which assume "
            "independence, are too large."
        )
        return (Finding("design", text),)
    if design == "mcmc":
        text = (
            "points of a Markov chain are correlated, so these standard errors, which assume independence, are too "
            "small."
        )
        return (Finding("chains", text),)
    return chosen_findings(design)


def heading(fit: Fit, method: str, counts: Integers, design: Design) -> list[str]:
    """The first line about how a fit was made."""
    T, p = fit.theta.shape
    thetas = "1 theta" if T == 1 else f"{T} thetas"
    points = f"{count_range(counts)} {DESIGNS[design]} point{'s' * bool(np.max(counts) > 1)}{' each' * (T > 1)}"
    engine = getattr(fit, "settings", {}).get("engine")
    return [f"{method}: {thetas} (p = {p}), {points}.{f' Engine: {engine}.' if engine else ''}"]


def count_range(counts: Integers) -> str:
    """The number of points of each theta, or their range."""
    return f"{counts[0]}" if np.all(counts == counts[0]) else f"{counts.min()} to {counts.max()}"


def on_one_line(text: str) -> str:
    """A text without line breaks, such as the repr of a kernel with many lengthscales."""
    return " ".join(text.split())


def per_output(lines: Sequence[Sequence[str]], fit: Fit) -> list[str]:
    """The lines of each output, under its name where f has an axis of outputs."""
    if fit.C is None:
        return list(lines[0])
    names = fit.names.f if fit.names.are_given("f") else [f"Output {c}" for c in range(fit.C)]
    return [
        line for name, each in zip(names, lines, strict=True) for line in (f"{name}:", *(f"  {line}" for line in each))
    ]


def saving_lines(samples: Samples) -> list[str]:
    """A line for fits that need the measures of x at new thetas, where a file cannot hold them."""
    if samples.conditional.fits_in_file:
        return []
    return ["Saving: a file holds no code, so loading needs the family again: cbq.load(path, family=...)."]


class Summary(str):
    """A text of several lines, whose parts are attributes.

    choice : why the estimator was chosen, where several were tried; else None.
    description : the lines on how the fit was made and on its choices.
    findings : what a user should know, each with a `kind`, a `text` and a `remedy`; their texts are `warnings`.
    failed : whether the first line states that a goal was not reached; notebooks show it in red.
    """

    choice: str | None
    description: tuple[str, ...]
    findings: tuple[Finding, ...]
    failed: bool

    def __new__(
        cls,
        text: str,
        choice: str | None = None,
        description: Sequence[str] = (),
        findings: Sequence[Finding] = (),
        failed: bool = False,
    ) -> Summary:
        found = super().__new__(cls, text)
        found.failed = failed
        found.choice, found.description, found.findings = choice, tuple(description), tuple(findings)
        return found

    @classmethod
    def of(cls, fit: Fit) -> Summary:
        """The summary of a fit; it begins with failures of f if there are many."""
        findings = fit.findings
        texts = [f"{finding} {finding.remedy}" for finding in findings]
        first, last = texts[: fit.has_many_failures], texts[fit.has_many_failures :]
        lines = fit._description()
        if fit.names.listed:
            lines.append(f"Names: {fit.names.listed}.")
        if fit.calibration is not None:
            factors = ", ".join(f"{factor:.2g}" for factor in fit.calibration)
            lines.append(f"Calibration: standard deviations are {factors} times as large as in this fit alone.")
        before = [*(f"WARNING: {text}" for text in first), *filter(None, [fit.choice])]
        after = [f"Warning: {text}" for text in last] if texts else ["No warnings."]
        return cls("\n".join([*before, *lines, *after]), fit.choice, lines, findings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The texts of all findings."""
        return tuple(map(str, self.findings))

    def __repr__(self) -> str:
        return str(self)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return str(self), self.choice, self.description, self.findings, self.failed

    def _repr_html_(self) -> str:
        title, *lines = self.description or str(self).split("\n")
        notes = [f"Warning: {each} {each.remedy}" for each in self.findings] or ["No warnings."]
        return html.box(title, {"": "\n".join(filter(None, [self.choice, *lines]))}, notes=notes, failed=self.failed)


def fit_html(fit: Fit) -> str:
    """The thetas and outputs of a fit, and its summary, with warnings."""
    entries = {
        "thetas": f"{len(fit.theta)}: {fit.names.ranges('theta', fit.theta)}",
        "outputs": "" if fit.C is None else f"{fit.C}: {', '.join(fit.names.f)}",
        "names": fit.names.listed,
    }
    return html.box(type(fit).__name__, entries, html.folded("summary", str(fit.summary())))
