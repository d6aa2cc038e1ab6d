"""A Gaussian process with an unknown constant mean, conditioned on all points, and its integrals.

K = L L' the Gram matrix of the n points, beta = 1'K^-1 f / S with S = 1'K^-1 1, alpha = K^-1 (f - beta). An integral
of f with the embedding mu (n,) and the initial error z has the mean beta + mu'alpha and, at unit amplitude, the
variance z - mu'K^-1 mu + (1 - mu'K^-1 1)^2 / S.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cbq._arrays import Array
from cbq.kernels import Kernel
from cbq.linalg import Jitter, factor_gram

ROUNDING = 1e-15  # of the prior variance: the smallest posterior one that means anything


class PooledGP(Protocol):
    """What a process knows about integrals; of C outputs."""

    nodes: Array  # (m, D): the points at which embeddings are needed
    amplitude: Array  # (C,): the prior variance of f at unit kernel

    def mean(self, mu: Array) -> Array:
        """The means (M, C) of integrals with embeddings mu (M, m) at the nodes."""

    def variance(self, mu: Array, z: Array) -> Array:
        """Their variances (M, C) at unit amplitude, with the initial errors z (M,)."""

    def covariance(self, mu: Array, cross: Array) -> Array:
        """Their covariances (C, M, M) at unit amplitude, with the prior ones `cross` (M, M)."""


class ExactGP:
    """The process given all values f (n, C) at points u (n, D)."""

    def __init__(self, kernel: Kernel, u: Array, f: Array, jitter: Jitter) -> None:
        self.nodes = u
        self.factor = factor_gram(kernel, u, jitter=jitter)
        half = self.factor.solve_lower(np.column_stack([f, np.ones(len(u))]))
        self.half_one = half[:, -1]  # L^-1 1
        self.S = float(self.half_one @ self.half_one)
        self.beta = self.half_one @ half[:, :-1] / self.S
        self.alpha = self.factor.solve(f - self.beta)
        energy = np.sum((half[:, :-1] - np.outer(self.half_one, self.beta)) ** 2, axis=0)
        self.amplitude = energy / max(len(u) - 1, 1)

    def mean(self, mu: Array) -> Array:
        return np.asarray(self.beta + mu @ self.alpha)

    def variance(self, mu: Array, z: Array) -> Array:
        half = self.factor.solve_lower(mu.T)  # (n, M)
        rest = 1.0 - self.half_one @ half
        error2 = np.maximum(z - np.sum(half * half, axis=0) + rest**2 / self.S, ROUNDING * z)
        return np.repeat(error2[:, None], len(self.amplitude), axis=1)

    def covariance(self, mu: Array, cross: Array) -> Array:
        half = self.factor.solve_lower(mu.T)
        rest = 1.0 - self.half_one @ half
        left = cross - half.T @ half + np.outer(rest, rest) / self.S
        return np.broadcast_to(left, (len(self.amplitude), *left.shape))


def nearest_psd(covariance: Array, variance: Array) -> Array:
    """A covariance (M, M) whose rounding errors are taken out: of no negative direction, and with these variances (M,).

    What is left of two numbers that are nearly the same may be less than the rounding errors of both.
    """
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    found = (vectors * np.maximum(values, 0.0)) @ vectors.T
    own = np.diagonal(found)
    factors = np.sqrt(np.divide(variance, own, out=np.zeros_like(variance), where=own > 0))
    found = found * np.outer(factors, factors)
    np.fill_diagonal(found, variance)
    return np.asarray(found)
