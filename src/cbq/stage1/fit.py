"""Stage 1: Bayesian quadrature at every theta, averaged over the kernels that explain f best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from cbq._arrays import Array, Integers
from cbq.fit.joint import correlation
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.samples import Samples
from cbq.samples.arrays import units
from cbq.samples.samples import spread
from cbq.stage1.average import FEW, KernelWeights, weigh
from cbq.stage1.candidates import KernelFamily, automatic, family, is_costly, refuse_unembedded
from cbq.stage1.everywhere import BlockedSamples, stacked
from cbq.stage1.quadrature import BayesianQuadrature, integrate
from cbq.stage1.screening import screen, screening_subset
from cbq.stage1.shape import evidence, fit_shape
from cbq.stage1.stage_one import KernelShare, StageOne

TAU = {"constant": 0.0, "zero": np.inf}  # the prior precision of the mean of f, see `quadrature`
DEFAULT_JITTER = Jitter()
PER_LENGTHSCALE = 5  # values needed for each lengthscale that is fitted
MAX_LOG_LENGTHSCALE = (
    3.0  # the logarithm of lengthscales, in units of the spread of the points, of what looks like a polynomial
)


@dataclass(frozen=True)
class StageOneOptions:
    """How stage 1 is to be done; see `cbq.CBQ`."""

    kernel: Kernel | Literal["auto"] = "auto"
    mean: Literal["constant", "zero"] = "constant"
    ard: bool = True
    lengthscales: Literal["per-theta", "shared"] = "per-theta"
    outputs: Literal["separate", "shared"] = "separate"
    jitter: Jitter = DEFAULT_JITTER
    student: bool = True  # variances of the Student-t distribution that an unknown amplitude gives, not of the Gaussian

    @property
    def tau(self) -> float:
        """The prior precision of the mean of f."""
        return TAU[self.mean]

    @property
    def shared(self) -> bool:
        """Whether all thetas have the same lengthscales."""
        return self.lengthscales == "shared"


def fit_stage_one(samples: Samples, settings: StageOneOptions) -> StageOne:
    """Stage 1 of all outputs, each with its own kernels unless they are to be shared."""
    given = samples
    samples, group = given.merged()
    shift, scale = units(samples.table, centred=settings.mean == "constant")
    scaled = samples.rescaled(shift, scale)
    one_input = samples.d == 1 or not settings.ard  # then outputs differ by their weights of the same kernels
    together = samples.C is None or settings.outputs == "shared" or (settings.kernel == "auto" and one_input)
    parts, residuals = zip(*(_fit(each, settings) for each in ([scaled] if together else scaled.outputs)), strict=True)
    columns = {name: np.concatenate([part.columns[name] for part in parts], axis=1) for name in parts[0].columns}
    return StageOne(
        mean=shift + scale * columns["mean"],
        variance=scale**2 * columns["variance"],
        bias=scale * columns["bias"],
        spread2=scale**2 * columns["spread2"],
        amplitude=scale**2 * columns["amplitude"],
        point_weights=_shared_out(np.concatenate([part.point_weights for part in parts], axis=1), group),
        counts=given.counts,
        hyperparameters=[choices for part in parts for choices in part.hyperparameters],
        warnings=[*_noise(given, samples, group), *dict.fromkeys(w for part in parts for w in part.warnings)],
        single=samples.C is None,
        correlation=correlation(np.concatenate(residuals, axis=1) / spread(scaled)[scaled.owners]),
    )


def _fit(samples: Samples, settings: StageOneOptions) -> tuple[StageOne, Array]:
    """Stage 1 of outputs that share their families of kernels, in units of f near 1, and its residuals (n, C)."""
    view = BlockedSamples(screening_subset(samples))
    families = _families(samples, view, settings)
    if len(families) > 1 or len(families[0].factors) > 1:
        n = float(np.mean(samples.counts**3.0) ** (1 / 3))  # the size of a matrix of average cost
        families = screen(families, view, n, settings.tau, settings.jitter)
    whole = BlockedSamples(samples)
    function = partial(integrate, tau=settings.tau, jitter=settings.jitter)
    results = [whole.evaluate(family.coordinates, partial(function, family.all())) for family in families]
    weights = weigh(results, samples)
    labels = [(family.coordinates, label) for family in families for label in map(repr, family.each())]
    shares = np.mean(weights.kernel, axis=1)
    choices = [[KernelShare(*label, float(s)) for label, s in zip(labels, column, strict=True)] for column in shares.T]
    return _averaged(samples, stacked(results), weights, settings, choices), weights.residuals


def _families(samples: Samples, view: BlockedSamples, settings: StageOneOptions) -> list[KernelFamily]:
    """The families of kernels to choose from, with their lengthscales fitted to a view of the samples."""
    seen, tau = view.samples, settings.tau
    enough = (seen.n_evaluations - seen.T) * (seen.C or 1) >= PER_LENGTHSCALE * seen.d
    ard = settings.ard and seen.d > 1 and enough
    if isinstance(settings.kernel, Kernel):
        given = family(settings.kernel, "raw", np.concatenate(seen.x), ard)
        refuse_unembedded(given.kernel, samples)
        return [_shared(_fitted(given, view, tau), view, tau) if settings.shared else _fitted(given, view, tau)]
    families: list[KernelFamily] = []
    for coordinates, kernels in automatic(samples).items():
        x = np.concatenate([block.x.reshape(-1, samples.d) for block in view.blocks(coordinates)])
        costly = is_costly(coordinates, samples)
        tried = kernels[1:] if costly else kernels  # coordinates matter most to smooth kernels
        mine = [family(kernel, coordinates, x, ard, costly=costly) for kernel in tried]
        families += _reshaped(mine, view, tau) if ard else mine
    return [_shared(mine, view, tau) for mine in families] if settings.shared else families


def _reshaped(mine: Sequence[KernelFamily], view: BlockedSamples, tau: float) -> list[KernelFamily]:
    """Families of the same coordinates, from rough to smooth, with the shape that the smoothest finds.

    Where it finds a kink, all its lengthscales are endless: then the roughest gives the shape to the others.
    """
    shape = _fitted(mine[-1], view, tau).kernel.log_lengthscales
    smoothest, others = mine[-1].reshaped(shape), mine[:-1]
    if others and np.min(shape - mine[-1].kernel.log_lengthscales) > MAX_LOG_LENGTHSCALE:
        shape = _fitted(mine[0], view, tau).kernel.log_lengthscales
    return [*(each.reshaped(shape) for each in others), smoothest]


def _fitted(mine: KernelFamily, view: BlockedSamples, tau: float) -> KernelFamily:
    """The family with its free lengthscales fitted, if there is more than one."""
    blocks = view.blocks(mine.coordinates)
    if np.count_nonzero(mine.free) < 2 or blocks[0].n < 3:
        return mine
    return mine.reshaped(fit_shape(mine.kernel, mine.free, blocks, tau).log_lengthscales)


def _shared(mine: KernelFamily, view: BlockedSamples, tau: float) -> KernelFamily:
    """The family with one kernel, the likeliest for all thetas: fitted from the best of its factors on."""
    blocks = view.blocks(mine.coordinates)
    if not np.any(mine.free) or blocks[0].n < 3:
        return replace(mine, factors=(1.0,))
    best = max(mine.each(), key=lambda kernel: sum(evidence(kernel, block, tau)[0] for block in blocks))
    return replace(mine, kernel=fit_shape(best, mine.free, blocks, tau), factors=(1.0,))


def _averaged(
    samples: Samples,
    result: BayesianQuadrature,
    weights: KernelWeights,
    settings: StageOneOptions,
    choices: Sequence[Sequence[KernelShare]],
) -> StageOne:
    """The average of the quadratures of all kernels."""
    owners, counts = samples.owners, samples.counts[:, None]
    amplitude, inflation = _amplitude(result, samples.counts, settings)
    mean = np.sum(weights.kernel * result.mean, axis=0)
    variances = amplitude * inflation * result.error2[..., None] + (result.mean - mean) ** 2
    left_out = result.mean[:, owners] - result.weights[..., None] * result.residuals

    average, e = samples.averages, weights.residuals
    variance = np.sum(weights.kernel * variances, axis=0)
    point_weights = np.einsum("knc,kn->nc", weights.kernel[:, owners], result.weights)
    if settings.student:  # few points with an amplitude from elsewhere: no worse than a weighted average of draws of f
        f = samples.table
        within = np.sum((f - average(f)[owners]) ** 2, axis=0) / max(int(np.sum(counts - 1)), 1)
        draws = within * np.add.reduceat(point_weights**2, samples.starts, axis=0)
        variance = np.where(counts < FEW, np.minimum(variance, draws), variance)
    return StageOne(
        mean=mean,
        variance=variance,
        bias=mean - average(np.sum(weights.without * left_out, axis=0) + e),
        spread2=average((e - average(e)[owners]) ** 2) / np.maximum(counts - 1, 1),
        amplitude=np.sum(weights.kernel * amplitude, axis=0),
        point_weights=point_weights,
        counts=samples.counts,
        hyperparameters=[sorted(c, key=lambda choice: -choice.share) for c in choices],
        warnings=_warnings(samples, result),
        single=samples.C is None,
    )


def _amplitude(result: BayesianQuadrature, counts: Integers, settings: StageOneOptions) -> tuple[Array, Array]:
    """The amplitude of each kernel at each theta (K, T, C), and the factor (T, 1) that its being unknown gives.

    The energy q of a theta with nu degrees of freedom makes its integral Student-t, with scale^2 q / nu error2 and the
    variance nu / (nu - 2) times that. Thetas with few points share one amplitude.
    """
    own = counts - (settings.tau == 0)
    pooled = int(np.sum(own))
    few = counts < FEW
    common = np.sum(result.energy, axis=1, keepdims=True) / max(pooled, 1)
    amplitude = np.where(few[:, None], common, result.energy / np.maximum(own, 1)[:, None])
    if not settings.student:
        return amplitude, np.ones((len(counts), 1))
    nu = np.maximum(np.where(few, pooled, own), 3.0)
    return amplitude, (nu / (nu - 2.0))[:, None]


def _warnings(samples: Samples, result: BayesianQuadrature) -> list[str]:
    """What a user should know about stage 1."""
    found = []
    few = int(np.count_nonzero(samples.counts < FEW))
    if few:
        found.append(
            f"{few} of {samples.T} thetas have fewer than {FEW} points: their errors are judged by those of all thetas."
        )
    exact = int(np.count_nonzero(np.any(result.error2 == 0, axis=0)))
    if exact:
        found.append(
            f"variances at {exact} of {samples.T} thetas are zero to rounding: f is known there to all digits that the "
            f"arithmetic has, or the lengthscale is far too long for the points."
        )
    jitter = np.max(result.jitter)
    if jitter > 1e-8:
        found.append(
            f"Gram matrices needed a jitter of {jitter:.0e} of their diagonal: some points are nearly the same, or the "
            f"lengthscale is very long; accuracy may be limited to {np.sqrt(jitter):.0e} of the variation of f."
        )
    return found


def _shared_out(weights: Array, group: Integers) -> Array:
    """The weights (m, C) of merged points shared equally among the points (n,) that each was made of: (n, C)."""
    return np.asarray((weights / np.bincount(group)[:, None])[group])


def _noise(given: Samples, merged: Samples, group: Integers) -> list[str]:
    """A warning where equal points have values of f that differ."""
    apart = np.abs(given.table - merged.table[group])
    if not np.any(apart > 1e-9 * np.max(np.abs(given.table), axis=0)):
        return []
    return [
        "f has different values at equal points, which are averaged: it is taken as a function without noise, so if it "
        "is a random simulation, make its random numbers part of x."
    ]
