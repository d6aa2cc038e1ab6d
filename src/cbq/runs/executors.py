"""Workers behind an executor of the user: threads, processes, MPI, or a cluster."""

from __future__ import annotations

import time
from concurrent.futures import BrokenExecutor
from functools import partial

from cbq.checkpoint import BatchResult, joined
from cbq.common import (
    CallResult,
    Calls,
    Executor,
    WorkerError,
    Workers,
    described,
    killed_its_workers,
    require_picklable,
    workers,
)
from cbq.runs.integrand import Evaluator, IntegrandError, Task
from cbq.runs.scheduling import CollectWarning, Pool, TaskResult, WorkerLost

SHOWN_BATCHES = 4  # in a message


def evaluate(evaluator: Evaluator, task: Task) -> BatchResult:
    """Evaluate a task in a worker."""
    return joined(evaluator.pieces(task))[0]


class ExecutorPool(Pool):
    """The workers of an executor, which its user closes."""

    def __init__(self, executor: Executor, evaluator: Evaluator, max_pending: int | None) -> None:
        self._evaluate = partial(evaluate, evaluator)
        require_picklable(executor, evaluator, "the integrand")
        self._workers, self._calls = Workers(executor), Calls[Task](executor)
        self.max_pending = max_pending or 2 * self.n_workers + 2

    @property
    def n_pending(self) -> int:
        return len(self._calls)

    def submit(self, task: Task, attempt: int) -> None:
        try:
            self._calls.submit(task, self._evaluate, task, attempt)
        except BrokenExecutor as error:
            raise self._broken(error) from error

    def finished(self, seconds: float | None = None) -> list[TaskResult]:
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = workers.CHECK_INTERVAL if until is None else min(workers.CHECK_INTERVAL, until - time.monotonic())
            ended = self._calls.finished(max(left, 0.0))
            if ended is not None:
                self._workers.heard()
                return [self._result(task, outcome) for task, outcome in ended]
            if until is not None and time.monotonic() >= until:
                return []
            self._workers.require_some(f"{self.n_pending} batches wait", CollectWarning)

    def wake(self) -> None:
        self._calls.wake()

    def cancel(self) -> None:
        self._calls.cancel()

    def close(self) -> None:
        """Leave the executor to its user."""

    @property
    def n_workers(self) -> int:
        return self._workers.count

    def _result(self, task: Task, outcome: CallResult) -> TaskResult:
        error = outcome.lost if outcome.error is None else outcome.error
        if error is None:
            return TaskResult(outcome.result)
        if isinstance(error, BrokenExecutor):
            error = self._broken(error, task)
        if isinstance(error, IntegrandError | WorkerError | KeyboardInterrupt):
            return TaskResult(None, None, error)
        lost = WorkerLost(described(error), f_to_blame=False)
        if killed_its_workers(error):
            lost = WorkerLost("ended each worker that evaluated it", certain=False, final=True)
        lost.__cause__ = error
        return TaskResult(None, task, lost)

    def _broken(self, error: BrokenExecutor, *ended: Task) -> WorkerError:
        pending = [str(task.batch) for task in (*ended, *self._calls.keys)]
        more = f" and {len(pending) - SHOWN_BATCHES} more" * (len(pending) > SHOWN_BATCHES)
        shown = ", ".join(pending[:SHOWN_BATCHES])
        had = f" It had {shown}{more}, and one of them may have ended it." if pending else ""
        broken = WorkerError(
            f"a worker of the executor died, and the executor cannot be used any more ({described(error)}): make a new "
            f"one.{had} With a number, such as executor=2, cbq starts its own processes, replaces those that die, "
            f"and finds the point that ends them."
        )
        broken.__cause__ = error
        return broken
