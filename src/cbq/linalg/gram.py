"""Gram matrices: features of points, distances of all pairs, filling and factoring in chunks of bounded memory.

Distances come from differences: |x|^2 + |y|^2 - 2 x.y would lose all digits for close points.

One formula serves arrays on the host, which are NumPy arrays and are never copied, and on the device of an engine:
`namespace`, `empty`, `moved` and `on_host` find its functions and move its arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cbq.common import Array, finite, is_whole, require_memory, shown
from cbq.linalg.cholesky import Factor, factor_batch
from cbq.linalg.jitter import DEFAULT_JITTER, Jitter, check_jitter
from cbq.linalg.threads import (
    for_each_span,
    one_blas_thread,
    prefers_blas_threads,
    row_blocks,
    run,
    run_in_pool,
    workers,
)

Features = tuple[Any, ...]

MEMORY = 256 * 2**20  # bytes
CACHE = 32 * 2**20  # bytes: chunks of this size are reused while they are in the cache
_MATRICES_PER_WORKER = 4


class Fills(Protocol):
    """The part of a kernel that this room calls."""

    def features(self, x: Array) -> Features:
        """Input of `fill` for points x (..., N, d), linear in their number."""

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        """Write k (..., n, m) into the C-ordered `out` from features (..., n, k) and (..., m, k)."""

    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        """Write dk / d log_lengthscales (P, ..., n, m) into `out`, from features as for `fill`."""

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        """sum_ij G_ij dk_ij / d log_lengthscales (..., P) from features and weights G (..., n, m)."""


def take(features: Features, index: Any) -> Features:
    """Index every array of the features."""
    return tuple(take(a, index) if isinstance(a, tuple) else a[index] for a in features)


def leading_shape(features: Features) -> tuple[int, ...]:
    """The axes (..., N) that the arrays of the features, each (..., N, k), have in common."""
    shapes = [leading_shape(a) if isinstance(a, tuple) else a.shape[:-1] for a in features]
    return np.broadcast_shapes(*shapes)


def flat_features(features: Features, batch: tuple[int, ...]) -> Features:
    """Every array (..., N, k) of the features broadcast to the leading axes `batch`, as one axis: (B, N, k)."""
    return tuple(
        flat_features(a, batch)
        if isinstance(a, tuple)
        else np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(prod(batch), *a.shape[-2:])
        for a in features
    )


def namespace(array: Any) -> Any:
    """The library of an array: NumPy, or the library of an engine, which has functions of the same names."""
    return np if isinstance(array, np.ndarray) else sys.modules[type(array).__module__.partition(".")[0]]


def empty(shape: tuple[int, ...], like: Any) -> Any:
    """A C-ordered array of this shape, on the device of the array `like`."""
    return np.empty(shape) if isinstance(like, np.ndarray) else like.new_empty(shape)


def moved(a: npt.NDArray[Any], like: Any) -> Any:
    """The array `a` on the device of the array `like`; `a` itself if that is the host."""
    if isinstance(like, np.ndarray):
        return a
    return namespace(like).tensor(np.ascontiguousarray(a), device=like.device)


def moved_features(features: Features, like: Any) -> Features:
    """Every array of the features on the device of the array `like`."""
    return tuple(moved_features(a, like) if isinstance(a, tuple) else moved(a, like) for a in features)


def on_host(a: Any) -> Array:
    """An array of an engine as a NumPy array."""
    return a if isinstance(a, np.ndarray) else np.asarray(a.cpu().contiguous().numpy())


def gram_matrix(kernel: Fills, x: Array) -> Array:
    """k(x, x) (N, N) of points x (N, d)."""
    features = kernel.features(x)
    out = np.empty((len(x), len(x)))
    kernel.fill(features, features, out)
    return out


def factor_gram(
    kernel: Fills,
    x: npt.ArrayLike,
    *,
    nugget: npt.ArrayLike | None = None,
    jitter: Jitter = DEFAULT_JITTER,
) -> Factor:
    """Factor k(x, x) + nugget + jitter for points x (..., N, d); see `cbq.linalg.factor_gram`."""
    rows, batch, n = gram_features(kernel, x)
    check_jitter(jitter)
    require_memory(prod(batch) * n * n, f"a Gram matrix of {n} points x", "pass fewer")
    few = prefers_blas_threads(prod(batch), n)

    def fill(span: slice, a: Array) -> None:
        fill_lower(kernel, take(rows, span), a, in_threads=few)

    return factor_batch(np.empty((*batch, n, n)), fill, fill, nugget, jitter)


def gram_features(kernel: Fills, x: npt.ArrayLike) -> tuple[Features, tuple[int, ...], int]:
    """The flat features (B, N, k) of points x (..., N, d), the batch shape of their Gram matrices, and N."""
    if not callable(getattr(kernel, "features", None)):
        raise TypeError(f"kernel must be a kernel, such as cbq.kernels.RBF(0.5), but it is {shown(kernel)}.")
    points = finite(x, "x")
    features = kernel.features(points.reshape(-1, 1) if points.ndim < 2 else points)
    *batch, n = leading_shape(features)
    return flat_features(features, tuple(batch)), tuple(batch), n


def contract_gram(kernel: Fills, features: Features, G: Array, P: int) -> Array:
    """sum_ij G_ij dk_ij / d log_lengthscales (B, P) for features (B, N, k) and symmetric G (B, N, N), of any engine."""
    if not isinstance(G, np.ndarray):
        return contract(kernel, features, features, G)
    n = G.shape[-1]
    out = np.empty((len(G), P))
    few = prefers_blas_threads(len(G), n)

    def task(span: slice) -> None:
        out[span] = contract_lower(kernel, take(features, span), G[span], in_threads=few)

    for_each_span(task, len(G), n, 30 * n**2)
    return out


def fill(write: Callable[[Features, Features, Any], None], fx: Features, fy: Features, out: Any) -> None:
    """Call `write`, `fill` or `fill_derivatives` of a kernel, on features of the host and `out` of any engine."""
    try:
        write(moved_features(fx, out), moved_features(fy, out), out)
    except Exception:
        # A kernel written for NumPy alone fails here. Any other error recurs on the host.
        if isinstance(out, np.ndarray):
            raise
        on_numpy = np.empty(out.shape)
        write(fx, fy, on_numpy)
        out[...] = moved(on_numpy, out)


def contract(kernel: Fills, fx: Features, fy: Features, G: Any) -> Array:
    """`contract_features` of a kernel, on features of the host and weights G of any engine."""
    try:
        return on_host(kernel.contract_features(moved_features(fx, G), moved_features(fy, G), G))
    # As in `fill`.
    except Exception:
        if isinstance(G, np.ndarray):
            raise
        return kernel.contract_features(fx, fy, on_host(G))


def fill_lower(kernel: Fills, features: Features, a: Array, *, in_threads: bool = False) -> None:
    """Fill the lower triangles of `a` (B, N, N) with the Gram matrices of features (B, N, k), by blocks of rows."""
    blocks = row_blocks(a.shape[-1], len(a))

    def task(t: int) -> None:
        fx, fy, place = lower_block(features, blocks[t])
        # A contiguous block is faster than rows of `a`.
        block = np.empty(a[place].shape)
        kernel.fill(fx, fy, block)
        a[place] = block

    if len(blocks) == 1:
        kernel.fill(features, features, a)
    else:
        for_each_block(task, len(blocks), in_threads)


def contract_lower(kernel: Fills, features: Features, G: Array, *, in_threads: bool = False) -> Array:
    """The sums of `contract_gram` by blocks of rows; the part left of the diagonal block counts twice."""
    blocks = row_blocks(G.shape[-1], len(G))
    parts = [np.empty(0)] * len(blocks)

    def task(t: int) -> None:
        fx, fy, place = lower_block(features, blocks[t])
        weights = G[place].copy()
        weights[..., : blocks[t].start] *= 2.0
        parts[t] = kernel.contract_features(fx, fy, weights)

    for_each_block(task, len(blocks), in_threads)
    return np.asarray(sum(parts))


def inner(a: Array, b: Array) -> Array:
    """sum_ij a_ij b_ij (...) of C-ordered matrices a, b (..., n, m)."""
    rows = a.reshape(*a.shape[:-2], 1, prod(a.shape[-2:]))
    columns = b.reshape(*b.shape[:-2], prod(b.shape[-2:]), 1)
    return np.asarray((rows @ columns)[..., 0, 0]) if isinstance(a, np.ndarray) else (a * b).sum((-2, -1))


def lower_block(features: Features, rows: slice) -> tuple[Features, Features, tuple[slice, slice, slice]]:
    """The part of lower triangles (B, N, N) in some rows: features of its rows and columns, and its place."""
    whole, columns = slice(None), slice(rows.stop)
    return take(features, (whole, rows)), take(features, (whole, columns)), (whole, rows, columns)


def for_each_block(task: Callable[[int], None], count: int, in_threads: bool) -> None:
    """Call `task` on 0, ..., count - 1, the blocks of a matrix, maybe in threads."""
    if in_threads:
        with one_blas_thread():
            run_in_pool(task, count, workers())
    else:
        run(task, range(count))


def chunks(T: int, N: int, *, arrays: int = 1, limit: int = MEMORY, all_at_once: bool = False) -> Iterator[slice]:
    """Slices that cover 0, ..., T - 1, so that `arrays` stacks of (N, N) matrices take at most `limit` bytes.

    A single matrix above the limit goes alone. All slices but the last have the same length; unless `all_at_once`, it
    is just enough to fill the cache or to give all threads work.
    """
    if not (is_whole(T) and is_whole(N, 1) and is_whole(arrays, 1)):
        given = f"T={shown(T)}, N={shown(N)}, arrays={shown(arrays)}"
        raise ValueError(f"chunks needs T >= 0, N >= 1 and arrays >= 1, but {given}.")
    size = 8 * N * N * arrays
    enough = T if all_at_once else max(CACHE // size, _MATRICES_PER_WORKER * workers())
    most = max(1, min(limit // size, enough))
    length = -(-T // max(1, -(-T // most)))
    for start in range(0, T, max(1, length)):
        yield slice(start, min(start + length, T))


def sqdist(x: Array, y: Array, out: Array) -> Array:
    """|x_i - y_j|^2 for x (..., n, d), y (..., m, d), written into the C-ordered `out` (..., n, m)."""
    xp = namespace(out)
    if x.shape[-1] == 1 or xp is not np:
        differences(x, y, 0, out)
        xp.multiply(out, out, out=out)
        for j in range(1, x.shape[-1]):
            apart = differences(x, y, j)
            out += xp.multiply(apart, apart, out=apart)
    elif out.ndim > 2:
        for i in range(len(out)):
            sqdist(x[i], y[i], out[i])
    else:
        _cdist()(x, y, "sqeuclidean", out=out)
    return out


def differences(x: Array, y: Array, j: int, out: Array | None = None) -> Array:
    """x_j - y_j for all pairs from x (..., n, d), y (..., m, d): (..., n, m)."""
    xp = namespace(x)
    # The inner loop runs along this axis.
    row = np.ascontiguousarray(y[..., j]) if xp is np else y[..., j]
    return xp.subtract(x[..., j, None], row[..., None, :], out=out)  # type: ignore[no-any-return]


@cache
def _cdist() -> Callable[..., Any]:
    # Releases the interpreter lock, 2 to 4 times faster than NumPy for d >= 2, but takes 0.1 s to import.
    from scipy.spatial.distance import cdist

    return cdist
