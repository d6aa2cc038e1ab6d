"""A problem that meets the assumptions of the paper's theorem, and no more: f and I on the edge of smoothness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array
from cbq.measures import Uniform
from cbq.problem import Problem

BASE, TERMS = 1.5, 24  # frequencies pi BASE^k: the last has 2800 periods on (0, 1), far more than there are points
BEYOND = 0.05  # of smoothness, by which a function is inside its space
PHASES = 7  # seed


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
        return np.asarray(BASE ** (-(self.s + BEYOND) * np.arange(TERMS, dtype=np.float64)))

    def __call__(self, x: Array) -> Array:
        """g at x (n,): (n,)."""
        return np.asarray(np.cos(x[:, None] * self._frequency + self.phase) @ self._weight)

    @property
    def integral(self) -> float:
        """Of g over (0, 1)."""
        parts = (np.sin(self._frequency + self.phase) - np.sin(self.phase)) / self._frequency
        return float(parts @ self._weight)


@dataclass(frozen=True, eq=False)
class Model:
    """f(x, theta) = g(x) + h(theta), X uniform on (0, 1) whatever theta is: I(theta) = E g(X) + h(theta)."""

    g: Weierstrass
    h: Weierstrass

    def integrand(self, x: Array, theta: Array) -> Array:
        """f at x (n, 1), theta (1,): (n,)."""
        return self.g(x[:, 0]) + self.h(theta)

    def family(self, theta: Array) -> Uniform:
        """The measure of x, with a density that is bounded from below and above."""
        return Uniform(0.0, 1.0)

    def exact(self, theta: Array) -> Array:
        """I at theta (M, 1): (M,)."""
        return self.g.integral + self.h(theta[:, 0])


def build(s_x: float, s_theta: float) -> Problem:
    """f(., theta) on the edge of the Sobolev space of order s_x, and I on that of order s_theta, both on (0, 1)."""
    rng = np.random.default_rng(PHASES)
    phases = rng.uniform(0, 2 * np.pi, (2, TERMS))
    model = Model(Weierstrass(s_x, phases[0]), Weierstrass(s_theta, phases[1]))
    prior = Uniform(0.0, 1.0)
    return Problem(model.integrand, model.family, prior, exact=model.exact, name=f"rough-{s_x:g}-{s_theta:g}")
