"""The tables of a checkpoint: their contents, how they are written, and checks before they are read.

meta : one JSON object: the format, its version, the version of cbq, the outputs of f, the settings of the run, and its
    sources: digests of the parts of the user's functions, null where they are unseen, and the version of the problem.
measures : a JSON text and numbers; each distinct measure once.
thetas : (p,) numbers, and the number of the measure of x there.
proposals : the number of the measure that the points of a theta were drawn from, if they have a proposal.
batches : the n points start : stop of theta t as x (n, d) and f (n, *outputs). Where f failed, its values are NaN, and
    a JSON object has the reason, by the index of the point. If two batches have a point in common, the later counts.

The ledger of an adaptive run has three more:

asked : the point (d,) of the run with theta t, the number of the first run that was chosen together with it, the number
    of results in the file when they were chosen, and the time, in seconds since 1970, when it was last asked for.
rounds : JSON about each choice of runs.
notes : JSON by name, which may be written again.

Numbers are float64, little-endian. Every row has a checksum, which is verified before the row is used.

SQLite reads damaged and hostile files safely, but a file of a few kilobytes can describe rows without an end: as a
view, or as pages that contain each other. A file is therefore read in this order: its schema, within limits
(`bounded`), which must have tables of a checkpoint and nothing else; then its structure (`require_intact`). After that,
every page belongs to one table, and whatever is read is smaller than the file.

https://www.sqlite.org/security.html#untrusted_sqlite_database_files
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq._version import __version__
from cbq.checkpoint.database import LEFT_UNCHANGED, CheckpointError, checksum, damaged, log_of, reading
from cbq.checkpoint.evaluations import Batch, BatchResult, Outputs
from cbq.common import MAX_SHOWN, Array, is_whole, rows_not_finite, shown

if TYPE_CHECKING:
    import sqlite3

FORMAT = "cbq-checkpoint"
VERSION = 7  # of the format; raised when other versions of cbq would misread a file
SCHEMA = (
    "CREATE TABLE meta (json TEXT NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE measures (id INTEGER PRIMARY KEY, json TEXT NOT NULL, numbers BLOB NOT NULL, "
    "checksum INTEGER NOT NULL)",
    "CREATE TABLE thetas (t INTEGER PRIMARY KEY, theta BLOB NOT NULL, measure INTEGER NOT NULL, "
    "checksum INTEGER NOT NULL)",
    "CREATE TABLE batches (id INTEGER PRIMARY KEY, t INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, "
    "x BLOB NOT NULL, f BLOB NOT NULL, failures TEXT NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE proposals (t INTEGER PRIMARY KEY, measure INTEGER NOT NULL, checksum INTEGER NOT NULL)",
)
LEDGER = (
    "CREATE TABLE asked (t INTEGER PRIMARY KEY, x BLOB NOT NULL, first INTEGER NOT NULL, told INTEGER NOT NULL, "
    "at REAL NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE rounds (k INTEGER PRIMARY KEY, json TEXT NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE notes (name TEXT PRIMARY KEY, json TEXT NOT NULL, checksum INTEGER NOT NULL)",
)
PackedMeasure = tuple[str, bytes]  # JSON and numbers
STEPS_PER_CHECK = 10_000  # of the virtual machine of SQLite
STEPS_PER_BYTE = 10  # of a file; reading a checkpoint, and checking its structure, takes about one
FREE_BYTES = 2**20  # that any file may be taken to have, for both limits


def is_empty(path: str, connection: sqlite3.Connection) -> bool:
    """Whether the file holds nothing yet; an error unless it is an intact checkpoint.

    This comes before anything else is read, since a file may come from anywhere.
    """
    with reading(path), bounded(path, connection):
        entries = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        _require_known(path, connection, entries)
        require_intact(path, connection, empty=not entries)
    return not entries


def _require_known(path: str, connection: sqlite3.Connection, entries: Sequence[tuple[str, str, str | None]]) -> None:
    """Raise unless all entries of the schema are tables of a checkpoint; no views, triggers or other tables."""
    statements = {sql for _, _, sql in entries}
    if entries and SCHEMA[0] not in statements:
        found = ", ".join(sorted(str(name)[:MAX_SHOWN] for _, name, _ in entries)[:MAX_SHOWN])
        raise CheckpointError(f"{path} is not a checkpoint of cbq, but a database with {found}. {LEFT_UNCHANGED}")
    for kind, name, sql in entries:
        made_by_sqlite = kind == "index" and sql is None
        if sql not in (*SCHEMA, *LEDGER) and not made_by_sqlite:
            read_header(path, connection)  # refuses the file of another version by its number
            raise damaged(path, f"it has a {kind} {str(name)[:MAX_SHOWN]}, which does not belong to it")


def insert(connection: sqlite3.Connection, table: str, *row: Any, replace: bool = False) -> None:
    """Add a row, with its checksum. replace: whether it replaces a row of the same key."""
    marks = ", ".join("?" * (len(row) + 1))
    connection.execute(f"INSERT {'OR REPLACE ' * replace}INTO {table} VALUES ({marks})", (*row, checksum(*row)))


def rows(
    path: str, connection: sqlite3.Connection, table: str, columns: str, *, numbered: bool = False
) -> Iterator[list[Any]]:
    """The rows of a table, in the order in which they were added, each verified by its checksum.

    numbered: whether the first column counts the rows from 0.
    """
    for i, (*row, check) in enumerate(connection.execute(f"SELECT {columns}, checksum FROM {table} ORDER BY rowid")):
        if checksum(*row) != check or (numbered and row[0] != i):
            raise damaged(path, f"row {i} of its table {table} was changed")
        yield row


def write_header(
    connection: sqlite3.Connection, settings: dict[str, Any], outputs: Outputs | None, sources: dict[str, str | None]
) -> None:
    """Create the tables and write the header; `outputs` are None before f has a value."""
    for statement in (*SCHEMA, *LEDGER) if settings["design"] == "adaptive" else SCHEMA:
        connection.execute(statement)
    record = {"format": FORMAT, "version": VERSION, "cbq": __version__, "identity": settings, "sources": sources}
    insert(connection, "meta", json.dumps(record, allow_nan=False))
    write_outputs(connection, outputs)


def write_outputs(connection: sqlite3.Connection, outputs: Outputs | None) -> None:
    """Write the shape of the outputs of f into the header."""
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
    """The settings of the run, the outputs of its f or None, and its sources."""
    headers = list(rows(path, connection, "meta", "json"))
    if len(headers) != 1:
        raise damaged(path, f"it has {len(headers)} headers")
    record = json.loads(headers[0][0])
    found, version = record["format"], record["version"]
    if (found, version) != (FORMAT, VERSION):
        other = f"{path} has version {version} of the format {found}, and this cbq reads version {VERSION} of {FORMAT}"
        newer = f"cbq {record['cbq']} wrote it. Upgrade with python -m pip install --upgrade cbq."
        older = "an older development version wrote it. Collect again, with another file."
        raise CheckpointError(f"{other}: {older if found == FORMAT and version < VERSION else newer}")
    settings, outputs = record["identity"], record["outputs"]
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
        insert(connection, "thetas", t, to_bytes(theta), ids[measure])
    for t, proposal in enumerate(proposals or (), first):
        insert(connection, "proposals", t, ids[proposal])


def _measure_ids(connection: sqlite3.Connection, measures: Iterable[PackedMeasure]) -> dict[PackedMeasure, int]:
    """The number of each measure in the file; measures that it lacks are added."""
    stored = connection.execute("SELECT id, json, numbers FROM measures")
    ids = {(text, numbers): number for number, text, numbers in stored}
    for measure in measures:
        if measure not in ids:
            ids[measure] = len(ids)
            insert(connection, "measures", ids[measure], *measure)
    return ids


def read_thetas(
    path: str, connection: sqlite3.Connection, p: int, *, proposals: bool = False
) -> tuple[Array, list[PackedMeasure], list[PackedMeasure] | None]:
    """The thetas (T, p), their measures, and proposals if they are asked for; equal ones are one object."""
    stored = [(text, data) for _, text, data in rows(path, connection, "measures", "id, json, numbers", numbered=True)]
    if not all(isinstance(json.loads(text), dict) for text, _ in stored):
        raise damaged(path, "a measure is no JSON object")
    found = list(rows(path, connection, "thetas", "t, theta, measure", numbered=True))
    drawn_from = list(rows(path, connection, "proposals", "t, measure", numbered=True)) if proposals else []
    if proposals and len(drawn_from) != len(found):
        raise damaged(path, f"it has {len(drawn_from)} proposals for {len(found)} thetas")
    thetas = [from_bytes(data, (p,)) for _, data, _ in found]
    of_x, of_points = [stored[k] for *_, k in found], [stored[k] for _, k in drawn_from]
    return np.stack(thetas) if thetas else np.empty((0, p)), of_x, of_points if proposals else None


def write_batch(connection: sqlite3.Connection, x: Array, result: BatchResult) -> None:
    """Add a batch with its points (n, d)."""
    failures = json.dumps(result.failures) if result.failures else ""
    row = (*result.batch, to_bytes(x), to_bytes(result.f), failures)
    connection.execute("INSERT INTO batches VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))


def read_batches(
    path: str, connection: sqlite3.Connection, T: int, d: int, outputs: Outputs, first: int | None = None
) -> Iterator[tuple[Array, BatchResult]]:
    """The points (n, d) and results of all batches, or of batches of the `first` thetas, in the order they finished."""
    columns = "t, start, stop, x, f, failures"
    for number, (t, start, stop, x, f, text) in enumerate(rows(path, connection, "batches", columns)):
        if first is not None and t >= first:
            continue
        if not (0 <= t < T and 0 <= start < stop):
            raise damaged(path, f"batch {number} has points {start} to {stop} of theta {t}")
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


@contextmanager
def bounded(path: str, connection: sqlite3.Connection) -> Iterator[None]:
    """Let statements in the block take time and memory in proportion to the size of the file; beyond, they fail."""
    import sqlite3

    size = FREE_BYTES + os.path.getsize(path) + _log_size(path)
    checks = STEPS_PER_BYTE * size // STEPS_PER_CHECK
    longest = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(size, 2**31 - 1))
    # A compiled function: in one of Python, SQLite would take Ctrl-C for the end of the steps.
    connection.set_progress_handler(chain(repeat(0, checks), repeat(1)).__next__, STEPS_PER_CHECK)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)


def require_intact(path: str, connection: sqlite3.Connection, *, empty: bool) -> None:
    """Raise unless the file has all its pages, and each of them in its place. empty: whether it defines nothing."""
    pages, page_size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    size = os.path.getsize(path)
    if empty and size > page_size:  # a new file has one page at most
        raise damaged(path, "its list of tables is lost")
    if size != pages * page_size and not _log_size(path):  # a log may have the rest, after a kill
        raise damaged(path, f"it has {size} bytes, but {pages * page_size} were written")
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise damaged(path, " ".join(str(found).split()))


def _log_size(path: str) -> int:
    """The bytes of the write-ahead log."""
    with suppress(FileNotFoundError):
        return os.path.getsize(log_of(path))
    return 0
