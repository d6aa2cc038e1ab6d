"""Decompositions of single dense matrices."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array


def eigh(a: Array) -> tuple[Array, Array]:
    """The eigenvalues (n,) of a symmetric matrix (n, n), in ascending order, and its eigenvectors as columns (n, n)."""
    return np.linalg.eigh(a)


def thin_svd(a: Array) -> tuple[Array, Array, Array]:
    """U (n, k), the singular values (k,) in descending order and V' (k, m) of a matrix (n, m), with k = min(n, m)."""
    return np.linalg.svd(a, full_matrices=False)
