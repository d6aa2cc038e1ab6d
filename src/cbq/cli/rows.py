"""Rows of cells in files, and the search for the row with the names of columns."""

from __future__ import annotations

from collections.abc import Sequence

from cbq.cli.numerals import Convention, read_number

Rows = list[tuple[int, list[str]]]  # the number of a line in its file, and its cells

SAMPLE_ROWS = 50  # lines that determine the layout of a table
MAX_TITLE_ROWS = 30  # lines in which the names of columns are searched
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "."})  # texts of missing values, in lower case


def trimmed(row: Sequence[str]) -> list[str]:
    """A row without empty cells at its end, and without spaces around its cells."""
    cells = [cell.strip() for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def is_number(text: str) -> bool:
    """Whether a cell holds a number, in any convention."""
    return read_number(text, Convention.POINT) is not None


def is_table(rows: Rows) -> bool:
    """Whether the first row names columns, and a column has only numbers in the next rows."""
    if len(rows) < 2:
        return False
    header, body = trimmed(rows[0][1]), [trimmed(row) for _, row in rows[1 : SAMPLE_ROWS + 1]]
    named = header[1:] if header and not header[0] else header  # row names have no name
    if not named or len(set(header)) < len(header) or any(not name or is_number(name) for name in named):
        return False
    if max(map(len, body)) > len(header) + 1:
        return False
    columns = [[row[j] for row in body if j < len(row) and row[j].lower() not in MISSING] for j in range(len(header))]
    return any(column and all(map(is_number, column)) for column in columns)


def line_of_names(rows: Rows) -> int | None:
    """The line below the first row in which a table seems to begin; None if there is none."""
    for i in range(1, min(len(rows), MAX_TITLE_ROWS)):
        if len(trimmed(rows[i][1])) > 1 and is_table(rows[i:]):
            return rows[i][0]
    return None


def column_letters(position: int) -> str:
    """The letters of a column in spreadsheets, at a position from 0: A, ..., Z, AA."""
    letters = ""
    position += 1
    while position:
        position, rest = divmod(position - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
