"""Threads over a batch of matrices, with one BLAS thread per matrix, in pieces that stay in the cache."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from cbq.common import Array, is_whole, shown

CACHED_NUMBERS = 32768  # in a piece of a batch: temporaries stay in the cache at little overhead
_MIN_ROWS = 16
# Below this matrix size the interpreter takes longer than LAPACK, and threads wait for each other.
SMALLEST_IN_THREADS = 128
# Floating point operations of one task and of all: below, threads cost more than they gain.
LEAST_TASK, LEAST_WORK = 2e5, 2e7
# From this size on, the threads of BLAS itself use the cores well within one matrix.
LARGE = 1000

_SPANS_PER_WORKER = 4  # so that a slow span does not leave the other workers idle

_at_most: ContextVar[int | None] = ContextVar("at_most", default=None)


def spans(count: int, size: int) -> list[slice]:
    """Slices that cover 0, ..., count - 1, for items of `size` numbers, with `CACHED_NUMBERS` in a slice."""
    step = max(1, CACHED_NUMBERS // max(1, size))
    return [slice(i, min(i + step, count)) for i in range(0, count, step)]


def row_blocks(n: int, count: int) -> list[slice]:
    """Slices of the rows of `count` matrices (n, n), as many as fit a piece but not too few."""
    step = max(_MIN_ROWS, CACHED_NUMBERS // max(1, n * count))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def stacked(matrices: Array) -> Array:
    """Matrices (..., N, M) with all leading axes as one, (B, N, M): a view, if they are C-ordered."""
    return matrices.reshape(prod(matrices.shape[:-2]), *matrices.shape[-2:])


def usable_cores() -> int:
    """The number of cores that this process may use."""
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def at_most(workers: int) -> Iterator[None]:
    """Use at most `workers` threads per batch within this context, for example 1 inside a process pool.

    Examples
    --------
    >>> with cbq.linalg.at_most(1):
    ...     factor = cbq.linalg.factor(np.eye(3))
    """
    if not is_whole(workers, 1):
        raise ValueError(f"the number of workers must be at least 1, but it is {shown(workers)}.")
    token = _at_most.set(workers)
    try:
        yield
    finally:
        _at_most.reset(token)


def workers() -> int:
    """The number of threads that a batch may use: the usable cores, or fewer within `at_most`."""
    limit = _at_most.get()
    return usable_cores() if limit is None else min(limit, usable_cores())


def prefers_blas_threads(count: int, n: int) -> bool:
    """Whether matrices (n, n) are so few and large that they should go one by one, with BLAS threads."""
    return n >= LARGE and (count == 1 or 2 * count <= workers())


def for_each(task: Callable[[int], None], count: int, n: int, flops: float) -> None:
    """Call `task(t)` for t = 0, ..., count - 1, each on a matrix (n, n) with `flops` operations.

    Threads are used where they pay. After a failure, tasks that have not begun are dropped, and the exception of the
    smallest t is raised. Results do not depend on the number of threads, if no task touches anything that another
    one writes.
    """
    if count == 0:
        return
    if prefers_blas_threads(count, n):
        run(task, range(count))
        return
    threads = min(workers(), count)
    with one_blas_thread():
        if threads > 1 and n >= SMALLEST_IN_THREADS and flops >= LEAST_TASK and count * flops >= LEAST_WORK:
            run_in_pool(task, count, threads)
        else:
            run(task, range(count))


def for_each_span(task: Callable[[slice], None], count: int, n: int, flops: float) -> None:
    """Call `task(span)` on slices of a batch of `count` matrices (n, n), small ones many at a time; see `for_each`.

    The slices do not depend on the number of threads.
    """
    pieces = spans(count, n * n)
    for_each(lambda t: task(pieces[t]), len(pieces), n, flops * pieces[0].stop if pieces else 0.0)


def in_threads(function: Callable[[slice], Array], pieces: Sequence[slice], axis: int) -> Array:
    """`function` of all pieces of an array, along an axis; in threads where they are many.

    About 100 operations are expected for each number, as for an embedding at one point.
    """
    parts = [np.empty(0)] * len(pieces)

    def task(t: int) -> None:
        parts[t] = function(pieces[t])

    for_each(task, len(pieces), SMALLEST_IN_THREADS, 100.0 * CACHED_NUMBERS)
    return np.concatenate(parts, axis=axis)


def run(task: Callable[[int], None], span: range) -> None:
    """Call `task` on each number of the span."""
    for t in span:
        task(t)


def run_in_pool(task: Callable[[int], None], count: int, threads: int) -> None:
    """Call `task` on 0, ..., count - 1 from several threads, which inherit the context variables and then end."""
    pieces = min(count, _SPANS_PER_WORKER * threads)
    edges = [i * count // pieces for i in range(pieces + 1)]
    with ThreadPoolExecutor(threads, "cbq-linalg", initializer=one_openmp_thread) as pool:
        futures = [pool.submit(copy_context().run, run, task, range(a, b)) for a, b in pairwise(edges)]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread while any thread is in this context; the last one to leave restores the earlier number."""
    _blas_limit.enter()
    try:
        yield
    finally:
        _blas_limit.leave()


def blas_threads(n: int, large: int = LARGE) -> AbstractContextManager[None]:
    """A context with one BLAS thread for work on matrices of size n, unless they are large."""
    return one_blas_thread() if n < large else nullcontext()


def one_openmp_thread() -> None:
    """One OpenMP thread for the calling thread: a BLAS built on OpenMP reads its limit from there."""
    _controller().limit(limits=1, user_api="openmp")


class _BlasLimit:
    """A limit of one BLAS thread for the whole process, with a count of the threads that need it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limiter: Any = None

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                _release()
                self._limiter = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                # Another thread may have set the limit.
                _release()
                self._limiter.restore_original_limits()
                self._limiter = None
                _release()


_blas_limit = _BlasLimit()


def _release() -> None:
    """Let any thread set limits: from threadpoolctl 3.8 on, the first one to do so locks out all others."""
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@cache
def _controller() -> ThreadpoolController:
    # Cached: the search through the loaded libraries is slow, and ours stay loaded.
    from cbq.linalg import lapack  # noqa: F401, so that they are loaded

    return ThreadpoolController()
