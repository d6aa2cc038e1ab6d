"""The measures of x, one for each theta, from every form that users may pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self

import numpy as np

from cbq.common import Array, Integers, as_text, sentence, whole
from cbq.io import Integer, pack_measure, saved
from cbq.measures import Measure, Unnormalised
from cbq.measures.base import SingleMeasure, measure_argument, stack

ROUNDING = 1e-9  # of the ends of supports
Family = Callable[[Array], Any]  # theta (p,) -> a measure, or a frozen scipy.stats distribution
WHY = (
    "these samples have none: make them with measure=, such as a family, a function from theta to its measure, or "
    "draws of posteriors with score=. "
    "cbq.LSMC(), cbq.KLSMC() and cbq.MonteCarlo() need no measure."
)


@dataclass(frozen=True, eq=False)
class ConditionalMeasure:
    """The measure of x as a function of theta.

    A `family` returns it at any theta. Without a family, only the measures at the observed thetas (T, p) are known:
    `observed` is a measure with batch shape (T,), T measures, or one measure for all thetas, also unobserved ones.
    """

    theta: Array
    observed: Measure | tuple[Measure, ...]
    family: Family | None = None

    @classmethod
    def of(cls, measure: Any, theta: Array, d: int, name: str = "measure") -> Self:
        """From an argument of `Samples` with this name, checked against theta (T, p) and the dimension d of x."""
        T, family = len(theta), None
        observed: Measure | tuple[Measure, ...]
        if isinstance(measure, list | tuple):
            if len(measure) != T:
                raise ValueError(
                    f"{name} is a list of {len(measure)} measures, but theta has T = {T} rows: pass one for each."
                )
            observed = tuple(measure_argument(item, f"{name}[{t}]") for t, item in enumerate(measure))
        elif callable(measure) and not _is_distribution(measure):
            observed, family = measures_at(measure, theta, "family" if name == "measure" else name), measure
        else:
            observed = measure_argument(measure, name)
            if observed.batch_shape not in ((), (T,)):
                raise ValueError(
                    f"{name} has batch shape {observed.batch_shape}, but with T = {T} thetas it must be ({T},), one "
                    f"measure for each theta, or (), one measure for all."
                )
        new = cls(theta, observed, family)
        _check_measures(observed if isinstance(observed, tuple) else [new.observed_at(0)], d, "x", name)
        return new

    def __repr__(self) -> str:
        known = "everywhere" if self.everywhere else f"at {len(self.theta)} thetas"
        return f"ConditionalMeasure({self.observed_at(0)!r} at the first theta, known {known})"

    def __call__(self, theta: Array) -> tuple[Measure, ...]:
        """The measures at theta (M, p)."""
        if self.family is not None:
            measures = measures_at(self.family, theta)
            _check_measures(measures, self.observed_at(0).dim, "x")
            return measures
        if self.is_shared:
            return (self.observed_at(0),) * len(theta)
        indices = find_thetas(theta, self.theta)
        if np.any(indices < 0):
            raise ValueError(
                f"the measure of x is not known at theta = {theta[np.argmin(indices)]}, which is none of the "
                f"{len(self.theta)} observed thetas: pass the family, a function from theta to its measure, as the "
                f"measure of the samples."
            )
        return tuple(map(self.observed_at, indices.tolist()))

    def one(self, theta: Array) -> Measure:
        """The measure at one theta (p,)."""
        return self(theta[None])[0]

    @property
    def is_shared(self) -> bool:
        """Whether one measure object serves all thetas."""
        return isinstance(self.observed, Measure) and not self.observed.batch_shape

    @property
    def everywhere(self) -> bool:
        """Whether the measure is known at every theta."""
        return self.family is not None or self.is_shared

    @property
    def varies(self) -> bool:
        """Whether the measures of several thetas may differ, since they are not one object."""
        if isinstance(self.observed, tuple):
            return any(other is not self.observed[0] for other in self.observed)
        return not self.is_shared

    @property
    def fits_in_file(self) -> bool:
        """Whether a file can hold it: a file holds no code, hence no family and no measures of the user's own."""
        if self.family is not None:
            return False
        try:
            for measure in self.distinct:
                pack_measure(measure)
        except ValueError:
            return False
        return True

    def observed_at(self, t: int) -> Measure:
        """The measure at the observed theta t."""
        if isinstance(self.observed, Measure):
            return self.observed[t] if self.observed.batch_shape else self.observed
        return self.observed[t]

    @property
    def all_observed(self) -> tuple[Measure, ...]:
        """The measure at each observed theta."""
        return tuple(self.observed_at(t) for t in range(len(self.theta)))

    @property
    def distinct(self) -> tuple[Measure, ...]:
        """The observed measures, T of them; or a single one, which may be a batch."""
        return (self.observed,) if isinstance(self.observed, Measure) else self.observed

    @property
    def stacked(self) -> Measure | None:
        """One measure with batch shape (T,), or () if all thetas share it; None if the measures cannot be stacked."""
        return self.observed if isinstance(self.observed, Measure) else stack(self.observed)

    def select(self, chosen: Integers) -> Self:
        """The measures of the chosen thetas."""
        observed = self.observed
        if isinstance(observed, tuple):
            observed = tuple(observed[t] for t in chosen)
        elif observed.batch_shape:
            observed = observed[chosen]
        return replace(self, theta=self.theta[chosen], observed=observed)

    def equals(self, other: ConditionalMeasure) -> bool:
        """Whether the measures at the observed thetas are equal, of which both have equally many."""
        return all(self.observed_at(t).equals(other.observed_at(t)) for t in range(len(self.theta)))

    def log_density(self, points: Array | Sequence[Array]) -> Array:
        """The log densities of points of each theta, T arrays (N_t, d) or an array (T, N, d), in one array (n,)."""
        batched = self.stacked
        if batched is not None and isinstance(points, np.ndarray):
            return log_density(batched, points).reshape(-1)
        return np.concatenate([log_density(self.observed_at(t), x) for t, x in enumerate(points)])


def measures_at(family: Family, theta: Array, name: str = "family") -> tuple[Measure, ...]:
    """The measure of x at each theta (T, p): single measures, all of the same dimension. name: of the function."""
    measures = []
    for t, row in enumerate(theta):
        try:
            measures.append(measure_argument(family(row.copy()), f"the value of the {name}"))
        except Exception as error:
            what = f"{type(error).__name__}: {as_text(error)}"
            message = f"the {name} gives no measure at theta index t = {t} (theta = {row}): {what}"
            raise ValueError(sentence(message)) from error
    _check_measures(measures, measures[0].dim, "the measure at theta index 0")
    return tuple(measures)


def _is_distribution(measure: Any) -> bool:
    """Whether it is a measure, or a distribution of scipy.stats, which can be called as well."""
    return isinstance(measure, Measure) or type(measure).__module__.startswith("scipy.stats")


def _check_measures(measures: Sequence[Measure], d: int, owner: str, name: str = "measure") -> None:
    """Raise unless every measure is a single one in d dimensions, as `owner` is; name: the argument."""
    for t, measure in enumerate(measures):
        if measure.batch_shape:
            raise ValueError(
                f"the {name} at theta index t = {t} is {measure!r}, a batch of shape {measure.batch_shape}, but each "
                f"theta needs a single measure: a family receives one theta (p,), so that theta[0] is a number."
            )
        if measure.dim != d:
            hint = ": x is (T, N, d), or a list of T arrays (N_t, d), and without the last axis d is 1"
            raise ValueError(
                f"the {name} at theta index t = {t} is {measure!r} in {measure.dim} dimension"
                f"{'s' * (measure.dim > 1)}, but {owner} has {d}{hint * (owner == 'x')}."
            )


def find_thetas(theta: Array, known: Array) -> Integers:
    """The index of each theta (M, p) among the known ones (T, p), the first of equal ones, or -1: (M,)."""
    index = {row.tobytes(): t for t, row in reversed(list(enumerate(known + 0.0)))}  # + 0.0 turns -0 into 0
    return np.array([index.get(row.tobytes(), -1) for row in theta + 0.0], dtype=np.intp)


def log_density(measure: Measure, x: Array) -> Array:
    """The log density of the points x (..., n, d) under a measure: (..., n); zero if the measure has no density."""
    try:
        with np.errstate(over="ignore"):
            return np.asarray(measure.logpdf(x))
    except TypeError:  # atoms, or a measure known by its score only
        return np.zeros(x.shape[:-1])


def check_ratio(measure: Measure, other: Measure, name: str, theta: Array, x: Array) -> None:
    """Raise unless the densities of the measure and of the other one, at theta (p,), have a ratio at all points.

    Both need normalised densities with the same support. name : the argument of the other, "proposal" or "q". x : (1,
    d), one of the points.
    """
    for role, checked in (("measure", measure), (name, other)):
        if why := _why_no_density(checked, x):
            raise ValueError(
                f"{name} needs a ratio of two normalised densities, but {checked!r}, the {role} at theta = {theta}, "
                f"has no usable density: {why}. Leave {name} out and use cbq.kernels.Stein, which needs a score only, "
                f"or pass measures with densities."
            )
    ends = np.stack(measure.support), np.stack(other.support)
    differ = np.any(~np.isclose(*ends, rtol=ROUNDING, atol=ROUNDING), axis=0)
    if np.any(differ):
        j = int(np.argmax(differ))
        own, others = (f"[{low:g}, {high:g}]" for low, high in (support[:, j] for support in ends))
        raise ValueError(
            f"the {name} at theta = {theta} has the support {others} along coordinate {j} of x, and the measure has "
            f"{own}: f has values inside the support of the measure only, and points must reach all of it. Pass a "
            f"{name} with the same support."
        )


def _why_no_density(measure: Measure, x: Array) -> str:
    """Why a measure has no density for ratios, in words; empty if it has one. x : (1, d), a point."""
    if any(isinstance(factor, Unnormalised) for factor in measure.factors()):
        return "it is known up to a constant only"
    try:
        measure.logpdf(x)
    except TypeError as error:
        return str(error).rstrip(".")
    return ""


@saved("UnknownMeasure", dim=Integer(1))
class UnknownMeasure(SingleMeasure):
    """An unknown measure in `dim` dimensions: every method that needs more than the dimension raises a TypeError."""

    def __init__(self, dim: int) -> None:
        self._dim = whole(dim, "dim", 1)

    @property
    def dim(self) -> int:
        """Dimension d of the points."""
        return self._dim

    def equals(self, other: Measure) -> bool:
        """Whether the other is unknown, too."""
        return isinstance(other, UnknownMeasure) and other.dim == self.dim

    def __repr__(self) -> str:
        return f"UnknownMeasure(dim={self.dim})"

    def moments(self) -> tuple[Array, Array]:
        """Unknown: raises a TypeError."""
        _refuse()

    def _logpdf(self, x: Array) -> Array:
        _refuse()

    def _score(self, x: Array) -> Array:
        _refuse()

    def _from_normal(self, v: Array) -> Array:
        _refuse()

    def _to_normal(self, x: Array) -> Array:
        _refuse()


def _refuse() -> NoReturn:
    raise TypeError(f"the measure of x is not known: {WHY}")
