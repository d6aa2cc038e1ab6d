"""LAPACK and BLAS routines on stacks of C-ordered matrices, in place, without the interpreter lock.

The wrappers of `scipy.linalg.lapack` hold the lock while LAPACK works, so that threads over a batch gain nothing with
them. A foreign call through ctypes releases it; SciPy exports the addresses to Cython code.

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

from cbq.common.arrays import Array

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
