"""Protection of text in text files against spreadsheets, which may read it as a formula.

Spreadsheets read a cell of separated values that begins with =, +, - or @ as a formula, even in quotes: a column named
by someone else could run a command. An apostrophe in front makes it text in every spreadsheet; reading a file here
removes it again. Workbooks have cells of type text, which need none.
"""

from __future__ import annotations

import re
from typing import Any

from cbq.cli.numerals import PLAIN

MARKS = r"=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20"  # the last four are = + - @ at full width
FORMULA = re.compile(rf"\s*[{MARKS}]\s*\S")  # a mark alone, such as a dash, is text
ESCAPABLE = re.compile(f"'*{FORMULA.pattern}")
ESCAPED = re.compile(f"'+{FORMULA.pattern}")


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
