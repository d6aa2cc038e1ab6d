"""Text that a spreadsheet would take for a formula, and how text files keep it text.

A cell that begins with =, +, - or @ is a formula to a spreadsheet that opens a file of separated values, whatever
quotes surround it: a column named by someone else could run a command. An apostrophe before it makes it text, in every
spreadsheet, and is taken off again where a file is read here. Workbooks have cells of type text, which need none.
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
    """Whether a cell is text that a spreadsheet would take for a formula; numbers are not, also negative ones."""
    return isinstance(cell, str) and FORMULA.match(cell) is not None and not PLAIN.fullmatch(cell)


def as_text(cell: Any) -> Any:
    """A cell of a text file: text that would be a formula, or that begins as such a cell does here, is marked."""
    marked = isinstance(cell, str) and ESCAPABLE.match(cell) is not None and not PLAIN.fullmatch(cell)
    return f"'{cell}" if marked else cell


def from_text(cell: str) -> str:
    """The cell that `as_text` marked, or any other as it is."""
    return cell[1:] if ESCAPED.match(cell) and not PLAIN.fullmatch(cell[1:]) else cell
