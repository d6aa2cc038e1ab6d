"""From a table of outputs to net benefits: the decisions, units near 1, and differences between decisions.

Units are powers of two, so that dividing or multiplying by them rounds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cbq._arrays import Array
from cbq.nested.decisions import Decisions, make_decisions
from cbq.psa.tables import ColumnTable, scale_columns

MAX_EXPONENT = 1013  # of two, for net benefits (about 1e305): beyond, sums overflow or lose digits
MAX_EXPONENT_RANGE = 332  # of the terms of net benefits (about 1e100): beyond, squares of the smaller ones underflow


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Net benefits less that of the first decision, as linear functions of few outputs that are regressed once.

    y : (n, q), the outputs.
    maps : (K, q, D); y @ maps[k] are the net benefits less that of the first decision.
    """

    y: Array
    maps: Array

    @classmethod
    def of(cls, outputs: Array, decisions: Decisions) -> Contrasts:
        """The contrasts of outputs (n, C).

        Net benefits are linear in the willingness to pay, so its smallest and largest values determine all others.
        """
        differences = decisions.weights[:, 1:] - decisions.weights[:, :1]  # (K, D - 1, C)
        K, others = differences.shape[:2]
        thresholds = np.zeros(1) if decisions.willingness_to_pay is None else np.ravel(decisions.willingness_to_pay)
        low, high = int(np.argmin(thresholds)), int(np.argmax(thresholds))
        ends = [low] if thresholds[low] == thresholds[high] else [low, high]
        share = (thresholds - thresholds[low]) / (thresholds[high] - thresholds[low]) if len(ends) == 2 else np.zeros(K)
        maps = np.zeros((K, len(ends), others, others + 1))
        for e, part in enumerate([1.0 - share, share][: len(ends)]):
            maps[:, e, :, 1:] = part[:, None, None] * np.eye(others)
        y = np.concatenate([outputs @ differences[e].T for e in ends], axis=1)
        return cls(y, maps.reshape(K, -1, others + 1))


def read_outputs(table: ColumnTable, options: dict[str, Any]) -> tuple[Decisions, Array]:
    """The decisions that a table of outputs describes, and its values (n, C), with 0 in columns that are not used."""
    decisions = make_decisions(len(table.names), table.names, **options)
    used = np.flatnonzero(np.any(decisions.weights != 0, axis=(0, 1)) | (decisions.willingness_to_pay is None))
    values = np.zeros((table.n, len(table.names)))
    values[:, used] = table.matrix([int(i) for i in used])
    return decisions, values


def scale_net_benefits(outputs: Array, decisions: Decisions) -> tuple[Array, Decisions, float]:
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
