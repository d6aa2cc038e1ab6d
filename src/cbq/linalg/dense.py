"""Decompositions of single matrices of moderate size, on the host: eigenvalues, singular values, ranks, linear systems.

Batches of Gram matrices have routines of their own, see `cholesky`.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from cbq._arrays import Array
from cbq.linalg.threads import LARGE, one_blas_thread


def eigh(a: Array) -> tuple[Array, Array]:
    """Eigenvalues (n,) in ascending order, and eigenvectors as the columns of (n, n), of a symmetric matrix."""
    values, vectors = np.linalg.eigh(a)
    return np.asarray(values), np.asarray(vectors)


def thin_svd(a: Array) -> tuple[Array, Array, Array]:
    """U (n, r), s (r,) and V' (r, m) with a = U diag(s) V', r = min(n, m)."""
    U, s, Vt = np.linalg.svd(a, full_matrices=False)
    return np.asarray(U), np.asarray(s), np.asarray(Vt)


def qr(a: Array) -> tuple[Array, Array]:
    """Q (n, r) with orthonormal columns and upper triangular R (r, m), with a = Q R."""
    Q, R = np.linalg.qr(a)
    return np.asarray(Q), np.asarray(R)


def has_full_column_rank(a: Array) -> bool:
    """Whether no column of a (n, m) is a combination of the others, up to rounding."""
    return bool(np.linalg.matrix_rank(a) == a.shape[1])


def solve(a: Array, b: Array) -> Array:
    """x with a x = b, for a square matrix of a few rows."""
    return np.asarray(np.linalg.solve(a, b))


def symmetric_root(cov: Array) -> Array:
    """The symmetric root (M, M) of a covariance that may be singular, or slightly negative by rounding.

    Of all roots it is the one that belongs to the matrix alone, so that draws of two distributions can be made to agree.
    """
    with one_blas_thread() if len(cov) < LARGE else nullcontext():
        values, vectors = np.linalg.eigh(cov)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def nearest_psd(covariance: Array, variance: Array) -> Array:
    """The covariance (M, M) without its negative directions, which rounding made, and with these variances (M,)."""
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    found = (vectors * np.maximum(values, 0.0)) @ vectors.T
    own = np.diagonal(found)
    factors = np.sqrt(np.divide(variance, own, out=np.zeros_like(variance), where=own > 0))
    found = found * np.outer(factors, factors)
    np.fill_diagonal(found, variance)
    return np.asarray(found)
