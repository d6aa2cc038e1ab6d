"""The sets of inputs to value: their columns in numbers, without redundant ones, and the order of their EVPPI.

EVPPI is at least 0, at most EVPI, and at most the EVPPI of a superset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from cbq.common import Array, Integers, as_text, is_sorted, listed, shown
from cbq.nested.decisions import is_list, positions
from cbq.samples import ColumnTable
from cbq.voi.outputs import Outputs, check_not_inputs, not_inputs, scale_columns
from cbq.voi.roles import left_out_note, select_inputs

MIN_ROWS, MIN_ROWS_PER_COLUMN = 30, 5
CONSTANT_BELOW = 1e-12  # range of a column, relative to its largest value
DEPENDENT_BELOW = 1e-13  # variance of a standardised column beside its regression on others, per column
MAX_LEVELS = 12  # of a category: the rarest ones beyond are taken together
CONSTANT = "constant, so that there is nothing to learn"
MIN_RELATIVE_SE = 1e-3  # relative to the largest: a standard error of 0 would fix its estimate
ROUNDING = 1e-12  # relative to the largest value, or to EVPI: smaller values are rounded to 0


@dataclass(frozen=True, eq=False)
class ColumnSet:
    """A set of input columns.

    label : its name in results. members : the positions of its columns in the table of inputs.
    columns : their values (n, p) in units near 1, of which none is constant or determined by the others. p may be 0.
    notes : remarks on omitted columns, without full stops. names : of the members.
    """

    label: str
    members: frozenset[int]
    columns: Array
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def take(self, rows: Integers | slice) -> ColumnSet:
        """The set in these rows."""
        return replace(self, columns=self.columns[rows])


def column_sets(pars: Any, inputs: ColumnTable, used: Sequence[str] = ()) -> tuple[list[ColumnSet], tuple[str, ...]]:
    """The sets that `pars` describes, and remarks for a reader.

    pars : "all" for each input alone, "pairs" for all pairs of them, a mapping from labels to lists of columns, or a
        list of sets, each a list of columns, by name or position (see `positions`), or a single one.
    used : the names of the outputs, which are not inputs.
    """
    if isinstance(pars, str) and pars in ("all", "pairs"):
        return _every_set(pars, inputs, used)
    if isinstance(pars, Mapping):
        groups = [(as_text(label), names) for label, names in pars.items()]
        sets = [_column_set(names, inputs, f"set {label!r} of pars=", label) for label, names in groups]
        members = (f"{s.label} ({', '.join(inputs.names[i] for i in sorted(s.members))})" for s in sets)
        notes = [f"Sets: {', '.join(members)}"]
    elif is_list(pars):
        sets = [_column_set(each, inputs, f"set {i} of pars=") for i, each in enumerate(pars, start=1)]
        notes = []
    else:
        raise TypeError(
            f"pars must be a list of sets of columns, such as [['a'], ['a', 'b']], a mapping from names of "
            f"sets to such lists, 'all' or 'pairs', but {shown(pars)} arrived: for a single column write [['a']]."
        )
    if not sets:
        raise ValueError("pars is empty: list at least one set of columns, such as [['a'], ['a', 'b']].")
    return sets, tuple(notes)


def valued_sets(pars: Any, outputs: Outputs, inputs: ColumnTable) -> tuple[list[ColumnSet], tuple[str, ...]]:
    """The sets that `pars` describes, as in `column_sets`; raise if one of them holds a net benefit."""
    sets, notes = column_sets(pars, inputs, not_inputs(outputs.table, inputs, outputs.used))
    check_not_inputs(outputs, inputs, (i for each in sets for i in each.members))
    return sets, notes


def row_order(values: Array, sets: Sequence[ColumnSet], seed: int) -> Integers | slice:
    """An order for the rows of values (n, C) and of sets: random if a column is sorted, which no Markov chain is."""
    sorted_rows = any(map(is_sorted, [values, *(each.columns for each in sets)]))
    return np.random.default_rng(seed).permutation(len(values)) if sorted_rows else slice(None)


def _every_set(pars: str, inputs: ColumnTable, used: Sequence[str]) -> tuple[list[ColumnSet], tuple[str, ...]]:
    """Each input alone, or all pairs of inputs that are not constant."""
    at = {name: i for i, name in enumerate(inputs.names)}

    def read(name: str) -> Any:
        _in_numbers(inputs, at[name])  # raises if this is no input
        return inputs.take(at[name])

    names, left = select_inputs(inputs.names, read, used)
    notes = (left_out_note(left, f"pars={names!r}" if pars == "all" else ""),) if left else ()
    sets = [_column_set([at[name]], inputs, f"column {name!r}", by_position=True) for name in names]
    if pars == "pairs":
        some = [next(iter(each.members)) for each in sets if each.columns.shape[1]]
        sets = [_column_set(pair, inputs, "a pair", by_position=True) for pair in combinations(some, 2)]
    if not sets:
        raise ValueError(
            f"inputs has no {'pairs of ' * (pars == 'pairs')}columns to value. {'; '.join(notes) or 'None is left'}."
        )
    return sets, notes


def _column_set(
    names: Any, inputs: ColumnTable, what: str, label: str | None = None, *, by_position: bool = False
) -> ColumnSet:
    single = isinstance(names, str | int | np.integer)
    members = list(names) if by_position else positions([names] if single else names, inputs.names, what)
    if not members:
        raise ValueError(f"{what} is empty: list at least one column, or omit the set.")
    in_numbers = [_in_numbers(inputs, i) for i in members]
    columns = scale_columns(np.concatenate([values for values, _ in in_numbers], axis=1))[0]
    owners = [inputs.names[i] for i, (values, _) in zip(members, in_numbers, strict=True) for _ in values.T]
    kept, notes = informative(columns, owners)
    fewest = max(MIN_ROWS, MIN_ROWS_PER_COLUMN * (len(kept) + 1))
    if kept and inputs.n < fewest:
        raise ValueError(
            f"a regression on the {len(kept)} column{'s' * (len(kept) > 1)} of {what} needs at least {fewest} "
            f"rows, but there are {inputs.n}: draw more."
        )
    notes = (*(note for _, note in in_numbers if note), *notes)
    known = tuple(inputs.names[i] for i in members)
    return ColumnSet(label or ", ".join(known), frozenset(members), columns[:, kept], notes, known)


def informative(columns: Array, owners: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """The positions of columns (n, p) that vary and that those before them do not determine; and notes on the others.

    owners : the name of the input that each column is of.
    """
    varies = np.ptp(columns, axis=0) > CONSTANT_BELOW * np.max(np.abs(columns), axis=0)
    varying = np.flatnonzero(varies).tolist()
    kept = [varying[j] for j in _independent(columns[:, varying])]
    moving = {owners[j] for j in varying}
    constant = [name for name in dict.fromkeys(owners) if name not in moving]
    dependent = list(dict.fromkeys(owners[j] for j in varying if j not in kept))
    notes = []
    if constant and not moving:
        notes.append(CONSTANT)
    elif constant:
        notes.append(f"{listed(constant)} left out, because constant")
    if dependent:
        notes.append(f"{listed(dependent)} left out, because other columns of the set determine it: EVPPI is the same")
    return kept, tuple(notes)


def _independent(columns: Array) -> list[int]:
    """The positions of columns (n, p), none of them constant, that are no linear combination of those before them."""
    n, p = columns.shape
    centred = columns - np.mean(columns, axis=0)
    standard = centred / np.sqrt(np.sum(centred**2, axis=0))
    basis = np.zeros((n, p))
    kept: list[int] = []
    for j in range(p):
        rest, before = standard[:, j], basis[:, : len(kept)]
        for _ in range(2):  # once more, for what rounding leaves (Gram-Schmidt)
            rest = rest - before @ (before.T @ rest)
        size = float(rest @ rest)
        if size > DEPENDENT_BELOW * p:
            basis[:, len(kept)] = rest / np.sqrt(size)
            kept.append(j)
    return kept


def _in_numbers(inputs: ColumnTable, i: int) -> tuple[Array, str]:
    """A column as numbers (n, 1), or a category as an indicator of each level but one; and a note, or an empty one."""
    words = inputs.words(i)
    if words is None:
        return inputs.matrix([i]), ""
    name, levels = inputs.names[i], [level for level, _ in Counter(words).most_common()]
    if len(levels) > max(MAX_LEVELS, inputs.n // 2):
        raise ValueError(
            f"column {name!r} of {inputs.what} holds {len(levels)} different words in {inputs.n} rows, which label the "
            f"rows rather than being an input: omit it."
        )
    several = sorted(levels[: MAX_LEVELS - 1] if len(levels) > MAX_LEVELS else levels[: len(levels) - 1])
    indicators = np.array([[float(word == level) for level in several] for word in words]).reshape(inputs.n, -1)
    if len(levels) > MAX_LEVELS:
        rare = len(levels) - len(several)
        return indicators, f"the {rare} rarest of {len(levels)} categories of {name!r} are taken together"
    if len(levels) == 1:
        return np.zeros((inputs.n, 1)), ""
    return indicators, f"{name!r} has {len(levels)} categories" * (len(levels) > 2)


def monotone_estimates(estimates: Array, errors: Array, sets: Sequence[frozenset[int]], evpi: float) -> Array:
    """The nearest values (J,) to the estimates (J,) of EVPPI that respect its order.

    EVPPI is at least 0, at most EVPI, and at most the EVPPI of a superset. Distances are in units of standard errors
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
    unit = np.eye(len(sets))
    rows, bounds = [], []
    for j, each in enumerate(sets):
        subsets = [i for i, other in enumerate(sets) if i != j and other <= each]
        rows += [unit[j], -unit[j], *(unit[j] - unit[i] for i in subsets)]
        bounds += [0.0, -evpi, *(0.0 for _ in subsets)]
    return np.array(rows), np.array(bounds)


def increasing_estimates(estimates: Array, errors: Array, evpi: float) -> Array:
    """The nearest increasing values (J,) between 0 and EVPI to the estimates (J,), in units of their errors (J,)."""
    from scipy.optimize import isotonic_regression  # slow to import

    largest = float(np.max(errors))
    s = np.maximum(errors / largest, MIN_RELATIVE_SE) if largest > 0 else np.ones(len(errors))
    found = np.clip(isotonic_regression(estimates, weights=s**-2.0).x, 0.0, evpi)
    return np.asarray(np.where(found > ROUNDING * evpi, found, 0.0))
