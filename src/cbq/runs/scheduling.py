"""Keeping workers busy: tasks are submitted, results passed on, and tasks whose worker was lost tried again.

A task whose worker is lost each time is halved until a single point is left: that point is to blame, and is skipped or
reported. Where f raises an exception, the run ends. Either way, everything that was evaluated is kept.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from cbq.checkpoint import Batch, BatchResult, joined
from cbq.common import WorkerError
from cbq.runs.integrand import Evaluator, IntegrandError, Task

HOLD_SECONDS = 0.02  # tasks that end within this time are passed on together, since writing may wait for the disk
PART_SECONDS = 0.1  # after this time, finished parts of a task are passed on before its end
MAX_HELD = 8  # tasks whose results are passed on together in this process
GRACE_SECONDS = 2.0  # for running evaluations when a run is interrupted

OnFinished = Callable[[Sequence[BatchResult]], None]  # called with results
Choose = Callable[[], Task | None]  # the next task; None if there is none for now, until another one has finished


class CollectWarning(UserWarning):
    """What the user of a run should know: points that were left out, edited code, workers that are missing.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("error", cbq.CollectWarning)  # a skipped point then ends the run
    >>> warnings.resetwarnings()
    """


class WorkerLost(Exception):
    """A worker came to an end with its task. The message says how; if `f_to_blame`, it completes "the integrand ...".

    f_to_blame: whether f may have done it. certain: whether it was at this task, and not at another that the worker
    had taken. final: whether there is no use in trying the same points again.
    """

    def __init__(self, message: str, *, f_to_blame: bool = True, certain: bool = True, final: bool = False) -> None:
        super().__init__(message)
        self.f_to_blame, self.certain, self.final = f_to_blame, certain, final


class TaskResult(NamedTuple):
    """What became of a task, or of a part of it.

    result: what was evaluated. left: what was not, and is nobody's task now. error: why.
    """

    result: BatchResult | None = None
    left: Task | None = None
    error: BaseException | None = None


class Pool(ABC):
    """Workers that evaluate tasks."""

    max_pending: int  # tasks that may be submitted and not finished

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """How many tasks run at a time, as far as that is known."""

    @property
    @abstractmethod
    def n_pending(self) -> int:
        """The number of tasks that are submitted and not finished."""

    @abstractmethod
    def submit(self, task: Task, attempt: int) -> None:
        """Give a task to a worker; the attempts of a task are numbered from 0."""

    @abstractmethod
    def finished(self, seconds: float | None = None) -> list[TaskResult]:
        """Wait until something has finished, for this many seconds at most, or until `wake`; and return it."""

    @abstractmethod
    def wake(self) -> None:
        """Let `finished` return. Called by signal handlers."""

    @abstractmethod
    def cancel(self) -> None:
        """Take back what has not begun, and let workers stop after their current point where they can."""

    @abstractmethod
    def close(self) -> None:
        """End the workers, if they are those of this run, whatever they do."""


class ThisProcess:
    """Evaluates tasks here, one after the other."""

    n_workers = 1

    def __init__(self, evaluator: Evaluator, max_held: int | None) -> None:
        self._evaluator, self._max_held = evaluator, max_held or MAX_HELD

    def evaluate(self, tasks: Iterable[Task], on_finished: OnFinished) -> None:
        """Evaluate tasks; quick ones are passed on together."""
        held, n_tasks, since = list[BatchResult](), 0, time.monotonic()
        try:
            for task in tasks:
                for piece in self._evaluator.pieces(task):
                    held.append(piece)
                    at_end = piece.batch.stop == task.batch.stop
                    n_tasks += at_end
                    seconds = time.monotonic() - since
                    if n_tasks >= self._max_held or seconds >= (HOLD_SECONDS if at_end else PART_SECONDS):
                        on_finished(joined(held))
                        held, n_tasks, since = [], 0, time.monotonic()
        finally:
            if held:
                on_finished(joined(held))

    def close(self) -> None:
        """Nothing is to be closed."""


class Scheduler:
    """Evaluates tasks on a pool. retries: how often a task is tried again after its worker was lost."""

    def __init__(self, pool: Pool, retries: int) -> None:
        self._pool, self._retries = pool, retries
        self._begin()

    def _begin(self) -> None:
        self._again = deque[Task]()
        self._suspects = deque[Task]()  # evaluated alone, after all others: if the worker is lost, f has done it there
        self._suspected = set[Batch]()
        self._unreported = list[BatchResult]()
        self._losses = Counter[Batch]()  # how often the worker of a task was lost

    def evaluate(self, tasks: Iterable[Task], on_finished: OnFinished) -> None:
        """Evaluate tasks, in any order."""
        waiting = iter(tasks)
        self.evaluate_chosen(lambda: next(waiting, None), on_finished)

    def evaluate_chosen(self, choose: Choose, on_finished: OnFinished, *, report_first: bool = False) -> None:
        """Evaluate the tasks that a function chooses, as workers become free.

        report_first: whether all results are passed on before each choice; else workers are not kept waiting for that.
        """
        self._begin()  # an error may have left tasks of the last time
        with held_interrupts(self._pool.wake) as raise_interrupt:
            try:
                while self._submit(choose):
                    if not report_first:
                        self._report(on_finished)  # while the workers are busy
                    self._take(self._pool.finished())
                    raise_interrupt()
                    if report_first:
                        self._report(on_finished)
            except KeyboardInterrupt:
                self._drain(time.monotonic() + GRACE_SECONDS, raise_interrupt)
                raise
            except (IntegrandError, WorkerError):
                self._drain(None, raise_interrupt)
                raise
            except Exception:  # of a choice, or of the caller
                self._pool.cancel()
                raise
            finally:
                self._report(on_finished)

    @property
    def n_workers(self) -> int:
        """How many tasks run at a time, as far as that is known."""
        return self._pool.n_workers

    def close(self) -> None:
        """End the workers, if they are those of this run."""
        self._pool.close()

    def _submit(self, choose: Choose) -> bool:
        """Submit as many tasks as allowed; whether there is anything to wait for."""
        for task in self._next_tasks(choose):
            self._pool.submit(task, self._losses[task.batch])
        return self._pool.n_pending > 0

    def _next_tasks(self, choose: Choose) -> Iterator[Task]:
        while self._pool.n_pending < self._pool.max_pending:
            task = self._again.popleft() if self._again else choose()
            if task is None:
                if self._suspects and not self._pool.n_pending:
                    yield self._suspects.popleft()
                return
            yield task

    def _report(self, on_finished: OnFinished) -> None:
        if self._unreported:
            on_finished(joined(self._unreported))
            self._unreported.clear()  # only now, so that an interrupt does not lose them

    def _take(self, outcomes: Sequence[TaskResult]) -> None:
        """Keep results, and queue the rest of tasks again; raise if f failed, or if a task must not be retried."""
        self._unreported += [outcome.result for outcome in outcomes if outcome.result is not None]
        for _, left, error in outcomes:
            if isinstance(error, WorkerLost) and left is not None:
                self._retry(left, error)
            elif error is not None:
                raise error
            elif left is not None:
                self._again.append(left)

    def _retry(self, task: Task, error: WorkerLost) -> None:
        """Queue a task again whose worker was lost, whole or in halves; or skip or report the point that does it."""
        self._losses[task.batch] += 1
        losses = self._losses[task.batch]
        if losses <= self._retries and not error.final:
            self._again.appendleft(task)
        elif not error.f_to_blame:
            raise WorkerError(
                f"{task.batch} came back {losses} times without values ({error}): a worker was killed, ran out of "
                f"memory or cannot receive f. Retries: {self._retries}."
            ) from error
        elif not error.certain and task.batch not in self._suspected:
            self._suspect(task)
        elif task.n > 1:
            for half in (task.part(task.n // 2, task.n), task.part(0, task.n // 2)):
                self._losses[half.batch] = self._retries  # one of them is to blame, and was lost as often
                if error.certain:
                    self._again.appendleft(half)
                else:
                    self._suspect(half)
        elif task.skip_failures:
            self._unreported.append(task.failed(str(error)))
        else:
            attempts = f", at each of {losses} attempts" if losses > 1 and not error.final else ""
            raise task.points.failure(0, str(error), f"{attempts}.") from error

    def _suspect(self, task: Task) -> None:
        self._suspected.add(task.batch)
        self._suspects.appendleft(task)

    def _drain(self, deadline: float | None, raise_interrupt: Callable[[], None]) -> None:
        """Begin nothing, and keep what finishes until the deadline of the running evaluations."""
        self._pool.cancel()
        while self._pool.n_pending:
            seconds = None if deadline is None else deadline - time.monotonic()
            if seconds is not None and seconds <= 0:
                return
            outcomes = self._pool.finished(seconds)
            self._unreported += [outcome.result for outcome in outcomes if outcome.result is not None]
            raise_interrupt()


@contextmanager
def held_interrupts(wake: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Hold the first Ctrl-C back until the block calls the function, so that it leaves no lock of a pool taken."""
    handler: Any = signal.getsignal(signal.SIGINT)
    process, seen, held = os.getpid(), 0, False

    def hold(signum: int, frame: Any) -> None:
        nonlocal seen, held
        seen += 1
        if seen > 1 or os.getpid() != process:  # not the first Ctrl-C, or in a forked worker
            handler(signum, frame)
            return
        held = True
        wake()

    def raise_interrupt() -> None:
        nonlocal held
        if held:
            held = False
            handler(signal.SIGINT, None)

    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield raise_interrupt  # signals are ignored, or arrive in another thread
        return
    signal.signal(signal.SIGINT, hold)
    try:
        yield raise_interrupt
    finally:
        signal.signal(signal.SIGINT, handler)
        raise_interrupt()
