"""Cholesky of one matrix, with the smallest jitter of a ladder that lets it succeed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array
from cbq.linalg import lapack


class NotPositiveDefinite(np.linalg.LinAlgError):
    """A matrix has no Cholesky factor, even with the largest jitter (a ValueError, as NumPy's own is).

    `index` is its place in the batch, `relative_jitter` the largest jitter tried, per mean diagonal.
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
        # exceptions are pickled with their message, but this one is made of other things
        return type(self), (self.index, self.n, self.relative_jitter)


@dataclass(frozen=True)
class Jitter:
    """What is added to the diagonal, in units of the mean diagonal: from `start`, tenfold up to `ceiling`.

    The unit is the mean diagonal of the Gram matrix alone: one large nugget must not blur all other points.
    """

    start: float = 1e-12
    ceiling: float = 1e-4

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.ceiling < np.inf:
            raise ValueError(f"jitter needs 0 <= start <= ceiling, but start={self.start}, ceiling={self.ceiling}.")

    def ladder(self) -> Iterator[float]:
        """The jitters to try, in order; after a start at 0 comes 1e-15."""
        yield self.start
        first, k = (10 * self.start, 0) if self.start else (1e-15, 0)
        while (step := first * 10**k) <= self.ceiling * (1 + 1e-9):
            yield step
            k += 1


def factor_in_place(
    a: Array, nugget: Array | float, jitter: Jitter, restore: Callable[[Array], None], index: tuple[int, ...]
) -> tuple[float, float]:
    """Overwrite the lower triangle of `a` (N, N) with its factor; returns the jitter, relative and absolute.

    `restore(a)` brings the part below the diagonal back after a failure.
    """
    n = len(a)
    diagonal = a.reshape(-1)[:: n + 1]
    unit = max(float(diagonal.mean()), 0.0)
    wanted = diagonal + nugget
    relative = 0.0
    for relative in jitter.ladder():
        np.add(wanted, relative * unit, out=diagonal)
        # LAPACK libraries differ in whether NaN counts as a failure, but it always reaches the diagonal
        if lapack.potrf(a) == 0 and np.isfinite(diagonal).all():
            return relative, relative * unit
        restore(a)
        if not (np.isfinite(wanted).all() and np.isfinite(np.tril(a, -1)).all()):
            raise not_finite(index)
    raise NotPositiveDefinite(index, n, relative)


def not_finite(index: tuple[int, ...]) -> ValueError:
    """The error for NaN or inf in a matrix."""
    which = f"matrix {list(index)} of the batch" if index else "the matrix"
    return ValueError(
        f"{which} contains NaN or inf: look for them in what it was made from, or for overflow in the kernel."
    )
