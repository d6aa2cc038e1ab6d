"""Workers behind an executor of the user: threads, processes, MPI, or a cluster."""

from __future__ import annotations

import importlib
import os
import sys
import time
import warnings
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from cbq._checks import shown
from cbq.checkpoint.evaluations import BatchResult, joined
from cbq.collect.integrand import Evaluator, IntegrandError, Task
from cbq.collect.processes import require_picklable
from cbq.collect.scheduling import CollectWarning, Outcome, Pool, WorkerError, WorkerLost

MAX_PROCESSES = 1024  # that a run starts
CHECK_INTERVAL = 5.0  # seconds between two checks that a cluster has workers
WITHOUT_WORKERS = 60.0  # seconds that a cluster may be without workers
SHOWN_BATCHES = 4  # in a message


def evaluate(evaluator: Evaluator, task: Task, attempt: int) -> BatchResult:
    """Evaluate a task in a worker. attempt: keeps a scheduler that caches calls from returning an earlier attempt."""
    return joined(evaluator.pieces(task))[0]


class ExecutorPool(Pool):
    """The workers of an executor, which its user closes."""

    def __init__(self, executor: Executor, evaluator: Evaluator, max_pending: int | None) -> None:
        self._executor, self._evaluator = executor, evaluator
        _require_picklable(executor, evaluator)
        self._cluster: Any = getattr(executor, "_client", None)  # of Dask
        self._pending = dict[Future[BatchResult], Task]()
        self._done = SimpleQueue[Future[BatchResult] | None]()  # None: to wake up
        self._without_workers: float | None = None  # since when
        self.max_pending = max_pending or 2 * self.n_workers + 2

    @property
    def n_pending(self) -> int:
        return len(self._pending)

    def submit(self, task: Task, attempt: int) -> None:
        try:
            future = self._executor.submit(evaluate, self._evaluator, task, attempt)
        except BrokenExecutor as error:
            raise self._broken(error) from error
        self._pending[future] = task
        future.add_done_callback(self._done.put)

    def finished(self, seconds: float | None = None) -> list[Outcome]:
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = CHECK_INTERVAL if until is None else min(CHECK_INTERVAL, until - time.monotonic())
            try:
                done = [self._done.get(timeout=max(left, 0.0))]
            except Empty:
                if until is not None and time.monotonic() >= until:
                    return []
                self._require_workers()
                continue
            self._without_workers = None
            done += [self._done.get() for _ in range(self._done.qsize())]
            return [self._outcome(future) for future in done if future in self._pending]

    def wake(self) -> None:
        self._done.put(None)

    def cancel(self) -> None:
        for future in list(self._pending):
            if future.cancel():
                self._pending.pop(future)

    def close(self) -> None:
        """Leave the executor to its user."""

    @property
    def n_workers(self) -> int:
        """How many tasks run at a time, as far as the executor tells."""
        for name in ("_max_workers", "num_workers"):  # the standard library and loky; mpi4py
            n = getattr(self._executor, name, None)
            if isinstance(n, int) and n > 0:
                return n
        return (sum(self._cluster.nthreads().values()) if hasattr(self._cluster, "nthreads") else os.cpu_count()) or 1

    def _outcome(self, future: Future[BatchResult]) -> Outcome:
        try:
            error = future.exception()
        except CancelledError as cancelled:  # by the executor, as Dask does when it loses a task
            error = cancelled
        if isinstance(error, BrokenExecutor):
            error = self._broken(error)
        task = self._pending.pop(future)
        if error is None:
            return Outcome(future.result())
        if isinstance(error, IntegrandError | WorkerError | KeyboardInterrupt):
            return Outcome(None, None, error)
        lost = WorkerLost(_short(error), f_to_blame=False)
        if _killed_its_workers(error):
            lost = WorkerLost("ended each worker that evaluated it", certain=False, final=True)
        lost.__cause__ = error
        return Outcome(None, task, lost)

    def _broken(self, error: BrokenExecutor) -> WorkerError:
        batches = [str(task.batch) for task in self._pending.values()][:SHOWN_BATCHES]
        more = f" and {len(self._pending) - SHOWN_BATCHES} more" * (len(self._pending) > SHOWN_BATCHES)
        pending = f" It had {', '.join(batches)}{more}, and one of them may have ended it." if batches else ""
        broken = WorkerError(
            f"a worker of the executor died, and the executor cannot be used any more ({_short(error)}): make a new "
            f"one.{pending} With a number, such as executor=2, cbq starts its own processes, replaces those that die, "
            f"and finds the point that ends them."
        )
        broken.__cause__ = error
        return broken

    def _require_workers(self) -> None:
        """Warn if a cluster of Dask has no workers, and raise if it has had none for a while."""
        if not hasattr(self._cluster, "scheduler_info"):
            return
        if self._cluster.status == "running" and self._cluster.scheduler_info()["workers"]:
            self._without_workers = None
        elif self._without_workers is None:
            self._without_workers = time.monotonic()
            warnings.warn(
                f"the Dask cluster has no workers: waiting for some, {WITHOUT_WORKERS:g} s at most.",
                CollectWarning,
                stacklevel=2,
            )
        elif time.monotonic() - self._without_workers > WITHOUT_WORKERS:
            raise WorkerError(
                f"the Dask cluster has had no workers for {WITHOUT_WORKERS:g} s, and {len(self._pending)} batches wait "
                f"for one: start workers, wait for them with client.wait_for_workers(1), and call collect again."
            )


def as_executor(executor: Any) -> Executor | int | None:
    """The argument `executor` of `collect`, checked."""
    if executor is None or isinstance(executor, Executor):
        return executor
    if isinstance(executor, int | np.integer) and not isinstance(executor, bool):
        if not 1 <= executor <= MAX_PROCESSES:
            raise ValueError(
                f"executor must be a number of processes, at least 1, but it is {shown(executor)} (and at most "
                f"{MAX_PROCESSES} are started)."
            )
        return int(executor)
    hint = " (of a Dask client, pass client.get_executor())" if hasattr(executor, "get_executor") else ""
    raise TypeError(
        f"executor must be None, a number of processes or a concurrent.futures.Executor, but it is a "
        f"{type(executor).__name__}{hint}."
    )


def _require_picklable(executor: Executor, evaluator: Evaluator) -> None:
    """Raise if the executor is known to send f in a way in which it cannot be sent."""
    pools = sys.modules.get("concurrent.futures.process")  # slow to import; without it, this is no process pool
    if pools is not None and isinstance(executor, pools.ProcessPoolExecutor):
        require_picklable(evaluator)
    elif type(executor).__module__.partition(".")[0] == "mpi4py":
        require_picklable(evaluator, importlib.import_module("mpi4py.MPI").pickle)  # which the user may have replaced


def _killed_its_workers(error: BaseException) -> bool:
    """Whether a cluster of Dask has given a task up because each worker that took it was lost."""
    scheduler = sys.modules.get("distributed.scheduler")
    return scheduler is not None and isinstance(error, scheduler.KilledWorker)


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
