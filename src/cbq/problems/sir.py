"""The peak of an epidemic as the measure of its infection rate varies; one ODE solver for many rates at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.special import gammainc, gammaincc, gammaln, xlogy

from cbq.common import Array, is_number, shown
from cbq.measures import Gamma, Uniform
from cbq.problems.problem import Problem
from cbq.problems.registry import register

RECOVERY = 0.05  # gamma, per day
POPULATION = 1e6
INFECTED = 50.0  # on the first day
DAYS = 150.0
RATE = 10.0  # of the Gamma measure of the infection rate x
THRESHOLD = RECOVERY * POPULATION / (POPULATION - INFECTED)  # the infection rate below which the epidemic does not grow
X_MAX = 6.0  # the end of the quadrature; the mass beyond it is at most 4e-17 for thetas of the prior
SPREAD = 183228.0  # the standard deviation of f over theta and x, by quadrature
MIN_STEP = 1e-4  # in days; shorter ones take minutes
MAX_STEP = 0.25  # in days; the method is stable while step times infection rate is below 2.7


def states(x: Array, step: float) -> Iterator[Array]:
    """S, I and R as a (3, n) array at the times 0, h, 2h, ..., 150 for infection rates x (n,), by RK4.

    S' = -x S I / pop, I' = x S I / pop - gamma I, R' = gamma I; h is the step, reduced so that it divides 150 days.
    """
    steps = int(np.ceil(DAYS / step - 1e-9))
    h = DAYS / steps
    y = np.array([POPULATION - INFECTED, INFECTED, 0.0])[:, None] * np.ones_like(x)
    yield y
    for _ in range(steps):
        k1 = _derivative(y, x)
        k2 = _derivative(y + 0.5 * h * k1, x)
        k3 = _derivative(y + 0.5 * h * k2, x)
        k4 = _derivative(y + h * k3, x)
        y = y + (h / 6) * (k1 + 2 * (k2 + k3) + k4)
        yield y


def _derivative(y: Array, x: Array) -> Array:
    infections, recoveries = (x / POPULATION) * y[0] * y[1], RECOVERY * y[1]
    return np.array([-infections, infections - recoveries, recoveries])


def peak(x: Array, step: float) -> tuple[Array, Array]:
    """The largest I within the 150 days for x (n,), and S at the end: each (n,).

    I is largest where S falls through S* = gamma pop / x. In the step where it does, dI/dS = -1 + S*/S is integrated
    from S to S* by one RK4 step, which for this equation is Simpson's rule.
    """
    turning = RECOVERY * POPULATION / np.maximum(x, 1e-290)  # for a small theta, x may be 0 in float64
    highest = np.full_like(x, INFECTED)
    for before, after in pairwise(states(x, step)):
        highest = np.maximum(highest, after[1])
        passed = (before[0] > turning) & (after[0] <= turning)
        if np.any(passed):
            S, low = before[0][passed], turning[passed]
            slopes = 4 * (low / (0.5 * (S + low)) - 1) + (low / S - 1)  # the slope at S* is zero
            highest[passed] = before[1][passed] + (low - S) / 6 * slopes
    return highest, after[0]


@lru_cache(maxsize=8)
def _rule(step: float, panels: int) -> tuple[Array, Array]:
    """The nodes, and the weights times f, of Gauss-Legendre rules between kinks on (threshold, X_MAX): each (m,)."""
    low, high = 0.06, 0.3  # f has a kink at the rate whose peak is on the last day: bracket it
    while high - low > 1e-9:
        grid = np.linspace(low, high, 34)
        last = int(np.argmax(peak(grid, step)[1] < RECOVERY * POPULATION / grid))
        low, high = float(grid[last - 1]), float(grid[last])
    below, above = np.linspace(THRESHOLD, high, panels + 1), np.linspace(high, 1.0, 2 * panels + 1)
    edges = np.unique(np.concatenate([below, above, np.geomspace(1.0, X_MAX, 2 * panels + 1)]))
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = 0.5 * np.diff(edges)[:, None]
    x = (edges[:-1, None] + half * (1 + nodes)).ravel()
    return x, (half * weights).ravel() * peak(x, step)[0]


@dataclass(frozen=True)
class EpidemicModel:
    """The epidemic, solved with steps of `step` days."""

    step: float
    panels: int = 12  # a fifth of the panels of the quadrature for the exact answer
    noise: float = 0.0  # the standard deviation of the noise of `noisy`, in units of `SPREAD`

    def family(self, theta: Array) -> Gamma:
        """The measure of the infection rate at theta (1,)."""
        return Gamma(theta, RATE)

    def integrand(self, x: Array, theta: Array) -> Array:
        """The peak number of infected at infection rates x (n, 1): (n,)."""
        return peak(x[:, 0], self.step)[0]

    def noisy(self, x: Array, theta: Array, rngs: Sequence[np.random.Generator]) -> Array:
        """The same with Gaussian noise, from one generator for each point."""
        draws = np.array([rng.standard_normal() for rng in rngs])
        return self.integrand(x, theta) + self.noise * SPREAD * draws

    def exact(self, theta: Array) -> Array:
        """E f at theta (M, 1) for f with this step: (M,). The relative error is 1e-10 (3e-9 for the longest step)."""
        a = theta[:, :1]
        if np.any(a <= 0) or np.any(gammaincc(a, RATE * X_MAX) > 1e-13):
            given = f"[{a.min():g}, {a.max():g}]"
            raise ValueError(f"the exact answer is known for theta from 0 to about 14, but theta is in {given}.")
        x, wf = _rule(self.step, self.panels)
        density = RATE * np.exp(xlogy(a - 1, RATE * x) - RATE * x - gammaln(a))
        return np.asarray(INFECTED * gammainc(a[:, 0], RATE * THRESHOLD) + density @ wf)


@register("sir")
def build(step: float = 0.1, noise: float = 0.0) -> Problem:
    """Peak number of infected in a population of a million over 150 days, from 50 infected on the first.

    The infection rate is x ~ Gamma(theta, rate 10), theta ~ Uniform(2, 9), and the recovery rate is 0.05 per day.

    Parameters
    ----------
    step : the step of the Runge-Kutta method of order 4 in days, at most 0.25 and at least 0.0001.
    noise : the standard deviation of Gaussian noise that makes f random, in units of the standard deviation of f over
        theta and x.
    """
    if not is_number(step, MIN_STEP, MAX_STEP):
        limits = f"positive and at most {MAX_STEP} days, and no less than {MIN_STEP}"
        raise ValueError(f"step must be {limits}, but it is {shown(step)}.")
    if not is_number(noise, 0.0):
        raise ValueError(f"noise must be a number of at least 0, but it is {shown(noise)}.")
    model, prior = EpidemicModel(float(step), noise=float(noise)), Uniform(2.0, 9.0)
    return Problem(
        model.noisy if noise else model.integrand,
        model.family,
        prior,
        depends_on_theta=False,
        exact=model.exact,
        name=f"sir-noise-{noise:g}" if noise else "sir",
        stochastic=noise > 0,
    )
