"""A Gaussian process behind values that are 0 or 1, or counts: its posterior, and draws of it.

Given g at the points, the values are independent: 1 with probability Phi(g) (probit link), or Poisson with the mean
exp(g) (log link). g = b + h, and h has the covariance K = B + A k. The posterior of h is approximated by a Gaussian
one: each value becomes a site, an observation of h with the precision t and the natural mean v, so that

    cov h = K - K t^1/2 (I + t^1/2 K t^1/2)^-1 t^1/2 K,    mean h = cov h v.

For the probit link, sites follow by expectation propagation: with the site and its value, h_i has the same mean and
variance (Rasmussen and Williams 2006, Section 3.6); at a mode far from zero the likelihood is flat, and Laplace's
method would see nothing. For the log link they follow by Laplace's method (Section 3.4), by the steps of Newton.

A draw at the points and at further nodes continues everywhere: h(u) = k(u)'K^-1 h + r, where r has the variance w(u)
that the nodes leave. Averaged over r, the mean of a value is Phi(g / sqrt(1 + w)), or exp(g + w / 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from cbq.common import Array
from cbq.io import Instance, Number, Text, saved
from cbq.kernels import Kernel
from cbq.linalg import Factor, factor
from cbq.linalg.lapack import eigh, symmetric_root

Link = Literal["probit", "log"]


@saved(
    "LatentPrior",
    kernel=Instance(Kernel),
    amplitude=Number(0.0),
    centre=Number(),
    link=Text(get_args(Link)),
    level=Number(0.0),
)
@dataclass(frozen=True, eq=False)
class LatentPrior:
    """The prior of g = b + h: its mean b, the amplitude A of a kernel, and the variance B of its level."""

    kernel: Kernel
    amplitude: float
    centre: float
    link: Link
    level: float = 1.0

    def cov(self, u: Array, v: Array | None = None) -> Array:
        """The covariances (n, m) of g at points u (n, D) and v (m, D)."""
        return np.asarray(self.level + self.amplitude * self.kernel(u, u if v is None else v))

    def mean_of(self, g: Array, left: Array) -> Array:
        """The mean of a value, for g (...) known but for an error of variance `left`."""
        return ndtr(g / np.sqrt(1 + left)) if self.link == "probit" else np.exp(np.minimum(g + 0.5 * left, 700.0))

    def sites(self, y: Array, mean: Array, variance: Array, t: Array, v: Array) -> tuple[Array, Array, float]:
        """New sites t, v (n,), and the terms of the evidence that are sums over values, at moments (n,) of h."""
        if self.link == "log":
            rate = np.exp(np.minimum(self.centre + mean, 700.0))
            slope = y - rate
            sums = float(np.sum(y * (self.centre + mean) - rate)) - 0.5 * float(mean @ (v - t * mean))
            return rate, rate * mean + slope, sums - 0.5 * float(mean @ v)
        precision = np.maximum(1 / variance - t, 1e-12)  # of the cavity: without the site
        without = (mean / variance - v) / precision
        sign, total = 2 * y - 1, np.sqrt(1 + 1 / precision)
        z = sign * (self.centre + without) / total
        log = log_ndtr(z)
        ratio = np.exp(-0.5 * z**2 - log) / np.sqrt(2 * np.pi)
        tilted = without + sign * ratio / (precision * total)
        tilted2 = (1 - ratio * (z + ratio) / (precision * total**2)) / precision
        sums = np.sum(log + 0.5 * (without**2 * precision - np.log(precision)))
        sums -= 0.5 * np.sum(mean**2 / variance + np.log(variance))
        return 1 / tilted2 - precision, tilted / tilted2 - without * precision, float(sums)


def centre_of(y: Array, link: Link, variance: float) -> float:
    """The mean b of g with this variance: where the mean of a value is the average, moved by half an event."""
    if link == "probit":
        return float(ndtri((np.sum(y) + 0.5) / (len(y) + 1)) * np.sqrt(1 + variance))
    return float(np.log((np.sum(y) + 0.5) / len(y)))


@dataclass(frozen=True, eq=False)
class LatentPosterior:
    """The posterior of h at the points u (n, D). evidence: log p(y). a: K^-1 mean h (n,)."""

    prior: LatentPrior
    u: Array
    evidence: float
    a: Array
    root: Array  # t^1/2
    half: Factor  # of I + t^1/2 K t^1/2

    @classmethod
    def of(
        cls, prior: LatentPrior, u: Array, y: Array, steps: int = 200, share: float = 0.4, tolerance: float = 1e-5
    ) -> LatentPosterior:
        """Given values y (n,). share: of the way to new sites that a step takes.

        All sites move at once, and with 0.7 of the way they may circle around each other. The evidence of sites that do
        not settle is zero.
        """
        K, n = prior.cov(u), len(y)
        t, v = np.full(n, 1e-10), np.zeros(n)
        for _ in range(steps):
            root = np.sqrt(t)
            half = factor(np.eye(n) + root[:, None] * K * root)
            known = half.solve_lower((K * root).T).T
            variance = np.maximum(np.diagonal(K) - np.sum(known**2, axis=1), 1e-12)
            mean = K @ v - known @ (known.T @ v)
            new, new_v, sums = prior.sites(y, mean, variance, t, v)
            moved = np.max(np.abs(new_v - new * mean - v + t * mean) * np.sqrt(variance))  # of a, in units of h
            if moved < tolerance:
                break
            t, v = np.maximum(t + share * (new - t), 1e-10), v + share * (new_v - v)
        settled = sums + 0.5 * float(mean @ v) - 0.5 * float(half.logdet)
        evidence = settled if moved < tolerance else -np.inf
        return cls(prior, u, evidence, v - t * mean, root, half)

    def draws(self, nodes: Array, size: int, rng: np.random.Generator) -> LatentDraws:
        """Draws of h, which is drawn at the points and at further nodes (m, D) jointly."""
        prior, every = self.prior, np.concatenate([self.u, nodes])
        K = prior.cov(every)
        mine = K[:, : len(self.u)]
        known = self.half.solve_lower((mine * self.root).T).T
        h = mine @ self.a + rng.standard_normal((size, len(every))) @ symmetric_root(K - known @ known.T)
        values, vectors = eigh(K)
        kept = values > 1e-9 * values[-1]
        axes = vectors[:, kept] / np.sqrt(values[kept])
        return LatentDraws(prior, every, axes, (h @ axes).T)


@dataclass(frozen=True, eq=False)
class LatentDraws:
    """Draws of g as functions. axes: (N, r), K^-1 = axes axes'. coordinates: (r, size), of the draws at the nodes."""

    prior: LatentPrior
    nodes: Array
    axes: Array
    coordinates: Array

    def means(self, u: Array, rng: np.random.Generator | None = None) -> Array:
        """The means (n, size) of a value at points u (n, D), for each draw.

        rng : draws what the nodes leave open of g, at each point by itself; otherwise it is averaged out.
        """
        features = self.prior.cov(u, self.nodes) @ self.axes
        variance = self.prior.level + self.prior.amplitude * self.prior.kernel.diag(u)
        left = np.maximum(variance - np.sum(features**2, axis=1), 0.0)
        g = self.prior.centre + features @ self.coordinates
        if rng is not None:
            return self.prior.mean_of(g + np.sqrt(left)[:, None] * rng.standard_normal(g.shape), np.zeros((len(u), 1)))
        return self.prior.mean_of(g, left[:, None])


def plausible_priors(
    kernel: Kernel,
    u: Array,
    y: Array,
    link: Link,
    rng: np.random.Generator,
    *,
    ard: bool,
    noisy: bool,
    count: int = 16,
    tried: int = 64,
    reach: float = 0.7,
) -> list[LatentPrior]:
    """Priors (count) whose amplitude and lengthscales are draws of their posterior, all of the same weight.

    They have wide priors themselves. The logarithm of the amplitude is N(log a, 1.5^2), with a = 4 for events, or 400
    where the value is a function of u, and the variance of log(y + 1/2) for counts; the one of a lengthscale, in units
    of the spread of the points along it, N(log sqrt(D), 1). Without them, the amplitude of values that a surface
    separates would be infinite.

    tried : places around the mode, at distances of `reach` in each coordinate, from which the draws are resampled.
    """
    from scipy.optimize import minimize

    D, usual = u.shape[1], 400.0
    if noisy or link == "log":
        usual = 4.0 if link == "probit" else max(float(np.var(np.log(y + 0.5))), 0.1)
    spread = np.std(u, axis=0)
    unit = np.log(np.where(spread > 0, spread, 1.0)) + 0.5 * np.log(D)

    def prior(at: Array) -> LatentPrior:
        A = float(usual * np.exp(at[0]))
        level = A if link == "probit" else 1.0
        lengthscales = unit + (at[1:] if ard else at[1])
        return LatentPrior(kernel.with_log_lengthscales(lengthscales), A, centre_of(y, link, A + level), link, level)

    def loss(at: Array) -> float:
        found = LatentPosterior.of(prior(at), u, y).evidence
        return -max(found, -1e6) + 0.5 * float((at[0] / 1.5) ** 2 + np.sum(at[1:] ** 2))

    size = 1 + (D if ard else 1)
    bounds = [(-5.0, 5.0)] * size
    mode = minimize(loss, np.zeros(size), method="L-BFGS-B", bounds=bounds, options={"maxiter": 12, "eps": 1e-3}).x
    steps = reach * rng.standard_normal((tried, size))
    steps[0] = 0.0
    log = np.array([-loss(mode + step) for step in steps]) + 0.5 * np.sum((steps / reach) ** 2, axis=1)
    total = np.cumsum(np.exp(log - np.max(log)))
    rows = np.searchsorted(total, total[-1] * (np.arange(count) + rng.random()) / count)
    return [prior(mode + steps[i]) for i in rows]
