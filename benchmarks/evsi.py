"""EVSI from tables of draws: errors in units of the standard error for studies whose EVSI is known, and seconds.

Run: .venv/bin/python benchmarks/evsi.py [--models normal,binomial,simulated,trial,odds] [--rows 5000] [--tables 20]
    [--workers 2]

The studies and their EVSI, in closed form and by brute force, are in `_evsi_models.py`. For `normal` and `binomial` all
sizes come from one regression on the input; `simulated` is the same normal study as a function of the user's own, and
`trial` has two arms, and `odds` two arms about a risk and an odds ratio, so that net benefits are regressed on
simulated summaries.

For each study and size: the truth, bias and root-mean-square error (RMSE) over the tables, the mean standard error, the
share of 95% intervals that hold the truth, and in how many tables the estimate is within 3 standard errors of it. Then
the seconds for 20 sizes on a table of 10,000 rows.
"""

from __future__ import annotations

from argparse import ArgumentParser
from time import perf_counter, process_time

import numpy as np

import cbq
from _common import OneThreadPool, met, positive_integer, print_record, with_progress
from _evsi_models import MODELS

SIZES = [5, 20, 50, 200]
TIMED_ROWS, TIMED_SIZES, TIMED_LIMIT = 10_000, [round(each) for each in np.geomspace(5, 2000, 20)], 60.0
TWO_WAYS_AGREE = 0.03  # relative difference of a formula and of brute force, which is from draws


def analysed(name: str, rows: int, seed: int) -> np.ndarray:
    """Estimates, standard errors and ends of intervals, (4, sizes), for one table."""
    model = MODELS[name]
    outputs, inputs = model.table(rows, np.random.default_rng([seed, rows]))
    found = cbq.evsi(outputs, inputs, list(model.pars), model.study, SIZES).rows
    return np.array([[row.evsi, row.se, row.lower, row.upper] for row in found]).T


def check_truths(names: list[str]) -> None:
    """Raise if the formula and brute force disagree."""
    for name in names:
        for n in SIZES:
            one, other = MODELS[name].formula(n), MODELS[name].brute_force(n)
            if abs(one - other) > TWO_WAYS_AGREE * one:
                raise RuntimeError(f"EVSI of {name} at {n} is {one} by the formula and {other} by brute force.")


def print_study(name: str, found: np.ndarray) -> bool:
    """Print a line for each size from results (tables, 4, sizes), and return whether 19 of 20 are within 3 se."""
    reached = True
    for j, n in enumerate(SIZES):
        truth = MODELS[name].formula(n)
        estimate, se, lower, upper = found[:, :, j].T
        error = estimate - truth
        near = int(np.sum(np.abs(error) <= 3 * se))
        reached &= near >= 0.95 * len(found)
        print(
            f"{name:<10}{n:>5}{truth:>9.2f}{error.mean():>9.3f}{np.sqrt(np.mean(error**2)):>9.3f}{se.mean():>9.3f}"
            f"{np.mean((lower <= truth) & (truth <= upper)):>7.2f}{near:>6} of {len(found)}",
            flush=True,
        )
    return reached


def print_seconds(name: str) -> bool:
    """Print the seconds of 20 sizes on 10,000 rows, and return whether they are within the limit."""
    model = MODELS[name]
    outputs, inputs = model.table(TIMED_ROWS, np.random.default_rng(0))
    start, cpu = perf_counter(), process_time()
    cbq.evsi(outputs, inputs, list(model.pars), model.study, TIMED_SIZES)
    wall, cpu = perf_counter() - start, process_time() - cpu
    print(f"{name:<10}{len(TIMED_SIZES)} sizes, {TIMED_ROWS} rows: {wall:.1f} s, {cpu:.1f} s of CPU time")
    return wall <= TIMED_LIMIT


def main() -> None:
    """Print all tables and whether the targets are met."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help="some of " + ", ".join(MODELS))
    parser.add_argument("--rows", type=positive_integer, default=5000)
    parser.add_argument("--tables", type=positive_integer, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first table")
    parser.add_argument("--workers", type=positive_integer, default=2)
    options = parser.parse_args()
    names = options.models.split(",")
    print_record()
    check_truths(names)
    print(f"\n{options.tables} tables of {options.rows} rows")
    print(f"{'study':<10}{'size':>5}{'truth':>9}{'bias':>9}{'RMSE':>9}{'se':>9}{'95%':>7}{'within 3 se':>13}")
    reached = []
    with OneThreadPool(options.workers) as pool:
        for name in names:
            jobs = [(name, options.rows, options.first + seed) for seed in range(options.tables)]
            results = with_progress(pool.run(analysed, jobs), len(jobs), name)
            reached.append(print_study(name, np.stack([found for _, found in results])))
    print(f"within 3 se in 19 of 20 tables at each size: {met(all(reached))}")
    within = [print_seconds(name) for name in names]
    print(f"20 sizes within {TIMED_LIMIT:.0f} s: {met(all(within))}")


if __name__ == "__main__":
    main()
