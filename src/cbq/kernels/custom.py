"""A kernel of the user's own, from one method."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Booleans, finite, positive
from cbq.kernels.base import Kernel, as_points
from cbq.kernels.radial import first_guess
from cbq.linalg.gram import Features

STEP = 1e-4  # of central differences in the logarithm of a lengthscale: their relative error is about 1e-9
DIAGONAL = 64  # points at a time, whose matrix is evaluated for its diagonal


class CustomKernel(Kernel):
    """A kernel from one method, `evaluate`, in NumPy; for kernels of your own that need not be fast.

    A subclass defines `evaluate`, `number` if it has another number of lengthscales than one, and `smoothness`, the
    order nu of an equally smooth Matern kernel, if it is smoother than Matern 1/2 (np.inf if it is analytic).
    Combinations, estimators and fits of lengthscales follow; derivatives are differences. As a kernel of x it needs an
    embedding, such as a `cbq.embeddings.FunctionEmbedding`.

    lengthscale : a number, or one for each of the `number` of them; None to have them fitted.

    Examples
    --------
    >>> class Brownian(cbq.kernels.CustomKernel):
    ...     number = 0  # of lengthscales
    ...
    ...     def evaluate(self, x, y, lengthscale):
    ...         return np.minimum(x, y.T)
    >>> Brownian()([0.2, 0.5])
    array([[0.2, 0.2],
           [0.2, 0.5]])
    """

    number: ClassVar[int] = 1  # of lengthscales
    smoothness = 0.5

    def __init__(self, lengthscale: npt.ArrayLike | None = None) -> None:
        given = (
            np.ones(0) if self.number == 0 else None if lengthscale is None else positive(lengthscale, "lengthscale")
        )
        if self.number == 0 and lengthscale is not None:
            raise ValueError(f"{type(self).__name__} has no lengthscale: leave lengthscale out.")
        if given is not None and given.shape not in ((), (self.number,)):
            raise ValueError(
                f"lengthscale has shape {given.shape}, but {type(self).__name__} has {self.number} of them."
            )
        self._lengthscales = None if given is None else np.broadcast_to(given, (self.number,))

    @abstractmethod
    def evaluate(self, x: Array, y: Array, lengthscale: float | Array) -> Array:
        """k for all pairs of points x (n, d) and y (m, d): (n, m).

        lengthscale: a number, or (P,) unless there is one.
        """

    def __repr__(self) -> str:
        known = "" if self.number == 0 else f"lengthscale={self._lengthscales}"
        return f"{type(self).__name__}({known})"

    @property
    def log_lengthscales(self) -> Array:
        if self._lengthscales is None:
            raise ValueError(
                f"{self!r} has no lengthscale yet: pass one, or give the kernel to an estimator that fits it."
            )
        return np.log(self._lengthscales)

    def with_log_lengthscales(self, values: npt.ArrayLike) -> Self:
        given = finite(values, "log_lengthscales")
        if given.ndim == 0 or given.shape[-1] != self.number:
            raise ValueError(f"log_lengthscales has shape {given.shape}, but {self.number} values are expected.")
        return self._replaced(_lengthscales=np.exp(given))

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        if self._lengthscales is not None:
            return self, np.zeros(self.number, dtype=bool)
        start = np.full(self.number, float(np.log(first_guess(x, ard=False))))
        return self.with_log_lengthscales(start), np.ones(self.number, dtype=bool)

    def check_dim(self, d: int) -> None:
        """Points may have any dimension, unless a subclass refuses some."""

    def diag(self, x: npt.ArrayLike) -> Array:
        points, ell = self.features(as_points(x))
        batch, n = points.shape[:-2], points.shape[-2]
        out = np.empty((*batch, n))
        for t in np.ndindex(batch):
            for i in range(0, n, DIAGONAL):
                some = points[t][i : i + DIAGONAL]
                out[t][i : i + DIAGONAL] = np.diagonal(self._matrix(some, some, ell[t][0]))
        return out

    def features(self, x: Array) -> Features:
        ell = np.exp(self.log_lengthscales)[..., None, :]
        batch = np.broadcast_shapes(x.shape[:-2], ell.shape[:-2])
        points = np.broadcast_to(x, (*batch, *x.shape[-2:]))
        return points, np.broadcast_to(ell, (*batch, x.shape[-2], self.number))

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        self._fill(fx, fy, out, np.zeros(self.number))

    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        below = np.empty(out.shape[1:])
        for j, derivative in enumerate(out):
            step = STEP * (np.arange(self.number) == j)
            self._fill(fx, fy, derivative, step)
            self._fill(fx, fy, below, -step)
            derivative -= below
            derivative /= 2 * STEP

    def _fill(self, fx: Features, fy: Features, out: Array, step: Array) -> None:
        """k with the logarithms of its lengthscales moved by a step (P,), for each matrix of a batch."""
        for t in np.ndindex(out.shape[:-2]):
            if out[t].size:
                out[t] = self._matrix(fx[0][t], fy[0][t], fx[1][t][0] * np.exp(step))

    def _matrix(self, x: Array, y: Array, lengthscales: Array) -> Array:
        found = finite(self.evaluate(x, y, as_argument(lengthscales)), f"the result of {type(self).__name__}.evaluate")
        if found.shape != (len(x), len(y)):
            raise ValueError(
                f"{type(self).__name__}.evaluate returned shape {found.shape} for {len(x)} points x and {len(y)} "
                f"points y: it must return ({len(x)}, {len(y)})."
            )
        return found


def as_argument(lengthscales: Array) -> float | Array:
    """Lengthscales (P,) as functions of the user take them: a number if there is one."""
    return float(lengthscales[0]) if len(lengthscales) == 1 else lengthscales
