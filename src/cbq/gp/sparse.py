"""The likelihood of many noisy rows under a process that lives in the span of the kernel at m landmarks.

y = b + g(z) + e, e ~ N(0, s2), with a flat prior for b and g of variance A = gamma s2. K_mm = L L' of the landmarks,
Phi = K_nm L^-T (n, m) their features, Phi_c those less their means, M = Phi_c' Phi_c, and t = n - tr(Phi Phi') what the
landmarks do not see of the prior variance. A lower bound of the restricted log-likelihood (Titsias 2009), up to a
constant, with the likeliest s2 = y'(I - Phi_c (I / gamma + M)^-1 Phi_c') y / (n - 1) in it, is minus

    J = 1/2 [(n - 1) log s2 + log |I + gamma M| + gamma t].

One evaluation costs n m^2 operations, and memory for one block of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array
from cbq.kernels import Kernel
from cbq.linalg import Factor, Jitter, factor

BLOCK = 4096  # rows whose features are in memory at a time
JITTER = Jitter(start=1e-9)  # of the landmarks' Gram matrix: what it takes away counts as unseen
LEAST_NOISE = 1e-12  # of the variance of y


@dataclass(frozen=True, eq=False)
class Features:
    """The features of rows z (n, p) through landmarks (m, p), in blocks: all that costs n m^2 is done here."""

    kernel: Kernel
    z: Array
    nodes: Array
    root: Factor  # of K_mm

    @classmethod
    def of(cls, kernel: Kernel, z: Array, nodes: Array) -> Features:
        """Those of rows z (n, p)."""
        return cls(kernel, z, nodes, factor(kernel(nodes), jitter=JITTER, overwrite=True))

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Rows, and their features Phi (rows, m)."""
        at_nodes = self.kernel.features(self.nodes)
        for start in range(0, len(self.z), BLOCK):
            rows = slice(start, start + BLOCK)
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
    def of(cls, features: Features, y: Array) -> Moments:
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

    def state(self, parameters: Array) -> tuple[Features, Moments, State]:
        """Everything but the gradient."""
        gamma, kernel = self.unpack(parameters)
        features = Features.of(kernel, self.z, self.nodes)
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
        self, gamma: float, features: Features, moments: Moments, state: State, inverse: Array
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
