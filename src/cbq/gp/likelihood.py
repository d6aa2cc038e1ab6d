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
from cbq.gp.search import Derivatives, newton
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
        value, derivatives = self.at(parameters)
        return (value, *derivatives())

    def at(self, parameters: Array) -> tuple[float, Derivatives]:
        """The first of the three, and a function for the others, which take twice as many operations."""
        A, noise, kernel = self.unpack(parameters)
        k = resident_gram(kernel, self.z)
        try:
            f = factor(A * k, nugget=self.v + noise, jitter=JITTER, overwrite=True)
            process = Process(f, self.y[:, None], self.H)
        except ValueError:  # a matrix that is not positive definite: K, or H'K^-1 H
            return np.inf, lambda: (np.zeros(len(parameters)), np.eye(len(parameters)))
        value = 0.5 * float(process.energy[0] + process.logdet[0]) + self._prior(parameters)[0]
        return value, lambda: self._derivatives(parameters, k, f, process)

    def _derivatives(self, parameters: Array, k: Any, f: Factor, process: Process) -> tuple[Array, Array]:
        """The gradient (P,) and the information (P, P), from the Gram matrix k, the factor and the process."""
        A, noise, kernel = self.unpack(parameters)
        P, n_free = len(parameters), int(np.count_nonzero(self.free))
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
        _, slope, curvature = self._prior(parameters)
        return 0.5 * (traces - pushed @ a) + slope, information + np.diag(curvature)

    def _prior(self, parameters: Array) -> tuple[float, Array, Array]:
        """Minus the log prior, its gradient (P,), and the diagonal of its Hessian (P,)."""
        apart, curvature = np.zeros(len(parameters)), np.zeros(len(parameters))  # apart: from the centres
        guess = self.kernel.log_lengthscales[self.free]
        if guess.size:
            apart[-guess.size :] = parameters[-guess.size :] - guess - PRIOR_LOG_LENGTHSCALE
            curvature[-guess.size :] = PRIOR_LENGTHSCALE_WIDTH**-2
        if self.noise is None:
            apart[1] = max(float(parameters[1]) - PRIOR_LOG_NOISE, 0.0)
            curvature[1] = (apart[1] > 0) * PRIOR_NOISE_WIDTH**-2
        return 0.5 * float(curvature @ apart**2), curvature * apart, curvature

    def minimum(self, start: Array, tolerance: float) -> Optimum:
        """The optimum that is downhill from `start`."""
        guess = self.kernel.log_lengthscales[self.free]
        noise = [] if self.noise is not None else [LOG_NOISE_BOUNDS]
        low, high = LOG_LENGTHSCALE_BOUNDS
        bounds = [LOG_AMPLITUDE_BOUNDS, *noise, *((g + low, g + high) for g in guess)]
        return Optimum(self, *newton(self.at, start, bounds, tolerance))

    def start(self) -> Array:
        """The best of a few parameters to start from."""
        guess = self.kernel.log_lengthscales[self.free]
        noise = [] if self.noise is not None else [0.0]
        starts = [np.array([s, *(n + each for each in noise), *(guess + s)]) for s, n in STARTS]
        return min(starts, key=lambda parameters: self.at(parameters)[0])


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
