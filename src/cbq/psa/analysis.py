"""The EVPPI of a set of columns, from the joint posterior of the regressions on it.

At a row, the net benefits of D decisions less that of the first are offset + Z B given the data, with independent
Gaussian canonical outputs Z (r,) and B (r, D). EVPPI is the mean over rows of max_d less max_d of the means over rows.
The estimate is the posterior expectation of the first term; the means over rows are taken as observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from cbq._arrays import Array, Integers
from cbq.gp.sparse import Targets
from cbq.linalg.dense import orthonormal
from cbq.linalg.threads import one_blas_thread
from cbq.nested.decisions import Decisions
from cbq.psa.diagnostics import autocorrelation_times, leftover
from cbq.psa.regression import (
    RegressionPosterior,
    SiteBlock,
    Steps,
    candidate_coordinates,
    canonical_outputs,
    fit_regression,
    pilot_basis,
)
from cbq.psa.sites import Sites
from cbq.psa.steps import find_steps, step_cost

FUNCTION_DRAWS = 256  # of the regression functions, for the standard error
MAX_DRAW_SITES = 1024  # at which draws are compared
ROW_DRAWS = 32  # for each site, for E max of more than two decisions
MAX_REACH = 5.0  # standard deviations: a decision further behind adds less than 1e-7 of one to E max
MIN_RELATIVE_UNSEEN = 1e-4  # of the posterior variance: less is not told apart


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Net benefits less that of the first decision, as linear functions of few outputs that are regressed once.

    y : (n, q), the outputs.
    maps : (K, q, D); y @ maps[k] are the net benefits less that of the first decision.
    """

    y: Array
    maps: Array

    @classmethod
    def of(cls, outputs: Array, decisions: Decisions) -> Contrasts:
        """The contrasts of outputs (n, C): differences of net benefits, or of effects and of costs.

        Net benefits are linear in the willingness to pay. Effects, of weights at least 0, and costs, of weights below
        0, are regressed even for a single value of it, so that its result is the one that it has among several.
        """
        K, D, _ = decisions.weights.shape
        if decisions.willingness_to_pay is None:
            ends = [(decisions.weights[0], np.ones(K))]
        else:
            thresholds = np.ravel(decisions.willingness_to_pay)
            most = int(np.argmax(thresholds))
            share = thresholds / max(float(thresholds[most]), np.finfo(float).tiny)
            ends = [
                (np.maximum(decisions.weights[most], 0.0), share),
                (np.minimum(decisions.weights[0], 0.0), np.ones(K)),
            ]
        y = np.concatenate([outputs @ (weights[1:] - weights[:1]).T for weights, _ in ends], axis=1)
        return cls(y, np.concatenate([share[:, None, None] * np.eye(D)[1:] for _, share in ends], axis=1))


@dataclass(frozen=True, eq=False)
class SetValue:
    """The EVPPI of a set for K values of the willingness to pay, (K,) each.

    evppi : the posterior expectation. plug_in : EVPPI at the posterior means.
    regression, sampling : the variances due to the regression and to the rows being a sample.
    unseen : the part of evppi that is due to variance not represented by the landmarks.
    r2 : the share of the variance of differences between decisions that the regression explains.
    noise_ratio : the standard error that residuals tell, in units of that with equal noise in all rows.
    effective_n : the number of independent rows that the rows are worth.
    landmarks : the largest number of landmarks of a regression.
    misfit : the structure left in residuals, in standard deviations of its chance value; see `leftover`.
    uninformative : the probability that the set tells nothing about the net benefits.
    """

    evppi: Array
    plug_in: Array
    regression: Array
    sampling: Array
    unseen: Array
    r2: Array
    noise_ratio: Array
    effective_n: Array
    landmarks: int = 0
    misfit: float = 0.0
    uninformative: float = 1.0

    @classmethod
    def nothing(cls, K: int, n: int) -> SetValue:
        """The value of a set if net benefits differ by constants."""
        zeros, ones = np.zeros(K), np.ones(K)
        return cls(zeros, zeros, zeros, zeros, zeros, zeros, ones, n * ones)

    @property
    def se(self) -> Array:
        return np.asarray(np.sqrt(self.regression + self.sampling))

    def mixed_with_zero(self, probability: float) -> SetValue:
        """The value of a set that is independent of the net benefits, so that EVPPI is 0, with this probability."""
        between = probability * (1.0 - probability) * self.evppi**2
        names = ("evppi", "plug_in", "regression", "sampling", "unseen")
        less = {name: (1.0 - probability) * getattr(self, name) for name in names}
        return replace(self, **less | {"regression": less["regression"] + between}, uninformative=probability)


@dataclass(frozen=True, eq=False)
class NetBenefits:
    """Net benefits offset + Z B for K values of the willingness to pay: offset (K, D), B (K, r, D)."""

    offset: Array
    B: Array

    @property
    def D(self) -> int:
        """The number of decisions."""
        return int(self.offset.shape[-1])

    @property
    def default(self) -> Integers:
        """The decisions (K,) with the largest mean net benefit, which are best without information."""
        return np.asarray(np.argmax(self.offset, axis=-1))


def analyse(contrasts: Contrasts, columns: Array, rng: np.random.Generator) -> SetValue:
    """The EVPPI of learning columns (n, p), none of them constant: E max_d E[NB_d | columns] - max_d E NB_d.

    The columns may be anything that is known before the decision: inputs, or the summary of a study.
    """
    with one_blas_thread():
        candidates = candidate_coordinates(columns)
        basis = pilot_basis(candidates[-1], rng)
        outputs = canonical_outputs(contrasts.y, basis)
        if not outputs.values.shape[1]:  # net benefits differ by constants: there is nothing to learn
            return SetValue.nothing(len(contrasts.maps), len(columns))
        steps = [find_steps(basis, columns, y) for y in outputs.values.T]
        sites = Sites.of(columns, [step for each in steps for step in each])
        dependence = Dependence.of(sites, columns, outputs.values - basis @ (basis.T @ outputs.values))
        at_sites = SiteOutputs.of(sites, outputs.values)
        coordinates, places = [sites.means(each) for each in candidates], sites.means(columns)
        posteriors = []
        for targets, found in zip(at_sites.targets(dependence.times), steps, strict=True):
            indicators = np.stack([step(places) for step in found], axis=1) if found else np.empty((len(places), 0))
            posteriors.append(fit_regression(coordinates, targets, rng, Steps(indicators, step_cost(columns))))
        benefits = NetBenefits(outputs.mean @ contrasts.maps, outputs.back @ contrasts.maps)
        all_zero = float(np.prod([each.zero_probability for each in posteriors]))
        value = _set_value(_given_some(posteriors, all_zero), at_sites, benefits, dependence, rng)
        return replace(value, misfit=_misfit(posteriors, at_sites, places)).mixed_with_zero(all_zero)


def _given_some(posteriors: Sequence[RegressionPosterior], all_zero: float) -> list[RegressionPosterior]:
    """The posteriors given that not all of the functions are constant, which has the probability 1 - all_zero."""
    left = max(1.0 - all_zero, np.finfo(float).tiny)
    return [replace(each, absent=min(max((each.zero_probability - all_zero) / left, 0.0), 1.0)) for each in posteriors]


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


def _set_value(
    posteriors: Sequence[RegressionPosterior],
    outputs: SiteOutputs,
    benefits: NetBenefits,
    dependence: Dependence,
    rng: np.random.Generator,
) -> SetValue:
    """EVPPI from the posteriors of the canonical outputs, one for each.

    The standard error treats the default decision as fixed. Where another one is as good, EVPPI is not a smooth
    function of the means, and this gives the larger error.
    """
    n, K = outputs.n, len(benefits.offset)
    totals, gains = np.zeros((3, K)), np.empty((len(outputs.counts), K))
    for blocks in _blocks(posteriors):
        sites = blocks[0].sites
        found, gains[sites] = _site_totals(blocks, outputs.counts[sites], benefits, rng)
        totals += found
    seen, expected, plug_in = totals / n  # (K,) each
    gain, times = outputs.counts @ gains / n, dependence.of_gains(gains)
    base, everywhere = np.max(benefits.offset, axis=-1), slopes(posteriors, outputs.counts, benefits)
    regression = regression_variance(posteriors, outputs, benefits, everywhere, rng)
    residual, assumed, r2 = sandwich(posteriors, outputs, benefits, everywhere)
    slowest = float(np.max(dependence.times))
    return SetValue(
        evppi=np.maximum(expected - base, 0.0),  # negative only by rounding
        plug_in=np.maximum(plug_in - base, 0.0),
        regression=regression + slowest * np.maximum(residual - assumed, 0.0),
        sampling=times * (outputs.counts @ (gains - gain) ** 2 / n) / max(n - 1.0, 1.0),
        unseen=expected - seen,
        r2=r2,
        noise_ratio=np.sqrt(np.divide(residual, assumed, out=np.ones(K), where=assumed > 0)),
        effective_n=n / np.maximum(times, slowest),
        landmarks=max(s.m for s in posteriors),
    )


def _misfit(posteriors: Sequence[RegressionPosterior], outputs: SiteOutputs, places: Array) -> float:
    """The structure left in the residuals along the columns, which are `places` (s, p) at the sites."""
    mean = np.concatenate([_means(blocks) for blocks in _blocks(posteriors)])
    squares = np.diagonal(outputs.residual_products(slice(None), mean), axis1=1, axis2=2)
    return leftover([*places.T], outputs.counts, outputs.means - mean, squares)


def _site_totals(
    blocks: Sequence[SiteBlock], counts: Array, benefits: NetBenefits, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Sums over rows (3, K) of E max_d without and with unseen variance and of max_d of means, and the gains (b, K)."""
    mean, unseen = _means(blocks), np.stack([b.unseen for b in blocks], axis=-1)  # (b, r) each
    variance = np.stack([np.sum(b.spread**2, axis=1) for b in blocks], axis=-1)
    normals = rng.standard_normal((len(mean), ROW_DRAWS // 2, len(blocks))) if benefits.D > 2 else None
    matters = float(np.sum(unseen)) > MIN_RELATIVE_UNSEEN * float(np.sum(variance))
    K = len(benefits.offset)
    found, gains = np.empty((3, K)), np.empty((len(mean), K))
    for k, (offset, B) in enumerate(zip(benefits.offset, benefits.B, strict=True)):
        g = offset + mean @ B
        expected = expected_max(g, B, variance + unseen, normals)
        seen = expected_max(g, B, variance, normals) if matters else expected
        gains[:, k] = expected - g[:, benefits.default[k]]
        found[:, k] = [counts @ each for each in (seen, expected, np.max(g, axis=-1))]
    return found, gains


def expected_max(g: Array, B: Array, variance: Array, normals: Array | None) -> Array:
    """E max_d of g + Z B, (b,), for g (b, D), B (r, D) and independent Z of mean 0 and variances (b, r).

    For two decisions this is Clark's formula. For more, only the excess of the best decision over the one with the
    largest mean is estimated, from antithetic draws: those of standard normals (b, S, r) and their negatives.
    """
    if normals is None:
        difference = g[:, 1] - g[:, 0]
        return np.asarray(g[:, 0] + _expected_positive_part(difference, np.sqrt(variance @ (B[:, 1] - B[:, 0]) ** 2)))
    best = np.argmax(g, axis=-1)
    found = np.take_along_axis(g, best[:, None], axis=-1)[:, 0]
    for d in np.unique(best):
        rows = np.flatnonzero(best == d)
        difference = B - B[:, [d]]  # to the best
        behind, reach = found[rows, None] - g[rows], np.sqrt(variance[rows] @ difference**2)
        close = np.any(behind < MAX_REACH * reach, axis=-1)
        found[rows[close]] += _excess(behind[close], difference, variance[rows[close]], normals[rows[close]])
    return found


def _excess(behind: Array, B: Array, variance: Array, normals: Array) -> Array:
    """E max_d (Z B - behind)_d, (b,), for behind (b, D) and B (r, D) that are 0 at one decision; see `expected_max`."""
    half = normals * np.sqrt(variance)[:, None, :]
    upper, lower = np.zeros((2, *half.shape[:2]))
    for each, direction in zip(behind.T, B.T, strict=True):
        deviation = half @ direction
        np.maximum(upper, deviation - each[:, None], out=upper)
        np.maximum(lower, -deviation - each[:, None], out=lower)
    return np.asarray(0.5 * np.mean(upper + lower, axis=1))


def _expected_positive_part(m: Array, s: Array) -> Array:
    """E max(X, 0) for X ~ N(m, s^2): m Phi(m / s) + s phi(m / s)."""
    q = np.divide(m, s, out=np.where(m < 0, -np.inf, np.inf), where=s > 0)
    density = np.exp(-0.5 * np.minimum(q * q, 1e3)) / np.sqrt(2.0 * np.pi)
    return np.asarray(m * ndtr(q) + s * density)


def regression_variance(
    posteriors: Sequence[RegressionPosterior],
    outputs: SiteOutputs,
    benefits: NetBenefits,
    everywhere: Slopes,
    rng: np.random.Generator,
) -> Array:
    """The variance (K,) of EVPPI over posterior draws of the regression functions, with its slopes at all sites.

    Draws are compared at some of the sites if they are many. Their linear part, in which the best decisions are those
    of the posterior means, is known at all sites and replaces that of the chosen ones.
    """
    s, K = len(outputs.counts), len(benefits.offset)
    chosen = np.arange(s) if s <= MAX_DRAW_SITES else rng.choice(s, MAX_DRAW_SITES, replace=False)
    blocks, share = (
        tuple(each.at(chosen) for each in posteriors),
        outputs.counts[chosen] / np.sum(outputs.counts[chosen]),
    )
    stds = np.array([each.mean_std for each in posteriors])
    ends = np.cumsum([len(stds), *(each.width for each in posteriors)])
    standard, *xi = np.split(orthogonal_normals(int(ends[-1]), FUNCTION_DRAWS, rng), ends[:-1])
    level = stds * standard.T  # draws of the mean of Z over rows, (S, r)
    draws = np.stack([b.mean[:, None] + b.spread @ each for b, each in zip(blocks, xi, strict=True)])
    draws += level.T[:, None, :]  # of Z, (r, b, S)
    paths = np.empty((K, FUNCTION_DRAWS))
    for k, (offset, B, default) in enumerate(zip(benefits.offset, benefits.B, benefits.default, strict=True)):
        gain = np.max(np.tensordot((B - B[:, [default]]).T, draws, 1) + offset[:, None, None], axis=0)
        paths[k] = share @ gain
    if len(chosen) < s:
        there = Slopes.zeros(posteriors, K)
        there.add(blocks, share, benefits)
        paths += everywhere.linear(level, xi) - there.linear(level, xi)
    return np.asarray(np.var(paths, axis=1))


@dataclass(frozen=True, eq=False)
class Slopes:
    """Derivatives of the plug-in EVPPI by means of Z over rows, (K, r), and by the weights of each spread, (m, K)."""

    by_level: Array
    by_weights: list[Array]

    @classmethod
    def zeros(cls, posteriors: Sequence[RegressionPosterior], K: int) -> Slopes:
        return cls(np.zeros((K, len(posteriors))), [np.zeros((each.width, K)) for each in posteriors])

    def add(self, blocks: Sequence[SiteBlock], share: Array, benefits: NetBenefits) -> None:
        """Add the part of some sites, which have this share (b,) of the rows."""
        mean = _means(blocks)
        for k, (offset, B, default) in enumerate(zip(benefits.offset, benefits.B, benefits.default, strict=True)):
            best = np.argmax(offset + mean @ B, axis=-1)
            moves = share[:, None] * (B.T[best] - B[:, default])  # (b, r)
            self.by_level[k] += np.sum(moves, axis=0)
            for slope, block, move in zip(self.by_weights, blocks, moves.T, strict=True):
                slope[:, k] += move @ block.spread

    def linear(self, level: Array, xi: Sequence[Array]) -> Array:
        """The linear part (K, S) of EVPPI in draws of levels (S, r) and of weights (m + 1, S)."""
        return self.by_level @ level.T + sum(slope.T @ each for slope, each in zip(self.by_weights, xi, strict=True))


def slopes(posteriors: Sequence[RegressionPosterior], counts: Array, benefits: NetBenefits) -> Slopes:
    """The derivatives of the plug-in EVPPI over all sites with counts (s,)."""
    found = Slopes.zeros(posteriors, len(benefits.offset))
    for blocks in _blocks(posteriors):
        found.add(blocks, counts[blocks[0].sites] / np.sum(counts), benefits)
    return found


def sandwich(
    posteriors: Sequence[RegressionPosterior], outputs: SiteOutputs, benefits: NetBenefits, everywhere: Slopes
) -> tuple[Array, Array, Array]:
    """The variances (K,) of EVPPI that residuals tell and that equal noise implies, to first order, and R^2 (K,).

    A residual e_jc of output c at row j moves EVPPI by influence_jc e_jc. The sandwich estimate (White 1980) of its
    variance is sum_j (sum_c influence_jc e_jc)^2, whatever the variances of the rows; the regression assumes
    sum_c s2_c sum_j influence_jc^2.
    """
    n, noise = outputs.n, np.array([s.noise for s in posteriors])
    scale = np.sqrt(n / np.maximum(n - np.array([s.dof for s in posteriors]), 1.0))  # residuals underestimate errors
    found, assumed = np.zeros((2, len(everywhere.by_level)))
    left = np.zeros((len(noise), len(noise)))
    for blocks, influence in influences(posteriors, n, everywhere):
        sites = blocks[0].sites
        products = outputs.residual_products(sites, _means(blocks))
        left += np.sum(products, axis=0) / n
        products *= np.outer(scale, scale)
        found += np.sum((influence @ products) * influence, axis=(0, 2))
        assumed += outputs.counts[sites] @ (influence**2 @ noise)
    B = benefits.B - np.mean(benefits.B, axis=-1, keepdims=True)  # of net benefits less their mean over decisions
    total = np.sum(B**2, axis=(1, 2))  # canonical outputs have the covariance I
    unexplained = np.divide(np.sum(B * (left @ B), axis=(1, 2)), total, out=np.ones(len(B)), where=total > 0)
    return found, assumed, np.clip(1.0 - unexplained, 0.0, 1.0)


def influences(
    posteriors: Sequence[RegressionPosterior], n: float, everywhere: Slopes
) -> Iterator[tuple[tuple[SiteBlock, ...], Array]]:
    """Blocks of sites with the derivatives (b, K, r) of the plug-in EVPPI by the outputs of one of their n rows.

    Hyperparameters are fixed.
    """
    for blocks in _blocks(posteriors):
        parts = zip(blocks, everywhere.by_weights, posteriors, strict=True)
        # The last column of a spread is no response to outputs.
        # Rows that are worth less than an independent one, n / moments.n, move it less.
        moves = [
            block.spread[:, :-1] @ slope[:-1] * (each.moments.n / n / each.noise) for block, slope, each in parts
        ]  # (b, K) each
        yield blocks, np.stack(moves, axis=-1) + everywhere.by_level / n


def _blocks(posteriors: Sequence[RegressionPosterior]) -> Iterator[tuple[SiteBlock, ...]]:
    """The blocks of sites, for all posteriors side by side."""
    return zip(*(s.blocks() for s in posteriors), strict=True)


def _means(blocks: Sequence[SiteBlock]) -> Array:
    return np.stack([block.mean for block in blocks], axis=-1)


def orthogonal_normals(m: int, S: int, rng: np.random.Generator) -> Array:
    """Standard normal draws (m + 1, S) whose second half is minus the first, with covariance I as a sample.

    So the sample variance of a linear function of them is exact, if there are at most S / 2 of them; of more, only up
    to the correlation between parts of S / 2.
    """
    half = S // 2
    parts = [rng.standard_normal((half, min(half, m - start))) for start in range(0, m, half)]
    found = np.sqrt(half) * np.concatenate([orthonormal(each).T for each in parts])
    return np.concatenate([found, -found], axis=1)
