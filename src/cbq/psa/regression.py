"""The regression of one output on the columns of a set: a sparse Gaussian process with noise, on all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers
from cbq.gp.pooled import choose_landmarks
from cbq.gp.search import quasi_newton
from cbq.gp.sparse import Bound, LandmarkFeatures, Moments, State, average_ratio
from cbq.kernels import RBF, Kernel, Matern

MIN_LANDMARKS, MAX_LANDMARKS = 48, 768
MAX_UNSEEN = 0.05  # variance that landmarks do not represent, relative to the posterior variance
MAX_CANDIDATES = 8192  # rows among which landmarks are chosen
# Lengthscales ell are in units of sqrt(p) standard deviations of a column; gamma is the signal-to-noise ratio.
LOG_LENGTHSCALE_BOUNDS = (-3.0, 5.0)
LOG_LENGTHSCALE_MEAN, LOG_LENGTHSCALE_STD = np.log(2.0), 1.5  # normal prior of log ell, for tables of few rows
LOG_RATIO_BOUNDS = (-25.0, 18.0)
STARTS = tuple((ell, gamma) for ell in (-1.2, 0.0, 1.2) for gamma in (-4.0, 0.0))  # log ell and log gamma
FIRST_STEPS, FINAL_STEPS = 40, 12  # of the optimiser, with the fewest landmarks and with all of them
VALUE_TOLERANCE, GRADIENT_TOLERANCE = 0.01, 0.01  # of the log-likelihood


@dataclass(frozen=True, eq=False)
class RowBlock:
    """The posterior at some rows: mean (b,), covariance spread spread' with spread (b, m), and unseen (b,).

    unseen : the prior variance that the landmarks do not represent, to be added to the posterior variance.
    """

    rows: slice
    mean: Array
    spread: Array
    unseen: Array


@dataclass(frozen=True, eq=False)
class RegressionPosterior:
    """The posterior of the regression function g at the rows, for an output of mean 0 and variance 1.

    amplitude : A. zero_probability : that g is constant; this is the posterior given that it is not.
    """

    features: LandmarkFeatures
    moments: Moments
    state: State
    amplitude: float
    zero_probability: float

    @property
    def noise(self) -> float:
        return self.state.noise

    @property
    def m(self) -> int:
        return len(self.features.nodes)

    @property
    def dof(self) -> float:
        """The effective number of parameters, including the constant."""
        return 1.0 + self.m - float(np.trace(self.state.factor.inverse()))

    @property
    def mean_std(self) -> float:
        """The standard deviation of the mean of g over the rows, which is independent of g less this mean."""
        return float(np.sqrt(self.noise / self.moments.n))

    def blocks(self) -> Iterator[RowBlock]:
        """The posterior of g less its mean over the rows, at all rows in blocks."""
        for rows, phi in self.features.blocks():
            seen = np.sum(phi * phi, axis=1)
            centred = phi - self.moments.centre
            spread = np.sqrt(self.amplitude) * self.state.factor.solve_lower(centred.T).T
            yield RowBlock(rows, centred @ self.state.weights, spread, self.amplitude * np.maximum(1.0 - seen, 0.0))


def fit_regression(candidates: Sequence[Array], y: Array, rng: np.random.Generator) -> RegressionPosterior:
    """The regression of y (n,), of mean 0 and variance 1, on the likeliest of the candidate coordinates (n, p)."""
    p = candidates[0].shape[1]
    smooth: Kernel = RBF(np.sqrt(p) * np.ones(p))
    found = min((_search(smooth, z, y, rng) for z in candidates), key=lambda each: each.value)
    rough = _search(Matern(2.5, np.sqrt(p) * np.ones(p)), found.bound.z, y, rng, found.parameters)
    return _refined(min(found, rough, key=lambda each: each.value), rng)


@dataclass(frozen=True, eq=False)
class _Optimum:
    """Hyperparameters, and minus their log posterior density, up to a constant."""

    bound: Bound
    parameters: Array
    value: float


def _search(kernel: Kernel, z: Array, y: Array, rng: np.random.Generator, start: Array | None = None) -> _Optimum:
    """The optimum with the fewest landmarks, from the best of `STARTS` or from a given start."""
    p = z.shape[1]
    shortest = kernel.with_log_lengthscales(np.full(p, 0.5 * np.log(p) + STARTS[0][0]))
    bound = Bound(kernel, z, y, z[_landmarks(shortest, z, MIN_LANDMARKS, rng)])  # adequate for longer ones too
    if start is None:
        starts = [np.array([gamma, *np.full(p, 0.5 * np.log(p) + ell)]) for ell, gamma in STARTS]
        start = min(starts, key=lambda each: bound.state(each)[2].value + _negative_log_prior(each)[0])
    return _optimum(bound, start, FIRST_STEPS)


def _optimum(bound: Bound, start: Array, steps: int) -> _Optimum:
    def objective(parameters: Array) -> tuple[float, Array]:
        value, gradient = bound(parameters)
        penalty, slope = _negative_log_prior(parameters)
        return value + penalty, gradient + slope

    centre = 0.5 * np.log(len(start) - 1)
    lengthscale_bounds = (float(centre + LOG_LENGTHSCALE_BOUNDS[0]), float(centre + LOG_LENGTHSCALE_BOUNDS[1]))
    bounds = [LOG_RATIO_BOUNDS, *[lengthscale_bounds] * (len(start) - 1)]
    stopping = {"maxiter": steps, "ftol": VALUE_TOLERANCE / len(bound.y), "gtol": GRADIENT_TOLERANCE}
    first = np.clip(start, *np.array(bounds).T)
    return _Optimum(bound, *quasi_newton(objective, first, bounds, options=stopping))


def _negative_log_prior(parameters: Array) -> tuple[float, Array]:
    """Minus the log prior density of the hyperparameters, up to a constant, and its gradient."""
    p = len(parameters) - 1
    z = (parameters[1:] - 0.5 * np.log(p) - LOG_LENGTHSCALE_MEAN) / LOG_LENGTHSCALE_STD
    return 0.5 * float(z @ z), np.array([0.0, *(z / LOG_LENGTHSCALE_STD)])


def _refined(first: _Optimum, rng: np.random.Generator) -> RegressionPosterior:
    """The posterior with as many landmarks as it needs, its hyperparameters optimised again if they are more."""
    best, m = first, MIN_LANDMARKS
    while True:
        posterior = _posterior(best)
        enough = posterior.amplitude * posterior.moments.unseen <= MAX_UNSEEN * posterior.noise * posterior.dof
        if enough or m >= MAX_LANDMARKS or posterior.m < m:
            return posterior if best is first else _posterior(_optimum(best.bound, best.parameters, FINAL_STEPS))
        m = min(2 * m, MAX_LANDMARKS)
        kernel = best.bound.unpack(best.parameters)[1]
        z, y = best.bound.z, best.bound.y
        bound = Bound(kernel, z, y, z[_landmarks(kernel, z, m, rng)])
        best = _Optimum(bound, best.parameters, np.nan)


def _posterior(optimum: _Optimum) -> RegressionPosterior:
    kernel = optimum.bound.unpack(optimum.parameters)[1]
    features = LandmarkFeatures.of(kernel, optimum.bound.z, optimum.bound.nodes)
    moments = Moments.of(features, optimum.bound.y)
    gamma, zero_probability = average_ratio(moments)
    state = State.at(gamma, moments)
    return RegressionPosterior(features, moments, state, gamma * state.noise, zero_probability)


def _landmarks(kernel: Kernel, z: Array, m: int, rng: np.random.Generator) -> Integers:
    """The positions of at most m of the rows z (n, p), chosen among a random subset if there are many rows."""
    some = np.arange(len(z)) if len(z) <= MAX_CANDIDATES else rng.choice(len(z), MAX_CANDIDATES, replace=False)
    return np.asarray(some[choose_landmarks(kernel, z[some], min(m, len(some)), rng)])
