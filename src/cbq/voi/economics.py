"""The decisions of a model draw by draw: their effects and costs, or their net benefits, and their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq.common.arrays import Array
from cbq.common.checks import listed, shown, text
from cbq.nested.decisions import Decisions, Name, is_list
from cbq.voi.diagnostics import autocorrelation_times, is_sorted
from cbq.voi.outputs import EFFECT_OF, REFERENCE, Outputs, is_pair, read_outputs
from cbq.voi.roles import output_name
from cbq.voi.tables import scale_net_benefits

MIN_ROWS = 2


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
        options = {"effects": effects, "costs": costs, "willingness_to_pay": 1.0}
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
        found = read_outputs(outputs, options)
        _check_rows(found)
        weights = found.decisions.weights[0]
        both = found.values[:, np.argmax(weights, axis=1)], found.values[:, np.argmin(weights, axis=1)]
        for each in both:
            each.setflags(write=False)
        return cls(_names(found, decisions), *both, found.notes)


@dataclass(frozen=True, eq=False)
class NetBenefitDraws:
    """The outputs (n, C) of n draws, and the D decisions with the net benefits that follow from them."""

    names: tuple[str, ...]
    values: Array
    decisions: Decisions
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, outputs: Any, options: dict[str, Any], decisions: Sequence[str] | None) -> NetBenefitDraws:
        """From outputs with the options effects, costs and willingness_to_pay, as `cbq.evpi` takes them."""
        found = read_outputs(outputs, options)
        _check_rows(found)
        priced = options["willingness_to_pay"] is not None
        named = read_outputs(outputs, options | {"willingness_to_pay": 1.0}) if priced else found
        values, scaled, _ = scale_net_benefits(found.values, found.decisions)
        return cls(_names(named, decisions), values, scaled, found.notes)

    def benefits(self) -> Iterator[tuple[Array, Array]]:
        """For each willingness to pay, net benefits (n, D) less that of the first decision, and what they are made of.

        The latter (n, 1) is the largest sum of the absolute terms of a net benefit of the draw: differences that are
        small beside it are due to rounding. Both are in a common unit.
        """
        for weights in self.decisions.weights:
            terms = np.abs(self.values) @ np.abs(weights).T
            yield self.values @ (weights - weights[:1]).T, np.max(terms, axis=1, keepdims=True)


def effective_sizes(series: Array, *draws: Array) -> Array:
    """The numbers of independent draws that n draws are worth, (q,), for the means of series (n, q).

    Draws count in full unless they are autocorrelated in their order. If some column of `draws` (n, k) is sorted, this
    order is not that of a Markov chain.
    """
    n = len(series)
    return np.full(series.shape[1], float(n)) if any(map(is_sorted, draws)) else n / autocorrelation_times(series)


def _check_rows(outputs: Outputs) -> None:
    n = len(outputs.values)
    if n < MIN_ROWS:
        raise ValueError(f"intervals need at least {MIN_ROWS} draws, but outputs has {n}: draw more.")


def _names(outputs: Outputs, given: Sequence[str] | None) -> tuple[str, ...]:
    """The names that are given, or those that the columns tell: A for qaly_A and cost_A.

    The weights of effects, or of net benefits, must be positive.
    """
    columns = [outputs.table.names[i] for i in np.argmax(outputs.decisions.weights[0], axis=1)]
    if given is None:
        names = [_label(name) for name in columns]
        return tuple(names if len(set(names)) == len(names) else columns)
    if not is_list(given) or len(given) != len(columns):
        raise ValueError(f"decisions must be a list of {len(columns)} names, one for each, but it is {shown(given)}.")
    names = [text(each, "an element of decisions=") for each in given]
    if len(set(names)) != len(columns):
        raise ValueError(f"decisions must be {len(columns)} different names, but they are {listed(names)}.")
    return tuple(names)


def _label(column: str) -> str:
    """What the name of a column says about its decision."""
    name = column.removeprefix(EFFECT_OF)
    if re.fullmatch(rf"{REFERENCE} \d+", name):
        return REFERENCE
    role = output_name(name)
    label = role.written if role is not None and role.written else name
    return f"decision {label}" if label.isdigit() else label
