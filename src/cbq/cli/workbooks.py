"""The sheets of workbooks: Excel by openpyxl, OpenDocument by the XML of its file, old Excel files by pandas.

Only existing cells are read, row by row, within bounds: a stray cell in the last corner of a sheet, a cell repeated a
million times, or a zip bomb must not exhaust the memory.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from zipfile import ZipFile, is_zipfile

from cbq.cli import is_installed
from cbq.cli.cells import ONE_GROUP, Rows, column_letters, has_units, start_of_table, trimmed
from cbq.common import described, listed

EXCEL = (".xlsx", ".xlsm", ".xls", ".ods")
NEEDED = {".xlsx": ["openpyxl"], ".xlsm": ["openpyxl"], ".xls": ["pandas", "xlrd"], ".ods": []}
MODULES = {"odfpy": "odf"}  # modules whose name differs from the package
MAX_UNPACKED = 2**30  # bytes of all parts of a file
MAX_CELLS = 2**25  # of a sheet
MAX_LINES, MAX_COLUMNS = 2**20, 2**14  # of a sheet, in every program
MIN_DRAWS = 30  # rows of a table that may hold draws: smaller ones are passed over if another one has so many
FAR_MORE = 3  # times the rows of the next table: such a table is the one to read
MAX_EMPTY, EMPTY_PER_CELL = 2**20, 16  # empty cells allowed in a sheet, in all and for each filled cell
OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"


class UnsuitableSheet(ValueError):
    """A sheet that cannot be used; the message names it."""


@dataclass(frozen=True)
class Book:
    """The names of the visible and the hidden sheets of a workbook, and a function that reads a sheet."""

    path: Path
    visible: list[str]
    hidden: list[str]
    read: Callable[[str], Rows]

    def named(self, sheet: str) -> str:
        """The name of a sheet, given by its name or its number."""
        names = [*self.visible, *self.hidden]
        alike = [name for name in names if name.strip().lower() == sheet.strip().lower()]
        if sheet in names or len(alike) == 1:
            return sheet if sheet in names else alike[0]
        if sheet.isdecimal() and 1 <= int(sheet) <= len(self.visible):
            return self.visible[int(sheet) - 1]
        raise UnsuitableSheet(f"--sheet {sheet!r} is not in {self.path}, whose sheets are {self.listed}.")

    @property
    def listed(self) -> str:
        """The names of the sheets, as a list for messages."""
        hidden = f" (hidden: {listed(self.hidden)})" if self.hidden else ""
        return f"{listed(self.visible)}{hidden}"


def workbook_sheets(path: Path, sheet: str | None) -> tuple[dict[str, Rows], str]:
    """The rows of a sheet of a workbook by its name, or of several that are one table; and a remark on the choice.

    sheet : a name or a number (default: by `_chosen_sheets`).
    """
    with _opened(path) as book:
        if sheet is not None:
            name = book.named(sheet)
            return {name: book.read(name)}, ""
        if not book.visible:
            raise UnsuitableSheet(f"{path} has no visible sheet ({book.listed}): name one by --sheet.")
        if len(book.visible) == 1:
            return {book.visible[0]: book.read(book.visible[0])}, ""
        return _chosen_sheets(book)


def _chosen_sheets(book: Book) -> tuple[dict[str, Rows], str]:
    """The only sheet with a table, or with one of `MIN_DRAWS` rows; or all of these, if they are parts of one table.

    Otherwise the first, or a far larger one. Raise, with the options to pass, if the choice is not clear.
    """
    found = {name: _rows_if_suitable(book, name) for name in book.visible}
    starts = {name: start for name, rows in found.items() if (start := start_of_table(rows)) is not None}
    sizes = {name: len(found[name][start:]) - 1 - has_units(found[name][start:]) for name, start in starts.items()}
    ranked = sorted((name for name in sizes if sizes[name] >= MIN_DRAWS), key=lambda name: -sizes[name]) or [*sizes]
    first, name = book.visible[0], ranked[0] if ranked else ""
    if len(sizes) == 1:
        return {name: found[name]}, f"{book.path}: sheet {name!r} was read, the only one with a table"
    largest = [each for each in book.visible if each in ranked and sizes[each] == sizes[name]]
    if sizes.get(name, 0) >= MIN_DRAWS and _are_parts([found[each][starts[each] :] for each in largest]):
        remark = f"{book.path}: the sheets {listed(largest)} have {sizes[name]} rows each, and were read side by side"
        return {each: found[each] for each in largest}, remark
    if starts.get(first) == 0 and first in ranked:
        remark = f"{book.path} has the sheets {', '.join(book.visible)}, of which the first was read"
        return {first: found[first]}, remark
    if ranked and (len(ranked) == 1 or sizes[name] >= FAR_MORE * sizes[ranked[1]]):
        others = ", ".join(f"{other!r} has {size}" for other, size in sizes.items() if other != name)
        return {name: found[name]}, f"{book.path}: sheet {name!r} with {sizes[name]} rows was read; {others}"
    options = [_option(name) for name in starts] or [f"{_option(book.visible[-1])} --header-row 3"]
    raise UnsuitableSheet(
        f"it is not clear which sheet of {book.path} has the table; the sheets are {book.listed}. Choose one, as in "
        f"{' or '.join(options[:3])}."
    )


def _are_parts(tables: Sequence[Rows]) -> bool:
    """Whether tables with as many rows each have different columns, such as outputs and inputs of the same draws.

    A column that several of them have, such as the number of a draw, must be the same in all.
    """
    seen: dict[str, tuple[str, ...]] = {}
    for rows in tables:
        names, body = rows[0][1], [row for _, row in rows[1 + has_units(rows) :]]
        columns = {name: tuple(row[j] if j < len(row) else "" for row in body) for j, name in enumerate(names) if name}
        if columns.keys() <= seen.keys() or any(seen.get(name, column) != column for name, column in columns.items()):
            return False
        seen |= columns
    return len(tables) > 1


def _rows_if_suitable(book: Book, name: str) -> Rows:
    """The rows of a sheet; none if it cannot be a table."""
    try:
        return book.read(name)
    except UnsuitableSheet:
        return []


def _option(sheet: str) -> str:
    """The option for a sheet, quoted for a shell."""
    return f"--sheet {shlex.quote(sheet)}"


@contextmanager
def _opened(path: Path) -> Iterator[Book]:
    """A workbook, open for reading; errors of other packages are re-raised with the path."""
    kind = _kind(path)
    require_packages(path, NEEDED[kind])
    try:
        with warnings.catch_warnings(action="ignore"), OPENERS[kind](path) as book:  # about contents other than values
            yield book
    except (OSError, UnsuitableSheet):
        raise
    except Exception as error:  # these packages have errors of their own
        raise ValueError(f"{path} cannot be read as a spreadsheet ({described(error)}).") from error


def _kind(path: Path) -> str:
    """The suffix of a workbook by its content; raise if it unpacks to more than `MAX_UNPACKED`."""
    if not is_zipfile(path):
        return path.suffix.lower()
    with ZipFile(path) as archive:
        parts = {part.filename: part.file_size for part in archive.infolist()}
    size = sum(parts.values())  # an upper bound of the bytes that are read
    if size > MAX_UNPACKED:
        raise UnsuitableSheet(
            f"{path} would be {size / 2**30:.3g} GiB when unpacked, and at most {MAX_UNPACKED / 2**30:g} GiB are read: "
            f"save the table as .csv or .parquet."
        )
    return ".ods" if "content.xml" in parts else ".xlsx"


def _collected(sheet: Iterable[Iterable[Any]], where: str) -> Rows:
    """The rows of a sheet that are not empty, without empty cells at their ends; raise beyond its bounds."""
    rows: Rows = []
    filled = stored = 0
    for line, cells in enumerate(sheet, start=1):
        row = trimmed([cell_text(cell) for cell in cells])
        filled += sum(map(bool, row))
        stored += len(row)
        if line > MAX_LINES or stored > MAX_CELLS or stored - filled > MAX_EMPTY + EMPTY_PER_CELL * filled:
            cell = f"{column_letters(max(len(row) - 1, 0))}{line}"
            raise UnsuitableSheet(
                f"{where} has cells far outside of any table, as at {cell}, or more than {MAX_CELLS} of them: delete "
                f"these rows and columns, or save the table as .csv."
            )
        if row:
            rows.append((line, row))
    return rows


@contextmanager
def _excel(path: Path) -> Iterator[Book]:
    with _loaded(path, data_only=True) as book:
        sheets = {sheet.title: sheet for sheet in book.worksheets}

        def read(name: str) -> Rows:
            sheets[name].reset_dimensions()  # the stated dimensions may be wrong
            return _collected(sheets[name].iter_rows(values_only=True), in_words(path, name))

        visible = [name for name, sheet in sheets.items() if sheet.sheet_state == "visible"]
        yield Book(path, visible, [name for name in sheets if name not in visible], read)


@contextmanager
def _loaded(path: Path, *, data_only: bool) -> Iterator[Any]:
    """The workbook of openpyxl, read row by row: values if `data_only`, otherwise formulas."""
    import openpyxl  # type: ignore[import-untyped]

    with path.open("rb") as file:
        yield openpyxl.load_workbook(file, read_only=True, data_only=data_only, keep_links=False)


def require_values(path: Path, name: str, rows: Rows, columns: int) -> None:
    """Raise if a cell in the first columns of an Excel sheet is empty because its formula was never computed."""
    empty = {(line, j) for line, row in rows for j in range(columns) if j >= len(row) or not row[j]}
    if not empty or _kind(path) != ".xlsx":
        return
    with _loaded(path, data_only=False) as book:
        book[name].reset_dimensions()
        cells = (cell for row in book[name].iter_rows() for cell in row[:columns] if cell.data_type == "f")
        uncomputed = [cell for cell in cells if (cell.row, cell.column - 1) in empty]
    if uncomputed:
        raise ValueError(
            f"{in_words(path, name)} has {len(uncomputed)} formulas without a value, the first in cell "
            f"{uncomputed[0].coordinate}: open it in a spreadsheet program, which computes them, and save it there."
        )


@contextmanager
def _open_document(path: Path) -> Iterator[Book]:
    with ZipFile(path) as archive:
        raw: dict[str, list[tuple[int, list[str]]]] = {}
        with archive.open("content.xml") as file:
            for name, line, cells in _document_rows(path, file):
                raw.setdefault(name, []).append((line, cells))
    yield Book(path, list(raw), [], lambda name: [(line, row) for line, row in raw[name] if row])


def _document_rows(path: Path, file: Any) -> Iterator[tuple[str, int, list[str]]]:
    """The sheet, the line and the cells of each row of an OpenDocument file; an empty row begins each sheet."""
    name, line, total = "", 0, 0
    for event, element in ElementTree.iterparse(file, events=("start", "end")):
        if event == "start" and element.tag == f"{TABLE}table":
            name, line = element.get(f"{TABLE}name", ""), 0
            yield name, 0, []
        elif event == "end" and element.tag == f"{TABLE}table-row":
            repeated = int(element.get(f"{TABLE}number-rows-repeated", "1"))
            cells = _document_cells(element, in_words(path, name), line + 1)
            total += repeated * len(cells)
            if total > MAX_CELLS:
                raise UnsuitableSheet(
                    f"{in_words(path, name)} has more than {MAX_CELLS} cells: save the table as .csv."
                )
            yield from ((name, line + 1 + i, list(cells)) for i in range(repeated if cells else 0))
            line += repeated
            element.clear()


def _document_cells(row: Any, where: str, line: int) -> list[str]:
    """The texts of the cells of a row, without empty ones at its end."""
    cells: list[str] = []
    position = 0
    for cell in row:
        repeated = int(cell.get(f"{TABLE}number-columns-repeated", "1"))
        text = _document_text(cell)
        if text:
            if position + repeated > MAX_COLUMNS:
                raise UnsuitableSheet(
                    f"{where} has cells beyond column {column_letters(MAX_COLUMNS - 1)} in line {line}."
                )
            cells += [""] * (position - len(cells)) + [text] * repeated
        position += repeated
    return cells


def _document_text(cell: Any) -> str:
    kind = cell.get(f"{OFFICE}value-type")
    if kind in ("float", "percentage", "currency"):
        return cell_text(float(cell.get(f"{OFFICE}value", "nan")))
    if kind == "boolean":
        return str(cell.get(f"{OFFICE}boolean-value", "")).upper()
    lines = ("".join(paragraph.itertext()) for paragraph in cell.findall(f"{TEXT}p"))
    return str(cell.get(f"{OFFICE}date-value") or "\n".join(lines)).strip()


@contextmanager
def _old_excel(path: Path) -> Iterator[Book]:
    import pandas as pd  # type: ignore[import-untyped]

    with pd.ExcelFile(path) as book:

        def read(name: str) -> Rows:
            frame = pd.read_excel(book, sheet_name=name, header=None, dtype=object, keep_default_na=False)
            return _collected(frame.itertuples(index=False), in_words(path, name))

        yield Book(path, list(book.sheet_names), [], read)


OPENERS = {".xlsx": _excel, ".xlsm": _excel, ".ods": _open_document, ".xls": _old_excel}


def in_words(path: Path, sheet: str) -> str:
    """The name of a sheet in messages; the path alone if there are no sheets."""
    return f"sheet {sheet!r} of {path}" if sheet else str(path)


def cell_text(cell: Any) -> str:
    """A cell as text; numbers are exact and unambiguous."""
    if cell is None or (isinstance(cell, float) and isnan(cell)) or type(cell).__name__ in ("NaTType", "NAType"):
        return ""
    if isinstance(cell, bool):
        return str(cell).upper()  # the spelling of spreadsheets
    if isinstance(cell, float):
        text = repr(cell)
        return f"{text}e0" if ONE_GROUP.fullmatch(text) else text  # 1.234 is ambiguous, 1.234e0 is not
    return str(cell).strip()


def require_packages(path: Path, packages: Sequence[str]) -> None:
    """Raise if a package that files of this kind need is missing."""
    missing = [name for name in packages if not is_installed(MODULES.get(name, name))]
    if missing:
        needed, names = " and ".join(missing), " ".join(missing)
        raise ImportError(f"{path} needs {needed}: python -m pip install {names}, or use a .csv file, which does not.")
