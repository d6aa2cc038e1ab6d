"""Results in a file: every finished cell is there for good, and none is evaluated twice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbq.reproduce.cells import Cell, Row
from cbq.reproduce.table import Table
from cbq.runtime.database import connect, explained, make_durable, transaction

if TYPE_CHECKING:
    import sqlite3

NAME = "results.sqlite"
FORMAT = "cbq-reproduction-1"
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS identity (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS results (cell TEXT NOT NULL, seed INTEGER NOT NULL, code TEXT NOT NULL, "
    "seconds REAL NOT NULL, rows TEXT NOT NULL, PRIMARY KEY (cell, seed))",
    "CREATE TABLE IF NOT EXISTS runs (record TEXT PRIMARY KEY)",
)
WORDS = {
    "format": "the format of the file",
    "experiment": "the experiment",
    "edition": "the edition of the experiment",
    "quick": "quick",
    "code": "the code of the estimators",
}


class Store:
    """The open file of an experiment. What `add` was given is in it, for good, when that returns."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection

    @property
    def identity(self) -> dict[str, Any]:
        """What the results are of; empty in a new file."""
        found = self._connection.execute("SELECT name, value FROM identity").fetchall()
        return {name: json.loads(value) for name, value in found}

    def begin(self, identity: dict[str, Any], code: str, *, force: bool) -> None:
        """Say what the results are of, in a new file; refuse a file of something else, the difference named.

        force: go on with results that other code has made. Those of other settings are refused all the same.
        """
        mine, known = {"format": FORMAT, **identity}, self.identity
        differences = [_difference(name, known.get(name), mine[name]) for name in mine if known.get(name) != mine[name]]
        others = [other for other in self.codes() if other != code]
        if known and differences:
            raise ValueError(
                f"{self.path} holds other results: {'; '.join(differences)}. Pass another folder with --out, or delete "
                f"the file to start afresh."
            )
        if others and not force:
            raise ValueError(
                f"{self.path} holds results of other code: {_difference('code', ' and '.join(others), code)}. Pass "
                f"another folder with --out, delete the file to start afresh, or go on from it with --force: the "
                f"record then names both."
            )
        if not known:
            with transaction(self._connection):
                rows = [(name, json.dumps(value)) for name, value in mine.items()]
                self._connection.executemany("INSERT INTO identity VALUES (?, ?)", rows)

    def done(self) -> set[tuple[str, int]]:
        """The keys of finished cells, with their seeds."""
        return set(self._connection.execute("SELECT cell, seed FROM results"))

    def codes(self) -> dict[str, int]:
        """The code that results were made with, and how many cells each made."""
        return dict(self._connection.execute("SELECT code, count(*) FROM results GROUP BY code ORDER BY code"))

    def runs(self) -> list[Any]:
        """What was noted of the runs that evaluated something."""
        return [json.loads(text) for (text,) in self._connection.execute("SELECT record FROM runs ORDER BY rowid")]

    def note_run(self, record: dict[str, Any]) -> None:
        """Keep what results depend on, once for all runs of which it is the same."""
        with explained(str(self.path)), transaction(self._connection):
            self._connection.execute("INSERT OR IGNORE INTO runs VALUES (?)", (json.dumps(record),))

    def seconds(self) -> float:
        """What all cells in the file took together."""
        return float(self._connection.execute("SELECT total(seconds) FROM results").fetchone()[0])

    def add(self, cell: Cell, seed: int, code: str, seconds: float, rows: list[Row]) -> None:
        """Keep what a cell gave."""
        with explained(str(self.path)), transaction(self._connection):
            values = (cell.key, seed, code, seconds, json.dumps(rows))
            self._connection.execute("INSERT INTO results VALUES (?, ?, ?, ?, ?)", values)

    def table(self, cells: Iterable[Cell]) -> Table:
        """The results of these cells, in their order and then in that of the seeds."""
        found: dict[str, list[tuple[int, list[Row]]]] = {}
        for key, seed, rows in self._connection.execute("SELECT cell, seed, rows FROM results ORDER BY seed"):
            found.setdefault(key, []).append((seed, json.loads(rows)))
        return Table(
            tuple(
                {**cell.settings, "seed": seed, **row}
                for cell in cells
                for seed, rows in found.get(cell.key, [])
                for row in rows
            )
        )


@contextmanager
def opened(folder: Path, *, write: bool) -> Iterator[Store]:
    """The results in a folder; to write, no other process may have them open, and the folder is made."""
    path = folder / NAME
    if write:
        folder.mkdir(parents=True, exist_ok=True)
    elif not path.is_file():
        raise FileNotFoundError(f"there are no results in {folder}: run the experiment without --plot-only first.")
    with explained(str(path)):
        connection = connect(str(path), write=write)
        try:
            if write:
                make_durable(connection)
                for statement in SCHEMA:
                    connection.execute(statement)
            yield Store(path, connection)
        finally:
            connection.close()


def _difference(name: str, stored: Any, asked: Any) -> str:
    return f"{WORDS.get(name, name)} is {stored!r} in the file, and {asked!r} was asked for"
