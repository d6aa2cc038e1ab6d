"""The measures of x, one for each theta, from every form that users may pass.

A file holds measures, but no functions. Samples of a family are saved without it: the user passes it again, and the
densities of the points must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common import Array, Integers, as_text, sentence
from cbq.io import IncompatibleFile, pack_measure
from cbq.measures import Measure, Unnormalised
from cbq.measures.base import measure_argument

if TYPE_CHECKING:
    from cbq.samples.findings import SamplesFinding
    from cbq.samples.samples import Samples

ROUNDING = 1e-9  # of the ends of supports
TOLERANCE = 1e-6  # relative: densities of the same measure differ by less between machines
Family = Callable[[Array], Any]  # theta (p,) -> a measure, or a frozen scipy.stats distribution


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


@dataclass(frozen=True, eq=False)
class ConditionalMeasure:
    """The measure of x as a function of theta.

    A `family` returns it at any theta. Without a family, only the measures at the observed thetas (T, p) are known:
    `observed` is a measure with batch shape (T,), T measures, or one measure for all thetas, also unobserved ones.
    """

    theta: Array
    observed: Measure | tuple[Measure, ...]
    family: Family | None

    def __repr__(self) -> str:
        known = "everywhere" if self.everywhere else f"at {len(self.theta)} thetas"
        return f"ConditionalMeasure({self.observed_at(0)!r} at the first theta, known {known})"

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
                f"{len(self.theta)} observed thetas: pass the family, a function from theta to its measure, as the "
                f"measure of the samples."
            )
        return tuple(self.observed_at(int(t)) for t in indices)

    def one(self, theta: Array) -> Measure:
        """The measure at one theta (p,)."""
        return self(theta[None])[0]

    @property
    def everywhere(self) -> bool:
        """Whether the measure is known at every theta."""
        return self.family is not None or (isinstance(self.observed, Measure) and not self.observed.batch_shape)

    @property
    def fits_in_file(self) -> bool:
        """Whether a file can hold it: a file holds no code, hence no family and no measures of the user's own."""
        if self.family is not None:
            return False
        try:
            for measure in [self.observed] if isinstance(self.observed, Measure) else self.observed:
                pack_measure(measure)
        except ValueError:
            return False
        return True

    def observed_at(self, t: int) -> Measure:
        """The measure at the observed theta t."""
        if isinstance(self.observed, Measure):
            return self.observed[t] if self.observed.batch_shape else self.observed
        return self.observed[t]


def varies(measure: Measure | tuple[Measure, ...]) -> bool:
    """Whether the measures of several thetas may differ, since they are not one object."""
    return (
        bool(measure.batch_shape) if isinstance(measure, Measure) else any(other is not measure[0] for other in measure)
    )


def equal_measures(one: Measure | tuple[Measure, ...], other: Measure | tuple[Measure, ...], T: int) -> bool:
    """Whether the measures of T thetas are equal; each argument is a batch of T, T measures, or one for all."""
    first, second = (ConditionalMeasure(np.empty((T, 0)), observed, None).observed_at for observed in (one, other))
    return all(first(t).equals(second(t)) for t in range(T))


def find_thetas(theta: Array, known: Array) -> Integers:
    """The index of each theta (M, p) among the known ones (T, p), the first of equal ones, or -1: (M,)."""
    index = {row.tobytes(): t for t, row in reversed(list(enumerate(known + 0.0)))}  # + 0.0 turns -0 into 0
    return np.array([index.get(row.tobytes(), -1) for row in theta + 0.0], dtype=np.intp)


def as_measures(
    measure: Any, theta: Array, d: int, name: str = "measure"
) -> tuple[Measure | tuple[Measure, ...], Family | None]:
    """The measures in the argument `measure` of `Samples`, and the family if it is one.

    The measures are checked against theta (T, p) and the dimension d of x. name: of the argument.
    """
    T, family = len(theta), None
    observed: Measure | tuple[Measure, ...]
    if isinstance(measure, list | tuple):
        if len(measure) != T:
            raise ValueError(
                f"{name} is a list of {len(measure)} measures, but theta has T = {T} rows: pass one for each."
            )
        observed = tuple(measure_argument(item, f"{name}[{t}]") for t, item in enumerate(measure))
    elif (
        callable(measure)
        and not isinstance(measure, Measure)
        and not type(measure).__module__.startswith("scipy.stats")
    ):
        observed, family = measures_at(measure, theta, "family" if name == "measure" else name), measure
    else:
        observed = measure_argument(measure, name)
        if observed.batch_shape not in ((), (T,)):
            raise ValueError(
                f"{name} has batch shape {observed.batch_shape}, but with T = {T} thetas it must be ({T},), one "
                f"measure for each theta, or (), one measure for all."
            )
    if isinstance(observed, Measure):
        _check_measures([observed[0] if observed.batch_shape else observed], d, "x", name)
    else:
        _check_measures(observed, d, "x", name)
    return observed, family


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


def log_density(measure: Measure, x: Array) -> Array:
    """The log density of the points x (..., n, d) under a measure: (..., n); zero if the measure has no density."""
    try:
        with np.errstate(over="ignore"):
            return np.asarray(measure.logpdf(x))
    except TypeError:  # atoms, or a measure known by its score only
        return np.zeros(x.shape[:-1])


def check_proposal(measure: Measure, proposal: Measure, theta: Array, x: Array) -> None:
    """Raise unless points of the proposal, with weights p / q, can replace points of the measure at theta (p,).

    Both need densities with the same support. x : (1, d), one of the points.
    """
    for name, checked in (("measure", measure), ("proposal", proposal)):
        if why := why_no_density(checked, x):
            raise ValueError(
                f"points of a proposal have weights p(x) / q(x), but {checked!r}, the {name} at theta = {theta}, has "
                f"no usable density: {why}. Leave proposal out, or use a measure with a density."
            )
    if ends := other_support(measure, proposal):
        raise ValueError(
            f"the proposal at theta = {theta} has the support {ends[2]} along coordinate {ends[0]} of x, and the "
            f"measure has {ends[1]}: f is not defined outside the support of the measure, and points must reach all of "
            f"it. Pass a proposal with the same support."
        )


def why_no_density(measure: Measure, x: Array) -> str:
    """Why a measure has no density for ratios, in words; empty if it has one. x : (1, d), a point."""
    if any(isinstance(factor, Unnormalised) for factor in measure.factors()):
        return "it is known up to a constant only"
    try:
        measure.logpdf(x)
    except TypeError as error:
        return str(error).rstrip(".")
    return ""


def other_support(one: Measure, other: Measure) -> tuple[int, str, str] | None:
    """The first coordinate along which the supports of two measures differ, and both there; None if there is none."""
    ends = np.stack(one.support), np.stack(other.support)
    differ = ~np.isclose(*ends, rtol=ROUNDING, atol=ROUNDING)
    if not np.any(differ):
        return None
    j = int(np.argmax(np.any(differ, axis=0)))
    first, second = (f"[{low:g}, {high:g}]" for low, high in (support[:, j] for support in ends))
    return j, first, second


class FamilyNeeded(IncompatibleFile):
    """The file holds samples without their measures, and no family was passed."""


def other_measures(family: Family | None, why: str) -> ValueError:
    """The error for measures, of a family or of the file itself, that contradict the saved samples."""
    if family is None:
        return ValueError(f"its measures do not match its points: {why}")
    return IncompatibleFile(
        f"does not go with this family, which is not the one of the fit: {why} Pass the family that the samples were "
        f"drawn from."
    )


def read_samples(samples: Samples) -> dict[str, Any]:
    """The fields of saved samples.

    measure: as for the constructor, with a list of one for T equal measures; None if the family must be passed again,
    which the log densities of the points then identify.
    """
    measure = samples.conditional.observed
    if not isinstance(measure, Measure) and all(item is measure[0] for item in measure):
        measure = measure[:1]
    return {
        "x": samples.all_points,
        "f": samples.table,
        "single": samples.C is None,
        "measure": measure if samples.conditional.fits_in_file else None,
        "log_density": samples.log_density(),
    }


def build_samples(
    cls: type[Samples],
    family: Family | None,
    *,
    theta: Array,
    counts: Integers,
    x: Array,
    f: Array,
    single: bool,
    log_density: Array,
    measure: Measure | tuple[Measure, ...] | None,
    log_weights: Array | None,
    findings: tuple[SamplesFinding, ...],
    **options: Any,
) -> Samples:
    """The samples with the measures of `family`, or else of the file; points must have these log densities (n,)."""
    if family is None and measure is None:
        raise FamilyNeeded("holds a fit that needs the measure of x at any theta, and a file holds no code.")
    if isinstance(measure, tuple) and len(measure) == 1:
        measure = measure * len(theta)
    cuts = np.cumsum(counts)[:-1]
    points, values = np.split(x, cuts), np.split(f[:, 0] if single else f, cuts)
    try:
        samples = cls(theta, points, values, measure if family is None else family, **options)
    except (ValueError, TypeError) as error:
        raise other_measures(family, str(error)) from error
    computed = samples.log_density()
    other = ~(np.abs(computed - log_density) <= TOLERANCE * (1.0 + np.abs(log_density)))
    if np.any(other):
        i = int(np.argmax(other))
        raise other_measures(
            family,
            f"at theta = {theta[samples.owners[i]]} the log density of a point is {computed[i]:.6g}, but in the fit it "
            f"is {log_density[i]:.6g}.",
        )
    return samples._replaced(log_weights=log_weights, findings=findings)
