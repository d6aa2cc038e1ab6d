"""The measures of the points, one for each theta, from the ways in which they can be given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._arrays import Array, Integers
from cbq.measures import Measure, as_measure

Family = Callable[[Array], Any]  # theta (p,) -> a measure, or a frozen scipy.stats distribution


def measures_at(family: Family, theta: Array) -> tuple[Measure, ...]:
    """The measure of x at each theta (T, p): single measures of one dimension."""
    measures = []
    for t, row in enumerate(theta):
        try:
            measure = as_measure(family(row.copy()))
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ValueError(f"the family gives no measure at theta index t = {t} (theta = {row}): {what}") from error
        measures.append(measure)
    _refuse_measures(measures, measures[0].dim, "the measure at theta index 0")
    return tuple(measures)


@dataclass(frozen=True, eq=False)
class ConditionalMeasure:
    """The measure of x as a function of theta.

    family: gives it at any theta. Where there is none, it is known at the observed thetas (T, p), as `observed`: a
    measure with batch shape (T,), T measures, or one that all thetas share.
    """

    theta: Array
    observed: Measure | tuple[Measure, ...]
    family: Family | None

    def __call__(self, theta: Array) -> tuple[Measure, ...]:
        """The measures at theta (M, p)."""
        if self.family is not None:
            measures = measures_at(self.family, theta)
            _refuse_measures(measures, self.observed_at(0).dim, "x")
            return measures
        if isinstance(self.observed, Measure) and self.everywhere:
            return (self.observed,) * len(theta)
        return tuple(self.observed_at(int(t)) for t in self._places(theta))

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

    def _places(self, theta: Array) -> Integers:
        """Where each theta is among the observed ones."""
        rows = places(theta, self.theta)
        if np.any(rows < 0):
            raise ValueError(
                f"the measure of x is not known at theta = {theta[np.argmin(rows)]}, which is none of the "
                f"{len(self.theta)} observed ones: pass the family, a function from theta to its measure, as the measure "
                f"of the samples."
            )
        return rows


def places(theta: Array, known: Array) -> Integers:
    """Where each theta (M, p) is among the known ones (T, p), the first of equal ones: (M,); -1 if it is not there."""
    place = {row.tobytes(): t for t, row in reversed(list(enumerate(known + 0.0)))}  # + 0.0: -0 is 0
    return np.array([place.get(row.tobytes(), -1) for row in theta + 0.0], dtype=np.intp)


def as_measures(measure: Any, theta: Array, d: int) -> tuple[Measure | tuple[Measure, ...], Family | None]:
    """The measures that `measure` means, checked against theta (T, p) and points in d dimensions; and the family."""
    T, scipys = len(theta), type(measure).__module__.startswith("scipy.stats")
    if callable(measure) and not isinstance(measure, Measure) and not scipys:
        measures = measures_at(measure, theta)
        _refuse_measures(measures, d, "x")
        return measures, measure
    if isinstance(measure, list | tuple):
        if len(measure) != T:
            raise ValueError(
                f"measure is a list of {len(measure)} measures, but theta has T = {T} rows: pass one for each."
            )
        measures = tuple(as_measure(each) for each in measure)
        _refuse_measures(measures, d, "x")
        return measures, None
    whole = as_measure(measure)
    if whole.batch_shape not in ((), (T,)):
        raise ValueError(
            f"measure has batch shape {whole.batch_shape}, but with T = {T} thetas it must be ({T},), one measure for each "
            f"theta, or (), one measure for all."
        )
    _refuse_measures([whole[0] if whole.batch_shape else whole], d, "x")
    return whole, None


def _refuse_measures(measures: Sequence[Measure], d: int, what: str) -> None:
    """Raise unless every measure is a single one in the d dimensions that `what` has."""
    for t, measure in enumerate(measures):
        if measure.batch_shape:
            raise ValueError(
                f"the measure at theta index t = {t} is {measure!r}, a batch of shape {measure.batch_shape}, but one measure is needed "
                f"for each theta: a family receives one theta (p,), so that theta[0] is a number."
            )
        if measure.dim != d:
            shapes = ": x is (T, N, d), or a list of T arrays (N_t, d), and without the last axis d is 1"
            raise ValueError(
                f"the measure at theta index t = {t} is {measure!r} in {measure.dim} dimension{'s' * (measure.dim > 1)}, but {what} "
                f"has {d}{shapes * (what == 'x')}."
            )


def log_density(measure: Measure, x: Array) -> Array:
    """The log density of the points x (..., n, d) under a measure: (..., n); zero where the measure has none."""
    try:
        with np.errstate(over="ignore"):
            return np.asarray(measure.logpdf(x))
    except TypeError:  # atoms, or a measure known by its score only
        return np.zeros(x.shape[:-1])
