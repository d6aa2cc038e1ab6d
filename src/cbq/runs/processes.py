"""The processes that a run starts. A run has a list of their tasks, and can end and replace any of them."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from cbq.checkpoint import BatchResult, joined
from cbq.common import RemoteTraceback, WorkerError, described, refuse_unpicklable
from cbq.runs.integrand import Evaluator, IntegrandError, Task
from cbq.runs.scheduling import PART_SECONDS, Pool, TaskResult, WorkerLost

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

PARENT_CHECK_INTERVAL = 0.5  # seconds between two checks of a process that its run is still there
CHECK_INTERVAL = 1.0  # seconds between two checks of a run that its processes are still there
EXIT_SECONDS = 1.0  # for an idle process that is told to end


class Message(NamedTuple):
    """A report of a process: results, whether it is idle, and the error that ended the task, with its traceback."""

    result: BatchResult | None = None
    idle: bool = False
    error: Exception | None = None
    details: str = ""


class ProcessPool(Pool):
    """At most n processes, started when there is work for them.

    timeout: seconds for each point, or None; a process that takes longer is ended.
    """

    def __init__(self, n: int, evaluator: Evaluator, timeout: float | None, max_pending: int | None) -> None:
        import multiprocessing  # slow to import

        self._context = multiprocessing.get_context()
        if self._context.get_start_method() != "fork":  # forked processes have f already
            refuse_unpicklable(evaluator, "the integrand")
        self._evaluator, self._timeout, self._n = evaluator, timeout, n
        self._workers = list[_Worker]()
        self._woken, self._wake = self._context.Pipe(duplex=False)
        self.max_pending = min(n, max_pending or n)
        self._process = os.getpid()
        atexit.register(self.close)  # a second Ctrl-C may skip it, and Python would wait for the processes forever

    @property
    def n_workers(self) -> int:
        return self._n

    @property
    def n_pending(self) -> int:
        return sum(worker.task is not None for worker in self._workers)

    def submit(self, task: Task, attempt: int) -> None:
        for worker in [each for each in self._workers if each.task is None]:
            if worker.begin(task):
                return
            worker.kill()  # somebody else has, while it was idle
            self._workers.remove(worker)
        with _interrupts_blocked():  # until the new process has a handler of its own, and is in the list
            worker = _Worker(self._context, self._evaluator, self._timeout)
            self._workers.append(worker)
        worker.begin(task)  # if that fails, `finished` finds it dead

    def finished(self, seconds: float | None = None) -> list[TaskResult]:
        from multiprocessing.connection import wait

        until = None if seconds is None else time.monotonic() + seconds
        while True:
            busy = [worker for worker in self._workers if worker.task is not None]
            now = time.monotonic()
            limits = [now + CHECK_INTERVAL, *([] if until is None else [until]), *(worker.deadline for worker in busy)]
            ready = wait([self._woken, *(worker.connection for worker in busy)], max(0.0, min(limits) - now))
            outcomes = [outcome for worker in busy if (outcome := worker.outcome()) is not None]
            self._workers = [worker for worker in self._workers if not worker.ended]
            if self._woken in ready:
                self._woken.recv_bytes()
                return outcomes
            if outcomes or (until is not None and time.monotonic() >= until):
                return outcomes

    def wake(self) -> None:
        self._wake.send_bytes(b"!")

    def cancel(self) -> None:
        for worker in self._workers:
            if worker.task is not None and os.name == "posix":
                with suppress(ProcessLookupError):
                    os.kill(worker.process.pid or 0, signal.SIGINT)

    def close(self) -> None:
        if os.getpid() != self._process:  # one that was forked from the run
            return
        with _interrupts_blocked():
            idle = [worker for worker in self._workers if worker.task is None and worker.dismiss()]
            until = time.monotonic() + EXIT_SECONDS
            for worker in idle:
                worker.process.join(max(0.0, until - time.monotonic()))
            for worker in self._workers:
                worker.kill()
            self._workers.clear()
            self._woken.close()
            self._wake.close()
            atexit.unregister(self.close)


class _Worker:
    """A process, and the task that it evaluates."""

    def __init__(self, context: Any, evaluator: Evaluator, timeout: float | None) -> None:
        self.connection, theirs = context.Pipe()
        self._forked = context.get_start_method() == "fork"
        run = None if context.get_start_method() == "forkserver" else os.getpid()  # the parent of the process
        self.process: BaseProcess = context.Process(target=_work, args=(theirs, evaluator, run))
        try:
            self.process.start()
        except OSError as error:
            raise WorkerError(f"no process can be started ({error}): ask for fewer, or free memory.") from error
        finally:
            theirs.close()  # so that the end of the process is the end of the connection
        self.task: Task | None = None
        self.ended = self._ready = False
        self._in_batches, self._timeout, self._since = evaluator.in_batches, timeout, 0.0

    def begin(self, task: Task) -> bool:
        """Give the process a task; whether it is there to take it."""
        self.task, self._since = task, time.monotonic()
        try:
            self.connection.send(task)
        except OSError:
            return False
        return True

    @property
    def deadline(self) -> float:
        """When the time for the points that are being evaluated is over."""
        if self._timeout is None or self.task is None or not self._ready:
            return float("inf")
        # Results of single points may be held back, and have not taken longer than that.
        return self._since + (self._timeout * self.task.n if self._in_batches else self._timeout + PART_SECONDS)

    def outcome(self) -> TaskResult | None:
        """What has happened since the last time; None if nothing has."""
        there = self.process.is_alive()  # asked first, since it may end after its last message
        try:
            while self.connection.poll():
                message: Message = self.connection.recv()
                self._ready, self._since = True, time.monotonic()
                if message.result is not None or message.idle:
                    return self._told(message)
        except (EOFError, OSError):
            there = False
        if not there:
            self.process.join(EXIT_SECONDS)
            how = _how_it_ended(self.process.exitcode)
            if not self._ready:
                guard = "" if self._forked else "; a script must not start it outside of if __name__ == '__main__'"
                return self._lost(WorkerLost(f"its process ended before it took work, {how}{guard}", f_to_blame=False))
            return self._lost(WorkerLost(f"ended its process ({how})"))
        if time.monotonic() >= self.deadline:
            return self._lost(WorkerLost(f"took longer than timeout = {self._timeout:g} s", final=True))
        return None

    def _told(self, message: Message) -> TaskResult:
        task, done = self.task, 0 if message.result is None else len(message.result.f)
        left = None if task is None else task.after(done)
        self.task = None if message.idle else left
        if message.error is not None:
            message.error.__cause__ = RemoteTraceback(message.details)
            return TaskResult(message.result, None, message.error)
        return TaskResult(message.result, left if message.idle else None)

    def _lost(self, error: WorkerLost) -> TaskResult:
        outcome, self.task = TaskResult(None, self.task, error), None
        self.kill()
        return outcome

    def dismiss(self) -> bool:
        """Tell an idle process to end; whether it is there to hear it."""
        try:
            self.connection.send(None)
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """End the process, and those that f has started in it."""
        if os.name == "posix":
            with suppress(ProcessLookupError, PermissionError):  # it has no group of its own yet, or is gone
                os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        self.connection.close()
        self.ended = True


def _how_it_ended(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):  # as on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection, evaluator: Evaluator, run: int | None) -> None:
    """What a process does: evaluate tasks until None arrives. SIGINT lets it stop after the current point."""
    if os.name == "posix":
        os.setpgid(0, 0)  # with what f starts, which Ctrl-C must not reach before this process, and which ends with it
    stop = threading.Event()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a run in the background may have been told to ignore it
        signal.signal(signal.SIGINT, lambda *_: stop.set())
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=exit_with_parent, args=(run or os.getppid(),), daemon=True).start()
    connection.send(Message())
    while (task := connection.recv()) is not None:
        stop.clear()
        _evaluate(connection, evaluator, task, stop)


def _evaluate(connection: Connection, evaluator: Evaluator, task: Task, stop: threading.Event) -> None:
    """Evaluate a task, and send results as they become known."""
    held, since, message = list[BatchResult](), time.monotonic(), Message(idle=True)
    try:
        for piece in evaluator.pieces(task):
            held.append(piece)
            if stop.is_set() or piece.batch.stop == task.batch.stop:
                break
            if time.monotonic() - since >= PART_SECONDS:
                connection.send(Message(joined(held)[0]))
                held, since = [], time.monotonic()
    except Exception as error:
        message = message._replace(error=_sendable(error), details=traceback.format_exc())
    connection.send(message._replace(result=joined(held)[0] if held else None))


def _sendable(error: Exception) -> Exception:
    """The error, if it is one of f, and else a WorkerError."""
    return error if isinstance(error, IntegrandError) else WorkerError(f"a worker failed ({described(error)}).")


def exit_with_parent(parent: int) -> None:
    """End this process soon after its parent, a run or its fork server, was killed; it would wait for work forever."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_INTERVAL)
    if os.name == "posix" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # and what f has started
    os._exit(1)
