"""The sets of columns whose value is asked for, and what they must be for the question to make sense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._arrays import Array
from cbq.nested.decisions import positions
from cbq.psa.tables import ColumnTable
from cbq.psa.units import of_size_one

FEWEST_ROWS, ROWS_PER_COLUMN = 30, 5
CONSTANT = 1e-12  # the range of a column, of its largest value, below which it is constant
DEPENDENT = 1e-13  # an eigenvalue of the correlations below which columns are linear functions of each other
INVOLVED = 1e-5  # the coefficient of a column that takes part in it


@dataclass(frozen=True, eq=False)
class ColumnSet:
    """Columns (n, p) of the inputs, in units in which they are of size one, their positions, and the set's name."""

    label: str
    members: frozenset[int]
    columns: Array


def column_sets(pars: Any, inputs: ColumnTable) -> list[ColumnSet]:
    """The sets that `pars` lists: each a list of columns, by name or position (see `positions`), or a single one."""
    if isinstance(pars, str) or not isinstance(pars, Sequence | np.ndarray):
        raise TypeError(
            f"pars must be a list of sets of columns, as in [['a'], ['a', 'b']], but {pars!r} arrived: for a single "
            f"column write [['a']]."
        )
    if not len(pars):
        raise ValueError("pars is empty: list at least one set of columns, as in [['a'], ['a', 'b']].")
    return [_column_set(each, inputs, f"set {i} of pars") for i, each in enumerate(pars, start=1)]


def _column_set(names: Any, inputs: ColumnTable, what: str) -> ColumnSet:
    members = positions([names] if isinstance(names, str | int | np.integer) else names, inputs.names, what)
    if not members:
        raise ValueError(f"{what} is empty: name at least one column, or leave the set out.")
    fewest = max(FEWEST_ROWS, ROWS_PER_COLUMN * (len(members) + 1))
    if inputs.n < fewest:
        raise ValueError(
            f"a regression on the {len(members)} column{'s' * (len(members) > 1)} of {what} needs at least {fewest} "
            f"rows, but there are {inputs.n}: draw more."
        )
    given, called = inputs.matrix(members), [inputs.names[i] for i in members]
    columns = of_size_one(given)[0]
    _refuse_constant(columns, given[0], called, what)
    _refuse_dependent(columns, called, what)
    return ColumnSet(", ".join(called), frozenset(members), columns)


def _refuse_constant(columns: Array, first: Array, called: list[str], what: str) -> None:
    flat = np.ptp(columns, axis=0) <= CONSTANT * np.max(np.abs(columns), axis=0)
    if np.any(flat):
        i = int(np.argmax(flat))
        raise ValueError(
            f"column {called[i]!r} of {what} is constant ({first[i]:g} in all rows), so there is nothing to learn "
            f"from it: leave it out."
        )


def _refuse_dependent(columns: Array, called: list[str], what: str) -> None:
    apart = columns - np.mean(columns, axis=0)
    standard = apart / np.sqrt(np.mean(apart**2, axis=0))
    sizes, axes = np.linalg.eigh(standard.T @ standard / len(columns))
    if sizes[0] < DEPENDENT * len(called):
        involved = [name for name, c in zip(called, np.abs(axes[:, 0]), strict=True) if c > INVOLVED]
        raise ValueError(
            f"columns {', '.join(map(repr, involved))} of {what} are linear functions of each other, to rounding: "
            f"whoever knows all but one of them knows that one too. Leave one out, and the value stays the same."
        )
