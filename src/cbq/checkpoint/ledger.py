"""The ledger of an adaptive run: the runs that were asked for, their results, and a record of each round.

It is a checkpoint in which each run has a theta of its own with one point, so that `read_run` reads it like any other.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.checkpoint import tables
from cbq.checkpoint.checkpoint import another_run, pack_measures, require_measures, require_settings
from cbq.checkpoint.database import LOCK_TIMEOUT, CheckpointError, OwnedFile, connect, damaged, reading
from cbq.checkpoint.evaluations import BatchResult, Outputs
from cbq.checkpoint.tables import PackedMeasure, from_bytes, to_bytes
from cbq.common import Array, file_name
from cbq.measures import Measure

if TYPE_CHECKING:
    import sqlite3


@dataclass(frozen=True, eq=False)
class StoredLedger:
    """The contents of a ledger: the settings, and theta (n, p), x (n, d) and measures of all runs that were asked for.

    results: of the runs that were made, in the order in which they came back. choices: for each run, the number of the
    first run that was chosen together with it, and the number of results that were known then. asked_at: seconds since
    1970, for each run. rounds, notes: JSON objects.
    """

    settings: dict[str, Any]
    outputs: Outputs | None
    theta: Array
    x: Array
    measures: list[PackedMeasure]
    results: list[BatchResult]
    choices: list[tuple[int, int]]
    asked_at: list[float]
    rounds: list[dict[str, Any]]
    notes: dict[str, Any]
    sources: dict[str, str | None]


class Ledger:
    """The open file of an adaptive run, which no other process may open. Rows are on the disk once they are written.

    settings: a file with other settings is refused. sources: of a new file; after opening, the sources in the file, as
    `notes` are the notes in it.
    wait: the seconds to wait for a process that has the file open.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: dict[str, Any],
        sources: dict[str, str | None],
        wait: float = LOCK_TIMEOUT,
    ) -> None:
        self.path = file_name(path, "checkpoint")
        self._file = OwnedFile(self.path, tables.is_empty, wait)
        try:
            if self._file.is_empty:
                with self._file.writing() as connection:
                    tables.write_header(connection, settings, None, sources)
            self.stored = read(self.path, self._file.connection)
            require_settings(self.path, self.stored.settings, settings)
        except BaseException:
            self._file.close()
            raise
        self._outputs, self.sources = self.stored.outputs, self.stored.sources
        self.notes = dict(self.stored.notes)

    def write_sources(self, sources: dict[str, str | None]) -> None:
        """Replace the sources of the run, such as fingerprints of the user's functions."""
        with self._file.writing() as connection:
            tables.write_sources(connection, sources)
        self.sources = sources

    def require_measures(self, measures: Sequence[Measure]) -> None:
        """Raise unless these are the measures of the runs in the file, in their order."""
        require_measures(self.path, "measure of x", self.stored.measures, pack_measures(measures))

    def ask(self, first: int, theta: Array, measures: Sequence[Measure], x: Array) -> None:
        """Add runs at theta (n, p) and x (n, d), numbered from `first` on, which were chosen together."""
        with self._file.writing() as connection:
            tables.write_thetas(connection, first, theta, pack_measures(measures), None)
            (told,) = connection.execute("SELECT count(*) FROM batches").fetchone()
            for t, point in enumerate(x, first):
                tables.insert(connection, "asked", t, to_bytes(point), first, told, time.time())

    def ask_again(self, runs: Iterable[int]) -> None:
        """Write that these runs are asked for now."""
        with self._file.writing() as connection:
            for t in runs:
                row = connection.execute("SELECT t, x, first, told FROM asked WHERE t = ?", (t,)).fetchone()
                tables.insert(connection, "asked", *row, time.time(), replace=True)

    def tell(self, results: Sequence[BatchResult], x: Array, outputs: Outputs | None) -> None:
        """Write all of these results, or none; x (n, d) are the points of all runs.

        outputs: None before there is a value; until then, the file has one NaN for a failure.
        """
        nothing = np.full((1, *(outputs or ())), np.nan)
        with self._file.writing() as connection:
            if outputs != self._outputs:
                earlier = tables.read_batches(self.path, connection, len(x), x.shape[1], ())
                results = [*(failure for _, failure in earlier), *results]
                connection.execute("DELETE FROM batches")
                tables.write_outputs(connection, outputs)
            for result in results:
                stored = result._replace(f=nothing) if result.failures else result
                tables.write_batch(connection, x[result.batch.t][None], stored)
        self._outputs = outputs

    def add_round(self, k: int, record: dict[str, Any]) -> None:
        """Write the record of round k."""
        with self._file.writing() as connection:
            tables.insert(connection, "rounds", k, json.dumps(record, allow_nan=False))

    def note(self, name: str, record: Any) -> None:
        """Write a note, in place of an earlier one of this name."""
        with self._file.writing() as connection:
            tables.insert(connection, "notes", name, json.dumps(record, allow_nan=False), replace=True)
        self.notes[name] = record

    @property
    def is_open(self) -> bool:
        """Whether this process may write to the file."""
        return self._file.is_open

    def hold(self) -> None:
        """Let nothing that is written from now on reach the file before `keep`."""
        self._file.hold()

    def keep(self) -> None:
        """Write to the disk what was held."""
        self._file.keep()

    def close(self) -> None:
        """Release the file."""
        self._file.close()


def read_ledger(path: str | os.PathLike[str], wait: float = LOCK_TIMEOUT) -> StoredLedger:
    """The contents of the ledger at this path. wait: the seconds to wait for a process that has the file open."""
    name = file_name(path, "path")
    with reading(name), closing(connect(name, write=False, wait=wait)) as connection:
        if tables.is_empty(name, connection):
            raise CheckpointError(f"{name} is empty: begin the run again.")
        return read(name, connection)


def read(path: str, connection: sqlite3.Connection) -> StoredLedger:
    """The contents of a ledger, by an open connection."""
    with reading(path):
        settings, outputs, sources = tables.read_header(path, connection)
        if settings["design"] != "adaptive":
            raise another_run(path, f"the design is {settings['design']!r} in the file, and it is no adaptive run")
        theta, measures, _ = tables.read_thetas(path, connection, settings["p"])
        asked = list(tables.rows(path, connection, "asked", "t, x, first, told, at", numbered=True))
        x = [from_bytes(data, (settings["d"],)) for _, data, *_ in asked]
        if len(x) != len(theta):
            raise damaged(path, f"it has {len(x)} points for {len(theta)} runs")
        batches = tables.read_batches(path, connection, len(theta), settings["d"], outputs or ())
        results = [result for _, result in batches]
        if any(result.batch[1:] != (0, 1) for result in results):
            raise damaged(path, "a run has several points")
        rounds = [json.loads(text) for _, text in tables.rows(path, connection, "rounds", "k, json")]
        notes = {name: json.loads(text) for name, text in tables.rows(path, connection, "notes", "name, json")}
        points = np.stack(x) if x else np.empty((0, settings["d"]))
        choices, asked_at = [(first, told) for _, _, first, told, _ in asked], [float(row[-1]) for row in asked]
        stored = (measures, results, choices, asked_at, rounds, notes, sources)
        return StoredLedger(settings, outputs, theta, points, *stored)
