"""The outputs of a decision model: net benefits, or effects and costs, in one table or in two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cbq.common.arrays import Array
from cbq.common.checks import listed
from cbq.nested.decisions import Decisions, make_decisions
from cbq.samples.names import named_columns
from cbq.voi.roles import guess_effects_and_costs, guess_net_benefits, numbers_rows
from cbq.voi.summaries import find_summary
from cbq.voi.tables import ColumnTable, check_same_rows

REFERENCE, EFFECT_OF, COST_OF = "reference", "effect of ", "cost of "  # in names of columns that are made here


@dataclass(frozen=True, eq=False)
class Outputs:
    """Decisions and the values (n, C) of the outputs that describe them, with 0 in columns that are not used.

    table : the columns. used : the names of those that are used. notes : remarks for a reader, without full stops.
    """

    decisions: Decisions
    values: Array
    table: ColumnTable
    used: tuple[str, ...]
    notes: tuple[str, ...] = ()


def read_outputs(outputs: Any, options: dict[str, Any]) -> Outputs:
    """The decisions that `outputs` describes: a table, or a pair of tables with effects and costs.

    options : effects, costs and willingness_to_pay, as in `make_decisions`.
    """
    if is_pair(outputs, options):
        of_effects, of_costs = outputs
        return _read_pair(of_effects, of_costs, options)
    table = ColumnTable.of(outputs, "outputs")
    if all(value is None for value in options.values()):
        _check_net_benefits(table)
        if len(table.names) == 1:
            return _incremental(table, {})
    elif all(value is not None for value in options.values()) and _length(options["effects"]) == 1:
        return _incremental(table, options)
    return _read(table, options)


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
    """Those of the names that are no input, because they are not in `inputs`, or are the same column there.

    Arrays, say, call their columns "0", "1", ..., which says nothing.
    """
    found = [name for name in names if name in outputs.names and name in inputs.names]
    others = [name for name in found if not _equal(name, outputs, inputs)]
    return [name for name in names if name not in others]


def is_pair(outputs: Any, options: dict[str, Any]) -> bool:
    """Whether the outputs are a pair of tables, effects and costs, which needs a willingness to pay and no names."""
    is_two = isinstance(outputs, tuple | list) and len(outputs) == 2 and all(map(_may_be_table, outputs))
    named = options["effects"] is not None or options["costs"] is not None
    return is_two and options["willingness_to_pay"] is not None and not named


def _read(table: ColumnTable, options: dict[str, Any]) -> Outputs:
    decisions = make_decisions(len(table.names), table.names, **options)
    used = np.flatnonzero(np.any(decisions.weights != 0, axis=(0, 1)) | (decisions.willingness_to_pay is None))
    values = np.zeros((table.n, len(table.names)))
    values[:, used] = table.matrix([int(i) for i in used])
    summary = find_summary(values)
    if summary is not None:
        last = f" to {table.n - 1}" * (summary.draws < table.n - 1)
        raise ValueError(
            f"row {summary.row} of {table.what} holds {summary.holds} of the rows above, which is no draw: leave row"
            f"{'s' * bool(last)} {summary.draws}{last} out, of the inputs, too."
        )
    return Outputs(decisions, values, table, tuple(table.names[i] for i in used))


def _incremental(table: ColumnTable, options: dict[str, Any]) -> Outputs:
    """The outputs of one decision are those of a difference: from a decision whose outputs are 0."""
    if not options:
        found = _read(_with_zeros(table, 1), {})
        kind = "net benefit"
    else:
        zeros = _with_zeros(table, 2)
        effects, costs = (
            [*options[name], zero] for name, zero in zip(("effects", "costs"), zeros.names[-2:], strict=True)
        )
        found = _read(zeros, options | {"effects": effects, "costs": costs})
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
