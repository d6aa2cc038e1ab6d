"""The outcome of f at several thetas, from the points that decide one estimand, and the points where f matters most."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri

from cbq.common import Array
from cbq.fit import (
    Fit,
    Marginals,
    Outcome,
    OutcomeOptions,
    RareEventSampling,
    Triple,
    WeightedPoints,
    points_of,
    sobol_blocks,
)
from cbq.measures import Empirical
from cbq.runs.estimands import ROUNDING, AtThreshold, Pointwise
from cbq.samples import Runs


@dataclass(frozen=True, eq=False)
class Focus:
    """One output c of f at G thetas, from the points that decide an estimand: WeightedPoints for each theta."""

    estimand: Pointwise
    c: int
    points: tuple[WeightedPoints, ...]
    outcome: Outcome

    @classmethod
    def on(
        cls,
        estimand: Pointwise,
        c: int,
        fit: Fit,
        theta: Array,
        rng: np.random.Generator,
        *,
        size: int = 2**13,
        sampling: RareEventSampling | None = None,
    ) -> Focus:
        """The focus of a fit at thetas (G, p). size: number of points at each."""
        sampling, proposal, blocks = sampling or RareEventSampling(), None, OutcomeOptions().blocks
        points = list[WeightedPoints]()
        for at, measure, own in zip(theta, fit.emulator.samples.conditional(theta), rng.spawn(len(theta)), strict=True):
            if isinstance(measure, Empirical) or not estimand.is_local:
                points.append(points_of(measure, sobol_blocks(measure.dim, size, blocks, own), blocks))
                continue

            def relevance(x: Array, weights: Array, at: Array = at) -> Array:
                return estimand.relevance(_known(fit, c, at, x, weights))

            # The points of one theta show where to look at the next one.
            found, proposal = sampling.draw(measure, relevance, size, blocks, own, proposal)
            points.append(found)
        return cls(estimand, c, tuple(points), Outcome.at_points(fit, theta, points, rng))

    def interval(self, level: float, n: int) -> Triple:
        """The estimates (G,), and the ends of their intervals given n runs."""
        estimate, low, high = self.estimand.interval(self.outcome, level, n)
        if self.outcome.fit.C is None:
            return estimate, low, high
        return estimate[:, self.c], low[:, self.c], high[:, self.c]

    def undecided(self, n: int, rng: np.random.Generator) -> tuple[Runs, Array]:
        """n points at which values of f would show most of the estimates, and how the estimates move with them (n,).

        Points are drawn in proportion to what f leaves open of the estimates through them: the slope times the standard
        deviation of f. What a drawn point stands for therefore moves with f as 1 over the standard deviation. All
        thetas have as many points.
        """
        x = np.concatenate([x for x, _, _ in self.points])
        theta = np.repeat(self.outcome.theta, [len(x) for x, _, _ in self.points], axis=0)
        tiny, share, std = np.finfo(float).tiny, list[Array](), list[Array]()
        for m in range(len(self.points)):
            known = self.outcome.known(m)[self.c]
            std.append(known.std)
            # Any scale of the errors may be the right one: with the largest, more points may be on the other side.
            wider = (replace(known, std=scale * known.std) for scale in np.sqrt(self.outcome.fit.emulator.scales2))
            left = np.mean([np.abs(self.estimand.slopes(each)) * each.std for each in wider], axis=0)
            share.append(left / max(float(np.sum(left)), tiny))
        mass = np.concatenate(share)
        if not np.sum(mass) > 0:  # nothing is open: everything may be wrong
            mass = np.concatenate([weights for _, weights, _ in self.points])
        edges = (np.arange(n) + rng.random()) / n
        rows = np.minimum(np.searchsorted(np.cumsum(mass) / np.sum(mass), edges), len(mass) - 1)
        chosen = np.maximum(np.concatenate(std)[rows], tiny)
        return Runs(theta[rows], x[rows]), np.min(chosen) / chosen

    def elsewhere(self, n: int, rng: np.random.Generator, *, share: float = 0.02) -> tuple[Runs, Array]:
        """n points all over the measures, and how far (n,) f seems to be from the threshold, in units of its spread.

        Points have a uniform radius in normal coordinates, up to one beyond which there is no more than a share of the
        rarer side of the threshold. The distance is infinite on that side, and where f is undecided: there, values of f
        are wanted anyway.
        """
        assert isinstance(self.estimand, AtThreshold)
        fit, per_theta = self.outcome.fit, -(-n // len(self.points))
        thetas, found, margins = list[Array](), list[Array](), list[Array]()
        for m, measure in enumerate(fit.emulator.samples.conditional(self.outcome.theta)):
            known = self.outcome.known(m)[self.c]
            c = self.estimand.threshold(known)
            below = float(known.cdf(np.array([c]))[0])
            reach = np.sqrt(chdtri(measure.dim, share * max(min(below, 1 - below), ROUNDING)))
            z = rng.standard_normal((per_theta, measure.dim))
            z *= (reach * rng.random(per_theta) / np.linalg.norm(z, axis=1))[:, None]
            x, theta = measure.transport(z, "normal"), self.outcome.theta[m]
            there = _known(fit, self.c, theta, x, np.full(per_theta, 1 / per_theta))
            away = (there.mean - c) * (1 if below < 0.5 else -1)
            decided = away > 5 * there.std
            unit = max(float(np.std(there.mean)), np.finfo(float).tiny)
            thetas.append(np.repeat(theta[None], per_theta, axis=0))
            found.append(x)
            margins.append(np.where(decided, away / unit, np.inf))
        return Runs(np.concatenate(thetas), np.concatenate(found)), np.concatenate(margins)


def _known(fit: Fit, c: int, theta: Array, x: Array, weights: Array) -> Marginals:
    """What is known of output c at points x (n, d) of theta (p,)."""
    emulator = fit.emulator
    variance, means = emulator.marginals(x, theta)
    std = np.sqrt(variance[:, c] + emulator.noise_std[c] ** 2)
    return Marginals(weights, means[:, c], std, -np.inf, np.inf)
