"""Surrogates of other packages and `cbq.Auto` on the same runs.

Run: .venv/bin/python benchmarks/published/surrogates.py [--seeds 3] [--out published]

The ten problems, and scikit-learn's process as a careful user would set it up, are those of `benchmarks/peers.py`,
with 160 and 512 Sobol points of 16 thetas. SMT's Kriging (`KRG`, Matern 5/2) and BoTorch's `SingleTaskGP` stand in
for it with their defaults, on the same standardised points; all integrals are averages of the mean over 8192 Sobol
points of the measure. Scores are RMSEs over 30 test thetas of the prior. A package that is not installed is left out.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import cbq
from _common import TEST_SEED, rmse
from _tables import Score, Table, run
from peers import CASES, COUNTS, RULE_POINTS, M, T, surrogate

BLOCK = 256  # points of a posterior of BoTorch
Predict = Callable[[np.ndarray], np.ndarray]


def smt(x: np.ndarray, f: np.ndarray) -> Predict:
    """SMT's Kriging."""
    from smt.surrogate_models import KRG

    model = KRG(corr="matern52", print_global=False, seed=0)
    model.set_training_values(x, f)
    with redirect_stdout(StringIO()):  # where a Gram matrix is nearly singular, SMT prints its eigenvalues
        model.train()
    return lambda at: np.asarray(model.predict_values(at)).ravel()


def botorch(x: np.ndarray, f: np.ndarray) -> Predict:
    """BoTorch's exact process."""
    import torch
    from botorch import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(0)
    model = SingleTaskGP(
        torch.tensor(x),
        torch.tensor(f)[:, None],
        train_Yvar=torch.full((len(f), 1), 1e-10 * np.var(f), dtype=torch.float64),
        outcome_transform=Standardize(1),
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))

    def predict(at: np.ndarray) -> np.ndarray:
        blocks = np.array_split(at, max(len(at) // BLOCK, 1))  # a posterior has the covariance of all its points
        with torch.no_grad():
            return np.concatenate([model.posterior(torch.tensor(block)).mean.numpy().ravel() for block in blocks])

    return predict


OTHERS = {"SMT": ("smt", smt), "BoTorch": ("botorch", botorch)}


def integrals(
    samples: cbq.Samples, theta: np.ndarray, train: Callable[[np.ndarray, np.ndarray], Predict]
) -> np.ndarray:
    """The means (M,) of a surrogate over points of the measures at theta (M, 1)."""

    def inputs(x: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.column_stack([x, np.broadcast_to(at, (len(x), 1))]) if samples.depends_on_theta else x

    points = inputs(samples.all_points, samples.theta[samples.owners])
    shift, scale = np.mean(points, axis=0), np.std(points, axis=0)
    predict = train((points - shift) / scale, samples.table[:, 0])
    levels = cbq.runs.draws.sobol(RULE_POINTS, samples.d, np.random.default_rng(0))
    measures = samples.conditional(theta)
    return np.array(
        [
            np.mean(predict((inputs(measure.transport(levels), row) - shift) / scale))
            for measure, row in zip(measures, theta, strict=True)
        ]
    )


def score(name: str, N: int, seed: int, estimate: Callable[[cbq.Samples, np.ndarray], np.ndarray]) -> Score:
    """The RMSE of estimates from the samples of a seed."""
    case = CASES[name]
    theta = case.problem.prior.sample(M, TEST_SEED)
    samples = case.problem.collect(T, N, rng=seed, design="sobol", progress=False)
    return rmse(estimate(samples, theta), case.truth(theta[:, 0])), None


def auto(name: str, N: int, seed: int) -> Score:
    """The scores of `cbq.Auto`."""
    case = CASES[name]
    theta = case.problem.prior.sample(M, TEST_SEED)
    truth = case.truth(theta[:, 0])
    fit = cbq.Auto().fit(case.problem.collect(T, N, rng=seed, design="sobol", progress=False))
    low, high = fit.interval(theta)
    return rmse(fit.predict(theta), truth), float(np.mean((low <= truth) & (truth <= high)))


def fill(table: Table, options: Namespace) -> None:
    """All problems, sizes and packages."""
    versions = {}
    for package in ("sklearn", *(package for package, _ in OTHERS.values())):
        try:
            versions[package] = f"{package} {import_module(package).__version__}"
        except ImportError:
            print(f"{package} is not installed, and is left out.")
    for N in COUNTS:
        for name in CASES:
            for seed in range(options.seeds):
                measure = partial(table.measure, name, runs=T * N, seed=seed)
                measure(method="Auto", call=partial(auto, name, N, seed))
                if "sklearn" in versions:
                    measure(
                        method="scikit-learn", call=partial(score, name, N, seed, surrogate), source=versions["sklearn"]
                    )
                for label, (package, train) in OTHERS.items():
                    if package in versions:
                        call = partial(score, name, N, seed, partial(integrals, train=train))
                        measure(method=label, call=call, source=versions[package])


if __name__ == "__main__":
    run(__doc__, fill, "surrogates", seeds=3)
