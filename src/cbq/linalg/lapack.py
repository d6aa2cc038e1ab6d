"""LAPACK on the host: stacks of matrices in place, and decompositions of single matrices by NumPy and SciPy.

Threads over a stack need routines that release the interpreter lock. The wrappers of `scipy.linalg.lapack` hold it
while LAPACK works. A foreign call through ctypes releases it; SciPy exports the addresses to Cython code.

LAPACK counts columns first: its upper triangle is the lower triangle of a C-ordered matrix, and its columns are our
rows. A factor here is the lower triangle L of a C-ordered matrix (n, n), and right-hand sides are the rows of a
C-ordered matrix (m, n).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack
from scipy.linalg import lapack as scipy_lapack

from cbq.common import Array, Integers
from cbq.linalg.threads import blas_threads, one_blas_thread, stacked

PANEL = 32  # columns per block of a QR decomposition
_CTYPES: dict[str, Any] = {"char": ctypes.c_char_p, "int": ctypes.c_void_p, "double": ctypes.c_void_p}
_ONE, _MINUS_ONE = ctypes.c_double(1.0), ctypes.c_double(-1.0)


def routine(module: ModuleType, name: str, arguments: str) -> Callable[..., None]:
    """The routine `name` that `module` exports to Cython, if its arguments are the expected ones.

    arguments: the type behind each pointer. A build of SciPy with integers of another width fails here, before it can
    overwrite memory.
    """
    capsule = getattr(module, "__pyx_capi__")[name]  # noqa: B009, the attribute is not in the type stubs
    signature = _capsule_name(capsule)
    expected = f"void ({', '.join(f'{kind} *' for kind in arguments.split())})"
    if re.sub(r"__pyx_t_\w+_d\b", "double", signature.decode()) != expected:
        raise ImportError(
            f"{module.__name__}.{name} has the C signature {signature.decode()!r}, but {expected!r} was "
            f"expected: cbq does not know this build of SciPy (64-bit integers?). "
            f"Install one of the standard wheels of SciPy."
        )
    prototype = ctypes.CFUNCTYPE(None, *(_CTYPES[kind] for kind in arguments.split()))
    return prototype(_capsule_pointer(capsule, signature))


def potrf(stack: Array) -> list[int]:
    """Overwrite the lower triangles of `stack` (B, n, n) with Cholesky factors; the rest of it is not touched.

    Returns for each matrix 0, or the size of the first leading minor that is not positive.
    """
    n, info = _int(stack.shape[-1]), _int(0)
    results = []
    for a in _addresses(stack):
        _dpotrf(b"U", n, a, n, info)
        results.append(_checked(info, "dpotrf"))
    return results


def potri(stack: Array) -> None:
    """Overwrite factors L, the lower triangles of `stack` (B, n, n), with the lower triangles of (L L')^-1."""
    trtri(stack)
    n, info = _int(stack.shape[-1]), _int(0)
    for a in _addresses(stack):
        _dlauum(b"U", n, a, n, info)
        _checked(info, "dlauum")


def trtri(stack: Array, leaf: int = 64) -> None:
    """Overwrite factors L, the lower triangles of `stack` (B, n, n), with their inverses; nothing else of it.

    By halves, down to a few rows: nearly all of the work is then products of matrices, and dtrtri on the whole takes
    1.1 times (n = 1000) to 1.7 times (n = 300) as long.
    """
    n = stack.shape[-1]
    for a in _addresses(stack):
        _invert(a, n, n, leaf)


def _invert(a: int, n: int, N: int, leaf: int) -> None:
    """Invert the lower triangle (n, n) at the address `a`, whose rows are N numbers apart."""
    if n <= leaf:
        info = _int(0)
        _dtrtri(b"U", b"N", _int(n), a, _int(N), info)
        _checked(info, "dtrtri")
        return
    h = n // 2
    below, last = a + 8 * h * N, a + 8 * h * (N + 1)  # of the blocks [first 0; below last]
    _invert(a, h, N, leaf)
    _invert(last, n - h, N, leaf)
    # below <- -last^-1 below first^-1
    _dtrmm(b"L", b"U", b"N", b"N", _int(h), _int(n - h), ctypes.byref(_MINUS_ONE), a, _int(N), below, _int(N))
    _dtrmm(b"R", b"U", b"N", b"N", _int(h), _int(n - h), ctypes.byref(_ONE), last, _int(N), below, _int(N))


def tril(stack: Array) -> Array:
    """The lower triangles of `stack` (B, n, n), with zeros above: a copy, in a fifth of the time of `np.tril`."""
    out, n = np.zeros(stack.shape), _int(stack.shape[-1])
    for a, b in zip(_addresses(stack), _addresses(out), strict=True):
        _dlacpy(b"U", n, n, a, n, b, n)
    return out


def potrs(stack: Array, rows: Array) -> None:
    """Overwrite each row v of `rows` (B, m, n) with (L L')^-1 v, for the factors L of `stack` (B, n, n)."""
    n, m, info = _int(stack.shape[-1]), _int(rows.shape[-2]), _int(0)
    for a, b in zip(_addresses(stack), _addresses(rows), strict=True):
        _dpotrs(b"U", n, m, a, n, b, n, info)
        _checked(info, "dpotrs")


def trsm(stack: Array, rows: Array, start: int = 0) -> None:
    """Overwrite each row v of `rows` (B, m, n) with L^-1 v, for the factors L of `stack` (B, n, n).

    start: the first row and column of L that count; then rows are (B, m, n - start).
    """
    N, n, m, one = stack.shape[-1], _int(rows.shape[-1]), _int(rows.shape[-2]), ctypes.byref(_ONE)
    for a, b in zip(_addresses(stack), _addresses(rows), strict=True):
        _dtrsm(b"L", b"U", b"T", b"N", n, m, one, a + 8 * start * (N + 1), _int(N), b, n)


def _int(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _addresses(stack: Array) -> list[int]:
    """The address of each matrix of a stack (B, m, n): a loop over these is much cheaper than over the matrices."""
    if stack.ndim != 3 or not stack.flags.c_contiguous or stack.dtype != np.float64:
        raise ValueError("LAPACK needs a C-ordered float64 stack of matrices.")
    start, step = int(stack.__array_interface__["data"][0]), 8 * stack.shape[1] * stack.shape[2]
    return [start + i * step for i in range(len(stack))]


def _checked(info: Any, name: str) -> int:
    value = int(info._obj.value)
    if value < 0:
        raise RuntimeError(f"{name} refused its argument {-value}.")
    return value


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.argtypes, _capsule_name.restype = [ctypes.py_object], ctypes.c_char_p
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p

_dpotrf = routine(cython_lapack, "dpotrf", "char int double int int")
_dlauum = routine(cython_lapack, "dlauum", "char int double int int")
_dlacpy = routine(cython_lapack, "dlacpy", "char int int double int double int")
_dpotrs = routine(cython_lapack, "dpotrs", "char int int double int double int int")
_dtrtri = routine(cython_lapack, "dtrtri", "char char int double int int")
_dtrsm = routine(cython_blas, "dtrsm", "char char char char int int double double int double int")
_dtrmm = routine(cython_blas, "dtrmm", "char char char char int int double double int double int")


# Decompositions of single matrices, and of small covariances


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
    longer, _, _, info = scipy_lapack.dtpqrt(0, min(PANEL, len(R)), R, block)
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
        _, order, rank, _ = scipy_lapack.dpstrf(a.T, tol=negligible, lower=1, overwrite_a=1)
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
