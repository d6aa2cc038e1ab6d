"""A Gaussian process with noise on many rows, in the span of the kernel at m landmarks: a bound of its likelihood.

y = b + g(z) + e, e ~ N(0, s2), with a flat prior for b and g of variance A = gamma s2. K_mm = L L' of the landmarks,
Phi = K_nm L^-T (n, m) their features, Phi_c those less their means, M = Phi_c' Phi_c, and t = n - tr(Phi Phi') the prior
variance that the landmarks do not represent. A lower bound of the restricted log-likelihood (Titsias 2009), up to a
constant, with the likeliest s2 = y'(I - Phi_c (I / gamma + M)^-1 Phi_c') y / (n - 1) in it, is minus

    J = 1/2 [(n - 1) log s2 + log |I + gamma M| + gamma t].

One evaluation costs n m^2 operations, and memory for one block of rows.

If the rows say little about gamma, its maximum-likelihood estimate is often close to 0, with a posterior of g that is
far too narrow. `average_ratio` averages gamma over its posterior instead. A priori, gamma is 0 with probability 1/2, and
else the standard deviation of the signal, in units of that of the noise, is half-Cauchy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp

from cbq._arrays import Array
from cbq.kernels import Kernel
from cbq.linalg import Factor, Jitter, factor
from cbq.linalg.dense import eigh

MAX_ROWS = 4096  # whose features are in memory at a time
LOG_RATIOS = np.linspace(-25.0, 20.0, 361)  # grid of log gamma
JITTER = Jitter(start=1e-9)  # of the landmarks' Gram matrix: what it removes counts as unseen
LEAST_NOISE = 1e-12  # of the variance of y


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """The features of rows z (n, p) through landmarks (m, p), in blocks: all that costs n m^2 is done here."""

    kernel: Kernel
    z: Array
    nodes: Array
    root: Factor  # of K_mm

    @classmethod
    def of(cls, kernel: Kernel, z: Array, nodes: Array) -> LandmarkFeatures:
        """The features of rows z (n, p)."""
        return cls(kernel, z, nodes, factor(kernel(nodes), jitter=JITTER, overwrite=True))

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Rows, and their features Phi (rows, m)."""
        at_nodes = self.kernel.features(self.nodes)
        for start in range(0, len(self.z), MAX_ROWS):
            rows = slice(start, start + MAX_ROWS)
            k = np.empty((len(self.z[rows]), len(self.nodes)))
            self.kernel.fill(self.kernel.features(self.z[rows]), at_nodes, k)
            yield rows, self.root.solve_lower(k.T).T


@dataclass(frozen=True, eq=False)
class Moments:
    """What the rows say through their features: their means (m,), M (m, m), Phi_c' y (m,), t, y'y and n."""

    centre: Array
    M: Array
    seen: Array
    unseen: float
    total: float
    n: int

    @classmethod
    def of(cls, features: LandmarkFeatures, y: Array) -> Moments:
        """Of centred values y (n,)."""
        m, n = len(features.nodes), len(y)
        centre, M, seen = np.zeros(m), np.zeros((m, m)), np.zeros(m)
        for rows, phi in features.blocks():
            centre += np.sum(phi, axis=0)
            M += phi.T @ phi
            seen += phi.T @ y[rows]
        trace = float(np.trace(M))
        centre /= n
        M -= n * np.outer(centre, centre)
        return cls(centre, M, seen, max(n - trace, 0.0), float(y @ y), n)


@dataclass(frozen=True, eq=False)
class State:
    """The bound at some gamma: its value J, s2, the factor of I + gamma M, and the weights of the features (m,)."""

    value: float
    noise: float
    factor: Factor
    weights: Array  # of the mean: g = Phi_c weights

    @classmethod
    def at(cls, gamma: float, moments: Moments) -> State:
        T = factor(gamma * moments.M, nugget=1.0, jitter=Jitter(0.0), overwrite=True)
        weights = gamma * T.solve(moments.seen[:, None])[:, 0]
        explained = float(weights @ moments.seen)
        dof = max(moments.n - 1, 1)
        noise = max(moments.total - explained, LEAST_NOISE * moments.total) / dof
        value = 0.5 * (dof * np.log(noise) + float(T.logdet) + gamma * moments.unseen)
        return cls(float(value), noise, T, weights)


@dataclass(frozen=True, eq=False)
class Bound:
    """J as a function of log gamma and the log-lengthscales, for centred y (n,) at rows z (n, p) and landmarks."""

    kernel: Kernel
    z: Array
    y: Array
    nodes: Array

    def unpack(self, parameters: Array) -> tuple[float, Kernel]:
        """Gamma and the kernel."""
        return float(np.exp(parameters[0])), self.kernel.with_log_lengthscales(parameters[1:])

    def state(self, parameters: Array) -> tuple[LandmarkFeatures, Moments, State]:
        """Everything but the gradient."""
        gamma, kernel = self.unpack(parameters)
        features = LandmarkFeatures.of(kernel, self.z, self.nodes)
        moments = Moments.of(features, self.y)
        return features, moments, State.at(gamma, moments)

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """J and its gradient (1 + p,)."""
        features, moments, state = self.state(parameters)
        gamma, _ = self.unpack(parameters)
        inverse = state.factor.inverse()
        # d/dgamma of log |I + gamma M| + gamma t + quadratic / s2, the last being -(w/gamma)'(w/gamma) / s2
        slope = np.vdot(inverse, moments.M) + moments.unseen - state.weights @ state.weights / (gamma**2 * state.noise)
        return state.value, np.array(
            [0.5 * gamma * slope, *self._of_lengthscales(gamma, features, moments, state, inverse)]
        )

    def _of_lengthscales(
        self, gamma: float, features: LandmarkFeatures, moments: Moments, state: State, inverse: Array
    ) -> Array:
        """The gradient by the log-lengthscales (p,), by the chain rule through K_nm and K_mm."""
        m, kernel = len(self.nodes), features.kernel
        back = features.root.solve_lower(np.eye(m))  # L^-1
        turn = (inverse - np.eye(m)) @ back
        shift = moments.centre @ inverse @ back
        direction = state.weights @ back / (gamma * state.noise)
        offset = float(moments.centre @ state.weights)
        at_nodes, found = kernel.features(self.nodes), np.zeros(kernel.n_lengthscales)
        for rows, phi in features.blocks():
            residual = self.y[rows] - (phi @ state.weights - offset)
            W = phi @ turn - shift - np.outer(residual, direction)
            found += gamma * kernel.contract_features(kernel.features(self.z[rows]), at_nodes, W)
        raw = moments.M + moments.n * np.outer(moments.centre, moments.centre)  # Phi' Phi
        a = state.weights @ back / gamma
        outer = 0.5 * (gamma / state.noise * np.outer(a, a) + back.T @ (inverse - np.eye(m) + gamma * raw) @ back)
        return found + kernel.contract_features(at_nodes, at_nodes, outer)


def average_ratio(moments: Moments) -> tuple[float, float]:
    """The posterior mean of gamma given that it is not 0, and the posterior probability that it is 0."""
    relative = -bound_by_ratio(np.exp(LOG_RATIOS), moments) + bound_by_ratio(
        np.zeros(1), moments
    )  # to the log-likelihood at 0
    prior = 0.5 * LOG_RATIOS - np.logaddexp(0.0, LOG_RATIOS)  # of log gamma, for half-Cauchy sqrt(gamma)
    prior -= logsumexp(prior)
    posterior = relative + prior
    evidence = float(logsumexp(posterior))
    return float(np.exp(logsumexp(posterior + LOG_RATIOS) - evidence)), float(expit(-evidence))


def bound_by_ratio(gamma: Array, moments: Moments) -> Array:
    """J (G,), minus the lower bound of the restricted log-likelihood, at ratios gamma (G,)."""
    roots, axes = eigh(moments.M)
    roots, seen2 = np.maximum(roots, 0.0), (axes.T @ moments.seen) ** 2
    shrunk = 1.0 + gamma[:, None] * roots
    explained = np.sum(gamma[:, None] * seen2 / shrunk, axis=1)
    dof = max(moments.n - 1, 1)
    noise = np.maximum(moments.total - explained, LEAST_NOISE * moments.total) / dof
    return np.asarray(0.5 * (dof * np.log(noise) + np.sum(np.log(shrunk), axis=1) + gamma * moments.unseen))
