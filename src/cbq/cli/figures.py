"""Figures in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cbq._arrays import Array
from cbq.cli.places import drawn, observed
from cbq.comparison.methods import REFUSALS, reason
from cbq.fit.base import Fit
from cbq.problem import Problem

DPI = 150


def write_figure(path: Path, draw: Callable[[], Any]) -> str:
    """Write what `draw` returns; returns a line on what became of it: a run is not lost for want of a figure."""
    try:
        draw().savefig(path, dpi=DPI)
    except (ImportError, ValueError) as error:
        return f"no {path.name}: {reason(error)}"
    return str(path)


def figure(fit: Fit, problem: Problem, level: float, line: Array) -> Any:
    """The answer of a fit over theta, with the truth where it is known; `line` are the thetas of its table."""
    if fit.p > 2:
        raise ValueError(f"a figure shows one or two coordinates of theta, but there are {fit.p}")
    truth = problem.exact if problem.has_exact else None
    try:
        return fit.plot(drawn(fit, line), level=level, truth=truth)
    except REFUSALS:  # a fit that has no answer between observed thetas
        return fit.plot(observed(fit), level=level, truth=truth)
