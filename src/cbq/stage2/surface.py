"""I as a function of theta: one Gaussian process with a kernel, an amplitude, a trend, and known noise at each node.

y (T,) are the estimates of stage 1 at the nodes, v (T,) their variances. K = A k(z, z) + diag(v + lambda), and the
coefficients of the trend H (T, q) have a flat prior: S = H'K^-1 H, Q = K^-1 - K^-1 H S^-1 H'K^-1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array
from cbq.io import Instance, Integer, Number, Optional, saved
from cbq.kernels import Kernel
from cbq.linalg import Factor, Jitter, factor
from cbq.linalg.small import cholesky, solve_lower, solve_upper
from cbq.stage2.coordinates import ThetaCoordinates
from cbq.stage2.trend import Trend, basis

JITTER = Jitter(start=1e-13)  # of A: less than any noise that matters


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
    """The distribution of I before it is seen, with all hyperparameters.

    kernel: on `coordinates` of theta, at unit amplitude. amplitude: A. noise: lambda, the variance that is added to
    that of every node. degree: of the trend, None for the known mean `offset`. evidence: its restricted log-likelihood,
    log prior included.
    n_fitted: the number of hyperparameters that were fitted.
    """

    coordinates: ThetaCoordinates
    kernel: Kernel
    amplitude: float
    noise: float
    degree: Trend
    evidence: float = 0.0
    n_fitted: int = 0
    offset: float = 0.0


@dataclass(frozen=True, eq=False)
class Predicted:
    """Of I at M thetas: mean (M,), weights (M, T) with mean = weights . y (of what exceeds the offset), a covariance.

    variance: (M,) or (M, M), of I less its prediction, were y without noise: `weights diag(v + lambda) weights'` is yet
    to be added.
    """

    mean: Array
    weights: Array
    variance: Array


class HeteroscedasticGP:
    """A Gaussian process over theta, conditioned on the nodes theta (T, p), y (T,) with noise variances v (T,)."""

    def __init__(self, prior: GPPrior, theta: Array, y: Array, v: Array) -> None:
        self.prior, self.y, self.v = prior, y - prior.offset, v
        self.z = prior.coordinates(theta)
        self.K = prior.amplitude * prior.kernel(self.z)
        self.scaled = ThetaCoordinates.standard(theta, prior.coordinates.logs)  # for all but the kernel
        self.H = basis(self.scaled(theta), prior.degree)
        self.factor = self.factor_with(v)
        self.solved_H = self.factor.solve(self.H) if self.H.size else self.H  # K^-1 H
        self.L = cholesky(self.H.T @ self.solved_H) if self.H.size else np.empty((0, 0))  # of S
        self.coefficients = (
            solve_upper(self.L, solve_lower(self.L, self.solved_H.T @ self.y)) if self.H.size else np.empty(0)
        )
        self.residual = self.factor.solve((self.y - self.H @ self.coefficients)[:, None])[:, 0]  # Q y

    def factor_with(self, v: Array) -> Factor:
        """The factor of K with noise variances v (T,) at the nodes."""
        return factor(self.K, nugget=v + self.prior.noise, jitter=JITTER)

    def residual_precision(self, v: Array) -> tuple[Array, Array]:
        """Q y and the diagonal of Q, each (T,), with noise variances v (T,): residuals are their ratios."""
        f = self.factor_with(v)
        solved = f.solve(np.column_stack([self.y, self.H]))
        Qy, diagonal = solved[:, 0], f.inverse_diagonal()
        if self.H.size:
            half = solve_lower(cholesky(self.H.T @ solved[:, 1:]), solved[:, 1:])  # rows: L^-1 H'K^-1
            Qy = Qy - half @ (half.T @ self.y)
            diagonal = diagonal - np.sum(half**2, axis=1)
        return Qy, np.maximum(diagonal, np.finfo(float).tiny)

    def mean(self, theta: Array) -> Array:
        """The mean of the prediction at theta (M, p): (M,)."""
        z = self.prior.coordinates(theta)
        known = self.prior.amplitude * self.prior.kernel(z, self.z) @ self.residual
        return np.asarray(self.prior.offset + known + basis(self.scaled(theta), self.prior.degree) @ self.coefficients)

    def predict(self, theta: Array, *, joint: bool = False) -> Predicted:
        """The prediction at theta (M, p)."""
        prior, z = self.prior, self.prior.coordinates(theta)
        k = prior.amplitude * prior.kernel(z, self.z)  # (M, T)
        solved = self.factor.solve(k.T).T  # k K^-1
        weights = solved
        rest = np.empty((len(z), 0))
        if self.H.size:
            h = basis(self.scaled(theta), prior.degree)
            rest = solve_lower(self.L, h - k @ self.solved_H)  # (M, q): rows L^-1 (h - H'K^-1 k)
            weights = solved + rest @ solve_lower(self.L, self.solved_H).T
        noise = self.v + prior.noise + self.factor.jitter
        if joint:
            own = prior.amplitude * prior.kernel(z)
            variance = own - k @ solved.T + rest @ rest.T - (weights * noise) @ weights.T
            variance = 0.5 * (variance + variance.T)
        else:
            own = prior.amplitude * prior.kernel.diag(z)
            variance = own - np.einsum("mt,mt->m", k, solved) + np.sum(rest**2, axis=1) - weights**2 @ noise
            variance = np.maximum(variance, 0.0)
        centre = float(np.mean(self.y)) if self.H.size else 0.0  # which the weights, of sum one, reproduce
        return Predicted(prior.offset + centre + weights @ (self.y - centre), weights, variance)
