"""Long tables: one row per point, columns theta, x and f, or theta_*, x_* and f_*."""

from __future__ import annotations

from typing import Any

import numpy as np

from cbq._arrays import Array, real


def columns(frame: Any) -> dict[str, Array]:
    """The columns of a table, each (n,), all of them known by name."""
    try:
        table = {str(name): real(frame[name], f"column {name!r}") for name in getattr(frame, "columns", frame)}
        lengths = {len(column) for column in table.values() if column.ndim == 1}
    except (KeyError, IndexError, TypeError) as error:
        raise TypeError(
            f"from_frame takes a pandas DataFrame or a mapping from names to columns of numbers, but a "
            f"{type(frame).__name__} arrived ({error})."
        ) from error
    if any(column.ndim != 1 for column in table.values()) or len(lengths) != 1 or 0 in lengths:
        shapes = {name: column.shape for name, column in table.items()}
        raise ValueError(
            f"the columns of a table must be 1-D, of one length, not empty, but their shapes are {shapes}."
        )
    unknown = [name for name in table if name.partition("_")[0] not in ("theta", "x", "f")]
    if unknown:
        raise ValueError(
            f"the table has columns {unknown}, but only theta, x and f (or theta_*, ...) are known: drop them."
        )
    return table


def block(table: dict[str, Array], name: str) -> tuple[Array, bool]:
    """The columns `name` or `name_*` side by side (n, k), and whether it was the single column `name`."""
    found = [column for column in table if column.partition("_")[0] == name]
    if not found or (name in found and len(found) > 1):
        raise ValueError(
            f"the table must have either one column {name!r} or columns {name}_*, but of those it has {found} "
            f"(all columns: {list(table)})."
        )
    return np.column_stack([table[column] for column in found]), found == [name]
