"""A Gaussian process over theta with a polynomial trend and a given noise variance at each node.

y (T,) are the values at the nodes, v (T,) their noise variances. It is a `process` with K = A k(z, z) + diag(v +
lambda) at amplitude 1; the polynomials H (T, q) of theta are the basis of its mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Protocol

import numpy as np

from cbq._arrays import ROUNDING, Array, Booleans
from cbq._checks import LARGEST
from cbq.gp.process import Process
from cbq.io import Instance, Integer, Number, Numbers, Optional, saved
from cbq.kernels import Kernel
from cbq.kernels.combinations import SMALLEST_FACTOR
from cbq.linalg import factor_gram
from cbq.linalg.dense import has_full_column_rank
from cbq.linalg.jitter import SMALL_JITTER

Trend = int | None  # the degree of the polynomial; None means that the mean is known
_LOG_ZERO = 1e3  # the coordinate of log 0, in units of the spread: correlated with nothing


@saved(
    "ThetaCoordinates",
    logs=Numbers("p", bool, inline=True),
    centre=Numbers("p", inline=True),
    scale=Numbers("p", least=math.ulp(0.0), inline=True),
)
@dataclass(frozen=True, eq=False)
class ThetaCoordinates:
    """z = (theta - centre) / scale, with log theta in place of theta where `logs`; all three (p,)."""

    logs: Booleans
    centre: Array
    scale: Array

    @classmethod
    def standard(cls, theta: Array, logs: Booleans) -> ThetaCoordinates:
        """Coordinates in which the thetas (T, p) have mean 0 and standard deviation 1."""
        raw = cls(logs, np.zeros(theta.shape[1]), np.ones(theta.shape[1]))(theta)
        spread = np.std(raw, axis=0)
        constant = spread <= ROUNDING * np.max(np.abs(raw), axis=0)
        return cls(logs, np.mean(raw, axis=0), np.where(constant, 1.0, spread))

    @classmethod
    def identity(cls, p: int) -> ThetaCoordinates:
        """Theta as it is, for a kernel that the user gives."""
        return cls(np.zeros(p, dtype=bool), np.zeros(p), np.ones(p))

    def covers(self, theta: Array) -> bool:
        """Whether all thetas (M, p) have coordinates: negative numbers have no logarithm, and that of zero is far."""
        return not np.any(self.logs & (theta < 0))

    def __call__(self, theta: Array) -> Array:
        """The coordinates (M, p) of theta (M, p)."""
        if not self.covers(theta):
            j = int(np.argmax(self.logs & np.any(theta < 0, axis=0)))
            raise ValueError(
                f"theta[:, {j}] must not be negative, but its smallest value is {theta[:, j].min():g}: all observed "
                f"thetas are positive there, and the fit works with their logarithms. Fit again with log_theta=False "
                f"to predict at such thetas."
            )
        positive = self.logs & (theta > 0)
        z = (np.where(positive, np.log(np.where(positive, theta, 1.0)), theta) - self.centre) / self.scale
        return np.where(self.logs & (theta == 0), -_LOG_ZERO, z)


def polynomial_basis(z: Array, degree: Trend) -> Array:
    """All monomials up to `degree` of z (M, p): (M, q); q = 0 without a trend, 1 for a constant."""
    if degree is None:
        return np.empty((len(z), 0))
    powers = [c for k in range(degree + 1) for c in combinations_with_replacement(range(z.shape[1]), k)]
    with np.errstate(over="ignore"):
        basis = np.stack([np.prod(z[:, list(c)], axis=1) for c in powers], axis=1)
    if np.any(np.abs(basis) > LARGEST):
        raise ValueError(
            f"theta is {np.max(np.abs(z)):.1g} standard deviations from the observed thetas, where a polynomial of "
            f"degree {degree} overflows: pass thetas that are closer."
        )
    return basis


def largest_degree(z: Array, wanted: Trend, most: int = 50) -> Trend:
    """The largest degree, at most `wanted`, whose monomials the thetas z (T, p) can tell apart.

    most: the degree beyond which monomials in float64 cannot be told apart.
    """
    if wanted is None:
        return None
    T, p = z.shape
    for degree in range(min(wanted, T, most), 0, -1):
        if math.comb(p + degree, p) < T and has_full_column_rank(polynomial_basis(z, degree)):
            return degree
    return 0


@saved(
    "GPPrior",
    coordinates=Instance(ThetaCoordinates),
    kernel=Instance(Kernel),
    amplitude=Number(0.0),
    noise=Number(0.0),
    degree=Optional(Integer(0)),
    evidence=Number(null=-math.inf),
    n_fitted=Integer(),
    offset=Number(),
)
@dataclass(frozen=True, eq=False)
class GPPrior:
    """A Gaussian process over theta before it is conditioned, with all hyperparameters.

    kernel: on `coordinates` of theta, at unit amplitude. amplitude: A. noise: lambda, the variance that is added to
    that of every node. degree: of the trend, None for the known mean `offset`. evidence: the restricted log-likelihood,
    log prior of the hyperparameters included. n_fitted: the number of hyperparameters that were fitted.
    """

    coordinates: ThetaCoordinates
    kernel: Kernel
    amplitude: float
    noise: float
    degree: Trend
    evidence: float = 0.0
    n_fitted: int = 0
    offset: float = 0.0


class Prediction(Protocol):
    """Of the process at M thetas: mean (M,), weights (M, T) with mean = weights . y (beyond the offset), and variance.

    variance: (M,) or (M, M), of the process less its prediction, were y without noise: the part of the noise, which
    `noise` gives, is to be added.
    """

    @property
    def mean(self) -> Array: ...
    @property
    def weights(self) -> Array: ...
    @property
    def variance(self) -> Array: ...

    def of(self, values: Array) -> Array:
        """The sums (M,) of values (T,) with the weights."""

    def noise(self, noise: Array) -> Array:
        """What noise variances (T,) of the nodes and lambda add: weights diag(noise + lambda) weights' or its
        diagonal, (M, M) or (M,) as the variance.
        """


@dataclass(frozen=True, eq=False)
class ExactPrediction:
    """`Prediction` with its weights. own_noise: lambda."""

    mean: Array
    weights: Array
    variance: Array
    own_noise: float

    def of(self, values: Array) -> Array:
        return self.weights @ values

    def noise(self, noise: Array) -> Array:
        total = noise + self.own_noise
        return self.weights**2 @ total if self.variance.ndim == 1 else (self.weights * total) @ self.weights.T


@dataclass(frozen=True, eq=False)
class PosteriorMean:
    """The mean of a conditioned process as a function of theta; unlike the process, it holds no matrix.

    z: (T, p), the nodes. standardised: coordinates of theta for the trend. coefficients: (q,), of the trend.
    alpha: (T,), P y.
    """

    prior: GPPrior
    z: Array
    standardised: ThetaCoordinates
    coefficients: Array
    alpha: Array

    def __call__(self, theta: Array) -> Array:
        """The mean at theta (M, p): (M,)."""
        z = self.prior.coordinates(theta)
        known = self.prior.amplitude * self.prior.kernel(z, self.z) @ self.alpha
        trend = polynomial_basis(self.standardised(theta), self.prior.degree) @ self.coefficients
        return np.asarray(self.prior.offset + known + trend)


class ThetaGP(Protocol):
    """The process conditioned on y (T,) with noise variances v (T,) at the nodes theta (T, p).

    width: the numbers that a prediction takes for each theta, besides those that it returns.
    """

    prior: GPPrior
    v: Array
    mean: PosteriorMean

    @property
    def width(self) -> int: ...

    def leave_one_out(self) -> tuple[Array, Array]:
        """P y and the diagonal of P, each (T,): leave-one-out residuals are their ratios, with variances that are the
        inverses of the diagonal.
        """

    def predict(self, theta: Array, *, joint: bool = False) -> Prediction:
        """The prediction at theta (M, p), with covariances between the thetas where it is `joint`."""


class HeteroscedasticGP:
    """`ThetaGP` through the factor of K."""

    def __init__(self, prior: GPPrior, theta: Array, y: Array, v: Array) -> None:
        self.prior, self.v, self.z = prior, v, prior.coordinates(theta)
        self.standardised = ThetaCoordinates.standard(theta, prior.coordinates.logs)  # for all but the kernel
        H = polynomial_basis(self.standardised(theta), prior.degree)
        kernel = max(prior.amplitude, SMALLEST_FACTOR) * prior.kernel
        self.factor = factor_gram(kernel, self.z, nugget=v + prior.noise, jitter=SMALL_JITTER)
        self.process = Process(self.factor, (y - prior.offset)[:, None], H)
        coefficients, a = self.process.beta[:, 0], self.process.a[:, 0]
        self.mean = PosteriorMean(prior, self.z, self.standardised, coefficients, a)

    @property
    def width(self) -> int:
        return len(self.z)

    def leave_one_out(self) -> tuple[Array, Array]:
        return self.mean.alpha, self.process.precision

    def predict(self, theta: Array, *, joint: bool = False) -> ExactPrediction:
        prior, z = self.prior, self.prior.coordinates(theta)
        h = polynomial_basis(self.standardised(theta), prior.degree)
        at = self.process.functionals(prior.amplitude * prior.kernel(z, self.z), h)
        weights, noise = at.weights, self.v + prior.noise + self.factor.jitter
        if joint:
            variance = prior.kernel(z)
            variance *= prior.amplitude
            variance = at.covariance(variance)
            variance -= (weights * noise) @ weights.T
            variance = variance + variance.T
            variance *= 0.5
        else:
            variance = np.maximum(at.variance(prior.amplitude * prior.kernel.diag(z)) - weights**2 @ noise, 0.0)
        mean = prior.offset + float(self.process.centre[0, 0]) + weights @ self.process.f[:, 0]
        return ExactPrediction(mean, weights, variance, prior.noise)
