"""Results in a file: every finished cell is there for good, and none is evaluated twice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbq.checkpoint.database import connect, damaged, explained, make_durable, transaction
from cbq.reproduce.cells import Cell, Row

if TYPE_CHECKING:
    import sqlite3

NAME = "results.sqlite"
FORMAT = "cbq-reproduction-2"
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS identity (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS results (cell TEXT NOT NULL, seed INTEGER NOT NULL, code TEXT NOT NULL, "
    "seconds REAL NOT NULL, failed INTEGER NOT NULL, rows TEXT NOT NULL, PRIMARY KEY (cell, seed))",
    "CREATE TABLE IF NOT EXISTS runs (record TEXT PRIMARY KEY)",
)
WORDS = {
    "format": "the format of the file",
    "experiment": "the experiment",
    "edition": "the edition of the experiment",
    "quick": "quick",
    "code": "the code of the estimators",
}


@dataclass(frozen=True)
class Result:
    """What a cell gave with one seed.

    code : the digest of the files that it depends on.
    failed : whether there was an error, which the only row then tells; such a cell is tried again.
    """

    cell: Cell
    seed: int
    code: str
    seconds: float
    rows: list[Row]
    failed: bool = False


class Store:
    """The open file of an experiment. What `add` was given is in it, for good, when that returns."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection

    @property
    def identity(self) -> dict[str, Any]:
        """What the results are of; empty in a new file."""
        if not self._connection.execute("SELECT name FROM sqlite_master WHERE name = 'identity'").fetchall():
            return {}
        found = self._connection.execute("SELECT name, value FROM identity").fetchall()
        return {name: self._read(value) for name, value in found}

    def require(self, identity: dict[str, Any]) -> None:
        """Refuse a file of something else, the difference named."""
        known = self.identity
        if not known:
            raise ValueError(f"{self.path} holds no results: run the experiment without --plot-only first.")
        others = {name: value for name, value in identity.items() if known.get(name) != value}
        if others:
            differences = "; ".join(_difference(name, known.get(name), value) for name, value in others.items())
            raise ValueError(
                f"{self.path} holds other results: {differences}. Pass another folder with --out, or delete the file "
                f"to start afresh."
            )

    def begin(self, identity: dict[str, Any], cells: Iterable[Cell], code: str, *, force: bool) -> None:
        """Say what the results are of, in a new file; refuse a file of something else, the difference named.

        force: go on with results of these cells that other code has made.
        """
        if not self.identity:
            with transaction(self._connection):
                for statement in SCHEMA:
                    self._connection.execute(statement)
                rows = [(name, json.dumps(value)) for name, value in identity.items()]
                self._connection.executemany("INSERT INTO identity VALUES (?, ?)", rows)
        self.require(identity)
        others = sorted({each.code for each in self.results(cells) if not each.failed} - {code})
        if others and not force:
            raise ValueError(
                f"{self.path} holds results of other code: {_difference('code', ' and '.join(others), code)}. Pass "
                f"another folder with --out, delete the file to start afresh, or go on from it with --force: the "
                f"record then names both."
            )

    def runs(self) -> list[Any]:
        """What was noted of the runs that evaluated something."""
        return [self._read(text) for (text,) in self._connection.execute("SELECT record FROM runs ORDER BY rowid")]

    def note_run(self, record: dict[str, Any]) -> None:
        """Keep what the results of a run depend on."""
        with explained(str(self.path)), transaction(self._connection):
            self._connection.execute("INSERT OR IGNORE INTO runs VALUES (?)", (json.dumps(record),))

    def add(self, result: Result) -> None:
        """Keep what a cell gave, in the place of an error from before."""
        with explained(str(self.path)), transaction(self._connection):
            values = (result.cell.key, result.seed, result.code, result.seconds, result.failed, json.dumps(result.rows))
            self._connection.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)", values)

    def results(self, cells: Iterable[Cell]) -> list[Result]:
        """The results of these cells, in their order and then in that of the seeds."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        columns = "SELECT cell, seed, code, seconds, rows, failed FROM results ORDER BY seed"
        for key, *values in self._connection.execute(columns):
            found.setdefault(key, []).append(tuple(values))
        return [
            Result(cell, seed, code, seconds, self._read(rows), bool(failed))
            for cell in cells
            for seed, code, seconds, rows, failed in found.get(cell.key, [])
        ]

    def _read(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise damaged(str(self.path), f"a part of it is no JSON ({error})") from error


@contextmanager
def opened(folder: Path, *, write: bool) -> Iterator[Store]:
    """The results in a folder; to write, no other process may have them open, and the folder is made."""
    path = folder / NAME
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, and a folder for results is needed: pass another one with --out.")
    if write:
        folder.mkdir(parents=True, exist_ok=True)
    elif not path.is_file():
        raise FileNotFoundError(f"there are no results in {folder}: run the experiment without --plot-only first.")
    with explained(str(path)):
        connection = connect(str(path), write=write)
        try:
            if write:
                make_durable(connection)
            yield Store(path, connection)
        finally:
            connection.close()


def _difference(name: str, stored: Any, asked: Any) -> str:
    return f"{WORDS.get(name, name)} is {stored!r} in the file, and {asked!r} was asked for"
