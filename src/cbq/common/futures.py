"""Calls that are made by an executor: how they are submitted, waited for, and what became of them.

An executor is anything with `submit(function, *arguments)`. Its futures have `result()`, and `add_done_callback`, as in
the standard library, or `done()`, which is then polled.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from cbq.common.checks import described

Key = TypeVar("Key")
FIRST_POLL, LONGEST_POLL = 0.01, 1.0  # seconds between two looks at futures that do not call back


class Executor(Protocol):
    """Anything with `submit`, such as a `concurrent.futures.Executor`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Make a call somewhere, and return its future."""


class RemoteTraceback(Exception):
    """The traceback of an error in another process."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class CallResult(NamedTuple):
    """What became of a call: its result, the error of its function, or the error of the executor that lost it.

    details: the traceback of the error of the function, which pickle leaves out.
    """

    result: Any = None
    error: Exception | None = None
    details: str = ""
    lost: BaseException | None = None


def call(function: Callable[[Any], Any], task: Any, attempt: int) -> CallResult:
    """A call in a worker; an error in its future is then one of the executor, in whatever class it comes back.

    attempt: keeps a scheduler that caches calls from returning an earlier attempt.
    """
    try:
        return CallResult(function(task))
    except Exception as error:
        return CallResult(None, _sendable(error), traceback.format_exc())


def _sendable(error: Exception) -> Exception:
    """The error, or its text where it would not survive the way back."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(described(error))
    return error


class Calls(Generic[Key]):
    """The pending calls of an executor, by keys of the caller."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._pending = dict[int, tuple[Key, Any]]()  # keys and futures, by numbers: futures need not be hashable
        self._polled = set[int]()
        self._done = SimpleQueue[int | None]()  # None: to wake up
        self._numbers, self._interval = count(), FIRST_POLL

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def keys(self) -> list[Key]:
        """The keys of the pending calls, in the order in which they were submitted."""
        return [key for key, _ in self._pending.values()]

    def submit(self, key: Key, function: Callable[[Any], Any], task: Any, attempt: int) -> None:
        """Let a worker call `function(task)`; the attempts of a task are numbered from 0."""
        future, number = self._executor.submit(call, function, task, attempt), next(self._numbers)
        calls_back = callable(getattr(future, "add_done_callback", None))
        if not callable(getattr(future, "result", None)) or not (calls_back or callable(getattr(future, "done", None))):
            raise TypeError(
                f"executor.submit must return a future with result(), and with add_done_callback() or done(), but "
                f"{type(self._executor).__name__}.submit returned a {type(future).__name__}."
            )
        self._pending[number] = key, future
        if calls_back:
            future.add_done_callback(lambda _: self._done.put(number))
        else:
            self._polled.add(number)

    def finished(self, seconds: float) -> list[tuple[Key, CallResult]] | None:
        """Wait until a call has ended, or until `wake`; what has ended since, and None if nothing has in this time."""
        until = time.monotonic() + seconds
        while True:
            self._poll()
            left = max(until - time.monotonic(), 0.0)
            try:
                ended = [self._done.get(timeout=min(left, self._interval) if self._polled else left)]
            except Empty:
                if time.monotonic() >= until:
                    return None
                self._interval = min(2 * self._interval, LONGEST_POLL)
                continue
            self._interval = FIRST_POLL
            ended += [self._done.get() for _ in range(self._done.qsize())]
            return [self._taken(number) for number in ended if number in self._pending]

    def wake(self) -> None:
        """Let `finished` return. Called by signal handlers."""
        self._done.put(None)

    def cancel(self) -> None:
        """Take back what has not begun, where futures can be cancelled."""
        for number, (_, future) in list(self._pending.items()):
            with suppress(Exception):  # some cannot
                if future.cancel() is True:
                    self._pending.pop(number)
                    self._polled.discard(number)

    def _poll(self) -> None:
        for number in list(self._polled):
            try:
                done = self._pending[number][1].done()
            except Exception:  # `result` has the reason
                done = True
            if done:
                self._polled.discard(number)
                self._done.put(number)

    def _taken(self, number: int | None) -> tuple[Key, CallResult]:
        assert number is not None
        key, future = self._pending.pop(number)
        try:
            result: CallResult = future.result()
        except BaseException as error:  # CancelledError and a KeyboardInterrupt of the worker among them
            result = CallResult(lost=error)
        if result.error is not None and result.error.__traceback__ is None:  # it is from another process
            result.error.__cause__ = RemoteTraceback(result.details)
        return key, result
