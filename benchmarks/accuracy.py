"""Errors of all methods on the four problems, with their defaults, from iid and from Sobol points.

Run: .venv/bin/python benchmarks/accuracy.py [--seeds 20] [--problems linear sir] [--workers 2]

Every number is an RMSE over thetas (and outputs), its median or worst value over seeds. Thetas are drawn from the
prior, the same for all seeds and methods; Monte Carlo says nothing elsewhere, and is judged at the thetas of its
samples. Nothing is tuned to a problem.
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
Results = dict[tuple[str, str], list[float | str]]  # by method and design, one for each seed


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


def errors(name: str, seed: int) -> dict[tuple[str, str], float | str]:
    """The RMSE of each method on the samples of one seed, or why it has none."""
    case = CASES[name]
    problem, theta, truth = judged(name, case.thetas)
    found: dict[tuple[str, str], float | str] = {}
    for design in DESIGNS:
        samples = problem.collect(case.T, case.N, rng=seed, design=design)
        for method, make in METHODS.items():
            try:
                fit = make().fit(samples)  # type: ignore[attr-defined]
                if method == "Monte Carlo":
                    found[method, design] = rmse(fit.predict(samples.theta), problem.exact(samples.theta))
                else:
                    found[method, design] = rmse(fit.predict(theta), truth)
            except Exception as error:  # a failure is a result: it belongs in the table
                found[method, design] = f"{type(error).__name__}: {error}"
    return found


def numbers(values: list[float | str]) -> list[float]:
    """The errors that there are."""
    return [v for v in values if not isinstance(v, str)]


def row(method: str, case: Case, results: Results) -> str:
    """One row of the table: the median and the worst error of a method, and whether its targets are met."""
    text, verdicts = f"  {method:20}", []
    for design in DESIGNS:
        values, good = results[method, design], numbers(results[method, design])
        if not good:
            text += f" {'refuses':>19}"
            continue
        median, worst = float(np.median(good)), max(good)
        text += f" {median:9.2e} {worst:9.2e}"
        failed = len(values) - len(good)
        target = case.targets.get((method, design))
        if target is not None:
            verdicts.append(f"{design} <= {target:g}: {yes(median <= target and not failed)}")
        if method == "CBQ":
            verdicts.append(f"worst <= {WORST:g} medians: {yes(worst <= WORST * median)}")
        if failed:
            verdicts.append(f"{design}: {failed} of {len(values)} FAILED")
    return text + "   " + "; ".join(verdicts)


def of_auto(results: Results) -> str:
    """Whether Auto is as good as it should be, in both designs."""
    parts = []
    for design in DESIGNS:
        medians = {m: float(np.median(numbers(results[m, design]))) for m in METHODS if numbers(results[m, design])}
        mine = results["Auto", design]
        others = [float(a) / float(b) for a, b in zip(mine, results["LSMC", design], strict=True)]
        ratio = medians["Auto"] / min(medians.values())
        parts.append(
            f"{design}: {ratio:.2f} times the best median (<= {OF_BEST:g}: {yes(ratio <= OF_BEST)}), at most "
            f"{max(others):.2g} times LSMC on a seed (<= {OF_LSMC:g}: {yes(max(others) <= OF_LSMC)})"
        )
    return "  Auto, " + "; ".join(parts)


def main() -> None:
    """Print the run record and the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=at_least_one, default=20, help="how many (default 20)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--workers", type=at_least_one, default=2, help="processes, of one thread each (default 2)")
    options = parser.parse_args()
    print_record()
    print(f"RMSE, median and worst of seeds {options.first} to {options.first + options.seeds - 1}\n")
    print(f"{'problem, T, N':22}" + "".join(f" {design:>9} {'worst':>9}" for design in DESIGNS) + "   targets")
    with Pool(options.workers) as pool:
        for name in options.problems:
            case = CASES[name]
            jobs = [(name, seed) for seed in range(options.first, options.first + options.seeds)]
            found = [result for _, result in sorted(pool.run(errors, jobs, name), key=lambda pair: pair[0])]
            results: Results = {key: [each[key] for each in found] for key in found[0]}
            print(f"{name}, {case.T}, {case.N}, {case.thetas} thetas")
            for method in METHODS:
                print(row(method, case, results))
            print(of_auto(results), flush=True)


if __name__ == "__main__":
    main()
