"""Tests of points against their measures, and of values against the bounds of the mean of f.

A single draw of a random f may lie anywhere, but the average of n draws whose means are at most b rarely exceeds b by
much. There are two tests. Student's t compares the excess with the spread of all draws; its degrees of freedom count
distinct values, because a few values, such as 0 and 1, do not show how far others may be. Hoeffding's inequality (1963)
bounds the probability by exp(-2 n e^2 / R^2) for an excess e and draws in a range of width R, if both bounds are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri, stdtrit

from cbq.common import Array, Booleans, Integers
from cbq.samples import uniformity
from cbq.samples.chains import effective_size
from cbq.samples.enumerated import without_listed
from cbq.samples.probabilities import continuous, some_of, source
from cbq.samples.shared_design import uses
from cbq.samples.uniformity import Transforms, combined

if TYPE_CHECKING:
    from cbq.samples.samples import Samples


# The chance that true draws fail a test, for independent thetas and again for dependent ones: 1 in 1000 in total.
LEVEL = 5e-4
TESTS = 5  # location, scale, shape, correlation, thetas
DEPENDENT = 0.01  # the level at which thetas count as dependent; an error only costs power
FEW_SHARED = 1.05  # thetas that use a point, on average: more make pooled statistics too large
MIN_ATOMS = 8  # points of a theta with atoms: fewer do not show whether all thetas have the same random numbers
MANY_THETAS = 30  # enough to test a correlation by the signs of their products alone, for any design
MIN_CHAIN = 50  # points: fewer do not show how slowly a chain mixes and count as one
CHAIN_MARGIN = 2.0  # factor by which the estimated effective size of a Markov chain may be too large
FARTHEST = 6.0  # standard deviations: larger ones are clipped
SMALLEST = -690.0  # log p, near the smallest float64
BOUNDS_LEVEL = 1e-6  # for normal draws; exponential draws at their bound fail in less than 1 of 1000 cases
LEAST_DRAWS, MAX_PARTS = 16, 64  # draws in a part that is averaged by itself; parts along a coordinate


def measure_contradiction(samples: Samples) -> str | None:
    """Why the points do not look like draws from their measures, in words; None if they do, or if it is unknown."""
    tested = None if source(samples) is None else _restored(samples)
    tested = None if tested is None else without_listed(tested)
    checked = None if tested is None else _Checked.of(some_of(tested, first=tested.design == "mcmc"))
    tests = [] if checked is None else [test for test in checked.tests() if test.log_p <= np.log(LEVEL / TESTS)]
    if not tests:
        return None
    worst = min(tests, key=lambda test: (test.is_general, test.log_p))
    log_p = min(test.log_p for test in tests) + np.log(TESTS)
    p = "p < 1e-299" if log_p < SMALLEST else f"p = {np.exp(log_p):.0e}"
    return f"the points do not look like draws from their measures: {worst.text()} ({p})."


def _restored(samples: Samples) -> Samples | None:
    """The samples with the points at which f failed added, as they were drawn; None if other points are missing."""
    failures = samples.failures
    if failures is None:
        return samples
    if np.any(failures.position < 0):  # thetas without any value
        return None
    owner = np.repeat(failures.position, failures.counts)
    counts = samples.counts + np.bincount(owner, minlength=samples.T)
    if np.any(failures.drawn != counts[failures.position]):  # thinned samples
        return None
    rows = np.argsort(np.concatenate([samples.owners, owner]), kind="stable")
    return samples._replaced(
        _x=np.concatenate([samples.all_points, failures.x])[rows],
        _f=np.zeros(len(rows)),
        counts=counts,
        starts=np.cumsum(counts) - counts,
        log_weights=None if samples.log_weights is None else np.zeros(len(rows)),
        failures=None,
    )


@dataclass(frozen=True)
class _Test:
    """A bound of log p for all coordinates together, and a text about the coordinate with the smallest log p."""

    log_p: float
    text: Callable[[], str]
    is_general: bool = False  # whether it fails whenever a more specific test fails


@dataclass(frozen=True, eq=False)
class _Checked:
    """Samples and the transforms of the coordinates that have a transform, with the names of these."""

    samples: Samples
    transforms: Transforms
    names: tuple[str, ...]

    @classmethod
    def of(cls, samples: Samples) -> _Checked | None:
        u = samples._probabilities
        kept = np.all(np.isfinite(u), axis=0)
        ends = (u <= 0) | (u >= 1)
        if np.any(ends):  # rounding moves numbers near an end of the support to it
            supports = zip(*(measure.support for measure in samples.measures), strict=True)
            low, high = (np.stack(ends_of)[samples.owners] for ends_of in supports)
            kept &= ~np.any(ends & ((samples.all_points == low) | (samples.all_points == high)), axis=0)
        if not np.any(kept):
            return None
        names = tuple(name for name, keep in zip(samples.names.x, kept, strict=True) if keep)
        atoms = ~continuous(samples)[kept]
        return cls(samples, Transforms.of(u[:, kept], samples.owners, atoms, replicated=samples.stochastic), names)

    def tests(self) -> Iterator[_Test]:
        """The tests, of all points together, or of each theta by itself if thetas depend on each other."""
        transforms = self.transforms
        if self.samples.design == "mcmc":
            yield from self._of_chains()
            return
        even = np.max(self.samples.counts) > 1 and (self.samples.design == "sobol" or uniformity.are_even(transforms))
        dependent = self._may_share_points or (not even and uniformity.are_dependent(transforms, DEPENDENT))
        group = transforms.owners if dependent else transforms.together
        yield self._location(combined(uniformity.location(transforms, group)))
        yield self._scale(combined(uniformity.scale(transforms, group)))
        yield self._shape(*uniformity.shape(transforms, group))
        if len(self.names) > 1 and not (dependent and even):
            by_theta = even or (not dependent and self.samples.T >= MANY_THETAS)
            test = (
                uniformity.correlation_of_designs(transforms) if by_theta else uniformity.correlation(transforms, group)
            )
            yield self._correlation(test)
        if self.samples.T > 1:
            by_theta_alone = uniformity.location(transforms, transforms.owners)
            alone = np.minimum(0.0, np.min(by_theta_alone, axis=0) + np.log(self.samples.T))
            yield self._thetas(alone if dependent else uniformity.thetas(transforms), by_theta_alone)

    @property
    def _may_share_points(self) -> bool:
        """Whether thetas share points or mirrored points, or may use the same random numbers, which atoms hide."""
        samples, transforms = self.samples, self.transforms
        near = ~np.any(transforms.are_extreme, axis=1)
        mirrored = uses(np.abs(transforms.a[:, ~transforms.atoms])[near], samples.owners[near])
        if max(samples.thetas_per_point, mirrored) > FEW_SHARED or not np.all(transforms.atoms):
            return max(samples.thetas_per_point, mirrored) > FEW_SHARED
        few = bool(np.min(samples.counts) < MIN_ATOMS)
        same = uses(samples.all_points, samples.owners, exactly=True) > FEW_SHARED
        return few or same or uniformity.are_dependent(transforms, DEPENDENT)

    def _of_chains(self) -> Iterator[_Test]:
        """Tests of the location and the scale of Markov chains, with their effective sizes.

        Thetas are treated as chains of one length, so that differences between them count as slow mixing.
        """
        transforms, samples = self.transforms, self.samples
        if self._may_share_points:
            return
        N = int(np.min(samples.counts))
        a = transforms.a[samples.starts[:, None] + np.arange(N)]  # (T, N, k)
        sizes = [min(effective_size(b), effective_size(np.abs(b))) for b in np.moveaxis(a, -1, 0)]
        copies = np.maximum(CHAIN_MARGIN * a.shape[0] * N / np.array(sizes), transforms.copies)
        if N < MIN_CHAIN:
            copies = np.maximum(copies, np.max(samples.counts))
        slow = replace(transforms, copies=copies)
        yield self._location(combined(uniformity.location(slow, transforms.together)))
        yield self._scale(combined(uniformity.scale(slow, transforms.together)))

    def _scores(self, j: int) -> Array:
        """Normal scores (n,) of coordinate j, within a few standard deviations."""
        return np.clip(ndtri(np.clip(self.transforms.a[:, j] + 0.5, 0.0, 1.0)), -FARTHEST, FARTHEST)

    def _off(self, j: int, rows: Booleans | slice) -> str:
        """The mean distance of these rows from the centre of their measures along coordinate j, in words."""
        mean = float(np.mean(self._scores(j)[rows]))
        size = f"{abs(mean):.2g}" if abs(mean) < FARTHEST - 1 else f"{FARTHEST - 1:g} or more"
        return f"{self.names[j]} is {size} standard deviations too {'large' if mean > 0 else 'small'} on average"

    def _location(self, log_p: Array) -> _Test:
        return _Test(_least(log_p), lambda: self._off(int(np.argmin(log_p)), slice(None)))

    def _scale(self, log_p: Array) -> _Test:
        def text() -> str:
            j = int(np.argmin(log_p))
            spread = float(np.sqrt(np.mean(self._scores(j) ** 2)))
            return f"{self.names[j]} spreads {spread:.2g} times as far as it should"

        return _Test(_least(log_p), text)

    def _shape(self, log_p: Array, distance: Array) -> _Test:
        by_coordinate = combined(log_p)

        def text() -> str:
            j = int(np.argmin(by_coordinate))
            return f"the distribution of {self.names[j]} differs by up to {np.max(distance[:, j]):.2g} in probability"

        return _Test(_least(by_coordinate), text, is_general=True)

    def _correlation(self, log_p: Array) -> _Test:
        def text() -> str:
            j, k = (int(index) for index in np.unravel_index(np.argmin(log_p), log_p.shape))
            coefficient = np.corrcoef(self._scores(j), self._scores(k))[0, 1]
            names = f"{self.names[j]} and {self.names[k]}"
            return f"{names} have a correlation of {coefficient:.2f} that their measures do not have"

        pairs = len(log_p) * (len(log_p) - 1) // 2
        return _Test(float(np.min(log_p) + np.log(pairs)), text)

    def _thetas(self, log_p: Array, each_theta: Array) -> _Test:
        def text() -> str:
            j = int(np.argmin(log_p))
            t = int(np.argmin(each_theta[:, j]))
            at = self.samples.names.at("theta", self.samples.theta[t])
            off = self._off(j, self.samples.owners == t)
            return f"at {at}, {off}, as if x were not in the order of theta"

        return _Test(_least(log_p), text)


def _least(log_p: Array) -> float:
    """The smallest of the log p-values (k,), corrected for their number."""
    return float(np.min(log_p) + np.log(len(log_p)))


@dataclass(frozen=True, eq=False)
class BoundsContradiction:
    """The average of some draws, rows (n,), of an output lies beyond one end of its bounds: 0, the lower, or 1."""

    output: int
    end: int
    rows: Integers
    average: float


def bounds_contradictions(f: Array, theta: Array, bounds: Array) -> list[BoundsContradiction]:
    """The ends of bounds (2, C) that draws f (n, C) at theta (n, p) contradict, each with its most significant part."""
    beyond = np.stack([np.min(f, axis=0) < bounds[0], np.max(f, axis=0) > bounds[1]])  # (2, C)
    if not np.any(beyond):
        return []
    contradictions, parts = [], list(_parts(theta))
    delta = BOUNDS_LEVEL / (2 * np.count_nonzero(np.isfinite(bounds)) * len(parts))
    for end, c in np.argwhere(beyond):
        significance = _significance(f[:, c], bounds[:, c], end, parts, delta)
        if np.max(significance) > 1:
            rows = parts[int(np.argmax(significance))]
            contradictions.append(BoundsContradiction(int(c), int(end), rows, float(np.mean(f[rows, c]))))
    return contradictions


def _parts(theta: Array) -> Iterator[Integers]:
    """Rows of thetas (n, p): all, and halves, quarters, ... of them along each coordinate of theta."""
    n, parts = len(theta), 2
    yield np.arange(n)
    orders = [np.argsort(column, kind="stable") for column in theta.T]
    while parts <= min(n // LEAST_DRAWS, MAX_PARTS):
        for order in orders:
            yield from np.array_split(order, parts)
        parts *= 2


def _significance(f: Array, bounds: Array, end: int, parts: list[Integers], delta: float) -> list[float]:
    """Excesses of averages of parts of f (n,) over an end of bounds (2,), over their limits with probability delta."""
    seen, std = np.concatenate([f, bounds]), float(np.std(f)) * np.sqrt(len(f) / max(len(f) - 1, 1))
    width = float(np.max(seen) - np.min(seen))  # inf if a bound is
    ratios = []
    for rows in parts:
        df, n = len(np.unique(f[rows])) - 1, len(rows)
        student = stdtrit(df, 1 - delta) * std / np.sqrt(n) if df else np.inf
        limit = min(student, width * np.sqrt(np.log(1 / delta) / (2 * n)))
        excess = float(np.mean(f[rows]) - bounds[end]) * (1 if end else -1)
        ratios.append(excess / limit)
    return ratios
