"""Probabilities of failure of published reliability problems, with no more runs than the published methods take.

Run: .venv/bin/python benchmarks/published/reliability.py [--problems hat pipe ...] [--seeds 10] [--first 0]
     [--parts one curve]

The problems and their input distributions are those of the collection UQTestFuns, which names the sources of the
published probabilities and numbers of runs; for the four branches it has 10^5 draws only, and 96 is a budget. The truth
is computed here from the definition: with two inputs by a midpoint rule on 4000 x 4000 cells, with more from 2^23 Sobol
points. "plain" checks it by 10^7 plain draws, with the standard error.

Each problem is solved twice with the published number of runs as the budget: at its own input distribution, and as a
curve over the mean of one input. Printed: the runs (median and maximum over seeds); the relative error (median and
maximum), for a curve the largest over 9 thetas; the seeds whose error is within 5% (10% for a probability below 1e-4),
or twice that for a curve; the share of truths inside 95% intervals; the seeds that stopped before the budget was spent;
and the seconds of a solve.
"""

from __future__ import annotations

import sys
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats.qmc import Sobol

sys.path.insert(0, str(Path(__file__).parents[1]))

import cbq
from _common import one_thread, positive_integer, print_record, progress
from cbq.measures import Empirical, Gaussian, LogNormal, Measure, Uniform
from cbq.runs import AdaptiveAnswer

THETAS = 9  # of a curve
CELLS, POINTS, DRAWS = 4000, 2**23, 10**7


@dataclass(frozen=True)
class Case:
    """A limit state g of x (n, d), which fails where g <= 0, and its measure when one mean is moved by theta.

    moved: the largest theta of the curve. published, runs: the probability, and the runs of the method that is named.
    """

    g: Callable[[np.ndarray], np.ndarray]
    measure: Callable[[float], Measure]
    moved: float
    published: float
    runs: int
    method: str

    @property
    def tolerance(self) -> float:
        return 0.05 if self.published >= 1e-4 else 0.1


def undamped(x):
    """3 r less the largest displacement of an oscillator under a rectangular pulse."""
    m, c1, c2, r, F, t = x.T
    w = np.sqrt((c1 + c2) / m)
    return 3 * r - np.abs(2 * F / (m * w**2) * np.sin(0.5 * w * t))


def hat(x):
    """A polynomial whose failures lie four standard deviations out."""
    return 0.5 * (x[:, 0] - 2) ** 2 - 1.5 * (x[:, 1] - 5) ** 3 - 3


def four_branch(x, p=24.5**0.5):
    """A series system: the least of four limit states, two of them curved."""
    difference, total = x[:, 0] - x[:, 1], (x[:, 0] + x[:, 1]) / np.sqrt(2)
    curved = 3 + 0.1 * difference**2 - np.abs(total)
    return np.minimum(curved, p - np.abs(difference))


def cantilever(x, E=2.6e10, span=6e3):
    """The deflection allowed less the deflection of a beam."""
    load, depth = x.T
    return span / 325 - 12 / 8 * span**4 / E * load / depth**3


def pipe(x, radius=0.3377, thickness=0.03377, moment=3.0):
    """The moment that a cracked pipe bears less the applied one."""
    stress, angle = x.T
    return 4 * thickness * stress * radius**2 * (np.cos(0.5 * angle) - 0.5 * np.sin(angle)) - moment


def damped(x, peak=3.0):
    """The capacity of the secondary spring of two masses under noise, less its peak force."""
    m_p, m_s, k_p, k_s, z_p, z_s, S, F = x.T
    w_p, w_s = np.sqrt(k_p / m_p), np.sqrt(k_s / m_s)
    w, z = 0.5 * (w_p + w_s), 0.5 * (z_p + z_s)
    mass, tuning = m_s / m_p, (w_p - w_s) / w
    response = np.pi * S / (4 * z_s * w_s**3) * z * z_s / (z_p * z_s * (4 * z**2 + tuning**2) + mass * z**2)
    response *= (z_p * w_p**3 + z_s * w_s**3) * w_p / (4 * z * w**4)
    return F - peak * k_s * np.sqrt(response)


def moved(mean: list[float], coordinate: int) -> Callable[[float], np.ndarray]:
    """The mean, one coordinate of which is moved by theta."""
    return lambda theta: np.array(mean) + theta * np.eye(len(mean))[coordinate]


def lognormal(mean: np.ndarray, variation: list[float]) -> LogNormal:
    """Independent inputs by their means and coefficients of variation."""
    variance = np.log1p(np.square(variation))
    return LogNormal(np.log(mean) - 0.5 * variance, std=np.sqrt(variance))


OSCILLATOR = moved([1.0, 1.0, 0.1, 0.5, 1.0, 1.0], 4)
DAMPED = moved([1.5, 0.01, 1.0, 0.01, 0.05, 0.02, 100.0, 15.0], 7)
CASES = {
    "pipe": Case(
        pipe, lambda t: Gaussian(moved([301.079, 0.503], 0)(t), std=[14.78, 0.049]), 7.0, 3.4353e-2, 7, "SSRM"
    ),
    "cantilever": Case(
        cantilever, lambda t: Gaussian(moved([1e3, 250.0], 0)(t), std=[200.0, 37.5]), 100.0, 9.594e-3, 18, "SSRM"
    ),
    "hat": Case(hat, lambda t: Gaussian(moved([0.0, 0.0], 1)(t), std=[1.0, 1.0]), 0.25, 2.85e-5, 26, "AK-IS"),
    "undamped": Case(
        undamped, lambda t: Gaussian(OSCILLATOR(t), std=[0.05, 0.1, 0.01, 0.05, 0.2, 0.2]), 0.1, 2.834e-2, 45, "AK-MCS"
    ),
    "four-branch": Case(
        four_branch, lambda t: Gaussian(moved([0.0, 0.0], 0)(t), std=[1.0, 1.0]), 0.25, 2.185961e-3, 96, "budget"
    ),
    "damped": Case(
        damped,
        lambda t: lognormal(DAMPED(t), [0.1, 0.1, 0.2, 0.2, 0.4, 0.5, 0.1, 0.1]),
        0.75,
        4.8e-3,
        1064,
        "Meta-IS",
    ),
}


def truth(case: Case, theta: float) -> float:
    """The probability, in normal coordinates."""
    measure = case.measure(theta)
    if measure.dim > 2:
        u = Sobol(measure.dim, rng=1).random(POINTS) + 2.0**-33
        return float(np.mean(case.g(measure.transport(np.minimum(u, 1 - 2.0**-33))) <= 0))
    z = (np.arange(CELLS) + 0.5) / CELLS * 15 - 7.5
    weight = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) * 15 / CELLS
    total = 0.0
    for rows in np.array_split(np.arange(CELLS), 16):
        grid = np.stack(np.meshgrid(z[rows], z, indexing="ij"), axis=-1).reshape(-1, 2)
        fails = case.g(measure.transport(grid, "normal")) <= 0
        total += float(np.outer(weight[rows], weight).ravel() @ fails)
    return total


def plain(case: Case) -> tuple[float, float]:
    """The share of plain draws that fail, and its standard error."""
    rng, measure = np.random.default_rng(2), case.measure(0.0)
    share = float(np.mean([np.mean(case.g(measure.sample(DRAWS // 10, rng)) <= 0) for _ in range(10)]))
    return share, float(np.sqrt(share * (1 - share) / DRAWS))


def solved(case: Case, prior: Measure, theta: np.ndarray, seed: int) -> tuple[AdaptiveAnswer, np.ndarray]:
    """The answer of a seed, and estimate and ends of the interval (3, M) at thetas (M,)."""
    problem = cbq.Problem(lambda x, _: case.g(x), lambda t: case.measure(t[0]), prior, depends_on_theta=False)
    goal = cbq.Probability(below=0.0)
    answer = problem.solve(goal=goal, relative=case.tolerance, budget=case.runs, rng=seed)
    return answer, np.array(answer.estimate(theta[:, None]))


def main() -> None:
    """Solve the problems, and print a table."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--seeds", type=positive_integer, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--parts", nargs="+", choices=["one", "curve"], default=["one", "curve"])
    asked = parser.parse_args()
    warnings.simplefilter("ignore", cbq.FitWarning)
    print_record()
    seeds = range(asked.first, asked.first + asked.seeds)
    for name in asked.problems:
        case = CASES[name]
        p, (share, error), zero = truth(case, 0.0), plain(case), np.zeros(1)
        print(f"\n{name}: P = {p:.5g}, plain {share:.4g} +- {error:.2g}, published {case.published:g}", flush=True)
        if "one" in asked.parts:
            rows, start = [], time.perf_counter()
            for seed in seeds:
                progress(f"{name}, seed {seed}")
                answer, found = solved(case, Empirical([[0.0]]), zero, seed)
                estimate, low, high = found[:, 0]
                rows.append((answer.n_runs, estimate / p - 1, low <= p <= high, answer.reached))
            progress("")
            report("one theta", case, rows, (time.perf_counter() - start) / len(seeds))
        if "curve" in asked.parts:
            theta = case.moved * np.linspace(-0.9, 0.9, THETAS)
            curve, start = np.array([truth(case, t) for t in theta]), time.perf_counter()
            rows = []
            for seed in seeds:
                progress(f"{name}, curve, seed {seed}")
                answer, (estimate, low, high) = solved(case, Uniform(-case.moved, case.moved), theta, seed)
                inside = np.mean((low <= curve) & (curve <= high))
                rows.append((answer.n_runs, np.max(np.abs(estimate / curve - 1)), inside, answer.reached))
            progress("")
            print(f"  curve from {curve[0]:.3g} to {curve[-1]:.3g}", flush=True)
            report("curve", case, rows, (time.perf_counter() - start) / len(seeds))


def report(what: str, case: Case, rows: list[tuple[int, float, float, bool]], seconds: float) -> None:
    """Print a row of the table, and the errors of all seeds."""
    runs, errors, inside, stopped = map(np.array, zip(*rows, strict=True))
    allowed = case.tolerance * (1 if what == "one theta" else 2)
    print(
        f"  {what}: runs {np.median(runs):g} (at most {max(runs)}; {case.method}: {case.runs}), error median "
        f"{np.median(np.abs(errors)):.3f} largest {np.max(np.abs(errors)):.3f}, within {allowed:.0%}: "
        f"{np.sum(np.abs(errors) <= allowed)} of {len(rows)}, inside {np.mean(inside):.2f}, stopped {np.sum(stopped)}, "
        f"{seconds:.1f} s",
        flush=True,
    )
    print(f"    errors: {' '.join(f'{e:+.3f}' for e in errors)}", flush=True)


if __name__ == "__main__":
    with one_thread():
        main()
