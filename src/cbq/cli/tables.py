"""Printing tables, and writing tables and figures to files."""

from __future__ import annotations

import csv
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np
import typer

from cbq.cli.cells import as_text, is_formula
from cbq.cli.sheets import PARQUET, SEPARATORS
from cbq.cli.workbooks import require_packages
from cbq.common import aligned
from cbq.estimators import reason
from cbq.report import Page

Row = Sequence[str]
DPI = 150
TABBED = (".tsv", ".tab")
WRITTEN_BY = {".xlsx": ("openpyxl",), ".ods": ("pandas", "odfpy")} | dict.fromkeys(PARQUET, ("pandas", "pyarrow"))


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
    """Write comma-separated values, with floats in full precision, to a file or to the standard output.

    Text that a spreadsheet would take for a formula is marked as text (`cbq.cli.cells`).
    """
    text = StringIO(newline="")
    tabs = path is not None and path.suffix.lower() in TABBED
    delimiter = "\t" if tabs else ","
    plain = not any(mark in name for name in header for mark in SEPARATORS.strip())
    writer = csv.writer(text, lineterminator="\n", delimiter=delimiter)
    if plain:
        writer.writerow(map(as_text, header))
    else:  # quoted, because a name contains a separator
        csv.writer(text, lineterminator="\n", delimiter=delimiter, quoting=csv.QUOTE_ALL).writerow(map(as_text, header))
    writer.writerows([as_text(cell) for cell in row] for row in rows)
    if path is None:
        typer.echo(text.getvalue(), nl=False)
    else:
        path.write_text(text.getvalue(), encoding="utf-8", newline="")


def write_table(path: Path | None, header: Row, rows: Iterable[Sequence[object]]) -> None:
    """Write a table in the format of the suffix: Excel, OpenDocument, Parquet, or else as `write_csv` does."""
    kind = "" if path is None else path.suffix.lower()
    if path is None or kind not in WRITTEN_BY:
        write_csv(path, header, rows)
        return
    check_writable(path)
    if kind == ".xlsx":
        _write_excel(path, [header, *rows])
        return
    import pandas as pd  # type: ignore[import-untyped]

    frame = pd.DataFrame(list(rows), columns=list(header))
    if kind in PARQUET:
        frame.to_parquet(path, index=False)
    else:
        frame.to_excel(path, index=False, engine="odf")  # text is never a formula there


def _write_excel(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write rows to a workbook, in which text is never a formula."""
    from openpyxl import Workbook  # type: ignore[import-untyped]
    from openpyxl.cell import WriteOnlyCell  # type: ignore[import-untyped]
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE  # type: ignore[import-untyped]

    book = Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    for row in rows:
        cells = []
        for value in row:
            text = ILLEGAL_CHARACTERS_RE.sub("\ufffd", value) if isinstance(value, str) else value
            blank = isinstance(value, float) and isnan(value)
            cell = WriteOnlyCell(sheet, None if blank else str(text) if value in (inf, -inf) else text)
            if is_formula(text):
                cell.data_type, cell.quotePrefix = "s", True
            cells.append(cell)
        sheet.append(cells)
    book.save(path)


def check_writable(path: Path) -> None:
    """Raise, before an expensive run rather than after it, if a table cannot be written to a file of this name."""
    kind = path.suffix.lower()
    if kind in (".xls", ".xlsm"):
        raise ValueError(f"{path} would be an old kind of Excel file, which is not written: name an .xlsx file.")
    if kind in WRITTEN_BY:
        require_packages(path, WRITTEN_BY[kind])


def write_columns(path: Path | None, columns: Mapping[str, Any]) -> None:
    """Write columns, arrays (n,) or lists, as `write_table` does."""
    lists = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values())
    write_table(path, list(columns), zip(*lists, strict=True))


def write_figure(path: Path, draw: Callable[[], Any]) -> str:
    """Write the figure that `draw` returns, and return the path, or the reason for its absence.

    A run does not fail because its figure cannot be drawn.
    """
    try:
        draw().savefig(path, dpi=DPI)
    except (ImportError, ValueError) as error:
        return f"no {path.name}: {reason(error)}"
    return str(path)


def write_report(path: Path, page: Page) -> str:
    """Write a page as the kind of file that the suffix names, and return the path, or the reason for its absence."""
    try:
        page.write(str(path))
    except ImportError as error:
        return f"no {path.name}: {reason(error)}"
    return str(path)


def command_line(context: typer.Context) -> str:
    """The running command, as typed."""
    return shlex.join(["cbq", *context.obj])
