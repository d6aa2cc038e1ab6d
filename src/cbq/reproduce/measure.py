"""What is measured of methods: errors against the exact answer, coverage and width of intervals, seconds."""

from __future__ import annotations

from functools import lru_cache
from math import nan
from time import perf_counter
from typing import Any

import numpy as np

from cbq import problems
from cbq._arrays import Array
from cbq.fit.base import Fit
from cbq.methods.registry import REFUSALS, reason
from cbq.problem import Problem
from cbq.reproduce.cells import Cell, Row
from cbq.reproduce.methods import METHODS
from cbq.samples import Samples

MANY = 10**5  # points: with more, intervals are not asked for
SEED = 2024  # of the thetas that errors are taken at: none of the seeds of the samples
LEVEL = 0.95


def measure(cell: Cell, seed: int) -> list[Row]:
    """A row for each method of a cell: rmse, coverage, width, seconds of the fit and of the answer."""
    _, samples = collected(cell, seed)
    theta, truth = judged(cell.problem, cell.options, cell.thetas)
    return [_row(method, samples, theta, truth) for method in cell.methods]


def collected(cell: Cell, seed: int) -> tuple[Problem, Samples]:
    """The problem of a cell, and its samples."""
    problem = problems.get(cell.problem, **dict(cell.options))
    design: Any = cell.design
    return problem, problem.collect(cell.T, cell.N, rng=seed, design=design, batch=10_000, progress=False)


@lru_cache(maxsize=16)
def judged(name: str, options: tuple[tuple[str, Any], ...], M: int) -> tuple[Array, Array]:
    """Thetas (M, p) of the prior, always the same, and the exact answer there, (M,) or (M, C)."""
    problem = problems.get(name, **dict(options))
    theta = problem.prior.sample(M, SEED)
    return theta, problem.exact(theta)


def _row(method: str, samples: Samples, theta: Array, truth: Array) -> Row:
    """What one method makes of samples; where it refuses them, a note and no numbers."""
    start = perf_counter()
    try:
        fit = METHODS[method]().fit(samples)
        fitted = perf_counter()
        mean = np.asarray(fit.predict(theta))
    except REFUSALS as error:
        return {"method": method, "note": reason(error)}
    answered = perf_counter()
    coverage, width, note = _intervals(fit, theta, truth, many=samples.n_evaluations > MANY)
    return {
        "method": method,
        "rmse": rmse(mean, truth),
        "coverage": coverage,
        "width": width,
        "seconds": fitted - start,
        "answer_seconds": answered - fitted,
        "note": note,
    }


def rmse(mean: Array, truth: Array) -> float:
    """The root mean squared error over thetas and outputs."""
    return float(np.sqrt(np.mean((mean - truth) ** 2)))


def _intervals(fit: Fit, theta: Array, truth: Array, *, many: bool) -> tuple[float, float, str]:
    """The share of truths in intervals, their mean width, and a note where there are none."""
    if many:
        return nan, nan, ""
    try:
        low, high = fit.interval(theta, LEVEL)
    except REFUSALS as error:
        return nan, nan, f"no intervals: {reason(error)}"
    return float(np.mean((low <= truth) & (truth <= high))), float(np.mean(high - low)), ""
