"""A run in a file: going on with it, and reading what it has finished."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq._arrays import Array
from cbq.checkpoint import tables
from cbq.checkpoint.database import CheckpointError, connect, explained, make_durable, reading, transaction
from cbq.checkpoint.evaluations import BatchResult, Evaluations, Outputs
from cbq.checkpoint.identity import (
    RunIdentity,
    describe_measure,
    different_points,
    pack_measures,
    same_measure,
    unpack_measures,
)
from cbq.measures import Measure

if TYPE_CHECKING:
    import sqlite3


class Checkpoint:
    """The open file of a run, which no other process may open. Batches are on the disk when `write` returns."""

    def __init__(self, path: str, connection: sqlite3.Connection, run: RunIdentity) -> None:
        self.path, self._connection, self._run = path, connection, run
        self._is_empty = tables.is_empty(path, connection)
        make_durable(connection)
        self._header = None if self._is_empty else tables.read_header(path, connection)
        self._T = 0  # thetas in the file

    @property
    def outputs(self) -> Outputs | None:
        """The shape of f at one point; None in a new file."""
        return None if self._header is None else self._header.outputs

    def restore(self, evaluations: Evaluations) -> None:
        """Fill in what is finished, or raise a CheckpointError if the file belongs to another run.

        Points are taken from the file, too, since f was evaluated there.
        """
        run = self._run
        if self._header is None:
            return
        with reading(self.path):
            self._require_none(run.different_settings(self._header.settings))
            thetas, measures = tables.read_thetas(self.path, self._connection, run.thetas.shape[1])
            self._T = len(thetas)
            self._require_none(run.different_thetas(thetas, measures))
            evaluations.allocate(self._header.outputs)
            drawn = [points.copy() for points in evaluations.x]
            shapes = (self._T, drawn[0].shape[1], self._header.outputs, len(run.thetas))
            for x, result in tables.read_batches(self.path, self._connection, *shapes):
                evaluations.add(result, x)
            self._require_none(different_points(evaluations.x, drawn))

    def begin(self, outputs: Outputs) -> None:
        """Write the header of a new file, and add the thetas that are not in the file yet."""
        run = self._run
        if len(run.thetas) <= self._T:
            return
        with explained(self.path), transaction(self._connection):
            if self._header is None:
                self._header = tables.Header(run.settings, outputs)
                tables.write_header(self._connection, self._header)
            tables.write_thetas(self._connection, self._T, run.thetas[self._T :], run.measures[self._T :])
        self._T, self._is_empty = len(run.thetas), False

    def write(self, results: Sequence[BatchResult], x: Sequence[Array]) -> None:
        """Write all of these batches or none; x has the points of all thetas, T arrays (N_t, d)."""
        with explained(self.path), transaction(self._connection):
            for result in results:
                t, start, stop = result.batch
                tables.write_batch(self._connection, x[t][start:stop], result)

    def close(self) -> None:
        """Release the file; one that is still empty is removed."""
        with explained(self.path):
            self._connection.close()
        if self._is_empty:
            os.unlink(self.path)

    def _require_none(self, differences: Sequence[str]) -> None:
        if differences:
            raise CheckpointError(
                f"{self.path} is the checkpoint of another run: {'; '.join(differences)}. Ask for the run of the file "
                f"to go on with it, or pass another name to start a new run."
            )


@contextmanager
def open_checkpoint(
    path: str | os.PathLike[str] | None, settings: dict[str, Any], thetas: Array, measures: Sequence[Measure]
) -> Iterator[Checkpoint | None]:
    """The checkpoint at this path of the run with these settings, thetas (T, p) and measures; None without a path."""
    if path is None:
        yield None
        return
    name, run = os.fsdecode(path), RunIdentity(settings, thetas, pack_measures(measures))
    with explained(name):
        connection = connect(name, write=True)
        try:
            checkpoint = Checkpoint(name, connection, run)
        except BaseException:
            connection.close()
            raise
    try:
        yield checkpoint
    finally:
        checkpoint.close()


@dataclass(frozen=True, eq=False)
class StoredRun:
    """What a checkpoint holds: theta (T, p), points, T arrays (N_t, d), and values, T arrays (N_t, *outputs).

    Points at which f failed or was not evaluated are left out, and so are thetas without any value.
    """

    path: str
    settings: dict[str, Any]
    theta: Array
    x: list[Array]
    f: list[Array]
    packed_measures: list[tables.PackedMeasure]

    def measures(self) -> list[Measure]:
        """The measure of x at each theta, equal ones as one object."""
        return unpack_measures(self.path, self.packed_measures)

    def require_measures(self, measures: Sequence[Measure]) -> None:
        """Raise unless these are the measures of the file, one for each theta."""
        for theta, stored, given in zip(self.theta, self.packed_measures, pack_measures(measures), strict=True):
            if not same_measure(stored, given):
                raise CheckpointError(
                    f"{self.path} does not go with this measure: at theta = {theta} the file has "
                    f"{describe_measure(stored)}, and measure= gives {describe_measure(given)}. Pass the measure that "
                    f"the points were drawn from."
                )


def read_run(path: str | os.PathLike[str]) -> StoredRun:
    """What the checkpoint at this path has finished."""
    name = os.fsdecode(path)
    with reading(name), closing(connect(name, write=False)) as connection:
        if tables.is_empty(name, connection):
            raise CheckpointError(f"{name} is empty: call collect again to go on.")
        header = tables.read_header(name, connection)
        p, d = header.settings["p"], header.settings["d"]
        theta, measures = tables.read_thetas(name, connection, p)
        batches = list(tables.read_batches(name, connection, len(theta), d, header.outputs))
        lengths = np.zeros(len(theta), dtype=np.intp)
        for _, result in batches:
            lengths[result.batch.t] = max(lengths[result.batch.t], result.batch.stop)
        evaluations = Evaluations([np.empty((n, d)) for n in lengths])
        evaluations.allocate(header.outputs)
        for x, result in batches:
            evaluations.add(result, x)
    good = evaluations.successes()
    if not good:
        raise CheckpointError(f"{name} has no finished batch with a value yet: call collect again to go on.")
    return StoredRun(
        name,
        header.settings,
        theta[list(good)],
        [evaluations.x[t][rows] for t, rows in good.items()],
        [evaluations.f[t][rows] for t, rows in good.items()],
        [measures[t] for t in good],
    )
