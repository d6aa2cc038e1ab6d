"""Stage 1: Bayesian quadrature at every theta, averaged over the kernels that explain f best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from cbq.common import Array, Booleans, Executor, Integers
from cbq.estimators.conditional.candidates import (
    Candidate,
    KernelWeights,
    StageOneSelection,
    asks_for_noise,
    automatic_kernels,
    candidate,
    distinct_measures,
    is_costly,
    refuse_unembedded,
    screen,
    screening_subset,
    weigh,
)
from cbq.estimators.conditional.stage_one_data import BlockedSamples, KernelShare, StageOne, concatenated
from cbq.fit import HEAVY_SHARE, Finding, for_some, outer_share, outermost_sets
from cbq.gp import (
    FLAT,
    MAX_LOG_LENGTHSCALE,
    VALUES_PER_LENGTHSCALE,
    ZERO,
    BayesianQuadrature,
    evidence_and_gradient,
    fit_lengthscales,
    integrate,
)
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.engines import require_matrices
from cbq.linalg.jitter import DEFAULT_JITTER
from cbq.linalg.lapack import correlation
from cbq.samples import Enumerated, Samples, spread, units

UNDECLARED_NOISE = Finding("noise", "values of f scatter around a smooth function as if f were random.")


@dataclass(frozen=True)
class StageOneOptions:
    """How stage 1 is to be done; see `cbq.CBQ`."""

    kernel: Kernel | Literal["auto"] = "auto"
    mean: Literal["constant", "zero"] = "constant"
    ard: bool = True
    lengthscales: Literal["per-theta", "shared"] = "per-theta"
    outputs: Literal["separate", "shared"] = "separate"
    jitter: Jitter = DEFAULT_JITTER
    selection: StageOneSelection = field(default_factory=StageOneSelection)
    calibrate: bool = True  # False for the variances of a Gaussian in place of a Student-t, with tails not looked at
    drawn: bool = True  # whether the points are draws of their measures, which go on beyond the outermost of them

    @property
    def tau(self) -> float:
        """The prior precision of the mean of f."""
        return FLAT if self.mean == "constant" else ZERO

    @property
    def shared(self) -> bool:
        """Whether all thetas have the same lengthscales."""
        return self.lengthscales == "shared"


def require_memory_for_stage_one(samples: Samples) -> None:
    """Raise where the largest Gram matrix of stage 1 does not fit into memory."""
    N = int(np.max(samples.counts))
    require_matrices(N**2, f"stage 1 with {N} points at one theta", "use fewer of them, as in samples.thinned(1000)")


def fit_stage_one(samples: Samples, options: StageOneOptions, executor: Executor | None = None) -> StageOne:
    """Stage 1 of all outputs, each with its own kernels unless they are to be shared; on the workers of an executor."""
    require_memory_for_stage_one(samples)
    given = samples
    samples, group = (given, np.arange(given.n_evaluations)) if given.stochastic else given.merged()
    shift, scale = units(samples.table, centred=options.mean == "constant")
    scaled = samples.rescaled(shift, scale)
    one_input = samples.d == 1 or not options.ard  # then outputs differ by their weights of the same kernels
    together = samples.C is None or options.outputs == "shared" or (options.kernel == "auto" and one_input)
    each = [scaled] if together else scaled.outputs
    parts, residuals = zip(*(_fit(some, options, executor) for some in each), strict=True)
    columns = {name: np.concatenate([part.columns[name] for part in parts], axis=1) for name in parts[0].columns}
    point_weights = np.concatenate([part.point_weights for part in parts], axis=1)
    if np.any((known := Enumerated.of(scaled)).thetas):
        exact: dict[str, Any] = {"mean": known.sums(scaled), "variance": 0.0, "bias": 0.0, "spread2": 0.0}
        columns |= {name: np.where(known.thetas[:, None], value, columns[name]) for name, value in exact.items()}
        point_weights = np.where(known.thetas[scaled.owners, None], known.weights[:, None], point_weights)
    return StageOne(
        mean=shift + scale * columns["mean"],
        variance=scale**2 * columns["variance"],
        bias=scale * columns["bias"],
        spread2=scale**2 * columns["spread2"],
        amplitude=scale**2 * columns["amplitude"],
        noise=scale**2 * columns["noise"],
        point_weights=(point_weights / np.bincount(group)[:, None])[group],  # equal points share their weight
        counts=given.counts,
        hyperparameters=[shares for part in parts for shares in part.hyperparameters],
        findings=[
            *_noise_findings(given, samples, group),
            *dict.fromkeys(each for part in parts for each in part.findings),
        ],
        single=samples.C is None,
        correlation=correlation(np.concatenate(residuals, axis=1) / spread(scaled)[scaled.owners]),
        stretch=np.concatenate([part.stretch for part in parts]),
    )


def _fit(samples: Samples, options: StageOneOptions, executor: Executor | None) -> tuple[StageOne, Array]:
    """Stage 1 of outputs that share their kernels, in units of f near 1, and its leave-one-out residuals (n, C)."""
    subset = BlockedSamples(screening_subset(samples, options.selection))
    candidates = _candidates(samples, subset, options)
    findings = []
    if len(candidates) > 1 or len(candidates[0].factors) > 1:
        n = float(np.mean(samples.counts**3.0) ** (1 / 3))  # the size of a matrix of average cost
        how = options.tau, options.jitter, options.selection
        tried, (candidates, evidence) = candidates, screen(candidates, subset, n, *how)
        if not samples.stochastic and asks_for_noise(tried, subset, evidence, *how):
            findings.append(UNDECLARED_NOISE)
    whole = BlockedSamples(samples)
    results = [
        whole.evaluate(
            each.coordinates,
            partial(integrate, each.batched(), tau=options.tau, jitter=options.jitter, noise=each.noise),
            executor,
        )
        for each in candidates
    ]
    weights = weigh(results, samples, options.selection)
    labels = [(each.coordinates, repr(kernel)) for each in candidates for kernel in each.members()]
    shares = [
        [KernelShare(*label, float(share)) for label, share in zip(labels, column, strict=True)]
        for column in np.mean(weights.kernel, axis=1).T
    ]
    noise = np.concatenate([np.zeros(len(c.factors)) if c.noise is None else c.noise for c in candidates])
    return _averaged(samples, concatenated(results), weights, noise, options, shares, findings), weights.residuals


def _candidates(samples: Samples, subset: BlockedSamples, options: StageOneOptions) -> list[Candidate]:
    """The families of kernels to choose from, with their lengthscales fitted to a subset of the samples."""
    seen, tau = subset.samples, options.tau
    enough = (seen.n_evaluations - seen.T) * (seen.C or 1) >= VALUES_PER_LENGTHSCALE * seen.d
    ard = options.ard and seen.d > 1 and enough
    if isinstance(options.kernel, Kernel):
        given = candidate(options.kernel, "raw", np.concatenate(seen.x), ard)
        refuse_unembedded(given.kernel, samples)
        found = [_fitted(given, subset, tau)]
    else:
        found = _automatic(samples, subset, ard, tau)
    if options.shared:
        found = [_shared(each, subset, tau) for each in found]
    return [each.with_noise() for each in found] if samples.stochastic else found


def _automatic(samples: Samples, subset: BlockedSamples, ard: bool, tau: float) -> list[Candidate]:
    """The families to choose from where no kernel is given; ard: whether their lengthscales are fitted one by one."""
    found: list[Candidate] = []
    measures = distinct_measures(samples)
    for coordinates, kernels in automatic_kernels(samples, measures).items():
        x = np.concatenate([block.x.reshape(-1, samples.d) for block in subset.blocks(coordinates)])
        costly = is_costly(kernels[-1], coordinates, measures)
        tried = kernels[1:] if costly else kernels  # coordinates matter most to smooth kernels
        mine = [candidate(kernel, coordinates, x, ard, costly=costly) for kernel in tried]
        found += _reshaped(mine, subset, tau) if ard else mine
    return found


def _reshaped(candidates: Sequence[Candidate], subset: BlockedSamples, tau: float) -> list[Candidate]:
    """Families on the same coordinates, from rough to smooth, with the lengthscales that the smoothest finds.

    Where f has a kink, all lengthscales of the smoothest are very long: then the roughest serves the others.
    """
    *others, smoothest = candidates
    shape = _fitted(smoothest, subset, tau).kernel.log_lengthscales
    found = smoothest.around(shape)
    if others and np.min(shape - smoothest.kernel.log_lengthscales) > MAX_LOG_LENGTHSCALE:
        shape = _fitted(others[0], subset, tau).kernel.log_lengthscales
    return [*(each.around(shape) for each in others), found]


def _fitted(family: Candidate, subset: BlockedSamples, tau: float) -> Candidate:
    """The family with its free lengthscales fitted, if there is more than one."""
    blocks = subset.blocks(family.coordinates)
    if np.count_nonzero(family.free) < 2 or blocks[0].n < 3:
        return family
    noisy = subset.samples.stochastic
    return family.around(fit_lengthscales(family.kernel, family.free, blocks, tau, noisy=noisy).log_lengthscales)


def _shared(family: Candidate, subset: BlockedSamples, tau: float) -> Candidate:
    """The family reduced to one kernel, the likeliest for all thetas; the search starts from its best factor."""
    blocks = subset.blocks(family.coordinates)
    if not family.has_free or blocks[0].n < 3:
        return replace(family, factors=(1.0,))

    noisy = subset.samples.stochastic
    noise = 0.1 if noisy else None  # in units of the amplitude: a middling one, for a first comparison

    def evidence(kernel: Kernel) -> float:
        return sum(evidence_and_gradient(kernel, block, tau, noise)[0] for block in blocks)

    best = max(family.members(), key=evidence)
    return replace(family, kernel=fit_lengthscales(best, family.free, blocks, tau, noisy=noisy), factors=(1.0,))


def _averaged(
    samples: Samples,
    result: BayesianQuadrature,
    weights: KernelWeights,
    noise: Array,
    options: StageOneOptions,
    shares: Sequence[Sequence[KernelShare]],
    findings: Sequence[Finding],
) -> StageOne:
    """The average of the quadratures of all kernels; noise: (K,), the noise variances at unit amplitude."""
    owners, counts = samples.owners, samples.counts[:, None]
    amplitude, inflation = _amplitude(result, samples.counts, options)
    mean = np.sum(weights.kernel * result.mean, axis=0)
    variances = amplitude * inflation * result.error2[..., None] + (result.mean - mean) ** 2
    left_out = result.mean[:, owners] - result.weights[..., None] * result.residuals

    average, e = samples.averages, _unbiased_residuals(weights.residuals, samples, options)
    variance = np.sum(weights.kernel * variances, axis=0)
    point_weights = np.einsum("knc,kn->nc", weights.kernel[:, owners], result.weights)
    stretch = np.ones(mean.shape[1])
    if options.calibrate and samples.design != "adaptive":
        # With few points and a pooled amplitude, no worse than a weighted average of draws of f.
        within = np.sum((samples.table - average(samples.table)[owners]) ** 2, axis=0) / max(int(np.sum(counts - 1)), 1)
        draws = within * np.add.reduceat(point_weights**2, samples.starts, axis=0)
        variance = np.where(counts < options.selection.few, np.minimum(variance, draws), variance)
    if options.calibrate and options.drawn and samples.drawn:
        z = standardised_residuals(result, weights, amplitude, samples)
        stretch = tail_stretch(z, result.varies[0], samples)
        findings = [*findings, *tail_findings(stretch)]
    bias = mean - average(np.sum(weights.without * left_out, axis=0) + e)
    # Points at an atom predict each other without error, and one that is alone at its atom has all of the bias.
    bias[[measure.has_atoms for measure in samples.measures]] = 0.0
    return StageOne(
        mean=mean,
        variance=variance,
        bias=bias,
        spread2=average((e - average(e)[owners]) ** 2) / np.maximum(counts - 1, 1),
        amplitude=np.sum(weights.kernel * amplitude, axis=0),
        noise=np.sum(weights.kernel * amplitude * noise[:, None, None], axis=0),
        point_weights=point_weights,
        counts=samples.counts,
        hyperparameters=[sorted(each, key=lambda kernel: -kernel.share) for each in shares],
        findings=[*findings, *_findings(samples, result, options.selection.few)],
        single=samples.C is None,
        stretch=stretch,
    )


def standardised_residuals(
    result: BayesianQuadrature, weights: KernelWeights, amplitude: Array, samples: Samples
) -> Array:
    """The leave-one-out residuals (n, C) of averaged kernels, in units of their predicted standard deviations.

    amplitude: (K, T, C).
    """
    own = amplitude[:, samples.owners] / result.precision[..., None]
    between = (result.residuals - weights.residuals) ** 2
    predicted = np.sum(weights.without * (own + between), axis=0)
    return np.asarray(weights.residuals / np.sqrt(np.maximum(predicted, np.finfo(float).tiny)))


def tail_stretch(z: Array, varies: Array, samples: Samples) -> Array:
    """The factor (C,) of standard deviations because the tails beyond the outermost points may carry the answer.

    z: (n, C), standardised leave-one-out residuals. varies: (T, C), whether f does, from 0 to 1. Where f grows towards
    the tails faster than a Gaussian process expects, residuals of the outermost points are large, and all others small,
    because the amplitude is that of the tails; and f varies at the outermost points more than at all others. What lies
    beyond them is as badly foreseen as they were.
    """
    found = [_tail_stretch(z, varies, samples, outer) for outer in outermost_sets(samples)]
    return np.asarray(np.max(found, axis=0))


def _tail_stretch(
    z: Array,
    varies: Array,
    samples: Samples,
    outer: Booleans,
    *,
    ratios: tuple[float, float] = (3.0, 5.0),
    shares: tuple[float, float] = (1.25, HEAVY_SHARE),
    stretch: float = 0.5,
) -> Array:
    """The factor (C,) from one set of outermost points (n,).

    ratios: of the sizes of standardised residuals, the outermost to all others, between which the factor rises from
        none to all. shares: the same for the share of the outermost points in the variance of f, in units of that of a
        linear f. stretch: the factor is this share of the ratio.
    """
    if min(np.count_nonzero(outer), np.count_nonzero(~outer)) < 8:  # too few to compare their sizes
        return np.ones(z.shape[1])
    size2 = [np.mean(z[rows] ** 2, axis=0) for rows in (outer, ~outer)]
    tiny = np.finfo(float).tiny
    ratio = np.where(size2[1] > 0, np.sqrt(size2[0] / np.maximum(size2[1], tiny)), 1.0)
    share = outer_share(samples, outer, varies)
    power = _between(ratio, ratios) * _between(share, shares)
    return np.asarray(np.maximum(stretch * ratio, 1.0) ** power)


def _between(values: Array, ends: tuple[float, float]) -> Array:
    """How far values are on the way from one end to the other, from 0 to 1."""
    return np.clip((values - ends[0]) / (ends[1] - ends[0]), 0.0, 1.0)


def tail_findings(stretch: Array) -> list[Finding]:
    """A finding where the tails dominate the answers of some outputs, from the factors (C,) of `tail_stretch`."""
    heavy = int(np.count_nonzero(stretch > 1.5))  # a smaller one is hardly worth a warning
    if not heavy:
        return []
    text = (
        f"the outermost points decide the answer{for_some(heavy, len(stretch))}: f grows towards the tails of the "
        f"measures, and what lies beyond the points is unknown. Standard deviations are multiplied by "
        f"{np.max(stretch):.2g} because of it."
    )
    return [Finding("tails", text)]


def _unbiased_residuals(residuals: Array, samples: Samples, options: StageOneOptions) -> Array:
    """Residuals (n, C) of points that are left out, whose averages estimate the integrals of f minus its prediction.

    Those of points from a proposal in place of the measure have weights, as their values have in averages.
    """
    if samples.log_weights is None or not options.drawn:  # borrowed points have weights of another theta
        return residuals
    # Weights of up to exp(100) keep squares within float64.
    return np.asarray(np.exp(np.minimum(samples.log_weights, 100.0))[:, None] * residuals)


def _amplitude(result: BayesianQuadrature, counts: Integers, options: StageOneOptions) -> tuple[Array, Array]:
    """The amplitude of each kernel at each theta (K, T, C), and the factor (T, 1) of variances because it is unknown.

    The energy q of a theta with nu degrees of freedom makes its integral Student-t, with scale^2 q / nu error2 and the
    variance nu / (nu - 2) times that. Thetas with few points share one amplitude, and those at which f does not vary
    take it: that all of their values are equal does not say that f is constant.
    """
    own = (counts - (options.tau == 0))[:, None]
    few = (counts < options.selection.few)[:, None]
    pooled = np.sum(result.varies * own, axis=1, keepdims=True)
    common = np.sum(result.varies * result.energy, axis=1, keepdims=True) / np.maximum(pooled, 1)
    varies = np.where(few, 0.0, result.varies)
    amplitude = varies * result.energy / np.maximum(own, 1) + (1.0 - varies) * common
    if not options.calibrate:
        return amplitude, np.ones((len(counts), 1))
    nu = np.maximum(np.where(few, np.sum(own), own), 3.0)
    return amplitude, nu / (nu - 2.0)


def _findings(samples: Samples, result: BayesianQuadrature, least: int) -> list[Finding]:
    """What a user should know about stage 1."""
    found = []
    few = int(np.count_nonzero(samples.counts < least))
    if few:
        text = f"{few} of {samples.T} thetas have fewer than {least} points: their amplitude is taken from all thetas."
        found.append(Finding("design", text))
    exact = int(np.count_nonzero(np.any(result.error2 == 0, axis=0)))
    if exact:
        text = (
            f"the variance at {exact} of {samples.T} thetas is zero up to rounding: either f is known there to machine "
            f"precision, or the lengthscale is far too long for the points."
        )
        found.append(Finding("rounding", text))
    jitter = np.max(result.jitter)
    if jitter > 1e-8:
        text = (
            f"Gram matrices needed a jitter of {jitter:.0e} of their diagonal: some points nearly coincide, or the "
            f"lengthscale is very long; accuracy may be limited to {np.sqrt(jitter):.0e} of the variation of f."
        )
        found.append(Finding("rounding", text))
    return found


def _noise_findings(given: Samples, merged: Samples, group: Integers) -> list[Finding]:
    """A finding where equal points have values of f that differ."""
    apart = np.abs(given.table - merged.table[group])
    if not np.any(apart > 1e-9 * np.max(np.abs(given.table), axis=0)):
        return []
    text = "f has different values at equal points, which are averaged: cbq assumes that f has no noise."
    return [Finding("noise", text)]
