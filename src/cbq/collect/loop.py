"""Getting tasks done: one after the other in this process, or many at a time elsewhere."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait

from cbq.collect.batches import Batch, Finished
from cbq.collect.errors import IntegrandError, WorkerError
from cbq.collect.integrand import Evaluator, Outcome
from cbq.collect.workers import Task, Workers, evaluate

TOGETHER = 0.02  # seconds: batches that finish within are handed on together, since each hand-over may wait for a disk
HERE = 8  # such batches at most, in this process

Finish = Callable[[Sequence[Finished]], None]  # what to do with batches that have finished


def run_here(evaluator: Evaluator, tasks: Iterable[Task], finish: Finish, *, in_flight: int | None) -> None:
    """Evaluate tasks in their order; at most `in_flight` of them, quick ones, are finished and not handed on."""
    most, ready, since = in_flight or HERE, list[Finished](), time.monotonic()
    try:
        for task in tasks:
            ready.append(Finished(task.batch, evaluate(evaluator, task)))
            if len(ready) >= most or time.monotonic() - since >= TOGETHER:
                finish(ready)
                ready, since = [], time.monotonic()
    finally:
        if ready:
            finish(ready)


def run_there(workers: Workers, tasks: Iterable[Task], finish: Finish, *, in_flight: int | None, retries: int) -> None:
    """Evaluate tasks on workers, at most `in_flight` of them submitted and not finished, in any order."""
    _Run(workers, tasks, finish, in_flight or 2 * workers.count + 2, retries).through()


class _Run:
    """Tasks on their way."""

    def __init__(self, workers: Workers, tasks: Iterable[Task], finish: Finish, in_flight: int, retries: int) -> None:
        self._workers, self._finish = workers, finish
        self._in_flight, self._retries = in_flight, retries
        self._fresh, self._again = iter(tasks), deque[Task]()
        self._running: dict[Future[Outcome], Task] = {}
        self._lost: Counter[Batch] = Counter()  # how often the worker of a batch died

    def through(self) -> None:
        """Get all of them done."""
        try:
            while self._fill():
                self._take(wait(self._running, return_when=FIRST_COMPLETED).done)
        except (IntegrandError, WorkerError):
            self._settle(patient=True)
            raise
        except BaseException:
            self._settle(patient=False)
            raise

    def _fill(self) -> bool:
        """Submit what may be; whether there is anything to wait for."""
        while len(self._running) < self._in_flight:
            task = self._again.popleft() if self._again else next(self._fresh, None)
            if task is None:
                break
            try:
                self._running[self._workers.submit(task, self._lost[task.batch])] = task
            except BrokenExecutor as error:
                self._again.appendleft(task)
                self._take_over(error)
                break
        return bool(self._running or self._again)

    def _take_over(self, error: BrokenExecutor) -> None:
        """See to workers that died before they were given a task; what they still had comes back by itself."""
        if not self._running:
            self._lost[self._again[0].batch] += 1
            failure = self._given_up(self._again[0].batch, error)
            if failure is not None:
                raise failure
            self._workers.renew()

    def _take(self, done: Iterable[Future[Outcome]]) -> None:
        """Hand on what has finished, and see to what has not."""
        errors = {future: _error(future) for future in done}
        self._hand_on([future for future, error in errors.items() if error is None])
        failed: BaseException | None = None
        for future, error in errors.items():
            if error is None:
                continue
            task = self._running.pop(future)
            if isinstance(error, IntegrandError | KeyboardInterrupt):
                failed = failed or error
            else:
                self._lost[task.batch] += 1
                self._again.append(task)
                failed = failed or self._given_up(task.batch, error)
        if failed is not None:
            raise failed
        if not self._running and any(isinstance(error, BrokenExecutor) for error in errors.values()):
            self._workers.renew()

    def _hand_on(self, finished: Sequence[Future[Outcome]]) -> None:
        if finished:
            self._finish([Finished(self._running[future].batch, future.result()) for future in finished])
        for future in finished:  # only now: an interrupt must not lose them
            del self._running[future]

    def _given_up(self, batch: Batch, error: BaseException) -> WorkerError | None:
        """The error to raise where a batch was lost and is not to be tried again."""
        if isinstance(error, BrokenExecutor) and not self._workers.renewable:
            failure = WorkerError(
                f"a worker of the executor died, and the executor cannot be used any more ({_short(error)}): make a "
                f"new one. executor=2, a number, lets cbq make its own, and make it again where that is needed."
            )
        elif self._lost[batch] > self._retries:
            failure = WorkerError(
                f"{batch} came back {self._lost[batch]} times without values, through no exception of f "
                f"({_short(error)}): the worker was killed, ran out of memory or cannot be sent f, or f ends its "
                f"process. retries = {self._retries} is how often a batch is tried again."
            )
        else:
            return None
        failure.__cause__ = error
        return failure

    def _settle(self, *, patient: bool) -> None:
        """Keep what is finished, and where `patient` what has been started, too; give up the rest."""
        for future in list(self._running):
            if future.cancel():
                del self._running[future]
        done = wait(self._running, timeout=None if patient else 0).done
        self._hand_on([future for future in done if _error(future) is None])


def _error(future: Future[Outcome]) -> BaseException | None:
    """What went wrong, if something did."""
    try:
        return future.exception()
    except CancelledError as error:  # by the executor, as Dask does when it loses a task
        return error


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
