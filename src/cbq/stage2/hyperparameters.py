"""The hyperparameters of stage 2: amplitude, lambda and lengthscales, by maximising the full restricted likelihood.

Weak priors decide where few thetas cannot: lengthscales are of the order of the spread of the thetas, and what differs
between thetas is a difference of I rather than noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.kernels import Kernel
from cbq.linalg import NotPositiveDefinite, factor
from cbq.linalg.small import cholesky, solve_lower
from cbq.linalg.threads import LARGE, one_blas_thread
from cbq.stage2.coordinates import ThetaCoordinates
from cbq.stage2.scoring import minimise
from cbq.stage2.surface import JITTER, GPPrior
from cbq.stage2.trend import Trend, basis, largest_degree

# In units of the variance of y, and of the spread of the thetas.
AMPLITUDES = (-30.0, 12.0)  # bounds of log A
NOISES = (-30.0, 3.0)  # of log lambda: the lower end is zero
LENGTHSCALES = (-4.0, 6.0)  # of log ell, relative to the first guess
TYPICAL, WIDTH = np.log(3.0), 1.5  # of the normal prior of log ell, which keeps few thetas from extremes
SMALL_NOISE, NOISE_WIDTH = -10.0, 5.0  # of the half-normal prior of log lambda, which is flat below
ROUGHLY, CLOSELY = 0.1, 1e-6  # changes of the log-likelihood to stop at
REFINE_WITHIN = 1.0  # a log-likelihood so far below the best need not be known any closer
SKIP_BELOW = 5.0  # so far below that of a smoother kernel, rougher ones need not be tried
STARTS = tuple((s, n) for s in (-0.5, 1.0) for n in (-14.0, -4.0))  # log ell and log lambda


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of y (T,) with variances v (T,), both in units of order 1, at nodes z (T, p).

    Its arguments are log A, then log lambda unless `noise` is a number, then the free log-lengthscales.
    """

    kernel: Kernel
    free: Booleans
    z: Array
    H: Array
    y: Array
    v: Array
    noise: float | None

    def unpack(self, parameters: Array) -> tuple[float, float, Kernel]:
        """Amplitude, noise and kernel."""
        noise = np.exp(parameters[1]) if self.noise is None else self.noise
        if self.noise is None and parameters[1] <= NOISES[0] + 1e-9:
            noise = 0.0
        values = self.kernel.log_lengthscales.copy()
        values[self.free] = parameters[len(parameters) - np.count_nonzero(self.free) :]
        return float(np.exp(parameters[0])), float(noise), self.kernel.with_log_lengthscales(values)

    def __call__(self, parameters: Array) -> tuple[float, Array, Array]:
        """Minus the log-likelihood and the log prior, its gradient (P,), and its average information (P, P).

        That is the mean of the expected and the observed Hessian, up to terms that vanish on average (Gilmour, Thompson
        and Cullis 1995): 1/2 (dK_i a)'Q (dK_j a) with a = Q y.
        """
        A, noise, kernel = self.unpack(parameters)
        features = kernel.features(self.z)
        k = np.empty((len(self.y), len(self.y)))
        kernel.fill(features, features, k)
        P, n_free = len(parameters), int(np.count_nonzero(self.free))
        try:
            f = factor(A * k, nugget=self.v + noise, jitter=JITTER, overwrite=True)
        except NotPositiveDefinite:
            return np.inf, np.zeros(P), np.eye(P)
        Q, logdet = f.inverse(), float(f.logdet)
        if self.H.size:
            solved = Q @ self.H
            L = cholesky(self.H.T @ solved)
            half = solve_lower(L, solved)
            Q -= half @ half.T
            logdet += 2.0 * float(np.sum(np.log(np.diagonal(L))))
        a, trace = Q @ self.y, float(np.trace(Q))
        # for each parameter: tr(Q dK) and dK a
        traces, pushed = np.empty(P), np.empty((P, len(a)))
        traces[0], pushed[0] = A * np.vdot(Q, k) + f.jitter * trace, A * (k @ a) + f.jitter * a
        if self.noise is None:
            traces[1], pushed[1] = noise * trace, noise * a
        if n_free:
            slopes = np.empty((kernel.n_lengthscales, *k.shape))
            kernel.fill_derivatives(features, features, slopes)
            slopes = A * slopes[self.free]
            traces[-n_free:], pushed[-n_free:] = slopes.reshape(n_free, -1) @ Q.ravel(), slopes @ a
        value = 0.5 * (float(self.y @ a) + logdet)
        return self._with_prior(parameters, value, 0.5 * (traces - pushed @ a), 0.5 * pushed @ Q @ pushed.T)

    def _with_prior(
        self, parameters: Array, value: float, gradient: Array, information: Array
    ) -> tuple[float, Array, Array]:
        """The three with those of minus the log prior added."""
        guess = self.kernel.log_lengthscales[self.free]
        if guess.size:
            apart = (parameters[-guess.size :] - guess - TYPICAL) / WIDTH
            value += 0.5 * float(apart @ apart)
            gradient[-guess.size :] += apart / WIDTH
            information[-guess.size :, -guess.size :] += np.eye(guess.size) / WIDTH**2
        if self.noise is None:
            excess = max(float(parameters[1]) - SMALL_NOISE, 0.0) / NOISE_WIDTH
            value += 0.5 * excess**2
            gradient[1] += excess / NOISE_WIDTH
            information[1, 1] += (excess > 0) / NOISE_WIDTH**2
        return value, gradient, information


def fit_priors(
    chains: Sequence[Sequence[tuple[ThetaCoordinates, Kernel]]],
    theta: Array,
    y: Array,
    v: Array,
    *,
    degree: Trend = 0,
    noise: float | Sequence[float] | None = None,
) -> list[GPPrior]:
    """The best hyperparameters of each candidate for nodes theta (T, p), y (T,) with variances v (T,).

    chains: candidates that resemble each other, from smooth to rough: each starts where the one before ended, and where
    one is hopeless against the one before, the rest of its chain is left out.
    noise: lambda, if it is known, or the values to choose from; None to fit it.
    """
    unit = _unit(y, v)
    centre = float(np.mean(y)) if degree is not None else 0.0
    noises = [None] if noise is None else [float(n) / unit**2 for n in np.atleast_1d(noise)]

    def scaled(coordinates: ThetaCoordinates) -> Array:
        return ThetaCoordinates.standard(theta, coordinates.logs)(theta)

    def alternatives(coordinates: ThetaCoordinates, kernel: Kernel) -> list[Likelihood]:
        z = coordinates(theta)
        H = basis(scaled(coordinates), largest_degree(scaled(coordinates), degree))
        guess, free = kernel.to_fit(z, ard=True)
        if guess.needs_measure or guess.log_lengthscales.ndim > 1:
            raise ValueError(
                f"kernel_theta = {kernel!r} cannot serve over theta: it needs a measure, or is a batch of kernels."
            )
        return [Likelihood(guess, free, z, H, (y - centre) / unit, v / unit**2, n) for n in noises]

    rough: list[tuple[ThetaCoordinates, Maximum]] = []
    with one_blas_thread() if len(y) < LARGE else nullcontext():
        for chain in chains:
            near: Maximum | None = None
            for coordinates, kernel in chain:
                best = _best(alternatives(coordinates, kernel), near)
                rough.append((coordinates, best))
                if near is not None and best.value > near.value + SKIP_BELOW:
                    break
                near = best
        least = min(m.value for _, m in rough)
        found = []
        for coordinates, m in rough:
            best = _maximum(m.likelihood, m.parameters, CLOSELY) if m.value < least + REFINE_WITHIN else m
            A, lam, fitted = best.likelihood.unpack(best.parameters)
            used = largest_degree(scaled(coordinates), degree)
            found.append(
                GPPrior(coordinates, fitted, A * unit**2, lam * unit**2, used, -best.value, len(best.parameters))
            )
    return found


@dataclass(frozen=True, eq=False)
class Maximum:
    """The parameters of the largest likelihood, and minus its logarithm."""

    likelihood: Likelihood
    parameters: Array
    value: float


def _best(alternatives: Sequence[Likelihood], near: Maximum | None) -> Maximum:
    """Roughly the maximum of the best of some likelihoods, from that of a similar one if there is one."""
    starts = [_start(each) if near is None else near.parameters for each in alternatives]
    tried = [_maximum(each, start, ROUGHLY) for each, start in zip(alternatives, starts, strict=True)]
    return min(tried, key=lambda m: m.value)


def _start(likelihood: Likelihood) -> Array:
    """The best of a few parameters to start from."""
    guess = likelihood.kernel.log_lengthscales[likelihood.free]
    noise = [] if likelihood.noise is not None else [0.0]
    starts = [np.array([s, *(n + each for each in noise), *(guess + s)]) for s, n in STARTS]
    return min(starts, key=lambda parameters: likelihood(parameters)[0])


def _maximum(likelihood: Likelihood, start: Array, tolerance: float) -> Maximum:
    """The maximum that is uphill from `start`."""
    guess = likelihood.kernel.log_lengthscales[likelihood.free]
    noise = [] if likelihood.noise is not None else [NOISES]
    bounds = [AMPLITUDES, *noise, *((g + LENGTHSCALES[0], g + LENGTHSCALES[1]) for g in guess)]
    low, high = np.array(bounds).T
    return Maximum(likelihood, *minimise(likelihood, start, low, high, tolerance))


def _unit(y: Array, v: Array) -> float:
    """A size of y: its spread over thetas, or where it has none that of its errors."""
    largest = float(np.max(np.abs(y)))
    spread = float(np.std(y))
    if spread > 1e-14 * largest:
        return spread
    return max(float(np.sqrt(np.mean(v))), 1e-14 * largest) or 1e-14
