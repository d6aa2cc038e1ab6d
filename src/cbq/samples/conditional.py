"""The measures of x, one for each theta, from all the ways in which they can be given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._arrays import Array, Integers
from cbq.measures import Measure, as_measure

Family = Callable[[Array], Any]  # theta (p,) -> a measure, or a frozen scipy.stats distribution


def measures_at(family: Family, theta: Array) -> tuple[Measure, ...]:
    """The measure of x at each theta (T, p): single measures, all of the same dimension."""
    measures = []
    for t, row in enumerate(theta):
        try:
            measure = as_measure(family(row.copy()))
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ValueError(f"the family gives no measure at theta index t = {t} (theta = {row}): {what}") from error
        measures.append(measure)
    _check_measures(measures, measures[0].dim, "the measure at theta index 0")
    return tuple(measures)


@dataclass(frozen=True, eq=False)
class ConditionalMeasure:
    """The measure of x as a function of theta.

    A `family` gives it at any theta. Without one, it is known at the observed thetas (T, p) only, as `observed`: a
    measure with batch shape (T,), T measures, or one measure for all thetas, which is then known everywhere.
    """

    theta: Array
    observed: Measure | tuple[Measure, ...]
    family: Family | None

    def __call__(self, theta: Array) -> tuple[Measure, ...]:
        """The measures at theta (M, p)."""
        if self.family is not None:
            measures = measures_at(self.family, theta)
            _check_measures(measures, self.observed_at(0).dim, "x")
            return measures
        if isinstance(self.observed, Measure) and self.everywhere:
            return (self.observed,) * len(theta)
        indices = find_thetas(theta, self.theta)
        if np.any(indices < 0):
            raise ValueError(
                f"the measure of x is not known at theta = {theta[np.argmin(indices)]}, which is none of the "
                f"{len(self.theta)} observed ones: pass the family, a function from theta to its measure, as the "
                f"measure of the samples."
            )
        return tuple(self.observed_at(int(t)) for t in indices)

    @property
    def everywhere(self) -> bool:
        """Whether the measure is known at every theta."""
        shared = isinstance(self.observed, Measure) and not self.observed.batch_shape
        return self.family is not None or shared

    def observed_at(self, t: int) -> Measure:
        """The measure at the observed theta t."""
        if isinstance(self.observed, Measure):
            return self.observed[t] if self.observed.batch_shape else self.observed
        return self.observed[t]


def find_thetas(theta: Array, known: Array) -> Integers:
    """The index of each theta (M, p) among the known ones (T, p), the first of equal ones, or -1: (M,)."""
    index = {row.tobytes(): t for t, row in reversed(list(enumerate(known + 0.0)))}  # + 0.0 turns -0 into 0
    return np.array([index.get(row.tobytes(), -1) for row in theta + 0.0], dtype=np.intp)


def as_measures(measure: Any, theta: Array, d: int) -> tuple[Measure | tuple[Measure, ...], Family | None]:
    """The measures that the argument `measure` of `Samples` stands for, and the family, if it is one.

    They are checked against theta (T, p) and the dimension d of x.
    """
    T, is_scipy = len(theta), type(measure).__module__.startswith("scipy.stats")
    if callable(measure) and not isinstance(measure, Measure) and not is_scipy:
        measures = measures_at(measure, theta)
        _check_measures(measures, d, "x")
        return measures, measure
    if isinstance(measure, list | tuple):
        if len(measure) != T:
            raise ValueError(
                f"measure is a list of {len(measure)} measures, but theta has T = {T} rows: pass one for each."
            )
        measures = tuple(as_measure(each) for each in measure)
        _check_measures(measures, d, "x")
        return measures, None
    batched = as_measure(measure)
    if batched.batch_shape not in ((), (T,)):
        raise ValueError(
            f"measure has batch shape {batched.batch_shape}, but with T = {T} thetas it must be ({T},), one measure "
            f"for each theta, or (), one measure for all."
        )
    _check_measures([batched[0] if batched.batch_shape else batched], d, "x")
    return batched, None


def _check_measures(measures: Sequence[Measure], d: int, owner: str) -> None:
    """Raise unless every measure is a single one in d dimensions, the number that `owner` has."""
    for t, measure in enumerate(measures):
        if measure.batch_shape:
            raise ValueError(
                f"the measure at theta index t = {t} is {measure!r}, a batch of shape {measure.batch_shape}, but each "
                f"theta needs a single measure: a family receives one theta (p,), so that theta[0] is a number."
            )
        if measure.dim != d:
            hint = ": x is (T, N, d), or a list of T arrays (N_t, d), and without the last axis d is 1"
            raise ValueError(
                f"the measure at theta index t = {t} is {measure!r} in {measure.dim} dimension"
                f"{'s' * (measure.dim > 1)}, but {owner} has {d}{hint * (owner == 'x')}."
            )


def log_density(measure: Measure, x: Array) -> Array:
    """The log density of the points x (..., n, d) under a measure: (..., n); zero if the measure has no density."""
    try:
        with np.errstate(over="ignore"):
            return np.asarray(measure.logpdf(x))
    except TypeError:  # atoms, or a measure known by its score only
        return np.zeros(x.shape[:-1])
