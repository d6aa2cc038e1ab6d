"""Two expectations under univariate distributions, with textbook answers: a characteristic function, a truncated mean.

The formulas are in Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 1, 1994.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx

from cbq.common import Array
from cbq.measures import Gamma, TruncatedGaussian, Uniform
from cbq.measures.base import parameter, positive_parameter
from cbq.problems.problem import Problem
from cbq.problems.registry import register


@dataclass(frozen=True)
class CharacteristicModel:
    """X ~ Gamma(shape, rate), and E exp(i t X) at the argument t = theta."""

    shape: float
    rate: float

    def family(self, theta: Array) -> Gamma:
        """The measure of X, which is the same at every theta (1,)."""
        return Gamma(self.shape, self.rate)

    def integrand(self, x: Array, theta: Array) -> Array:
        """The real and the imaginary part of exp(i t x) at x (n, 1), t = theta (1,): (n, 2)."""
        angle = theta[0] * x[:, 0]
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1)

    def exact(self, theta: Array) -> Array:
        """The real and the imaginary part of (1 - i t/rate)^-shape at theta (M, 1): (M, 2)."""
        t = theta[:, 0] / self.rate
        modulus, angle = np.hypot(1.0, t) ** -self.shape, self.shape * np.arctan(t)
        return np.stack([modulus * np.cos(angle), modulus * np.sin(angle)], axis=-1)


@register("characteristic")
def build_characteristic(shape: float = 3.0, rate: float = 2.0) -> Problem:
    """The characteristic function E exp(i theta X) of X ~ Gamma(shape, rate), as its argument theta varies.

    The C = 2 outputs are its real and its imaginary part, and the answer is (1 - i theta/rate)^-shape (chapter 17 of
    the book). The prior of theta is uniform on (0, 2.5 rate).

    Parameters
    ----------
    shape, rate : the parameters of the Gamma measure of X, whose mean is shape / rate.
    """
    model = CharacteristicModel(_number(shape, "shape", positive_parameter), _number(rate, "rate", positive_parameter))
    prior = Uniform(0.0, 2.5 * model.rate)
    return Problem(model.integrand, model.family, prior, exact=model.exact, name="characteristic")


def inverse_mills(a: Array) -> Array:
    """phi(a) / Phi(-a), the mean of a standard normal given that it is above a (M,): (M,).

    With erfcx nothing underflows far in the upper tail, where the ratio is a + 1/a - 2/a^3 + ...
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


@register("truncated")
def build_truncated(mean: float = 0.0, std: float = 1.0) -> Problem:
    """E[X | X > theta] for X ~ N(mean, std^2), as the bound theta varies.

    The answer is mean + std phi(a)/Phi(-a) with a = (theta - mean)/std (section 13.10 of the book). The prior of theta
    is uniform from mean - 2 std to mean + 4 std.

    Parameters
    ----------
    mean, std : the mean and the standard deviation of the normal distribution before it is truncated.
    """
    model = TruncatedModel(_number(mean, "mean", parameter), _number(std, "std", positive_parameter))
    lower, upper = model.mean - 2 * model.std, model.mean + 4 * model.std
    if not lower < upper:
        raise ValueError(f"std = {model.std:g} is lost to rounding beside mean = {model.mean:g}: pass a larger one.")
    prior = Uniform(lower, upper)
    return Problem(model.integrand, model.family, prior, depends_on_theta=False, exact=model.exact, name="truncated")


def _number(value: float, name: str, checked: Callable[[float, str], Array]) -> float:
    """A parameter of a measure that is one number."""
    array = checked(value, name)
    if array.ndim:
        raise ValueError(f"{name} must be one number, but its shape is {array.shape}.")
    return float(array)
