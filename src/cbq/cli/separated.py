"""Files of separated values: their encoding, their separator, and their rows."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from cbq.cli.formulas import from_text
from cbq.cli.rows import SAMPLE_ROWS, Rows, trimmed

SEPARATORS = "\t;,| "  # commas and spaces, which may occur in names, come last
MAX_CELL = 131_072  # characters: more indicates an unclosed quote, or no table
BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # begins like the mark of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
BINARY = {b"PK\x03\x04": "an Excel or OpenDocument file", b"\xd0\xcf\x11\xe0": "an old Excel file", b"PAR1": "Parquet"}
UTF16_SHARE = 0.3  # of NUL among the first bytes: more indicates UTF-16 without a mark


def separated_rows(path: Path, first: int = 1) -> tuple[Rows, str]:
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
        return raw.decode("utf-8")
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
            names = with_brackets(rows[0], len(rows[1])) if separator == "," else rows[0]
            if len(names) > 1 and {len(row) for row in rows[1:]} <= {len(names), len(names) + 1}:
                return separator
        return max(",;\t|", key=lambda separator: _usual_width(lines, separator))
    except csv.Error as error:
        raise _unreadable(path, 1, error) from error


def _usual_width(lines: Sequence[str], separator: str) -> int:
    """The median number of cells of the first lines; titles above a table have fewer."""
    widths = sorted(len(row) for row in islice(csv.reader(lines, delimiter=separator), SAMPLE_ROWS) if row)
    return widths[len(widths) // 2] if widths else 0


def with_brackets(names: list[str], columns: int) -> list[str]:
    """Names with commas in brackets, such as rr[1,2], joined again, if that gives this many columns."""
    joined: list[str] = []
    for name in names:
        if joined and joined[-1].count("[") > joined[-1].count("]"):
            joined[-1] += f",{name}"
        else:
            joined.append(name)
    return joined if len(names) > columns == len(joined) else names
