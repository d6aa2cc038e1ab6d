"""When to measure? The expected information gain of a measurement, as a nested expectation whose truth is known.

A line has an unknown intercept and slope, x ~ N(0, PRIOR). One measurement y at time t has an error of known variance.
Its average information about x is the expected information gain,

    EIG(t) = E log p(y | x) - E log p(y),      p(y) = E p(y | X),  X ~ prior,

and the second term is a nested expectation: y replaces theta, the likelihood replaces f, and phi is a
logarithm. Here x and y are Gaussian, so that EIG has a closed form to compare with: 1/2 log(Var y / NOISE).

A logarithm needs I to be far from 0, in units of its error, at all y. Two steps ensure this:

1. The likelihood is divided by `reference`, a rough density of y, so that I(y) = p(y) / reference(y) varies little.
2. For a given y, the likelihood is large at few draws of the prior. Points come from `posterior`, a rough and wide
   approximation of p(x | y), and `reweighted` integrates likelihood x prior / posterior under it, which hardly varies.

Run it with `python examples/information_gain.py`.
"""

from __future__ import annotations

import numpy as np

import cbq
from cbq.measures import Gaussian

PRIOR = np.array([1.0, 0.5])  # variances of the intercept and the slope
NOISE = 0.25  # variance of the error of a measurement
WIDER = 1.25  # variances of approximations, relative to the exact ones


def variance_of_y(t: float) -> float:
    """Return the variance of a measurement at time t."""
    return float(PRIOR[0] + PRIOR[1] * t**2 + NOISE)


def exact(t: float) -> float:
    """Return the expected information gain in closed form."""
    return float(0.5 * np.log(variance_of_y(t) / NOISE))


def make_problem(t: float) -> cbq.Problem:
    """Return the problem whose I(y) is p(y) / reference(y), for a measurement at time t."""
    reference = Gaussian(0.0, cov=WIDER * variance_of_y(t))

    def relative_likelihood(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        mean = x[:, 0] + x[:, 1] * t
        log = -0.5 * (y[0] - mean) ** 2 / NOISE - 0.5 * np.log(2 * np.pi * NOISE)
        return np.exp(log - reference.logpdf(y[None, :])[0])

    def prior(y: np.ndarray) -> Gaussian:
        return Gaussian(np.zeros(2), cov=PRIOR)

    return cbq.Problem(relative_likelihood, prior, reference, bounds=(0, np.inf), name="evidence")


def posterior(t: float, y: np.ndarray) -> Gaussian:
    """Return an approximation of the distribution of x given y: as a Laplace approximation, but wider."""
    a = np.array([1.0, t])
    gain = PRIOR * a / variance_of_y(t)
    return Gaussian(gain * y[0], cov=WIDER * (np.diag(PRIOR) - np.outer(gain, a * PRIOR)))


def information_gain(t: float, T: int = 16, N: int = 32, rng: int = 0) -> tuple[float, float, float]:
    """Return the expected information gain of a measurement at time t, and the ends of its 95% interval."""

    def q(y: np.ndarray) -> Gaussian:
        return posterior(t, y)

    samples = make_problem(t).collect(T, N, rng=rng, design="sobol", proposal=q)
    fit = cbq.CBQ().fit(samples.reweighted(q))
    of_y = Gaussian(0.0, cov=variance_of_y(t))  # or draws of y, in a model that can only be simulated
    answer = cbq.nested_expectation(fit, np.log, of_y, rng=rng)  # E log I(y)
    conditional = -0.5 * np.log(2 * np.pi * np.e * NOISE)  # E log p(y | x)
    reference = -0.5 * np.log(2 * np.pi * WIDER * variance_of_y(t)) - 0.5 / WIDER  # E log reference(y)
    low, high = answer.interval()
    return tuple(float(conditional - reference - each) for each in (answer.estimate, high, low))


if __name__ == "__main__":
    print("time  information gain  95% interval      exact")
    for time in (0.0, 1.0, 2.0, 3.0):
        estimate, low, high = information_gain(time)
        print(f"{time:4.1f}  {estimate:16.4f}  {low:.4f} to {high:.4f}  {exact(time):.4f}")
