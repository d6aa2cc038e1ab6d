"""Radial Matern kernels in more than one dimension, as mixtures of RBF kernels over their lengthscale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from cbq._arrays import Array
from cbq.embeddings.base import Embedding
from cbq.embeddings.registry import find
from cbq.kernels import RBF, Kernel, Matern, Product
from cbq.measures import Measure

STEP = 0.16  # of the trapezoidal rule in log g, whose error decays like e^(-const / STEP): 4e-9 at 0.28
LEFT, RIGHT = 36.0, 45.0  # e^-LEFT is left out at small g, e^-RIGHT at large g


class ScaleMixture(Embedding):
    """Scale mixture of RBF embeddings.

    k_nu(r) = E exp(-r^2 / (2 l^2 g)),  g ~ Gamma(nu, rate nu): the expectation over log g by a trapezoidal rule.
    The Matern kernel may be multiplied by the kernels of `rest`.
    """

    rule = "scale mixture of RBF formulas, trapezoidal rule in the log of the scale"

    def __init__(self, matern: Matern, measure: Measure, rest: Sequence[Kernel] = ()) -> None:
        super().__init__(times(matern, rest), measure)
        g, self._weights = scale_rule(matern.nu)
        scales = (np.sqrt(gi) * matern.known_lengthscale for gi in g)
        self._parts = [find(times(RBF(scale), rest), measure) for scale in scales]

    def _mean(self, x: Array) -> Array:
        return self._average([part._mean(x) for part in self._parts])

    def _variance(self) -> Array:
        return self._average([part._variance() for part in self._parts])

    def _cross(self, other: Measure) -> Array:
        return self._average([part._cross(other) for part in self._parts])

    def _average(self, values: list[Array]) -> Array:
        return np.asarray(sum(w * v for w, v in zip(self._weights, values, strict=True)))


def times(kernel: Kernel, rest: Sequence[Kernel]) -> Kernel:
    """The product of a kernel and others, if any."""
    return Product([kernel, *rest]) if rest else kernel


def scale_rule(nu: float) -> tuple[Array, Array]:
    """Nodes g and weights for expectations under Gamma(nu, rate nu)."""
    upper = np.log(RIGHT / nu)
    t = np.arange(-LEFT / nu, upper + STEP, STEP)
    log_density = nu * np.log(nu) - gammaln(nu) + nu * t - nu * np.exp(t)
    return np.exp(t), STEP * np.exp(log_density)
