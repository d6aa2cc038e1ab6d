"""Workers behind an executor of the user: threads, processes, MPI, or a cluster."""

from __future__ import annotations

import time
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from queue import Empty, SimpleQueue

from cbq.checkpoint import BatchResult, joined
from cbq.common import WorkerError, Workers, described, killed_its_workers, require_picklable, workers
from cbq.runs.integrand import Evaluator, IntegrandError, Task
from cbq.runs.scheduling import CollectWarning, Pool, TaskResult, WorkerLost

SHOWN_BATCHES = 4  # in a message


def evaluate(evaluator: Evaluator, task: Task, attempt: int) -> BatchResult:
    """Evaluate a task in a worker. attempt: keeps a scheduler that caches calls from returning an earlier attempt."""
    return joined(evaluator.pieces(task))[0]


class ExecutorPool(Pool):
    """The workers of an executor, which its user closes."""

    def __init__(self, executor: Executor, evaluator: Evaluator, max_pending: int | None) -> None:
        self._executor, self._evaluator = executor, evaluator
        require_picklable(executor, evaluator, "the integrand")
        self._workers = Workers(executor)
        self._pending = dict[Future[BatchResult], Task]()
        self._done = SimpleQueue[Future[BatchResult] | None]()  # None: to wake up
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

    def finished(self, seconds: float | None = None) -> list[TaskResult]:
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = workers.CHECK_INTERVAL
            if until is not None:
                left = min(left, until - time.monotonic())
            try:
                done = [self._done.get(timeout=max(left, 0.0))]
            except Empty:
                if until is not None and time.monotonic() >= until:
                    return []
                self._workers.require_some(f"{len(self._pending)} batches wait", CollectWarning)
                continue
            self._workers.heard()
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
        return self._workers.count

    def _outcome(self, future: Future[BatchResult]) -> TaskResult:
        try:
            error = future.exception()
        except CancelledError as cancelled:  # by the executor, as Dask does when it loses a task
            error = cancelled
        if isinstance(error, BrokenExecutor):
            error = self._broken(error)
        task = self._pending.pop(future)
        if error is None:
            return TaskResult(future.result())
        if isinstance(error, IntegrandError | WorkerError | KeyboardInterrupt):
            return TaskResult(None, None, error)
        lost = WorkerLost(described(error), f_to_blame=False)
        if killed_its_workers(error):
            lost = WorkerLost("ended each worker that evaluated it", certain=False, final=True)
        lost.__cause__ = error
        return TaskResult(None, task, lost)

    def _broken(self, error: BrokenExecutor) -> WorkerError:
        batches = [str(task.batch) for task in self._pending.values()][:SHOWN_BATCHES]
        more = f" and {len(self._pending) - SHOWN_BATCHES} more" * (len(self._pending) > SHOWN_BATCHES)
        pending = f" It had {', '.join(batches)}{more}, and one of them may have ended it." if batches else ""
        broken = WorkerError(
            f"a worker of the executor died, and the executor cannot be used any more ({described(error)}): make a new "
            f"one.{pending} With a number, such as executor=2, cbq starts its own processes, replaces those that die, "
            f"and finds the point that ends them."
        )
        broken.__cause__ = error
        return broken
