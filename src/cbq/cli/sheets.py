"""Tables that are read from files: separated values in any dialect of a spreadsheet, and what pandas reads.

Text is read without pandas. Excel, OpenDocument and Parquet files need it, and the package that pandas reads them with.
All cells become text, so that there is one place that says what a number is.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import isnan
from pathlib import Path
from typing import Any

from cbq.cli import is_installed
from cbq.cli.numerals import Convention, convention, read_number

SEPARATORS = "\t;,| "  # a comma or a space may stand in a name, so that they come after those that rarely do
SAMPLE_ROWS = 50  # lines that a separator is judged by
BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # begins as that of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
EXCEL, PARQUET = (".xlsx", ".xlsm", ".xls", ".ods"), (".parquet", ".pq")
NEEDED = {".xlsx": "openpyxl", ".xlsm": "openpyxl", ".xls": "xlrd", ".ods": "odfpy"}  # beside pandas
MODULES = {"odfpy": "odf"}  # what a package is imported as
BINARY = {b"PK\x03\x04": "an Excel or OpenDocument file", b"\xd0\xcf\x11\xe0": "an old Excel file", b"PAR1": "Parquet"}
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "."})  # what stands for no value, in lower case

Rows = list[tuple[int, list[str]]]


@dataclass(frozen=True)
class Sheet:
    """The columns of a table as text, and the line of the file that each row is in.

    unnamed : whether a column without a name was left out, such as the row names that R writes.
    remark : what a reader should know about how the file was read, or an empty string.
    """

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]
    separator: str
    unnamed: bool = False
    remark: str = ""

    def with_numbers(self, names: Iterable[str]) -> dict[str, list[float] | list[str]]:
        """All columns, those with the given names as numbers."""
        numeric = set(names)
        return {name: self._floats(name) if name in numeric else texts for name, texts in self.columns.items()}

    def values(self, name: str) -> list[float] | list[str]:
        """A column as numbers, or as text if it holds words. Missing cells, and words between numbers, are refused."""
        quick = self._quick_floats(name)
        if quick is not None and not any(map(isnan, quick)):
            return quick
        texts = self.columns[name]
        missing = [line for line, text in zip(self.lines, texts, strict=True) if text.lower() in MISSING]
        if missing and len(missing) < len(texts):
            raise ValueError(
                f"column {name!r} of {self.path} has no value in {len(missing)} of {len(texts)} rows (first in line "
                f"{missing[0]}): remove these rows, or fill the gaps."
            )
        is_word = all(self.number(text) is None for text in texts)
        return texts if is_word and not missing else self._floats(name)

    def _floats(self, name: str) -> list[float]:
        quick = self._quick_floats(name)
        if quick is not None:
            return quick
        return [self._float(name, line, text) for line, text in zip(self.lines, self.columns[name], strict=True)]

    def _quick_floats(self, name: str) -> list[float] | None:
        """The numbers of a column in which nothing stands between thousands; None if there may be something else."""
        texts = self.columns[name]
        if self.convention is Convention.COMMA and not any("." in text for text in texts):
            texts = [text.replace(",", ".") for text in texts]
        elif self.convention is not Convention.POINT:
            return None
        try:
            return None if any("_" in text for text in texts) else list(map(float, texts))
        except ValueError:
            return None

    def _float(self, name: str, line: int, text: str) -> float:
        value = self.number(text)
        if value is None:
            raise ValueError(f"column {name!r} of {self.path} must hold numbers, but holds {text!r} in line {line}.")
        return value

    def number(self, text: str) -> float | None:
        """The number that a cell holds; None if it holds something else."""
        try:
            return read_number(text, self.convention)
        except ValueError as error:
            raise ValueError(f"{self.path} holds {text!r}, {error}") from error

    @cached_property
    def convention(self) -> Convention:
        """How numbers are written in this file."""
        return convention(list(self.columns.values()), self.separator)


def read_sheet(path: Path) -> Sheet:
    """Read a table, whose first line names the columns."""
    suffix = path.suffix.lower()
    if suffix in EXCEL:
        return _made(path, *_excel_rows(path), separator=",")
    if suffix in PARQUET:
        return _made(path, _parquet_rows(path), separator=",")
    return _read_text(path)


def _read_text(path: Path) -> Sheet:
    texts = _decoded(path).splitlines(keepends=True)
    skipped = 1 if texts and texts[0].lower().startswith("sep=") else 0
    lines = texts[skipped:]
    stated = texts[0].strip()[len("sep=") :] if skipped else ""
    separator = stated if len(stated) == 1 else _separator(lines)
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator == " ")
    rows = [(reader.line_num + skipped, row) for row in reader if any(cell.strip() for cell in row)]
    return _made(path, rows, separator=separator)


def _decoded(path: Path) -> str:
    """The text of a file in UTF-8, UTF-16 or UTF-32, or else in Latin-1 as Windows has it."""
    raw = path.read_bytes()
    for mark, kind in BINARY.items():
        if raw.startswith(mark):
            raise ValueError(f"{path} is {kind} by its content, not text: give it the name that its kind has.")
    for mark, encoding in BOMS.items():
        if raw.startswith(mark):
            return raw.decode(encoding)
    if b"\0" in raw[:1000]:  # every other byte, if the text is mostly ASCII
        return raw.decode("utf-16-be" if raw[:1] == b"\0" else "utf-16-le")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")


def _separator(lines: Sequence[str]) -> str:
    """The separator that splits the first lines into equally many cells, at least 2; or else the one that splits most.

    A last resort is the space, as R writes tables by default.
    """
    for each in SEPARATORS:
        reader = csv.reader(lines, delimiter=each, skipinitialspace=each == " ")
        rows = list(islice((row for row in reader if row), SAMPLE_ROWS))
        if len(rows) < 2 or len(_trimmed(rows[0])) < 2:
            continue
        names = _with_brackets(rows[0], len(rows[1])) if each == "," else rows[0]
        if len(names) > 1 and {len(row) for row in rows[1:]} <= {len(names), len(names) + 1}:
            return each
    return max(",;\t|", key=lambda each: len(next(csv.reader(lines, delimiter=each), [])))


def _with_brackets(names: list[str], columns: int) -> list[str]:
    """Names that were split at commas within brackets, as rr[1,2] is where nothing quotes it, if they fit then."""
    joined: list[str] = []
    for name in names:
        if joined and joined[-1].count("[") > joined[-1].count("]"):
            joined[-1] += f",{name}"
        else:
            joined.append(name)
    return joined if len(names) > columns == len(joined) else names


def _trimmed(row: Sequence[str]) -> list[str]:
    """A row without empty cells at its end, and without spaces around its cells."""
    cells = [cell.strip() for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _made(path: Path, rows: Rows, remark: str = "", *, separator: str) -> Sheet:
    """The sheet of rows of cells, the first of which names the columns."""
    if len(rows) < 2:
        raise ValueError(
            f"{path} must have a line of names and at least one line of values, but it has {len(rows)} non-empty lines."
        )
    header, body = _header(rows, separator), rows[1:]
    repeated = [name for name in dict.fromkeys(header) if name and header.count(name) > 1]
    if repeated:
        raise ValueError(f"{path} has several columns named {', '.join(map(repr, repeated))}: rename them.")
    cells = [_fitted(path, line, row, len(header)) for line, row in body]
    named = {name: list(column) for name, column in zip(header, zip(*cells, strict=True), strict=True) if name}
    unnamed = any(not name for name in header)
    return Sheet(path, named, [line for line, _ in body], separator, unnamed, remark)


def _header(rows: Rows, separator: str) -> list[str]:
    """The names of the columns, the first of which is empty if R wrote row names without one."""
    header = rows[0][1]
    header = _trimmed(_with_brackets(header, len(rows[1][1])) if separator == "," else header)
    body = [_trimmed(row) for _, row in rows[1:]]
    if len(body) > 1 and all(len(row) == len(header) + 1 for row in body):
        first = [row[0] for row in body]
        if first == [str(i) for i in range(1, len(body) + 1)] or all(map(_is_word, first)):
            return ["", *header]
    return header


def _is_word(text: str) -> bool:
    return read_number(text, Convention.POINT) is None


def _fitted(path: Path, line: int, row: Sequence[str], columns: int) -> list[str]:
    """The cells of a row, of which those beyond the columns must be empty."""
    cells = [cell.strip() for cell in row]
    if len(cells) < columns or any(cells[columns:]):
        raise ValueError(f"{path} has {columns} columns, but {len(_trimmed(row))} values in line {line}.")
    return cells[:columns]


def _excel_rows(path: Path) -> tuple[Rows, str]:
    """The rows of the first sheet of a workbook, and a remark if it has others."""
    pd = pandas_for(path, path.suffix.lower())
    try:
        with pd.ExcelFile(path) as book:
            names = list(book.sheet_names)
            frame = pd.read_excel(book, sheet_name=names[0], header=None, dtype=object, keep_default_na=False)
    except OSError:
        raise
    except Exception as error:  # of the package that reads it, which has errors of its own
        raise ValueError(f"{path} cannot be read as a spreadsheet ({error}).") from error
    cells = ((i, [_text(cell) for cell in row]) for i, row in enumerate(frame.itertuples(index=False), start=1))
    remark = f"{path} has the sheets {', '.join(names)}, of which the first was read" if len(names) > 1 else ""
    return [(line, row) for line, row in cells if any(row)], remark


def _parquet_rows(path: Path) -> Rows:
    """The rows of a Parquet file, whose header counts as its first line."""
    pd = pandas_for(path, path.suffix.lower())
    try:
        frame = pd.read_parquet(path)
    except OSError:
        raise
    except Exception as error:  # as above
        raise ValueError(f"{path} cannot be read as Parquet ({error}).") from error
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    columns = [[_text(cell) for cell in frame.iloc[:, i].tolist()] for i in range(frame.shape[1])]
    body = ([*row] for row in zip(*columns, strict=True))
    return [(1, [str(name) for name in frame.columns]), *enumerate(body, start=2)]


def _text(cell: Any) -> str:
    """A cell as text, from which a number is read without loss."""
    if cell is None or (isinstance(cell, float) and isnan(cell)) or type(cell).__name__ in ("NaTType", "NAType"):
        return ""
    if isinstance(cell, bool):
        return str(cell).upper()  # as spreadsheets write it
    return (repr(cell) if isinstance(cell, float) else str(cell)).strip()


def pandas_for(path: Path, kind: str) -> Any:
    """The package pandas, with what it needs for files of this kind, a suffix."""
    packages = ["pandas", "pyarrow" if kind in PARQUET else NEEDED[kind]]
    missing = [name for name in packages if not is_installed(MODULES.get(name, name))]
    if missing:
        needed, listed = " and ".join(missing), " ".join(missing)
        raise ImportError(f"{path} needs {needed}: python -m pip install {listed}, or use a .csv file, which does not.")
    import pandas as pd  # type: ignore[import-untyped]

    return pd
