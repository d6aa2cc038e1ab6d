"""Factorisations of the small (d, d) covariances of measures: batched, on the host, plain NumPy."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array


def cholesky(cov: Array) -> Array:
    """Lower factors L (..., d, d) with L L' = cov; an error names the smallest eigenvalue."""
    try:
        return np.asarray(np.linalg.cholesky(cov), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        smallest = np.linalg.eigvalsh(cov).min()
        raise ValueError(
            f"cov must be positive definite, but its smallest eigenvalue is {smallest:.3g}: "
            f"variances must be positive and correlations below 1 in size."
        ) from error


def solve_lower(L: Array, b: Array) -> Array:
    """v (..., d) with L v = b, for lower triangular L (..., d, d) and b (..., d)."""
    v = np.empty(np.broadcast_shapes(L.shape[:-1], b.shape))
    for j in range(b.shape[-1]):
        v[..., j] = (b[..., j] - np.sum(L[..., j, :j] * v[..., :j], axis=-1)) / L[..., j, j]
    return v


def solve_upper(L: Array, b: Array) -> Array:
    """v (..., d) with L' v = b, for lower triangular L (..., d, d) and b (..., d)."""
    v = np.empty(np.broadcast_shapes(L.shape[:-1], b.shape))
    for j in reversed(range(b.shape[-1])):
        v[..., j] = (b[..., j] - np.sum(L[..., j + 1 :, j] * v[..., j + 1 :], axis=-1)) / L[..., j, j]
    return v
