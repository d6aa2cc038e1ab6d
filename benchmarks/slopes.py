"""Slopes of I: errors, coverage of their intervals, and errors beside differences of draws of the curve.

Run: .venv/bin/python benchmarks/slopes.py [--seeds 20] [--problems "of theta" ...] [--estimator MOBQ]

True slopes are central differences of closed forms, and pathwise derivatives at 2^17 Sobol points for the book of Asian
options: 12 dates, calls bought at 100 and 120 and sold twice at 110. Columns: the root-mean-square error over thetas in
units of the slopes' own (geometric mean over seeds); the shares of slopes inside 95% and 50% intervals; the half-width
of 95% intervals / 1.96 / error; and the error over the error of bumping: differences of averages of 100 draws of
`fit.sample` at thetas 1% of their range away on both sides, drawn one after the other.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from collections.abc import Callable

import numpy as np
from scipy.stats import norm, qmc

import cbq
from _common import one_thread, print_record, progress
from _matrix import CASES

Array = np.ndarray
T, N, M = 15, 16, 40
NAMES = ("butterfly", "smooth", "kink", "gamma", "beta and gamma", "of theta", "moving kink", "two thetas")
BOOK = "Asian options"
DRAWS, BUMP = 100, 0.01
SIGMA, DATES, STRIKES, HELD = 0.2, 12, (100.0, 110.0, 120.0), (1.0, -2.0, 1.0)


def averages(x: Array, spot: float) -> Array:
    """The average price (n,) of paths with independent normal increments x (n, DATES), a year in all."""
    dt = 1 / DATES
    steps = np.cumsum(-0.5 * SIGMA**2 * dt + SIGMA * np.sqrt(dt) * x, axis=1)
    return spot * np.mean(np.exp(steps), axis=1)


def book() -> tuple[cbq.Problem, Callable[[Array], Array]]:
    """The book as a function of the spot price, and its delta."""

    def value(x: Array, theta: Array) -> Array:
        average = averages(x, theta[0])
        return sum(n * np.maximum(average - K, 0.0) for n, K in zip(HELD, STRIKES, strict=True))

    def delta(theta: Array) -> Array:
        x = norm.ppf(qmc.Sobol(DATES, rng=0).random(2**17))
        unit = averages(x, 1.0)
        each = [
            sum(n * np.mean(unit * (s * unit > K)) for n, K in zip(HELD, STRIKES, strict=True)) for s in theta[:, 0]
        ]
        return np.array(each)[:, None]

    normal = cbq.measures.Normal(np.zeros(DATES), std=np.ones(DATES))
    return cbq.Problem(value, lambda theta: normal, cbq.measures.Uniform(80.0, 130.0)), delta


def slopes_by_differences(truth: Callable[[Array], Array], spread: Array) -> Callable[[Array], Array]:
    """Central differences of I, with steps of 1e-4 of the spread (p,) of theta."""
    steps = 1e-4 * np.diag(spread)
    return lambda theta: np.stack([(truth(theta + s) - truth(theta - s)) / (2 * np.max(s)) for s in steps], axis=1)


def row(name: str, seeds: int, estimator: Callable[[], object]) -> str:
    """The line of a problem."""
    problem, slopes = (CASES[name].problem(), None) if name != BOOK else book()
    theta = problem.prior.transport(qmc.Sobol(problem.prior.dim, rng=1).random(64)[:M] * 0.98 + 0.01)
    spread = np.ptp(theta, axis=0)
    true = (slopes or slopes_by_differences(CASES[name].truth or problem.exact, spread))(theta)
    size, errors, bumped, held, half, width = np.sqrt(np.mean(true**2)), [], [], [], [], []
    for seed in range(seeds):
        progress(f"{name}, seed {seed}")
        samples = problem.collect(T, N, rng=seed, design="sobol")
        with one_thread(), warnings.catch_warnings(action="ignore", category=cbq.FitWarning):
            fit = estimator().fit(samples)
            found, low, high = fit.gradient(theta, level=0.95)
            _, low50, high50 = fit.gradient(theta, level=0.5)
            ends = [
                [np.mean(fit.sample(theta + sign * s, DRAWS, seed + 1000 * (sign > 0)), axis=0) for sign in (1, -1)]
                for s in BUMP * np.diag(spread)
            ]
        difference = np.stack(
            [(up - down) / (2 * BUMP * w) for (up, down), w in zip(ends, spread, strict=True)], axis=1
        )
        errors.append(np.sqrt(np.mean((found - true) ** 2)))
        bumped.append(np.sqrt(np.mean((difference - true) ** 2)))
        held.append(np.mean((low <= true) & (true <= high)))
        half.append(np.mean((low50 <= true) & (true <= high50)))
        width.append(np.sqrt(np.mean((high - low) ** 2)) / 2 / 1.96)

    def middle(values: Array) -> float:
        return float(np.exp(np.mean(np.log(values))))

    wide, beside = middle(np.array(width) / errors), middle(np.array(errors) / bumped)
    covers = f"{np.mean(held):.3f} | {np.mean(half):.3f}"
    return f"| {name} | {middle(errors) / size:.1e} | {covers} | {wide:.1f} | {beside:.2f} |"


def main() -> None:
    """Print a line for each problem."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--problems", nargs="+", default=[*NAMES, BOOK])
    parser.add_argument("--estimator", default="Auto", choices=["Auto", "CBQ", "MOBQ"])
    options = parser.parse_args()
    print_record()
    print("| problem | error | 95% covers | 50% covers | width / error | error / bumping |\n|---|---|---|---|---|---|")
    for name in options.problems:
        print(row(name, options.seeds, getattr(cbq, options.estimator)), flush=True)


if __name__ == "__main__":
    main()
