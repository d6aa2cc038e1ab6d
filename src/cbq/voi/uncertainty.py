"""The variance of an EVPPI that is due to the regressions: from posterior draws, and from residuals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cbq.common.arrays import Array
from cbq.linalg.lapack import orthonormal
from cbq.voi.benefits import NetBenefits
from cbq.voi.regression import RegressionPosterior, SiteBlock
from cbq.voi.sites import SiteOutputs

FUNCTION_DRAWS = 256  # of the regression functions
MAX_DRAW_SITES = 1024  # at which draws are compared


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


def orthogonal_normals(m: int, S: int, rng: np.random.Generator) -> Array:
    """Standard normal draws (m + 1, S) whose second half is minus the first, with covariance I as a sample.

    So the sample variance of a linear function of them is exact, if there are at most S / 2 of them; of more, only up
    to the correlation between parts of S / 2.
    """
    half = S // 2
    parts = [rng.standard_normal((half, min(half, m - start))) for start in range(0, m, half)]
    found = np.sqrt(half) * np.concatenate([orthonormal(each).T for each in parts])
    return np.concatenate([found, -found], axis=1)


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
        mean = site_means(blocks)
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
    for blocks in site_blocks(posteriors):
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
        products = outputs.residual_products(sites, site_means(blocks))
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
    for blocks in site_blocks(posteriors):
        parts = zip(blocks, everywhere.by_weights, posteriors, strict=True)
        # The last column of a spread is no response to outputs.
        # Rows that are worth less than an independent one, n / moments.n, move it less.
        moves = [
            block.spread[:, :-1] @ slope[:-1] * (each.moments.n / n / each.noise) for block, slope, each in parts
        ]  # (b, K) each
        yield blocks, np.stack(moves, axis=-1) + everywhere.by_level / n


def site_blocks(posteriors: Sequence[RegressionPosterior]) -> Iterator[tuple[SiteBlock, ...]]:
    """The blocks of sites, for all posteriors side by side."""
    return zip(*(s.blocks() for s in posteriors), strict=True)


def site_means(blocks: Sequence[SiteBlock]) -> Array:
    """The posterior means (b, r) at the sites of blocks that are side by side."""
    return np.stack([block.mean for block in blocks], axis=-1)
