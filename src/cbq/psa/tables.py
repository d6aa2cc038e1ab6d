"""Tables as users have them, one row per draw of the analysis: frames, mappings, structured and plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._arrays import Array, real


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name; numbers are asked of a column when it is used, so that others may hold anything.

    what: what the table is called in errors. n: the number of rows.
    """

    what: str
    names: tuple[str, ...]
    take: Callable[[int], Any]
    n: int

    @classmethod
    def of(cls, table: Any, what: str) -> Table:
        """From a pandas DataFrame, a mapping from names to columns, a structured array, or an array (n, k) or (n,)."""
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
        return cls(what, labels, take, lengths[0][0] if lengths[0] else 0)

    def matrix(self, columns: Sequence[int]) -> Array:
        """Some columns, by their positions, as finite numbers (n, k)."""
        return np.stack([self._column(i) for i in columns], axis=1)

    def _column(self, i: int) -> Array:
        """A column (n,) of finite numbers."""
        name = f"column {self.names[i]!r} of {self.what}"
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


def _columns(table: Any, what: str) -> tuple[list[Any], Callable[[int], Any]]:
    """Names of columns, and a function that takes one by its position."""
    if hasattr(table, "columns") and hasattr(table, "iloc"):
        return list(table.columns), lambda i: table.iloc[:, i]
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
