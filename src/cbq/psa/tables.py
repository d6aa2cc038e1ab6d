"""Tables with one row per draw: pandas objects, mappings, structured and plain arrays.

Pandas objects are recognised by their attributes, so that pandas is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._arrays import Array, real


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Columns by name. Only columns that are used must hold numbers.

    what : how errors refer to the table. n : the number of rows. index : their labels, if it is a pandas object.
    """

    what: str
    names: tuple[str, ...]
    take: Callable[[int], Any]
    n: int
    index: Any = None

    @classmethod
    def of(cls, table: Any, what: str) -> ColumnTable:
        """From a pandas DataFrame or Series, a mapping to columns, a structured array, or an array (n, k) or (n,)."""
        names, take = _columns(table, what)
        labels = tuple(map(str, names))
        repeated = [name for name in dict.fromkeys(labels) if labels.count(name) > 1]
        if repeated:
            raise ValueError(f"{what} has several columns called {', '.join(map(repr, repeated))}: rename them.")
        if not names:
            raise ValueError(f"{what} has no columns: pass at least one.")
        lengths = [np.shape(take(i))[:1] for i in range(len(names))]
        if len(set(lengths)) > 1:
            counts = {name: each[0] if each else "no" for name, each in zip(labels, lengths, strict=True)}
            raise ValueError(f"the columns of {what} must be of equal length, but their numbers of rows are {counts}.")
        return cls(what, labels, take, lengths[0][0] if lengths[0] else 0, _common_index(labels, take, what))

    def matrix(self, columns: Sequence[int]) -> Array:
        """The columns at these positions as finite numbers (n, k)."""
        return np.stack([self._column(i) for i in columns], axis=1)

    def _column(self, i: int) -> Array:
        name = f"column {self.names[i]!r} of {self.what}"
        _check_numeric(self.take(i), name)
        values = real(self.take(i), name)
        if values.ndim != 1:
            raise ValueError(f"{name} must be one-dimensional, but its shape is {values.shape}.")
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ValueError(
                f"{name} is NaN or inf in {bad.size} of {self.n} rows (first in row {bad[0]}): remove these rows "
                f"from both tables, or correct them."
            )
        return values


def check_same_rows(outputs: ColumnTable, inputs: ColumnTable) -> None:
    """Raise if the rows of both tables cannot be the same draws."""
    if outputs.n != inputs.n:
        raise ValueError(
            f"outputs has {outputs.n} rows and inputs has {inputs.n}, but the same row of both must be the same draw."
        )
    _check_same_labels((outputs.what, outputs.index), (inputs.what, inputs.index))


def _common_index(names: Sequence[str], take: Callable[[int], Any], what: str) -> Any:
    """The row labels of those columns that are pandas Series, which must agree; None if there are none."""
    columns = [(f"column {name!r} of {what}", take(i)) for i, name in enumerate(names)]
    labelled = [(name, column.index) for name, column in columns if hasattr(column, "iloc")]
    for each in labelled[1:]:
        _check_same_labels(labelled[0], each)
    return labelled[0][1] if labelled else None


def _check_same_labels(one: tuple[str, Any], other: tuple[str, Any]) -> None:
    """Raise if two named sequences of row labels, of equal length, differ."""
    (first, left), (second, right) = one, other
    if left is None or right is None or left is right or left.equals(right):
        return
    pairs = enumerate(zip(left, right, strict=True))
    row, labels = next(((i, (a, b)) for i, (a, b) in pairs if a != b), (0, None))
    if labels is None:  # equal labels of different types
        return
    raise ValueError(
        f"the rows of {first} and {second} have different labels (row {row} is {labels[0]!r} in the first and "
        f"{labels[1]!r} in the second), but the same row of both must be the same draw: sort both, as with "
        f"sort_index(), or, if their rows match by position, call reset_index(drop=True) on both."
    )


def _check_numeric(column: Any, name: str) -> None:
    """Raise if a column holds anything but numbers, with its type and the first other value."""
    try:
        raw = np.asarray(column)
    except ValueError:  # a ragged column has an error of its own
        return
    if raw.dtype.kind in "buif" or raw.ndim != 1:
        return
    odd = next((i for i, each in enumerate(raw) if not isinstance(each, int | float | np.number)), 0)
    held = f" (row {odd} holds {str(raw[odd])!r})" if len(raw) else ""
    raise TypeError(
        f"{name} must hold real numbers, but its type is {getattr(column, 'dtype', raw.dtype)}{held}: convert "
        f"it, as with astype(float), or omit it."
    )


def _columns(table: Any, what: str) -> tuple[list[Any], Callable[[int], Any]]:
    """The names of the columns, and a function from a position to a column."""
    if hasattr(table, "columns") and hasattr(table, "iloc"):
        return list(table.columns), lambda i: table.iloc[:, i]
    if hasattr(table, "iloc"):  # a Series
        return [0 if table.name is None else table.name], lambda i: table
    if isinstance(table, Mapping):
        keys = list(table)
        return keys, lambda i: table[keys[i]]
    try:
        array = np.asarray(table)
    except ValueError as error:
        raise ValueError(f"{what} must be a rectangular table ({error}).") from error
    if array.dtype.names is not None:
        fields = list(array.dtype.names)
        return fields, lambda i: array[fields[i]]
    if array.ndim == 1 and array.dtype.kind in "buif":
        array = array[:, None]
    if array.ndim != 2:
        raise TypeError(
            f"{what} must be a pandas DataFrame, a mapping from names to columns, or an array (rows, columns), but a "
            f"{type(table).__name__} of shape {array.shape} arrived."
        )
    return list(range(array.shape[1])), lambda i: array[:, i]
