"""A run from its points to its values: what a checkpoint has, a probe, the rest in batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Literal

from cbq._arrays import Array
from cbq.collect.batches import Board, Finished, cut
from cbq.collect.checkpoint import Checkpoint, opened, pack_measures
from cbq.collect.errors import IntegrandError, WorkerError
from cbq.collect.integrand import Evaluator, probe
from cbq.collect.loop import run_here, run_there
from cbq.collect.progress import Progress, reporting
from cbq.collect.workers import Task, workers_for
from cbq.measures import Measure

OnError = Literal["raise", "skip"]


@dataclass(frozen=True)
class Options:
    """How a run is carried out; what comes out does not depend on it."""

    executor: Executor | int | None
    batch: int
    in_flight: int | None
    checkpoint: str | os.PathLike[str] | None
    progress: Progress
    on_error: OnError
    retries: int


@dataclass(frozen=True, eq=False)
class Points:
    """Where f is wanted: thetas (T, p), their measures, and their points, T arrays (N_t, d); and what identifies them."""

    identity: dict[str, Any]
    thetas: Array
    measures: Sequence[Measure]
    x: Sequence[Array]


def gather(evaluator: Evaluator, points: Points, options: Options) -> Board:
    """All values that were asked for."""
    board, skip = Board([x.copy() for x in points.x]), options.on_error == "skip"
    with opened(options.checkpoint) as store:
        measures = [] if store is None else pack_measures(points.measures)
        if store is not None:
            store.restore(points.identity, points.thetas, measures, board)
        if not skip:
            board.forget_failures()
        outputs = store.outputs if store is not None else None
        if outputs is None:
            outputs = probe(evaluator, points.thetas, board.x, tolerant=skip)
            board.expect(outputs)
        if store is not None:
            store.begin(points.identity, outputs, points.thetas, measures)
        if board.done < board.total:
            _evaluate(evaluator, points, board, store, options)
    return board


def _evaluate(evaluator: Evaluator, points: Points, board: Board, store: Checkpoint | None, options: Options) -> None:
    """Evaluate what is not known yet."""
    name = points.identity["problem"]
    with reporting(options.progress, name, board.done, board.total) as report:

        def finish(finished: Sequence[Finished]) -> None:
            if store is not None:
                store.write(finished, board.x)
            for each in finished:
                board.put(*each)
            report(board.done, board.total)

        try:
            _run(evaluator, _tasks(points, board, options), finish, options)
        except (IntegrandError, WorkerError, KeyboardInterrupt) as error:
            _advise(error, board, store)
            raise


def _tasks(points: Points, board: Board, options: Options) -> Iterator[Task]:
    wanted, skip = [~known for known in board.known], options.on_error == "skip"
    outputs = board.f[0].shape[1:]
    for batch in cut(wanted, options.batch):
        t, start, stop = batch
        yield Task(batch, points.thetas[t], board.x[t][start:stop], outputs, skip)


def _run(evaluator: Evaluator, tasks: Iterator[Task], finish: Any, options: Options) -> None:
    if options.executor is None:
        run_here(evaluator, tasks, finish, in_flight=options.in_flight)
        return
    workers, fine = workers_for(options.executor, evaluator), False
    try:
        run_there(workers, tasks, finish, in_flight=options.in_flight, retries=options.retries)
        fine = True
    finally:
        workers.close(wait=fine)


def _advise(error: BaseException, board: Board, store: Checkpoint | None) -> None:
    """Add to an error what is kept and how to go on."""
    if store is None:
        advice = "Nothing is kept: with checkpoint='run.sqlite' a run can go on where it ended."
    else:
        done = f"{board.done} of {board.total} points are in {store.path}"
        advice = f"{done}: call collect again with the same arguments to go on."
    said = str(error) or "collect was interrupted."
    error.args = (f"{said} {advice}", *error.args[1:])
