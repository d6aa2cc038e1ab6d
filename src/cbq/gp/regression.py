"""The regression of several outputs on some columns of a table, with noise in every row.

Canonical outputs are linear combinations of outputs whose signals and noises are both uncorrelated in a pilot
regression. Regressing them independently is therefore adequate, and results do not depend on linear maps of the
outputs, such as their units.

A smooth regression would smear a jump of an output. Steps are proposed one after the other, each where it lowers the
residual sum of squares of a pilot regression most, and become further coordinates if the likelihood gains more from
them than their places could gain by chance.

Sites are the rows as a regression sees them. A regression on one column needs no more than the mean outputs in a few
hundred bins of it and their scatter, so that its cost hardly depends on the number of rows. With several columns each
row is a site of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from cbq.common import Array, Integers, autocorrelation_times
from cbq.gp.landmark_regression import RegressionPosterior, SiteBlock, Steps, fit_regressions, pilot_basis
from cbq.gp.sparse import Targets
from cbq.linalg.lapack import eigh

__all__ = [
    "RegressionPosterior",
    "Regressions",
    "SiteBlock",
    "SiteOutputs",
    "WhiteOutputs",
    "regressions",
    "site_blocks",
    "site_means",
]

CONSTANT_BELOW = 1e-12  # standard deviation of an output, relative to its largest value
RANK_TOLERANCE = 1e-10  # relative to the largest eigenvalue of the correlations
NORMAL_ABOVE = 0.995  # correlation of a column with its normal scores
MAX_STEPS = 4  # of an output
MIN_GAIN = 3.0  # of the log-likelihood, beyond the gain of the best of all places by chance
MIN_STEP_ROWS = 5.0  # that a step sets apart and the pilot regression cannot represent
MAX_SHARE = 1.0 - 1e-12  # of the sum of squares that a step explains
EQUAL_COUNT_BINS, EQUAL_WIDTH_BINS = 256, 128  # of a column: by counts, and by width in normal scores for the tails
MAX_GROUPS, MIN_GROUP_ROWS = 40, 50  # of rows in the order of a column


@dataclass(frozen=True, eq=False)
class Regressions:
    """The regressions of canonical outputs on columns, given that the functions are not constant.

    posteriors : one for each of r canonical outputs. outputs : these at the sites. values : (n, r), in all rows.
    mean : (q,), of the outputs. back : (r, q); the outputs are mean + values @ back.
    sites : of the rows. places : (s, p), the columns at the sites.
    all_zero : the probability that all functions are constant.
    """

    posteriors: list[RegressionPosterior]
    outputs: SiteOutputs
    values: Array
    mean: Array
    back: Array
    dependence: Dependence
    sites: Sites
    places: Array
    all_zero: float

    def misfit(self) -> float:
        """The structure left in the residuals along the columns."""
        mean = np.concatenate([site_means(blocks) for blocks in site_blocks(self.posteriors)])
        squares = np.diagonal(self.outputs.residual_products(slice(None), mean), axis1=1, axis2=2)
        return leftover([*self.places.T], self.outputs.counts, self.outputs.means - mean, squares)


@dataclass(frozen=True, eq=False)
class Dependence:
    """The autocorrelation of the rows in the order of the table, as of a Markov chain.

    times : (r,), the autocorrelation times of the noise of the outputs, by which their rows count less.
    place : (n,), the sites of the rows, or None if neither outputs nor columns are autocorrelated.
    """

    times: Array
    place: Integers | None

    @classmethod
    def of(cls, sites: Sites, columns: Array, residuals: Array) -> Dependence:
        """Of the rows with columns (n, p) and residuals (n, r) of a pilot regression."""
        times = autocorrelation_times(residuals)
        dependent = np.any(times > 1.0) or np.any(autocorrelation_times(columns) > 1.0)
        return cls(times, sites.place if dependent else None)

    def of_gains(self, gains: Array) -> Array:
        """The autocorrelation times (K,) of gains (s, K) at the sites."""
        return np.ones(gains.shape[1]) if self.place is None else autocorrelation_times(gains[self.place])


def regressions(y: WhiteOutputs, columns: Array, rng: np.random.Generator) -> Regressions | None:
    """The regressions of outputs y on columns (n, p), none of them constant; None if all outputs are constant."""
    candidates = candidate_coordinates(columns)
    basis = pilot_basis(candidates[-1], rng)
    outputs = y.canonical(basis)
    if not outputs.values.shape[1]:  # there is nothing to learn
        return None
    residuals = outputs.values - basis @ (basis.T @ outputs.values)
    steps = find_steps(basis, columns, residuals)
    sites = Sites.of(columns, [step for each in steps for step in each])
    dependence = Dependence.of(sites, columns, residuals)
    at_sites = SiteOutputs.of(sites, outputs.values)
    coordinates, places, cost = [sites.means(each) for each in candidates], sites.means(columns), step_cost(columns)
    further = [
        Steps(np.stack([step(places) for step in found], axis=1) if found else np.empty((len(places), 0)), cost)
        for found in steps
    ]
    posteriors = fit_regressions(coordinates, list(at_sites.targets(dependence.times)), rng, further)
    all_zero = float(np.prod([each.zero_probability for each in posteriors]))
    return Regressions(
        posteriors, at_sites, outputs.values, outputs.mean, outputs.back, dependence, sites, places, all_zero
    )


def site_blocks(posteriors: Sequence[RegressionPosterior]) -> Iterator[tuple[SiteBlock, ...]]:
    """The blocks of sites, for all posteriors side by side."""
    return zip(*(s.blocks() for s in posteriors), strict=True)


def site_means(blocks: Sequence[SiteBlock]) -> Array:
    """The posterior means (b, r) at the sites of blocks that are side by side."""
    return np.stack([block.mean for block in blocks], axis=-1)


@dataclass(frozen=True, eq=False)
class WhiteOutputs:
    """y = mean + values @ back, for y (n, q), mean (q,), and uncorrelated values (n, r) of mean 0 and variance 1.

    back : (r, q), of which r is the rank of y less its mean: 0 if all of y is constant.
    """

    mean: Array
    values: Array
    back: Array

    @classmethod
    def of(cls, y: Array) -> WhiteOutputs:
        """The principal components of the correlations of y (n, q)."""
        mean = np.mean(y, axis=0)
        centred = y - mean
        std = np.sqrt(np.mean(centred**2, axis=0))
        varies = std > CONSTANT_BELOW * np.max(np.abs(y), axis=0)
        scaled = centred[:, varies] / std[varies]
        if not scaled.size:
            return cls(mean, np.empty((len(y), 0)), np.empty((0, y.shape[1])))
        eigenvalues, axes = eigh(scaled.T @ scaled / len(y))
        kept = eigenvalues > RANK_TOLERANCE * eigenvalues[-1]
        stds, back = np.sqrt(eigenvalues[kept]), np.zeros((int(np.sum(kept)), y.shape[1]))
        back[:, varies] = stds[:, None] * axes[:, kept].T * std[varies]
        return cls(mean, scaled @ axes[:, kept] / stds, back)

    def canonical(self, basis: Array) -> WhiteOutputs:
        """The canonical outputs for the pilot regression on an orthonormal basis (n, k)."""
        if not self.values.shape[1]:
            return self
        residuals = self.values - basis @ (basis.T @ self.values)
        rotation = eigh(residuals.T @ residuals / len(basis))[1]
        values = self.values @ rotation
        signs = np.where(np.sum(values * values * values, axis=0) < 0, -1.0, 1.0)  # of eigenvectors, which are free
        return WhiteOutputs(self.mean, values * signs, (rotation * signs).T @ self.back)


def candidate_coordinates(columns: Array) -> list[Array]:
    """The coordinates (n, p) to choose from for the columns (n, p) of a set, none of them constant.

    These are the standardised columns and, if one of them is far from normal, also the normal scores of all columns,
    which have no outliers.
    """
    standard = (columns - np.mean(columns, axis=0)) / np.std(columns, axis=0)
    scores = np.stack([normal_scores(column) for column in columns.T], axis=1)
    correlation = np.mean(standard * scores, axis=0)
    binary = np.array([len(np.unique(column[:1000])) <= 2 and len(np.unique(column)) <= 2 for column in columns.T])
    return [standard] if np.all((correlation > NORMAL_ABOVE) | binary) else [standard, scores]


def normal_scores(column: Array) -> Array:
    """The standardised normal quantiles (n,) of the ranks of a column (n,); ties share their mean rank."""
    _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - 0.5 * counts
    scores = ndtri(middle / len(column))[place]
    return np.asarray((scores - np.mean(scores)) / np.std(scores))


@dataclass(frozen=True)
class Step:
    """The indicator of a column, by its position in a set, being above a threshold."""

    column: int
    threshold: float

    def __call__(self, columns: Array) -> Array:
        """Its values (n,), 0 or 1, at columns (n, p)."""
        return (columns[:, self.column] > self.threshold).astype(float)


def find_steps(basis: Array, columns: Array, residuals: Array) -> list[list[Step]]:
    """Where outputs jump along columns (n, p), given the residuals (n, r) of a pilot regression.

    basis : (n, k), orthonormal, of the pilot regression.
    """
    orders, found = [np.argsort(column, kind="stable") for column in columns.T], []
    first = [step_gains(basis, residuals, *each) for each in zip(orders, columns.T, strict=True)]
    for c, residual in enumerate(residuals.T):
        gains, its_basis, steps = [each[:, c] for each in first], basis, list[Step]()
        while True:
            j = int(np.argmax([np.max(each) for each in gains]))
            i, total = int(np.argmax(gains[j])), float(residual @ residual)
            if not total > 0 or _likelihood_gain(gains[j][i] / total, len(basis)) < step_cost(columns) + MIN_GAIN:
                break
            lower, upper = columns[orders[j][i : i + 2], j]
            steps.append(Step(j, 0.5 * (lower + upper)))
            if len(steps) == MAX_STEPS:
                break
            rest = steps[-1](columns)
            rest -= its_basis @ (its_basis.T @ rest)
            rest /= np.sqrt(rest @ rest)
            its_basis, residual = np.column_stack([its_basis, rest]), residual - rest * (rest @ residual)
            places = zip(orders, columns.T, strict=True)
            gains = [step_gains(its_basis, residual[:, None], *each)[:, 0] for each in places]
        found.append(steps)
    return found


def step_cost(columns: Array) -> float:
    """The log-likelihood that a step may gain by chance, as the best of all places along columns (n, p)."""
    return float(np.log(columns.size))


def _likelihood_gain(share: float, n: int) -> float:
    """Of the log-likelihood of n values, by explaining a share of the sum of squares of their residuals."""
    return float(-0.5 * n * np.log1p(-min(share, MAX_SHARE)))


def step_gains(basis: Array, residuals: Array, order: Integers, column: Array) -> Array:
    """By how much a step after each row, in the order of a column, lowers each sum of squares; 0 where none can be.

    For the indicator h of the rows up to it, this is (h'r)^2 / |h - Q Q'h|^2 for residuals (n, q), which are
    orthogonal to the basis Q (n, k).
    """
    score = np.cumsum(residuals[order], axis=0)
    apart = np.arange(1, len(order) + 1) - np.sum(np.cumsum(basis[order], axis=0) ** 2, axis=1)
    possible = np.append(np.diff(column[order]) > 0, False) & (apart > MIN_STEP_ROWS)
    return np.asarray(score**2 * (possible / np.maximum(apart, MIN_STEP_ROWS))[:, None])


@dataclass(frozen=True, eq=False)
class Sites:
    """Groups of n rows, in s sites: the site of each row, (n,), and the number of rows at each site, (s,)."""

    place: Integers
    counts: Array

    @classmethod
    def of(cls, columns: Array, steps: Sequence[Step] = ()) -> Sites:
        """The sites of columns (n, p). If p is 1, equal rows share a site, and no site is on both sides of a step."""
        n, p = columns.shape
        if p > 1:
            return cls(np.arange(n), np.ones(n))
        _, place, counts = np.unique(columns[:, 0], return_inverse=True, return_counts=True)
        if len(counts) > EQUAL_COUNT_BINS + EQUAL_WIDTH_BINS:
            share = ((np.cumsum(counts) - 0.5 * counts) / n)[place]  # of smaller values, half of the equal ones counted
            scores = ndtri(share)
            width = (np.max(scores) - np.min(scores)) / EQUAL_WIDTH_BINS
            by_width = np.floor((scores - np.min(scores)) / width).astype(np.intp)
            both = np.floor(share * EQUAL_COUNT_BINS).astype(np.intp) * (EQUAL_WIDTH_BINS + 1) + by_width
            for step in steps:  # bins and sides rise with the column, so that their sum identifies them
                both += step(columns).astype(np.intp)
            _, place, counts = np.unique(both, return_inverse=True, return_counts=True)
        return cls(place, counts.astype(float))

    @property
    def n(self) -> int:
        return len(self.place)

    def means(self, values: Array) -> Array:
        """The means (s, q) of values (n, q) at the sites."""
        return np.asarray(self.sums(values) / self.counts[:, None])

    def sums(self, values: Array) -> Array:
        """The sums (s, q) of values (n, q) at the sites."""
        s = len(self.counts)
        return np.stack([np.bincount(self.place, each, minlength=s) for each in values.T], axis=1)

    def products(self, values: Array) -> Array:
        """The sums (s, q, q) of products of pairs of values (n, q) at the sites."""
        pairs = values[:, :, None] * values[:, None, :]
        return self.sums(pairs.reshape(self.n, -1)).reshape(-1, *pairs.shape[1:])


@dataclass(frozen=True, eq=False)
class SiteOutputs:
    """Canonical outputs at s sites: numbers of rows (s,), means (s, r), sums of products (s, r, r)."""

    counts: Array
    means: Array
    products: Array

    @classmethod
    def of(cls, sites: Sites, values: Array) -> SiteOutputs:
        """Of the outputs (n, r) in all rows."""
        return cls(sites.counts, sites.means(values), sites.products(values))

    @property
    def n(self) -> float:
        return float(np.sum(self.counts))

    def targets(self, times: Array) -> Iterator[Targets]:
        """Of the regression of each output, whose rows are worth 1 / times (r,) of an independent one."""
        for c, (y, time) in enumerate(zip(self.means.T, times, strict=True)):
            within = float(np.sum(self.products[:, c, c]) - self.counts @ y**2)
            yield Targets(y, self.counts / time, max(within, 0.0) / time)

    def residual_products(self, sites: slice, mean: Array) -> Array:
        """Sums over the rows of some sites of products of residuals (b, r, r), for fitted means (b, r)."""
        y, counts = self.means[sites], self.counts[sites, None, None]
        between = y - mean
        within = self.products[sites] - counts * (y[:, :, None] * y[:, None, :])
        return np.asarray(within + counts * (between[:, :, None] * between[:, None, :]))


def leftover(orders: Sequence[Array], counts: Array, residual: Array, squares: Array) -> float:
    """How much structure is left in residuals along some quantities, in standard deviations of its chance value.

    Rows are grouped in the order of each quantity (s,). In a group of rows without structure, the squared sum of the
    residuals is their sum of squares on average; the sum of the ratios of both has a variance of about 2 for each
    group. The largest excess is returned.

    counts : (s,), rows at the sites. residual : (s, r), mean residuals. squares : (s, r), sums of their squares.
    """
    n = float(np.sum(counts))
    groups = int(min(MAX_GROUPS, n // MIN_GROUP_ROWS))
    if groups < 2:
        return 0.0
    found = []
    for quantity in orders:
        order = np.argsort(quantity, kind="stable")
        middle = np.cumsum(counts[order]) - 0.5 * counts[order]
        group = np.minimum(groups * middle / n, groups - 1).astype(np.intp)
        used = np.flatnonzero(np.bincount(group, minlength=groups))
        for mean, square in zip(residual.T, squares.T, strict=True):
            total = np.bincount(group, (counts * mean)[order], minlength=groups)[used]
            scatter = np.bincount(group, square[order], minlength=groups)[used]
            ratios = np.divide(total**2, scatter, out=np.zeros(len(used)), where=scatter > 0)
            found.append(float((np.sum(ratios) - len(used)) / np.sqrt(2.0 * len(used))))
    return max(found)
