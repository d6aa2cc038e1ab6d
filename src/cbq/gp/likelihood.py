"""The hyperparameters of a heteroscedastic process: amplitude, lambda and lengthscales, by the restricted likelihood.

The likelihood is complete: its determinant contains the noise. Weak priors decide where few nodes cannot: lengthscales
are of the order of the spread of the thetas, I varies, and differences between nodes are differences of I rather than
noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from cbq.common import LARGEST, Array, Booleans, are_numbers, check_fields, is_number, is_range
from cbq.gp.heteroscedastic import GPPrior, ThetaCoordinates, Trend, largest_degree, polynomial_basis
from cbq.gp.process import Process
from cbq.gp.search import Derivatives, newton
from cbq.kernels import Kernel
from cbq.linalg import Factor, factor
from cbq.linalg.engines import resident_gram
from cbq.linalg.gram import empty, fill, moved, namespace, on_host
from cbq.linalg.jitter import SMALL_JITTER
from cbq.linalg.threads import blas_threads

CandidateKernel = tuple[ThetaCoordinates, Kernel]


@dataclass(frozen=True)
class LikelihoodOptions:
    """What is expected of the logarithms of hyperparameters, and how the search for the likeliest ones goes.

    Amplitude and noise are in units of the variance of y, lengthscales in units of the spread of the thetas.

    amplitudes, noises, lengthscales : the ends of log A, of log lambda and of log-lengthscales less the first guess, so
        wide that beyond them nothing changes. The lower end of the noise stands for zero.
    lengthscale, lengthscale_width : a normal prior of log-lengthscales less the first guess, about log 3: a few thetas
        must not lead to extremes.
    amplitude_power : the prior density of A grows with this power of it (Chung et al. 2013: 1/2, of sqrt(A) linearly):
        an amplitude of zero, often the likeliest where y is noisy, would be certainty that I does not vary.
    noise, noise_width : a half-normal prior of log lambda, flat below `noise`: differences between nodes are those of I
        rather than noise.
    rough, fine : a search stops where the log-likelihood changes by less; first roughly for all candidates.
    within : candidates whose log-likelihood is this close to the best are searched finely: others need not be known.
    skip : a log-likelihood so far below that of the smoother kernel before it ends a chain.
    starts, first_noises : of log A and log-lengthscales together, and of log lambda: the best pair starts the search,
        as a smooth curve with noise and a rough one without may both be likely.
    """

    amplitudes: tuple[float, float] = (-30.0, 12.0)
    noises: tuple[float, float] = (-30.0, 3.0)
    lengthscales: tuple[float, float] = (-4.0, 6.0)
    lengthscale: float = math.log(3.0)
    lengthscale_width: float = 1.5
    amplitude_power: float = 0.5
    noise: float = -10.0
    noise_width: float = 5.0
    rough: float = 0.1
    fine: float = 1e-6
    within: float = 0.3
    skip: float = 5.0
    starts: tuple[float, ...] = (-0.5, 1.0)
    first_noises: tuple[float, ...] = (-14.0, -4.0)

    def __post_init__(self) -> None:
        check_fields(self, ("amplitudes", "noises", "lengthscales"), "two ascending numbers in a tuple", is_range)
        check_fields(self, ("lengthscale", "amplitude_power", "noise"), "a number", is_number)
        positive = ("lengthscale_width", "noise_width", "rough", "fine", "within", "skip")
        check_fields(self, positive, "a number above 0", lambda value: is_number(value, math.ulp(0.0)))
        check_fields(self, ("starts", "first_noises"), "numbers in a tuple", lambda value: are_numbers(value, -LARGEST))


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
    options: LikelihoodOptions = LikelihoodOptions()

    def unpack(self, parameters: Array) -> tuple[float, float, Kernel]:
        """Amplitude, noise and kernel."""
        noise = np.exp(parameters[1]) if self.noise is None else self.noise
        if self.noise is None and parameters[1] <= self.options.noises[0] + 1e-9:
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
        A, noise, kernel = parts = self.unpack(parameters)
        prior, slope, curvature = self._prior(parameters)
        k = resident_gram(kernel, self.z)
        try:
            f = factor(A * k, nugget=self.v + noise, jitter=SMALL_JITTER, overwrite=True)
            process = Process(f, self.y[:, None], self.H)
        except ValueError:  # a matrix that is not positive definite: K, or H'K^-1 H
            return np.inf, lambda: (np.zeros(len(parameters)), np.eye(len(parameters)))
        value = 0.5 * float(process.energy[0] + process.logdet[0]) + prior
        return value, lambda: self._derivatives(parts, (slope, curvature), k, f, process)

    def _derivatives(
        self, parts: tuple[float, float, Kernel], of_prior: tuple[Array, Array], k: Any, f: Factor, process: Process
    ) -> tuple[Array, Array]:
        """The gradient (P,) and the information (P, P), from the Gram matrix k, the factor and the process.

        parts: of `unpack`. of_prior: the gradient (P,) and the curvature (P,) of minus the log prior.
        """
        (A, noise, kernel), (slope, curvature) = parts, of_prior
        P, n_free = len(slope), int(np.count_nonzero(self.free))
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
        return 0.5 * (traces - pushed @ a) + slope, information + np.diag(curvature)

    def _prior(self, parameters: Array) -> tuple[float, Array, Array]:
        """Minus the log prior, its gradient (P,), and the diagonal of its Hessian (P,)."""
        apart, curvature = np.zeros(len(parameters)), np.zeros(len(parameters))  # apart: from the centres
        guess, expected = self.kernel.log_lengthscales[self.free], self.options
        if guess.size:
            apart[-guess.size :] = parameters[-guess.size :] - guess - expected.lengthscale
            curvature[-guess.size :] = expected.lengthscale_width**-2
        if self.noise is None:
            apart[1] = max(float(parameters[1]) - expected.noise, 0.0)
            curvature[1] = (apart[1] > 0) * expected.noise_width**-2
        slope, power = curvature * apart, expected.amplitude_power
        slope[0] -= power
        return 0.5 * float(curvature @ apart**2) - power * float(parameters[0]), slope, curvature

    def minimum(self, start: Array, tolerance: float) -> Optimum:
        """The optimum that is downhill from `start`."""
        guess = self.kernel.log_lengthscales[self.free]
        noise = [] if self.noise is not None else [self.options.noises]
        low, high = self.options.lengthscales
        bounds = [self.options.amplitudes, *noise, *((g + low, g + high) for g in guess)]
        return Optimum(self, *newton(self.at, start, bounds, tolerance))

    def start(self) -> Array:
        """The best of a few parameters to start from."""
        guess = self.kernel.log_lengthscales[self.free]
        noise = [] if self.noise is not None else [0.0]
        pairs = product(self.options.starts, self.options.first_noises)
        starts = [np.array([s, *(n + each for each in noise), *(guess + s)]) for s, n in pairs]
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
    options: LikelihoodOptions | None = None,
) -> list[GPPrior]:
    """The best hyperparameters of each candidate for nodes theta (T, p), y (T,) with variances v (T,).

    chains: candidates that resemble each other, from smooth to rough: each starts where the one before ended, and where
    one is far less likely than the one before, the rest of its chain is skipped.
    noise: lambda, if it is known, or the values to choose from; None to fit it.
    """
    options = LikelihoodOptions() if options is None else options
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
        return [Likelihood(guess, free, z, H, (y - centre) / unit, v / unit**2, n, options) for n in noises]

    rough: list[tuple[ThetaCoordinates, Optimum]] = []
    with blas_threads(len(y)):
        for chain in chains:
            near: Optimum | None = None
            for coordinates, kernel in chain:
                best = _best(alternatives(coordinates, kernel), near)
                rough.append((coordinates, best))
                if near is not None and best.value > near.value + options.skip:
                    break
                near = best
        least = min(optimum.value for _, optimum in rough)
        found = []
        for coordinates, optimum in rough:
            best = optimum
            if optimum.value < least + options.within:
                best = optimum.likelihood.minimum(optimum.parameters, options.fine)
            A, lam, fitted = best.likelihood.unpack(best.parameters)
            used, n_fitted = largest_degree(standardised(coordinates), degree), len(best.parameters)
            found.append(GPPrior(coordinates, fitted, A * unit**2, lam * unit**2, used, -best.value, n_fitted))
    return found


def _best(alternatives: Sequence[Likelihood], near: Optimum | None) -> Optimum:
    """Roughly the optimum of the best of some likelihoods, from that of a similar one if there is one."""
    starts = [each.start() if near is None else near.parameters for each in alternatives]
    tried = [each.minimum(start, each.options.rough) for each, start in zip(alternatives, starts, strict=True)]
    return min(tried, key=lambda optimum: optimum.value)


def _unit(y: Array, v: Array) -> float:
    """A size of y: its spread over thetas, or where it has none that of its errors."""
    largest = float(np.max(np.abs(y)))
    spread = float(np.std(y))
    if spread > 1e-14 * largest:
        return spread
    return max(float(np.sqrt(np.mean(v))), 1e-14 * largest) or 1e-14
