"""The worker pool behind an executor: the argument `executor`, its workers, and calls spread over them.

An executor is a number of processes to start, or anything with `submit`: a pool of threads or processes, MPI, SLURM, a
client of Dask.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from cbq.common.checks import described, shown
from cbq.common.futures import Calls, Executor

MAX_PROCESSES = 1024  # that a call starts
CHECK_INTERVAL = 5.0  # seconds between two checks that a cluster has workers
WITHOUT_WORKERS = 60.0  # seconds that a cluster may be without workers
RETRIES = 3  # of a call whose worker was lost
FUNCTION = "Define it at the top level of a module, since lambdas and functions inside functions cannot be pickled"

Task = TypeVar("Task")
Result = TypeVar("Result")


class WorkerError(RuntimeError):
    """The workers of an executor failed, rather than their task.

    Examples
    --------
    >>> try:
    ...     raise cbq.WorkerError("all workers are gone")  # as a cluster may
    ... except RuntimeError as error:
    ...     print(error)
    all workers are gone
    """


def as_executor(executor: Any) -> Executor | int | None:
    """The argument `executor`, checked; of a client of Dask, its executor."""
    if executor is None:
        return None
    if isinstance(executor, int | np.integer) and not isinstance(executor, bool):
        if not 1 <= executor <= MAX_PROCESSES:
            raise ValueError(
                f"executor must be a number of processes, at least 1, but it is {shown(executor)} (and at "
                f"most {MAX_PROCESSES} are started)."
            )
        return int(executor)
    if not isinstance(executor, type):
        if callable(getattr(executor, "get_executor", None)):  # Dask's own `submit` takes equal calls for one
            executor = executor.get_executor()
        if callable(getattr(executor, "submit", None)):
            found: Executor = executor
            return found
    kind = f"the class {executor.__name__}" if isinstance(executor, type) else f"a {type(executor).__name__}"
    raise TypeError(
        f"executor must be None, a number of processes or an object with submit(function, *arguments), such as a "
        f"concurrent.futures.Executor, but it is {kind}."
    )


@contextmanager
def opened(executor: Any) -> Iterator[Executor | None]:
    """The argument `executor` as an executor, or None; processes that a number asks for end with the context."""
    given = as_executor(executor)
    if not isinstance(given, int):
        yield given
        return
    from concurrent.futures import ProcessPoolExecutor  # slow to import

    with ProcessPoolExecutor(given) as pool:
        yield pool


class Workers:
    """The workers of an executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._cluster: Any = getattr(executor, "_client", None)  # of Dask
        self._none_since: float | None = None

    @property
    def count(self) -> int:
        """The number of tasks that run at a time, as far as it is known."""
        for name in ("_max_workers", "num_workers", "max_workers"):  # the standard library and loky; mpi4py; others
            n = getattr(self._executor, name, None)
            if isinstance(n, int) and n > 0:
                return n
        return (sum(self._cluster.nthreads().values()) if hasattr(self._cluster, "nthreads") else os.cpu_count()) or 1

    def heard(self) -> None:
        """Note that a worker has just answered."""
        self._none_since = None

    def require_some(self, waiting: str, category: type[Warning] = RuntimeWarning) -> None:
        """Warn if a cluster of Dask has no workers, and raise if it has had none for a while; `waiting`: for them."""
        if not hasattr(self._cluster, "scheduler_info"):
            return
        if self._cluster.status == "running" and self._cluster.scheduler_info()["workers"]:
            self.heard()
        elif self._none_since is None:
            self._none_since = time.monotonic()
            text = f"the Dask cluster has no workers: waiting for some, {WITHOUT_WORKERS:g} s at most."
            warnings.warn(text, category, stacklevel=2)
        elif time.monotonic() - self._none_since > WITHOUT_WORKERS:
            raise WorkerError(
                f"the Dask cluster has had no workers for {WITHOUT_WORKERS:g} s, and {waiting} for one: start workers, "
                f"wait for them with client.wait_for_workers(1), and try again."
            )


def require_picklable(executor: Executor, thing: object, name: str, instead: str = FUNCTION) -> None:
    """Raise if the executor is known to send things in a way in which this one, called `name`, cannot be sent."""
    pools = sys.modules.get("concurrent.futures.process")  # slow to import; without it, this is no process pool
    if pools is not None and isinstance(executor, pools.ProcessPoolExecutor):
        refuse_unpicklable(thing, name, instead)
    elif type(executor).__module__.partition(".")[0] == "mpi4py":
        own = importlib.import_module("mpi4py.MPI").pickle  # which the user may have replaced
        refuse_unpicklable(thing, name, instead, own)


def refuse_unpicklable(thing: object, name: str, instead: str = FUNCTION, pickler: Any = pickle) -> None:
    """Raise if a pickler cannot send a thing to other processes."""
    try:
        pickler.dumps(thing)
    except Exception as error:
        raise TypeError(
            f"{name} cannot be sent to other processes ({described(error)}). {instead}; or pass a pool of "
            f"threads, or an executor that uses cloudpickle, such as loky or client.get_executor() of Dask."
        ) from error


def killed_its_workers(error: BaseException) -> bool:
    """Whether a cluster of Dask has given a task up because each worker that took it was lost."""
    scheduler = sys.modules.get("distributed.scheduler")
    return scheduler is not None and isinstance(error, scheduler.KilledWorker)


def call_each(
    function: Callable[[Task], Result], tasks: Sequence[Task], executor: Executor | None, name: str, instead: str
) -> list[Result]:
    """`function(task)` of each task, in the order of the tasks; see `as_called`."""
    found = dict(as_called(function, tasks, executor, name, instead))
    return [found[i] for i in range(len(tasks))]


def as_called(
    function: Callable[[Task], Result], tasks: Sequence[Task], executor: Executor | None, name: str, instead: str
) -> Generator[tuple[int, Result]]:
    """The number and the result of each task as soon as it is ready: here, or by the workers of an executor.

    A call whose worker is lost is made again, so it must depend on its task alone. An error of the function is raised
    here; then, and if the caller stops, pending tasks are cancelled.

    name, instead: of the function and its task, for a message, and the remedy if they cannot be sent.
    """
    if executor is None:
        yield from enumerate(map(function, tasks))
        return
    if tasks:
        require_picklable(executor, (function, tasks[0]), name, instead)
    workers, losses, calls = Workers(executor), [0] * len(tasks), Calls[int](executor)
    waiting, most = list(range(len(tasks)))[::-1], 2 * workers.count + 2
    try:
        while waiting or len(calls):
            while waiting and len(calls) < most:
                i = waiting.pop()
                _submit(calls, i, function, tasks[i], losses[i])
            ended = calls.finished(CHECK_INTERVAL)
            if ended is None:
                workers.require_some(f"{len(calls)} tasks wait")
                continue
            workers.heard()
            for i, outcome in ended:
                if outcome.error is not None:
                    raise outcome.error
                if outcome.lost is None:
                    yield i, outcome.result
                    continue
                _require_retry(outcome.lost, losses[i])
                losses[i] += 1
                waiting.append(i)
    finally:
        calls.cancel()


def _submit(calls: Calls[int], i: int, function: Callable[[Task], Result], task: Task, losses: int) -> None:
    try:
        calls.submit(i, function, task, losses)
    except BrokenExecutor as error:
        raise _broken(error) from error
    except RuntimeError as error:  # of the standard library, after its shutdown
        raise WorkerError(f"the executor takes no more tasks ({described(error)}): pass one that is open.") from error


def _require_retry(error: BaseException, losses: int) -> None:
    """Raise unless a call whose worker was lost is worth another attempt."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, BrokenExecutor):
        raise _broken(error) from error
    if losses >= RETRIES or killed_its_workers(error):
        raise WorkerError(
            f"a task came back {losses + 1} times without a result ({described(error)}): a worker was killed, ran out "
            f"of memory, or cannot load cbq and what was sent."
        ) from error


def _broken(error: BrokenExecutor) -> WorkerError:
    return WorkerError(
        f"a worker of the executor died, and the executor cannot be used any more ({described(error)}): make a new "
        f"one, with fewer workers if they ran out of memory."
    )
