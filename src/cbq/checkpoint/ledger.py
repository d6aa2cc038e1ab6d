"""The ledger of an adaptive run: the runs that were asked for, what came back, and what was known at each round.

It is a checkpoint in which each run has a theta of its own with one point, so that `read_run` reads it like any other.
Three tables are added:

asked : the point (d,) at which the run with theta t is to be made.
rounds : what was known when runs were chosen, as JSON.
notes : JSON by name, which may be written again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq._arrays import Array
from cbq._checks import file_name
from cbq.checkpoint import tables
from cbq.checkpoint.checkpoint import another_run, pack_measures, require_measures, require_settings
from cbq.checkpoint.database import (
    LOCK_TIMEOUT,
    CheckpointError,
    checksum,
    connect,
    damaged,
    explained,
    make_durable,
    reading,
    transaction,
)
from cbq.checkpoint.evaluations import BatchResult, Outputs
from cbq.checkpoint.tables import PackedMeasure, from_bytes, to_bytes
from cbq.measures import Measure

if TYPE_CHECKING:
    import sqlite3

SCHEMA = (
    "CREATE TABLE asked (t INTEGER PRIMARY KEY, x BLOB NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE rounds (k INTEGER PRIMARY KEY, json TEXT NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE notes (name TEXT PRIMARY KEY, json TEXT NOT NULL, checksum INTEGER NOT NULL)",
)


@dataclass(frozen=True, eq=False)
class StoredLedger:
    """What a ledger holds: the settings, and theta (n, p), x (n, d) and the measures of all runs that were asked for.

    results: of the runs that were made, in the order in which they came back. rounds, notes: JSON objects.
    """

    settings: dict[str, Any]
    outputs: Outputs | None
    theta: Array
    x: Array
    measures: list[PackedMeasure]
    results: list[BatchResult]
    rounds: list[dict[str, Any]]
    notes: dict[str, Any]
    sources: dict[str, str | None]


class Ledger:
    """The open file of an adaptive run, which no other process may open. What is written is on the disk.

    settings: those of the run; a file with other ones is refused. sources: of a new file, and after opening those in
    the file. wait: the seconds to wait for a process that has the file open.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: dict[str, Any],
        sources: dict[str, str | None],
        wait: float = LOCK_TIMEOUT,
    ) -> None:
        self.path = file_name(path, "checkpoint")
        is_new = not os.path.exists(self.path)
        with explained(self.path):
            self._connection = connect(self.path, write=True, wait=wait)
            try:
                empty = tables.is_empty(self.path, self._connection)
                make_durable(self._connection)
                if empty:
                    self._create(settings, sources)
                self.stored = read(self.path, self._connection)
            except BaseException:
                self._connection.close()
                if is_new:  # a full disk
                    os.unlink(self.path)
                raise
        self.is_open, self._outputs = True, self.stored.outputs
        try:
            require_settings(self.path, self.stored.settings, settings)
        except BaseException:
            self.close()
            raise
        self.sources = self.stored.sources

    def _create(self, settings: dict[str, Any], sources: dict[str, str | None]) -> None:
        with transaction(self._connection):
            tables.write_header(self._connection, settings, None, sources)
            for statement in SCHEMA:
                self._connection.execute(statement)

    def write_sources(self, sources: dict[str, str | None]) -> None:
        """Replace what the run depends on, such as fingerprints of functions of the user."""
        with self._writing():
            tables.write_sources(self._connection, sources)
        self.sources = sources

    def require_measures(self, measures: Sequence[Measure]) -> None:
        """Raise unless these are the measures of the runs in the file, in their order."""
        require_measures(self.path, "measure of x", self.stored.measures, pack_measures(measures))

    def ask(self, first: int, theta: Array, measures: Sequence[Measure], x: Array) -> None:
        """Add runs at theta (n, p) and x (n, d), numbered from `first` on."""
        with self._writing():
            tables.write_thetas(self._connection, first, theta, pack_measures(measures), None)
            for t, point in enumerate(x, first):
                row = (t, to_bytes(point))
                self._connection.execute("INSERT INTO asked VALUES (?, ?, ?)", (*row, checksum(*row)))

    def tell(self, results: Sequence[BatchResult], x: Array, outputs: Outputs | None) -> None:
        """Write all of these results, or none; x (n, d) are the points of all runs.

        outputs: None before there is a value; until then, the file has one NaN for a failure.
        """
        nothing = np.full((1, *(outputs or ())), np.nan)
        with self._writing():
            if outputs != self._outputs:
                earlier = tables.read_batches(self.path, self._connection, len(x), x.shape[1], ())
                results = [*(failure for _, failure in earlier), *results]
                self._connection.execute("DELETE FROM batches")
                tables.write_outputs(self._connection, outputs)
            for result in results:
                stored = result._replace(f=nothing) if result.failures else result
                tables.write_batch(self._connection, x[result.batch.t][None], stored)
        self._outputs = outputs

    def add_round(self, k: int, record: dict[str, Any]) -> None:
        """Write what was known at round k."""
        text = json.dumps(record, allow_nan=False)
        with self._writing():
            self._connection.execute("INSERT INTO rounds VALUES (?, ?, ?)", (k, text, checksum(k, text)))

    def note(self, name: str, record: Any) -> None:
        """Write a note, in place of an earlier one of this name."""
        text = json.dumps(record, allow_nan=False)
        with self._writing():
            row = (name, text, checksum(name, text))
            self._connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", row)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write everything inside the block, or nothing of it."""
        if not self.is_open:
            raise CheckpointError(
                f"{self.path} is closed, and others may have it open: open the session again to go on."
            )
        with explained(self.path), transaction(self._connection):
            yield

    def close(self) -> None:
        """Release the file."""
        self.is_open = False
        with explained(self.path):
            self._connection.close()


def read_ledger(path: str | os.PathLike[str], wait: float = LOCK_TIMEOUT) -> StoredLedger:
    """What the ledger at this path holds. wait: the seconds to wait for a process that has the file open."""
    name = file_name(path, "path")
    with reading(name), closing(connect(name, write=False, wait=wait)) as connection:
        if tables.is_empty(name, connection):
            raise CheckpointError(f"{name} is empty: begin the run again.")
        return read(name, connection)


def read(path: str, connection: sqlite3.Connection) -> StoredLedger:
    """What a ledger holds, by an open connection."""
    with reading(path):
        settings, outputs, sources = tables.read_header(path, connection)
        if settings["design"] != "adaptive":
            raise another_run(path, f"the design is {settings['design']!r} in the file, and it is no adaptive run")
        if not connection.execute("SELECT EXISTS (SELECT 1 FROM thetas)").fetchone()[0]:
            theta, measures = np.empty((0, settings["p"])), list[PackedMeasure]()
        else:
            theta, measures, _ = tables.read_thetas(path, connection, settings["p"], proposals=False)
        x = []
        for t, (*row, check) in enumerate(connection.execute("SELECT t, x, checksum FROM asked ORDER BY t")):
            if checksum(*row) != check or row[0] != t:
                raise damaged(path, f"run {t} is not what was written")
            x.append(from_bytes(row[1], (settings["d"],)))
        if len(x) != len(theta):
            raise damaged(path, f"it has {len(x)} points for {len(theta)} runs")
        batches = tables.read_batches(path, connection, len(theta), settings["d"], outputs or ())
        results = [result for _, result in batches]
        rounds = [_json(path, *row) for row in connection.execute("SELECT k, json, checksum FROM rounds ORDER BY k")]
        notes = {row[0]: _json(path, *row) for row in connection.execute("SELECT name, json, checksum FROM notes")}
        points = np.stack(x) if x else np.empty((0, settings["d"]))
        return StoredLedger(settings, outputs, theta, points, measures, results, rounds, notes, sources)


def _json(path: str, key: Any, text: str, check: int) -> Any:
    if checksum(key, text) != check:
        raise damaged(path, f"the record {key!r} is not what was written")
    return json.loads(text)
