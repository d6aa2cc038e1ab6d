"""Factors of batches of Gram matrices: factor once, then solve, log-determinant, inverse.

Code outside this room calls `cbq.linalg.factor` and `factor_gram`, which go through the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cbq.common import Array, broadcast_batch, finite, flag, real, require_memory
from cbq.linalg import lapack
from cbq.linalg.jitter import DEFAULT_JITTER, Jitter, check_jitter, factor_in_place
from cbq.linalg.threads import LARGE, for_each_span, stacked

_REFLECT_BLOCK = 64  # rows: two blocks in the innermost cache
_COLUMNS = 128  # of the inverse of a large factor, at a time


@dataclass(frozen=True, eq=False)
class Factor(ABC):
    """Cholesky factors L of K + nugget + jitter, K (..., N, N), on the device of the engine that made them.

    storage: (..., N, N), L in the lower triangles, anything above; `lower` gives L alone.
    jitter: (...,) added to each diagonal beside the nugget; `logdet` and the solves include it.
    relative_jitter: (...,) the same in units of the mean diagonal of K.

    Right-hand sides are always matrices (..., N, M), with b[..., None] for a vector, because the shape of a batch of
    vectors could also be the shape of a matrix. Leading axes broadcast.

    Examples
    --------
    >>> factor = cbq.linalg.factor([[4.0, 0.0], [0.0, 9.0]])
    >>> float(factor.logdet.round(4))  # log 36
    3.5835
    """

    storage: Any
    jitter: Array
    relative_jitter: Array

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The leading axes."""
        return tuple(self.storage.shape[:-2])

    @property
    def n(self) -> int:
        """The size N of each matrix."""
        return int(self.storage.shape[-1])

    @property
    @abstractmethod
    def lower(self) -> Array:
        """L (..., N, N), with zeros above the diagonal: a copy."""

    @property
    @abstractmethod
    def logdet(self) -> Array:
        """log |L L'|: (...,)."""

    def __getitem__(self, rows: slice) -> Self:
        """The factors in a slice of the first axis of the batch."""
        return type(self)(self.storage[rows], self.jitter[rows], self.relative_jitter[rows])

    def solve_lower(self, b: npt.ArrayLike) -> Array:
        """L^-1 b for b (..., N, M)."""
        return self._solve(b, self._solve_lower_rows)

    def solve(self, b: npt.ArrayLike) -> Array:
        """(L L')^-1 b for b (..., N, M)."""
        return self._solve(b, self._solve_rows)

    @abstractmethod
    def inverse(self) -> Array:
        """(L L')^-1 (..., N, N), symmetric; to solve linear systems, use `solve`."""

    @abstractmethod
    def resident_inverse(self) -> Any:
        """`inverse` as an array on the device of the factors."""

    @abstractmethod
    def resident_solve_lower(self, b: Any) -> Any:
        """L^-1 b of a single factor for b (N, M), as arrays on the device of the factor."""

    @abstractmethod
    def inverse_root(self) -> Array:
        """L^-1 (..., N, N), in a third of the operations of solving for the identity."""

    @abstractmethod
    def inverse_diagonal(self) -> Array:
        """The diagonal (..., N) of (L L')^-1, from L^-1 alone: half the work of `inverse`."""

    @abstractmethod
    def _solve_lower_rows(self, rows: Array) -> Array:
        """L^-1 v for each row v of rows (B, M, N), which may be overwritten; all leading axes of L are one, B."""

    @abstractmethod
    def _solve_rows(self, rows: Array) -> Array:
        """(L L')^-1 v, likewise."""

    def _solve(self, b: npt.ArrayLike, routine: Callable[[Array], Array]) -> Array:
        columns = self._columns(b)
        lead = columns.ndim - 2
        own = (1,) * (lead - len(self.batch_shape)) + self.batch_shape
        # Right-hand sides that share a factor are solved together: their batch axes go last.
        shared = [axis for axis, size in enumerate(own) if size == 1]
        last = range(lead - len(shared), lead)
        rows = np.array(np.moveaxis(columns, shared, last) if shared else columns, order="C")
        count = prod(self.batch_shape)
        out = routine(rows.reshape(count, rows.size // max(1, count * self.n), self.n)).reshape(rows.shape)
        return (np.moveaxis(out, last, shared) if shared else out).swapaxes(-1, -2)

    def _columns(self, b: npt.ArrayLike) -> Array:
        """The columns of right-hand sides b (..., N, M) as rows (..., M, N), with the axes of the whole batch."""
        b = as_float64(b, "b")
        if b.ndim < 2 or b.shape[-2] != self.n:
            raise ValueError(
                f"b has shape {b.shape}, but right-hand sides must have shape (..., {self.n}, M): "
                f"write b[..., None] for one vector per matrix."
            )
        if b.shape[:-2] == self.batch_shape:
            return b.swapaxes(-1, -2)
        batch = broadcast_batch({"the factor": self.batch_shape, "b": b.shape[:-2]}, "solve")
        return np.broadcast_to(b, (*batch, *b.shape[-2:])).swapaxes(-1, -2)


class LapackFactor(Factor):
    """Factors in arrays of NumPy, by LAPACK."""

    storage: Array

    @property
    def lower(self) -> Array:
        return lapack.tril(stacked(self.storage)).reshape(self.storage.shape)

    @property
    def logdet(self) -> Array:
        diagonals = np.diagonal(self.storage, axis1=-2, axis2=-1)
        return np.asarray(2.0 * np.sum(np.log(diagonals), axis=-1))

    def resident_inverse(self) -> Array:
        return self.inverse()

    def inverse(self) -> Array:
        out = np.empty(self.storage.shape)
        factors, inverses = stacked(self.storage), stacked(out)

        def task(span: slice) -> None:
            a = inverses[span]
            a[...] = factors[span]
            lapack.potri(a)
            reflect(a)

        for_each_span(task, len(factors), self.n, 2 / 3 * self.n**3)
        return out

    def resident_solve_lower(self, b: Array) -> Array:
        return self.solve_lower(b)

    def inverse_root(self) -> Array:
        out = self.lower
        inverses = stacked(out)
        for_each_span(lambda span: lapack.trtri(inverses[span]), len(inverses), self.n, self.n**3 / 3)
        return out

    def inverse_diagonal(self) -> Array:  # for large N without a copy
        factors = stacked(self.storage)
        out = np.empty(factors.shape[:-1])

        def task(span: slice) -> None:
            a = lapack.tril(factors[span])
            lapack.trtri(a)
            np.einsum("...ij,...ij->...j", a, a, out=out[span])

        def by_columns(span: slice) -> None:  # of one matrix: large ones go alone
            for i in range(0, self.n, _COLUMNS):
                columns = np.eye(min(_COLUMNS, self.n - i), self.n - i)  # of L^-1, which are zero above row i
                lapack.trsm(factors[span], columns[None], start=i)
                np.sum(np.square(columns, out=columns), axis=-1, out=out[span.start, i : i + _COLUMNS])

        for_each_span(task if self.n < LARGE else by_columns, len(factors), self.n, self.n**3 / 3)
        return out.reshape(self.storage.shape[:-1])

    def _solve_lower_rows(self, rows: Array) -> Array:
        return self._in_place(rows, lapack.trsm, flops=self.n**2)

    def _solve_rows(self, rows: Array) -> Array:
        return self._in_place(rows, lapack.potrs, flops=2 * self.n**2)

    def _in_place(self, rows: Array, routine: Callable[[Array, Array], None], flops: float) -> Array:
        factors = stacked(self.storage)

        def task(span: slice) -> None:
            routine(factors[span], rows[span])

        for_each_span(task, len(factors), self.n, rows.shape[1] * flops)
        return rows


def factor(
    K: npt.ArrayLike, *, nugget: npt.ArrayLike | None = None, jitter: Jitter = DEFAULT_JITTER, overwrite: bool = False
) -> Factor:
    """Factor K + nugget + jitter for symmetric K (..., N, N); see `cbq.linalg.factor`."""
    given = matrices(K)
    check_jitter(jitter)
    require_memory(given.size, f"a factor of K of shape {given.shape}", "pass smaller matrices")
    in_place = flag(overwrite, "overwrite") and given.flags.c_contiguous and given.flags.writeable
    storage = given if in_place else np.empty(given.shape)
    source = stacked(given)

    def fill(span: slice, a: Array) -> None:
        if not in_place:
            a[...] = source[span]
        with np.errstate(over="ignore", invalid="ignore"):
            # the sum is NaN or inf if an element is, and takes one pass without a temporary
            suspects = np.flatnonzero(~np.isfinite(a.sum(axis=(-2, -1))))
        for i in suspects:
            if not np.isfinite(a[i]).all():
                # The factorisation finds NaN on the diagonal.
                a[i, 0, 0] = np.nan

    def restore(span: slice, a: Array) -> None:
        reflect(a.swapaxes(-1, -2))

    return factor_batch(storage, fill, restore, nugget, jitter)


def matrices(K: npt.ArrayLike) -> Array:
    """K as an array of symmetric matrices (..., N, N), or an error."""
    given = as_float64(K, "K")
    if given.ndim < 2 or given.shape[-1] != given.shape[-2]:
        raise ValueError(f"K has shape {given.shape}, but symmetric matrices (..., N, N) are expected.")
    return given


def factor_batch(
    storage: Array,
    fill: Callable[[slice, Array], None],
    restore: Callable[[slice, Array], None],
    nugget: npt.ArrayLike | None,
    jitter: Jitter,
) -> Factor:
    """Fill the matrices of `storage` (..., N, N) and factor them there, while they are in the cache.

    With all leading axes as one, `fill(span, a)` writes at least the lower triangles of a span of the matrices,
    a (B, N, N); `restore(span, a)` brings the part below the diagonal of one of them back after a failed
    factorisation, which leaves the part above as it was.
    """
    batch, n = storage.shape[:-2], storage.shape[-1]
    nuggets = nugget_rows(nugget, batch, n).reshape(-1, n)
    stack = stacked(storage)
    relative, absolute = np.empty(len(stack)), np.empty(len(stack))

    def task(span: slice) -> None:
        def restore_one(i: int) -> None:
            one = slice(span.start + i, span.start + i + 1)
            restore(one, stack[one])

        def name(i: int) -> tuple[int, ...]:
            return tuple(map(int, np.unravel_index(span.start + i, batch))) if batch else ()

        fill(span, stack[span])
        relative[span], absolute[span] = factor_in_place(stack[span], nuggets[span], jitter, restore_one, name)

    for_each_span(task, len(stack), n, n**3 / 3 + 30 * n**2)
    return LapackFactor(read_only(storage), read_only(absolute.reshape(batch)), read_only(relative.reshape(batch)))


def nugget_rows(nugget: npt.ArrayLike | None, batch: tuple[int, ...], n: int) -> Array:
    """The nugget as (*batch, N), from None, a number, (*batch,) or (*batch, N)."""
    if n == 0:
        raise ValueError("the matrices have no rows (N = 0): at least one point is needed, in K or x.")
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
    """Copy the lower triangles of `a` (..., n, n) to the upper ones; pass transposes to copy upper to lower."""
    n, step = a.shape[-1], _REFLECT_BLOCK
    for i in range(0, n, step):
        j = min(i + step, n)
        a[..., i:j, j:] = a[..., j:, i:j].swapaxes(-1, -2)
        corner = a[..., i:j, i:j]
        np.copyto(corner, corner.swapaxes(-1, -2).copy(), where=np.tri(j - i, dtype=bool).T)


def as_float64(value: npt.ArrayLike, name: str) -> Array:
    """`value` as a float64 array, copied only if necessary."""
    if type(value) is np.ndarray and value.dtype == np.float64 and value.flags.aligned:
        return value
    return real(value, name)


def read_only(a: Array) -> Array:
    """A view that cannot be written to."""
    view = a.view()
    view.setflags(write=False)
    return view
