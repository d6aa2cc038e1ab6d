"""Sums of samples of the same f and measures: `samples + more`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common import Array, Integers
from cbq.measures import Measure
from cbq.samples.arrays import equal_rows
from cbq.samples.bounds import shown_bounds
from cbq.samples.conditional import ConditionalMeasure, find_thetas, measures_at
from cbq.samples.findings import Failures, about

if TYPE_CHECKING:
    from cbq.samples.samples import Design, Samples

SAME = ("p", "d", "C", "depends_on_theta", "stochastic")  # attributes that must agree
# The sum has the first of these designs that either one has. Adaptive points bias every average, so they come first:
# their warning, that standard errors are invalid, covers the warning of Markov chains.
DESIGNS: tuple[Design, ...] = ("adaptive", "mcmc", "sobol", "iid")


def joined(one: Samples, other: Samples) -> Samples:
    """The points of both, with the thetas and points of the first in front; equal thetas are merged.

    Raises a ValueError if shapes, options or measures differ, so that these are samples of different problems.
    """
    for name in SAME:
        require_same(name, getattr(one, name), getattr(other, name))
    at = find_thetas(other.theta, one.theta)
    new = np.flatnonzero(at < 0)
    rank = np.where(at < 0, one.T + np.cumsum(at < 0) - 1, at)  # of each theta of the other, among all thetas
    owners = np.concatenate([one.owners, rank[other.owners]])
    rows = np.argsort(owners, kind="stable")
    theta = np.concatenate([one.theta, other.theta[new]])
    counts = np.bincount(owners, minlength=len(theta))
    values = {
        "_x": np.concatenate([one.all_points, other.all_points])[rows],
        "_f": np.concatenate([one._f, other._f])[rows],
        "design": next(design for design in DESIGNS if design in (one.design, other.design)),
        "names": one.names.joined(other.names),
        "findings": about([*one.findings, *other.findings], theta),
        "conditional": _conditional(one, other, at, new, theta),
        **_weights(one, other, rows, new, theta),
    }
    both = one._replaced(theta=theta, counts=counts, failures=None, **values)
    return both._with_bounds(_bounds(one.bounds, other.bounds))._with_failures(_failures(one, other, both))


def require_joinable(one: Samples, x: Samples, bounds: Any) -> None:
    """Raise unless the points x, whose values are not known yet, can be added to the first and differ from its points.

    bounds: the bounds of the future values.
    """
    values = x._replaced(_f=np.repeat(one._f[:1], x.n_evaluations, axis=0))  # placeholders, which are valid
    joined(one, values._with_bounds(bounds))
    both = [np.column_stack([samples.theta[samples.owners], samples.all_points]) for samples in (one, x)]
    _, group = equal_rows(np.concatenate(both))
    again = np.isin(group[one.n_evaluations :], group[: one.n_evaluations])
    again &= np.array([not measure.has_atoms for measure in x.measures])[x.owners]  # atoms repeat points
    if np.any(again):
        i = int(np.argmax(again))
        raise ValueError(
            f"{np.count_nonzero(again)} of {len(again)} new points are in start already, such as x = {x.all_points[i]} "
            f"at theta = {x.theta[x.owners[i]]}: pass another rng, since the same seed draws the same points. To "
            f"repeat points on purpose, collect them without start, and add both samples."
        )


def require_same(name: str, mine: Any, theirs: Any) -> None:
    """Raise unless the attributes `mine` and `theirs` of this name are equal."""
    if mine != theirs:
        raise ValueError(f"samples that are added must have the same {name}, but they have {mine} and {theirs}.")


def _bounds(one: Array | None, other: Array | None) -> Array | None:
    """The common bounds (2, C); one of the two may have none."""
    if one is not None and other is not None and not np.array_equal(one, other):
        raise ValueError(
            f"samples that are added must have the same bounds, but they have {shown_bounds(one)} and "
            f"{shown_bounds(other)}."
        )
    return other if one is None else one


def _conditional(one: Samples, other: Samples, at: Integers, new: Integers, theta: Array) -> ConditionalMeasure:
    """The measures of both at theta (T, p), and the family that returns them all, if there is one."""
    for t in np.flatnonzero(at >= 0).tolist():
        _require_equal(one.measure(int(at[t])), other.measure(t), other.theta[t])
    family = one.family or other.family
    if family is not None:
        for samples in (one, other):
            if samples.family is not family:
                for t, measure in enumerate(measures_at(family, samples.theta)):
                    _require_equal(measure, samples.measure(t), samples.theta[t])
    shared = one.measure(0)
    if one.conditional.is_shared and all(shared.equals(measure) for measure in other.measures):
        return ConditionalMeasure(theta, shared, family)
    return ConditionalMeasure(theta, (*one.measures, *(other.measure(t) for t in new.tolist())), family)


def _require_equal(one: Measure, other: Measure, theta: Array) -> None:
    if not one.equals(other):
        raise ValueError(
            f"samples that are added must have the same measures, but at theta = {theta} they have {one!r} and "
            f"{other!r} with other parameters."
        )


def _weights(one: Samples, other: Samples, rows: Integers, new: Integers, theta: Array) -> dict[str, Any]:
    """The weights and proposals of the points at theta (T, p); proposals only if each theta has one.

    None where either has adaptive points.
    """
    if "adaptive" in (one.design, other.design) or (one.log_weights is None and other.log_weights is None):
        return {"log_weights": None, "_proposal": None}
    logs = [
        np.zeros(samples.n_evaluations) if samples.log_weights is None else samples.log_weights
        for samples in (one, other)
    ]
    known = one.proposals is not None and other.proposals is not None and len(new) == other.T
    proposal = ConditionalMeasure(theta, (*(one.proposals or ()), *(other.proposals or ()))) if known else None
    return {"log_weights": np.concatenate(logs)[rows], "_proposal": proposal}


def _failures(one: Samples, other: Samples, both: Samples) -> Failures | None:
    """The failures of both, at all thetas, including thetas without any value."""
    known = [samples.failures for samples in (one, other) if samples.failures is not None]
    if not known:
        return None
    theta = np.concatenate([both.theta, *(failures.theta for failures in known)])
    theta = theta[np.sort(np.unique(find_thetas(theta, theta)))]  # each once, the samples' thetas first
    failed: list[list[Array]] = [[] for _ in theta]
    for failures in known:
        parts = np.split(failures.x, np.cumsum(failures.counts)[:-1])
        for t, points in zip(find_thetas(failures.theta, theta), parts, strict=True):
            failed[t].append(points)
    empty = np.empty((0, both.d))
    values = [both.points(t) if t < both.T else empty for t in range(len(theta))]
    return Failures.of(theta, [np.concatenate([empty, *points]) for points in failed], values)
