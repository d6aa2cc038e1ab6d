"""A table of values of information to read in plain text."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import fill

from cbq.comparison.table import WIDTH, short
from cbq.psa.result import EvppiRow, EvppiTable

DIGITS = 4


def text(table: EvppiTable) -> str:
    """Aligned columns, the first to the left and numbers to the right, and notes below."""
    notes = list(dict.fromkeys(row.note for row in table.rows if row.note))
    cells: dict[str, Callable[[EvppiRow], str]] = {
        "pars": lambda row: row.pars,
        "willingness to pay": lambda row: "" if row.willingness_to_pay is None else f"{row.willingness_to_pay:g}",
        "evppi": lambda row: short(row.evppi, DIGITS),
        "se": lambda row: short(row.se, 2),
        "lower": lambda row: short(row.lower, DIGITS),
        "upper": lambda row: short(row.upper, DIGITS),
        "plug-in": lambda row: short(row.plug_in, DIGITS),
        "evpi": lambda row: short(row.evpi, DIGITS),
        "note": lambda row: f"[{notes.index(row.note) + 1}]" if row.note else "",
    }
    filled = {name: [cell(row) for row in table.rows] for name, cell in cells.items()}
    used = {name: column for name, column in filled.items() if any(column)}
    lines = [list(used), *map(list, zip(*used.values(), strict=True))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in lines]
    legend = f"Intervals of {100 * table.level:.4g}%; {table.rows[0].n} rows."
    below = [legend, *(f"[{i}] {note}." for i, note in enumerate(notes, start=1))]
    return "\n".join([*aligned, *(fill(line, WIDTH, subsequent_indent="    ") for line in below)])
