"""Tables to read and to keep."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import typer

Row = Sequence[str]
SEPARATORS = ",;\t"  # of columns, in the files of different countries and programs


def show(header: Row, rows: Sequence[Row], *, left: int = 0) -> None:
    """Print a table: framed on a terminal, in plain aligned columns elsewhere, the first `left` of them to the left."""
    if not sys.stdout.isatty():
        typer.echo(plain(header, rows, left=left))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for j, name in enumerate(header):
        table.add_column(name, justify="left" if j < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(markup=False, highlight=False).print(table)


def plain(header: Row, rows: Sequence[Row], *, left: int = 0) -> str:
    """Aligned columns."""
    cells = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if j < left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def write_csv(path: Path, header: Row, rows: Iterable[Sequence[object]]) -> None:
    """A file of comma-separated values; floats in full, so that they are read back as they were."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def read_csv(path: Path) -> dict[str, list[str]]:
    """The columns of a file of values with separators between them, by the names in its first line."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        file.seek(0)
        rows = [row for row in csv.reader(file, delimiter=max(SEPARATORS, key=first.count)) if row]
    if len(rows) < 2:
        raise ValueError(f"{path} must have a line of names and lines of values, but it has {len(rows)} lines.")
    header = [name.strip() for name in rows[0]]
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise ValueError(f"{path} has {len(header)} columns, but {len(row)} values in line {line}.")
    return dict(zip(header, map(list, zip(*rows[1:], strict=True)), strict=True))


def numbers(path: Path, columns: Mapping[str, Sequence[str]], which: Iterable[str]) -> dict[str, Sequence[object]]:
    """The columns of a file, those that are asked for as numbers."""
    wanted = set(which)
    return {name: _floats(path, name, each) if name in wanted else each for name, each in columns.items()}


def is_number(text: str) -> bool:
    """Whether a cell holds one."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _floats(path: Path, name: str, texts: Sequence[str]) -> list[float]:
    for line, text in enumerate(texts, start=2):
        if not is_number(text):
            raise ValueError(f"column {name!r} of {path} holds {text!r} in line {line}, which is no number.")
    return [float(text) for text in texts]
