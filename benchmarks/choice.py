"""How well `cbq.Auto` chooses, on problems that are not in the paper.

Run: .venv/bin/python benchmarks/choice.py [--seeds 5] [--first 1000] [--problems step abs] [--workers 2]

The table has the RMSEs, over 100 test thetas from the prior, of Auto and of the methods that it chooses from, and the
RMSE of Auto in units of the smallest. The truth is a closed form, except for one problem, which uses quadrature.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln
from scipy.stats import norm

import cbq
from _common import TEST_SEED, OneThreadPool, positive_integer, print_record, rmse, with_progress
from cbq.measures import Gamma, Gaussian, Uniform

M = 100  # test thetas
LEVELS = (np.arange(200_000) + 0.5) / 200_000  # a midpoint rule on (0, 1), for integrals over quantiles
ONE, TWO = Uniform(0.0, 3.0), Uniform([0.0, 0.0], [2.0, 2.0])
Truth = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Case:
    """A problem, its size, and the truth as a function of theta (M, p); None stands for quadrature."""

    problem: cbq.Problem
    T: int
    N: int
    truth: Truth | None = None


def line(theta: np.ndarray) -> Gaussian:
    """N(theta, 1)."""
    return Gaussian(theta[0], 1.0)


def plane(theta: np.ndarray) -> Gaussian:
    """N(theta, S) with unit variances and correlation 1/2."""
    return Gaussian(theta, [[1.0, 0.5], [0.5, 1.0]])


def of_x(
    f: Callable[[np.ndarray], np.ndarray], family: Callable[[np.ndarray], cbq.measures.Measure] = line, prior=ONE
) -> cbq.Problem:
    """A problem whose f depends on x only."""
    return cbq.Problem(lambda x, theta: f(x), family, prior, depends_on_theta=False)


def excess(m: np.ndarray, s: float = 1.0) -> np.ndarray:
    """E max(X, 0) for X ~ N(m, s^2)."""
    return m * norm.cdf(m / s) + s * norm.pdf(m / s)


def absolute(m: np.ndarray) -> np.ndarray:
    """E |X| for X ~ N(m, 1)."""
    return excess(m) + excess(-m)


def around(d: int) -> Callable[[np.ndarray], Gaussian]:
    """The function theta -> N((theta, 0, ..., 0), I) in d dimensions."""
    return lambda theta: Gaussian(np.append(theta, np.zeros(d - 1)), np.ones(d))


CASES = {
    "step": Case(of_x(lambda x: (x[:, 0] > 1.5) * 1.0), 30, 50, lambda t: norm.cdf(t[:, 0] - 1.5)),
    "abs": Case(of_x(lambda x: np.abs(x[:, 0] - 1.5)), 20, 15, lambda t: absolute(t[:, 0] - 1.5)),
    "sin": Case(of_x(lambda x: np.sin(2 * x[:, 0])), 15, 12, lambda t: np.exp(-2) * np.sin(2 * t[:, 0])),
    "runge": Case(of_x(lambda x: 1 / (1 + 4 * x[:, 0] ** 2)), 12, 20),
    "root": Case(
        of_x(lambda x: np.sqrt(x[:, 0]), lambda t: Gamma(1 + t[0], 2.0)),
        *(12, 20, lambda t: np.exp(gammaln(t[:, 0] + 1.5) - gammaln(t[:, 0] + 1)) / np.sqrt(2)),
    ),
    "tail": Case(of_x(lambda x: np.maximum(x[:, 0] - 3, 0)), 20, 20, lambda t: excess(t[:, 0] - 3)),
    "far": Case(
        of_x(lambda x: np.sin(3 * x[:, 0]), lambda t: Gaussian(10 * t[0], cov=0.25)),
        *(20, 10, lambda t: np.exp(-1.125) * np.sin(30 * t[:, 0])),
    ),
    "exp, d = 2": Case(
        of_x(lambda x: np.exp(0.5 * x[:, 0] - 0.3 * x[:, 1]), around(2)),
        *(15, 20, lambda t: np.exp(0.5 * t[:, 0] + 0.17)),
    ),
    "max, d = 2": Case(
        of_x(lambda x: np.max(x, axis=1), plane, TWO), 30, 20, lambda t: t[:, 1] + excess(t[:, 0] - t[:, 1])
    ),
    "cos, d = 2": Case(
        of_x(lambda x: np.cos(2 * x[:, 0] + x[:, 1]), plane, TWO),
        *(30, 20, lambda t: np.exp(-3.5) * np.cos(2 * t[:, 0] + t[:, 1])),
    ),
    "call, d = 3": Case(
        of_x(lambda x: np.maximum(np.sum(x, axis=1) - 0.5, 0), around(3)),
        *(20, 25, lambda t: excess(t[:, 0] - 0.5, np.sqrt(3))),
    ),
    "abs, d = 5": Case(
        of_x(lambda x: np.sum(np.abs(x), axis=1), around(5)),
        *(20, 25, lambda t: absolute(t[:, 0]) + 4 * absolute(np.zeros(1))),
    ),
    "turns": Case(
        cbq.Problem(lambda x, t: np.sin(x[:, 0] * t[0]), line, ONE),
        *(15, 15, lambda t: np.exp(-0.5 * t[:, 0] ** 2) * np.sin(t[:, 0] ** 2)),
    ),
    "kink moves": Case(
        cbq.Problem(lambda x, t: np.abs(x[:, 0] - 0.5 * t[0] ** 2), line, ONE),
        *(20, 15, lambda t: absolute(t[:, 0] - 0.5 * t[:, 0] ** 2)),
    ),
    "laplace": Case(
        cbq.Problem(lambda x, t: np.exp(-t[0] * x[:, 0]), lambda t: Gamma(2.0, t[0]), Uniform(1.0, 3.0)),
        *(12, 15, lambda t: np.full(len(t), 0.25)),
    ),
    "squares, d = 6": Case(
        cbq.Problem(
            lambda x, t: t[0] * np.sum(x**2, axis=1) + x[:, 0] * x[:, 1],
            lambda t: Gaussian(np.full(6, t[0]), np.ones(6)),
            ONE,
        ),
        *(20, 25, lambda t: 6 * t[:, 0] * (t[:, 0] ** 2 + 1) + t[:, 0] ** 2),
    ),
}


def methods(samples: cbq.Samples) -> dict[str, object]:
    """Auto and the methods that it chooses from."""
    found = {"Auto": cbq.Auto(), "MOBQ": cbq.MOBQ(), "CBQ": cbq.CBQ(), "LSMC": cbq.LSMC()}
    return found if samples.depends_on_theta else {**found, "borrow": cbq.CBQ(borrow=200)}


def errors(name: str, seed: int, design: str) -> tuple[dict[str, float], str]:
    """The RMSE of each method on the samples of one seed, and the method that Auto chose."""
    case = CASES[name]
    theta = case.problem.prior.sample(M, TEST_SEED)
    truth = _by_quadrature(case.problem, theta) if case.truth is None else case.truth(theta)
    samples = case.problem.collect(case.T, case.N, rng=seed, design=design)
    fits = {method: each.fit(samples) for method, each in methods(samples).items()}  # type: ignore[attr-defined]
    auto = fits["Auto"]
    chosen = "MOBQ" if isinstance(auto, cbq.estimators.MOBQFit) else "CBQ" if auto.rows is None else "borrow"
    return {method: rmse(fit.predict(theta), truth) for method, fit in fits.items()}, chosen


def _by_quadrature(problem: cbq.Problem, theta: np.ndarray) -> np.ndarray:
    measures = [problem.family(row) for row in theta]
    return np.array([np.mean(problem.integrand(measure.transport(LEVELS), None)) for measure in measures])


def row(name: str, results: list[tuple[dict[str, float], str]]) -> tuple[str, list[float]]:
    """One row of the table, and the RMSEs of Auto in units of the smallest."""
    ratios = [found["Auto"] / min(found.values()) for found, _ in results]
    text = f"{name:15}"
    for method in ("Auto", "MOBQ", "borrow", "CBQ", "LSMC"):
        values = [found[method] for found, _ in results if method in found]
        text += f" {np.median(values):9.2e}" if values else f" {'-':>9}"
    worst = max(found["Auto"] / found["LSMC"] for found, _ in results)
    chosen = ", ".join(f"{each} {sum(c == each for _, c in results)}" for each in ("MOBQ", "borrow", "CBQ"))
    return f"{text} {np.median(ratios):7.2f} {max(ratios):7.2f} {worst:9.2g}   {chosen}", ratios


def main() -> None:
    """Print the run record, the table, and how near to the best method Auto is."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=positive_integer, default=5, help="number of seeds (default 5)")
    parser.add_argument("--first", type=int, default=1000, help="first seed (default 1000)")
    parser.add_argument("--problems", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument(
        "--workers", type=positive_integer, default=2, help="processes with one thread each (default 2)"
    )
    options = parser.parse_args()
    print_record()
    print(f"median RMSE over {options.seeds} seeds from {options.first} on, iid and Sobol points\n")
    print(
        f"{'problem':15}"
        + "".join(f" {m:>9}" for m in ("Auto", "MOBQ", "borrow", "CBQ", "LSMC"))
        + f" {'/ best':>7} {'worst':>7} {'/ LSMC':>9}   chosen"
    )
    every: list[float] = []
    with OneThreadPool(options.workers) as pool:
        for name in options.problems:
            seeds = range(options.first, options.first + options.seeds)
            jobs = [(name, seed, design) for seed in seeds for design in ("iid", "sobol")]
            results = with_progress(pool.run(errors, jobs), len(jobs), name)
            text, ratios = row(name, [result for _, result in results])
            print(text, flush=True)
            every += ratios
    shares = ", ".join(f"{np.mean(np.array(every) <= r):.0%} within {r:g} times" for r in (1.0, 1.3, 2.0, 4.0))
    print(f"\nRMSE of Auto in units of the smallest, {len(every)} cases: {shares}, at most {max(every):.1f} times")


if __name__ == "__main__":
    main()
