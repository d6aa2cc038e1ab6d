"""Errors and coverage of all methods on the four problems, with their defaults, from iid and from Sobol points.

Run: .venv/bin/python benchmarks/accuracy.py [--seeds 20] [--problems linear sir] [--workers 2]

Errors are RMSEs over thetas (and outputs), their median and worst value over seeds; coverage is the share of truths in
the 95% interval at the first 300 thetas, over all seeds. Thetas are drawn from the prior, the same for all seeds and
methods; Monte Carlo says nothing elsewhere, and is judged at the thetas of its samples. Nothing is tuned to a problem.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import cbq
from _common import PROBLEMS, Pool, at_least_one, judged, print_record, rmse, yes

DESIGNS = ("iid", "sobol")
WORST = 8.0  # the target for the worst seed of CBQ, in medians
OF_BEST, OF_LSMC = 1.3, 2.0  # targets for Auto: of the best median, and of LSMC on any seed
METHODS: dict[str, Callable[[], object]] = {
    "Auto": cbq.Auto,
    "MOBQ": cbq.MOBQ,
    "CBQ, borrow=200": lambda: cbq.CBQ(borrow=200),
    "CBQ": cbq.CBQ,
    "CBQ.paper": cbq.CBQ.paper,
    "LSMC": cbq.LSMC,
    "KLSMC": cbq.KLSMC,
    "IS, plain": lambda: cbq.ImportanceSampling("plain"),
    "IS, self-normalised": lambda: cbq.ImportanceSampling("self-normalised"),
    "IS, balance": lambda: cbq.ImportanceSampling("balance"),
    "Monte Carlo": cbq.MonteCarlo,
}
COVERED = 300  # thetas at which intervals are judged
Result = tuple[float, float] | str  # RMSE and coverage, or why there is none
Results = dict[tuple[str, str], list[Result]]  # by method and design, one for each seed


@dataclass(frozen=True)
class Case:
    """The size of a problem, the number of thetas that errors are measured at, and targets by method and design."""

    T: int
    N: int
    targets: dict[tuple[str, str], float] = field(default_factory=dict)
    thetas: int = 3000  # with 300, the few in the tails decide about butterfly


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


def errors(name: str, seed: int, methods: tuple[str, ...]) -> dict[tuple[str, str], Result]:
    """The RMSE and the coverage of methods on the samples of one seed, or why they have none."""
    case = CASES[name]
    problem, theta, truth = judged(name, case.thetas)
    found: dict[tuple[str, str], Result] = {}
    for design in DESIGNS:
        samples = problem.collect(case.T, case.N, rng=seed, design=design)
        for method in methods:
            elsewhere = method != "Monte Carlo"
            at, true = (theta, truth) if elsewhere else (samples.theta, problem.exact(samples.theta))
            try:
                fit = METHODS[method]().fit(samples)  # type: ignore[attr-defined]
                found[method, design] = rmse(fit.predict(at), true), coverage(fit, at[:COVERED], true[:COVERED])
            except Exception as error:  # a failure is a result: it belongs in the table
                found[method, design] = f"{type(error).__name__}: {error}"
    return found


def coverage(fit: cbq.Fit, theta: np.ndarray, truth: np.ndarray) -> float:
    """The share of truths in the 95% interval; NaN where there is none."""
    try:
        low, high = fit.interval(theta, 0.95)
    except ValueError:  # no standard error
        return np.nan
    return float(np.mean((low <= truth) & (truth <= high)))


def numbers(values: list[Result]) -> np.ndarray:
    """The errors and coverages (n, 2) that there are."""
    return np.array([v for v in values if not isinstance(v, str)]).reshape(-1, 2)


def row(method: str, case: Case, results: Results) -> str:
    """One row of the table: the errors and the coverage of a method, and whether its targets are met."""
    text, verdicts = f"  {method:20}", []
    for design in DESIGNS:
        values, good = results[method, design], numbers(results[method, design])
        if not len(good):
            text += f" {'refuses':>25}"
            continue
        median, worst = np.median(good[:, 0]), np.max(good[:, 0])
        text += f" {median:9.2e} {worst:9.2e} {np.mean(good[:, 1]):5.3f}"
        failed = len(values) - len(good)
        target = case.targets.get((method, design))
        if target is not None:
            verdicts.append(f"{design} <= {target:g}: {yes(bool(median <= target and not failed))}")
        if method == "CBQ":
            verdicts.append(f"worst <= {WORST:g} medians: {yes(bool(worst <= WORST * median))}")
        if failed:
            verdicts.append(f"{design}: {failed} of {len(values)} FAILED")
    return text + "   " + "; ".join(verdicts)


def of_auto(results: Results) -> str:
    """Whether Auto is as good as it should be, in both designs."""
    parts = []
    for design in DESIGNS:
        every = [numbers(values) for (_, d), values in results.items() if d == design]
        medians = [np.median(good[:, 0]) for good in every if len(good)]
        mine, lsmc = (numbers(results[m, design])[:, 0] for m in ("Auto", "LSMC"))
        ratio, worst = np.median(mine) / min(medians), np.max(mine / lsmc)
        parts.append(
            f"{design}: {ratio:.2f} times the best median (<= {OF_BEST:g}: {yes(bool(ratio <= OF_BEST))}), at most "
            f"{worst:.2g} times LSMC on a seed (<= {OF_LSMC:g}: {yes(bool(worst <= OF_LSMC))})"
        )
    return "  Auto, " + "; ".join(parts)


def main() -> None:
    """Print the run record and the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=at_least_one, default=20, help="how many (default 20)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--workers", type=at_least_one, default=2, help="processes, of one thread each (default 2)")
    options = parser.parse_args()
    print_record()
    last = options.first + options.seeds - 1
    print(f"RMSE, median and worst, and coverage of 95% intervals, of seeds {options.first} to {last}\n")
    heads = "".join(f" {design:>9} {'worst':>9} {'cover':>5}" for design in DESIGNS)
    print(f"{'problem, T, N':22}{heads}   targets")
    with Pool(options.workers) as pool:
        for name in options.problems:
            case = CASES[name]
            methods = tuple(options.methods)
            jobs = [(name, seed, methods) for seed in range(options.first, options.first + options.seeds)]
            found = [result for _, result in sorted(pool.run(errors, jobs, name), key=lambda pair: pair[0])]
            results: Results = {key: [each[key] for each in found] for key in found[0]}
            print(f"{name}, {case.T}, {case.N}, {case.thetas} thetas")
            for method in options.methods:
                print(row(method, case, results), flush=True)
            if {"Auto", "LSMC"} <= {*options.methods}:
                print(of_auto(results), flush=True)


if __name__ == "__main__":
    main()
