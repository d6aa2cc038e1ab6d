"""Errors and coverage of all methods, with their defaults, on the four problems, for iid and Sobol points.

Run: .venv/bin/python benchmarks/accuracy.py [--seeds 20] [--problems linear sir] [--workers 2]

The table has the median and the worst RMSE over seeds, taken over thetas and outputs, and the coverage of 95% intervals
at the first 300 thetas over all seeds. Test thetas are drawn from the prior and are the same for all seeds and methods;
Monte Carlo predicts at observed thetas only, so its errors are taken there. Nothing is tuned to a problem.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cbq
from _common import (
    PROBLEMS,
    OneThreadPool,
    coverage,
    met,
    positive_integer,
    print_record,
    problem_with_truth,
    rmse,
    with_progress,
)
from experiments.methods import METHODS as SHARED_METHODS

DESIGNS = ("iid", "sobol")
WORST_SEED = 8.0  # target for the worst RMSE of CBQ, in units of its median
OF_BEST, OF_LSMC = 1.3, 2.0  # targets for Auto: in units of the best median, and of LSMC on any seed
METHODS: dict[str, Callable[[], Any]] = {
    **{name: SHARED_METHODS[name] for name in ("Auto", "MOBQ")},
    "CBQ, borrow=200": lambda: cbq.CBQ(borrow=200),
    **{name: SHARED_METHODS[name] for name in ("CBQ", "CBQ.paper", "LSMC", "KLSMC", "IS")},
    "IS self-normalised": lambda: cbq.ImportanceSampling("self-normalised"),
    "IS balance": SHARED_METHODS["IS balance"],
    "Monte Carlo": cbq.MonteCarlo,
}
COVERAGE_THETAS = 300  # test thetas of intervals
Score = tuple[float, float] | str  # RMSE and coverage, or why there are none
Scores = dict[tuple[str, str], list[Score]]  # by method and design, one for each seed


@dataclass(frozen=True)
class Case:
    """The size of a problem, the number of test thetas, and targets for the median RMSE by method and design."""

    T: int
    N: int
    targets: dict[tuple[str, str], float] = field(default_factory=dict)
    thetas: int = 3000  # with 300, a few thetas in the tails would dominate the RMSE on butterfly


CASES = {
    "linear": Case(
        50,
        50,
        {("CBQ", "iid"): 4e-4, ("CBQ", "sobol"): 1.7e-4, ("MOBQ", "iid"): 8e-5, ("CBQ, borrow=200", "iid"): 2e-4},
    ),
    "sir": Case(
        15,
        40,
        {("CBQ", "iid"): 2000.0, ("CBQ", "sobol"): 1300.0, ("MOBQ", "iid"): 130.0, ("CBQ, borrow=200", "iid"): 550.0},
    ),
    "butterfly": Case(
        20,
        50,
        {("CBQ", "iid"): 0.18, ("CBQ", "sobol"): 0.075, ("MOBQ", "iid"): 1.5e-3, ("CBQ, borrow=200", "iid"): 0.045},
    ),
    "health": Case(50, 50, {("CBQ", "iid"): 5.0, ("CBQ", "sobol"): 3.5}, thetas=500),
}


def scores(name: str, seed: int, methods: tuple[str, ...]) -> dict[tuple[str, str], Score]:
    """The RMSE and the coverage of methods on the samples of one seed, or why there are none."""
    case = CASES[name]
    problem, theta, truth = problem_with_truth(name, case.thetas)
    found: dict[tuple[str, str], Score] = {}
    for design in DESIGNS:
        samples = problem.collect(case.T, case.N, rng=seed, design=design)
        for method in methods:
            observed_only = method == "Monte Carlo"
            at, true = (samples.theta, problem.exact(samples.theta)) if observed_only else (theta, truth)
            try:
                fit = METHODS[method]().fit(samples)
                found[method, design] = rmse(fit.predict(at), true), coverage_or_nan(fit, at, true)
            except Exception as error:  # the table reports failures too
                found[method, design] = f"{type(error).__name__}: {error}"
    return found


def coverage_or_nan(fit: cbq.Fit, theta: np.ndarray, truth: np.ndarray) -> float:
    """The coverage of 95% intervals at the first thetas; NaN if the fit has no intervals."""
    try:
        return coverage(fit, theta[:COVERAGE_THETAS], truth[:COVERAGE_THETAS], 0.95)
    except ValueError:  # the fit has no standard errors
        return np.nan


def known_scores(values: list[Score]) -> np.ndarray:
    """The RMSEs and coverages (n, 2) of the seeds that have them."""
    return np.array([v for v in values if not isinstance(v, str)]).reshape(-1, 2)


def row(method: str, case: Case, results: Scores) -> str:
    """One row of the table: the errors and the coverage of a method, and whether its targets are met."""
    text, verdicts = f"  {method:20}", []
    for design in DESIGNS:
        values, good = results[method, design], known_scores(results[method, design])
        if not len(good):
            text += f" {'refuses':>25}"
            continue
        median, worst = np.median(good[:, 0]), np.max(good[:, 0])
        text += f" {median:9.2e} {worst:9.2e} {np.mean(good[:, 1]):5.3f}"
        failed = len(values) - len(good)
        target = case.targets.get((method, design))
        if target is not None:
            verdicts.append(f"{design} <= {target:g}: {met(bool(median <= target and not failed))}")
        if method == "CBQ":
            verdicts.append(f"worst <= {WORST_SEED:g} medians: {met(bool(worst <= WORST_SEED * median))}")
        if failed:
            verdicts.append(f"{design}: {failed} of {len(values)} FAILED")
    return text + "   " + "; ".join(verdicts)


def auto_row(results: Scores) -> str:
    """Whether Auto meets its targets, in both designs."""
    parts = []
    for design in DESIGNS:
        every = [known_scores(values) for (_, d), values in results.items() if d == design]
        medians = [np.median(good[:, 0]) for good in every if len(good)]
        mine, lsmc = (known_scores(results[m, design])[:, 0] for m in ("Auto", "LSMC"))
        ratio, worst = np.median(mine) / min(medians), np.max(mine / lsmc)
        parts.append(
            f"{design}: {ratio:.2f} times the best median (<= {OF_BEST:g}: {met(bool(ratio <= OF_BEST))}), at most "
            f"{worst:.2g} times LSMC on a seed (<= {OF_LSMC:g}: {met(bool(worst <= OF_LSMC))})"
        )
    return "  Auto, " + "; ".join(parts)


def main() -> None:
    """Print the run record and the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=positive_integer, default=20, help="number of seeds (default 20)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default 0)")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument(
        "--workers", type=positive_integer, default=2, help="processes with one thread each (default 2)"
    )
    options = parser.parse_args()
    print_record()
    last = options.first + options.seeds - 1
    print(f"RMSE, median and worst, and coverage of 95% intervals, of seeds {options.first} to {last}\n")
    heads = "".join(f" {design:>9} {'worst':>9} {'cover':>5}" for design in DESIGNS)
    print(f"{'problem, T, N':22}{heads}   targets")
    with OneThreadPool(options.workers) as pool:
        for name in options.problems:
            case = CASES[name]
            methods = tuple(options.methods)
            jobs = [(name, seed, methods) for seed in range(options.first, options.first + options.seeds)]
            pairs = with_progress(pool.run(scores, jobs), len(jobs), name)
            found = [result for _, result in sorted(pairs, key=lambda pair: pair[0])]
            results: Scores = {key: [each[key] for each in found] for key in found[0]}
            print(f"{name}, {case.T}, {case.N}, {case.thetas} thetas")
            for method in options.methods:
                print(row(method, case, results), flush=True)
            if {"Auto", "LSMC"} <= {*options.methods}:
                print(auto_row(results), flush=True)


if __name__ == "__main__":
    main()
