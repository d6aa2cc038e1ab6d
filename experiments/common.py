"""What experiments and benchmarks share: problems with test thetas, scores, and processes with one thread each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import cbq
from cbq.measures.points import sobol
from cbq.runs.processes import exit_with_parent

Array = NDArray[np.float64]
Options = tuple[tuple[str, Any], ...]  # (name, value) pairs in the order of the names, so that they can be hashed
JobT = TypeVar("JobT", bound=tuple[Any, ...])
ResultT = TypeVar("ResultT")

PROBLEMS = ("linear", "sir", "butterfly", "health")
OUTER_THETAS = 1024
TEST_SEED = 2024  # seed of the test thetas; samples are never collected with it


@lru_cache(maxsize=16)
def problem_with_truth(name: str, M: int, options: Options = ()) -> tuple[cbq.Problem, Array, Array]:
    """A problem, M test thetas (M, p) from its prior, and the truth there, (M,) or (M, C). Always the same thetas."""
    problem = cbq.problems.get(name, **dict(options))
    theta = problem.prior.sample(M, TEST_SEED)
    return problem, theta, problem.exact(theta)


@lru_cache(maxsize=16)
def outer_thetas(name: str, options: Options = ()) -> tuple[Array, Array]:
    """Sobol points (1024, p) of the prior, for expectations over theta, and the truth there, (1024,) or (1024, C)."""
    problem = cbq.problems.get(name, **dict(options))
    theta = problem.prior.transport(sobol(OUTER_THETAS, problem.p, np.random.default_rng(TEST_SEED)))
    return theta, problem.exact(theta)


def rmse(estimate: Array, truth: Array) -> float:
    """The root mean squared error over thetas and outputs."""
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


def coverage(fit: cbq.Fit, theta: Array, truth: Array, level: float) -> float:
    """The share of truths inside the intervals of a level, over thetas and outputs."""
    low, high = fit.interval(theta, level)
    return share_inside(low, truth, high)


def share_inside(low: Array, truth: Array, high: Array) -> float:
    """The share of truths between the ends of their intervals."""
    return float(np.mean((low <= truth) & (truth <= high)))


@contextmanager
def one_thread() -> Iterator[None]:
    """Run batches, BLAS and OpenMP on one thread, so that seconds can be compared."""
    with cbq.linalg.at_most(1), threadpool_limits(1):
        yield


class OneThreadPool:
    """Spawned processes with one thread each, which end with this process.

    initializer: called in each process when it starts.
    """

    def __init__(self, workers: int, initializer: Callable[[], object] | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(workers, context, _prepare_worker, (initializer,))

    def __enter__(self) -> OneThreadPool:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def run(self, task: Callable[..., ResultT], jobs: Iterable[JobT]) -> Generator[tuple[JobT, ResultT]]:
        """Yield (job, task(*job)) in the order in which jobs finish; closing the generator cancels the others."""
        futures = {self._pool.submit(on_one_thread, task, job): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:  # a pool that is dropped right after `shutdown` does not cancel them itself
                future.cancel()


def _prepare_worker(initializer: Callable[[], object] | None) -> None:
    """End this process with its parent, and on Ctrl-C without a traceback."""
    if initializer is not None:
        initializer()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=exit_with_parent, args=(os.getppid(),), daemon=True).start()


def on_one_thread(task: Callable[..., ResultT], job: Sequence[Any]) -> ResultT:
    """The result of a job, without warnings of its fits: scores say how well intervals hold."""
    with one_thread(), warnings.catch_warnings(action="ignore", category=cbq.FitWarning):
        return task(*job)
