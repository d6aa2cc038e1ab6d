"""Radial Matern kernels in more than one dimension, as mixtures of RBF kernels over their lengthscale."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import gammaln

from cbq._arrays import Array
from cbq.embeddings.base import Embedding
from cbq.embeddings.registry import find
from cbq.kernels import RBF, Kernel, Matern, ProductKernel
from cbq.measures import Measure

STEP = {0.5: 0.22, 1.5: 0.2, 2.5: 0.16}  # of the trapezoidal rule in log g, by nu
LEFT, RIGHT = 36.0, 45.0  # e^-LEFT is left out at small g, e^-RIGHT at large g


class ScaleMixture(Embedding):
    """Scale mixture of RBF embeddings.

    k_nu(r) = E exp(-r^2 / (2 l^2 g)),  g ~ Gamma(nu, rate nu): the expectation over log g by a trapezoidal rule.
    The Matern kernel may be multiplied by the kernels of `rest`.
    """

    rule = "scale mixture of RBF formulas, trapezoidal rule in the log of the scale"

    def __init__(self, matern: Matern, measure: Measure, rest: Sequence[Kernel] = ()) -> None:
        super().__init__(times(matern, rest), measure)
        self._matern, self._rest = matern, rest
        self._part(1.0)  # refuses here what the RBF kernels would refuse later

    def _mean(self, x: Array) -> Array:
        return self._average(lambda part: part._mean(x))

    def _variance(self) -> Array:
        return self._average(lambda part: part._variance())

    def _cross(self, other: Measure) -> Array:
        return self._average(lambda part: part._cross_any(other))

    def _part(self, g: float) -> Embedding:
        return find(times(RBF(np.sqrt(g) * self._matern.known_lengthscale), self._rest), self.measure)

    def _average(self, value: Callable[[Embedding], Array]) -> Array:
        """Sum over g from large to small, until what is left cannot count: the values fall with g."""
        total = np.zeros(())
        for g, weight, left in scale_rule(self._matern.nu):
            term = value(self._part(g))
            total = total + weight * term
            if np.all(left * term <= 1e-17 * total):
                break
        return total


def times(kernel: Kernel, rest: Sequence[Kernel]) -> Kernel:
    """The product of a kernel and others, if any."""
    return ProductKernel([kernel, *rest]) if rest else kernel


def scale_rule(nu: float) -> list[tuple[float, float, float]]:
    """Nodes g from large to small, weights, and the weight of all smaller ones, under Gamma(nu, rate nu)."""
    t = np.arange(np.log(RIGHT / nu), -LEFT / nu, -STEP[nu])
    log_density = nu * np.log(nu) - gammaln(nu) + nu * t - nu * np.exp(t)
    weights = STEP[nu] * np.exp(log_density)
    left = np.cumsum(weights[::-1])[::-1] - weights
    return list(zip(np.exp(t).tolist(), weights.tolist(), left.tolist(), strict=True))
