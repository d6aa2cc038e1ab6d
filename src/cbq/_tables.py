"""Tables of results: in plain text, and in pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from textwrap import fill
from typing import Any

from cbq._arrays import Array

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


def by_theta(theta: Array, quantities: Mapping[str, Array], C: int | None) -> dict[str, Array]:
    """Columns (M,) by name: the coordinates of theta (M, p), and quantities (M,) or (M, C) of each output."""
    table = {"theta" if theta.shape[1] == 1 else f"theta_{j}": column for j, column in enumerate(theta.T)}
    for name, values in quantities.items():
        columns = values.reshape(len(theta), -1).T
        table |= {name if C is None else f"{name}_{c}": column for c, column in enumerate(columns)}
    return table


def by_run(theta: Array, x: Array) -> dict[str, Array]:
    """Columns (n,) by name: the coordinates of theta (n, p) and of x (n, d)."""
    names = ["x"] if x.shape[1] == 1 else [f"x_{j}" for j in range(x.shape[1])]
    return by_theta(theta, {}, None) | dict(zip(names, x.T, strict=True))


def data_frame(data: Any, columns: list[str] | None = None) -> Any:
    """A pandas DataFrame of columns by name, or of rows."""
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("to_frame needs pandas: python -m pip install pandas.") from error
    return pd.DataFrame(data, columns=columns)
