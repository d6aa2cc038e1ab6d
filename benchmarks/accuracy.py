"""Error of the default estimator on the four problems, beside the paper's choices and plain Monte Carlo.

Run: .venv/bin/python benchmarks/accuracy.py [--seeds 20] [--problems linear sir] [--workers 2]

Every number is an RMSE over thetas (and outputs), its median or worst value over seeds. Thetas are drawn from the
prior, the same for all seeds and methods; Monte Carlo says nothing elsewhere, and is judged at the thetas of its
samples. Nothing is tuned to a problem: `cbq.CBQ()` and `cbq.CBQ.paper()` as they are.
"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass

import numpy as np

import cbq
from _common import PROBLEMS, Pool, at_least_one, judged, print_record, rmse, yes

M = 3000  # thetas at which errors are measured: with 300, the few in the tails decide about butterfly
WORST = 8.0  # the target for the worst seed, in medians
METHODS = ("CBQ, iid", "CBQ, Sobol", "paper, iid", "Monte Carlo")


@dataclass(frozen=True)
class Case:
    """The size of a problem, and the targets for the median RMSE of the first two methods."""

    T: int
    N: int
    targets: tuple[float, float]


CASES = {
    "linear": Case(50, 50, (4e-4, 1.7e-4)),
    "sir": Case(15, 40, (2000.0, 1300.0)),
    "butterfly": Case(20, 50, (0.18, 0.075)),
    "health": Case(50, 50, (5.0, 3.5)),
}


def errors(name: str, seed: int) -> dict[str, float | str]:
    """The RMSE of each method on the samples of one seed, or why it has none."""
    case, (problem, theta, truth) = CASES[name], judged(name, M)
    iid, sobol = (problem.collect(case.T, case.N, rng=seed, design=design) for design in ("iid", "sobol"))
    found: dict[str, float | str] = {"Monte Carlo": rmse(np.mean(iid.f, axis=1), problem.exact(iid.theta))}
    fits = (("CBQ, iid", cbq.CBQ(), iid), ("CBQ, Sobol", cbq.CBQ(), sobol), ("paper, iid", cbq.CBQ.paper(), iid))
    for method, estimator, samples in fits:
        try:
            found[method] = rmse(estimator.fit(samples).predict(theta), truth)
        except Exception as error:  # a failure is a result: it belongs in the table
            found[method] = f"{type(error).__name__}: {error}"
    return found


def row(name: str, results: list[dict[str, float | str]]) -> str:
    """One row of the table."""
    case = CASES[name]
    text, verdicts = f"{name:9} {case.T:3} {case.N:3}", ""
    for k, method in enumerate(METHODS):
        values = [r[method] for r in results]
        good = [v for v in values if not isinstance(v, str)]
        median, worst = (np.median(good), np.max(good)) if good else (np.nan, np.nan)
        failed = len(values) - len(good)
        text += f" {median:8.2e} {worst:8.2e}" if not failed else f" {f'{failed}/{len(values)} FAILED':>17}"
        if k < len(case.targets):
            met, steady = (yes(bool(not failed and ok)) for ok in (median <= case.targets[k], worst <= WORST * median))
            verdicts += f" {case.targets[k]:8g} {met:>4} {steady:>5}"
    return text + " " + verdicts


def failures(name: str, results: list[dict[str, float | str]]) -> list[str]:
    """What went wrong, each message once."""
    return sorted({f"{name}, {method}: {v}" for r in results for method, v in r.items() if isinstance(v, str)})


def main() -> None:
    """Print the run record and the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=at_least_one, default=20, help="how many, from 0 on (default 20)")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--workers", type=at_least_one, default=2, help="processes, of one thread each (default 2)")
    options = parser.parse_args()
    print_record()
    print(
        f"RMSE over {M} thetas, median and worst of seeds 0 to {options.seeds - 1}; "
        f"targets: for the median, and worst <= {WORST:g} medians\n"
    )
    print(f"{'':17}" + "".join(f" {method:>17}" for method in METHODS) + f"  {'target, iid':>19} {'target, Sobol':>19}")
    columns = f" {'median':>8} {'worst':>8}" * len(METHODS) + " " + f" {'median':>8} {'met':>4} {'worst':>5}" * 2
    print(f"{'problem':9} {'T':>3} {'N':>3}{columns}")
    notes = []
    with Pool(options.workers) as pool:
        for name in options.problems:
            jobs = [(name, seed) for seed in range(options.seeds)]
            results = [result for _, result in pool.run(errors, jobs, name)]
            print(row(name, results), flush=True)
            notes += failures(name, results)
    print("".join(f"\n{note}" for note in notes))


if __name__ == "__main__":
    main()
