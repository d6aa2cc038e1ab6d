"""A Gaussian process over theta with a polynomial trend and a given noise variance at each node.

y (T,) are the values at the nodes, v (T,) their noise variances. It is a `process` with K = A k(z, z) + diag(v +
lambda) at amplitude 1; the polynomials H (T, q) of theta are the basis of its mean.

Through landmarks, where there are too many nodes for a matrix between them: with K_mm = L L' of m of the nodes,
phi = k(z, landmarks) L^-T (m,) are features of a theta. The prior covariance A k(z, z') becomes phi phi', and what they
leave of the variance, u = A k(z, z) - phi phi', counts as noise of each node (FITC; Snelson and Ghahramani 2006):
variances stay honest, and with all nodes as landmarks nothing changes.

The rest is linear regression on g = (phi, h), features and trend, with the noise variances D = u + v + lambda (T,) and
a prior that is standard normal for the coefficients of phi and flat for the coefficients of h. The rows of the prior
and the nodes, divided by sqrt(D), have the triangular factor R, by orthogonal transformations: normal equations would
lose the digits of a trend that the features represent, too. With e = g R^-1, the weights of the nodes are e_theta e_t /
D_t, and the posterior variance is u + e e'. Nothing larger than (T, m) is in memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Protocol

import numpy as np

from cbq.common import LARGEST, ROUNDING, Array, Booleans, Integers, blocks, evenly, require_memory
from cbq.gp.process import Process
from cbq.io import Instance, Integer, Number, Numbers, Optional, saved
from cbq.kernels import Kernel
from cbq.kernels.combinations import SMALLEST_FACTOR
from cbq.linalg import factor_gram
from cbq.linalg.cholesky import LapackFactor
from cbq.linalg.jitter import SMALL_JITTER
from cbq.linalg.lapack import append_rows, has_full_column_rank, pivots

Trend = int | None  # the degree of the polynomial; None means that the mean is known
_LOG_ZERO = 1e3  # the coordinate of log 0, in units of the spread: correlated with nothing
MAX_EXACT_NODES = 2000  # beyond, matrices of all pairs of nodes are too much work


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
        """Whether all thetas (M, p) have coordinates: negative numbers have no logarithm, and log 0 is far."""
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

    def weights_of(self, rows: Integers) -> Array:
        """The weights (M, m) of some nodes."""

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

    def weights_of(self, rows: Integers) -> Array:
        return self.weights[:, rows]

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


class Landmarks:
    """The landmarks z (m, p) of a process with T nodes theta (T, p), whose values have noise variances (T,).

    They are the nodes with the largest prior variance given those before, until no node has more left than the variance
    of a constant given all values.

    most: landmarks, as the cost is T m^2. candidates: nodes that they are chosen from, evenly spaced, as all pairs of
    them are compared.
    """

    def __init__(self, prior: GPPrior, theta: Array, noise: Array, *, most: int = 1000, candidates: int = 4000) -> None:
        self.kernel = max(prior.amplitude, SMALLEST_FACTOR) * prior.kernel
        z = prior.coordinates(theta[evenly(len(theta), candidates)])
        with np.errstate(divide="ignore"):
            of_constant = 1.0 / float(np.sum(1.0 / (noise + prior.noise)))
        negligible = max(of_constant, ROUNDING * float(np.max(self.kernel.diag(z))))
        self.z = z[pivots(self.kernel(z), negligible)[:most]]
        self._root = factor_gram(self.kernel, self.z, jitter=SMALL_JITTER)

    def features(self, z: Array) -> tuple[Array, Array]:
        """phi (M, m) of coordinates z (M, p), and the variances (M,) that they leave."""
        phi = self._root.solve_lower(self.kernel(self.z, z)).T
        own = self.kernel.diag(z)
        return phi, np.maximum(own - np.einsum("tm,tm->t", phi, phi), SMALL_JITTER.start * own)

    def alpha(self, coefficients: Array) -> Array:
        """alpha (m,) with k(z, landmarks) alpha = phi coefficients, for coefficients (m,)."""
        return np.asarray(self._root.solve(self._root.lower @ coefficients[:, None])[:, 0])


@dataclass(frozen=True, eq=False)
class LandmarkPrediction:
    """`Prediction` from e (M, m + q); the weights (M, T) are made only where they are asked for."""

    process: LandmarkGP
    e: Array
    mean: Array
    variance: Array

    @property
    def weights(self) -> Array:
        return (self.e @ self.process.e.T) / self.process.D

    def weights_of(self, rows: Integers) -> Array:
        return (self.e @ self.process.e[rows].T) / self.process.D[rows]

    def of(self, values: Array) -> Array:
        return self.e @ self.process.projected(values)

    def noise(self, noise: Array) -> Array:
        pushed = self.e @ self.process.projected_noise(noise)
        return np.einsum("mr,mr->m", pushed, self.e) if self.variance.ndim == 1 else pushed @ self.e.T


class LandmarkGP:
    """`ThetaGP` through landmarks."""

    def __init__(self, prior: GPPrior, theta: Array, y: Array, v: Array, landmarks: Landmarks) -> None:
        self.prior, self.v, self.landmarks = prior, v, landmarks
        self.standardised = ThetaCoordinates.standard(theta, prior.coordinates.logs)
        self._factor_rows(theta)
        self.centre = prior.offset if prior.degree is None else float(np.mean(y))
        self.y = y - self.centre
        self._projected_y = self.projected(self.y)
        self.mean = self._posterior_mean()
        self._of_noise: list[tuple[Array, Array]] = []

    def _factor_rows(self, theta: Array) -> None:
        """Set R, e (T, m + q) and D (T,)."""
        T, m = len(theta), len(self.landmarks.z)
        q = polynomial_basis(self.standardised(theta[:1]), self.prior.degree).shape[1]
        require_memory(T * (m + q), f"stage 2 with {T} thetas", "fit some of them")
        self.e, self.D = np.empty((T, m + q)), np.empty(T)
        R = np.diag(np.repeat([1.0, 0.0], [m, q]))  # the prior of the coefficients, flat for the trend
        for rows in blocks(T):
            self.e[rows], unseen = self._rows(theta[rows])
            self.D[rows] = unseen + self.v[rows] + self.prior.noise
            R = append_rows(R, self.e[rows] / np.sqrt(self.D[rows])[:, None])
        self._R = LapackFactor(np.ascontiguousarray(R.T), np.zeros(()), np.zeros(()))  # R' is lower triangular
        for rows in blocks(T):
            self.e[rows] = self._R.solve_lower(self.e[rows].T).T

    def _rows(self, theta: Array) -> tuple[Array, Array]:
        """g (M, m + q) of theta (M, p), and the variances (M,) that features leave."""
        phi, unseen = self.landmarks.features(self.prior.coordinates(theta))
        return np.column_stack([phi, polynomial_basis(self.standardised(theta), self.prior.degree)]), unseen

    @property
    def width(self) -> int:
        return int(self.e.shape[1])

    def _posterior_mean(self) -> PosteriorMean:
        m = len(self.landmarks.z)
        coefficients = self._R.solve(self._R.lower @ self._projected_y[:, None])[:, 0]  # R^-1 e'D^-1 y
        prior = replace(self.prior, offset=self.centre)
        alpha = self.landmarks.alpha(coefficients[:m])
        return PosteriorMean(prior, self.landmarks.z, self.standardised, coefficients[m:], alpha)

    def leave_one_out(self) -> tuple[Array, Array]:
        leverage = np.einsum("tr,tr->t", self.e, self.e) / self.D
        Qy = (self.y - self.e @ self._projected_y) / self.D
        return Qy, np.maximum(1.0 - leverage, np.finfo(float).eps) / self.D

    def predict(self, theta: Array, *, joint: bool = False) -> LandmarkPrediction:
        g, unseen = self._rows(theta)
        e = self._R.solve_lower(g.T).T
        mean = self.centre + e @ self._projected_y
        if not joint:
            total = LandmarkPrediction(self, e, mean, unseen + np.einsum("mr,mr->m", e, e))
            return replace(total, variance=np.maximum(total.variance - total.noise(self.v), 0.0))
        phi = g[:, : len(self.landmarks.z)]
        cov = self.landmarks.kernel(self.prior.coordinates(theta))
        cov -= phi @ phi.T
        cov += e @ e.T
        cov -= LandmarkPrediction(self, e, mean, cov).noise(self.v)
        return LandmarkPrediction(self, e, mean, 0.5 * (cov + cov.T))

    def projected(self, values: Array) -> Array:
        """e'D^-1 values (m + q,), for values (T,) at the nodes."""
        return self.e.T @ (values / self.D)

    def projected_noise(self, noise: Array) -> Array:
        """e'D^-1 diag(noise + lambda) D^-1 e (m + q, m + q), for noise variances (T,) of the nodes.

        It takes T m^2 operations, and is kept for further blocks of thetas.
        """
        known = next((matrix for array, matrix in self._of_noise if array is noise), None)
        if known is not None:
            return known
        roots = np.sqrt(noise + self.prior.noise) / self.D
        found = np.zeros((self.width, self.width))
        for rows in blocks(len(noise)):
            scaled = self.e[rows] * roots[rows, None]
            found += scaled.T @ scaled
        self._of_noise.append((noise, found))
        return found


def landmarks_for(prior: GPPrior, theta: Array, noise: Array) -> Landmarks | None:
    """Landmarks for nodes theta (T, p) with noise variances (T,); None up to 2,000 nodes, which need none."""
    return Landmarks(prior, theta, noise) if len(theta) > MAX_EXACT_NODES else None


def theta_gp(prior: GPPrior, theta: Array, y: Array, v: Array, landmarks: Landmarks | None) -> ThetaGP:
    """The process given y (T,) with noise variances v (T,) at theta (T, p), through landmarks if there are any."""
    if landmarks is None:
        return HeteroscedasticGP(prior, theta, y, v)
    return LandmarkGP(prior, theta, y, v, landmarks)
