"""A comparison as a table to read: in plain text, and in HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import isnan
from textwrap import fill

from cbq.comparison.comparison import Comparison, ComparisonRow

WIDTH = 100  # of notes, in characters
BLANK = "-"
WRITTEN_OUT = 1e6  # numbers below this have no power of ten


@dataclass(frozen=True)
class TextTable:
    """Cells in rows, the first of which is the header, and the lines below."""

    cells: list[list[str]]
    notes: list[str]


def text(comparison: Comparison) -> str:
    """Aligned columns, the first to the left and numbers to the right, and notes below."""
    table = _table(comparison)
    widths = [max(map(len, column)) for column in zip(*table.cells, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in table.cells]
    return "\n".join([*lines, *(fill(note, WIDTH, subsequent_indent="    ") for note in table.notes)])


def html(comparison: Comparison) -> str:
    """The same as a table of a web page."""
    table = _table(comparison)
    tags = ["th", *["td"] * (len(table.cells) - 1)]
    rows = [
        "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
        for tag, row in zip(tags, table.cells, strict=True)
    ]
    return f"<table>{''.join(rows)}</table>" + "".join(f"<div>{escape(note)}</div>" for note in table.notes)


def _table(comparison: Comparison) -> TextTable:
    rows = comparison.rows
    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    best = _best(rows)
    columns: dict[str, Callable[[int, ComparisonRow], str]] = {
        "method": lambda i, row: row.method,
        "T": lambda i, row: f"{row.T}",
        "N": lambda i, row: f"{row.N:.4g}" if isinstance(row.N, float) else f"{row.N}",
        "output": lambda i, row: BLANK if row.output is None else f"{row.output}",
        "rmse": lambda i, row: short(row.rmse) + _mark(i in best),
        "loo": lambda i, row: short(row.loo),
        "coverage": lambda i, row: BLANK if isnan(row.coverage) else f"{row.coverage:.1%}",
        "width": lambda i, row: short(row.width),
        "seconds": lambda i, row: short(row.seconds),
        "note": lambda i, row: f"[{notes.index(row.note) + 1}]" if row.note else "",
    }
    filled = {name: [cell(i, row) for i, row in enumerate(rows)] for name, cell in columns.items()}
    used = {name: cells for name, cells in filled.items() if {cell.strip() for cell in cells} - {"", BLANK}}
    cells = [list(used), *map(list, zip(*used.values(), strict=True))]
    lines = [_legend(comparison, used, marked=bool(best)), *(f"[{i}] {note}." for i, note in enumerate(notes, start=1))]
    return TextTable(cells, lines)


def _legend(comparison: Comparison, used: Iterable[str], *, marked: bool) -> str:
    """What the columns mean, in a line."""
    parts = [f"Intervals of {100 * comparison.level:.4g}%"]
    if "loo" in used:
        parts.append("loo: the error at left-out thetas, with that of the estimates it is measured by")
    if marked:
        parts.append("*: the smallest error")
    return "; ".join(parts) + "."


def _best(rows: Sequence[ComparisonRow]) -> set[int]:
    """The rows with the smallest error among those of the same size and output, where there are several.

    Errors at left-out thetas hold that of what they are measured by, which would choose: none of them is marked.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, row in enumerate(rows):
        if not isnan(row.rmse):
            groups.setdefault((row.T, row.N, row.evaluations, row.output), []).append(i)
    best = set()
    for group in groups.values():
        smallest = min(rows[i].rmse for i in group)
        best |= {i for i in group if rows[i].rmse == smallest and len(group) > 1}
    return best


def short(value: float, digits: int = 3) -> str:
    """A number in few digits, without a power of ten where it is not far from 1."""
    if isnan(value):
        return BLANK
    few = f"{value:.{digits}g}"
    return f"{float(few):.6g}" if 1 <= abs(value) < WRITTEN_OUT else few


def _mark(best: bool) -> str:
    return "*" if best else " "
