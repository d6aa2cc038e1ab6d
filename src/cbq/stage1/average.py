"""Averaging over kernels: by their evidence inside a family, by their leave-one-out errors between families.

The evidence is the right judge of a lengthscale, but not of smoothness: where f is analytic at most points and has a
kink at a few, it prefers the kernel that is right about the many, though the few decide the error of the integral. The
squared error of leaving one point out, pooled over all thetas, sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array
from cbq.samples import Samples
from cbq.samples.samples import spread
from cbq.stage1.quadrature import KernelEvidence

POWER = 2.0  # a family has the weight mse^-POWER
FEW = 4  # points: with fewer, a theta's own values say too little about its kernel


@dataclass(frozen=True, eq=False)
class KernelWeights:
    """The weights of K kernels, C outputs.

    kernel: (K, T, C), of each kernel at each theta. without: (K, n, C), the same with point i left out.
    unexplained: (F, C), the mean squared leave-one-out residuals of the families.
    residuals: (n, C), the leave-one-out residuals of the average.
    """

    kernel: Array
    without: Array
    unexplained: Array
    residuals: Array


def weigh(results: Sequence[KernelEvidence], samples: Samples) -> KernelWeights:
    """The weights of kernels from what they say about all T thetas, with their n points in one row.

    results: of F families, arrays (K, T, C) and (K, n, C) each.
    """
    within, without = zip(*(_within(r, samples) for r in results), strict=True)
    pooled = np.stack([np.sum(w * r.residuals, axis=0) for w, r in zip(without, results, strict=True)])
    unexplained = np.mean((pooled / spread(samples)[samples.owners]) ** 2, axis=1)
    family = inverse_power(unexplained)
    return KernelWeights(
        kernel=np.concatenate([weight * w for weight, w in zip(family, within, strict=True)]),
        without=np.concatenate([weight * w for weight, w in zip(family, without, strict=True)]),
        unexplained=unexplained,
        residuals=np.sum(family[:, None] * pooled, axis=0),
    )


def _within(result: KernelEvidence, samples: Samples) -> tuple[Array, Array]:
    """The weights of the kernels of a family: (K, T, C), and with each point left out (K, n, C)."""
    prior = _common(result.evidence[:, samples.counts >= FEW])
    return _softmax(result.evidence + prior), _softmax(result.evidence_without + prior)


def inverse_power(unexplained: Array) -> Array:
    """Weights of families (F, C) that fall with their errors; equal where all are zero."""
    largest = np.max(unexplained, axis=0)
    errors = np.where(largest > 0, np.maximum(unexplained, 1e-30 * largest), 1.0)
    weights = (np.min(errors, axis=0) / errors) ** POWER
    return np.asarray(weights / np.sum(weights, axis=0))


def _softmax(a: Array) -> Array:
    """exp(a) over its sum along the first axis."""
    e = np.exp(a - np.max(a, axis=0))
    return np.asarray(e / np.sum(e, axis=0))


def _common(evidence: Array) -> Array:
    """The logarithm of a prior for K kernels (K, 1, C): how often they are believed at thetas that have many points.

    A theta with few points learns from the others what is likely.
    """
    K, T, _ = evidence.shape
    believed = np.sum(_softmax(evidence), axis=1, keepdims=True) if T else np.zeros((K, 1, evidence.shape[2]))
    return np.asarray(np.log((believed + 1.0 / K) / (T + 1.0)))
