"""Families of kernels that differ in their lengthscales alone, and lengthscales by maximising the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from cbq.common import Array, Booleans, Integers
from cbq.gp.quadrature import GPData, evidence_and_gradient
from cbq.gp.search import quasi_newton
from cbq.kernels import Kernel
from cbq.linalg import NotPositiveDefinite
from cbq.linalg.threads import one_blas_thread

GRID = tuple(np.exp(np.arange(-3.0, 5.0)))  # lengthscales in units of the spread of the points
FACTORS_AROUND_FIT = (0.4, 1.0, 2.5, 6.0)  # factors of lengthscales that were fitted
NOISES = (1e-6, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)  # variances in units of the amplitude
VALUES_PER_LENGTHSCALE = 5  # needed for each lengthscale that is fitted
MAX_LOG_LENGTHSCALE = 3.0  # in units of the spread of the points: beyond, f looks like a polynomial
SHORTEST, LONGEST = 1e-2, 1e4  # of the first guess; an input without influence ends at the longest
_STARTS = (
    -2.0,
    -1.0,
    0.0,
    1.0,
)  # shifts of all log-lengthscales, the best of which starts the search: a kink misleads it
_NOISE_STARTS = (1e-3, 1.0)
_TOLERANCE = 1e-5  # the relative change of the evidence to stop at


@dataclass(frozen=True, eq=False)
class KernelFamily:
    """Kernels that differ by a common factor of their free lengthscales.

    kernel: with a first guess of all lengthscales. free: (P,), which of them are fitted. factors: of those, to try.
    noise: for each of the factors, the variance of the noise of the values in units of the amplitude; None for none.
    """

    kernel: Kernel
    free: Booleans
    factors: tuple[float, ...] = GRID
    noise: tuple[float, ...] | None = None

    @classmethod
    def of(cls, kernel: Kernel, x: Array, ard: bool) -> KernelFamily:
        """The family of a kernel whose lengthscales are free where they are None; x (..., N, d) gives their unit."""
        guess, free = kernel.to_fit(x, ard)
        if guess.log_lengthscales.ndim > 1:
            raise ValueError(f"{kernel!r} has lengthscales for a batch, but an estimator takes a single kernel.")
        return cls(guess, free, GRID if np.any(free) else (1.0,))

    @property
    def has_free(self) -> bool:
        """Whether there is a lengthscale to fit."""
        return bool(np.any(self.free))

    def at(self, log_factor: float) -> Kernel:
        """The kernel with its free lengthscales multiplied by exp(log_factor)."""
        return self.kernel.with_log_lengthscales(self.kernel.log_lengthscales + log_factor * self.free)

    def batched(self) -> Kernel:
        """The kernels of all K factors as one, whose lengthscales have the leading axes (K, 1)."""
        if not self.has_free and self.noise is None:
            return self.kernel
        factors = np.log(self.factors)[:, None, None]
        return self.kernel.with_log_lengthscales(self.kernel.log_lengthscales + factors * self.free)

    def members(self) -> list[Kernel]:
        """The kernels of all K factors, one by one."""
        if not self.has_free and self.noise is None:
            return [self.kernel]
        return [self.at(np.log(factor)) for factor in self.factors]

    def subset(self, which: Integers) -> Self:
        """The family with some of its factors, each with its noise."""
        noise = None if self.noise is None else tuple(self.noise[i] for i in which)
        return replace(self, factors=tuple(self.factors[i] for i in which), noise=noise)

    def with_noise(self, noises: Sequence[float] = NOISES) -> Self:
        """The family for values that are noisy: each factor with several variances of the noise."""
        pairs = [(factor, noise) for factor in self.factors for noise in noises]
        factors, noise = zip(*pairs, strict=True)
        return replace(self, factors=factors, noise=noise)

    def around(self, log_lengthscales: Array) -> Self:
        """The family around fitted lengthscales (P,)."""
        return replace(self, kernel=self.kernel.with_log_lengthscales(log_lengthscales), factors=FACTORS_AROUND_FIT)


def fit_lengthscales(
    kernel: Kernel, free: Booleans, data: Sequence[GPData], tau: float, *, noisy: bool = False
) -> Kernel:
    """The kernel with its free lengthscales maximising the evidence, summed over the data.

    noisy: together with the variance of a noise of the values, which is not returned.
    """
    start = kernel.log_lengthscales
    places = np.append(free, True) if noisy else free  # the free ones of all parameters; the noise is the last
    lengthscales = slice(-1) if noisy else slice(None)
    bounds = [(v + np.log(SHORTEST), v + np.log(LONGEST)) for v in start[free]]
    bounds += [(np.log(NOISES[0]), np.log(NOISES[-1]))] * noisy

    def at(values: Array) -> Kernel:
        found = start.copy()
        found[free] = values[lengthscales]
        return kernel.with_log_lengthscales(found)

    def objective(values: Array) -> tuple[float, Array]:
        noise = float(np.exp(values[-1])) if noisy else None
        try:
            terms = [evidence_and_gradient(at(values), each, tau, noise) for each in data]
        except NotPositiveDefinite:
            return np.inf, np.zeros(len(values))
        return -sum(value for value, _ in terms), -np.sum([gradient for _, gradient in terms], axis=0)[places]

    with one_blas_thread():  # the matrices are small, in the search tiny
        noises = [[np.log(noise)] for noise in _NOISE_STARTS] if noisy else [[]]
        starts = [np.append(start[free] + step, noise) for step in _STARTS for noise in noises]
        first = min(starts, key=lambda values: objective(values)[0])
        best, _ = quasi_newton(objective, first, bounds, tol=_TOLERANCE)
    return at(best)
