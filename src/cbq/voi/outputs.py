"""The outputs of a decision model, draw by draw: net benefits, or effects and costs, in one table or in two.

Net benefits are brought to units near 1 that are powers of two, so that dividing by them rounds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from cbq.common import Array, Integers, autocorrelation_times, is_sorted, listed, shown, text
from cbq.nested.decisions import Decisions, Name, is_list, make_decisions
from cbq.samples import ColumnTable, check_same_rows, find_summary, named_columns
from cbq.voi.roles import REFERENCE, decision_names, guess_effects_and_costs, guess_net_benefits, numbers_rows

PRICE = "willingness_to_pay"
EFFECT_OF, COST_OF = "effect of ", "cost of "  # in names of columns that are made here
MIN_ROWS = 2
MAX_EXPONENT = 1013  # of two, for net benefits (about 1e305): beyond, sums overflow or lose digits
MAX_EXPONENT_RANGE = 332  # of the terms of net benefits (about 1e100): beyond, squares of the smaller ones underflow


@dataclass(frozen=True, eq=False)
class Outputs:
    """Decisions and the values (n, C) of the outputs that describe them, with 0 in columns that are not used.

    table : the columns. used : the names of the used columns. notes : remarks for a reader, without full stops.
    plain : (D, C), the weights of the outputs in net benefits, at a willingness to pay of 1.
    """

    decisions: Decisions
    values: Array
    table: ColumnTable
    used: tuple[str, ...]
    plain: Array
    notes: tuple[str, ...] = ()

    def names(self, given: Sequence[str] | None) -> tuple[str, ...]:
        """The given names of the decisions, or the names that columns suggest: A for qaly_A and cost_A."""
        columns = [self.table.names[i] for i in np.argmax(self.plain, axis=1)]
        if given is None:
            return decision_names([name.removeprefix(EFFECT_OF) for name in columns], columns)
        if not is_list(given) or len(given) != len(columns):
            raise ValueError(
                f"decisions must be a list of {len(columns)} names, one for each, but it is {shown(given)}."
            )
        names = [text(each, "an element of decisions=") for each in given]
        if len(set(names)) != len(columns):
            raise ValueError(f"decisions must be {len(columns)} different names, but they are {listed(names)}.")
        return tuple(names)

    def require_draws(self) -> Outputs:
        """The same, if there are draws enough for an interval."""
        n = len(self.values)
        if n < MIN_ROWS:
            raise ValueError(f"intervals need at least {MIN_ROWS} draws, but outputs has {n}: draw more.")
        return self


def read_outputs(outputs: Any, options: dict[str, Any]) -> Outputs:
    """The decisions that `outputs` describes: a table, or a pair of tables with effects and costs.

    options : effects, costs and willingness_to_pay, as in `make_decisions`.
    """
    if is_pair(outputs, options):
        of_effects, of_costs = outputs
        return _read_pair(of_effects, of_costs, options)
    if isinstance(outputs, tuple) and is_pair(outputs, options | {PRICE: 1.0}) and options[PRICE] is None:
        raise ValueError(
            f"outputs is a pair of tables, effects and costs, which came without {PRICE}=: pass the value of one unit "
            f"of effect, such as {PRICE}=20_000, or several values in a list."
        )
    table = ColumnTable.of(outputs, "outputs")
    if all(value is None for value in options.values()):
        _check_net_benefits(table)
        if len(table.names) == 1:
            return _incremental(table, {})
    elif all(value is not None for value in options.values()) and _length(options["effects"]) == 1:
        return _incremental(table, options)
    return _read(table, options)


def read_draws(outputs: Any, inputs: Any, options: dict[str, Any]) -> tuple[Outputs, ColumnTable, Scaled]:
    """The outputs and the inputs of the same draws, with the options of `read_outputs`; and net benefits near 1."""
    described, table = read_outputs(outputs, options).require_draws(), ColumnTable.of(inputs, "inputs")
    check_same_rows(described.table, table)
    return described, table, scale_net_benefits(described.values, described.decisions)


def check_not_inputs(outputs: Outputs, inputs: ColumnTable, members: Iterable[int]) -> None:
    """Raise if a net benefit is one of the inputs that are valued, those at the positions `members`.

    A whole table that is passed as outputs, too, would have all its columns count as decisions.
    """
    if outputs.decisions.willingness_to_pay is not None:
        return
    valued = [inputs.names[i] for i in sorted(set(members))]
    shared = [name for name in valued if name in outputs.used and _same_column(name, outputs.table, inputs)]
    if shared:
        raise ValueError(
            f"{listed(shared)} of outputs= would count as a decision, but is a column of pars=, too: "
            f"pass the columns of net benefits alone, one for each decision, as outputs=; or pass "
            f"effects=, costs= and willingness_to_pay=."
        )


def not_inputs(outputs: ColumnTable, inputs: ColumnTable, names: Iterable[str]) -> list[str]:
    """The names of outputs that are no input, because they are not in `inputs`, or are the same column there.

    Columns of arrays, say, are called "0", "1", ..., in both tables.
    """
    found = [name for name in names if name in outputs.names and name in inputs.names]
    others = [name for name in found if not _equal(name, outputs, inputs)]
    return [name for name in names if name not in others]


def is_pair(outputs: Any, options: dict[str, Any]) -> bool:
    """Whether the outputs are a pair of tables, effects and costs, which needs a willingness to pay and no names."""
    is_two = isinstance(outputs, tuple | list) and len(outputs) == 2 and all(map(_may_be_table, outputs))
    named = options["effects"] is not None or options["costs"] is not None
    return is_two and options[PRICE] is not None and not named


def _read(table: ColumnTable, options: dict[str, Any]) -> Outputs:
    decisions = make_decisions(len(table.names), table.names, **options)
    priced = decisions.willingness_to_pay is not None
    at_1 = make_decisions(len(table.names), table.names, **options | {PRICE: 1.0}) if priced else decisions
    used = np.flatnonzero(np.any(decisions.weights != 0, axis=(0, 1)) | (not priced))
    values = np.zeros((table.n, len(table.names)))
    values[:, used] = table.matrix([int(i) for i in used])
    summary = find_summary(values)
    if summary is not None:
        last = f" to {table.n - 1}" * (summary.draws < table.n - 1)
        raise ValueError(
            f"row {summary.row} of {table.what} holds {summary.holds} of the rows above, which is no draw: leave row"
            f"{'s' * bool(last)} {summary.draws}{last} out, of the inputs, too."
        )
    return Outputs(decisions, values, table, tuple(table.names[i] for i in used), at_1.weights[0])


def _incremental(table: ColumnTable, options: dict[str, Any]) -> Outputs:
    """The outputs of one decision are differences from a decision whose outputs are 0."""
    if not options:
        found = _read(_with_zeros(table, 1), {})
        kind = "net benefit"
    else:
        zeros = _with_zeros(table, 2)
        both = zip(("effects", "costs"), zeros.names[-2:], strict=True)
        found = _read(zeros, options | {name: [*options[name], zero] for name, zero in both})
        kind = "effect and cost"
    used = tuple(name for name in found.used if name in table.names)
    note = f"Incremental: {listed(used)}, against a decision with {kind} 0 in all rows"
    return replace(found, used=used, notes=(note,))


def _with_zeros(table: ColumnTable, count: int) -> ColumnTable:
    """The table with further columns of zeros, whose names are new."""
    names = list(table.names)
    for _ in range(count):
        names.append(next(name for i in range(len(names) + 1) if (name := f"{REFERENCE} {i}") not in names))

    def take(i: int) -> Any:
        return table.take(i) if i < len(table.names) else np.zeros(table.n)

    return replace(table, names=tuple(names), take=take)


def _read_pair(effects: Any, costs: Any, options: dict[str, Any]) -> Outputs:
    """The outputs in a table of effects and one of costs, which keep the names they have there."""
    left, right = ColumnTable.of(effects, "the effects of outputs"), ColumnTable.of(costs, "the costs of outputs")
    check_same_rows(left, right)
    table, options = _joined(left, right), options | _names_of_pair(left.names, right.names)
    found = _incremental(table, options) if len(left.names) == 1 else _read(table, options)
    return replace(found, used=tuple(dict.fromkeys((*left.names, *right.names))))


def _joined(left: ColumnTable, right: ColumnTable) -> ColumnTable:
    """Two tables as one, whose names say which each column is from."""
    names = (*(f"{EFFECT_OF}{name}" for name in left.names), *(f"{COST_OF}{name}" for name in right.names))

    def take(i: int) -> Any:
        return left.take(i) if i < len(left.names) else right.take(i - len(left.names))

    return ColumnTable("outputs", names, take, left.n, left.index if left.index is not None else right.index)


def _names_of_pair(left: Sequence[str], right: Sequence[str]) -> dict[str, list[str]]:
    """The columns of effects and costs, matched by name if the names are the same, and by position otherwise."""
    if len(left) != len(right):
        raise ValueError(
            f"the effects have {len(left)} columns ({listed(left)}) and the costs {len(right)} ({listed(right)}), but "
            f"each decision needs one of each."
        )
    ordered = left if set(left) == set(right) else right
    return {"effects": [f"{EFFECT_OF}{name}" for name in left], "costs": [f"{COST_OF}{name}" for name in ordered]}


def _check_net_benefits(table: ColumnTable) -> None:
    """Raise if columns that would count as decisions are something else: ids, effects, costs, or what stands beside."""
    what, names = "outputs=", table.names
    remedy = f"pass the columns of net benefits alone, one for each decision, as {what}"
    ids = [name for i, name in enumerate(names) if numbers_rows(name, table.take(i)) and not name.isdigit()]
    if ids:
        raise ValueError(
            f"{listed(ids)} of {what} would count as a decision, but numbers or labels the rows: {remedy}."
        )
    effects, costs = guess_effects_and_costs(names)
    if effects:
        raise ValueError(
            f"{listed(effects)} of {what} are effects and {listed(costs)} are costs, by their names, but would all "
            f"count as net benefits of decisions: pass effects={effects!r}, costs={costs!r} and "
            f"willingness_to_pay=, or rename them."
        )
    benefits = guess_net_benefits(names)
    others = [name for name in names if name not in benefits]
    if len(benefits) > 1 and others:
        raise ValueError(
            f"{listed(benefits)} of {what} are net benefits, by their names, and {listed(others)} would count as "
            f"decisions, too: {remedy}, or rename them."
        )


def _same_column(name: str, table: ColumnTable, inputs: ColumnTable) -> bool:
    if name not in inputs.names:
        return False
    column = np.asarray(table.take(table.names.index(name)))
    return _equal(name, table, inputs) and bool(np.any(column != column[:1]))  # zeros, say, are equal by chance


def _equal(name: str, table: ColumnTable, inputs: ColumnTable) -> bool:
    one, other = (np.asarray(each.take(each.names.index(name))) for each in (table, inputs))
    return np.array_equal(one, other)


def _may_be_table(value: Any) -> bool:
    return isinstance(value, np.ndarray | list | tuple) or hasattr(value, "iloc") or named_columns(value) is not None


def _length(names: Any) -> int:
    return len(names) if isinstance(names, Sequence) and not isinstance(names, str) else 0


@dataclass(frozen=True, eq=False)
class EffectsAndCosts:
    """The effects and the costs (n, D) of D decisions in n draws. notes : remarks for a reader, without full stops."""

    names: tuple[str, ...]
    effects: Array
    costs: Array
    notes: tuple[str, ...] = ()

    @classmethod
    def read(
        cls,
        outputs: Any,
        effects: Sequence[Name] | None,
        costs: Sequence[Name] | None,
        decisions: Sequence[str] | None,
    ) -> EffectsAndCosts:
        """From outputs as `cbq.evpi` takes them, with the names of the decisions, if they are given."""
        options = {"effects": effects, "costs": costs, PRICE: 1.0}
        named = effects is not None or costs is not None
        if named and isinstance(outputs, tuple) and is_pair(outputs, options | {"effects": None, "costs": None}):
            raise ValueError(
                "the outputs are a pair of tables, (effects, costs), of which all columns are used: leave out "
                "effects= and costs=."
            )
        if not named and not is_pair(outputs, options):
            raise ValueError(
                "the outputs must be effects and costs: pass effects= and costs=, the columns of "
                "each, or a pair of tables, (effects, costs)."
            )
        found = read_outputs(outputs, options).require_draws()
        of_effects, of_costs = np.argmax(found.plain, axis=1), np.argmin(found.plain, axis=1)
        return cls(found.names(decisions), found.values[:, of_effects], found.values[:, of_costs], found.notes)


@dataclass(frozen=True, eq=False)
class NetBenefitDraws:
    """The outputs (n, C) of n draws, and the D decisions with the net benefits that follow from them, in a unit."""

    names: tuple[str, ...]
    values: Array
    decisions: Decisions
    unit: float
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, outputs: Any, options: dict[str, Any], decisions: Sequence[str] | None) -> NetBenefitDraws:
        """From outputs with the options effects, costs and willingness_to_pay, as `cbq.evpi` takes them."""
        found = read_outputs(outputs, options).require_draws()
        values, scaled, unit = scale_net_benefits(found.values, found.decisions)
        return cls(found.names(decisions), values, scaled, unit, found.notes)

    def benefits(self) -> Iterator[tuple[Array, Array]]:
        """For each willingness to pay, net benefits (n, D) less the first decision's, and the size of their terms.

        The latter (n, 1) is the largest sum of the absolute terms of a net benefit of the draw: differences that are
        small beside it are due to rounding. Both are in a common unit.
        """
        for weights in self.decisions.weights:
            terms = np.abs(self.values) @ np.abs(weights).T
            yield self.values @ (weights - weights[:1]).T, np.max(terms, axis=1, keepdims=True)


def repeated_rows(rows: Array) -> Integers:
    """The positions of rows (n, k) that occur more than once."""
    order = np.lexsort(rows.T)
    equal = np.append(np.all(rows[order][1:] == rows[order][:-1], axis=1), False)
    return order[equal | np.roll(equal, 1)]


def count_duplicates(rows: Array) -> int:
    """The number of rows (n, k) that repeat an earlier row."""
    ordered = rows[np.lexsort(rows.T)]
    return int(np.sum(np.all(ordered[1:] == ordered[:-1], axis=1)))


def scale_columns(columns: Array) -> tuple[Array, Integers]:
    """Columns (n, k) whose largest absolute values are 0 or in [0.5, 1), and the exponents of two divided by, (k,)."""
    exponents = np.frexp(np.max(np.abs(columns), axis=0))[1].astype(np.intp)
    return np.ldexp(columns, -exponents), exponents


Scaled = tuple[Array, Decisions, float]  # outputs (n, C) and decisions with net benefits near 1, and their unit


def scale_net_benefits(outputs: Array, decisions: Decisions) -> Scaled:
    """Outputs (n, C) and decisions whose net benefits are of order 1, and the unit of these net benefits."""
    values, exponents = scale_columns(outputs)
    used = (decisions.weights != 0) & np.any(values != 0, axis=0)
    if not np.any(used):
        return outputs, decisions, 1.0
    terms = (np.frexp(decisions.weights)[1] + exponents)[used]
    low, high = int(np.min(terms)), int(np.max(terms))
    _check_range(low, high)
    weights = np.ldexp(np.where(used, decisions.weights, 0.0), exponents - high)
    weights.setflags(write=False)
    return values, replace(decisions, weights=weights), float(np.ldexp(1.0, high))


def _check_range(low: int, high: int) -> None:
    """Raise if terms of net benefits between 2^low and 2^high cannot be computed with in float64."""
    if abs(high) > MAX_EXPONENT:
        raise ValueError(
            f"net benefits of about {_power_of_ten(high)} would {'overflow' if high > 0 else 'underflow'} float64: "
            f"multiply the outputs by a constant, and divide the results by it."
        )
    if high - low > MAX_EXPONENT_RANGE:
        raise ValueError(
            f"some terms of the net benefits are about {_power_of_ten(low)} and others about {_power_of_ten(high)}, so "
            f"the small ones would be lost to rounding: correct their units, or drop the decision or the willingness "
            f"to pay that is out of proportion."
        )


def _power_of_ten(exponent: int) -> str:
    """The power of ten nearest to numbers just below 2^exponent."""
    return f"1e{round((exponent - 0.5) * np.log10(2.0))}"


def effective_sizes(series: Array, *draws: Array) -> Array:
    """The numbers of independent draws that n draws are worth, (q,), for the means of series (n, q).

    Draws count in full unless they are autocorrelated in their order. If some column of `draws` (n, k) is sorted, this
    order is not the order of a Markov chain.
    """
    n = len(series)
    return np.full(series.shape[1], float(n)) if any(map(is_sorted, draws)) else n / autocorrelation_times(series)


def wilson_interval(share: Array, n: Array, level: float) -> tuple[Array, Array]:
    """The interval of Wilson for a probability, from its share in n independent draws."""
    z2 = float(ndtri(0.5 * (1.0 + level))) ** 2
    middle = (share + 0.5 * z2 / n) / (1.0 + z2 / n)
    half = np.sqrt(z2 * (share * (1.0 - share) / n + 0.25 * z2 / n**2)) / (1.0 + z2 / n)
    return np.clip(middle - half, 0.0, share), np.clip(middle + half, share, 1.0)
