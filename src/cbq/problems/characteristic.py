"""The characteristic function of a Gamma measure as its argument varies: one measure for all thetas, two outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, positive
from cbq.measures import Gamma, Uniform
from cbq.problem import Problem

LARGEST = 2.5  # argument, in units of the rate


@dataclass(frozen=True)
class CharacteristicModel:
    """X ~ Gamma(shape, rate), and E exp(i t X) at the argument t = theta."""

    shape: float
    rate: float

    def family(self, theta: Array) -> Gamma:
        """The measure of X, which is the same at every theta (1,)."""
        return Gamma(self.shape, self.rate)

    def integrand(self, x: Array, theta: Array) -> Array:
        """exp(i t x) at x (n, 1), t = theta (1,), its real part first: (n, 2)."""
        angle = theta[0] * x[:, 0]
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1)

    def exact(self, theta: Array) -> Array:
        """(1 - i t/rate)^-shape at theta (M, 1), its real part first: (M, 2)."""
        t = theta[:, 0] / self.rate
        modulus, angle = np.hypot(1.0, t) ** -self.shape, self.shape * np.arctan(t)
        return np.stack([modulus * np.cos(angle), modulus * np.sin(angle)], axis=-1)


def build(shape: float = 3.0, rate: float = 2.0) -> Problem:
    """The characteristic function E exp(i theta X) of X ~ Gamma(shape, rate), as its argument theta varies.

    f(x, theta) = (cos theta x, sin theta x) has C = 2 outputs and depends on theta; the measure of X does not. The answer
    is the real and the imaginary part of (1 - i theta/rate)^-shape (Johnson, Kotz and Balakrishnan, Continuous
    Univariate Distributions 1, 1994, chapter 17). Prior of theta: uniform on (0, 2.5 rate).

    Parameters
    ----------
    shape, rate : of the Gamma measure of X; the mean of X is shape / rate.
    """
    model = CharacteristicModel(float(positive(shape, "shape")), float(positive(rate, "rate")))
    prior = Uniform(0.0, LARGEST * model.rate)
    return Problem(model.integrand, model.family, prior, exact=model.exact, name="characteristic")
