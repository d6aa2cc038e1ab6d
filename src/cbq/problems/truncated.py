"""The mean of a normal distribution cut off below, as the bound varies: the inverse Mills ratio gives the answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx

from cbq._arrays import Array, finite, positive
from cbq.measures import TruncatedGaussian, Uniform
from cbq.problem import Problem

LOWEST, HIGHEST = -2.0, 4.0  # bound of the prior, in standard deviations from the mean


def inverse_mills(a: Array) -> Array:
    """phi(a) / Phi(-a), the mean of a standard normal given that it is above a (M,): (M,).

    In terms of erfcx nothing underflows far in the upper tail, where it is a + 1/a - 2/a^3 + ...
    """
    return np.asarray(np.sqrt(2 / np.pi) / erfcx(a / np.sqrt(2)))


@dataclass(frozen=True)
class TruncatedModel:
    """X ~ N(mean, std^2), given that X > theta."""

    mean: float
    std: float

    def family(self, theta: Array) -> TruncatedGaussian:
        """The measure of X above theta (1,)."""
        return TruncatedGaussian(self.mean, self.std, theta, np.inf)

    def integrand(self, x: Array, theta: Array) -> Array:
        """X itself at x (n, 1): (n,)."""
        return x[:, 0]

    def exact(self, theta: Array) -> Array:
        """mean + std phi(a)/Phi(-a), a = (theta - mean)/std, at theta (M, 1): (M,)."""
        return self.mean + self.std * inverse_mills((theta[:, 0] - self.mean) / self.std)


def build(mean: float = 0.0, std: float = 1.0) -> Problem:
    """E[X | X > theta] for X ~ N(mean, std^2), as the bound theta varies.

    The measure of x is the normal distribution cut off below theta, and f(x) = x does not depend on theta. The answer is
    mean + std phi(a)/Phi(-a) with a = (theta - mean)/std (Johnson, Kotz and Balakrishnan, Continuous Univariate
    Distributions 1, 1994, section 13.10), accurate however far in the tail the bound is. Prior of theta: uniform
    from mean - 2 std to mean + 4 std.

    Parameters
    ----------
    mean, std : of the normal distribution before it is cut off.
    """
    model = TruncatedModel(float(finite(mean, "mean")), float(positive(std, "std")))
    prior = Uniform(model.mean + LOWEST * model.std, model.mean + HIGHEST * model.std)
    return Problem(model.integrand, model.family, prior, depends_on_theta=False, exact=model.exact, name="truncated")
