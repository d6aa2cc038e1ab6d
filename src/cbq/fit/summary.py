"""What the summaries of all fits have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq._arrays import Integers
from cbq.fit.base import Fit
from cbq.samples.samples import Design


def design_warnings(design: Design) -> tuple[str, ...]:
    """What standard errors for independent points do not know about points drawn otherwise."""
    if design == "sobol":
        return (
            "the points are a Sobol design, which is better than independent points: the standard errors, which are "
            "for independent ones, are too large.",
        )
    if design == "mcmc":
        return (
            "the points are those of a Markov chain, which says less than independent points: the standard errors, "
            "which are for independent ones, are too small.",
        )
    return ()


def heading(fit: Fit, method: str, counts: Integers, design: Design) -> list[str]:
    """The first lines of a summary."""
    T, p = fit.theta.shape
    chosen = [] if fit.choice is None else [f"Chosen: {fit.choice}"]
    return [*chosen, f"{method}: {T} theta{'s' * (T > 1)} (p = {p}), {span(counts)} {design} points each."]


def span(counts: Integers) -> str:
    """Numbers of points in words."""
    return f"{counts[0]}" if np.all(counts == counts[0]) else f"{counts.min()} to {counts.max()}"


def per_output(lines: Sequence[Sequence[str]], C: int | None) -> list[str]:
    """The lines of each output, under its name where f has an axis of outputs."""
    if C is None:
        return list(lines[0])
    return [line for c, each in enumerate(lines) for line in (f"Output {c}:", *(f"  {line}" for line in each))]


def warning_lines(warnings: Sequence[str]) -> list[str]:
    """The last lines of a summary."""
    return [f"Warning: {warning}" for warning in warnings] or ["No warnings."]
