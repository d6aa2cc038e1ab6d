"""The loss of a butterfly option under a shock, given the price at an earlier time; the answer is Black-Scholes."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from cbq.common import Array
from cbq.measures import LogNormal
from cbq.problems.problem import Problem
from cbq.problems.registry import register

PRICE_TODAY = 100.0
VARIANCE = 0.3**2  # of the log price, per unit of time: theta is the price at time 1, and x the price at time 2
STRIKES = ((1.0, 50.0), (-2.0, 100.0), (1.0, 150.0))  # the calls in the butterfly: how many, and their strikes
SHOCK = 0.2
EXPECTED_LOSS = 3.0736514097  # E max(I(theta), 0), by quadrature over theta


def payoff(x: Array) -> Array:
    """psi(x) = max(x - 50, 0) - 2 max(x - 100, 0) + max(x - 150, 0)."""
    return np.asarray(sum(n * np.maximum(x - strike, 0) for n, strike in STRIKES))


def price(forward: Array) -> Array:
    """E psi(X) for X lognormal with mean `forward` and log-variance `VARIANCE`: Black-Scholes calls."""
    s = np.sqrt(VARIANCE)
    total = np.zeros_like(forward)
    for n, strike in STRIKES:
        d1 = np.log(forward / strike) / s + 0.5 * s
        total = total + n * (forward * ndtr(d1) - strike * ndtr(d1 - s))
    return total


def integrand(x: Array, theta: Array) -> Array:
    """psi(x) - psi((1 + shock) x) at x (n, 1): (n,)."""
    return payoff(x[:, 0]) - payoff((1 + SHOCK) * x[:, 0])


def family(theta: Array) -> LogNormal:
    """The measure of the price at time 2 given the price theta (1,) at time 1; its mean is theta."""
    return LogNormal(np.log(theta) - 0.5 * VARIANCE, cov=VARIANCE)


def exact(theta: Array) -> Array:
    """The expected loss given theta (M, 1): (M,)."""
    return price(theta[:, 0]) - price((1 + SHOCK) * theta[:, 0])


@register("butterfly")
def build() -> Problem:
    """Loss of a butterfly option when the price x at time 2 is shocked by 20%, given the price theta at time 1.

    theta ~ LogNormal(log 100 - 0.045, std=0.3), x | theta ~ LogNormal(log theta - 0.045, std=0.3), and
    f(x) = psi(x) - psi(1.2 x), where psi is the payoff of a butterfly between 50 and 150. The expected loss
    E max(I(theta), 0) is `EXPECTED_LOSS`.
    """
    prior = family(np.array([PRICE_TODAY]))
    return Problem(integrand, family, prior, depends_on_theta=False, exact=exact, name="butterfly")
