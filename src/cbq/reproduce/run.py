"""One runner for all experiments: evaluate what is not there yet, keep each cell at once, then write what is shown."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cbq.checkpoint import CheckpointError
from cbq.collect.executors import exit_with_parent
from cbq.linalg import at_most
from cbq.reproduce.cells import Cell, Row
from cbq.reproduce.draw import require_matplotlib
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.outputs import write_outputs
from cbq.reproduce.record import code, environment
from cbq.reproduce.store import FORMAT, Result, Store, opened

Report = Callable[[int, int], None]  # cells that are done, and of all
Job = tuple[Cell, int]


@dataclass(frozen=True)
class Outcome:
    """What became of the claim of an experiment, in one line, and how many of the evaluations asked for failed."""

    verdict: str
    failed: int


def reproduce(
    experiment: Experiment,
    out: Path,
    *,
    quick: bool = False,
    seeds: int = 20,
    workers: int = 1,
    force: bool = False,
    report: Report = lambda done, total: None,
) -> Outcome:
    """Evaluate what is missing in out/NAME, and write tables, record and figure there."""
    require_matplotlib()
    cells, identity = experiment.cells(quick), _identity(experiment, quick)
    with opened(out / experiment.name, write=True) as store:
        store.begin(identity, cells, code(), force=force)
        jobs = _jobs(cells, seeds)
        if experiment.twin:
            theirs = {**identity, "experiment": experiment.twin}
            _copy(out / experiment.twin, theirs, store, _missing(jobs, store, cells))
        missing = _missing(jobs, store, cells)
        if missing:
            store.note_run(environment(workers))
        report(len(jobs) - len(missing), len(jobs))
        evaluate = _in_pool(experiment, missing, workers) if workers > 1 else _here(experiment, missing)
        with closing(evaluate) as finished:
            for count, result in enumerate(finished, len(jobs) - len(missing) + 1):
                _require_same_code(experiment, result)
                store.add(result)
                report(count, len(jobs))
        return Outcome(write_outputs(experiment, store, cells), len(_missing(jobs, store, cells)))


def redraw(experiment: Experiment, out: Path) -> str:
    """Write tables, record and figure from saved results alone, and return the verdict."""
    require_matplotlib()
    with opened(out / experiment.name, write=False) as store:
        quick = bool(store.identity.get("quick"))
        store.require(_identity(experiment, quick))
        return write_outputs(experiment, store, experiment.cells(quick))


def _identity(experiment: Experiment, quick: bool) -> dict[str, Any]:
    return {"format": FORMAT, "experiment": experiment.name, "edition": experiment.edition, "quick": quick}


def _jobs(cells: Sequence[Cell], seeds: int) -> list[Job]:
    """Cells and seeds, in an order in which a figure has all of its points early, with few seeds each."""
    jobs = [(cell, seed) for cell in cells for seed in range(cell.count(seeds))]
    return sorted(jobs, key=lambda job: (job[1], job[0].seconds))


def _missing(jobs: Sequence[Job], store: Store, cells: Sequence[Cell]) -> list[Job]:
    """What there is to evaluate, cells that failed among them."""
    done = {(each.cell.key, each.seed) for each in store.results(cells) if not each.failed}
    return [job for job in jobs if (job[0].key, job[1]) not in done]


def _copy(folder: Path, identity: dict[str, Any], store: Store, jobs: Sequence[Job]) -> None:
    """Take what another experiment has evaluated with the same code, if it is there and nobody writes to it."""
    found, runs, wanted = [], [], {(cell.key, seed) for cell, seed in jobs}
    with suppress(FileNotFoundError, CheckpointError), opened(folder, write=False) as other:
        if other.identity == identity:
            found, runs = other.results({cell.key: cell for cell, _ in jobs}.values()), other.runs()
    for record in runs:
        store.note_run(record)
    for result in found:
        if (result.cell.key, result.seed) in wanted and result.code == code() and not result.failed:
            store.add(result)


def _require_same_code(experiment: Experiment, result: Result) -> None:
    """Refuse a result of a worker that has loaded other files than this process: they were changed in the meantime."""
    if result.code != code():
        raise RuntimeError(
            f"files of cbq were changed while {experiment.name} ran: run the same command again, with --force to keep "
            f"what was finished before, or with another --out."
        )


def _here(experiment: Experiment, jobs: Sequence[Job]) -> Generator[Result]:
    """Results of jobs, in this process."""
    for job in jobs:
        yield _measured(experiment.name, experiment.measure, job)


def _in_pool(experiment: Experiment, jobs: Sequence[Job], workers: int) -> Generator[Result]:
    """Results of jobs as they are ready, from processes that have one thread each and end with this one."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    if not jobs:
        return
    pool, futures = ProcessPoolExecutor(min(workers, len(jobs)), multiprocessing.get_context("spawn"), _prepare), []
    try:
        futures = [pool.submit(_measured, experiment.name, experiment.measure, job) for job in jobs]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        raise RuntimeError(
            f"a worker of {experiment.name} died, maybe for want of memory: run the same command again, with fewer "
            f"--workers. What was finished is kept."
        ) from error
    finally:
        for future in futures:  # a pool that is forgotten at once forgets to cancel them itself
            future.cancel()
        pool.shutdown(wait=False)


def _prepare() -> None:
    """Get a worker ready: it notes its code, and goes with its parent, and on Ctrl-C without a traceback."""
    code()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=exit_with_parent, args=(os.getppid(),), daemon=True).start()


def _measured(name: str, measure: Callable[[Cell, int], list[Row]], job: Job) -> Result:
    """The result of a job; a failure is a row with a note."""
    start, failed = perf_counter(), False
    try:
        with one_thread():
            rows = measure(*job)
    except Exception as error:  # whatever it is, the other cells go on, and the table says what happened
        rows = [{"method": "", "note": f"{name} failed: {type(error).__name__}: {' '.join(str(error).split())}"}]
        failed = True
    return Result(*job, code(), perf_counter() - start, rows, failed)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for batches, BLAS and OpenMP, so that seconds mean the same everywhere."""
    with at_most(1), threadpool_limits(1):
        yield
