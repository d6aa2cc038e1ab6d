"""Families of kernels that differ in their lengthscales alone, and lengthscales by maximising the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from cbq._arrays import Array, Booleans, Integers
from cbq.gp.constant_mean import GPData, evidence_and_gradient
from cbq.gp.search import quasi_newton
from cbq.kernels import Kernel
from cbq.linalg import NotPositiveDefinite
from cbq.linalg.threads import one_blas_thread

GRID = tuple(np.exp(np.arange(-3.0, 5.0)))  # lengthscales in units of the spread of the points
FACTORS_AROUND_FIT = (0.4, 1.0, 2.5, 6.0)  # factors of lengthscales that were fitted
VALUES_PER_LENGTHSCALE = 5  # needed for each lengthscale that is fitted
MAX_LOG_LENGTHSCALE = 3.0  # in units of the spread of the points: beyond, f looks like a polynomial
SHORTEST, LONGEST = 1e-2, 1e4  # of the first guess; an input without influence ends at the longest
_STARTS = (
    -2.0,
    -1.0,
    0.0,
    1.0,
)  # shifts of all log-lengthscales, the best of which starts the search: a kink misleads it
_TOLERANCE = 1e-5  # the relative change of the evidence to stop at


@dataclass(frozen=True, eq=False)
class KernelFamily:
    """Kernels that differ by a common factor of their free lengthscales.

    kernel: with a first guess of all lengthscales. free: (P,), which of them are fitted. factors: of those, to try.
    """

    kernel: Kernel
    free: Booleans
    factors: tuple[float, ...] = GRID

    @classmethod
    def of(cls, kernel: Kernel, x: Array, ard: bool) -> KernelFamily:
        """The family of a kernel whose lengthscales are free where they are None; x (..., N, d) gives their unit."""
        guess, free = kernel.to_fit(x, ard)
        if guess.log_lengthscales.ndim > 1:
            raise ValueError(f"{kernel!r} has lengthscales for a batch, but an estimator takes a single kernel.")
        return cls(guess, free)

    @property
    def has_free(self) -> bool:
        """Whether there is a lengthscale to fit."""
        return bool(np.any(self.free))

    def at(self, log_factor: float) -> Kernel:
        """The kernel with its free lengthscales multiplied by exp(log_factor)."""
        return self.kernel.with_log_lengthscales(self.kernel.log_lengthscales + log_factor * self.free)

    def batched(self) -> Kernel:
        """The kernels of all K factors as one, whose lengthscales have the leading axes (K, 1)."""
        if not self.has_free:
            return self.kernel
        factors = np.log(self.factors)[:, None, None]
        return self.kernel.with_log_lengthscales(self.kernel.log_lengthscales + factors * self.free)

    def members(self) -> list[Kernel]:
        """The kernels of all K factors, one by one."""
        return [self.at(np.log(factor)) for factor in self.factors] if self.has_free else [self.kernel]

    def subset(self, which: Integers) -> Self:
        """The family with some of its factors."""
        return replace(self, factors=tuple(self.factors[i] for i in which))

    def around(self, log_lengthscales: Array) -> Self:
        """The family around fitted lengthscales (P,)."""
        return replace(self, kernel=self.kernel.with_log_lengthscales(log_lengthscales), factors=FACTORS_AROUND_FIT)


def fit_lengthscales(kernel: Kernel, free: Booleans, data: Sequence[GPData], tau: float) -> Kernel:
    """The kernel with its free lengthscales maximising the evidence, summed over the data."""
    start = kernel.log_lengthscales
    bounds = [(v + np.log(SHORTEST), v + np.log(LONGEST)) for v in start[free]]

    def at(values: Array) -> Kernel:
        lengthscales = start.copy()
        lengthscales[free] = values
        return kernel.with_log_lengthscales(lengthscales)

    def objective(values: Array) -> tuple[float, Array]:
        try:
            terms = [evidence_and_gradient(at(values), each, tau) for each in data]
        except NotPositiveDefinite:
            return np.inf, np.zeros(len(values))
        return -sum(value for value, _ in terms), -np.sum([gradient for _, gradient in terms], axis=0)[free]

    with one_blas_thread():  # the matrices are small, and those of the search tiny
        first = min((start[free] + step for step in _STARTS), key=lambda values: objective(values)[0])
        best, _ = quasi_newton(objective, first, bounds, tol=_TOLERANCE)
    return at(best)
