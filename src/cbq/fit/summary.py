"""Lines that the summaries of all fits share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq._arrays import Integers
from cbq.fit.base import Fit
from cbq.fit.findings import Finding
from cbq.samples import Samples
from cbq.samples.samples import Design

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
