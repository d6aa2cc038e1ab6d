"""Answers at many thetas from answers at some of them, where thetas that were left out show that this is accurate.

Nodes are taken from the thetas themselves, each the farthest from all earlier ones. Those of a new batch are predicted
from the earlier ones by polyharmonic splines |r|^3 before they are used: they lie in the widest gaps, so that the error
elsewhere is smaller. As long as it is too large the number of nodes doubles, until all thetas are nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cbq.common import Array, Integers, check_fields, is_number, is_whole
from cbq.common.progress import Report
from cbq.linalg import LinAlgError


@dataclass(frozen=True)
class Interpolation:
    """When answers are interpolated between thetas.

    first : thetas that are computed before others are interpolated; of fewer, all are computed.
    checked : further thetas at which the interpolation is compared with a computation there.
    tolerance : root mean squared error there over all values, in units of errors that do not matter; of one value,
        twice as much.

    Examples
    --------
    >>> never = cbq.fit.Interpolation(first=10**6)  # all thetas are computed
    >>> cbq.fit.OutcomeOptions(interpolation=never).interpolation.first
    1000000
    """

    first: int = 32
    checked: int = 12
    tolerance: float = 0.75

    def __post_init__(self) -> None:
        check_fields(self, ("first", "checked"), "a whole number, 3 or more", lambda value: is_whole(value, 3))
        check_fields(self, ("tolerance",), "a number, zero or more", lambda value: is_number(value, 0.0))


@dataclass(frozen=True, eq=False)
class NodeAnswer:
    """K values at a theta, how far their intervals reach below and above, and errors that do not matter, each (K,)."""

    value: Array
    below: Array
    above: Array
    negligible: Array


def answers_at(
    theta: Array,
    answer: Callable[[int], NodeAnswer],
    options: Interpolation,
    report: Report,
    scale: Callable[[Array], Array] = np.asarray,
    back: Callable[[Array], Array] = np.asarray,
) -> tuple[Array, Array, Array]:
    """The values (M, K) at thetas (M, p), and how far their intervals reach below and above.

    answer : of the theta with this index. scale, back : a scale on which values are smooth over theta, and back.
    Intervals of interpolated values contain the error of the interpolation.
    """
    _, rows, which = np.unique(theta, axis=0, return_index=True, return_inverse=True)
    place, which = _places(theta[rows]), np.ravel(which)
    M, q = len(rows), place.shape[1]
    first = max(options.first, 4 * (q + 1))
    order = np.arange(M) if first + options.checked >= M else _spread_out(place)
    found: list[NodeAnswer] = []

    def computed(n: int) -> list[NodeAnswer]:
        for i in order[len(found) : n]:
            found.append(answer(int(rows[i])))
            report(len(found), M)
        return found

    n = first
    while 2 * n < M and n + options.checked < M:
        values = scale(np.stack([each.value for each in computed(n + options.checked)]))
        left_out = order[n : n + options.checked]
        predicted = back(_interpolated(place[order[:n]], values[:n], place[left_out]))
        error = _rms(predicted - back(values[n:]))
        negligible = _rms(np.stack([each.negligible for each in found[n:]]))
        ratio = error / (options.tolerance * np.maximum(negligible, np.finfo(float).tiny))
        if _rms(ratio) <= 1 and np.max(ratio) <= 2:  # a few of many values are predicted worse by chance
            report(M, M)
            return _between(place, order[: len(found)], found, values, back, error, which)
        n *= 2
    inverse = np.argsort(order)
    every = [computed(M)[i] for i in inverse]
    columns = (np.stack([getattr(each, name) for each in every]) for name in ("value", "below", "above"))
    value, below, above = (column[which] for column in columns)
    return value, below, above


def _between(
    place: Array,
    nodes: Integers,
    found: list[NodeAnswer],
    values: Array,
    back: Callable[[Array], Array],
    error: Array,
    which: Integers,
) -> tuple[Array, Array, Array]:
    """The answers at all places by those at nodes, with values on the scale of `back`."""
    value = back(_interpolated(place[nodes], values, place))
    weights = _near(place, place[nodes])
    value[nodes] = np.stack([each.value for each in found])
    reach = []
    for name in ("below", "above"):
        known = np.stack([getattr(each, name) for each in found])
        reach.append(np.hypot(weights @ known, error) * np.any(known > 0))
        reach[-1][nodes] = known
    return value[which], reach[0][which], reach[1][which]


def _places(theta: Array) -> Array:
    """Coordinates that differ, from 0 to 1."""
    low, high = np.min(theta, axis=0), np.max(theta, axis=0)
    differ = high > low
    return np.asarray((theta[:, differ] - low[differ]) / (high[differ] - low[differ]))


def _spread_out(place: Array, most: int = 4096) -> Integers:
    """The order of places (M, q) in which each is the farthest from all before it; from `most` on, as they come."""
    chosen = [int(np.argmax(np.sum((place - np.mean(place, axis=0)) ** 2, axis=1)))]
    apart2 = np.full(len(place), np.inf)
    for _ in range(min(len(place), most) - 1):
        apart2 = np.minimum(apart2, np.sum((place - place[chosen[-1]]) ** 2, axis=1))
        chosen.append(int(np.argmax(apart2)))
    left = np.ones(len(place), dtype=bool)
    left[chosen] = False
    return np.concatenate([np.array(chosen, dtype=np.intp), np.flatnonzero(left)])


def _interpolated(nodes: Array, values: Array, place: Array) -> Array:
    """Values (M, K) at places (M, q), by those at nodes; infinite where the nodes do not determine them."""
    from scipy.interpolate import RBFInterpolator  # slow to import

    try:
        return np.asarray(RBFInterpolator(nodes, values, kernel="cubic")(place))
    except (LinAlgError, ValueError):  # the nodes are in a plane
        return np.full((len(place), values.shape[1]), np.inf)


def _near(place: Array, nodes: Array) -> Array:
    """Weights (M, n) of the nearest nodes, one more than there are coordinates, by their distances."""
    apart2 = np.sum(place**2, axis=1)[:, None] - 2 * place @ nodes.T + np.sum(nodes**2, axis=1)
    k = min(nodes.shape[1] + 1, len(nodes))
    nearest = np.argpartition(apart2, k - 1, axis=1)[:, :k]
    near = 1 / np.sqrt(np.maximum(np.take_along_axis(apart2, nearest, axis=1), np.finfo(float).eps))
    weights = np.zeros(apart2.shape)
    np.put_along_axis(weights, nearest, near / np.sum(near, axis=1, keepdims=True), axis=1)
    return weights


def _rms(values: Array) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.sqrt(np.mean(values**2, axis=0)))
