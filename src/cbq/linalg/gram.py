"""Gram matrices filled and factored in one go, in chunks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, checked_out, finite
from cbq.linalg.cholesky import Factor, factor_batch
from cbq.linalg.features import Features, Fills, broadcast_features, leading_shape, take
from cbq.linalg.jitter import Jitter
from cbq.linalg.threads import blas_does_better, one_blas_thread, run, run_in_pool, workers

MEMORY = 256 * 2**20  # bytes
CACHE = 32 * 2**20  # bytes: memory that is used again while it is in the cache costs least
_MATRICES_PER_WORKER = 4
_BLOCK = 32768  # numbers in a block of rows: it stays in the cache, and the interpreter has little to do
_FEWEST_ROWS = 16


def factor_gram(
    kernel: Fills,
    x: npt.ArrayLike,
    *,
    nugget: npt.ArrayLike | None = None,
    jitter: Jitter = Jitter(),  # noqa: B008, it is immutable
    out: Array | None = None,
) -> Factor:
    """Factor k(x, x) + nugget + jitter for points x (..., N, d); in one dimension x may be (N,).

    nugget, jitter: as for `factor`.
    out: (..., N, N), where the factor is to be stored. A loop over chunks is faster if it passes the same
    memory each time, but then each factor is lost when the next one is made.
    """
    points = finite(x, "x")
    features = kernel.features(points.reshape(-1, 1) if points.ndim < 2 else points)
    *leading, n = leading_shape(features)
    batch = tuple(leading)
    rows = broadcast_features(features, batch)
    storage = np.empty((*batch, n, n)) if out is None else checked_out(out, (*batch, n, n), contiguous=True)
    few = blas_does_better(int(np.prod(batch)), n)

    def fill(index: tuple[int, ...], a: Array) -> None:
        fill_lower(kernel, take(rows, index), a, in_threads=few)

    return factor_batch(storage, fill, fill, nugget, jitter)


def fill_lower(kernel: Fills, features: Features, a: Array, *, in_threads: bool = False) -> None:
    """Fill the lower triangle of `a` (N, N) with the Gram matrix of the features, by blocks of rows."""
    n = len(a)
    step = max(_FEWEST_ROWS, _BLOCK // n)
    starts = range(0, n, step)

    def task(t: int) -> None:
        i, j = starts[t], min(starts[t] + step, n)
        block = np.empty((j - i, j))  # contiguous, which is faster to work in than rows of `a`
        kernel.fill(take(features, slice(i, j)), take(features, slice(j)), block)
        a[i:j, :j] = block

    if in_threads:
        with one_blas_thread():
            run_in_pool(task, len(starts), workers())
    else:
        run(task, range(len(starts)))


def chunks(T: int, N: int, *, arrays: int = 1, limit: int = MEMORY) -> Iterator[slice]:
    """Slices that cover 0, ..., T - 1, so that `arrays` stacks of (N, N) matrices take at most `limit` bytes.

    A single matrix above the limit goes alone. All slices but the last have the same length, which is no more
    than fits the cache or gives all threads work.
    """
    if T < 0 or N < 1 or arrays < 1:
        raise ValueError(f"chunks needs T >= 0, N >= 1 and arrays >= 1, but T={T}, N={N}, arrays={arrays}.")
    size = 8 * N * N * arrays
    most = max(1, min(limit // size, max(CACHE // size, _MATRICES_PER_WORKER * workers())))
    length = -(-T // max(1, -(-T // most)))
    for start in range(0, T, max(1, length)):
        yield slice(start, min(start + length, T))
