"""The tables of a checkpoint: every row has a checksum, and none is trusted before it is checked.

meta : one JSON object: the format, its version, the version of cbq, the outputs of f, and what identifies the run.
measures : JSON and numbers, each measure once.
thetas : (p,) numbers and the measure of x there.
batches : the n points start : stop of theta t as x (n, d) and f (n, *outputs); f is NaN where it failed, and a
    JSON object says how, by the number of the point. Of two batches with the same point the later one counts.

Numbers are float64, little-endian.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cbq._arrays import Array
from cbq.collect.batches import Batch, Finished
from cbq.collect.database import KEPT, checksum, damaged, from_bytes, to_bytes
from cbq.collect.errors import CheckpointError
from cbq.collect.integrand import Outcome, Outputs
from cbq.samples.arrays import some_infinite

if TYPE_CHECKING:
    import sqlite3

FORMAT = "cbq-checkpoint"
VERSION = 2  # of the format: raised when older readers would misread a file
SCHEMA = (
    "CREATE TABLE meta (json TEXT NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE measures (id INTEGER PRIMARY KEY, json TEXT NOT NULL, numbers BLOB NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE thetas (t INTEGER PRIMARY KEY, theta BLOB NOT NULL, measure INTEGER NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE batches (id INTEGER PRIMARY KEY, t INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, "
    "x BLOB NOT NULL, f BLOB NOT NULL, failures TEXT NOT NULL, checksum INTEGER NOT NULL)",
)
PackedMeasure = tuple[str, bytes]  # JSON and numbers


class Meta(NamedTuple):
    """What a run is."""

    identity: dict[str, Any]
    outputs: Outputs


class Stored(NamedTuple):
    """A batch of a file, with its points (n, d)."""

    x: Array
    finished: Finished


def is_new(path: str, connection: sqlite3.Connection) -> bool:
    """Whether nothing is in the file yet; an error if it is no checkpoint."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if tables and not tables >= {"meta", "measures", "thetas", "batches"}:
        found = ", ".join(sorted(map(str, tables)))
        raise CheckpointError(f"{path} is not a checkpoint of cbq, but a database with {found}. {KEPT}")
    return not tables


def write_meta(connection: sqlite3.Connection, meta: Meta) -> None:
    """Make the tables, and say what the run is."""
    from cbq import __version__

    for statement in SCHEMA:
        connection.execute(statement)
    header = {"format": FORMAT, "version": VERSION, "cbq": __version__, "outputs": list(meta.outputs)}
    text = json.dumps({**header, "identity": meta.identity}, allow_nan=False)
    connection.execute("INSERT INTO meta VALUES (?, ?)", (text, checksum(text)))


def read_meta(path: str, connection: sqlite3.Connection) -> Meta:
    """What the run is."""
    rows = connection.execute("SELECT json, checksum FROM meta").fetchall()
    if len(rows) != 1 or checksum(rows[0][0]) != rows[0][1]:
        raise damaged(path, "what it says of itself is not what was written")
    record = json.loads(rows[0][0])
    if record["format"] != FORMAT or record["version"] > VERSION:
        raise CheckpointError(
            f"{path} has version {record['version']} of the format {record['format']}, and this cbq reads {FORMAT} up "
            f"to {VERSION}: cbq {record['cbq']} wrote it. Upgrade this one with python -m pip install --upgrade cbq."
        )
    if record["version"] < VERSION:
        raise CheckpointError(
            f"{path} has version {record['version']} of the format {FORMAT}, and this cbq reads version {VERSION}: an "
            f"older development version wrote it. Collect again, with another file."
        )
    return Meta(record["identity"], tuple(record["outputs"]))


def write_thetas(connection: sqlite3.Connection, first: int, thetas: Array, measures: list[PackedMeasure]) -> None:
    """Add thetas (n, p), numbered from `first` on, with their measures."""
    place = {(text, numbers): number for number, text, numbers in _measure_rows(connection)}
    for t, (theta, measure) in enumerate(zip(thetas, measures, strict=True), first):
        if measure not in place:
            place[measure] = len(place)
            connection.execute(
                "INSERT INTO measures VALUES (?, ?, ?, ?)", (place[measure], *measure, checksum(*measure))
            )
        row = (t, to_bytes(theta), place[measure])
        connection.execute("INSERT INTO thetas VALUES (?, ?, ?, ?)", (*row, checksum(*row)))


def read_thetas(path: str, connection: sqlite3.Connection, p: int) -> tuple[Array, list[PackedMeasure]]:
    """The thetas (T, p) and their measures; those of one measure are the same object."""
    measures = {}
    for number, text, numbers, check in connection.execute("SELECT id, json, numbers, checksum FROM measures"):
        if checksum(text, numbers) != check:
            raise damaged(path, f"measure {number} is not what was written")
        measures[number] = (text, numbers)
    thetas, owners = [], []
    for at, (*row, check) in enumerate(connection.execute("SELECT t, theta, measure, checksum FROM thetas ORDER BY t")):
        if checksum(*row) != check or row[0] != at or row[2] not in measures:
            raise damaged(path, f"theta index t = {at} is not what was written")
        thetas.append(from_bytes(row[1], (p,)))
        owners.append(measures[row[2]])
    if not thetas:
        raise damaged(path, "it has no thetas")
    return np.stack(thetas), owners


def write_batch(connection: sqlite3.Connection, x: Array, finished: Finished) -> None:
    """Add a batch with its points (n, d)."""
    f, failures = finished.outcome
    row = (*finished.batch, to_bytes(x), to_bytes(f), json.dumps(failures) if failures else "")
    connection.execute("INSERT INTO batches VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))


def read_batches(
    path: str, connection: sqlite3.Connection, T: int, d: int, outputs: Outputs, first: int | None = None
) -> Iterator[Stored]:
    """The batches in the order in which they finished; of the `first` thetas, where that is given."""
    some = "" if first is None else f" WHERE t < {int(first)}"
    columns = "id, t, start, stop, x, f, failures, checksum"
    for number, *row, check in connection.execute(f"SELECT {columns} FROM batches{some} ORDER BY id"):
        t, start, stop, x, f, failures = row
        if checksum(*row) != check or not (0 <= t < T and 0 <= start < stop):
            raise damaged(path, f"batch {number} is not what was written")
        points, values = from_bytes(x, (stop - start, d)), from_bytes(f, (stop - start, *outputs))
        why = {int(i): str(reason) for i, reason in json.loads(failures).items()} if failures else {}
        if np.any(some_infinite(points)) or (np.flatnonzero(some_infinite(values)) + start).tolist() != sorted(why):
            raise damaged(path, f"batch {number} has values that are not finite")
        yield Stored(points, Finished(Batch(t, start, stop), Outcome(values, why)))


def _measure_rows(connection: sqlite3.Connection) -> list[tuple[int, str, bytes]]:
    return list(connection.execute("SELECT id, json, numbers FROM measures"))
