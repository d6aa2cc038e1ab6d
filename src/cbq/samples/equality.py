"""Equality of samples: of thetas, points, values, measures, options and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.samples.conditional import equal_measures
from cbq.samples.failures import Failures

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

SAME = ("C", "depends_on_theta", "design", "stochastic", "names")
ARRAYS = ("theta", "counts", "all_points", "table", "bounds", "log_weights")


def equal(one: Samples, other: Samples) -> bool:
    """Whether both are equal to the last bit, in the same order. Families are compared at the observed thetas."""
    if any(getattr(one, name) != getattr(other, name) for name in SAME):
        return False
    if not all(_same_array(getattr(one, name), getattr(other, name)) for name in ARRAYS):
        return False
    return _same_failures(one.failures, other.failures) and equal_measures(one._measure, other._measure, one.T)


def content_hash(samples: Samples) -> int:
    """A hash that equal samples share."""
    counts = tuple(samples.counts.tolist())
    return hash((counts, samples.d, samples.C, float(np.sum(samples.theta)), float(np.sum(samples.table))))


def _same_failures(one: Failures | None, other: Failures | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(_same_array(mine, vars(other)[name]) for name, mine in vars(one).items())


def _same_array(one: Any, other: Any) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)
