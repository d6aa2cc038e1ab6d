"""How far the number of BLAS threads moves the answers of MOBQ, in units of their standard deviations.

Run: .venv/bin/python benchmarks/threads.py [points, default 3200]

Below `cbq.estimators.multioutput.fit.IN_ONE_THREAD` points it must move nothing.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

import cbq
from _common import PROBLEMS, print_record

POINTS_PER_THETA = 50


def answers(samples: cbq.Samples, theta: np.ndarray, threads: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Means and standard deviations at theta (M, p), and whether the fit warns of rounding errors."""
    with threadpool_limits(threads):
        fit = cbq.MOBQ().fit(samples)
        return *fit.predict(theta, return_std=True), any("rounding errors" in each for each in fit.warnings)


def main() -> None:
    """Print a row for each problem."""
    print_record()
    T = (int(sys.argv[1]) if len(sys.argv) > 1 else 3200) // POINTS_PER_THETA
    print(f"from 1 to 4 threads, {T * POINTS_PER_THETA} points\nproblem     mean: median  largest  std: largest  warns")
    warnings.simplefilter("ignore")
    for name in PROBLEMS:
        problem = cbq.problems.get(name)
        samples, theta = problem.collect(T, POINTS_PER_THETA, rng=1), problem.prior.sample(20, 9)
        mean, std, warned = answers(samples, theta, 1)
        other, other_std, _ = answers(samples, theta, 4)
        moved, widened = np.abs(other - mean) / std, np.abs(other_std - std) / std
        print(f"{name:12}{np.median(moved):12.2g}{np.max(moved):9.2g}{np.max(widened):14.2g}  {warned}", flush=True)


if __name__ == "__main__":
    main()
