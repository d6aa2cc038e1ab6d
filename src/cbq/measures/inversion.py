"""Roots of increasing functions, one per array element, to the last digits of a double."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array


def increasing_root(
    function: Callable[[Array], tuple[Array, Array]], low: Array, high: Array, start: Array, noise: Array
) -> Array:
    """x in [low, high] where `function(x) = (value, slope)` has value 0; all arrays of one shape.

    Newton's method while its steps shrink, otherwise bisection of the *floating-point numbers* between the
    ends, which takes at most 64 halvings however many orders of magnitude the bracket spans. Values up to
    `noise` in size count as zero; where low = high, which may be infinite, that is the answer.
    """
    known, answer = ~(low < high), low
    low, high = np.where(known, 0.0, low), np.where(known, 0.0, high)
    x, done, step_before, step_last = np.clip(start, low, high), known, high - low, high - low
    for _ in range(200):
        if np.all(done):
            break
        with np.errstate(all="ignore"):  # values and slopes may be infinite or zero far from the root
            value, slope = function(x)
            low, high = np.where(value <= 0, x, low), np.where(value >= 0, x, high)
            newton = x - value / slope
            step = np.abs(newton - x)
            good = (newton >= low) & (newton <= high) & (step <= 0.5 * step_before)
            target = np.where(good, newton, _middle(low, high))
        arrived = good & ((step <= 2 * np.spacing(np.abs(x))) | (np.abs(value) <= noise))
        step_before, step_last = step_last, np.where(done, step_last, np.abs(target - x))
        x = np.where(done, x, target)
        done = done | arrived | (_ordinal(high) - _ordinal(low) <= 1)
    return np.where(known, answer, x)


def _middle(low: Array, high: Array) -> Array:
    """The double halfway between two doubles in their order."""
    a, b = _ordinal(low), _ordinal(high)
    middle = (a >> 1) + (b >> 1) + (a & b & 1)
    bits = np.where(middle < 0, np.iinfo(np.int64).min - middle, middle)
    return np.asarray(bits.view(np.float64))


def _ordinal(x: Array) -> npt.NDArray[np.int64]:
    """Integers in the order of the doubles: neighbours differ by one."""
    bits = np.ascontiguousarray(x).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits).reshape(np.shape(x))
