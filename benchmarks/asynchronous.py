"""How busy `solve` keeps workers whose runs take 1 to 30 s, in simulated time, and how accurate it is meanwhile.

Run: .venv/bin/python benchmarks/asynchronous.py [--runs 120] [--workers 8] [--seeds 1]

Each row is a run of `solve` with this budget, asynchronous or in batches. The end is the simulated time at which the
last run ends, divided by total time of f / workers: 1 if all workers are busy until the end. Choices take no simulated
time; the seconds that they took stand beside it. The error is the root mean square over thetas of the prior, in units
of the spread of I.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser

import numpy as np

import cbq
from _common import met, positive_integer, print_record
from _simulated import SimulatedExecutor

LONGEST = 1.3  # the end of an asynchronous run, in units of total time / workers


def uneven(task: object) -> float:
    """From 1 to 30 s, at random by the point."""
    return float(np.random.default_rng(np.frombuffer(task.points.x.tobytes(), np.uint32)).uniform(1.0, 30.0))


def measure(problem: cbq.Problem, runs: int, workers: int, seed: int, batch: int | None) -> tuple[float, ...]:
    """The end, the error and the seconds of choosing, for one run of `solve`."""
    executor, begin = SimulatedExecutor(workers, uneven), time.perf_counter()
    answer = problem.solve(budget=runs, rng=seed, executor=executor, batch=batch, progress=False)
    seconds = time.perf_counter() - begin
    theta = problem.prior.sample(200, np.random.default_rng(10**6 + seed))
    exact = problem.exact(theta)
    error = np.sqrt(np.mean((answer.fit.predict(theta) - exact) ** 2)) / np.std(exact)
    return executor.clock * workers / executor.busy, float(error), seconds


def main() -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("runs", 120), ("workers", 8), ("seeds", 1)):
        parser.add_argument(f"--{name}", type=positive_integer, default=default)
    options = parser.parse_args()
    problem = cbq.problems.get("butterfly")
    print_record()
    print(f"{options.runs} runs of 1 to 30 s on {options.workers} workers, medians over {options.seeds} seeds")
    print("| runs chosen | end | error | s of choosing |\n|---|---|---|---|")
    ends = {}
    for batch in (None, options.workers, 2 * options.workers):
        found = [measure(problem, options.runs, options.workers, seed, batch) for seed in range(options.seeds)]
        end, error, seconds = np.median(found, axis=0)
        ends[batch] = end
        print(f"| {batch or 'as workers become free'} | {end:.2f} | {error:.2g} | {seconds:.0f} |", flush=True)
    print(met(ends[None] <= LONGEST), f"an asynchronous run ends in {LONGEST} times total time / workers")


if __name__ == "__main__":
    main()
