"""Tests of probability transforms: are they independent and uniform?

For uniform u, a = u - 1/2 has mean zero and variance 1/12, and its sums are sub-Gaussian with that variance. Every
p-value below is a bound for any number of points. The bounds hold for atoms, too, where u is the mean of a uniform
variable given x: exponential moments of a and of a^2 are then no larger. Designs that are more even than independent
draws, such as Sobol points, strata and antithetic pairs, have smaller statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from cbq.common import Array, Booleans, Integers

EQUAL = 1e-9  # probabilities that differ less belong to the same point, unless they are nearly 0 or 1
SQUARE_MEAN, SQUARE_VARIANCE = 1 / 12, 1 / 180  # of a^2
ALIKE, ALL = 1.5, 0.9  # thetas with the same number that count as dependent: how many, or for atoms which share of all
EVEN = 0.4  # sqrt(N) times the distance of distribution functions; its median is 0.83 for independent points
MOST_COPIES = 4.0  # copies of a point if f is not random: antithetic pairs and rounded numbers
MIN_SORTED = 6  # points: fewer may be sorted at two thetas by chance
LOG_2 = float(np.log(2.0))


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
