"""Sets of input columns: reading them, rows that occur twice in them, and the order of their EVPPI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._arrays import Array
from cbq.linalg.dense import eigh
from cbq.nested.decisions import positions
from cbq.psa.net_benefits import scale_columns
from cbq.psa.tables import ColumnTable

MIN_ROWS, MIN_ROWS_PER_COLUMN = 30, 5
CONSTANT_BELOW = 1e-12  # range of a column, relative to its largest value
DEPENDENT_BELOW = 1e-13  # smallest eigenvalue of the correlations, per column
INVOLVED_ABOVE = 1e-5  # coefficient of a column in a linear dependence
MIN_RELATIVE_SE = 1e-3  # relative to the largest: a standard error of 0 would fix its estimate
ROUNDING = 1e-12  # relative to the largest value, or to EVPI: smaller values are rounded to 0


@dataclass(frozen=True, eq=False)
class ColumnSet:
    """A set of input columns: its label, the positions of its columns, and their values (n, p) in units near 1."""

    label: str
    members: frozenset[int]
    columns: Array


def column_sets(pars: Any, inputs: ColumnTable) -> list[ColumnSet]:
    """The sets that `pars` lists: each a list of columns, by name or position (see `positions`), or a single one."""
    if isinstance(pars, str) or not isinstance(pars, Sequence | np.ndarray):
        raise TypeError(
            f"pars must be a list of sets of columns, such as [['a'], ['a', 'b']], but {pars!r} arrived: for a single "
            f"column write [['a']]."
        )
    if not len(pars):
        raise ValueError("pars is empty: list at least one set of columns, such as [['a'], ['a', 'b']].")
    return [_column_set(each, inputs, f"set {i} of pars") for i, each in enumerate(pars, start=1)]


def count_duplicates(rows: Array) -> int:
    """The number of rows (n, k) that repeat an earlier row."""
    ordered = rows[np.lexsort(rows.T)]
    return int(np.sum(np.all(ordered[1:] == ordered[:-1], axis=1)))


def monotone_estimates(estimates: Array, errors: Array, sets: Sequence[frozenset[int]], evpi: float) -> Array:
    """The nearest values (J,) to the estimates (J,) of EVPPI that respect its order.

    EVPPI is at least 0, at most EVPI, and at most that of a superset. Distances are in units of the standard errors
    (J,). With constraints C x >= c, the minimum of |(x - e) / s|^2 is x = e + s^2 C'l with multipliers l >= 0 that
    minimise |s C'l|^2 / 2 - l.(c - C e): non-negative least squares with one row more (Lawson and Hanson, chapter 23).
    """
    from scipy.optimize import nnls  # slow to import

    C, c = _order_constraints(sets, evpi)
    unit = max(float(np.max(np.abs(estimates))), evpi, np.finfo(float).tiny)
    largest = float(np.max(errors))
    s = np.maximum(errors / largest, MIN_RELATIVE_SE) if largest > 0 else np.ones(len(errors))
    violation = (c - C @ estimates) / unit
    if np.all(violation <= 0):
        return np.where(estimates > ROUNDING * unit, estimates, 0.0)
    # Least distance: u = (x - e) / s of least norm with (C s) u >= violation.
    system = np.vstack([(C * s).T, violation])
    target = np.zeros(len(system))
    target[-1] = 1.0
    multipliers = nnls(system, target)[0]
    rest = system @ multipliers - target
    moved = estimates - unit * s * rest[:-1] / rest[-1]
    return np.asarray(np.where(moved > ROUNDING * unit, np.minimum(moved, evpi), 0.0))


def _order_constraints(sets: Sequence[frozenset[int]], evpi: float) -> tuple[Array, Array]:
    """C and c with C x >= c for the EVPPI x (J,) of the sets."""
    J = len(sets)
    rows, bounds = [], []
    for j, each in enumerate(sets):
        rows += [np.eye(J)[j], -np.eye(J)[j]]
        bounds += [0.0, -evpi]
        for i, other in enumerate(sets):
            if i != j and other <= each:
                rows.append(np.eye(J)[j] - np.eye(J)[i])
                bounds.append(0.0)
    return np.array(rows), np.array(bounds)


def _column_set(names: Any, inputs: ColumnTable, what: str) -> ColumnSet:
    members = positions([names] if isinstance(names, str | int | np.integer) else names, inputs.names, what)
    if not members:
        raise ValueError(f"{what} is empty: list at least one column, or omit the set.")
    fewest = max(MIN_ROWS, MIN_ROWS_PER_COLUMN * (len(members) + 1))
    if inputs.n < fewest:
        raise ValueError(
            f"a regression on the {len(members)} column{'s' * (len(members) > 1)} of {what} needs at least {fewest} "
            f"rows, but there are {inputs.n}: draw more."
        )
    values, names_of_columns = inputs.matrix(members), [inputs.names[i] for i in members]
    columns = scale_columns(values)[0]
    _check_constant(columns, values[0], names_of_columns, what)
    _check_dependent(columns, names_of_columns, what)
    return ColumnSet(", ".join(names_of_columns), frozenset(members), columns)


def _check_constant(columns: Array, first: Array, names: list[str], what: str) -> None:
    constant = np.ptp(columns, axis=0) <= CONSTANT_BELOW * np.max(np.abs(columns), axis=0)
    if np.any(constant):
        i = int(np.argmax(constant))
        raise ValueError(
            f"column {names[i]!r} of {what} is constant ({first[i]:g} in all rows), so there is nothing to learn "
            f"about it: omit it."
        )


def _check_dependent(columns: Array, names: list[str], what: str) -> None:
    centred = columns - np.mean(columns, axis=0)
    standard = centred / np.sqrt(np.mean(centred**2, axis=0))
    eigenvalues, axes = eigh(standard.T @ standard / len(columns))
    if eigenvalues[0] < DEPENDENT_BELOW * len(names):
        involved = [name for name, c in zip(names, np.abs(axes[:, 0]), strict=True) if c > INVOLVED_ABOVE]
        raise ValueError(
            f"columns {', '.join(map(repr, involved))} of {what} are linearly dependent, up to rounding, so all but "
            f"one of them determine that one: omit one, which leaves EVPPI unchanged."
        )
