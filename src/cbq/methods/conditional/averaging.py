"""Weights of kernels: by their evidence inside a family, by their leave-one-out errors between families.

The evidence is the right judge of a lengthscale, but not of smoothness: where f is analytic at most points and has a
kink at a few, it prefers the kernel that is right about the many, though the few decide the error of the integral. The
squared leave-one-out error, pooled over all thetas, sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress

import numpy as np

from cbq._arrays import Array, Booleans, evenly
from cbq.gp.quadrature import KernelEvidence, explain
from cbq.linalg import Jitter
from cbq.methods.conditional.blocks import BlockedSamples
from cbq.methods.conditional.candidates import Candidate
from cbq.samples import Samples
from cbq.samples.samples import spread

MSE_POWER = 2.0  # a family has the weight mse^-MSE_POWER
FEW = 4  # points: with fewer, a theta's own values say too little about its kernel
SCREENING_THETAS, SCREENING_POINTS = 10, 100  # at least and at most
SCREENING_NUMBERS = 25_000  # in the Gram matrices of the thetas that screening looks at
NEGLIGIBLE = 0.01  # a weight that is not worth the work
MAX_KERNELS, MIN_KERNELS = 24, 3  # at all thetas: the most for few points, fewer as the cost of each grows with N^2
COSTLY_SHARE = 0.5  # a costly family must have less than this share of the squared error of any other


@dataclass(frozen=True, eq=False)
class KernelWeights:
    """The weights of K kernels, C outputs.

    kernel: (K, T, C), of each kernel at each theta. without: (K, n, C), the same with point i left out.
    unexplained: (F, C), the mean squared leave-one-out residuals of the families; 1 for an output that varies at no
    theta, of which they are rounding errors. residuals: (n, C), the leave-one-out
    residuals of the average.
    """

    kernel: Array
    without: Array
    unexplained: Array
    residuals: Array


def weigh(results: Sequence[KernelEvidence], samples: Samples) -> KernelWeights:
    """The weights of kernels from their evidence at all T thetas, whose n points are in one row.

    results: of F families, arrays (K, T, C) and (K, n, C) each.
    """
    within, without = zip(*(_within(r, samples) for r in results), strict=True)
    pooled = np.stack([np.sum(w * r.residuals, axis=0) for w, r in zip(without, results, strict=True)])
    mse = np.maximum(np.mean((pooled / spread(samples)[samples.owners]) ** 2, axis=1), np.finfo(float).eps ** 2)
    unexplained = mse ** np.max(results[0].varies, axis=(0, 1))
    family = inverse_power(unexplained)
    return KernelWeights(
        kernel=np.concatenate([weight * w for weight, w in zip(family, within, strict=True)]),
        without=np.concatenate([weight * w for weight, w in zip(family, without, strict=True)]),
        unexplained=unexplained,
        residuals=np.sum(family[:, None] * pooled, axis=0),
    )


def _within(result: KernelEvidence, samples: Samples) -> tuple[Array, Array]:
    """The weights of the kernels of a family: (K, T, C), and with each point left out (K, n, C)."""
    many = samples.counts >= FEW
    prior = _common(result.evidence[:, many], result.varies[0, many])
    return _softmax(result.evidence + prior), _softmax(result.evidence_without + prior)


def inverse_power(unexplained: Array) -> Array:
    """Weights of families (F, C) that fall with their errors; equal where all errors are zero."""
    largest = np.max(unexplained, axis=0)
    errors = np.where(largest > 0, np.maximum(unexplained, 1e-30 * largest), 1.0)
    weights = (np.min(errors, axis=0) / errors) ** MSE_POWER
    return np.asarray(weights / np.sum(weights, axis=0))


def _softmax(a: Array) -> Array:
    """exp(a) over its sum along the first axis."""
    e = np.exp(a - np.max(a, axis=0))
    return np.asarray(e / np.sum(e, axis=0))


def _common(evidence: Array, varies: Array) -> Array:
    """The logarithm of a prior for K kernels (K, 1, C): their average weight at thetas that have many points.

    A theta with few points, or one at which f does not vary, learns from the others which kernels are likely. evidence
    (K, T, C) and varies (T, C), whether f does, are those of the thetas that have many points.
    """
    K, T, C = evidence.shape
    total = np.sum(varies * _softmax(evidence), axis=1, keepdims=True) if T else np.zeros((K, 1, C))
    return np.asarray(np.log((total + 1.0 / K) / (np.sum(varies, axis=0) + 1.0)))


def screening_subset(samples: Samples) -> Samples:
    """Some thetas, with equally many of their points: enough to choose kernels by."""
    n = int(min(SCREENING_POINTS, np.median(samples.counts)))
    enough = np.flatnonzero(samples.counts >= n)
    some = evenly(len(enough), max(SCREENING_THETAS, SCREENING_NUMBERS // n**2))
    return samples.select(enough[some]).thinned(n)


def screen(
    candidates: Sequence[Candidate], subset: BlockedSamples, n: float, tau: float, jitter: Jitter
) -> tuple[list[Candidate], float]:
    """The families, and the factors of each, that are worth trying at all thetas, which have about n points each.

    The best of the first family, the roughest, is always among them: it serves where a smooth kernel fails at thetas
    outside the subset. With them comes the evidence of the likeliest kernel, one for all thetas of the subset.
    """
    results = [
        subset.evaluate(c.coordinates, partial(explain, c.batched(), tau=tau, jitter=jitter, noise=c.noise))
        for c in candidates
    ]
    evidence = max(float(np.max(total_evidence(result))) for result in results)
    weights = weigh(results, subset.samples)
    worth = _worth_their_cost(candidates, weights)
    if not np.all(worth):
        candidates, results = list(compress(candidates, worth)), list(compress(results, worth))
        weights = weigh(results, subset.samples)
    score = np.max(np.mean(weights.kernel, axis=1), axis=1)  # the mean over thetas, the largest over outputs
    score[np.argmax(score[: len(candidates[0].factors)])] = np.inf
    most = int(np.clip(MAX_KERNELS * (SCREENING_POINTS / n) ** 2, MIN_KERNELS, MAX_KERNELS))
    kept = (score > NEGLIGIBLE) & (np.argsort(np.argsort(-score, kind="stable")) < most)
    each = np.split(kept, np.cumsum([len(c.factors) for c in candidates])[:-1])
    kept_families = zip(candidates, each, strict=True)
    return [c.subset(np.flatnonzero(mine)) for c, mine in kept_families if np.any(mine)], evidence


def total_evidence(result: KernelEvidence) -> Array:
    """The evidence of each kernel (K,), if it is that of all thetas and outputs."""
    return np.asarray(np.sum(result.evidence, axis=(1, 2)))


def _worth_their_cost(candidates: Sequence[Candidate], weights: KernelWeights) -> Booleans:
    """Whether each family is worth its cost, for one of the outputs at least: (F,)."""
    costly = np.array([c.costly for c in candidates])
    if np.all(costly):
        return np.ones(len(candidates), dtype=bool)
    better = weights.unexplained < COSTLY_SHARE * np.min(weights.unexplained[~costly], axis=0)
    return np.asarray(~costly | np.any(better, axis=1))
