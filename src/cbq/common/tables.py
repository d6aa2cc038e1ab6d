"""Tables: in plain text, and as data frames of pandas or of the library of a table that arrived.

Columns of pandas, polars and pyarrow are read without any package (`samples/names.py`). narwhals, an extra, gathers the
rows of lazy frames and relations, and makes results in libraries other than pandas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from math import isnan
from textwrap import fill
from typing import Any

NOTE_WIDTH = 100  # line length of notes, in characters
BLANK = "-"
EXPONENT_FROM = 1e6  # numbers from here on are written with an exponent
LAZY = ("dask", "duckdb", "ibis", "pyspark", "sqlframe")  # packages whose tables have no rows in memory
WITH_NARWHALS = ("polars", "pyarrow", *LAZY)
PANDAS = {"pandas": "pandas", "modin": "modin.pandas", "cudf": "cudf"}  # packages, and modules with a DataFrame like it


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


def data_frame(columns: Mapping[str, Any], like: Any = None) -> Any:
    """Columns (n,) by name as a data frame: in the library of `like`, if it is a table, or else in pandas."""
    found = frame_like(like, columns)
    if found is not None:
        return found
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("to_frame needs pandas: python -m pip install pandas.") from error
    return pd.DataFrame(dict(columns))


def frame_like(table: Any, columns: Mapping[Any, Any]) -> Any:
    """Columns (n,) by name in the library of a table or series, with its index; None if it is neither."""
    if _library(table) in PANDAS and hasattr(table, "iloc"):
        return import_module(PANDAS[_library(table)]).DataFrame(dict(columns), index=table.index)
    if _library(table) not in WITH_NARWHALS:
        return None
    nw = _narwhals(table)
    frame = nw.from_native(table, pass_through=True, allow_series=True)
    if not isinstance(frame, nw.DataFrame | nw.Series):  # such as an array of pyarrow
        return None
    numbers = {str(name): column for name, column in columns.items()}
    return nw.from_dict(numbers, backend=frame.implementation).to_native()


def gathered(table: Any) -> Any:
    """The rows of a lazy frame or a relation as a table in memory, and any other object unchanged.

    Answers at a relation need them gathered once, since a relation may have its rows in another order the next time.
    """
    is_lazy = hasattr(table, "collect") if _library(table) == "polars" else _library(table) in LAZY
    if not is_lazy:
        return table
    nw = _narwhals(table)
    frame = nw.from_native(table, pass_through=True)
    if not isinstance(frame, nw.LazyFrame):
        return table
    decimals = [
        name for name, kind in frame.collect_schema().items() if kind == nw.Decimal
    ]  # of SQL, in which 0.5 is one
    return frame.with_columns(nw.col(name).cast(nw.Float64) for name in decimals).collect().to_native()


def _library(table: Any) -> str:
    """The package of the type of an object."""
    return type(table).__module__.partition(".")[0].lstrip("_")


def _narwhals(table: Any) -> Any:
    try:
        import narwhals.stable.v2 as narwhals
    except ImportError as error:
        what = f"a table of {_library(table)} needs narwhals here"
        raise ImportError(f"{what}: python -m pip install narwhals, or pass an array or a table of pandas.") from error
    return narwhals
