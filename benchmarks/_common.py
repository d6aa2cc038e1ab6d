"""What the benchmarks of the estimators share: problems, run record, pool of processes, small ways of printing."""

from __future__ import annotations

import hashlib
import multiprocessing
import subprocess
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import cbq
from linalg import record as machine

PROBLEMS = ("linear", "sir", "butterfly", "health")
TEST_SEED = 2024  # of the thetas at which answers are judged: none of the seeds of the samples


@cache
def judged(name: str, M: int) -> tuple[cbq.Problem, np.ndarray, np.ndarray]:
    """A problem, M thetas (M, p) of its prior, and the truth there, (M,) or (M, C)."""
    problem = cbq.problems.get(name)
    theta = problem.prior.sample(M, TEST_SEED)
    return problem, theta, problem.exact(theta)


def rmse(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Root of the mean square error over thetas and outputs."""
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


def record() -> dict[str, str]:
    """What results depend on: the commit, a digest of the package as it is on disk, versions and machine."""
    digest = hashlib.sha256()
    for path in sorted(Path(cbq.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    git = ["git", "-C", str(Path(__file__).parent), "--no-optional-locks", "describe", "--always", "--dirty"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "cbq": cbq.__version__,
        "commit": commit,
        "source": digest.hexdigest()[:12],
        "machine": machine(),
    }


def print_record() -> dict[str, str]:
    """Print the run record, and return it."""
    found = record()
    print(
        f"{found['date']}, cbq {found['cbq']}, commit {found['commit']}, source {found['source']}\n{found['machine']}"
    )
    return found


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for everything: batches, BLAS and OpenMP."""
    with cbq.linalg.at_most(1), threadpool_limits(1):
        yield


class Pool:
    """Processes with one thread each; results come with their jobs, as they are ready."""

    def __init__(self, workers: int) -> None:
        self._pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def run(self, task: Callable[..., Any], jobs: Iterable[tuple[Any, ...]], title: str) -> Iterator[tuple[Any, Any]]:
        """(job, task(*job)) for every job, with the progress on stderr."""
        futures = {self._pool.submit(_alone, task, job): job for job in jobs}
        start = time.perf_counter()
        for done, future in enumerate(as_completed(futures), 1):
            yield futures[future], future.result()
            progress(f"{title}: {done}/{len(futures)}, {time.perf_counter() - start:.0f} s")
        progress("")


def _alone(task: Callable[..., Any], job: tuple[Any, ...]) -> Any:
    with one_thread():
        return task(*job)


def progress(text: str) -> None:
    """One line on stderr; on a terminal, in place of the last one."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def at_least_one(text: str) -> int:
    """A positive whole number from the command line."""
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number, 1 or more, but it is {text!r}")
    return int(text)


def yes(met: bool) -> str:
    """Whether a target was met."""
    return "yes" if met else "NO"
