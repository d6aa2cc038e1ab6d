"""Points at which the outcome of f is decided: importance sampling from a measure, guided by an emulator of f.

A plain draw of P_theta hardly ever falls into an event of probability 1e-5. Points are therefore drawn, in coordinates
z in which P_theta is standard normal, from a proposal q of two parts: normal distributions of several widths around
zero, which look everywhere, and normal kernels around earlier points, in proportion to relevance times weight

    w = phi(z) / q(z).

The first part bounds all weights. A few stages move the second one to where the relevance is. While few points are
relevant, a power of the relevance below one replaces it, as in subset simulation.

The weights sum to one. Points that matter least take what the sum lacks, so that the mass of a rare event has its own
error and none of the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtri

from cbq.common import Array, blocks
from cbq.linalg.lapack import cholesky, solve_lower
from cbq.measures import Measure
from cbq.measures.points import sobol

WeightedPoints = tuple[Array, Array, list[slice]]  # points (n, d), weights (n,), and the rows of blocks of equal size
Relevance = Callable[
    [Array, Array], Array
]  # the logarithm (n,), at most 0, of how much points x (n, d), weights (n,) matter


@dataclass(frozen=True)
class RareEventSampling:
    """How points are drawn.

    widths : standard deviations of the normal distributions around zero, which have equal shares.
    everywhere : their share in all.
    stages, points : of the search, at most, and points of each. It ends after two stages with enough relevant points.
    kernels, neighbours : number of normal kernels, and of nearest ones whose spread is that of a kernel.
    least_width : of a kernel.
    least : effective number of points that a stage must have.
    reach : largest coordinate of z; beyond, distribution functions are 0 or 1 in float64.
    """

    widths: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0)
    everywhere: float = 0.3
    stages: int = 8
    points: int = 2048
    kernels: int = 256
    neighbours: int = 8
    least_width: float = 0.03
    least: float = 64.0
    reach: float = 8.0

    def draw(
        self,
        measure: Measure,
        relevance: Relevance,
        size: int,
        blocks: int,
        rng: np.random.Generator,
        start: Proposal | None = None,
    ) -> tuple[WeightedPoints, Proposal]:
        """Points (n, d), weights (n,), and the rows of blocks of equal weight; and their proposal.

        start: where the search begins, such as the proposal of a similar measure.
        """
        proposal = start or Proposal(self.widths, 1.0, np.zeros((1, measure.dim)), np.eye(measure.dim))
        arrived = 0
        for _ in range(self.stages):
            z, x, w = self._points(measure, proposal, self.points, rng)
            log_w, log_r = np.log(w), relevance(x, w / np.sum(w))
            tempered = self._tempered(log_w, log_r)
            proposal, arrived = self._moved(z, log_w + tempered), arrived + (tempered is log_r)
            if arrived == 2:
                break
        n = -(-size // blocks)
        _, points, raw = self._points(measure, proposal, n * blocks, rng)
        rows = [slice(i, i + n) for i in range(0, len(points), n)]
        matter = np.exp(relevance(points, raw / np.sum(raw)))
        weights = np.concatenate([_summing_to_one(raw[some] / n, matter[some]) for some in rows])
        return (points, weights / blocks, rows), proposal

    def _points(
        self, measure: Measure, proposal: Proposal, n: int, rng: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """n points in normal coordinates (n, d), as x (n, d), and their weights (n,)."""
        z = np.clip(proposal.draw(n, rng), -self.reach, self.reach)
        log_normal = -0.5 * np.sum(z**2, axis=1) - 0.5 * z.shape[1] * np.log(2 * np.pi)
        return z, measure.transport(z, "normal"), np.exp(log_normal - proposal.logpdf(z))

    def _tempered(self, log_w: Array, log_r: Array) -> Array:
        """The logarithm of the relevance, or of the largest of its powers 1/2, 1/4, ... that enough points have."""
        while _effective(log_w + log_r) < self.least and np.any(log_r < -1e-3):
            log_r = 0.5 * log_r
        return log_r

    def _moved(self, z: Array, log_mass: Array) -> Proposal:
        """The proposal with kernels at points z (n, d) drawn by their mass."""
        mass = np.exp(log_mass - logsumexp(log_mass))
        edges = (np.arange(self.kernels) + 0.5) / self.kernels
        centres = z[np.minimum(np.searchsorted(np.cumsum(mass), edges), len(z) - 1)]
        # Relevant points may form several clouds: kernels have the average covariance of the nearest centres.
        apart = centres[:, None] - centres
        nearest = np.argsort(np.sum(apart**2, axis=2), axis=1)[:, : self.neighbours + 1]
        local = np.take_along_axis(apart, nearest[..., None], axis=1).reshape(-1, z.shape[1])
        cov = local.T @ local / (len(centres) * self.neighbours)
        return Proposal(self.widths, self.everywhere, centres, cholesky(cov + self.least_width**2 * np.eye(z.shape[1])))


@dataclass(frozen=True, eq=False)
class Proposal:
    """Normal distributions of several widths around zero with a share of the mass, and kernels with the rest.

    centres: (K, d). root: (d, d), lower triangular, of the covariance of all kernels.
    """

    widths: tuple[float, ...]
    share: float
    centres: Array
    root: Array

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Points (n, d), from a Sobol sequence whose first coordinate chooses the component."""
        u = sobol(n, len(self.root) + 1, rng)
        normal = ndtri(u[:, 1:])
        around = u[:, 0] < self.share
        width = np.asarray(self.widths)[
            np.minimum(u[:, 0] / self.share * len(self.widths), len(self.widths) - 1).astype(int)
        ]
        position = np.clip((u[:, 0] - self.share) / max(1 - self.share, 1e-300), 0, 1 - 1e-12)
        centre = self.centres[(position * len(self.centres)).astype(int)]
        return np.asarray(np.where(around[:, None], width[:, None] * normal, centre + normal @ self.root.T))

    def logpdf(self, z: Array) -> Array:
        """(n,)."""
        d = z.shape[1]
        squared = np.sum(z**2, axis=1)
        each = [-0.5 * squared / s**2 - d * np.log(s) + np.log(self.share / len(self.widths)) for s in self.widths]
        if self.share < 1:
            scaled, centres = solve_lower(self.root, z), solve_lower(self.root, self.centres)
            near = np.empty(len(z))
            for some in blocks(len(z), 512):  # whose distances to all centres stay in the cache
                log_kernel = scaled[some] @ centres.T
                log_kernel -= 0.5 * np.sum(scaled[some] ** 2, axis=1)[:, None]
                log_kernel -= 0.5 * np.sum(centres**2, axis=1)
                near[some] = np.sum(np.exp(log_kernel, out=log_kernel), axis=1)
            # Far from all centres the sum is 0: the normal distributions around zero have all of the density.
            near = np.maximum(near, np.finfo(float).tiny)
            log_root = np.sum(np.log(np.diagonal(self.root)))
            each.append(np.log(near) - log_root + np.log((1 - self.share) / len(centres)))
        return np.asarray(logsumexp(each, axis=0) - 0.5 * d * np.log(2 * np.pi))


def _effective(log_mass: Array) -> float:
    """The effective number of points with these masses."""
    return float(np.exp(2 * logsumexp(log_mass) - logsumexp(2 * log_mass)))


def _summing_to_one(w: Array, matter: Array, least: float = 0.25) -> Array:
    """Weights (n,) that sum to one; points that matter take none of the correction, unless nearly all of them do."""
    free = w * (1 - matter)
    lacking = 1 - np.sum(w)
    if np.sum(free) < least or lacking < -np.sum(free):
        return w / np.sum(w)
    return np.asarray(w + free * (lacking / np.sum(free)))
