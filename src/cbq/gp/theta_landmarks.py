"""A heteroscedastic Gaussian process through landmarks, where there are too many nodes for a matrix between them.

With K_mm = L L' of m of the nodes, phi = k(z, landmarks) L^-T (m,) are features of a theta. The prior covariance
A k(z, z') becomes phi phi', and what they leave of the variance, u = A k(z, z) - phi phi', counts as noise of each node
(FITC; Snelson and Ghahramani 2006): variances stay honest, and with all nodes as landmarks nothing changes.

The rest is linear regression on g = (phi, h), features and trend, with the noise variances D = u + v + lambda (T,) and
a prior that is standard normal for the coefficients of phi and flat for those of h. The rows of the prior and those of
the nodes, divided by sqrt(D), have the triangular factor R, by orthogonal transformations: normal equations would lose
the digits of a trend that the features represent, too. With e = g R^-1, the weights of the nodes are e_theta e_t / D_t,
and the posterior variance is u + e e'. Nothing larger than (T, m) is in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cbq._arrays import ROUNDING, Array, blocks, evenly
from cbq._memory import require_memory
from cbq.gp.heteroscedastic import (
    GPPrior,
    HeteroscedasticGP,
    PosteriorMean,
    ThetaCoordinates,
    ThetaGP,
    polynomial_basis,
)
from cbq.kernels.combinations import SMALLEST_FACTOR
from cbq.linalg import factor_gram
from cbq.linalg.cholesky import LapackFactor
from cbq.linalg.dense import append_rows, pivots
from cbq.linalg.jitter import SMALL_JITTER

MAX_EXACT_NODES = 2000  # beyond, matrices of all pairs of nodes are too much work


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
        R = np.diag(np.repeat([1.0, 0.0], [m, q]))  # the prior of the coefficients; that of the trend is flat
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
