"""Tables of results in plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from textwrap import fill

NOTE_WIDTH = 100  # line length of notes, in characters
BLANK = "-"
EXPONENT_FROM = 1e6  # numbers from here on are written with an exponent


def short(value: float, digits: int = 3) -> str:
    """A number in few digits, without an exponent from 1 to a million; `BLANK` for NaN."""
    if isnan(value):
        return BLANK
    few = f"{value:.{digits}g}"
    return f"{float(few):.7g}" if 1 <= abs(value) < EXPONENT_FROM else few


def aligned(rows: Sequence[Sequence[str]], *, left: int, notes: Iterable[str] = ()) -> str:
    """Rows of cells as plain text, with notes below: the first `left` columns align left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pads = [str.ljust if j < left else str.rjust for j in range(len(widths))]
    lines = [
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([*lines, *(fill(note, NOTE_WIDTH, subsequent_indent="    ") for note in notes)])
