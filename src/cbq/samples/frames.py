"""Samples from and to long tables, with one row per point, as labelled arrays of xarray, and as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common import Array, Booleans, data_frame, rows_not_finite, shown
from cbq.report import html
from cbq.samples.arrays import equal_rows
from cbq.samples.findings import Failures, in_brief
from cbq.samples.names import PARTS, Names, Part, by_point, named_columns

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

FAILED = "failed"  # the column that marks points at which f failed
Columns = str | Sequence[str] | None
FIRST_ROWS = 5
OUTPUT = "output"  # the axis of outputs of labelled arrays
CHAIN = ("chain", "draw")  # their first axes, which ArviZ expects


def read_table(frame: Any, theta: Columns, x: Columns, f: Columns) -> tuple[dict[str, Any], Failures | None]:
    """The arguments theta, x, f and names of `Samples` in a table, and the points that its column `failed` marks.

    By default, columns are theta, x and f, or theta_*, x_* and f_*. Thetas are in the order of their first rows. Values
    are (N_t,) for a single name of f, and (N_t, C) for a list.
    """
    table = _columns(frame)
    failed = _failed(table.pop(FAILED, None), len(next(iter(table.values()), ())))
    columns = {part: _found(table, part, given) for part, given in zip(PARTS, (theta, x, f), strict=True)}
    names = Names(**columns)
    used = {*names.theta, *names.x, *names.f}
    unknown = [name for name in table if name not in used]
    if unknown and None in (theta, x, f):
        raise ValueError(
            f"the table has columns {unknown}, but only theta, x and f, or theta_*, ..., are known: drop them, or say "
            f"which columns to take, as in theta='stock', x=['demand'], f='profit'."
        )
    single = isinstance(f, str) or (f is None and columns["f"] == ("f",))
    blocks = {part: np.column_stack([table[name] for name in getattr(names, part)]) for part in PARTS}
    at, points = blocks["theta"], blocks["x"]
    bad = rows_not_finite(at)
    if np.any(bad):
        row = int(np.argmax(bad))
        raise ValueError(f"theta must be finite, but row {row} holds {at[row]}: remove it.")
    first, group = equal_rows(at)
    rows = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    values = blocks["f"][:, 0] if single else blocks["f"]
    good = [row[~failed[row]] for row in rows]
    known = [t for t, row in enumerate(good) if len(row)]
    if not known:
        raise ValueError("the table has no row with a value: f failed at all of them.")
    failures = Failures.of(at[first], [points[row[failed[row]]] for row in rows], [points[row] for row in good])
    rows = [good[t] for t in known]
    parts = {"x": [points[row] for row in rows], "f": [values[row] for row in rows]}
    return {"theta": at[first][known], **parts, "names": names}, failures


def to_frame(samples: Samples) -> Any:
    """A pandas table of samples; see `Samples.to_frame`."""
    failures = samples.failures
    table = samples.to_columns()
    if failures is None:
        return data_frame(table)
    where = np.repeat(failures.theta, failures.counts, axis=0)
    nothing = np.full((len(where), samples.C or 1), np.nan)
    more = by_point(where, failures.x, nothing, samples.names)
    joined: dict[str, Any] = {name: np.concatenate([column, more[name]]) for name, column in table.items()}
    return data_frame(joined | {FAILED: np.arange(samples.n_evaluations + len(where)) >= samples.n_evaluations})


def _columns(frame: Any) -> dict[str, Array]:
    """The columns of a table by name, each (n,)."""
    columns = named_columns(frame)
    if columns is None:
        raise TypeError(
            f"from_frame takes a table with named columns, such as a pandas or polars DataFrame or a mapping from "
            f"names to columns of numbers, but a {type(frame).__name__} arrived."
        )
    numbers = columns.numbers(columns.labels, "the table")
    if not len(numbers):
        raise ValueError("the table must have a row for each point, but it is empty.")
    return dict(zip(columns.labels, numbers.T, strict=True))


def _found(table: dict[str, Array], part: Part, given: Columns) -> tuple[str, ...]:
    """The names of the columns of a part: the given names, or `part`, or `part_*`."""
    if given is not None:
        names: tuple[str, ...] = getattr(Names(**{part: given}), part)
        missing = [name for name in names if name not in table]
        if missing or not names:
            raise ValueError(
                f"{part} is {shown(given)}, but the table has no column {', '.join(map(repr, missing)) or 'for it'} "
                f"(all columns: {list(table)})."
            )
        return names
    columns = [column for column in table if column.partition("_")[0] == part]
    if not columns or (part in columns and len(columns) > 1):
        raise ValueError(
            f"the table must have either one column {part!r} or columns {part}_*, but it has {columns} "
            f"(all columns: {list(table)}): rename them, or say which to take, as in {part}='name of the column'."
        )
    return tuple(columns)


def _failed(column: Array | None, n: int) -> Booleans:
    """Whether f failed at the points of n rows: (n,)."""
    if column is None:
        return np.zeros(n, dtype=np.bool_)
    if not np.all((column == 0) | (column == 1)):
        raise ValueError(f"column {FAILED!r} must hold True and False, but it holds {shown(column)}.")
    return np.asarray(column == 1)


def samples_html(samples: Samples) -> str:
    """A summary of samples and their first points."""
    names, counts, kinds = samples.names, samples.counts, dict.fromkeys(finding.kind for finding in samples.findings)
    points = f"{counts.min()} to {counts.max()}" if samples.is_ragged else f"{counts[0]}"
    entries = {
        "thetas": f"{samples.T}: {names.ranges('theta', samples.theta)}",
        "points": f"{points} each, {samples.n_evaluations} in all: {names.ranges('x', samples.all_points)}",
        "values": names.ranges("f", samples.table),
        "measure": f"{samples.measure(0)!r}" + f" and {samples.T - 1} more" * (samples.T > 1),
        "design": samples.design,
        "failed": "" if samples.failures is None else f"{len(samples.failures.x)} points",
        "findings": " ".join(in_brief(samples.findings, kind, samples.T) for kind in kinds),
    }
    first = {name: column[:FIRST_ROWS] for name, column in samples.to_columns().items()}
    return html.box("Samples", entries, html.column_table(first))


# Labelled arrays, which ArviZ reads


def dataset_at(theta: Array, quantities: Mapping[str, Array], names: Names, **attributes: Any) -> Any:
    """Quantities (M,) or (M, C) by name at thetas (M, p), as an xarray Dataset.

    For p = 1 the axis of thetas has the name of theta. Otherwise it is called theta, and each coordinate of theta is a
    coordinate along it.
    """
    coordinates, axis = _theta_coordinates(theta, names, [*quantities, OUTPUT])
    variables = {name: ((axis, OUTPUT)[: values.ndim], values) for name, values in quantities.items()}
    if any(values.ndim == 2 for values in quantities.values()):
        coordinates[OUTPUT] = (OUTPUT, list(names.f))
    return _xarray().Dataset(variables, coordinates, attributes)


def datatree(samples: Samples, group: str) -> Any:
    """Samples with equally many points at each theta, as an xarray DataTree; see `Samples.to_datatree`."""
    names, N = samples.names, int(np.min(samples.counts))
    if samples.is_ragged:
        raise ValueError(
            f"to_datatree needs equally many points at each theta, but there are {N} to {np.max(samples.counts)}: take "
            f"samples.thinned({N}), or to_frame()."
        )
    coordinates, axis = _theta_coordinates(samples.theta, names, [*names.x, *names.f, *CHAIN])
    columns = zip((*names.x, *names.f), (*samples.all_points.T, *samples.table.T), strict=True)
    variables = {name: ((*CHAIN, axis), column.reshape(1, samples.T, N).swapaxes(1, 2)) for name, column in columns}
    coordinates |= {"chain": np.arange(1), "draw": np.arange(N)}
    dataset = _xarray().Dataset(variables, coordinates, {"design": samples.design})
    return _xarray().DataTree.from_dict({group: dataset})


def _theta_coordinates(theta: Array, names: Names, others: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The coordinates of thetas (M, p), and the name of their axis; `others` are the names of further arrays."""
    axis = names.theta[0] if len(names.theta) == 1 else "theta"
    counts = Counter([*{*names.theta, axis}, *others])
    if twice := [name for name in counts if counts[name] > 1]:
        raise ValueError(f"a dataset cannot have two arrays {twice[0]!r}: give theta, x or f another name.")
    return {name: (axis, column) for name, column in zip(names.theta, theta.T, strict=True)}, axis


def _xarray() -> Any:
    try:
        import xarray
    except ImportError as error:
        raise ImportError("labelled arrays need xarray: python -m pip install xarray.") from error
    return xarray
