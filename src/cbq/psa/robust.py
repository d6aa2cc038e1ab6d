"""What noise whose variance differs between rows adds to the error of EVPPI.

To first order EVPPI moves by influence_jc e_jc with the residual e_jc of output c at row j, so the variance of its
error is sum_j (sum_c influence_jc e_jc)^2 whatever the variances of the rows (the sandwich of White 1980), where the
regression believes sum_c s2_c sum_j influence_jc^2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cbq._arrays import Array, Integers
from cbq.psa.regression import RegressionPosterior, RowBlock


def extra_variance(
    surfaces: Sequence[RegressionPosterior], outputs: Array, offset: Array, B: Array, default: Integers
) -> Array:
    """By how much the first variance exceeds the second, 0 where it does not: (K,).

    outputs: (n, r). Net benefits are offset + Z . B, with offset (K, D) and B (K, r, D); default (K,) are the decisions
    that look best before anything is learnt.
    """
    n, noise = len(outputs), np.array([s.noise for s in surfaces])
    scale = np.sqrt(n / np.maximum(n - np.array([s.dof for s in surfaces]), 1.0))  # residuals are smaller than errors
    seen, believed = np.zeros(len(offset)), np.zeros(len(offset))
    for blocks, influence in influences(surfaces, offset, B, default):
        residual = outputs[blocks[0].rows] - _means(blocks)
        seen += np.sum(np.sum(influence * (scale * residual)[:, None, :], axis=-1) ** 2, axis=0)
        believed += np.sum(influence**2 @ noise, axis=0)
    return np.asarray(np.maximum(seen - believed, 0.0))


def influences(
    surfaces: Sequence[RegressionPosterior], offset: Array, B: Array, default: Integers
) -> Iterator[tuple[tuple[RowBlock, ...], Array]]:
    """Rows, and the derivatives (b, K, r) of the plug-in EVPPI by their outputs, amplitudes and kernels being known."""
    level, slopes = _slopes(surfaces, offset, B, default)
    for blocks in zip(*(s.blocks() for s in surfaces), strict=True):
        parts = zip(blocks, slopes, surfaces, strict=True)
        moves = [block.spread @ slope / surface.noise for block, slope, surface in parts]  # (b, K) each
        yield blocks, np.stack(moves, axis=-1) + level / surfaces[0].moments.n


def _slopes(
    surfaces: Sequence[RegressionPosterior], offset: Array, B: Array, default: Integers
) -> tuple[Array, list[Array]]:
    """How EVPPI moves with the means of Z over the rows, (K, r), and with the weights of each spread, (m, K)."""
    n = surfaces[0].moments.n
    level = np.zeros(B.shape[:2])
    slopes = [np.zeros((s.m, len(offset))) for s in surfaces]
    before = np.stack([b[:, at] for b, at in zip(B, default, strict=True)])  # (K, r)
    for blocks in zip(*(s.blocks() for s in surfaces), strict=True):
        best = np.argmax(offset[:, None, :] + _means(blocks) @ B, axis=-1)  # (K, b)
        chosen = np.stack([b[:, at].T for b, at in zip(B, best, strict=True)]) - before[:, None, :]  # (K, b, r)
        level += np.sum(chosen, axis=1) / n
        for c, block in enumerate(blocks):
            slopes[c] += block.spread.T @ chosen[..., c].T / n
    return level, slopes


def _means(blocks: Sequence[RowBlock]) -> Array:
    return np.stack([block.mean for block in blocks], axis=-1)
