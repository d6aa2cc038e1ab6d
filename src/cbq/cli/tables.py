"""Tables that are printed and written to files, and figures in files."""

from __future__ import annotations

import csv
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from io import StringIO
from pathlib import Path
from typing import Any

import numpy.typing as npt
import typer

from cbq._tables import aligned
from cbq.cli.sheets import PARQUET, SEPARATORS, pandas_for
from cbq.methods.registry import reason

Row = Sequence[str]
TYPED: ContextVar[tuple[str, ...]] = ContextVar("typed", default=())  # the arguments of the command that is running
DPI = 150
TABBED = (".tsv", ".tab")
WRITTEN_BY_PANDAS = (".xlsx", ".ods", *PARQUET)


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
    tabs = path is not None and path.suffix.lower() in TABBED
    delimiter = "\t" if tabs else ","
    plain = not any(mark in name for name in header for mark in SEPARATORS.strip())
    writer = csv.writer(text, lineterminator="\n", delimiter=delimiter)
    if plain:
        writer.writerow(header)
    else:  # quoted, so that no reader takes such a mark for the separator
        csv.writer(text, lineterminator="\n", delimiter=delimiter, quoting=csv.QUOTE_ALL).writerow(header)
    writer.writerows(rows)
    if path is None:
        typer.echo(text.getvalue(), nl=False)
    else:
        path.write_text(text.getvalue(), encoding="utf-8", newline="")


def write_table(path: Path | None, header: Row, rows: Iterable[Sequence[object]]) -> None:
    """Write a table as what the name of the file says: Excel, OpenDocument, Parquet, or else as `write_csv` does."""
    kind = "" if path is None else path.suffix.lower()
    if path is None or kind not in WRITTEN_BY_PANDAS:
        write_csv(path, header, rows)
        return
    pd = pandas_for(path, kind)
    frame = pd.DataFrame(list(rows), columns=list(header))
    if kind in PARQUET:
        frame.to_parquet(path, index=False)
    else:
        frame.to_excel(path, index=False)


def check_writable(path: Path) -> None:
    """Raise, before an expensive run rather than after it, if a table cannot be written to a file of this name."""
    kind = path.suffix.lower()
    if kind in (".xls", ".xlsm"):
        raise ValueError(f"{path} would be an old kind of Excel file, which is not written: name an .xlsx file.")
    if kind in WRITTEN_BY_PANDAS:
        pandas_for(path, kind)


def write_columns(path: Path | None, columns: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write columns (n,) as `write_table` does."""
    write_table(path, list(columns), zip(*(column.tolist() for column in columns.values()), strict=True))


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
