"""The g-function given its first input, whose expectation leads to a first-order Sobol index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq.common import Array, finite, shown
from cbq.measures import Uniform
from cbq.problems.problem import Problem
from cbq.problems.registry import register

COEFFICIENTS = (0.0, 1.0, 4.5, 9.0)  # the smaller the coefficient, the more its input matters


def factors(x: Array, a: Array) -> Array:
    """g_i(x_i) = (|4 x_i - 2| + a_i) / (1 + a_i) at x (..., k), a (k,): (..., k). Each has mean 1 over (0, 1)."""
    return np.asarray((np.abs(4 * x - 2) + a) / (1 + a))


def index(a: Sequence[float] = COEFFICIENTS) -> float:
    """The first-order Sobol index of the first input, Var E[f | x_1] / Var f, of the g-function with coefficients a."""
    variances = 1 / (3 * (1 + _coefficients(a)) ** 2)  # V_i, of g_i; the index is V_1 / (prod_i (1 + V_i) - 1)
    return float(variances[0] / np.expm1(np.sum(np.log1p(variances))))


@dataclass(frozen=True, eq=False)
class SobolGModel:
    """The g-function of inputs (theta, x), all uniform on (0, 1)."""

    a: Array  # (d + 1,)

    def family(self, theta: Array) -> Uniform:
        """The measure of the other inputs, which is the same at every theta (1,)."""
        return Uniform(np.zeros(len(self.a) - 1), 1.0)

    def integrand(self, x: Array, theta: Array) -> Array:
        """The product of all g_i at the other inputs x (n, d) and the first, theta (1,): (n,)."""
        return np.asarray(factors(theta, self.a[:1])[0] * np.prod(factors(x, self.a[1:]), axis=-1))

    def exact(self, theta: Array) -> Array:
        """g_1(theta) at theta (M, 1), since all other factors have mean 1: (M,)."""
        return factors(theta, self.a[:1])[:, 0]


@register("sobol-g")
def build(a: Sequence[float] = COEFFICIENTS) -> Problem:
    """Expectation of the g-function given its first input, theta, which leads to a first-order Sobol index.

    f = prod_i (|4 x_i - 2| + a_i)/(1 + a_i), where all inputs x_i are uniform on (0, 1) (Saltelli and Sobol', 1995);
    `a` has a coefficient for each input, at least two, none of them negative.
    theta is the first input and x the others. Var E[f | theta] / Var f is the first-order Sobol index, whose exact
    value is `cbq.problems.sobol_g.index(a)`; `cbq.sensitivity` estimates it from a fit.
    """
    model = SobolGModel(_coefficients(a))
    return Problem(model.integrand, model.family, Uniform(0.0, 1.0), exact=model.exact, name="sobol-g")


def _coefficients(a: Sequence[float]) -> Array:
    array = finite(a, "a")
    if array.ndim != 1 or len(array) < 2 or np.any(array < 0):
        raise ValueError(f"a must hold two or more numbers, none of them negative, but it is {shown(a)}.")
    return array
