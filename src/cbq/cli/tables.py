"""Tables to read and to keep."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer

Row = Sequence[str]


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
