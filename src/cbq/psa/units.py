"""Units in which tables are of size one, so that squares of their values are numbers whatever units they come in.

All of them are powers of two: to divide by one, and to multiply by it, rounds nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cbq._arrays import Array, Integers
from cbq.nested.decisions import Decisions

# Powers of two:
FARTHEST = 1013  # of net benefits, about 1e305: beyond, a few of them have no sum, or few digits
APART = 332  # between parts of net benefits, about 1e100: beyond, squares of the smaller are 0 beside the larger


def of_size_one(columns: Array) -> tuple[Array, Integers]:
    """Columns (n, k) whose largest absolute values are 0 or in [0.5, 1), and the powers of two they were divided by."""
    powers = np.frexp(np.max(np.abs(columns), axis=0))[1].astype(np.intp)
    return np.ldexp(columns, -powers), powers


def in_units(outputs: Array, decisions: Decisions) -> tuple[Array, Decisions, float]:
    """Outputs (n, C) and decisions about them whose net benefits are of size one, and the unit they are in."""
    values, powers = of_size_one(outputs)
    used = (decisions.weights != 0) & np.any(values != 0, axis=0)
    if not np.any(used):
        return outputs, decisions, 1.0
    parts = (np.frexp(decisions.weights)[1] + powers)[used]
    low, high = int(np.min(parts)), int(np.max(parts))
    _refuse_sizes(low, high)
    weights = np.ldexp(np.where(used, decisions.weights, 0.0), powers - high)
    weights.setflags(write=False)
    return values, replace(decisions, weights=weights), float(np.ldexp(1.0, high))


def _refuse_sizes(low: int, high: int) -> None:
    """Raise where parts of net benefits, of sizes from 2^low to 2^high, are no numbers to reckon with."""
    if abs(high) > FARTHEST:
        raise ValueError(
            f"net benefits are of size {_power_of_ten(high)}, where numbers end: multiply outputs by a constant, and "
            f"the answers by its inverse."
        )
    if high - low > APART:
        raise ValueError(
            f"some parts of the net benefits are of size {_power_of_ten(low)} and others of size "
            f"{_power_of_ten(high)}, beside which the small ones are nothing: correct their units, or leave out the "
            f"decision or the willingness to pay that is out of all proportion."
        )


def _power_of_ten(power: int) -> str:
    """The power of ten nearest to numbers just below a power of two."""
    return f"1e{round((power - 0.5) * np.log10(2.0)):+d}"
