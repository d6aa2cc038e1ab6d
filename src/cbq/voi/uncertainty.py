"""Net benefits as linear functions of canonical outputs, and the variance of an EVPPI that is due to the regressions.

The variance comes from posterior draws of the regression functions, and from residuals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from cbq.common import ROUNDING, Array, Integers
from cbq.gp.regression import RegressionPosterior, SiteBlock, SiteOutputs, site_blocks, site_means
from cbq.linalg.lapack import orthonormal

FUNCTION_DRAWS = 256  # of the regression functions
MAX_DRAW_SITES = 1024  # at which draws are compared
MAX_REACH = 5.0  # standard deviations: a decision further behind adds less than 1e-7 of one to E max


@dataclass(frozen=True, eq=False)
class NetBenefits:
    """Net benefits offset + Z B for K values of the willingness to pay: offset (K, D), B (K, r, D)."""

    offset: Array
    B: Array

    def __iter__(self) -> Iterator[tuple[Array, Array, int]]:
        """The offset (D,), the matrix (r, D) and the default decision, for each willingness to pay."""
        return zip(self.offset, self.B, self.default.tolist(), strict=True)

    @property
    def D(self) -> int:
        """The number of decisions."""
        return int(self.offset.shape[-1])

    @property
    def default(self) -> Integers:
        """The decisions (K,) with the largest mean net benefit, which are best without information."""
        return np.asarray(np.argmax(self.offset, axis=-1))


def expected_max(g: Array, B: Array, variance: Array, normals: Array | None) -> Array:
    """E max_d of g + Z B, (b,), for g (b, D), B (r, D) and independent Z of mean 0 and variances (b, r).

    For two decisions this is Clark's formula. For more, only the excess of the best decision over the one with the
    largest mean is estimated, from antithetic draws: standard normals (b, S, r) and their negatives.
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


def central_moments(draws: Array) -> tuple[Array, Array]:
    """The second and the third central moment (K,) of draws (K, S)."""
    centred = draws - np.mean(draws, axis=1, keepdims=True)
    return np.mean(centred**2, axis=1), np.mean(centred**3, axis=1)


def regression_moments(
    posteriors: Sequence[RegressionPosterior],
    outputs: SiteOutputs,
    benefits: NetBenefits,
    everywhere: Slopes,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """The variance and the third central moment (K,) of EVPPI over posterior draws of the regression functions.

    everywhere : the slopes of EVPPI at all sites.

    Draws are compared at some of the sites if they are many. Their linear part, in which the best decisions are those
    of the posterior means, is known at all sites and replaces the linear part at the chosen ones.
    """
    s = len(outputs.counts)
    chosen = np.arange(s) if s <= MAX_DRAW_SITES else rng.choice(s, MAX_DRAW_SITES, replace=False)
    blocks, share = [each.at(chosen) for each in posteriors], outputs.counts[chosen] / np.sum(outputs.counts[chosen])
    draws = FunctionDraws.of(posteriors, rng)
    paths = draws.gains(blocks, share, benefits)
    if len(chosen) < s:
        there = Slopes.zeros(posteriors, len(paths))
        there.add(blocks, share, benefits)
        paths += draws.linear(everywhere) - draws.linear(there)
    return central_moments(paths)


@dataclass(frozen=True, eq=False)
class FunctionDraws:
    """Draws of the r regression functions: of their means over rows, (S, r), and of their weights, (m, S) each."""

    level: Array
    xi: list[Array]

    @classmethod
    def of(cls, posteriors: Sequence[RegressionPosterior], rng: np.random.Generator) -> FunctionDraws:
        stds = np.array([each.mean_std for each in posteriors])
        ends = np.cumsum([len(stds), *(each.m for each in posteriors)])
        standard, *xi = np.split(orthogonal_normals(int(ends[-1]), FUNCTION_DRAWS, rng), ends[:-1])
        return cls(stds * standard.T, xi)

    def gains(self, blocks: Sequence[SiteBlock], share: Array, benefits: NetBenefits) -> Array:
        """The mean gain (K, S) over the default decision, for the posteriors at places with this share (b,) of rows."""
        Z = np.stack([b.mean[:, None] + b.spread @ xi for b, xi in zip(blocks, self.xi, strict=True)])
        Z += self.level.T[:, None, :]  # (r, b, S)
        found = np.empty((len(benefits.offset), FUNCTION_DRAWS))
        for k, (offset, B, default) in enumerate(benefits):
            found[k] = share @ np.max(np.tensordot((B - B[:, [default]]).T, Z, 1) + offset[:, None, None], axis=0)
        return found

    def linear(self, slopes: Slopes) -> Array:
        """The linear part (K, S) of EVPPI, given its slopes."""
        parts = zip(slopes.by_weights, self.xi, strict=True)
        return np.asarray(slopes.by_level @ self.level.T + sum(slope.T @ xi for slope, xi in parts))


def orthogonal_normals(m: int, S: int, rng: np.random.Generator) -> Array:
    """Standard normal draws (m, S) whose second half is minus the first, with covariance I as a sample.

    So the sample variance of a linear function of them is exact, if there are at most S / 2 of them; of more, only up
    to the correlation between parts of S / 2.
    """
    half = S // 2
    parts = [rng.standard_normal((half, min(half, m - start))) for start in range(0, m, half)]
    found = np.sqrt(half) * np.concatenate([orthonormal(each).T for each in parts])
    return np.concatenate([found, -found], axis=1)


@dataclass(frozen=True, eq=False)
class Slopes:
    """Derivatives of the plug-in EVPPI by means of Z over rows, (K, r), and by the weights of each spread, (m, K).

    by_signals : (K, r, r), by multiples of the signals (the posterior means) of all outputs, added to each output.
    """

    by_level: Array
    by_weights: list[Array]
    by_signals: Array

    @classmethod
    def zeros(cls, posteriors: Sequence[RegressionPosterior], K: int) -> Slopes:
        r = len(posteriors)
        return cls(np.zeros((K, r)), [np.zeros((each.m, K)) for each in posteriors], np.zeros((K, r, r)))

    def add(self, blocks: Sequence[SiteBlock], share: Array, benefits: NetBenefits) -> None:
        """Add the part of some sites, which have this share (b,) of the rows."""
        mean = site_means(blocks)
        for k, (offset, B, default) in enumerate(benefits):
            best = np.argmax(offset + mean @ B, axis=-1)
            self.add_moves(k, blocks, share[:, None] * (B.T[best] - B[:, default]))

    def add_moves(self, k: int, blocks: Sequence[SiteBlock], moves: Array) -> None:
        """Add sites at which EVPPI has these derivatives (b, r) by Z, for the k-th willingness to pay."""
        self.by_level[k] += np.sum(moves, axis=0)
        self.by_signals[k] += moves.T @ site_means(blocks)
        for slope, block, move in zip(self.by_weights, blocks, moves.T, strict=True):
            slope[:, k] += move @ block.spread


def slopes(posteriors: Sequence[RegressionPosterior], counts: Array, benefits: NetBenefits) -> Slopes:
    """The derivatives of the plug-in EVPPI over all sites with counts (s,)."""
    found = Slopes.zeros(posteriors, len(benefits.offset))
    for blocks in site_blocks(posteriors):
        found.add(blocks, counts[blocks[0].sites] / np.sum(counts), benefits)
    return found


@dataclass(frozen=True, eq=False)
class Signals:
    """How far the signals of r outputs, their posterior means at the sites, are fitted by the other regressions.

    Canonical outputs have uncorrelated signals in the rows of the table. So an output without a signal of its own is
    fitted by a constant, although a multiple of the signal of another output, which the choice of the canonical outputs
    has set to 0, is as uncertain as any coefficient of a regression. The rows determine it by the part of that signal
    that the regression of the output does not fit.

    fitted : (m, r) for each output, the weights of its spread that fit the signals. left : (r, r), for each output, the
        mean over rows of each signal times its part that is not fitted; infinite where there is no coefficient.
    exists : (r,), the probabilities that there is a signal.
    """

    fitted: list[Array]
    left: Array
    exists: Array

    @classmethod
    def of(cls, posteriors: Sequence[RegressionPosterior], counts: Array) -> Signals:
        """Of posteriors at sites with counts (s,)."""
        r, share = len(posteriors), counts / np.sum(counts)
        products, power = [np.zeros((each.m, r)) for each in posteriors], np.zeros(r)
        for blocks in site_blocks(posteriors):
            weighted = share[blocks[0].sites, None] * site_means(blocks)
            power += np.sum(weighted * site_means(blocks), axis=0)
            for product, block in zip(products, blocks, strict=True):
                product += block.spread.T @ weighted
        fitted = [product * (each.moments.n / each.noise) for product, each in zip(products, posteriors, strict=True)]
        left = power - np.stack([np.sum(f * p, axis=0) for f, p in zip(fitted, products, strict=True)])
        none = np.eye(r, dtype=bool) | (left <= ROUNDING * power)
        return cls(fitted, np.where(none, np.inf, left), 1.0 - np.array([each.zero_probability for each in posteriors]))

    def coefficients(self, everywhere: Slopes) -> Array:
        """The derivatives (K, r, r) of EVPPI by the coefficients of signals, over the information on them."""
        fitted = np.stack([w.T @ f for w, f in zip(everywhere.by_weights, self.fitted, strict=True)], axis=1)
        return np.asarray(self.exists * (everywhere.by_signals - fitted) / self.left)

    def influence(self, c: int, block: SiteBlock, mean: Array, coefficients: Array) -> Array:
        """The derivatives (b, K), n-fold, of EVPPI by output c in the rows at a block, through these coefficients."""
        return np.asarray((mean - block.spread @ self.fitted[c]) @ coefficients[:, c].T)


def sandwich(
    posteriors: Sequence[RegressionPosterior], outputs: SiteOutputs, benefits: NetBenefits, everywhere: Slopes
) -> tuple[Array, Array, Array, Array]:
    """The variances (K,) of EVPPI by residuals, with equal noise, and in the posterior, to first order; and R^2 (K,).

    A residual e_jc of output c at row j moves EVPPI by influence_jc e_jc. The sandwich estimate (White 1980) of its
    variance is sum_j (sum_c influence_jc e_jc)^2, whatever the variances of the rows; with equal noise it is
    sum_c s2_c sum_j influence_jc^2. The posterior leaves out the influence through signals of other outputs.
    """
    n, noise = outputs.n, np.array([s.noise for s in posteriors])
    scale = np.sqrt(n / np.maximum(n - np.array([s.dof for s in posteriors]), 1.0))  # residuals underestimate errors
    found, assumed, known = np.zeros((3, len(everywhere.by_level)))
    left = np.zeros((len(noise), len(noise)))
    for blocks, own, others in influences(posteriors, outputs.counts, everywhere):
        sites = blocks[0].sites
        products = outputs.residual_products(sites, site_means(blocks))
        left += np.sum(products, axis=0) / n
        products *= np.outer(scale, scale)
        influence = own + others
        found += np.sum((influence @ products) * influence, axis=(0, 2))
        assumed += outputs.counts[sites] @ (influence**2 @ noise)
        known += outputs.counts[sites] @ (own**2 @ noise)
    B = benefits.B - np.mean(benefits.B, axis=-1, keepdims=True)  # of net benefits less their mean over decisions
    total = np.sum(B**2, axis=(1, 2))  # canonical outputs have the covariance I
    unexplained = np.divide(np.sum(B * (left @ B), axis=(1, 2)), total, out=np.ones(len(B)), where=total > 0)
    return found, assumed, known, np.clip(1.0 - unexplained, 0.0, 1.0)


def influences(
    posteriors: Sequence[RegressionPosterior], counts: Array, everywhere: Slopes
) -> Iterator[tuple[tuple[SiteBlock, ...], Array, Array]]:
    """Blocks of sites with the derivatives (b, K, r) of the plug-in EVPPI by the outputs of one of their rows.

    They are those of the regression of each output, and those through coefficients of the signals of other outputs.
    counts : (s,), of rows at the sites. Hyperparameters are fixed.
    """
    n, signals = float(np.sum(counts)), Signals.of(posteriors, counts)
    coefficients = signals.coefficients(everywhere)
    for blocks in site_blocks(posteriors):
        mean = site_means(blocks)
        parts = zip(blocks, everywhere.by_weights, posteriors, strict=True)
        # Rows that are worth less than an independent one, n / moments.n, move it less.
        own = [block.spread @ slope * (each.moments.n / n / each.noise) for block, slope, each in parts]  # (b, K) each
        others = [signals.influence(c, block, mean, coefficients) / n for c, block in enumerate(blocks)]
        yield blocks, np.stack(own, axis=-1) + everywhere.by_level / n, np.stack(others, axis=-1)
