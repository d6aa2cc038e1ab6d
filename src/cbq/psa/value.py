"""The expected value of knowing the columns of a set, from the joint posterior of the regressions on it.

At a row the net benefits of D decisions, less that of the first, are offset + Z . B given the data, with independent
Gaussian canonical outputs Z (r,) and B (r, D). EVPPI is the mean over rows of max_d less the max_d of the means over
rows. Its estimate is the posterior expectation of the first, given that the means over rows are as they were seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cbq._arrays import Array
from cbq.psa.expected_max import expected_max
from cbq.psa.regression import RegressionPosterior
from cbq.psa.robust import extra_variance

DRAWS = 256  # of whole surfaces, for the standard error


@dataclass(frozen=True, eq=False)
class Value:
    """EVPPI for K willingnesses to pay, each (K,).

    evppi: the posterior expectation. plug_in: that of the posterior means. regression, sampling: the variances of what
    the regression does not know and of the rows being a sample. unseen: how much of evppi is variance that the
    landmarks do not see.
    """

    evppi: Array
    plug_in: Array
    regression: Array
    sampling: Array
    unseen: Array

    @property
    def se(self) -> Array:
        """The standard error."""
        return np.asarray(np.sqrt(self.regression + self.sampling))

    def unless(self, idle: float) -> Value:
        """The same where with probability `idle` there is nothing to learn, and EVPPI is 0."""
        between = idle * (1.0 - idle) * self.evppi**2
        share = 1.0 - idle
        return replace(
            self,
            evppi=share * self.evppi,
            plug_in=share * self.plug_in,
            regression=share * self.regression + between,
            sampling=share * self.sampling,
            unseen=share * self.unseen,
        )


@dataclass(frozen=True, eq=False)
class NetBenefits:
    """Net benefits offset + Z . B for K willingnesses to pay: offset (K, D), B (K, r, D)."""

    offset: Array
    B: Array


def value(
    surfaces: Sequence[RegressionPosterior], outputs: Array, benefits: NetBenefits, rng: np.random.Generator
) -> Value:
    """EVPPI from the posteriors of the canonical outputs (n, r), one surface for each."""
    sums = _Sums(surfaces, benefits, rng)
    xi = [_antithetic((s.m, DRAWS), rng, axis=1) for s in surfaces]
    for blocks in zip(*(s.blocks() for s in surfaces), strict=True):
        mean = np.stack([b.mean for b in blocks], axis=-1)
        variance = np.stack([np.sum(b.spread**2, axis=1) for b in blocks], axis=-1)
        unseen = np.stack([b.unseen for b in blocks], axis=-1)
        paths = np.stack([b.spread @ each for b, each in zip(blocks, xi, strict=True)], axis=-1)
        sums.add(mean, variance, unseen, paths)
    found = sums.value()
    extra = extra_variance(surfaces, outputs, benefits.offset, benefits.B, sums.default)
    found = replace(found, regression=found.regression + extra)
    return found.unless(float(np.prod([s.idle for s in surfaces])))


class _Sums:
    """Sums over rows, for each of K willingnesses to pay.

    common: draws (S, r) of the means of Z over the rows, which all rows have in common.
    default: (K,), the decision that looks best before anything is learnt. Where another is as good, what EVPPI does is
    no straight line, and to have it follow this one is the larger of its errors.
    """

    def __init__(
        self, surfaces: Sequence[RegressionPosterior], benefits: NetBenefits, rng: np.random.Generator
    ) -> None:
        self.offset, self.B, self.rng, self.n = benefits.offset, benefits.B, rng, surfaces[0].moments.n
        K = len(self.offset)
        self.seen, self.blurred, self.by_means, self.gain, self.square = (np.zeros(K) for _ in range(5))
        self.paths = np.zeros((K, DRAWS))
        levels = np.array([s.mean_std for s in surfaces])
        self.common = levels * _antithetic((DRAWS, len(levels)), rng, axis=0)
        self.overall = self.offset[:, None, :] + self.common @ self.B  # (K, S, D)
        self.default = np.argmax(self.offset, axis=-1)

    def add(self, mean: Array, variance: Array, unseen: Array, paths: Array) -> None:
        """Rows with the mean (b, r), variance (b, r) and draws (b, S, r), less the mean, of Z, and what is unseen."""
        draws = mean[:, None, :] + paths + self.common
        for k, (offset, B) in enumerate(zip(self.offset, self.B, strict=True)):
            g = offset + mean @ B
            seed = int(self.rng.integers(2**62))  # the same draws twice, so that their noise is no difference
            seen = expected_max(g, B, variance, np.random.default_rng(seed))
            blurred = expected_max(g, B, variance + unseen, np.random.default_rng(seed))
            gain = blurred - g[:, self.default[k]]
            self.seen[k] += np.sum(seen)
            self.blurred[k] += np.sum(blurred)
            self.by_means[k] += np.sum(np.max(g, axis=-1))
            self.gain[k] += np.sum(gain)
            self.square[k] += np.sum(gain**2)
            self.paths[k] += np.sum(np.max(offset + draws @ B, axis=-1), axis=0)

    def value(self) -> Value:
        """EVPPI from the sums over all rows."""
        n, base = self.n, np.max(self.offset, axis=-1)
        spread = np.maximum(self.square / n - (self.gain / n) ** 2, 0.0)
        return Value(
            evppi=np.maximum(self.blurred / n - base, 0.0),  # below 0 it is rounding
            plug_in=np.maximum(self.by_means / n - base, 0.0),
            regression=np.var(self.paths / n - self.overall[np.arange(len(base)), :, self.default], axis=1),
            sampling=spread / max(n - 1, 1),
            unseen=(self.blurred - self.seen) / n,
        )


def _antithetic(shape: tuple[int, int], rng: np.random.Generator, axis: int) -> Array:
    """Standard normal draws, those of the second half along an axis being minus those of the first."""
    half = rng.standard_normal(tuple(size // 2 if i == axis else size for i, size in enumerate(shape)))
    return np.concatenate([half, -half], axis=axis)
