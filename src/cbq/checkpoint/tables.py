"""The tables of a checkpoint. Every row has a checksum, which is verified before the row is used.

meta : one JSON object: the format, its version, the version of cbq, the outputs of f, the settings of the run (those
    that older files lack have the values of `LATER_SETTINGS`), and its sources: the digests of the parts of the
    functions of the user, null where they are unseen, and the version of the problem.
measures : a JSON text and numbers; each distinct measure once.
thetas : (p,) numbers, and which measure x has there.
proposals : which measure the points of a theta were drawn from, if that is another one.
batches : the n points start : stop of theta t as x (n, d) and f (n, *outputs). Where f failed, its values are NaN, and
    a JSON object says what it did, by the index of the point. If two batches have a point in common, the later counts.

The ledger of an adaptive run has three more:

asked : the point (d,) at which the run with theta t is to be made.
rounds : what was known when runs were chosen, as JSON.
notes : JSON by name, which may be written again.

Numbers are float64, little-endian.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq._version import __version__
from cbq.checkpoint.database import LEFT_UNCHANGED, CheckpointError, checksum, damaged, reading
from cbq.checkpoint.evaluations import Batch, BatchResult, Outputs
from cbq.checkpoint.intact import SchemaEntry, bounded, require_intact, schema
from cbq.common import MAX_SHOWN, Array, is_whole, rows_not_finite, shown

if TYPE_CHECKING:
    import sqlite3

FORMAT = "cbq-checkpoint"
VERSION = 5  # of the format; raised when older readers would misread a file
BEFORE_ADAPTIVE = 4  # the version of a file whose points were drawn before any was evaluated
BEFORE_SETTINGS = 3  # the version of a file that needs no later settings, which older readers can read
SCHEMA = (
    "CREATE TABLE meta (json TEXT NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE measures (id INTEGER PRIMARY KEY, json TEXT NOT NULL, numbers BLOB NOT NULL, "
    "checksum INTEGER NOT NULL)",
    "CREATE TABLE thetas (t INTEGER PRIMARY KEY, theta BLOB NOT NULL, measure INTEGER NOT NULL, "
    "checksum INTEGER NOT NULL)",
    "CREATE TABLE batches (id INTEGER PRIMARY KEY, t INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, "
    "x BLOB NOT NULL, f BLOB NOT NULL, failures TEXT NOT NULL, checksum INTEGER NOT NULL)",
)
PROPOSALS = "CREATE TABLE proposals (t INTEGER PRIMARY KEY, measure INTEGER NOT NULL, checksum INTEGER NOT NULL)"
LEDGER = (
    "CREATE TABLE asked (t INTEGER PRIMARY KEY, x BLOB NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE rounds (k INTEGER PRIMARY KEY, json TEXT NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE notes (name TEXT PRIMARY KEY, json TEXT NOT NULL, checksum INTEGER NOT NULL)",
)
KNOWN = frozenset({*SCHEMA, PROPOSALS, *LEDGER})
LATER_SETTINGS = {"stochastic": False, "bounds": None, "proposal": False}  # and what they are in older files
PackedMeasure = tuple[str, bytes]  # JSON and numbers


def is_empty(path: str, connection: sqlite3.Connection) -> bool:
    """Whether the file holds nothing yet; an error unless it is an intact checkpoint.

    This comes before anything else is read, since a file may come from anywhere.
    """
    with reading(path), bounded(path, connection):
        entries = schema(connection)
        _require_known(path, connection, entries)
        require_intact(path, connection, empty=not entries)
    return not entries


def _require_known(path: str, connection: sqlite3.Connection, entries: Sequence[SchemaEntry]) -> None:
    """Raise unless all that a file defines are tables of a checkpoint, and no views, triggers or other tables."""
    unknown = [entry for entry in entries if entry.sql not in KNOWN and not entry.is_automatic_index]
    if entries and not any(entry.sql == SCHEMA[0] for entry in entries):
        found = ", ".join(sorted(str(entry.name)[:MAX_SHOWN] for entry in entries)[:MAX_SHOWN])
        raise CheckpointError(f"{path} is not a checkpoint of cbq, but a database with {found}. {LEFT_UNCHANGED}")
    if unknown:
        read_header(path, connection)  # which refuses the file of a newer version by its number
        raise damaged(
            path, f"it has a {unknown[0].type} {str(unknown[0].name)[:MAX_SHOWN]}, which does not belong to it"
        )


def write_header(
    connection: sqlite3.Connection, settings: dict[str, Any], outputs: Outputs | None, sources: dict[str, str | None]
) -> None:
    """Create the tables and write the header; `outputs` are None if they are not known yet."""
    for statement in (*SCHEMA, PROPOSALS) if settings.get("proposal") else SCHEMA:
        connection.execute(statement)
    as_before = all(settings.get(name, value) == value for name, value in LATER_SETTINGS.items())
    version = BEFORE_SETTINGS if as_before else BEFORE_ADAPTIVE
    version = VERSION if settings["design"] == "adaptive" else version
    record = {"format": FORMAT, "version": version, "cbq": __version__, "identity": settings, "sources": sources}
    text = json.dumps(record, allow_nan=False)
    connection.execute("INSERT INTO meta VALUES (?, ?)", (text, checksum(text)))
    write_outputs(connection, outputs)


def write_outputs(connection: sqlite3.Connection, outputs: Outputs | None) -> None:
    """Write into the header what the outputs of f are."""
    _update_header(connection, outputs=None if outputs is None else list(outputs))


def write_sources(connection: sqlite3.Connection, sources: dict[str, str | None]) -> None:
    """Write other sources into the header."""
    _update_header(connection, sources=sources)


def _update_header(connection: sqlite3.Connection, **entries: Any) -> None:
    (old,) = connection.execute("SELECT json FROM meta").fetchone()
    text = json.dumps({**json.loads(old), **entries}, allow_nan=False)
    connection.execute("UPDATE meta SET json = ?, checksum = ?", (text, checksum(text)))


def read_header(
    path: str, connection: sqlite3.Connection
) -> tuple[dict[str, Any], Outputs | None, dict[str, str | None]]:
    """The settings of the run, the outputs of its f if they are known, and its sources."""
    rows = connection.execute("SELECT json, checksum FROM meta").fetchall()
    if len(rows) != 1 or checksum(rows[0][0]) != rows[0][1]:
        raise damaged(path, "its header is not what was written")
    record = json.loads(rows[0][0])
    found, version = record["format"], record["version"]
    if found != FORMAT or version not in (BEFORE_SETTINGS, BEFORE_ADAPTIVE, VERSION):
        other = f"{path} has version {version} of the format {found}, and this cbq reads version {VERSION} of {FORMAT}"
        newer = f"cbq {record['cbq']} wrote it. Upgrade with python -m pip install --upgrade cbq."
        older = "an older development version wrote it. Collect again, with another file."
        raise CheckpointError(f"{other}: {older if found == FORMAT and version < BEFORE_SETTINGS else newer}")
    settings, outputs = LATER_SETTINGS | record["identity"], record["outputs"]
    sizes = [settings["p"], settings["d"], *(outputs or ())]
    if not all(is_whole(size, 1) for size in sizes) or len(sizes) > 3:
        raise damaged(path, f"its header has the dimensions {shown(sizes)}")
    return settings, None if outputs is None else tuple(outputs), record["sources"]


def write_thetas(
    connection: sqlite3.Connection,
    first: int,
    thetas: Array,
    measures: Sequence[PackedMeasure],
    proposals: Sequence[PackedMeasure] | None,
) -> None:
    """Add thetas (n, p), numbered from `first` on, with their measures, and with proposals if there are some."""
    ids = _measure_ids(connection, [*measures, *(proposals or ())])
    for t, (theta, measure) in enumerate(zip(thetas, measures, strict=True), first):
        row = (t, to_bytes(theta), ids[measure])
        connection.execute("INSERT INTO thetas VALUES (?, ?, ?, ?)", (*row, checksum(*row)))
    for t, proposal in enumerate(proposals or (), first):
        connection.execute("INSERT INTO proposals VALUES (?, ?, ?)", (t, ids[proposal], checksum(t, ids[proposal])))


def _measure_ids(connection: sqlite3.Connection, measures: Iterable[PackedMeasure]) -> dict[PackedMeasure, int]:
    """The numbers of measures in the file, to which those are added that it lacks."""
    rows = connection.execute("SELECT id, json, numbers FROM measures")
    ids = {(text, numbers): number for number, text, numbers in rows}
    for measure in measures:
        if measure not in ids:
            ids[measure] = len(ids)
            row = (ids[measure], *measure, checksum(*measure))
            connection.execute("INSERT INTO measures VALUES (?, ?, ?, ?)", row)
    return ids


def read_thetas(
    path: str, connection: sqlite3.Connection, p: int, *, proposals: bool
) -> tuple[Array, list[PackedMeasure], list[PackedMeasure] | None]:
    """The thetas (T, p), their measures, and proposals if the file has some; equal ones are one object."""
    by_id = {}
    for number, text, numbers, check in connection.execute("SELECT id, json, numbers, checksum FROM measures"):
        if checksum(text, numbers) != check or not isinstance(json.loads(text), dict):
            raise damaged(path, f"measure {number} is not what was written")
        by_id[number] = (text, numbers)
    thetas, measures = [], []
    for t, (*row, check) in enumerate(connection.execute("SELECT t, theta, measure, checksum FROM thetas ORDER BY t")):
        if checksum(*row) != check or row[0] != t or row[2] not in by_id:
            raise damaged(path, f"theta index t = {t} is not what was written")
        thetas.append(from_bytes(row[1], (p,)))
        measures.append(by_id[row[2]])
    if not thetas:
        raise damaged(path, "it has no thetas")
    return np.stack(thetas), measures, _read_proposals(path, connection, by_id, len(thetas)) if proposals else None


def _read_proposals(
    path: str, connection: sqlite3.Connection, by_id: dict[int, PackedMeasure], T: int
) -> list[PackedMeasure]:
    """The proposals of T thetas."""
    rows = connection.execute("SELECT t, measure, checksum FROM proposals ORDER BY t").fetchall()
    for t, (*row, check) in enumerate(rows):
        if checksum(*row) != check or row[0] != t or row[1] not in by_id:
            raise damaged(path, f"the proposal of theta index t = {t} is not what was written")
    if len(rows) != T:
        raise damaged(path, f"it has {len(rows)} proposals for {T} thetas")
    return [by_id[number] for _, number, _ in rows]


def write_batch(connection: sqlite3.Connection, x: Array, result: BatchResult) -> None:
    """Add a batch with its points (n, d)."""
    failures = json.dumps(result.failures) if result.failures else ""
    row = (*result.batch, to_bytes(x), to_bytes(result.f), failures)
    connection.execute("INSERT INTO batches VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))


def read_batches(
    path: str, connection: sqlite3.Connection, T: int, d: int, outputs: Outputs, first: int | None = None
) -> Iterator[tuple[Array, BatchResult]]:
    """The points (n, d) and results of all batches, or of those of the `first` thetas, in the order they finished."""
    condition = "" if first is None else f" WHERE t < {int(first)}"
    columns = "id, t, start, stop, x, f, failures, checksum"
    for number, *row, check in connection.execute(f"SELECT {columns} FROM batches{condition} ORDER BY id"):
        t, start, stop, x, f, text = row
        if checksum(*row) != check or not (0 <= t < T and 0 <= start < stop):
            raise damaged(path, f"batch {number} is not what was written")
        points, values = from_bytes(x, (stop - start, d)), from_bytes(f, (stop - start, *outputs))
        failures = {int(i): str(reason) for i, reason in json.loads(text).items()} if text else {}
        failed = np.flatnonzero(rows_not_finite(values)) + start
        if np.any(rows_not_finite(points)) or failed.tolist() != sorted(failures):
            raise damaged(path, f"batch {number} has values that are not finite")
        yield points, BatchResult(Batch(t, start, stop), values, failures)


def to_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """Floats as little-endian bytes, in C order."""
    return np.ascontiguousarray(array, dtype="<f8").tobytes()


def from_bytes(data: bytes, shape: tuple[int, ...]) -> Array:
    """The array of this shape, which may contain one -1; a ValueError if the number of bytes does not fit."""
    return np.frombuffer(data, dtype="<f8").astype(np.float64).reshape(shape)
