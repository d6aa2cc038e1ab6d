"""One runner for all experiments: evaluate what is not there yet, keep each cell at once, then write what is shown."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cbq.linalg import at_most
from cbq.reproduce.cells import Cell, Row
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.outputs import write_outputs
from cbq.reproduce.record import code, environment
from cbq.reproduce.store import opened
from cbq.runtime.workers import end_with

Report = Callable[[int, int], None]  # cells that are done, and of all
Job = tuple[Cell, int]
Finished = tuple[Job, list[Row], float]


def reproduce(
    experiment: Experiment,
    out: Path,
    *,
    quick: bool = False,
    seeds: int = 20,
    workers: int = 1,
    force: bool = False,
    report: Report = lambda done, total: None,
) -> str:
    """Evaluate what is missing in out/NAME, write tables, record and figure there, and return the verdict."""
    cells, identity = experiment.cells(quick), _identity(experiment, quick)
    with opened(out / experiment.name, write=True) as store:
        store.begin(identity, code(), force=force)
        jobs, done = _jobs(cells, seeds), store.done()
        missing = [job for job in jobs if (job[0].key, job[1]) not in done]
        if missing:
            store.note_run(environment())
        report(len(jobs) - len(missing), len(jobs))
        finished = _in_pool(experiment, missing, workers) if workers > 1 else _here(experiment, missing)
        for count, ((cell, seed), rows, seconds) in enumerate(finished, len(jobs) - len(missing) + 1):
            store.add(cell, seed, code(), seconds, rows)
            report(count, len(jobs))
        return write_outputs(experiment, store, cells)


def redraw(experiment: Experiment, out: Path) -> str:
    """Write tables, record and figure from saved results alone, and return the verdict."""
    with opened(out / experiment.name, write=False) as store:
        identity = store.identity
        if identity.get("experiment") != experiment.name:
            found = identity.get("experiment", "nothing that cbq reproduce wrote")
            raise ValueError(f"{store.path} holds {found!r}, and {experiment.name!r} was asked for.")
        return write_outputs(experiment, store, experiment.cells(bool(identity["quick"])))


def _identity(experiment: Experiment, quick: bool) -> dict[str, Any]:
    return {"experiment": experiment.name, "edition": experiment.edition, "quick": quick}


def _jobs(cells: Sequence[Cell], seeds: int) -> list[Job]:
    """Cells and seeds, the cheap ones first; a figure has all of its points early, with few seeds each."""
    jobs = [(cell, seed) for cell in cells for seed in range(cell.count(seeds))]
    return sorted(jobs, key=lambda job: (job[0].seconds, job[1]))


def _here(experiment: Experiment, jobs: Sequence[Job]) -> Iterator[Finished]:
    """Results of jobs, in this process."""
    with one_thread():
        for job in jobs:
            yield (job, *_measured(experiment.name, experiment.measure, job))


def _in_pool(experiment: Experiment, jobs: Sequence[Job], workers: int) -> Iterator[Finished]:
    """Results of jobs as they are ready, from processes that have one thread each and end with this one."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    if not jobs:
        return
    pool = ProcessPoolExecutor(min(workers, len(jobs)), multiprocessing.get_context("spawn"), _prepare)
    try:
        futures = {pool.submit(_alone, experiment.name, experiment.measure, job): job for job in jobs}
        for future in as_completed(futures):
            yield (futures[future], *future.result())
    except BrokenProcessPool as error:
        raise RuntimeError(
            f"a worker of {experiment.name} died, maybe for want of memory: run the same command again, with fewer "
            f"--workers. What was finished is kept."
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _prepare() -> None:
    """Get a worker ready: it goes with the process that started it, and on Ctrl-C without a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()


def _alone(name: str, measure: Callable[[Cell, int], list[Row]], job: Job) -> tuple[list[Row], float]:
    with one_thread():
        return _measured(name, measure, job)


def _measured(name: str, measure: Callable[[Cell, int], list[Row]], job: Job) -> tuple[list[Row], float]:
    """The rows of a job and its seconds; a failure is a row with a note."""
    start = perf_counter()
    try:
        rows = measure(*job)
    except Exception as error:  # whatever it is, the other cells go on, and the table says what happened
        rows = [{"method": "", "note": f"{name} failed: {type(error).__name__}: {' '.join(str(error).split())}"}]
    return rows, perf_counter() - start


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for batches, BLAS and OpenMP, so that seconds mean the same everywhere."""
    with at_most(1), threadpool_limits(1):
        yield
