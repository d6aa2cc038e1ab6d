"""Cells of tables: numbers in any convention, missing values, formulas, and rows of cells.

Conventions are decimal points or commas, and marks between thousands. Most cells have one reading: 0,5 is a half and
1,234.5 more than a thousand. Ambiguous cells such as 1,234 and 1.234 are read like the other cells of their file, and
refused if all are ambiguous, because a factor of 1000 is at stake. Numbers on the command line follow the convention of
the file, and are refused if that is unclear.

Spreadsheets read a cell of separated values that begins with =, +, - or @ as a formula, even in quotes: a column named
by someone else could run a command. An apostrophe in front makes it text in every spreadsheet; reading a file here
removes it again. Workbooks have cells of type text, which need none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from math import isfinite
from typing import Any

import numpy as np

Rows = list[tuple[int, list[str]]]  # the number of a line in its file, and its cells

BETWEEN_THOUSANDS = re.compile(r"(?<=\d)[\u00a0\u202f\u2009 '\u2019](?=\d{3}(?!\d))")
CURRENCY = re.compile(r"^([+-]?)[$€£¥]\s*|\s*[€$£¥]$")
PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf|nan", re.IGNORECASE)
COMMA = re.compile(r"[+-]?(\d+,?\d*|,\d+)([eE][+-]?\d+)?")
ONE_GROUP = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")  # 1,234 or 1.234
COMMA_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")  # 1,234.5 and 1,234,567
MINUS = str.maketrans("\u2212\u2012\u2013", "---")  # typographic minus signs
POINT_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?")  # 1.234,5 and 1.234.567

MARKS = r"=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20"  # the last four are = + - @ at full width
FORMULA = re.compile(rf"\s*[{MARKS}]\s*\S")  # a mark alone, such as a dash, is text
ESCAPABLE = re.compile(f"'*{FORMULA.pattern}")
ESCAPED = re.compile(f"'+{FORMULA.pattern}")

MAX_PRICES, MAX_SIZES = 10_000, 1000  # numbers in a list on the command line
SAMPLE_ROWS = 50  # lines that determine the layout of a table
MAX_TITLE_ROWS = 30  # lines in which the names of columns are searched
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "."})  # texts of missing values, in lower case


class Convention(Enum):
    """The decimal mark of ambiguous numbers."""

    POINT = "."
    COMMA = ","
    UNKNOWN = "?"


def convention(columns: Sequence[Sequence[str]], separator: str) -> Convention:
    """The convention of a file, from the cells of its columns and their separator.

    If all cells are ambiguous, a semicolon as separator indicates decimal commas, and a comma decimal points.
    """
    with_commas = any("," in cell for cells in columns for cell in cells)
    if separator == "," and not with_commas:
        return Convention.POINT
    with_both = with_commas and any("." in cell for cells in columns for cell in cells)
    seen: set[Convention] = set()
    doubtful: set[str] = set()
    for cell in (cell for cells in columns for cell in cells if "," in cell or "." in cell):
        text = _bare(cell)
        if (meaning := _certain(text)) is not None:
            seen.add(meaning)
            if not with_both or len(seen) == 2:
                break
        elif (mark := _doubtful(text)) is not None:
            doubtful.add(mark)
    if seen:
        return seen.pop() if len(seen) == 1 else Convention.UNKNOWN
    if separator == "," or not doubtful:
        return Convention.POINT
    return Convention.COMMA if separator == ";" and doubtful == {","} else Convention.UNKNOWN


def read_number(cell: str, kind: Convention) -> float | None:
    """The number in a cell; None if there is none. Raise if it is ambiguous."""
    text = _bare(cell)
    share = 0.01 if text.endswith("%") else 1.0
    text = text.removesuffix("%")
    if (mark := _doubtful(text)) is not None:
        return share * _of_two_readings(text, mark, kind)
    if PLAIN.fullmatch(text):
        return share * float(text)
    if COMMA_GROUPS.fullmatch(text):
        return share * float(text.replace(",", ""))
    if POINT_GROUPS.fullmatch(text):
        return share * float(text.replace(".", "").replace(",", "."))
    return share * float(text.replace(",", ".")) if COMMA.fullmatch(text) else None


def typed_number(text: str, kind: Convention, option: str) -> float | None:
    """The number after an option, with files of this convention; None if it is no number.

    It has a decimal point, or a decimal comma if the files do. Raise if it is ambiguous.
    """
    bare = text.strip().translate(MINUS)
    if (mark := _doubtful(bare)) is not None and (mark == "," or kind is not Convention.POINT):
        whole, decimal = bare.replace(mark, ""), bare.replace(mark, ".")
        raise ValueError(f"{option} {text.strip()} could be {whole} or {float(decimal):g}: write one of these.")
    if kind is Convention.COMMA:
        return read_number(bare, kind)
    return float(bare) if PLAIN.fullmatch(bare) else None


def _of_two_readings(text: str, mark: str, kind: Convention) -> float:
    """The value of an ambiguous number such as 1,234 or 1.234, with this mark."""
    whole, decimal = text.replace(mark, ""), text.replace(mark, ".")
    if kind is Convention.UNKNOWN:
        raise ValueError(
            f"which may be {whole} or {decimal}, and the other cells leave that open: write numbers without separators "
            f"between thousands."
        )
    return float(decimal if kind.value == mark else whole)


def _doubtful(text: str) -> str | None:
    """The mark of an ambiguous number such as 1,234 or 1.234; None for other cells."""
    if not ONE_GROUP.fullmatch(text):
        return None
    return "," if "," in text else "."


def _certain(text: str) -> Convention | None:
    """The convention of an unambiguous number with a comma or a point; None for other cells."""
    if _doubtful(text) is not None:
        return None
    if COMMA_GROUPS.fullmatch(text) or ("." in text and PLAIN.fullmatch(text)):
        return Convention.POINT
    if POINT_GROUPS.fullmatch(text) or ("," in text and COMMA.fullmatch(text)):
        return Convention.COMMA
    return None


def _bare(cell: str) -> str:
    """A cell with a plain minus, without spaces and apostrophes between thousands, and without a currency."""
    return CURRENCY.sub(r"\1", BETWEEN_THOUSANDS.sub("", cell.strip().translate(MINUS)))


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
    header = trimmed(rows[0][1])
    body = [trimmed(row) for _, row in rows[2 if has_units(rows) else 1 : SAMPLE_ROWS + 1]]
    named = header[1:] if header and not header[0] else header  # row names have no name
    if not named or len(set(header)) < len(header) or any(not name or is_number(name) for name in named):
        return False
    return max(map(len, body)) <= len(header) + 1 and bool(_numeric(body, len(header)))


def has_units(rows: Rows) -> bool:
    """Whether the second row has units: no number, and a word in a column whose other cells are numbers."""
    if len(rows) < 3:
        return False
    units, body = trimmed(rows[1][1]), [trimmed(row) for _, row in rows[2 : SAMPLE_ROWS + 1]]
    if any(map(is_number, units)) or len(units) > len(trimmed(rows[0][1])):
        return False
    return any(units[j].lower() not in MISSING for j in _numeric(body, len(units)))


def _numeric(body: Sequence[Sequence[str]], columns: int) -> list[int]:
    """The positions of columns that have a number, and nothing but numbers and missing values."""
    cells = [[row[j] for row in body if j < len(row) and row[j].lower() not in MISSING] for j in range(columns)]
    return [j for j, column in enumerate(cells) if column and all(map(is_number, column))]


def start_of_table(rows: Rows) -> int | None:
    """The position of the first row that names the columns of a table, maybe below titles; None if there is none."""
    for i in range(min(len(rows), MAX_TITLE_ROWS)):
        if (i == 0 or len(trimmed(rows[i][1])) > 1) and is_table(rows[i:]):
            return i
    return None


def column_letters(position: int) -> str:
    """The letters of a column in spreadsheets, at a position from 0: A, ..., Z, AA."""
    letters = ""
    position += 1
    while position:
        position, rest = divmod(position - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def is_formula(cell: Any) -> bool:
    """Whether a spreadsheet would read the text of a cell as a formula; numbers, also negative ones, are none."""
    return isinstance(cell, str) and FORMULA.match(cell) is not None and not PLAIN.fullmatch(cell)


def as_text(cell: Any) -> Any:
    """A cell for a text file: text that would be a formula, or that looks marked already, is marked."""
    marked = isinstance(cell, str) and ESCAPABLE.match(cell) is not None and not PLAIN.fullmatch(cell)
    return f"'{cell}" if marked else cell


def from_text(cell: str) -> str:
    """The cell without the mark of `as_text`; other cells stay as they are."""
    return cell[1:] if ESCAPED.match(cell) and not PLAIN.fullmatch(cell[1:]) else cell


# Lists of numbers on the command line


def read_sizes(text: str) -> list[int]:
    """Whole numbers, from a text with commas or ranges."""
    what, wanted = "--sizes", "whole numbers separated by commas, or a range such as 50:500:50"
    ranges = [_range(part, Convention.POINT, what, MAX_SIZES) for part in re.split("[,;]", text) if part.strip()]
    sizes = [size for numbers in ranges for size in numbers]
    if not all(ranges) or not all(size.is_integer() for size in sizes):
        raise ValueError(f"{what} must be {wanted}, but it is {text!r}.")
    return [int(size) for size in sizes]


def read_prices(text: str | None, kind: Convention = Convention.POINT) -> float | list[float] | None:
    """The willingness to pay: one number, or a list of numbers, from a text with commas or a range.

    kind : the convention of numbers in the files on the same command line.
    """
    if text is None:
        return None
    what = "--willingness-to-pay"
    if re.search(r"(?<![\d.])\d{1,3}(,\d{3})+(?![\d.])", text):
        raise ValueError(
            f"{what} {text} could be one number or several: write {text.replace(',', '')} if it is one, and put "
            f'semicolons between several, as in "20000; 30000".'
        )
    ranges = [_range(part, kind, what, MAX_PRICES) for part in _pieces(text, kind, what) if part.strip()]
    if not all(ranges):
        wanted = "numbers separated by commas, or a range such as 0:50000:1000"
        raise ValueError(f"{what} must be {wanted}, but it is {text!r}.")
    prices = [price for numbers in ranges for price in numbers]
    if not 0 < len(prices) <= MAX_PRICES:
        raise ValueError(f"{what} must have 1 to {MAX_PRICES} values, but {text!r} has {len(prices)}.")
    return prices[0] if len(prices) == 1 else prices


def _pieces(text: str, kind: Convention, what: str) -> list[str]:
    """The parts of a list of numbers. With decimal commas in the files, digits after a comma may be decimals."""
    if kind is not Convention.COMMA:
        return re.split("[,;]", text)
    if ";" not in text and re.search(r"\d,\d{1,2}(?!\d)", text):
        raise ValueError(
            f"{what} {text} could be one number or several, as the files have decimal commas: write "
            f'{text.replace(",", ".")} if it is one, and "{text.replace(",", "; ")}" if they are several.'
        )
    return text.split(";" if ";" in text else ",")


def _range(part: str, kind: Convention, what: str, most: int) -> list[float]:
    """A number, or at most this many numbers of a range first:last:step; none if the text is neither."""
    numbers = [typed_number(piece, kind, what) for piece in part.split(":")]
    known = [number for number in numbers if number is not None and isfinite(number)]
    if len(known) < len(numbers) or len(numbers) not in (1, 3):
        return []
    first, last, step = known if len(known) == 3 else (known[0], known[0], 1.0)
    if step <= 0 or not 0 <= (last - first) / step < most:
        return []
    steps = int(np.floor((last - first) / step + 1e-9))
    return [first + step * i for i in range(steps + 1)]
