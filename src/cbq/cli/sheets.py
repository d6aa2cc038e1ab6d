"""Reading tables from files: separated values in any dialect of a spreadsheet, workbooks, and Parquet.

Text needs no package. All cells become text, so that one module, `cells`, decides which are numbers.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import isnan
from pathlib import Path

from cbq.cli.cells import (
    MISSING,
    SAMPLE_ROWS,
    Convention,
    Rows,
    column_letters,
    convention,
    from_text,
    has_units,
    is_number,
    read_number,
    start_of_table,
    trimmed,
)
from cbq.cli.workbooks import EXCEL, cell_text, in_words, require_packages, require_values, workbook_sheets
from cbq.common import described, listed

LINE_BREAK = re.compile(r"\s*[\r\n]+\s*")  # in a name: spreadsheets wrap names of narrow columns
PARQUET = (".parquet", ".pq")
SEPARATORS = "\t;,| "  # commas and spaces, which may occur in names, come last
MAX_CELL = 131_072  # characters: more indicates an unclosed quote, or no table
BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",  # begins like the mark of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
BINARY = {b"PK\x03\x04": "an Excel or OpenDocument file", b"\xd0\xcf\x11\xe0": "an old Excel file", b"PAR1": "Parquet"}
UTF16_SHARE = 0.3  # of NUL among the first bytes: more indicates UTF-16 without a mark


@dataclass(frozen=True)
class Sheet:
    """The columns of a table as text, and the lines of its rows in the file.

    separator : of the cells of a text file; empty for other files.
    unnamed : the columns without a name, which are left out, such as row names from R.
    name : of the sheet of a workbook.
    remarks : on reading the file, without full stops.
    parts : the sheets of a workbook that stand side by side here; lines are those of the first.
    """

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]
    separator: str
    unnamed: tuple[tuple[str, ...], ...] = ()
    name: str = ""
    remarks: tuple[str, ...] = ()
    parts: tuple[Sheet, ...] = ()

    def __str__(self) -> str:
        if self.parts:
            return f"sheets {listed(part.name for part in self.parts)} of {self.path}"
        return in_words(self.path, self.name)

    @classmethod
    def side_by_side(cls, sheets: Sequence[Sheet], remark: str) -> Sheet:
        """Sheets with as many rows each as one."""
        first, columns = sheets[0], dict[str, list[str]]()
        for name, texts in (column for each in sheets for column in each.columns.items()):
            columns.setdefault(name, texts)
        unnamed = tuple(column for each in sheets for column in each.unnamed)
        remarks = (remark, *(each for sheet in sheets for each in sheet.remarks))
        return cls(first.path, columns, first.lines, "", unnamed, remarks=remarks, parts=tuple(sheets))

    def owner(self, name: str) -> Sheet:
        """The sheet of a column: this one, or one of its parts."""
        return next((part for part in self.parts if name in part.columns), self)

    def values(self, name: str) -> list[float] | list[str]:
        """A column as numbers, or as text if all are words; raise if cells are missing or words are among numbers."""
        if (owner := self.owner(name)) is not self:
            return owner.values(name)
        quick = self._quick_floats(name)
        if quick is not None and not any(map(isnan, quick)):
            return quick
        texts = self.columns[name]
        missing = [line for line, text in zip(self.lines, texts, strict=True) if text.lower() in MISSING]
        if missing and len(missing) < len(texts):
            raise ValueError(
                f"column {name!r} of {self} has no value in {len(missing)} of {len(texts)} rows (first in line "
                f"{missing[0]}): remove these rows, or fill the gaps."
            )
        is_word = all(self.number(text) is None for text in texts)
        return texts if is_word and not missing else self.numbers(name)

    def numbers(self, name: str) -> list[float]:
        """A column as numbers; raise if a cell holds anything else."""
        if (owner := self.owner(name)) is not self:
            return owner.numbers(name)
        quick = self._quick_floats(name)
        if quick is not None:
            return quick
        found = [self.number(text) for text in self.columns[name]]
        if None in found:
            i = found.index(None)
            text, line = self.columns[name][i], self.lines[i]
            raise ValueError(f"column {name!r} of {self} must hold numbers, but holds {text!r} in line {line}.")
        return [number for number in found if number is not None]

    def _quick_floats(self, name: str) -> list[float] | None:
        """The numbers of a column without marks between thousands; None if some cell may need `number`."""
        texts = self.columns[name]
        if self.convention is Convention.COMMA and not any("." in text for text in texts):
            texts = [text.replace(",", ".") for text in texts]
        elif self.convention is not Convention.POINT:
            return None
        try:
            return None if any("_" in text for text in texts) else list(map(float, texts))
        except ValueError:
            return None

    def number(self, text: str) -> float | None:
        """The number in a cell; None if there is none."""
        try:
            return read_number(text, self.convention)
        except ValueError as error:
            raise ValueError(f"{self} holds {text!r}, {error}") from error

    @cached_property
    def convention(self) -> Convention:
        """The convention of numbers in this file."""
        return convention(list(self.columns.values()), self.separator or ",")

    @property
    def typed_convention(self) -> Convention:
        """The likely convention of numbers on the command line: as in this file, if it is text and shows one."""
        shows_one = self.separator == "," or any(
            "." in text or "," in text for texts in self.columns.values() for text in texts
        )
        return self.convention if self.separator and shows_one else Convention.UNKNOWN


def read_sheet(path: Path, sheet: str | None = None, header_row: int | None = None) -> Sheet:
    """Read a table. Titles above the names of its columns, and a row of units below them, are found and left out.

    sheet : of a workbook, its name or its number from 1 on (default: the only one with a table, or the largest; or the
        largest ones side by side, if each has some of the columns of the same rows).
    header_row : the line that names the columns (default: the first from which on there is a table).
    """
    kind = path.suffix.lower()
    if sheet is not None and kind not in EXCEL:
        raise ValueError(f"--sheet is for workbooks, and {path} has no sheets: leave it out.")
    if kind in EXCEL:
        found, remark = workbook_sheets(path, sheet)
        single = [remark] * (len(found) == 1 and bool(remark))
        sheets = [_of_workbook(path, name, rows, header_row, single) for name, rows in found.items()]
        return sheets[0] if len(sheets) == 1 else Sheet.side_by_side(sheets, remark)
    if kind in PARQUET:
        if header_row is not None:
            raise ValueError(f"--header-row is for workbooks and text, and {path} has names of columns: leave it out.")
        return _made(path, _parquet_rows(path))
    rows, separator = _separated_rows(path, header_row or 1)
    kept, remarks = _from_names(rows, header_row, [], str(path))
    if kept and kept[0][0] != rows[0][0]:
        kept, separator = _separated_rows(path, kept[0][0])  # titles may have hidden the separator
    return _made(path, kept, remarks=remarks, separator=separator)


def _of_workbook(path: Path, name: str, rows: Rows, header_row: int | None, remarks: list[str]) -> Sheet:
    """A sheet of a workbook, whose rows may end before the last column."""
    kept, remarks = _from_names(rows, header_row, remarks, in_words(path, name))
    columns = len(trimmed(kept[0][1])) if kept else 0
    require_values(path, name, kept, columns)
    return _made(path, [(line, row + [""] * (columns - len(row))) for line, row in kept], name, remarks)


def _from_names(rows: Rows, header_row: int | None, remarks: list[str], where: str) -> tuple[Rows, list[str]]:
    """The rows from the names of columns on, and remarks, of which one is on titles that were left out."""
    if header_row is not None:
        return [(line, row) for line, row in rows if line >= header_row], remarks
    start = start_of_table(rows) or 0
    line = rows[start][0] if rows else 1
    titles = [f"{where}: the names of the columns were found in line {line}"] if start else []
    return rows[start:], [*remarks, *titles]


def _made(path: Path, rows: Rows, name: str = "", remarks: Sequence[str] = (), *, separator: str = "") -> Sheet:
    """The sheet of rows of cells, the first of which names the columns."""
    where, hint = in_words(path, name), _hint(rows)
    if has_units(rows):
        units = ", ".join(dict.fromkeys(filter(None, trimmed(rows[1][1]))))
        remarks = [*remarks, f"{where}: line {rows[1][0]} was taken for units ({units}) and left out"]
        rows = [rows[0], *rows[2:]]
    if len(rows) < 2:
        raise ValueError(
            f"{where} must have a line of names and at least one line of values, but it has {len(rows)} non-empty "
            f"lines{hint}."
        )
    header, body = _header(rows, separator), rows[1:]
    repeated = [name for name in dict.fromkeys(header) if name and header.count(name) > 1]
    if repeated:
        raise ValueError(f"{where} has several columns named {', '.join(map(repr, repeated))}: rename them{hint}.")
    cells = [_fitted(where, line, row, len(header), hint, in_sheet=bool(name)) for line, row in body]
    columns = list(zip(header, zip(*cells, strict=True), strict=True))
    named = {title: list(column) for title, column in columns if title}
    unnamed = tuple(column for title, column in columns if not title and any(column))
    return Sheet(path, named, [line for line, _ in body], separator, unnamed, name, tuple(remarks))


def _hint(rows: Rows) -> str:
    """The end of a message, with another line that may hold the names of the columns."""
    start = start_of_table(rows)
    return f"; if line {rows[start][0]} names the columns, pass --header-row {rows[start][0]}" if start else ""


def _header(rows: Rows, separator: str) -> list[str]:
    """The names of the columns; the first is empty for row names from R, which have no name."""
    header = rows[0][1]
    header = trimmed(_with_brackets(header, len(rows[1][1])) if separator == "," else header)
    header = [LINE_BREAK.sub(" ", name) for name in header]
    body = [trimmed(row) for _, row in rows[1:]]
    if len(body) > 1 and all(len(row) == len(header) + 1 for row in body):
        first = [row[0] for row in body]
        if first == [str(i) for i in range(1, len(body) + 1)] or not any(map(is_number, first)):
            return ["", *header]
    return header


def _fitted(where: str, line: int, row: Sequence[str], columns: int, hint: str, *, in_sheet: bool) -> list[str]:
    """The cells of a row; raise if cells beyond the columns are not empty."""
    cells = [cell.strip() for cell in row]
    if len(cells) < columns or any(cells[columns:]):
        last = len(trimmed(row)) - 1
        beyond = f"the value {cells[last]!r} in cell {column_letters(last)}{line}: remove it" if last >= columns else ""
        flaw = beyond if in_sheet and beyond else f"{last + 1} values in line {line}"
        raise ValueError(f"{where} has {columns} columns, but {flaw}{hint}.")
    return cells[:columns]


def _parquet_rows(path: Path) -> Rows:
    """The rows of a Parquet file; the header counts as line 1."""
    require_packages(path, ["pandas", "pyarrow"])
    import pandas as pd  # type: ignore[import-untyped]

    try:
        frame = pd.read_parquet(path)
    except OSError:
        raise
    except Exception as error:  # pyarrow has errors of its own
        raise ValueError(f"{path} cannot be read as Parquet ({described(error)}).") from error
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    columns = [[cell_text(cell) for cell in frame.iloc[:, i].tolist()] for i in range(frame.shape[1])]
    body = ([*row] for row in zip(*columns, strict=True))
    return [(1, [str(name) for name in frame.columns]), *enumerate(body, start=2)]


# Separated values


def _separated_rows(path: Path, first: int = 1) -> tuple[Rows, str]:
    """The rows of a file from line `first` on, and the separator of their cells."""
    text = _decoded(path)
    texts, marked = text.splitlines(keepends=True), "'" in text
    stated = texts[0].strip()[len("sep=") :] if texts and texts[0].lower().startswith("sep=") else None
    skipped = max(first - 1, 0 if stated is None else 1)
    lines = texts[skipped:]
    separator = stated if stated is not None and len(stated) == 1 else _separator(path, lines)
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator == " ")
    rows: Rows = []
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append((reader.line_num + skipped, [from_text(cell) for cell in row] if marked else row))
    except csv.Error as error:
        raise _unreadable(path, reader.line_num + skipped, error) from error
    return rows, separator


def _unreadable(path: Path, line: int, error: csv.Error) -> ValueError:
    """The error for an error of the package csv."""
    return ValueError(
        f"{path} cannot be read as text from line {line} on ({error}): a cell has at most {MAX_CELL} characters, and a "
        f"quote that opens must close."
    )


def _decoded(path: Path) -> str:
    """The text of a file in UTF-8, UTF-16 or UTF-32, or else in Windows-1252."""
    raw = path.read_bytes()
    for mark, kind in BINARY.items():
        if raw.startswith(mark):
            raise ValueError(f"{path} is {kind} by its content, not text: give it the suffix of its kind.")
    try:
        text = _text_in(raw)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in {error.encoding} ({error.reason} at byte {error.start}).") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(f"{path} holds a NUL byte in line {line}, so it is damaged, or no text: save the table again.")
    return text


def _text_in(raw: bytes) -> str:
    for mark, encoding in BOMS.items():
        if raw.startswith(mark):
            return raw.decode(encoding)
    head = raw[:1000]
    if head.count(b"\0") > UTF16_SHARE * len(head):
        return raw.decode("utf-16-be" if raw[:1] == b"\0" else "utf-16-le")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")


def _separator(path: Path, lines: Sequence[str]) -> str:
    """The separator that splits the first lines into equally many cells, 2 or more; else the one with most cells.

    The space, which R writes by default, comes last.
    """
    try:
        for separator in SEPARATORS:
            reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator == " ")
            rows = list(islice((row for row in reader if row), SAMPLE_ROWS))
            if len(rows) < 2 or len(trimmed(rows[0])) < 2:
                continue
            names = _with_brackets(rows[0], len(rows[1])) if separator == "," else rows[0]
            if len(names) > 1 and {len(row) for row in rows[1:]} <= {len(names), len(names) + 1}:
                return separator
        return max(",;\t|", key=lambda separator: _usual_width(lines, separator))
    except csv.Error as error:
        raise _unreadable(path, 1, error) from error


def _usual_width(lines: Sequence[str], separator: str) -> int:
    """The median number of cells of the first lines; titles above a table have fewer."""
    widths = sorted(len(row) for row in islice(csv.reader(lines, delimiter=separator), SAMPLE_ROWS) if row)
    return widths[len(widths) // 2] if widths else 0


def _with_brackets(names: list[str], columns: int) -> list[str]:
    """Names with commas in brackets, such as rr[1,2], joined again, if that gives this many columns."""
    joined: list[str] = []
    for name in names:
        if joined and joined[-1].count("[") > joined[-1].count("]"):
            joined[-1] += f",{name}"
        else:
            joined.append(name)
    return joined if len(names) > columns == len(joined) else names
