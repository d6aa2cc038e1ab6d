"""Cholesky of matrices, each with the smallest jitter of a ladder that lets it succeed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from cbq.common import Array, number, shown
from cbq.io import Number, saved
from cbq.linalg import lapack


class NotPositiveDefinite(np.linalg.LinAlgError):
    """A matrix has no Cholesky factor, even with the largest jitter (a ValueError, like NumPy's own).

    `index` is its place in the batch, `relative_jitter` the largest jitter tried, per mean diagonal.

    Examples
    --------
    >>> try:
    ...     cbq.linalg.factor([[1.0, 2.0], [2.0, 1.0]])
    ... except cbq.linalg.NotPositiveDefinite as error:
    ...     print(error.index, f"{error.relative_jitter:g}")
    () 0.0001
    """

    def __init__(self, index: tuple[int, ...], n: int, relative_jitter: float) -> None:
        which = f"matrix {list(index)} of the batch" if index else "the matrix"
        super().__init__(
            f"{which} (N = {n}) is not positive definite, even with a jitter of {relative_jitter:.0e} of its "
            f"mean diagonal. Likely causes: duplicated points with different values (remove them or pass a "
            f"nugget), an asymmetric or indefinite kernel, a lengthscale far too long for the points."
        )
        self.index, self.n, self.relative_jitter = index, n, relative_jitter

    def __reduce__(self) -> tuple[type[NotPositiveDefinite], tuple[tuple[int, ...], int, float]]:
        # exceptions are pickled with their message, which is no argument of this one
        return type(self), (self.index, self.n, self.relative_jitter)


@saved("Jitter", start=Number(0.0), ceiling=Number(0.0))
@dataclass(frozen=True)
class Jitter:
    """The jitter added to the diagonal, in units of its mean: `start` first, then tenfold steps up to `ceiling`.

    The unit is the mean diagonal of the Gram matrix alone: one large nugget must not blur all other points.

    Examples
    --------
    >>> factor = cbq.linalg.factor(np.ones((2, 2)), jitter=cbq.linalg.Jitter(start=1e-8))
    >>> float(factor.relative_jitter)
    1e-08
    """

    start: float = 1e-12
    ceiling: float = 1e-4

    def __post_init__(self) -> None:
        number(self.start, "start"), number(self.ceiling, "ceiling")
        if not 0 <= self.start <= self.ceiling:
            raise ValueError(f"jitter needs 0 <= start <= ceiling, but start={self.start}, ceiling={self.ceiling}.")

    def ladder(self) -> Iterator[float]:
        """The jitters to try, in order; after a start at 0 comes 1e-15."""
        yield self.start
        first, k = (10 * self.start, 0) if self.start else (1e-15, 0)
        while (step := first * 10**k) <= self.ceiling * (1 + 1e-9):
            yield step
            k += 1


DEFAULT_JITTER = Jitter()
SMALL_JITTER = Jitter(start=1e-13)  # for processes with an amplitude or noise: below any that matters


def check_jitter(jitter: object) -> None:
    """Raise unless `jitter` is a `Jitter`."""
    if not isinstance(jitter, Jitter):
        raise TypeError(f"jitter must be a cbq.linalg.Jitter, such as Jitter(start=1e-10), but it is {shown(jitter)}.")


def factor_in_place(
    a: Array, nugget: Array, jitter: Jitter, restore: Callable[[int], None], name: Callable[[int], tuple[int, ...]]
) -> tuple[Array, Array]:
    """Overwrite the lower triangles of `a` (B, N, N) with factors; returns the jitters, relative and absolute (B,).

    nugget: (B, N). `restore(i)` restores the part of a[i] below the diagonal after a failure. `name(i)` is its index in
    errors.
    """
    diagonal = diagonals(a)
    # Matrices that are not finite fail below.
    with np.errstate(over="ignore", invalid="ignore"):
        unit = np.maximum(diagonal.sum(axis=-1) / a.shape[-1], 0.0)
        wanted = diagonal + nugget
        np.add(wanted, jitter.start * unit[:, None], out=diagonal)
    relative = np.full(len(a), jitter.start)
    for i in failures(a):
        relative[i] = factor_with_more_jitter(a[i : i + 1], wanted[i], unit[i], jitter, partial(restore, i), name(i))
    return relative, relative * unit


def factor_with_more_jitter(
    a: Array, wanted: Array, unit: float, jitter: Jitter, restore: Callable[[], None], name: tuple[int, ...]
) -> float:
    """Factor `a` (1, N, N), for which the first jitter was too small; returns the jitter that succeeds.

    wanted: (N,), the diagonal without jitter.
    """
    restore()
    if not (np.isfinite(wanted).all() and np.isfinite(np.tril(a[0], -1)).all()):
        raise not_finite(name)
    relative, *higher = jitter.ladder()
    for relative in higher:
        np.add(wanted, relative * unit, out=diagonals(a)[0])
        if not failures(a):
            return relative
        restore()
    raise NotPositiveDefinite(name, len(wanted), relative)


def failures(a: Array) -> list[int]:
    """Overwrite the lower triangles of `a` (B, N, N) with their factors; returns the indices of failures."""
    minors = lapack.potrf(a)
    # LAPACK libraries differ in whether NaN counts as a failure, but it always reaches the diagonal
    finite = np.all(np.isfinite(diagonals(a)), axis=-1).tolist()
    return [i for i, minor in enumerate(minors) if minor or not finite[i]]


def diagonals(a: Array) -> Array:
    """The diagonals (B, N) of C-ordered matrices (B, N, N), to be read or written."""
    return a.reshape(len(a), -1)[:, :: a.shape[-1] + 1]


def not_finite(index: tuple[int, ...]) -> ValueError:
    """The error for NaN or inf in a matrix."""
    which = f"matrix {list(index)} of the batch" if index else "the matrix"
    return ValueError(f"{which} contains NaN or inf: look for them in the input, or for overflow in the kernel.")
