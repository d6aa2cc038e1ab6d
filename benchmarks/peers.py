"""`cbq.Auto` against a Gaussian process surrogate of scikit-learn, as a careful user would set it up.

Run: .venv/bin/python benchmarks/peers.py [--seeds 5] [--problems "gamma, d = 1"] [--workers 2]

Both see the same values of f, at 160 and at 512 Sobol points of 16 thetas. The surrogate is one process on the
standardised points (on x and theta where f depends on both): Matern 5/2 with a lengthscale for every coordinate, an
amplitude and a tiny noise, all by maximum likelihood from several starts. Its integrals are averages of its mean over
many Sobol points of the measure. The table has the RMSEs over test thetas from the prior, and that of Auto in units of
the surrogate's. scikit-learn is no dependency of cbq: install it with `pip install scikit-learn`.
"""

from __future__ import annotations

import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import gamma, norm

import cbq
from _common import TEST_SEED, OneThreadPool, met, positive_integer, print_record, rmse, with_progress
from cbq.measures import Gamma, Gaussian, LogNormal, Product, Uniform

M = 30  # test thetas
T, COUNTS = 16, (10, 32)  # thetas, and points of each
RULE_POINTS = 2**13  # of the surrogate's integrals
RESTARTS = 3  # of the surrogate's likelihood, beside the first start
WITHIN = 1.1  # target: the largest median RMSE of Auto, in units of the surrogate's
METHODS = ("surrogate", "Auto", "MOBQ", "CBQ")
Truth = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Case:
    """A problem, and the truth as a function of theta (M,)."""

    problem: cbq.Problem
    truth: Truth


def of_x(f: Callable[[np.ndarray], np.ndarray], family: Callable[[np.ndarray], cbq.measures.Measure]) -> cbq.Problem:
    """A problem whose f depends on x only, with theta between 1 and 3."""
    return cbq.Problem(lambda x, theta: f(x), family, Uniform(1.0, 3.0), depends_on_theta=False)


def of_both(f: Callable[..., np.ndarray], family: Callable[[np.ndarray], cbq.measures.Measure]) -> cbq.Problem:
    """A problem whose f depends on theta too."""
    return cbq.Problem(f, family, Uniform(1.0, 3.0))


def decay(a: np.ndarray | float, k: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    """E exp(-a X) for X ~ Gamma(k, b)."""
    return (b / (b + a)) ** k


def gamma_excess(c: float, k: np.ndarray, b: float) -> np.ndarray:
    """E max(X - c, 0) for X ~ Gamma(k, b)."""
    return k / b * gamma.sf(c, k + 1, scale=1 / b) - c * gamma.sf(c, k, scale=1 / b)


def excess(m: np.ndarray, s: float) -> np.ndarray:
    """E max(X, 0) for X ~ N(m, s^2)."""
    return m * norm.cdf(m / s) + s * norm.pdf(m / s)


def lognormal_power(power: float, m: np.ndarray | float, s2: float) -> np.ndarray:
    """E X^power for log X ~ N(m, s2)."""
    return np.exp(power * m + 0.5 * power**2 * s2)


CASES = {
    "gamma, d = 1": Case(
        of_x(lambda x: np.sin(x[:, 0]) + 0.5 * x[:, 0], lambda t: Gamma(t[0], 2.0)),
        lambda t: np.imag((1 - 0.5j) ** -t) + 0.25 * t,
    ),
    "gamma, d = 2": Case(
        of_x(
            lambda x: x[:, 0] * np.exp(-0.5 * x[:, 1]) + np.cos(x[:, 0]),
            lambda t: Product([Gamma(t[0], 2.0), Gamma(2.0, t[0])]),
        ),
        lambda t: 0.5 * t * decay(0.5, 2.0, t) + np.real((1 - 0.5j) ** -t),
    ),
    "gamma, d = 3": Case(
        of_x(
            lambda x: (1 + x[:, 0]) * np.exp(-0.4 * x[:, 1] - 0.2 * x[:, 2]),
            lambda t: Product([Gamma(t[0], 1.0), Gamma(2.0, t[0]), Gamma(3.0, 2.0)]),
        ),
        lambda t: (1 + t) * decay(0.4, 2.0, t) * decay(0.2, 3.0, 2.0),
    ),
    "gamma, kink": Case(
        of_x(lambda x: np.maximum(x[:, 0] - 1.0, 0.0), lambda t: Gamma(t[0], 2.0)), lambda t: gamma_excess(1.0, t, 2.0)
    ),
    "lognormal, d = 2": Case(
        of_x(
            lambda x: np.sqrt(x[:, 0]) + x[:, 0] / x[:, 1], lambda t: LogNormal([0.3 * t[0], 0.0], [[0.2, 0], [0, 0.1]])
        ),
        lambda t: (
            lognormal_power(0.5, 0.3 * t, 0.2) + lognormal_power(1.0, 0.3 * t, 0.2) * lognormal_power(-1.0, 0.0, 0.1)
        ),
    ),
    "uniform, d = 3": Case(
        of_x(
            lambda x: np.cos(x[:, 0] + 0.5 * x[:, 1]) * (1 + x[:, 2] ** 2),
            lambda t: Uniform([0.0, 0.0, 0.0], [t[0], 2.0, 1.0]),
        ),
        lambda t: np.real((np.exp(1j * t) - 1) / (1j * t) * (np.exp(1j) - 1) / 1j) * 4 / 3,
    ),
    "gaussian, kink": Case(
        of_x(lambda x: np.maximum(x[:, 0] + x[:, 1] - 1.0, 0.0), lambda t: Gaussian([t[0], 0.0], [1.0, 1.0])),
        lambda t: excess(t - 1.0, np.sqrt(2.0)),
    ),
    "gaussian, d = 5": Case(
        of_x(
            lambda x: np.cos(0.5 * np.sum(x, axis=1)) + x[:, 0] * x[:, 1],
            lambda t: Gaussian(np.append(t, np.zeros(4)), np.ones(5)),
        ),
        lambda t: np.exp(-5 / 8) * np.cos(0.5 * t),
    ),
    "of both, d = 1": Case(
        of_both(lambda x, t: np.sin(t[0] * x[:, 0]), lambda t: Gaussian(t[0], cov=0.5)),
        lambda t: np.exp(-0.25 * t**2) * np.sin(t**2),
    ),
    "of both, gamma": Case(
        of_both(
            lambda x, t: np.exp(-t[0] * x[:, 0]) + t[0] * np.cos(x[:, 1]),
            lambda t: Product([Gamma(2.0, t[0]), Gamma(t[0], 2.0)]),
        ),
        lambda t: decay(t, 2.0, t) + t * np.real((1 - 0.5j) ** -t),
    ),
}


def surrogate(samples: cbq.Samples, theta: np.ndarray) -> np.ndarray:
    """The means (M,) of a scikit-learn process over points of the measures at theta (M, 1)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    def inputs(x: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.column_stack([x, np.broadcast_to(at, (len(x), 1))]) if samples.depends_on_theta else x

    points = inputs(samples.all_points, samples.theta[samples.owners])
    shift, scale = np.mean(points, axis=0), np.std(points, axis=0)
    kernel = ConstantKernel(1.0, (1e-4, 1e8)) * Matern(np.ones(points.shape[1]), (1e-2, 1e4), nu=2.5)
    process = GaussianProcessRegressor(
        kernel, alpha=1e-10, normalize_y=True, n_restarts_optimizer=RESTARTS, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a lengthscale at its bound
        process.fit((points - shift) / scale, samples.table[:, 0])
    levels = cbq.runs.draws.sobol(RULE_POINTS, samples.d, np.random.default_rng(0))
    return np.array(
        [
            np.mean(process.predict((inputs(measure.transport(levels), row) - shift) / scale))
            for measure, row in zip(samples.conditional(theta), theta, strict=True)
        ]
    )


def errors(name: str, N: int, seed: int) -> dict[str, float]:
    """The RMSE of each method on the samples of one seed."""
    case = CASES[name]
    theta = case.problem.prior.sample(M, TEST_SEED)
    truth = case.truth(theta[:, 0])
    samples = case.problem.collect(T, N, rng=seed, design="sobol")
    fits = {"Auto": cbq.Auto(), "MOBQ": cbq.MOBQ(), "CBQ": cbq.CBQ()}
    found = {method: rmse(each.fit(samples).predict(theta), truth) for method, each in fits.items()}
    return {"surrogate": rmse(surrogate(samples, theta), truth), **found}


def main() -> None:
    """Print the run record, the table, and how many medians of Auto are within the target."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=positive_integer, default=5, help="number of seeds, from 0 on (default 5)")
    parser.add_argument("--problems", nargs="+", choices=CASES, default=list(CASES), metavar="PROBLEM")
    parser.add_argument(
        "--workers", type=positive_integer, default=2, help="processes with one thread each (default 2)"
    )
    options = parser.parse_args()
    try:
        import sklearn
    except ImportError:
        sys.exit("This benchmark needs scikit-learn, which cbq does not: run `pip install scikit-learn` first.")
    print_record()
    print(f"scikit-learn {sklearn.__version__}; median RMSE over {options.seeds} seeds, Sobol points of {T} thetas\n")
    print(f"{'problem':17} {'n':>4}" + "".join(f" {m:>9}" for m in METHODS) + f" {'ratio':>6} {'worst':>6}   within")
    ratios = []
    with OneThreadPool(options.workers) as pool:
        for name in options.problems:
            for N in COUNTS:
                jobs = [(name, N, seed) for seed in range(options.seeds)]
                found = [result for _, result in with_progress(pool.run(errors, jobs), len(jobs), name)]
                medians = {method: np.median([each[method] for each in found]) for method in METHODS}
                ratios.append(medians["Auto"] / medians["surrogate"])
                worst = max(each["Auto"] / each["surrogate"] for each in found)
                print(
                    f"{name:17} {T * N:4}"
                    + "".join(f" {medians[m]:9.2e}" for m in METHODS)
                    + f" {ratios[-1]:6.2f} {worst:6.2g}   {met(ratios[-1] <= WITHIN)}",
                    flush=True,
                )
    inside = sum(ratio <= WITHIN for ratio in ratios)
    print(f"\nMedian of Auto over that of the surrogate: at most {WITHIN:g} in {inside} of {len(ratios)} rows")


if __name__ == "__main__":
    main()
