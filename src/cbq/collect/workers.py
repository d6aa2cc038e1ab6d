"""Who evaluates batches: an executor of the user's, or a pool of processes of our own."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cbq._arrays import Array
from cbq.collect.batches import Batch
from cbq.collect.integrand import Evaluator, Outcome, Outputs, Place

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

PULSE = 0.5  # seconds between two looks of a worker at whether its run is still there
_mine: list[Evaluator] = []  # in a worker of our own: what it evaluates


class Task(NamedTuple):
    """A batch, with all that its evaluation needs besides f."""

    batch: Batch
    theta: Array  # (p,)
    x: Array  # (n, d)
    outputs: Outputs
    tolerant: bool


def evaluate(evaluator: Evaluator | None, task: Task, attempt: int = 0) -> Outcome:
    """The outcome of a task; workers run this, those of our own without being told f again.

    attempt: so that a scheduler that remembers calls does not take a second one for the first.
    """
    place = Place(task.theta, task.batch.t, task.batch.start)
    f = _mine[0] if evaluator is None else evaluator
    if task.tolerant:
        return f.tolerant(place, task.x, task.outputs)
    return Outcome(f.values(place, task.x, task.outputs), {})


class Workers(Protocol):
    """What runs tasks elsewhere."""

    @property
    def count(self) -> int:
        """How many tasks run at a time."""

    def submit(self, task: Task, attempt: int) -> Future[Outcome]:
        """Start a task, or have it wait for its turn."""

    @property
    def renewable(self) -> bool:
        """Whether `renew` can be called."""

    def renew(self) -> None:
        """Replace workers that have died."""

    def close(self, *, wait: bool) -> None:
        """Let go of the workers; where `wait`, once they are idle."""


class Borrowed:
    """An executor of the user's."""

    def __init__(self, executor: Executor, evaluator: Evaluator) -> None:
        self._executor, self._evaluator = executor, evaluator
        pools = sys.modules.get("concurrent.futures.process")  # slow to import, and there is no pool without
        if pools is not None and isinstance(executor, pools.ProcessPoolExecutor):
            _refuse_unpicklable(evaluator)

    @property
    def count(self) -> int:
        """How many tasks run at a time, as far as the executor tells."""
        for name in ("_max_workers", "num_workers"):  # of the standard library and loky; of mpi4py
            found = getattr(self._executor, name, None)
            if isinstance(found, int) and found > 0:
                return found
        client: Any = getattr(self._executor, "_client", None)  # of Dask
        threads = sum(client.nthreads().values()) if hasattr(client, "nthreads") else os.cpu_count()
        return threads or 1

    def submit(self, task: Task, attempt: int) -> Future[Outcome]:
        """Start a task, or have it wait for its turn."""
        return self._executor.submit(evaluate, self._evaluator, task, attempt)

    renewable = False  # they are not ours

    def renew(self) -> None:
        """Nothing: see `renewable`."""

    def close(self, *, wait: bool) -> None:
        """Not ours to close."""


class OwnPool:
    """Processes that know f from their start, and that end with this one."""

    def __init__(self, count: int, evaluator: Evaluator) -> None:
        self.count, self._evaluator = count, evaluator
        self._pool = self._made()

    def submit(self, task: Task, attempt: int) -> Future[Outcome]:
        """Start a task, or have it wait for its turn."""
        return self._pool.submit(evaluate, None, task, attempt)

    renewable = True

    def renew(self) -> None:
        """A new pool in place of the broken one."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._made()

    def close(self, *, wait: bool) -> None:
        """End the processes."""
        self._pool.shutdown(wait=wait, cancel_futures=True)

    def _made(self) -> ProcessPoolExecutor:
        import multiprocessing  # slow to import
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context()
        if context.get_start_method() != "fork":  # forked processes have f already
            _refuse_unpicklable(self._evaluator)
        return ProcessPoolExecutor(self.count, context, _prepare, (self._evaluator,))


def _prepare(evaluator: Evaluator) -> None:
    """Get a worker of our own ready."""
    _mine[:] = [evaluator]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # which a run in the background may have been told
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches workers, too: they go without a traceback
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()


def end_with(parent: int) -> None:
    """End this process soon after its parent, a run or its fork server, was killed: it would wait for work forever."""
    while os.getppid() == parent:
        time.sleep(PULSE)
    os._exit(1)


def _refuse_unpicklable(evaluator: Evaluator) -> None:
    try:
        pickle.dumps(evaluator)
    except Exception as error:
        raise TypeError(
            f"the integrand cannot be sent to other processes ({type(error).__name__}: {error}). Define it at the top "
            f"level of a module, as functions inside functions and lambdas cannot be pickled; or pass an executor that "
            f"sends functions with cloudpickle, as client.get_executor() of Dask and loky do; or a pool of threads."
        ) from error


def checked_executor(executor: Any) -> Executor | int | None:
    """`executor`, if it is one of the things that `collect` takes."""
    if executor is None or isinstance(executor, Executor):
        return executor
    if isinstance(executor, int) and not isinstance(executor, bool):
        if executor < 1:
            raise ValueError(f"executor must be a number of processes, at least 1, but it is {executor}.")
        return executor
    hint = " (of a Dask client, pass client.get_executor())" if hasattr(executor, "get_executor") else ""
    raise TypeError(
        f"executor must be None, a number of processes or a concurrent.futures.Executor, but it is a "
        f"{type(executor).__name__}{hint}."
    )


def workers_for(executor: Executor | int, evaluator: Evaluator) -> Workers:
    """Those who evaluate."""
    return OwnPool(executor, evaluator) if isinstance(executor, int) else Borrowed(executor, evaluator)
