"""The methods of the experiments, by name, and their scores on one cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan, sqrt
from statistics import fmean
from typing import Any

import cbq
from cbq import CBQ, KLSMC, LSMC, MOBQ, Auto, ImportanceSampling
from cbq.comparison import ComparisonRow
from cbq.kernels import RBF, Kernel, Matern, Stein, TensorProduct, Warped
from experiments.analysis import Row
from experiments.common import problem_with_truth
from experiments.experiment import Cell

BASELINES = ("LSMC", "KLSMC", "IS", "IS balance")
LANDMARKS = 500


def _gaussianised(base: Matern | RBF) -> Kernel:
    return Warped(TensorProduct(base), "gaussianise")


METHODS: dict[str, Callable[[], Any]] = {
    "CBQ.paper": CBQ.paper,
    "LSMC": LSMC,
    "KLSMC": KLSMC,
    "IS": lambda: ImportanceSampling("plain"),
    "IS balance": lambda: ImportanceSampling("balance"),
    "CBQ": CBQ,
    "MOBQ": MOBQ,
    "Auto": Auto,
    "MOBQ, Nystrom": lambda: MOBQ(nystrom=LANDMARKS),
    "MOBQ, kernel given": lambda: MOBQ(kernel_x=RBF(1.0)),
    "CBQ.paper, lambda = 0": lambda: CBQ.paper(lambdas=(0.0,)),
    "CBQ.paper, Stein": lambda: CBQ.paper(Stein(Matern(1.5))),
    # kernels of theta
    "CBQ.paper, theta Matern 3/2": lambda: CBQ.paper(kernel_theta=Matern(1.5)),
    "CBQ.paper, theta Gaussian": lambda: CBQ.paper(kernel_theta=RBF()),
    "CBQ, theta Matern 3/2": lambda: CBQ(kernel_theta=Matern(1.5)),
    "CBQ, theta Gaussian": lambda: CBQ(kernel_theta=RBF()),
    # kernels of x
    "CBQ.paper, x Matern 3/2": lambda: CBQ.paper(kernel_x=_gaussianised(Matern(1.5))),
    "CBQ.paper, x Gaussian": lambda: CBQ.paper(kernel_x=_gaussianised(RBF())),
    "CBQ.paper, x Stein": lambda: CBQ.paper(kernel_x=Stein(Matern(1.5))),
    "CBQ, x Matern 3/2": lambda: CBQ(kernel_x=_gaussianised(Matern(1.5))),
    "CBQ, x Gaussian": lambda: CBQ(kernel_x=_gaussianised(RBF())),
    "CBQ, x Stein": lambda: CBQ(kernel_x=Stein(Matern(1.5))),
}


def score_methods(cell: Cell, seed: int) -> list[Row]:
    """A row for each method of a cell: RMSE, coverage and width of 95% intervals, and seconds of the fit."""
    _, theta, truth = problem_with_truth(cell.problem, cell.thetas, cell.options)
    methods = {name: METHODS[name]() for name in cell.methods}
    rows = cbq.compare(collect_cell(cell, seed), methods, truth, theta=theta).rows
    return [_over_outputs([row for row in rows if row.method == name]) for name in cell.methods]


def collect_cell(cell: Cell, seed: int) -> cbq.Samples:
    """The samples of a cell."""
    problem = cbq.problems.get(cell.problem, **dict(cell.options))
    design: Any = cell.design
    return problem.collect(cell.T, cell.N, rng=seed, design=design, batch=10_000, progress=False)


def _over_outputs(rows: Sequence[ComparisonRow]) -> Row:
    """The scores of a method over all outputs; a score that is not known is left out."""
    scores = {
        "rmse": sqrt(fmean(row.rmse * row.rmse for row in rows)),
        "coverage": fmean(row.coverage for row in rows),
        "width": fmean(row.width for row in rows),
        "seconds": rows[0].seconds,
    }
    known = {name: value for name, value in scores.items() if not isnan(value)}
    return {"method": rows[0].method, **known, "note": rows[0].note}
