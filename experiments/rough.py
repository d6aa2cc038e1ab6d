"""A problem that just meets the assumptions of the paper's theorem, with f and the measure of x both varying in theta.

X is a mixture of the uniform measures on (0, 1) and (0, 1/2) whose weight varies with theta, so that its density is
bounded from below and above, and f(x, theta) = g(x) (2 + h(theta)), where g and h lie just inside Sobolev spaces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq import Problem
from cbq.measures import Mixture, Uniform
from experiments.common import Array

BASE, TERMS = 1.5, 24  # frequencies pi BASE^k; the last has 5600 periods on (0, 1), far more than there are points
MARGIN = 0.05  # smoothness by which a function lies inside its Sobolev space
PHASE_SEED = 7
LEVEL = 2.0  # added to h, so that I does not vanish on average
HALF = 0.5  # the end of the second component


@dataclass(frozen=True, eq=False)
class Weierstrass:
    """g(x) = sum_k b^(-k r) cos(w_k x + phase_k), w_k = pi b^k, r = s + 0.05: in H^s(0, 1), and not in H^(s + 0.05)."""

    s: float
    phase: Array  # (TERMS,)

    @property
    def _frequency(self) -> Array:
        return np.asarray(np.pi * BASE ** np.arange(TERMS, dtype=np.float64))

    @property
    def _weight(self) -> Array:
        return np.asarray(BASE ** (-(self.s + MARGIN) * np.arange(TERMS, dtype=np.float64)))

    def __call__(self, x: Array) -> Array:
        """The values g(x) (n,) at x (n,)."""
        return np.asarray(np.cos(x[:, None] * self._frequency + self.phase) @ self._weight)

    def average(self, end: float) -> float:
        """The mean of g over (0, end)."""
        parts = (np.sin(self._frequency * end + self.phase) - np.sin(self.phase)) / (self._frequency * end)
        return float(parts @ self._weight)


def share_of_half(theta: Array) -> Array:
    """The weight (n,) of the uniform measure on (0, 1/2) at theta (n, 1): between 0.2 and 0.8."""
    return np.asarray(0.5 + 0.3 * np.sin(2 * np.pi * theta[..., 0]))


@dataclass(frozen=True, eq=False)
class RoughModel:
    """f(x, theta) = g(x) (2 + h(theta)) under the mixture of the module."""

    g: Weierstrass
    h: Weierstrass

    def integrand(self, x: Array, theta: Array) -> Array:
        """The values f(x, theta) (n,) at x (n, 1) and theta (1,)."""
        return self.g(x[:, 0]) * (LEVEL + self.h(theta))

    def family(self, theta: Array) -> Mixture:
        """The measure of x at theta (1,), or a batch of measures at theta (T, 1)."""
        w = share_of_half(theta)
        return Mixture(np.stack([1 - w, w], axis=-1), [Uniform(0.0, 1.0), Uniform(0.0, HALF)])

    def exact(self, theta: Array) -> Array:
        """The truth I(theta) (M,) at theta (M, 1)."""
        w = share_of_half(theta)
        return ((1 - w) * self.g.average(1.0) + w * self.g.average(HALF)) * (LEVEL + self.h(theta[:, 0]))


def rough_problem(s_x: float, s_theta: float) -> Problem:
    """f at the edge of the Sobolev spaces of order s_x in x and of order s_theta in theta, both on (0, 1)."""
    rng = np.random.default_rng(PHASE_SEED)
    phases = rng.uniform(0, 2 * np.pi, (2, TERMS))
    model = RoughModel(Weierstrass(s_x, phases[0]), Weierstrass(s_theta, phases[1]))
    prior = Uniform(0.0, 1.0)
    return Problem(model.integrand, model.family, prior, exact=model.exact, name=f"rough-{s_x:g}-{s_theta:g}")
