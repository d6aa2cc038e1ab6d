"""The hyperparameters of a heteroscedastic process: amplitude, lambda and lengthscales, by the restricted likelihood.

The likelihood is complete: its determinant contains the noise. Weak priors decide where few nodes cannot: lengthscales
are of the order of the spread of the thetas, and differences between nodes are differences of I rather than noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.gp.heteroscedastic import JITTER, GPPrior, ThetaCoordinates, Trend, largest_degree, polynomial_basis
from cbq.gp.process import Process
from cbq.gp.search import newton
from cbq.kernels import Kernel
from cbq.linalg import Factor, factor
from cbq.linalg.engines import resident_gram
from cbq.linalg.gram import fill
from cbq.linalg.resident import empty, moved, namespace, on_host
from cbq.linalg.threads import blas_threads

# In units of the variance of y, and of the spread of the thetas.
LOG_AMPLITUDE_BOUNDS = (-30.0, 12.0)
LOG_NOISE_BOUNDS = (-30.0, 3.0)  # the lower end stands for zero
LOG_LENGTHSCALE_BOUNDS = (-4.0, 6.0)  # relative to the first guess
PRIOR_LOG_LENGTHSCALE, PRIOR_LENGTHSCALE_WIDTH = np.log(3.0), 1.5  # a normal prior: few thetas must not go to extremes
PRIOR_LOG_NOISE, PRIOR_NOISE_WIDTH = -10.0, 5.0  # a half-normal prior, flat below
ROUGH_TOLERANCE, FINE_TOLERANCE = 0.1, 1e-6  # changes of the log-likelihood to stop at
REFINE_WITHIN = 1.0  # of the best log-likelihood: others need not be known closely
SKIP_BELOW = 5.0  # a log-likelihood so far below that of the smoother kernel before it ends a chain
STARTS = tuple((s, n) for s in (-0.5, 1.0) for n in (-14.0, -4.0))  # log A = s, log ell = guess + s, log lambda = n
CandidateKernel = tuple[ThetaCoordinates, Kernel]


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of y (T,) with variances v (T,), both in units of order 1, at nodes z (T, p), with trend H (T, q).

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
        if self.noise is None and parameters[1] <= LOG_NOISE_BOUNDS[0] + 1e-9:
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
        k = resident_gram(kernel, self.z)
        P, n_free = len(parameters), int(np.count_nonzero(self.free))
        try:
            f, process = self._process(A * k, noise)
        except ValueError:  # a matrix that is not positive definite: K, or H'K^-1 H
            return np.inf, np.zeros(P), np.eye(P)
        Q, a = process.inverse(), process.a[:, 0]
        trace = float(Q.trace())
        # for each parameter: tr(Q dK) and dK a
        traces, pushed = np.empty(P), np.empty((P, len(a)))
        there = moved(a, Q)
        overlap = float(namespace(Q).vdot(Q.ravel(), k.ravel()))
        traces[0], pushed[0] = A * overlap + f.jitter * trace, A * on_host(k @ there) + f.jitter * a
        if self.noise is None:
            traces[1], pushed[1] = noise * trace, noise * a
        if n_free:
            slopes = empty((kernel.n_lengthscales, *k.shape), k)
            features = kernel.features(self.z)
            fill(kernel.fill_derivatives, features, features, slopes)
            traces[-n_free:] = A * on_host(slopes.reshape(len(slopes), -1) @ Q.ravel())[self.free]
            pushed[-n_free:] = A * on_host(slopes @ there)[self.free]
        information = on_host(moved(0.5 * pushed, Q) @ Q) @ pushed.T
        return self._with_prior(parameters, _value(process), 0.5 * (traces - pushed @ a), information)

    def value(self, parameters: Array) -> float:
        """The first of the three alone, for a third of the operations."""
        A, noise, kernel = self.unpack(parameters)
        try:
            _, process = self._process(A * resident_gram(kernel, self.z), noise)
        except ValueError:
            return np.inf
        P = len(parameters)
        return self._with_prior(parameters, _value(process), np.zeros(P), np.zeros((P, P)))[0]

    def _process(self, gram: Any, noise: float) -> tuple[Factor, Process]:
        """The process of a Gram matrix A k (T, T), which is overwritten, and its factor."""
        f = factor(gram, nugget=self.v + noise, jitter=JITTER, overwrite=True)
        return f, Process(f, self.y[:, None], self.H)

    def _with_prior(
        self, parameters: Array, value: float, gradient: Array, information: Array
    ) -> tuple[float, Array, Array]:
        """The three with those of minus the log prior added."""
        guess = self.kernel.log_lengthscales[self.free]
        if guess.size:
            width = PRIOR_LENGTHSCALE_WIDTH
            apart = (parameters[-guess.size :] - guess - PRIOR_LOG_LENGTHSCALE) / width
            value += 0.5 * float(apart @ apart)
            gradient[-guess.size :] += apart / width
            information[-guess.size :, -guess.size :] += np.eye(guess.size) / width**2
        if self.noise is None:
            excess = max(float(parameters[1]) - PRIOR_LOG_NOISE, 0.0) / PRIOR_NOISE_WIDTH
            value += 0.5 * excess**2
            gradient[1] += excess / PRIOR_NOISE_WIDTH
            information[1, 1] += (excess > 0) / PRIOR_NOISE_WIDTH**2
        return value, gradient, information

    def minimum(self, start: Array, tolerance: float) -> Optimum:
        """The optimum that is downhill from `start`."""
        guess = self.kernel.log_lengthscales[self.free]
        noise = [] if self.noise is not None else [LOG_NOISE_BOUNDS]
        low, high = LOG_LENGTHSCALE_BOUNDS
        bounds = [LOG_AMPLITUDE_BOUNDS, *noise, *((g + low, g + high) for g in guess)]
        return Optimum(self, *newton(self, start, bounds, tolerance))

    def start(self) -> Array:
        """The best of a few parameters to start from."""
        guess = self.kernel.log_lengthscales[self.free]
        noise = [] if self.noise is not None else [0.0]
        starts = [np.array([s, *(n + each for each in noise), *(guess + s)]) for s, n in STARTS]
        return min(starts, key=self.value)


@dataclass(frozen=True, eq=False)
class Optimum:
    """The parameters of the largest likelihood, and minus its logarithm."""

    likelihood: Likelihood
    parameters: Array
    value: float


def fit_priors(
    chains: Sequence[Sequence[CandidateKernel]],
    theta: Array,
    y: Array,
    v: Array,
    *,
    degree: Trend = 0,
    noise: float | Sequence[float] | None = None,
) -> list[GPPrior]:
    """The best hyperparameters of each candidate for nodes theta (T, p), y (T,) with variances v (T,).

    chains: candidates that resemble each other, from smooth to rough: each starts where the one before ended, and where
    one is far less likely than the one before, the rest of its chain is skipped.
    noise: lambda, if it is known, or the values to choose from; None to fit it.
    """
    unit = _unit(y, v)
    centre = float(np.mean(y)) if degree is not None else 0.0
    noises = [None] if noise is None else [float(n) / unit**2 for n in np.atleast_1d(noise)]

    def standardised(coordinates: ThetaCoordinates) -> Array:
        return ThetaCoordinates.standard(theta, coordinates.logs)(theta)

    def alternatives(coordinates: ThetaCoordinates, kernel: Kernel) -> list[Likelihood]:
        z, scaled = coordinates(theta), standardised(coordinates)
        H = polynomial_basis(scaled, largest_degree(scaled, degree))
        guess, free = kernel.to_fit(z, ard=True)
        if guess.needs_measure or guess.log_lengthscales.ndim > 1:
            raise ValueError(
                f"kernel_theta = {kernel!r} cannot act on theta: it needs a measure, or is a batch of kernels. Pass a "
                f"single kernel such as cbq.kernels.Matern(1.5)."
            )
        return [Likelihood(guess, free, z, H, (y - centre) / unit, v / unit**2, n) for n in noises]

    rough: list[tuple[ThetaCoordinates, Optimum]] = []
    with blas_threads(len(y)):
        for chain in chains:
            near: Optimum | None = None
            for coordinates, kernel in chain:
                best = _best(alternatives(coordinates, kernel), near)
                rough.append((coordinates, best))
                if near is not None and best.value > near.value + SKIP_BELOW:
                    break
                near = best
        least = min(optimum.value for _, optimum in rough)
        found = []
        for coordinates, optimum in rough:
            best = optimum
            if optimum.value < least + REFINE_WITHIN:
                best = optimum.likelihood.minimum(optimum.parameters, FINE_TOLERANCE)
            A, lam, fitted = best.likelihood.unpack(best.parameters)
            used, n_fitted = largest_degree(standardised(coordinates), degree), len(best.parameters)
            found.append(GPPrior(coordinates, fitted, A * unit**2, lam * unit**2, used, -best.value, n_fitted))
    return found


def _value(process: Process) -> float:
    """Minus the log-likelihood."""
    return 0.5 * float(process.energy[0] + process.logdet[0])


def _best(alternatives: Sequence[Likelihood], near: Optimum | None) -> Optimum:
    """Roughly the optimum of the best of some likelihoods, from that of a similar one if there is one."""
    starts = [each.start() if near is None else near.parameters for each in alternatives]
    tried = [each.minimum(start, ROUGH_TOLERANCE) for each, start in zip(alternatives, starts, strict=True)]
    return min(tried, key=lambda optimum: optimum.value)


def _unit(y: Array, v: Array) -> float:
    """A size of y: its spread over thetas, or where it has none that of its errors."""
    largest = float(np.max(np.abs(y)))
    spread = float(np.std(y))
    if spread > 1e-14 * largest:
        return spread
    return max(float(np.sqrt(np.mean(v))), 1e-14 * largest) or 1e-14
