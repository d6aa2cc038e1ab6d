"""The capital requirement of a life insurer: value at risk of 99.5% by nested simulation, published and ours.

Run: .venv/bin/python benchmarks/published/capital.py [--seeds 3] [--out published]

The model, its parameters, the value 252.75873881492225 and the errors of least-squares Monte Carlo and of multilevel
Monte Carlo are those of arXiv:2510.18995; `benchmarks/_risk_models.py` restates the model and has a closed form,
which agrees. Ours: `solve(goal=cbq.ValueAtRisk(0.995), budget=...)`. Runs here, for comparison, have as many runs:
nested Monte Carlo with as many outer as inner draws, and `cbq.LSMC` from 16 outer draws of the prior.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import cbq
from _risk_models import Insurer
from _tables import Score, Table, published, run

LEVEL, PRINTED = 0.995, 252.75873881492225
SOURCE = "arXiv:2510.18995"
THEIRS = (  # method, runs, error
    ("least-squares Monte Carlo", 8_192, 5.14),
    ("least-squares Monte Carlo", 67_108_864, 1.14),
    ("multilevel Monte Carlo", 100_000, 10.9),
    ("multilevel Monte Carlo", 100_000_000, 0.66),
)
BUDGETS = (256, 1024)
OUTER = 16  # thetas of LSMC
TAIL = 4096  # draws of theta for the quantile of a fit


def nested(runs: int, seed: int) -> Score:
    """The error of a quantile of plain averages."""
    insurer, rng = Insurer(), np.random.default_rng(seed)
    n, d = int(np.sqrt(runs)), insurer.horizon - 1
    losses = [np.mean(insurer.loss(rng.standard_normal((n, d)), row)) for row in rng.standard_normal((n, 1))]
    return abs(np.quantile(losses, LEVEL) - PRINTED), None


def regression(runs: int, seed: int) -> Score:
    """The error of a quantile of least-squares Monte Carlo."""
    problem = Insurer().problem
    fit = cbq.LSMC().fit(problem.collect(OUTER, runs // OUTER, rng=seed, progress=False))
    return abs(np.quantile(fit.predict(problem.prior.sample(TAIL, seed)), LEVEL) - PRINTED), None


def ours(runs: int, seed: int) -> Score:
    """The error of an adaptive run, and whether its interval holds the value."""
    answer = Insurer().problem.solve(goal=cbq.ValueAtRisk(LEVEL), budget=runs, rng=seed)
    estimate, low, high = (float(value) for value in answer.estimate())
    return abs(estimate - PRINTED), float(low <= PRINTED <= high)


def fill(table: Table, options: Namespace) -> None:
    """The published errors, and ours."""
    if abs(Insurer().value_at_risk(LEVEL) - PRINTED) > 1e-9:
        raise ValueError(
            f"the model has the value at risk {Insurer().value_at_risk(LEVEL)!r}, published is {PRINTED!r}"
        )
    for method, runs, error in THEIRS:
        table.add(published("capital", method, runs, error, SOURCE))
    for runs in BUDGETS:
        for seed in range(options.seeds):
            table.measure("capital", "nested Monte Carlo, here", runs, seed, lambda n=runs, s=seed: nested(n, s))
            table.measure("capital", "cbq.LSMC", runs, seed, lambda n=runs, s=seed: regression(n, s))
            table.measure("capital", "solve", runs, seed, lambda n=runs, s=seed: ours(n, s))


if __name__ == "__main__":
    run(__doc__, fill, "capital", seeds=3)
