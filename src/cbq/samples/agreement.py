"""Tests of points against their measures, by their probability transforms: are they independent and uniform?

For uniform u, a = u - 1/2 has mean zero and variance 1/12, and its sums are sub-Gaussian with that variance. Every
p-value below is a bound for any number of points. The bounds hold for atoms, too, where u is the mean of a uniform
variable given x: exponential moments of a and of a^2 are then no larger. Designs that are more even than independent
draws, such as Sobol points, strata and antithetic pairs, have smaller statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import fdtrc, ndtri

from cbq.common import Array, Booleans, Integers
from cbq.samples.posteriors import effective_draws
from cbq.samples.probabilities import continuous, some_of, source, uses, without_listed

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
EQUAL = 1e-9  # probabilities that differ less belong to the same point, unless they are nearly 0 or 1
SQUARE_MEAN, SQUARE_VARIANCE = 1 / 12, 1 / 180  # of a^2
ALIKE, ALL = 1.5, 0.9  # thetas with the same number that count as dependent: how many, or for atoms which share of all
EVEN = 0.4  # sqrt(N) times the distance of distribution functions; its median is 0.83 for independent points
MOST_COPIES = 4.0  # copies of a point if f is not random: antithetic pairs and rounded numbers
MIN_SORTED = 6  # points: fewer may be sorted at two thetas by chance
LOG_2 = float(np.log(2.0))


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
    return f"the points do not look like draws from their measures: {worst.text} ({p})."


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
        log_weights=None if samples.log_weights is None else np.zeros(len(rows)),
        failures=None,
    )


@dataclass(frozen=True, eq=False)
class _Test:
    """The log p-values (k,) of coordinates or pairs of them, and a text about one of these."""

    each_log_p: Array
    text_of: Callable[[int], str]
    is_general: bool = False  # whether it fails whenever a more specific test fails

    @property
    def log_p(self) -> float:
        """A bound of the log p-value of all together: the smallest, corrected for their number."""
        return float(np.min(self.each_log_p) + np.log(len(self.each_log_p)))

    @property
    def text(self) -> str:
        """The text about the coordinate with the smallest p-value."""
        return self.text_of(int(np.argmin(self.each_log_p)))


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
        transforms, T = self.transforms, self.samples.T
        if self.samples.design == "mcmc":
            yield from self._of_chains()
            return
        even = np.max(self.samples.counts) > 1 and (self.samples.design == "sobol" or are_even(transforms))
        dependent = self._may_share_points or (not even and are_dependent(transforms, DEPENDENT))
        group = transforms.owners if dependent else transforms.together
        yield _Test(combined(location(transforms, group)), self._off)
        yield _Test(combined(scale(transforms, group)), self._spread)
        log_p, distance = shape(transforms, group)
        yield _Test(combined(log_p), lambda j: self._apart(j, np.max(distance[:, j])), is_general=True)
        if len(self.names) > 1 and not (dependent and even):
            by_theta = even or (not dependent and T >= MANY_THETAS)
            pairs = correlation_of_designs(transforms) if by_theta else correlation(transforms, group)
            first, second = np.triu_indices(len(pairs), 1)
            yield _Test(pairs[first, second], lambda i: self._correlated(first[i], second[i]))
        if T > 1:
            each = location(transforms, transforms.owners)
            worst = np.minimum(0.0, np.min(each, axis=0) + np.log(T))
            found = worst if dependent else thetas(transforms)
            yield _Test(found, lambda j: self._displaced(j, int(np.argmin(each[:, j]))))

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
        return few or same or are_dependent(transforms, DEPENDENT)

    def _of_chains(self) -> Iterator[_Test]:
        """Tests of the location and the scale of Markov chains, with their effective sizes.

        Thetas are treated as chains of one length, so that differences between them count as slow mixing.
        """
        transforms, samples = self.transforms, self.samples
        if self._may_share_points:
            return
        N = int(np.min(samples.counts))
        a = transforms.a[samples.starts[:, None] + np.arange(N)]  # (T, N, k)
        sizes = [min(effective_draws(b), effective_draws(np.abs(b))) for b in np.moveaxis(a, -1, 0)]
        copies = np.maximum(CHAIN_MARGIN * a.shape[0] * N / np.array(sizes), transforms.copies)
        if N < MIN_CHAIN:
            copies = np.maximum(copies, np.max(samples.counts))
        slow = replace(transforms, copies=copies)
        yield _Test(combined(location(slow, transforms.together)), self._off)
        yield _Test(combined(scale(slow, transforms.together)), self._spread)

    def _scores(self, j: int) -> Array:
        """Normal scores (n,) of coordinate j, within a few standard deviations."""
        return np.clip(ndtri(np.clip(self.transforms.a[:, j] + 0.5, 0.0, 1.0)), -FARTHEST, FARTHEST)

    def _off(self, j: int, rows: Booleans | slice = slice(None)) -> str:
        """The mean distance of these rows from the centre of their measures along coordinate j, in words."""
        mean = float(np.mean(self._scores(j)[rows]))
        size = f"{abs(mean):.2g}" if abs(mean) < FARTHEST - 1 else f"{FARTHEST - 1:g} or more"
        return f"{self.names[j]} is {size} standard deviations too {'large' if mean > 0 else 'small'} on average"

    def _spread(self, j: int) -> str:
        spread = float(np.sqrt(np.mean(self._scores(j) ** 2)))
        return f"{self.names[j]} spreads {spread:.2g} times as far as it should"

    def _apart(self, j: int, distance: float) -> str:
        return f"the distribution of {self.names[j]} differs by up to {distance:.2g} in probability"

    def _correlated(self, j: int, k: int) -> str:
        coefficient = np.corrcoef(self._scores(j), self._scores(k))[0, 1]
        names = f"{self.names[j]} and {self.names[k]}"
        return f"{names} have a correlation of {coefficient:.2f} that their measures do not have"

    def _displaced(self, j: int, t: int) -> str:
        at = self.samples.names.at("theta", self.samples.theta[t])
        return f"at {at}, {self._off(j, self.samples.owners == t)}, as if x were not in the order of theta"


@dataclass(frozen=True, eq=False)
class Transforms:
    """Centred probability transforms a (n, k) of the points of T thetas.

    owners : (n,), the theta of each, in order. atoms : (k,), which coordinates have atoms. copies : (n, k), the number
    of points of the same theta that coincide with a point in a coordinate, itself and mirrored points included:
    replicates, rounded numbers and antithetic pairs count as fewer points. row_copies : (n,), the same for all
    coordinates at once.
    """

    a: Array
    owners: Integers
    atoms: Booleans
    copies: Array
    row_copies: Array

    @classmethod
    def of(cls, u: Array, owners: Integers, atoms: Booleans, *, replicated: bool) -> Transforms:
        """From probability transforms u (n, k); replicated: whether equal points may be replicates of one draw."""
        a = u - 0.5
        most = np.inf if replicated else 1.0 if np.all(atoms) else MOST_COPIES
        rows = np.minimum(most, _copies(np.abs(a @ np.sqrt(np.arange(2.0, a.shape[1] + 2))), owners))
        columns = [rows if atoms[j] else np.minimum(most, _copies(np.abs(a[:, j]), owners)) for j in range(a.shape[1])]
        copies = np.stack(columns, axis=1)
        return cls(a, owners, atoms, np.where(_are_extreme(a), 1.0, copies), rows)

    @property
    def are_extreme(self) -> Booleans:
        """Which probabilities are so near to 0 or 1 that different points may have equal ones: (n, k)."""
        return _are_extreme(self.a)

    @property
    def together(self) -> Integers:
        """One group of all points: (n,)."""
        return np.zeros(len(self.a), dtype=np.intp)

    def sums(self, values: Array, group: Integers) -> Array:
        """The sums (G, k) of values (n, k) over groups of points (n,)."""
        return np.stack([np.bincount(group, column) for column in values.T], axis=1)


def _are_extreme(a: Array) -> Booleans:
    return np.asarray(np.abs(a) >= 0.5 - EQUAL)


def _copies(values: Array, owners: Integers) -> Array:
    """The number of equal values at the same theta, for each value (n,), itself included: (n,)."""
    order = np.lexsort([values, owners])
    new = (np.diff(values[order]) > EQUAL) | (np.diff(owners[order]) > 0)
    place = np.concatenate([[0], np.cumsum(new)])
    copies = np.empty(len(values))
    copies[order] = np.bincount(place)[place]
    return copies


def location(transforms: Transforms, group: Integers) -> Array:
    """Log p-values (G, k) of the mean of each group: P(|sum a| > t) <= 2 exp(-t^2 / 2 V), V = sum copies / 12."""
    return np.minimum(0.0, LOG_2 - 0.5 * _squared_scores(transforms, group))


def _squared_scores(transforms: Transforms, group: Integers) -> Array:
    return np.asarray(transforms.sums(transforms.a, group) ** 2 / (transforms.sums(transforms.copies, group) / 12))


def scale(transforms: Transforms, group: Integers) -> Array:
    """Log p-values (G, k) of the mean square of each group, by Bernstein's inequality; one-sided for atoms.

    Antithetic pairs, whose squares are equal, cannot be detected among atoms: all points there may be pairs.
    """
    n, copies = np.bincount(group)[:, None], transforms.copies * np.where(transforms.atoms, 2.0, 1.0)
    worth = n**2 / transforms.sums(copies, group)  # the number of points that are no copies
    heaviest = np.maximum.reduceat(copies, _starts(group), axis=0)
    excess = transforms.sums(transforms.a**2 - SQUARE_MEAN, group) / n
    largest = np.where(excess > 0, 1 / 4 - SQUARE_MEAN, SQUARE_MEAN) * heaviest * worth / n
    t = np.where(transforms.atoms & (excess < 0), 0.0, np.abs(excess))
    return np.asarray(np.minimum(0.0, LOG_2 - 0.5 * worth * t**2 / (SQUARE_VARIANCE + largest * t / 3)))


def shape(transforms: Transforms, group: Integers) -> tuple[Array, Array]:
    """Log p-values (G, k) of the largest difference (G, k) of distribution functions, by Massart's inequality."""
    n, starts = np.bincount(group), _starts(group)
    distance = np.zeros((len(n), transforms.a.shape[1]))
    rank = np.arange(len(group)) - starts[group]
    for j in np.flatnonzero(~transforms.atoms):
        u = transforms.a[np.lexsort([transforms.a[:, j], group]), j] + 0.5
        apart = np.maximum(u - rank / n[group], (rank + 1) / n[group] - u)
        distance[:, j] = np.maximum.reduceat(apart, starts)
    worth = n[:, None] ** 2 / transforms.sums(transforms.copies, group)
    return np.minimum(0.0, LOG_2 - 2 * worth * distance**2), distance


def correlation(transforms: Transforms, group: Integers) -> Array:
    """Log p-values (k, k) of the products of two coordinates, combined over groups; 0 on the diagonal.

    Given the one, the sum of products with the other is sub-Gaussian: V = sum copies b^2 / 12.
    """
    parts = []
    for rows in np.split(np.arange(len(group)), _starts(group)[1:]):
        a, copies = transforms.a[rows], transforms.row_copies[rows]
        variance = copies @ a**2 / 12
        larger = np.maximum(np.maximum(variance[:, None], variance), np.finfo(float).tiny)
        parts.append(np.minimum(0.0, LOG_2 - 0.5 * (a.T @ a) ** 2 / larger))
    log_p = combined(parts)
    np.fill_diagonal(log_p, 0.0)
    return log_p


def correlation_of_designs(transforms: Transforms) -> Array:
    """Log p-values (k, k) of products of coordinates if only their signs at each theta are random, as for even designs.

    Sobol points of a theta may all lie along a diagonal. Sums S_t of products have either sign with the same chance:
    P(|sum S_t| > z |S|) <= 2 exp(-z^2 / 2), by Hoeffding's inequality.
    """
    parts = np.split(transforms.a, _starts(transforms.owners)[1:])
    products = [a.T @ a for a in parts]
    squares = np.maximum(np.sum(np.square(products), axis=0), np.finfo(float).tiny)
    log_p = np.minimum(0.0, LOG_2 - 0.5 * np.sum(products, axis=0) ** 2 / squares)
    np.fill_diagonal(log_p, 0.0)
    return np.asarray(log_p)


def thetas(transforms: Transforms) -> Array:
    """Log p-values (k,) of the means of all thetas: the sum of T squared sub-Gaussian scores.

    P(Q > T + 2 sqrt(T s) + 2 s) <= exp(-s); Hsu, Kakade, Zhang (2012).
    """
    squared = _squared_scores(transforms, transforms.owners)
    T = len(squared)
    excess = np.maximum(np.sum(squared, axis=0) - T, 0.0)
    return np.asarray(-((0.5 * (np.sqrt(T + 2 * excess) - np.sqrt(T))) ** 2))


def are_even(transforms: Transforms) -> bool:
    """Whether the points of each theta fill its measure more evenly than independent points do."""
    apart = shape(transforms, transforms.owners)[1][:, ~transforms.atoms]
    roots = np.sqrt(np.bincount(transforms.owners))[:, None]
    return bool(apart.size) and bool(np.all(np.median(apart * roots, axis=0) < EVEN))


def combined(log_p: Array | list[Array]) -> Array:
    """The log p-value (...) of log p-values (G, ...) that may depend on each other: twice the mean of G p-values.

    Rueschendorf (1982).
    """
    log_ps = np.asarray(log_p)
    if len(log_ps) == 1:
        return np.array(log_ps[0])
    return np.asarray(np.minimum(0.0, LOG_2 + np.logaddexp.reduce(log_ps, axis=0) - np.log(len(log_ps))))


def are_dependent(transforms: Transforms, level: float) -> bool:
    """Whether points with the same number are similar at all thetas, as with common random numbers.

    An analysis of variance of unsorted coordinates; for thetas with one point each, whether these points are equal.
    """
    owners, T = transforms.owners, int(transforms.owners[-1]) + 1
    index = np.arange(len(owners)) - _starts(owners)[owners]
    n, N = len(owners), int(np.max(index)) + 1
    if T == 1:
        return False
    if N == 1:
        same = np.stack([_copies(column, index) for column in transforms.a.T], axis=1)
        uses = np.mean(np.where(transforms.are_extreme, 1.0, same), axis=0)
        return bool(np.any(uses >= np.where(transforms.atoms, ALL * T, ALIKE)))
    a = transforms.a[:, ~(_are_sorted(transforms) | np.any(transforms.are_extreme, axis=0))]
    counts = np.bincount(index)[:, None]
    means = transforms.sums(a, index) / counts if a.size else np.empty((N, 0))
    between = np.sum(counts * (means - np.mean(a, axis=0)) ** 2, axis=0) / (N - 1)
    within = np.sum((a - means[index]) ** 2, axis=0) / max(n - N, 1)
    p = fdtrc(N - 1, max(n - N, 1), between / np.maximum(within, np.finfo(float).tiny))
    return bool(np.any((p * len(p) < level) | (within < EQUAL**2)))


def _are_sorted(transforms: Transforms) -> Booleans:
    """Which coordinates are sorted at all thetas, up or down, so that numbers of points carry no information: (k,)."""
    if np.min(np.bincount(transforms.owners)) < MIN_SORTED:
        return np.zeros(len(transforms.atoms), dtype=bool)
    steps = np.diff(transforms.a, axis=0)[np.diff(transforms.owners) == 0]
    return np.asarray((np.all(steps >= 0, axis=0) | np.all(steps <= 0, axis=0)) & np.any(steps != 0, axis=0))


def _starts(group: Integers) -> Integers:
    """The first row of each group, for rows sorted by group (n,): (G,)."""
    return np.flatnonzero(np.diff(group, prepend=-1))
