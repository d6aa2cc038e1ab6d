"""Factors of batches of Gram matrices: factor once, then solve, log-determinant, inverse.

This is the contract of the linear algebra: fill a batch of Gram matrices (`gram.factor_gram`, in
`gram.chunks` that bound the memory), factor, solve, log-determinant. Nothing else in the package calls a
Cholesky factorisation or a triangular solve of Gram matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, broadcast_batch, finite, real
from cbq.linalg import lapack
from cbq.linalg.jitter import Jitter, factor_in_place, not_finite
from cbq.linalg.threads import for_each

_REFLECT_BLOCK = 64  # rows: two blocks in the innermost cache


@dataclass(frozen=True, eq=False)
class Factor:
    """Cholesky factors L of K + nugget + jitter, K (..., N, N).

    storage: (..., N, N), L in the lower triangles, anything above; `lower` gives L alone.
    jitter: (...,) what was added to each diagonal beside the nugget; `logdet` and the solves contain it.
    relative_jitter: (...,) the same in units of the mean diagonal of K.

    Right-hand sides are matrices (..., N, M), a vector being b[..., None]: no exceptions, because the shape
    alone cannot tell a batch of vectors from a matrix. Leading axes broadcast.
    """

    storage: Array
    jitter: Array
    relative_jitter: Array

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The leading axes."""
        return self.storage.shape[:-2]

    @property
    def n(self) -> int:
        """The size N of each matrix."""
        return int(self.storage.shape[-1])

    @property
    def lower(self) -> Array:
        """L (..., N, N), with zeros above the diagonal: a copy."""
        return np.tril(self.storage)

    @property
    def logdet(self) -> Array:
        """log |L L'|: (...,)."""
        diagonals = np.diagonal(self.storage, axis1=-2, axis2=-1)
        return np.asarray(2.0 * np.sum(np.log(diagonals), axis=-1))

    def solve_lower(self, b: npt.ArrayLike) -> Array:
        """L^-1 b for b (..., N, M)."""
        return self._solve(b, lapack.trsm, flops=self.n**2)

    def solve(self, b: npt.ArrayLike) -> Array:
        """(L L')^-1 b for b (..., N, M)."""
        return self._solve(b, lapack.potrs, flops=2 * self.n**2)

    def inverse(self) -> Array:
        """(L L')^-1 (..., N, N), symmetric, for the places that need all of it; to solve, use `solve`."""
        out = np.empty(self.storage.shape)
        indices = list(np.ndindex(self.batch_shape))

        def task(t: int) -> None:
            a = out[indices[t]]
            a[...] = self.storage[indices[t]]
            lapack.potri(a)
            reflect(a)

        for_each(task, len(indices), self.n, 2 / 3 * self.n**3)
        return out

    def _solve(self, b: npt.ArrayLike, routine: Callable[[Array, Array], None], flops: float) -> Array:
        b = as_float64(b, "b")
        if b.ndim < 2 or b.shape[-2] != self.n:
            raise ValueError(
                f"b has shape {b.shape}, but right-hand sides must have shape (..., {self.n}, M): "
                f"write b[..., None] for one vector per matrix."
            )
        m = b.shape[-1]
        batch = broadcast_batch({"the factor": self.batch_shape, "b": b.shape[:-2]}, "solve")
        storage = np.broadcast_to(self.storage, (*batch, self.n, self.n))
        columns = np.broadcast_to(b, (*batch, self.n, m)).swapaxes(-1, -2)
        out = np.empty((*batch, m, self.n))
        indices = list(np.ndindex(batch))

        def task(t: int) -> None:
            i = indices[t]
            out[i] = columns[i]
            routine(storage[i], out[i])

        for_each(task, len(indices), self.n, m * flops)
        return out.swapaxes(-1, -2)


def factor(
    K: npt.ArrayLike,
    *,
    nugget: npt.ArrayLike | None = None,
    jitter: Jitter = Jitter(),  # noqa: B008, it is immutable
    overwrite: bool = False,
) -> Factor:
    """Factor K + nugget + jitter for symmetric K (..., N, N).

    nugget: a number, (...,) for one per matrix, or (..., N) for one per point; it is added to the diagonal.
    jitter: the least jitter that lets the factorisation succeed, see `Jitter`.
    overwrite: the factor may take the place of K (also when this fails), if K is a C-ordered float64 array.
    """
    given = as_float64(K, "K")
    if given.ndim < 2 or given.shape[-1] != given.shape[-2]:
        raise ValueError(f"K has shape {given.shape}, but symmetric matrices (..., N, N) are expected.")
    in_place = overwrite and given.flags.c_contiguous and given.flags.writeable
    storage = given if in_place else np.empty(given.shape)

    def fill(index: tuple[int, ...], a: Array) -> None:
        if not in_place:
            a[...] = given[index]
        # the sum is NaN or inf if an element is, and takes one pass without a temporary
        if not np.isfinite(a.sum()) and not np.isfinite(a).all():
            raise not_finite(index)

    def restore(index: tuple[int, ...], a: Array) -> None:
        reflect(a.T)

    return factor_batch(storage, fill, restore, nugget, jitter)


def factor_batch(
    storage: Array,
    fill: Callable[[tuple[int, ...], Array], None],
    restore: Callable[[tuple[int, ...], Array], None],
    nugget: npt.ArrayLike | None,
    jitter: Jitter,
) -> Factor:
    """Fill each matrix of `storage` (..., N, N) and factor it there, while it is in the cache.

    `fill(index, a)` writes at least the lower triangle of a matrix; `restore(index, a)` brings the part below
    the diagonal back after a failed factorisation, which leaves the part above as it was.
    """
    batch, n = storage.shape[:-2], storage.shape[-1]
    if n == 0:
        raise ValueError("the matrices have no rows (N = 0): at least one point is needed.")
    nuggets = nugget_rows(nugget, batch, n)
    relative, absolute = np.empty(batch), np.empty(batch)
    indices = list(np.ndindex(batch))

    def task(t: int) -> None:
        i = indices[t]
        a = storage[i]
        fill(i, a)
        relative[i], absolute[i] = factor_in_place(a, nuggets[i], jitter, lambda a: restore(i, a), i)

    for_each(task, len(indices), n, n**3 / 3 + 30 * n**2)
    return Factor(read_only(storage), read_only(absolute), read_only(relative))


def nugget_rows(nugget: npt.ArrayLike | None, batch: tuple[int, ...], n: int) -> Array:
    """The nugget as (*batch, N), from None, a number, (*batch,) or (*batch, N)."""
    if nugget is None:
        return np.broadcast_to(0.0, (*batch, n))
    values = finite(nugget, "nugget")
    if np.any(values < 0):
        raise ValueError(f"nugget must not be negative, but its smallest value is {values.min():g}.")
    per_matrix = values.ndim == len(batch)
    try:
        if values.ndim not in (0, len(batch), len(batch) + 1):
            raise ValueError("neither one per matrix nor one per point")
        return np.broadcast_to(values[..., None] if per_matrix else values, (*batch, n))
    except ValueError as error:
        raise ValueError(
            f"nugget has shape {values.shape}, but it must be a number, {batch} for one per matrix or "
            f"{(*batch, n)} for one per point."
        ) from error


def reflect(a: Array) -> None:
    """Copy the part of `a` (n, n) below the diagonal to above it; of `a.T`, the part above to below."""
    n, step = len(a), _REFLECT_BLOCK
    for i in range(0, n, step):
        j = min(i + step, n)
        a[i:j, j:] = a[j:, i:j].T
        corner = a[i:j, i:j]
        np.copyto(corner, corner.T.copy(), where=np.tri(j - i, dtype=bool).T)


def as_float64(value: npt.ArrayLike, name: str) -> Array:
    """`value` as a float64 array, without a copy where it is one."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.flags.aligned:
        return value
    return real(value, name)


def read_only(a: Array) -> Array:
    """A view that cannot be written to."""
    view = a.view()
    view.setflags(write=False)
    return view
