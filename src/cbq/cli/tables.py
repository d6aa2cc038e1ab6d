"""Tables that are printed, written to files and read from spreadsheets, and figures in files."""

from __future__ import annotations

import csv
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy.typing as npt
import typer

from cbq._tables import aligned
from cbq.methods.registry import reason

Row = Sequence[str]
TYPED: ContextVar[tuple[str, ...]] = ContextVar("typed", default=())  # the arguments of the command that is running
DPI = 150
SEPARATORS = ",;\t"
DECIMAL_COMMA = ";"  # with this separator, spreadsheets may write a comma for the decimal point


def show(header: Row, rows: Sequence[Row], *, left: int = 0) -> None:
    """Print a table, framed on a terminal and in plain columns elsewhere; the first `left` columns align left."""
    if not sys.stdout.isatty():
        typer.echo(aligned([header, *rows], left=left))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for j, name in enumerate(header):
        table.add_column(name, justify="left" if j < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(markup=False, highlight=False).print(table)


def write_csv(path: Path | None, header: Row, rows: Iterable[Sequence[object]]) -> None:
    """Write comma-separated values, with floats in full precision, to a file or to the standard output."""
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    if path is None:
        typer.echo(text.getvalue(), nl=False)
    else:
        path.write_text(text.getvalue(), encoding="utf-8", newline="")


def write_columns(path: Path | None, columns: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write columns (n,) as `write_csv` does."""
    write_csv(path, list(columns), zip(*(column.tolist() for column in columns.values()), strict=True))


def write_figure(path: Path, draw: Callable[[], Any]) -> str:
    """Write the figure that `draw` returns, and return the path, or the reason why there is no figure.

    A run does not fail because its figure cannot be drawn.
    """
    try:
        draw().savefig(path, dpi=DPI)
    except (ImportError, ValueError) as error:
        return f"no {path.name}: {reason(error)}"
    return str(path)


def command_line() -> str:
    """The command that is running, as it was typed."""
    return shlex.join(["cbq", *TYPED.get()])


@dataclass(frozen=True)
class Sheet:
    """The columns of a spreadsheet as text, and the line of the file that each row is in."""

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]
    separator: str

    def with_numbers(self, names: Iterable[str]) -> dict[str, list[float] | list[str]]:
        """All columns, those with the given names as numbers."""
        numeric = set(names)
        return {name: self._floats(name) if name in numeric else texts for name, texts in self.columns.items()}

    def numeric_columns(self) -> list[str]:
        """The names of columns that contain a number."""
        return [name for name, texts in self.columns.items() if any(self.number(text) is not None for text in texts)]

    def _floats(self, name: str) -> list[float]:
        found = []
        for line, text in zip(self.lines, self.columns[name], strict=True):
            value = self.number(text)
            if value is None:
                raise ValueError(
                    f"column {name!r} of {self.path} must hold numbers, but holds {text!r} in line {line}."
                )
            found.append(value)
        return found

    def number(self, text: str) -> float | None:
        """The number that a cell holds; None if it holds something else."""
        written = text.replace(",", ".") if self.separator == DECIMAL_COMMA else text
        try:
            return None if "_" in text else float(written)
        except ValueError:
            return None


def read_sheet(path: Path) -> Sheet:
    """Read a file of separated values, whose first line names the columns."""
    try:
        texts = path.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: save it as CSV UTF-8.") from error
    skipped = 1 if texts and texts[0].lower().startswith("sep=") else 0
    separator = max(SEPARATORS, key=lambda each: len(next(csv.reader(texts[skipped:], delimiter=each), [])))
    reader = csv.reader(texts[skipped:], delimiter=separator)
    rows = [(reader.line_num + skipped, row) for row in reader if row]
    if len(rows) < 2:
        raise ValueError(
            f"{path} must have a line of names and at least one line of values, but it has {len(rows)} non-empty lines."
        )
    header = [name.strip() for name in rows[0][1]]
    repeated = [name for name in dict.fromkeys(header) if name and header.count(name) > 1]
    if repeated:
        raise ValueError(f"{path} has several columns named {', '.join(map(repr, repeated))}: rename them.")
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise ValueError(f"{path} has {len(header)} columns, but {len(row)} values in line {line}.")
    columns = zip(*(row for _, row in rows[1:]), strict=True)
    named = {name: list(column) for name, column in zip(header, columns, strict=True) if name}
    return Sheet(path, named, [line for line, _ in rows[1:]], separator)
