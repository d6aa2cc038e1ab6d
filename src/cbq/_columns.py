"""Tables whose columns have names, of any library: pandas, polars, pyarrow, xarray, structured arrays, mappings.

They are recognised by their attributes, so that none of these libraries is imported. Names decide which column is
which wherever names are known: NumPy would take the columns of such a table by their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._checks import as_text


@dataclass(frozen=True, eq=False)
class NamedColumns:
    """The names of the columns as the table has them, and a function from a position to a column."""

    names: list[Any]
    take: Callable[[int], Any]

    @property
    def labels(self) -> tuple[str, ...]:
        """The names as strings."""
        return tuple(map(as_text, self.names))

    def repeated(self) -> list[str]:
        """Names that several columns have."""
        return [name for name in dict.fromkeys(self.labels) if self.labels.count(name) > 1]


def named_columns(table: Any) -> NamedColumns | None:
    """The columns of a table; None if it is anything else, such as an array or a single column."""
    if isinstance(table, np.ndarray):
        fields = table.dtype.names
        return None if fields is None else NamedColumns(list(fields), lambda i: table[fields[i]])
    if isinstance(table, Mapping):
        keys = list(table)
        return NamedColumns(keys, lambda i: table[keys[i]])
    if isinstance(table, str | bytes | Sequence) or hasattr(table, "collect"):  # without rows before `collect`
        return None
    return _of_a_library(table)


def named_row(value: Any) -> Any:
    """A row of a table, a pandas Series whose labels are the names of columns, as a mapping; else `value` itself."""
    if not hasattr(value, "iloc") or hasattr(value, "columns"):
        return value
    return dict(value.items()) if all(isinstance(label, str) for label in value.index) else value


def _of_a_library(table: Any) -> NamedColumns | None:
    """The columns of a data frame."""
    if hasattr(table, "iloc"):  # pandas, and libraries that imitate it; a Series has no columns
        return NamedColumns(list(table.columns), lambda i: table.iloc[:, i]) if hasattr(table, "columns") else None
    if hasattr(table, "column_names") and hasattr(table, "column"):  # pyarrow, whose `columns` are arrays
        return NamedColumns(list(table.column_names), table.column)
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):  # polars
        names = list(table.columns)
        return NamedColumns(names, lambda i: table[names[i]])
    if hasattr(table, "dims") and hasattr(table, "coords") and len(table.dims) == 2:  # xarray
        last = table.dims[-1]
        labels = np.asarray(table.coords[last]) if last in table.coords else np.empty(0)
        return NamedColumns(labels.tolist(), lambda i: table[:, i]) if labels.dtype.kind in "OU" else None
    return None
