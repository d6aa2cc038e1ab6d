"""The results of an experiment in an SQLite file: finished cells are kept at once, and none is run twice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbq.checkpoint.database import connect, damaged, explained, make_durable, transaction
from experiments.analysis import ResultTable, Row
from experiments.experiment import Cell

if TYPE_CHECKING:
    import sqlite3

FILE_NAME = "results.sqlite"
FORMAT = "cbq-experiment-3"
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS identity (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS results (cell TEXT NOT NULL, seed INTEGER NOT NULL, code TEXT NOT NULL, "
    "seconds REAL NOT NULL, failed INTEGER NOT NULL, rows TEXT NOT NULL, PRIMARY KEY (cell, seed))",
    "CREATE TABLE IF NOT EXISTS runs (record TEXT PRIMARY KEY)",
)
DESCRIPTIONS = {
    "format": "the format of the file",
    "experiment": "the experiment",
    "version": "the version of the experiment",
    "quick": "quick",
    "code": "the code of the estimators",
}


@dataclass(frozen=True)
class CellResult:
    """The rows of a cell with one seed.

    code : digest of the files that they depend on.
    failed : whether an exception was raised. The only row then has its message, and the cell is tried again.
    """

    cell: Cell
    seed: int
    code: str
    seconds: float
    rows: list[Row]
    failed: bool = False


class ResultsFile:
    """The open file of an experiment. A result is on disk when `add` returns."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection

    @property
    def identity(self) -> dict[str, Any]:
        """The experiment and the settings that the results belong to; empty in a new file."""
        if not self._connection.execute("SELECT name FROM sqlite_master WHERE name = 'identity'").fetchall():
            return {}
        found = self._connection.execute("SELECT name, value FROM identity").fetchall()
        return {name: self._parsed(value) for name, value in found}

    def require(self, identity: dict[str, Any]) -> None:
        """Raise, naming the difference, unless the file has this identity."""
        known = self.identity
        if not known:
            raise ValueError(f"{self.path} holds no results: run the experiment without --plot-only first.")
        others = {name: value for name, value in identity.items() if known.get(name) != value}
        if others:
            differences = "; ".join(_difference(name, known.get(name), value) for name, value in others.items())
            raise ValueError(
                f"{self.path} holds other results: {differences}. Pass another folder with --out, or delete the file "
                f"to start again."
            )

    def begin(self, identity: dict[str, Any], cells: Iterable[Cell], code: str, *, force: bool) -> None:
        """Write the identity into a new file; raise, naming the difference, if the file has another one.

        force: accept results of these cells that were made by other code.
        """
        if not self.identity:
            with transaction(self._connection):
                for statement in SCHEMA:
                    self._connection.execute(statement)
                rows = [(name, json.dumps(value)) for name, value in identity.items()]
                self._connection.executemany("INSERT INTO identity VALUES (?, ?)", rows)
        self.require(identity)
        others = sorted({result.code for result in self.results(cells) if not result.failed} - {code})
        if others and not force:
            raise ValueError(
                f"{self.path} holds results of other code: {_difference('code', ' and '.join(others), code)}. Pass "
                f"another folder with --out, delete the file to start again, or continue with --force: the record then "
                f"names both."
            )

    def runs(self) -> list[Any]:
        """The records of all runs that added results."""
        return [self._parsed(text) for (text,) in self._connection.execute("SELECT record FROM runs ORDER BY rowid")]

    def add_run(self, record: dict[str, Any]) -> None:
        """Keep the record of a run."""
        with explained(str(self.path)), transaction(self._connection):
            self._connection.execute("INSERT OR IGNORE INTO runs VALUES (?)", (json.dumps(record),))

    def add(self, result: CellResult) -> None:
        """Keep a result; it replaces an earlier failure of the same cell and seed."""
        with explained(str(self.path)), transaction(self._connection):
            values = (result.cell.key, result.seed, result.code, result.seconds, result.failed, json.dumps(result.rows))
            self._connection.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)", values)

    def results(self, cells: Iterable[Cell]) -> list[CellResult]:
        """The results of these cells, in the order of the cells and then of the seeds."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        columns = "SELECT cell, seed, code, seconds, rows, failed FROM results ORDER BY seed"
        for key, *values in self._connection.execute(columns):
            found.setdefault(key, []).append(tuple(values))
        return [
            CellResult(cell, seed, code, seconds, self._parsed(rows), bool(failed))
            for cell in cells
            for seed, code, seconds, rows, failed in found.get(cell.key, [])
        ]

    def _parsed(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise damaged(str(self.path), f"a part of it is not JSON ({error})") from error


@contextmanager
def open_results(folder: Path, *, write: bool) -> Iterator[ResultsFile]:
    """The results in a folder. To write, the folder is made, and no other process may have the file open."""
    path = folder / FILE_NAME
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, but a folder for results is needed: pass another one with --out.")
    if write:
        folder.mkdir(parents=True, exist_ok=True)
    elif not path.is_file():
        raise FileNotFoundError(f"there are no results in {folder}: run the experiment without --plot-only first.")
    with explained(str(path)):
        connection = connect(str(path), write=write)
        try:
            if write:
                make_durable(connection)
            yield ResultsFile(path, connection)
        finally:
            connection.close()


def as_table(results: Iterable[CellResult]) -> ResultTable:
    """All rows of results, each with the settings of its cell and its seed."""
    rows = ({**result.cell.settings, "seed": result.seed, **row} for result in results for row in result.rows)
    return ResultTable(tuple(rows))


def _difference(name: str, stored: Any, asked: Any) -> str:
    return f"{DESCRIPTIONS.get(name, name)} is {stored!r} in the file, but {asked!r} was asked for"
