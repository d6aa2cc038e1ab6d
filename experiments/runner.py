"""Run an experiment: evaluate the cells that are missing, keep each at once, then write tables, record and figure."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from cbq.common.workers import Workers, as_called
from experiments.analysis import ResultTable, Row, SeedSummary, summarise
from experiments.common import OneThreadPool, on_one_thread
from experiments.experiment import FEW_MARKERS, Cell, Experiment
from experiments.figures import FONTS, require_matplotlib
from experiments.record import estimator_digest, run_record
from experiments.results import FORMAT, CellResult, ResultsFile, as_table, open_results

DPI = 160
NOTHING_FINISHED = "nothing is finished"
Progress = Callable[[int, int], None]  # called with the numbers of finished and of all cells
CellJob = tuple[Cell, int]  # a cell and a seed


@dataclass(frozen=True)
class RunSummary:
    """The verdict on the claim of an experiment, in one line, and the number of requested evaluations that failed."""

    verdict: str
    failed: int


def reproduce(
    experiment: Experiment,
    out: Path,
    *,
    quick: bool = False,
    seeds: int = 20,
    workers: int = 1,
    executor: Executor | None = None,
    force: bool = False,
    progress: Progress = lambda done, total: None,
) -> RunSummary:
    """Evaluate what is missing in out/NAME, and write tables, record and figure there.

    workers: the number of processes to start. executor: the workers of a cluster, in place of them.
    """
    require_matplotlib()
    cells, identity = experiment.cells(quick), _identity(experiment, quick)
    with open_results(out / experiment.name, write=True) as file:
        file.begin(identity, cells, estimator_digest(), force=force)
        jobs = _jobs(cells, seeds)
        missing = _missing(jobs, file, cells)
        if missing:
            count = workers if executor is None else Workers(executor).count
            file.add_run({**run_record(estimator_digest()), "workers": count})
        progress(len(jobs) - len(missing), len(jobs))
        with closing(_evaluate(experiment, missing, workers, executor)) as results:
            for done, result in enumerate(results, len(jobs) - len(missing) + 1):
                _require_same_code(experiment, result)
                file.add(result)
                progress(done, len(jobs))
        return RunSummary(write_outputs(experiment, file, cells), len(_missing(jobs, file, cells)))


def redraw(experiment: Experiment, out: Path) -> str:
    """Write tables, record and figure from saved results alone, and return the verdict."""
    require_matplotlib()
    with open_results(out / experiment.name, write=False) as file:
        quick = bool(file.identity.get("quick"))
        file.require(_identity(experiment, quick))
        return write_outputs(experiment, file, experiment.cells(quick))


def _identity(experiment: Experiment, quick: bool) -> dict[str, Any]:
    return {"format": FORMAT, "experiment": experiment.name, "version": experiment.version, "quick": quick}


def _jobs(cells: Sequence[Cell], seeds: int) -> list[CellJob]:
    """Cells and seeds by seed, then by cost, so that all points of a figure soon have a few seeds."""
    jobs = [(cell, seed) for cell in cells for seed in range(cell.n_seeds(seeds))]
    return sorted(jobs, key=lambda job: (job[1], job[0].seconds))


def _missing(jobs: Sequence[CellJob], file: ResultsFile, cells: Sequence[Cell]) -> list[CellJob]:
    """The jobs to evaluate, including those that failed before."""
    done = {(result.cell.key, result.seed) for result in file.results(cells) if not result.failed}
    return [job for job in jobs if (job[0].key, job[1]) not in done]


def _require_same_code(experiment: Experiment, result: CellResult) -> None:
    """Raise if a worker has loaded other files than this process, because they were changed in the meantime."""
    if result.code != estimator_digest():
        raise RuntimeError(
            f"files of cbq were changed while {experiment.name} ran: run the same command again, with --force to keep "
            f"what was finished before, or with another --out."
        )


def _evaluate(
    experiment: Experiment, jobs: Sequence[CellJob], workers: int, executor: Executor | None
) -> Generator[CellResult]:
    """Yield results as they are ready: from this process, or from several with one thread each."""
    task = partial(_run_cell, experiment.name, experiment.run)
    if executor is not None:
        instead = "Define what it runs at the top level of a module"
        with closing(as_called(partial(on_one_thread, task), jobs, executor, experiment.name, instead)) as found:
            for _, result in found:
                yield result
        return
    if workers == 1 or not jobs:
        for job in jobs:
            yield on_one_thread(task, job)
        return
    try:
        with OneThreadPool(min(workers, len(jobs)), _pin_digest) as pool, closing(pool.run(task, jobs)) as results:
            for _, result in results:
                yield result
    except BrokenProcessPool as error:
        raise RuntimeError(
            f"a worker of {experiment.name} died, possibly for lack of memory: run the same command again, with fewer "
            f"--workers. Finished cells are kept."
        ) from error


def _pin_digest() -> None:
    """Compute, and so cache, the digest of the files that a worker loads when it starts."""
    estimator_digest()


def _run_cell(name: str, run: Callable[[Cell, int], list[Row]], cell: Cell, seed: int) -> CellResult:
    """The result of a job; a failure is a row with a note."""
    start, failed = perf_counter(), False
    try:
        rows = run(cell, seed)
    except Exception as error:  # the other cells go on, and the table says what happened
        rows = [{"method": "", "note": f"{name} failed: {type(error).__name__}: {' '.join(str(error).split())}"}]
        failed = True
    return CellResult(cell, seed, estimator_digest(), perf_counter() - start, rows, failed)


def write_outputs(experiment: Experiment, file: ResultsFile, cells: Sequence[Cell]) -> str:
    """Write tables, record.json, caption.md, NAME.png and NAME.svg beside the results; return the verdict."""
    folder, results = file.path.parent, file.results(cells)
    table = as_table(results)
    if not len(table):
        raise ValueError(
            f"{file.path} holds none of the cells that are shown: run the experiment without --plot-only first."
        )
    columns = table.columns()
    _write_csv(folder / "results.csv", columns, table)
    names = {*(name for cell in cells for name in cell.settings), "method", *experiment.labels}
    settings = [name for name in columns if name in names]
    good = as_table([result for result in results if not result.failed])
    lines = summarise(good, settings, [name for name in columns if name not in (*names, "seed", "note")])
    short = [{name: float(f"{v:.6g}") if isinstance(v, float) else v for name, v in line.items()} for line in lines]
    _write_csv(folder / "summary.csv", [*settings, "quantity", *(field.name for field in fields(SeedSummary))], short)
    verdict = experiment.verdict(good) if len(good) else NOTHING_FINISHED
    caption = _caption(experiment, results)
    text = json.dumps(_record(experiment, file, results, verdict) | {"caption": caption}, indent=1) + "\n"
    (folder / "record.json").write_text(text, encoding="utf-8")
    (folder / "caption.md").write_text(caption + "\n", encoding="utf-8")
    if len(good):
        _save(experiment, good, folder / experiment.name)
    return verdict


def _caption(experiment: Experiment, results: Sequence[CellResult]) -> str:
    """The caption of the figure, with the numbers of seeds: {seeds} of most cells, {few} of those with fewer."""
    counts = Counter(result.cell.key for result in results if not result.failed)
    most, *fewer = sorted({*counts.values()} or {0}, reverse=True)
    caption = experiment.caption if fewer else experiment.caption.replace(FEW_MARKERS, "")
    return caption.format(seeds=most, few=" or ".join(map(str, fewer)) or most)


def _save(experiment: Experiment, table: ResultTable, path: Path) -> None:
    """Draw and save a figure as PNG and as SVG; equal results give equal files."""
    from matplotlib import rc_context

    with rc_context({**FONTS, "svg.hashsalt": path.name, "svg.fonttype": "path"}):
        figure = experiment.draw(table)
        figure.savefig(path.with_name(f"{path.name}.png"), dpi=DPI, metadata={"Software": None})
        figure.set_layout_engine("none")  # the layout is final by now, and computing it takes a while
        figure.savefig(path.with_name(f"{path.name}.svg"), metadata={"Date": None})


def _record(experiment: Experiment, file: ResultsFile, results: Sequence[CellResult], verdict: str) -> Row:
    rows = [row for result in results for row in result.rows]
    notes = sorted({f"{row.get('method', '')}: {row['note']}" for row in rows if row.get("note")})
    counts = Counter(Counter(result.cell.key for result in results).values())
    return {
        **file.identity,
        "title": experiment.title,
        "claim": experiment.claim,
        "verdict": verdict,
        "seeds": sorted({result.seed for result in results}),
        "cells_by_seeds": {str(seeds): cells for seeds, cells in sorted(counts.items())},
        "results": len(results),
        "failed": sum(result.failed for result in results),
        "seconds": round(sum(result.seconds for result in results), 3),
        "code": dict(Counter(result.code for result in results)),
        "runs": file.runs(),
        "notes": notes,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write rows as CSV with these columns; missing values and NaN are empty, and floats are written in full."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="raise", restval="")
        writer.writeheader()
        writer.writerows({k: "" if v is None or v != v else v for k, v in row.items()} for row in rows)
