"""The time that `solve` takes for itself beside the time of f, for simulators of 1 ms, 0.1 s and 10 s.

Run: .venv/bin/python benchmarks/overhead.py [--problems sir borehole] [--runs 300] [--seconds 0.1] [--seeds 1]

f takes simulated time: it reports these seconds for each run. `own` is the CPU time of `solve` in seconds, less the
time that f really took, `f` the simulated time, and `largest batch` the largest number of runs chosen together. The
error is the root mean square over thetas of the prior, in units of the spread of I, and beside it the error of
`overhead=None`, a choice at every eighth of the runs, at equal runs.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser

import numpy as np

from _common import met, one_thread, positive_integer, print_record
from _simulated import InLine
from adaptive import PROBLEMS, relative, with_truth

SECONDS, SLOW = [1e-3, 0.1, 10.0], 10.0  # of a run
FREE, SHARE, WORSE = 10.0, 0.03, 1.2  # targets: seconds beside f, a share of f for the slow one, and a ratio of errors


def measure(name: str, runs: int, seconds: float, seed: int, overhead: float | None) -> tuple[float, float, int]:
    """The CPU seconds of `solve`, its error, and its largest batch."""
    problem, theta, truth = with_truth(name)
    begin, executor = time.process_time(), InLine(seconds)
    answer = problem.solve(budget=runs, rng=seed, executor=executor, in_flight=1, overhead=overhead, progress=False)
    own = time.process_time() - begin - executor.cpu
    return own, relative(answer.fit.predict(theta), truth), max(map(len, answer.history.chosen))


def main() -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=positive_integer, default=1)
    parser.add_argument("--runs", nargs="+", type=positive_integer, default=[100, 300, 1000])
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=["laplace", "characteristic"])
    parser.add_argument("--seconds", nargs="+", type=float, default=SECONDS)
    options = parser.parse_args()
    print_record()
    print(f"medians over {options.seeds} seeds")
    print("| problem | runs | f, s each | own, s | f, s | largest batch | error | every eighth: own, s | error | met |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with one_thread():
        for name in options.problems:
            for runs in options.runs:
                free = _medians(name, runs, SLOW, options.seeds, None)
                for seconds in options.seconds:
                    own, error, batch = _medians(name, runs, seconds, options.seeds, 1.0)
                    most = SHARE * runs * seconds if seconds >= SLOW else FREE + runs * seconds
                    good = met(own <= most and error <= WORSE * free[1])
                    cells = (f"{own:.1f}", f"{runs * seconds:g}", f"{batch:.0f}", f"{error:.2g}")
                    row = " | ".join((name, f"{runs}", f"{seconds:g}", *cells, f"{free[0]:.1f}", f"{free[1]:.2g}"))
                    print(f"| {row} | {good} |", flush=True)


def _medians(name: str, runs: int, seconds: float, seeds: int, overhead: float | None) -> np.ndarray:
    return np.median([measure(name, runs, seconds, seed, overhead) for seed in range(seeds)], axis=0)


if __name__ == "__main__":
    main()
