"""Decompositions of single matrices and of small covariances, on the host, by NumPy.

For batches of Gram matrices see `cholesky`.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from cbq.common.arrays import Array, Integers
from cbq.linalg.lapack import trtri
from cbq.linalg.threads import blas_threads, one_blas_thread, stacked

PANEL = 32  # columns per block of a QR decomposition


def eigh(a: Array) -> tuple[Array, Array]:
    """Eigenvalues (n,) in ascending order, and eigenvectors as the columns of (n, n), of a symmetric matrix."""
    values, vectors = np.linalg.eigh(a)
    return np.asarray(values), np.asarray(vectors)


def thin_svd(a: Array) -> tuple[Array, Array, Array]:
    """U (n, r), s (r,) and V' (r, m) with a = U diag(s) V', r = min(n, m)."""
    U, s, Vt = np.linalg.svd(a, full_matrices=False)
    return np.asarray(U), np.asarray(s), np.asarray(Vt)


def orthonormal(a: Array) -> Array:
    """An orthonormal basis (n, m) of the column space of a (n, m), m <= n; uniformly distributed if a is normal."""
    Q, R = np.linalg.qr(a)
    return np.asarray(Q * np.where(np.diagonal(R) < 0, -1.0, 1.0))


def append_rows(R: Array, block: Array) -> Array:
    """The upper triangular factor (m, m) of a matrix with the factor R (m, m) and further rows, `block` (b, m).

    No product of the matrix with itself is formed: that would square its condition number.
    """
    longer, _, _, info = lapack.dtpqrt(0, min(PANEL, len(R)), R, block)
    if info:
        raise RuntimeError(f"dtpqrt refused its argument {-info}.")
    return np.asarray(longer)


def has_full_column_rank(a: Array) -> bool:
    """Whether no column of a (n, m) is a combination of the others, up to rounding."""
    return bool(np.linalg.matrix_rank(a) == a.shape[1])


def solve(a: Array, b: Array) -> Array:
    """x with a x = b, for a square matrix of a few rows."""
    return np.asarray(np.linalg.solve(a, b))


def symmetric_root(cov: Array) -> Array:
    """The symmetric root (M, M) of a covariance that may be singular, or slightly negative by rounding.

    It depends on the matrix alone, so that draws of two distributions can be made to agree.
    """
    with blas_threads(len(cov)):
        values, vectors = np.linalg.eigh(cov)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def nearest_psd(covariance: Array, variance: Array) -> Array:
    """The covariance (M, M) without negative eigenvalues, which are rounding errors, and with these variances (M,)."""
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    psd = (vectors * np.maximum(values, 0.0)) @ vectors.T
    own = np.diagonal(psd)
    factors = np.sqrt(np.divide(variance, own, out=np.zeros_like(variance), where=own > 0))
    psd = psd * np.outer(factors, factors)
    np.fill_diagonal(psd, variance)
    return np.asarray(psd)


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


def inverse_root(a: Array) -> Array:
    """W (..., b, b) with W'W = a^-1, for positive definite a (..., b, b); singular ones count as barely definite.

    By Cholesky where possible: it keeps the digits of pivots that are small through their units; eigenvectors mix them.
    """
    eps = np.finfo(float).eps
    try:
        W = np.ascontiguousarray(np.linalg.cholesky(a))
        own, pivots2 = np.diagonal(a, axis1=-2, axis2=-1), np.diagonal(W, axis1=-2, axis2=-1) ** 2
        known = bool(np.all(pivots2 > a.shape[-1] * eps * own))
    except np.linalg.LinAlgError:
        known = False
    if known:
        trtri(stacked(W))
        return np.asarray(W)
    if a.ndim > 2:
        return np.stack([inverse_root(matrix) for matrix in a])
    values, vectors = eigh(a)
    return np.asarray((vectors / np.sqrt(np.maximum(values, eps * values[-1]))).T)


def pivots(a: Array, negligible: float) -> Integers:
    """Rows (r,) of a covariance (n, n): each has the largest variance given the earlier rows, until it is negligible.

    The rows are the pivots of a Cholesky factorisation; r is at least 1. `a` is overwritten.
    """
    # The choice between nearly equal variances must not depend on the number of threads.
    with one_blas_thread():
        _, order, rank, _ = lapack.dpstrf(a.T, tol=negligible, lower=1, overwrite_a=1)
    return np.asarray(order[: max(int(rank), 1)] - 1, dtype=np.intp)


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


def correlation(errors: Array) -> Array:
    """The correlation (C, C) of errors (n, C) around zero; an output whose errors are all zero has no correlations."""
    unit = np.max(np.abs(errors), axis=0, initial=0.0)
    scaled = np.divide(errors, unit, out=np.zeros(errors.shape), where=unit > 0)
    products = scaled.T @ scaled
    size = np.sqrt(np.diagonal(products))
    matrix = np.divide(products, np.outer(size, size), out=np.eye(len(size)), where=np.outer(size, size) > 0)
    np.fill_diagonal(matrix, 1.0)
    return np.asarray(np.clip(matrix, -1.0, 1.0))
