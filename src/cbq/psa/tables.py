"""Tables as users have them, one row per draw of the analysis: frames, mappings, structured and plain arrays.

What is of pandas is known by its attributes: pandas itself is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._arrays import Array, real


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Columns by name; numbers are asked of a column when it is used, so that others may hold anything.

    what: what the table is called in errors. n: the number of rows. index: their labels, where it is of pandas.
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
            raise ValueError(f"{what} has no columns.")
        lengths = [np.shape(take(i))[:1] for i in range(len(names))]
        if len(set(lengths)) > 1:
            counts = {name: each[0] if each else "no" for name, each in zip(labels, lengths, strict=True)}
            raise ValueError(f"the columns of {what} must be of one length, but their numbers of rows are {counts}.")
        return cls(what, labels, take, lengths[0][0] if lengths[0] else 0, _common_index(labels, take, what))

    def matrix(self, columns: Sequence[int]) -> Array:
        """Some columns, by their positions, as finite numbers (n, k)."""
        return np.stack([self._column(i) for i in columns], axis=1)

    def _column(self, i: int) -> Array:
        """A column (n,) of finite numbers."""
        name = f"column {self.names[i]!r} of {self.what}"
        _refuse_no_numbers(self.take(i), name)
        values = real(self.take(i), name)
        if values.ndim != 1:
            raise ValueError(f"{name} must be one-dimensional, but its shape is {values.shape}.")
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ValueError(
                f"{name} is NaN or inf in {bad.size} of {self.n} rows (row {bad[0]} is the first): remove these rows "
                f"from both tables, or correct them."
            )
        return values


def refuse_other_rows(outputs: ColumnTable, inputs: ColumnTable) -> None:
    """Raise where the rows of both tables cannot be the same draws."""
    if outputs.n != inputs.n:
        raise ValueError(
            f"outputs has {outputs.n} rows and inputs has {inputs.n}, but a row of both must be the same draw of the "
            f"analysis."
        )
    _refuse_other_labels((outputs.what, outputs.index), (inputs.what, inputs.index))


def _common_index(names: Sequence[str], take: Callable[[int], Any], what: str) -> Any:
    """The row labels of the columns that are of pandas, which must be the same; None without any."""
    indexes = [(f"column {name!r} of {what}", _index(take(i))) for i, name in enumerate(names)]
    labelled = [(name, index) for name, index in indexes if index is not None]
    for each in labelled[1:]:
        _refuse_other_labels(labelled[0], each)
    return labelled[0][1] if labelled else None


def _index(column: Any) -> Any:
    """The row labels of a pandas Series, or None."""
    return column.index if hasattr(column, "iloc") else None


def _refuse_other_labels(one: tuple[str, Any], other: tuple[str, Any]) -> None:
    """Raise where two names with row labels, of one length, have different labels in the same place."""
    (first, left), (second, right) = one, other
    if left is None or right is None or left is right or left.equals(right):
        return
    pairs = enumerate(zip(left, right, strict=True))
    row, labels = next(((i, (a, b)) for i, (a, b) in pairs if a != b), (0, None))
    if labels is None:  # of other types but equal
        return
    raise ValueError(
        f"the rows of {first} and {second} have different labels (row {row} is {labels[0]!r} in the first and "
        f"{labels[1]!r} in the second), but a row of both must be the same draw: sort both alike, as by sort_index(), "
        f"or, where their rows do match by position, use reset_index(drop=True) on both."
    )


def _refuse_no_numbers(column: Any, name: str) -> None:
    """Raise where a column holds anything but numbers, saying which type it is of and what it holds."""
    try:
        raw = np.asarray(column)
    except ValueError:  # ragged: to be refused as that
        return
    if raw.dtype.kind in "buif" or raw.ndim != 1:
        return
    odd = next((i for i, each in enumerate(raw) if not isinstance(each, int | float | np.number)), 0)
    held = f" (row {odd} holds {str(raw[odd])!r})" if len(raw) else ""
    raise TypeError(
        f"{name} must hold real numbers, but its type is {getattr(column, 'dtype', raw.dtype)}{held}: turn it into "
        f"numbers, as with astype(float), or leave it out."
    )


def _columns(table: Any, what: str) -> tuple[list[Any], Callable[[int], Any]]:
    """Names of columns, and a function that takes one by its position."""
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
