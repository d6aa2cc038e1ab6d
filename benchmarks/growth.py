"""Error and time of `cbq.Auto` as the number of points grows, through and beyond the range of exact processes.

Run: .venv/bin/python benchmarks/growth.py [--quick] [--problems butterfly linear health] [--sizes 1000 ...] [--seeds 3]
     [--first 0]

n points are those of T = N = sqrt(n) thetas and points of each, as of a user who refines both, and the samples of a
seed are the first of those with more points. Columns: the root-mean-square error at 300 other thetas in units of the
standard deviation of I, as the geometric mean over seeds, and its ratio to that of the size before; the share of truths
inside 95% intervals; how f is represented, by the last seed; the seconds of the processor that a fit takes on one
thread, and the exponent with which they grew from the size before.

More data must not hurt: the ratio is at most 1.5, and beyond the exact range seconds grow no faster than n^1.2.
"""

from __future__ import annotations

import time
import warnings
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

import cbq
from _common import coverage, met, one_thread, positive_integer, print_record, problem_with_truth, progress
from cbq.estimators.multioutput import MOBQFit

PROBLEMS = {"butterfly": (), "linear": (("dim", 5),), "health": ()}  # with their options
SIZES = (1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 200_000)
QUICK_SIZES = (1000, 2000, 4000, 8000)
M = 300  # test thetas
MAX_RATIO, MAX_EXPONENT = 1.5, 1.2
EXACT, BEYOND = "exact", "landmarks"


class Row(NamedTuple):
    """A size: its number of points, and error, coverage and seconds over seeds."""

    n: int
    error: float
    coverage: float
    seconds: float
    how: str


def representation(fit: cbq.Fit) -> str:
    """How a fit represents f."""
    if not isinstance(fit, MOBQFit):
        return type(fit).__name__.removesuffix("Fit")
    counts = [EXACT if each.landmarks is None else str(len(each.landmarks)) for each in fit.groups]
    return ", ".join(dict.fromkeys(counts)) + f" {BEYOND}" * (counts[0] != EXACT)


def measured(name: str, size: int, seeds: Sequence[int]) -> Row:
    """The row of a problem and a size."""
    problem, theta, truth = problem_with_truth(name, M, PROBLEMS[name])
    side = round(size**0.5)
    errors, covered, seconds, how = [], [], [], ""
    for seed in seeds:
        progress(f"{name}, {side**2} points, seed {seed}")
        samples = problem.collect(side, side, rng=seed)
        with one_thread(), warnings.catch_warnings(action="ignore", category=cbq.FitWarning):
            start = time.process_time()
            fit = cbq.Auto().fit(samples)
            seconds.append(time.process_time() - start)
            apart = (fit.predict(theta) - truth) / np.std(truth, axis=0)
            covered.append(coverage(fit, theta, truth, 0.95))
        errors.append(float(np.sqrt(np.mean(apart**2))))
        how = representation(fit)
    return Row(side**2, float(np.exp(np.mean(np.log(errors)))), float(np.mean(covered)), float(np.mean(seconds)), how)


def table(name: str, sizes: Sequence[int], seeds: Sequence[int]) -> Iterator[str]:
    """The lines of a problem, each when it is measured."""
    yield f"{name}\n{'n':>8} {'error':>9} {'ratio':>6} {'95%':>6} {'seconds':>8} {'exponent':>8}  f"
    rows: list[Row] = []
    for size in sizes:
        rows.append(row := measured(name, size, seeds))
        against = f"{'':6} {row.coverage:6.3f} {row.seconds:8.2f} {'':8}"
        if len(rows) > 1:
            against = f"{_ratio(*rows[-2:]):6.2f} {row.coverage:6.3f} {row.seconds:8.2f} {_exponent(*rows[-2:]):8.2f}"
        yield f"{row.n:8} {row.error:9.2e} {against}  {row.how}"
    yield from verdicts(rows)


def verdicts(rows: Sequence[Row]) -> Iterator[str]:
    """Whether the targets are met."""
    if len(rows) > 1:
        worst = max(_ratio(*pair) for pair in pairwise(rows))
        yield f"largest ratio of errors {worst:.2f}; <= {MAX_RATIO:g}: {met(worst <= MAX_RATIO)}"
    beyond = [row for row in rows if row.how.endswith(BEYOND)]
    if len(beyond) > 1:
        worst = max(_exponent(*pair) for pair in pairwise(beyond))
        whole = _exponent(beyond[0], beyond[-1])
        yield (
            f"seconds beyond the exact range grow as n^{whole:.2f}, at most n^{worst:.2f} from one size to the next; "
            f"<= {MAX_EXPONENT:g}: {met(worst <= MAX_EXPONENT)}"
        )


def _ratio(before: Row, after: Row) -> float:
    return after.error / before.error


def _exponent(before: Row, after: Row) -> float:
    return float(np.log(after.seconds / before.seconds) / np.log(after.n / before.n))


def main() -> None:
    """Print the run record and a table for each problem."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS), metavar="NAME")
    parser.add_argument("--sizes", nargs="+", type=positive_integer, default=None, metavar="N", help="ascending")
    parser.add_argument("--seeds", type=positive_integer, default=3, help="sets of samples (default 3)")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--quick", action="store_true", help="up to 8000 points, with one seed")
    options = parser.parse_args()
    sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
    seeds = range(options.first, options.first + (1 if options.quick else options.seeds))
    print_record()
    for name in options.problems:
        print(flush=True)
        for line in table(name, sizes, seeds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
