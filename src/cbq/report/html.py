"""HTML tables and boxes for notebooks. All text is escaped.

Colours are inherited from the page, so that light and dark notebooks are readable; lines are half-transparent grey.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

RED = "#d32f2f"  # on white and on black
LINE = "1px solid rgba(128, 128, 128, 0.45)"
TABLE = "border-collapse: collapse; margin: 0.3em 0; color: inherit"
CELL = "padding: 0.2em 0.7em; vertical-align: top; white-space: pre-wrap"
MAX_ROWS = 20  # of a table of numbers, beyond which its middle is left out


def table(rows: Sequence[Sequence[str]], notes: Iterable[str] = (), *, left: int = 1, title: str = "") -> str:
    """Rows of cells, the first of which is the header, with notes below; the first `left` columns align left."""
    tags = ["th", *["td"] * (len(rows) - 1)]
    lines = [_row(tag, row, left) for tag, row in zip(tags, rows, strict=True)]
    body = f'<table style="{TABLE}">{"".join(lines)}</table>'
    return f"<div>{_title(title)}{body}{_notes(notes)}</div>"


def box(title: str, entries: Mapping[str, Any], *parts: str, notes: Iterable[str] = (), failed: bool = False) -> str:
    """A title above keys and values; empty values are left out.

    parts: HTML that follows; notes: texts below it. failed: whether the title is red.
    """
    rows = [_row("td", [name, str(value)], 2) for name, value in entries.items() if str(value)]
    body = f'<table style="{TABLE}">{"".join(rows)}</table>'
    inner = f"{_title(title, failed=failed)}{body}{''.join(parts)}{_notes(notes)}"
    return f'<div style="border: {LINE}; border-radius: 4px; padding: 0.5em 0.8em; max-width: 60em">{inner}</div>'


def column_table(columns: Mapping[str, npt.NDArray[Any]], title: str = "") -> str:
    """A table of columns (n,) by name; a long one shows its first and last rows."""
    n = len(next(iter(columns.values())))
    half = MAX_ROWS // 2
    rows = list(range(n)) if n <= MAX_ROWS else [*range(half), *range(n - half, n)]
    cells = [[cell(column[i]) for column in columns.values()] for i in rows]
    if n > MAX_ROWS:
        cells.insert(half, ["..."] * len(columns))
    return table([list(columns), *cells], [f"{n} rows"] if n > MAX_ROWS else (), left=0, title=title)


def folded(summary: str, text: str) -> str:
    """A text of several lines that a click folds away."""
    style = "white-space: pre-wrap; font-family: monospace; font-size: 0.9em; margin: 0.3em 0"
    return f'<details open><summary>{escape(summary)}</summary><div style="{style}">{escape(text)}</div></details>'


def cell(value: Any) -> str:
    """The text of a cell."""
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def _row(tag: str, row: Sequence[str], left: int) -> str:
    sides = ["left" if j < left else "right" for j in range(len(row))]
    cells = [
        f'<{tag} style="{CELL}; text-align: {side}; border-bottom: {LINE}">{escape(str(text))}</{tag}>'
        for side, text in zip(sides, row, strict=True)
    ]
    return f'<tr style="background: none">{"".join(cells)}</tr>'


def _title(title: str, *, failed: bool = False) -> str:
    colour = f' style="color: {RED}"' * failed
    return f"<strong{colour}>{escape(title)}</strong>" if title else ""


def _notes(notes: Iterable[str]) -> str:
    return "".join(f'<div style="opacity: 0.85">{escape(note)}</div>' for note in notes)
