"""Evaluating batches on workers: the pool behind an executor, and the loop that keeps it busy.

A batch whose worker died is submitted again; an exception of f ends the run. Either way, finished batches are kept.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from cbq._checks import shown
from cbq.checkpoint.evaluations import Batch, BatchResult
from cbq.collect.integrand import Evaluator, IntegrandError, Task

MAX_PROCESSES = 1024  # that a run starts, all at once
PARENT_CHECK_INTERVAL = 0.5  # seconds between two checks of a worker that its run is still there
_worker_evaluator: list[Evaluator] = []  # in a process that a run started: what it evaluates

OnFinished = Callable[[Sequence[BatchResult]], None]  # called with batches that have finished


class WorkerError(RuntimeError):
    """The workers that evaluate the integrand failed, rather than the integrand itself."""


def evaluate(evaluator: Evaluator | None, task: Task, attempt: int = 0) -> BatchResult:
    """Evaluate a task in a worker; processes that the run started have the evaluator already.

    attempt: keeps a scheduler that caches calls from returning the first attempt for the second.
    """
    return (_worker_evaluator[0] if evaluator is None else evaluator).evaluate(task)


class Workers:
    """The worker pool behind an executor: an executor of the user, or a number of processes that this run starts.

    The processes receive f when they start, end with this process, and can be replaced when they die.
    """

    def __init__(self, executor: Executor | int, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._n_processes = executor if isinstance(executor, int) else None
        self._executor = self._start(executor) if isinstance(executor, int) else executor
        pools = sys.modules.get("concurrent.futures.process")  # slow to import; without it, this is no process pool
        if pools is not None and isinstance(executor, pools.ProcessPoolExecutor):
            _require_picklable(evaluator)

    @property
    def restartable(self) -> bool:
        return self._n_processes is not None

    @property
    def count(self) -> int:
        """How many tasks run at a time, as far as the executor tells."""
        names = ("_max_workers", "num_workers")  # the standard library and loky; mpi4py
        for n in (self._n_processes, *(getattr(self._executor, name, None) for name in names)):
            if isinstance(n, int) and n > 0:
                return n
        client: Any = getattr(self._executor, "_client", None)  # Dask
        return (sum(client.nthreads().values()) if hasattr(client, "nthreads") else os.cpu_count()) or 1

    def submit(self, task: Task, attempt: int) -> Future[BatchResult]:
        return self._executor.submit(evaluate, None if self.restartable else self._evaluator, task, attempt)

    def restart(self) -> None:
        if self._n_processes is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = self._start(self._n_processes)

    def close(self, *, wait: bool) -> None:
        """End the processes of this run, after they have become idle if `wait`; the user closes their own executor."""
        if self.restartable:
            self._executor.shutdown(wait=wait, cancel_futures=True)

    def _start(self, n_processes: int) -> Executor:
        import multiprocessing  # slow to import
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context()
        if context.get_start_method() != "fork":  # forked processes have f already
            _require_picklable(self._evaluator)
        return ProcessPoolExecutor(n_processes, context, _initialise_worker, (self._evaluator,))


def _initialise_worker(evaluator: Evaluator) -> None:
    _worker_evaluator[:] = [evaluator]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a run in the background may have been told to ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches workers, too: they end without a traceback
    threading.Thread(target=exit_with_parent, args=(os.getppid(),), daemon=True).start()


def exit_with_parent(parent: int) -> None:
    """End this process soon after its parent, a run or its fork server, was killed; it would wait for work forever."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_INTERVAL)
    os._exit(1)


def _require_picklable(evaluator: Evaluator) -> None:
    try:
        pickle.dumps(evaluator)
    except Exception as error:
        raise TypeError(
            f"the integrand cannot be sent to other processes ({type(error).__name__}: {error}). Define it at the top "
            f"level of a module, since lambdas and functions inside functions cannot be pickled; or pass a pool of "
            f"threads, or an executor that uses cloudpickle, such as loky or client.get_executor() of Dask."
        ) from error


def as_executor(executor: Any) -> Executor | int | None:
    """The argument `executor` of `collect`, checked."""
    if executor is None or isinstance(executor, Executor):
        return executor
    if isinstance(executor, int) and not isinstance(executor, bool):
        if not 1 <= executor <= MAX_PROCESSES:
            raise ValueError(
                f"executor must be a number of processes, at least 1, but it is {shown(executor)} (and at most "
                f"{MAX_PROCESSES} are started)."
            )
        return executor
    hint = " (of a Dask client, pass client.get_executor())" if hasattr(executor, "get_executor") else ""
    raise TypeError(
        f"executor must be None, a number of processes or a concurrent.futures.Executor, but it is a "
        f"{type(executor).__name__}{hint}."
    )


def evaluate_on_workers(
    executor: Executor | int,
    evaluator: Evaluator,
    tasks: Iterator[Task],
    on_finished: OnFinished,
    max_pending: int | None,
    retries: int,
) -> None:
    """Evaluate tasks, in any order, with at most `max_pending` of them submitted and not finished."""
    workers, completed = Workers(executor, evaluator), False
    try:
        _Submission(workers, tasks, on_finished, max_pending or 2 * workers.count + 2, retries).run()
        completed = True
    finally:
        workers.close(wait=completed)


@dataclass(eq=False)
class _Submission:
    """The loop that submits tasks, passes finished batches on, and retries those whose worker died."""

    workers: Workers
    tasks: Iterator[Task]
    on_finished: OnFinished
    max_pending: int
    retries: int
    again: deque[Task] = field(default_factory=deque)
    pending: dict[Future[BatchResult], Task] = field(default_factory=dict)
    done: SimpleQueue[Future[BatchResult] | None] = field(default_factory=SimpleQueue)  # None: an interrupt
    losses: Counter[Batch] = field(default_factory=Counter)  # how often the worker of a batch died

    def run(self) -> None:
        try:
            with _held_interrupts(self.done.put) as raise_interrupt:
                while self._submit():
                    done = [self.done.get() for _ in range(max(self.done.qsize(), bool(self.pending)))]
                    raise_interrupt()  # before the workers that it ended are replaced; `_stop` keeps what is done
                    self._collect([future for future in done if future is not None])
        except BaseException as error:
            self._stop(wait_for_running=isinstance(error, IntegrandError | WorkerError))
            raise

    def _submit(self) -> bool:
        """Submit as many tasks as allowed; whether there is anything to wait for."""
        while len(self.pending) < self.max_pending:
            task = self.again.popleft() if self.again else next(self.tasks, None)
            if task is None:
                break
            try:
                future = self.workers.submit(task, self.losses[task.batch])
                self.pending[future] = task
                future.add_done_callback(self.done.put)
            except BrokenExecutor as error:
                if self.pending:  # they come back with an error of their own
                    self.again.appendleft(task)
                else:
                    self._retry(task, error)
                    self.workers.restart()
                break
        return bool(self.pending or self.again)

    def _collect(self, done: Iterable[Future[BatchResult]]) -> None:
        """Pass on the batches that finished, and queue again those whose worker died."""
        errors = {future: _exception(future) for future in done}
        self._pass_on([future for future, error in errors.items() if error is None])
        for future, error in errors.items():
            if error is not None:
                self._retry(self.pending.pop(future), error)
        if not self.pending and any(isinstance(error, BrokenExecutor) for error in errors.values()):
            self.workers.restart()

    def _pass_on(self, finished: Sequence[Future[BatchResult]]) -> None:
        if finished:
            self.on_finished([future.result() for future in finished])
        for future in finished:  # only now, so that an interrupt does not lose them
            del self.pending[future]

    def _retry(self, task: Task, error: BaseException) -> None:
        """Queue a task again whose worker died; raise if f failed, or if it must not be tried again."""
        if isinstance(error, IntegrandError | KeyboardInterrupt):
            raise error
        self.losses[task.batch] += 1
        self.again.append(task)
        if isinstance(error, BrokenExecutor) and not self.workers.restartable:
            raise WorkerError(
                f"a worker of the executor died, and the executor cannot be used any more ({_short(error)}): make a "
                f"new one. With a number, such as executor=2, cbq makes its own and restarts it when a worker dies."
            ) from error
        if self.losses[task.batch] > self.retries:
            raise WorkerError(
                f"{task.batch} came back {self.losses[task.batch]} times without values, although f raised no "
                f"exception ({_short(error)}): the worker was killed, ran out of memory or cannot receive f, or f ends "
                f"its process. A batch is tried again retries = {self.retries} times."
            ) from error

    def _stop(self, *, wait_for_running: bool) -> None:
        """Cancel what has not started, and keep what has finished; running tasks are waited for, or given up."""
        if wait_for_running or not self.workers.restartable:  # else the pool may be cancelling them, as it ends
            for future in list(self.pending):
                if future.cancel():
                    del self.pending[future]
        done = [future for future in self.pending if wait_for_running or future.done()]
        self._pass_on([future for future in done if _exception(future) is None])


@contextmanager
def _held_interrupts(wake: Callable[[None], None]) -> Iterator[Callable[[], None]]:
    """Hold the first Ctrl-C back until the block calls the function, so that it leaves no lock of a pool taken."""
    handler: Any = signal.getsignal(signal.SIGINT)
    process, held = os.getpid(), list[int]()

    def hold(signum: int, frame: Any) -> None:
        if held or os.getpid() != process:  # a second Ctrl-C, or a forked worker
            handler(signum, frame)
        held.append(signum)
        wake(None)

    def raise_interrupt() -> None:
        if held:
            handler(held.pop(), None)

    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield raise_interrupt  # signals are ignored, or arrive in another thread
        return
    signal.signal(signal.SIGINT, hold)
    try:
        yield raise_interrupt
    finally:
        signal.signal(signal.SIGINT, handler)
        raise_interrupt()


def _exception(future: Future[BatchResult]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as error:  # by the executor, as Dask does when it loses a task
        return error


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
