"""The regression of one output on the columns of a set: a Gaussian process with noise, fitted to all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers
from cbq.gp.pooled import choose_landmarks
from cbq.gp.sparse import Bound, Features, Moments, State
from cbq.kernels import RBF, Kernel, Matern
from cbq.psa.ratio import average_ratio

FEWEST, MOST = 48, 768  # landmarks
NEGLIGIBLE = 0.05  # the variance that landmarks do not see, in units of that of the posterior
CANDIDATES = 8192  # rows among which landmarks are chosen
# In units of sqrt(p) standard deviations of a column.
LENGTHSCALES = (-3.0, 5.0)  # bounds of log ell
TYPICAL, WIDTH = np.log(2.0), 1.5  # of the normal prior of log ell, which keeps few rows from extremes
RATIOS = (-25.0, 18.0)  # bounds of log gamma, the ratio of the variances of signal and noise
STARTS = tuple((ell, gamma) for ell in (-1.2, 0.0, 1.2) for gamma in (-4.0, 0.0))  # log ell and log gamma
ROUGHLY, CLOSELY = 40, 12  # steps of the optimisation, with few landmarks and with all of them
TOLERANCE, FLAT = 0.01, 0.01  # of the log-likelihood, and of its slope, to stop at


@dataclass(frozen=True, eq=False)
class RowBlock:
    """The posterior at some rows: mean (b,), spread (b, m), whose outer product is the covariance, unseen (b,).

    unseen: the prior variance that the landmarks do not see, to be added to that of the posterior.
    """

    rows: slice
    mean: Array
    spread: Array
    unseen: Array


@dataclass(frozen=True, eq=False)
class RegressionPosterior:
    """The posterior of g over the rows it was fitted to, in units in which the output has mean 0 and variance 1.

    amplitude: A. idle: the probability that g is constant, in place of which this is the posterior where it is not.
    """

    features: Features
    moments: Moments
    state: State
    amplitude: float
    idle: float

    @property
    def noise(self) -> float:
        return self.state.noise

    @property
    def m(self) -> int:
        return len(self.features.nodes)

    @property
    def dof(self) -> float:
        """The effective number of parameters, the constant included."""
        return 1.0 + self.m - float(np.trace(self.state.factor.inverse()))

    @property
    def mean_std(self) -> float:
        """Of the mean of g over the rows, which no landmark has to do with."""
        return float(np.sqrt(self.noise / self.moments.n))

    def blocks(self) -> Iterator[RowBlock]:
        """The posterior at all rows, less that of their mean (whose standard deviation is `mean_std`)."""
        for rows, phi in self.features.blocks():
            seen = np.sum(phi * phi, axis=1)
            apart = phi - self.moments.centre
            spread = np.sqrt(self.amplitude) * self.state.factor.solve_lower(apart.T).T
            yield RowBlock(rows, apart @ self.state.weights, spread, self.amplitude * np.maximum(1.0 - seen, 0.0))


def fit_surface(choices: Sequence[Array], y: Array, rng: np.random.Generator) -> RegressionPosterior:
    """The likeliest process for y (n,), of mean 0 and variance 1, over one of the coordinates (n, p) to choose from."""
    p = choices[0].shape[1]
    smooth: Kernel = RBF(np.sqrt(p) * np.ones(p))
    found = min((_search(smooth, z, y, rng) for z in choices), key=lambda each: each.value)
    rough = _search(Matern(2.5, np.sqrt(p) * np.ones(p)), found.bound.z, y, rng, found.parameters)
    return _refined(min(found, rough, key=lambda each: each.value), rng)


@dataclass(frozen=True, eq=False)
class _Optimum:
    """Parameters at which minus the log-likelihood and the log prior is least, and that value."""

    bound: Bound
    parameters: Array
    value: float


def _search(kernel: Kernel, z: Array, y: Array, rng: np.random.Generator, start: Array | None = None) -> _Optimum:
    """The optimum with few landmarks, from the best of some starts or from a given one."""
    p = z.shape[1]
    shortest = kernel.with_log_lengthscales(np.full(p, 0.5 * np.log(p) + STARTS[0][0]))
    bound = Bound(kernel, z, y, z[_landmarks(shortest, z, FEWEST, rng)])  # which suit the longer ones too
    if start is None:
        starts = [np.array([gamma, *np.full(p, 0.5 * np.log(p) + ell)]) for ell, gamma in STARTS]
        start = min(starts, key=lambda each: bound.state(each)[2].value + _prior(each)[0])
    return _optimum(bound, start, ROUGHLY)


def _optimum(bound: Bound, start: Array, steps: int) -> _Optimum:
    from scipy.optimize import minimize  # slow to import

    def objective(parameters: Array) -> tuple[float, Array]:
        value, gradient = bound(parameters)
        log_prior, slope = _prior(parameters)
        return value + log_prior, gradient + slope

    centre = 0.5 * np.log(len(start) - 1)
    lengths = (float(centre + LENGTHSCALES[0]), float(centre + LENGTHSCALES[1]))
    bounds = [RATIOS, *[lengths] * (len(start) - 1)]
    found = minimize(
        objective,
        np.clip(start, *np.array(bounds).T),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": steps, "ftol": TOLERANCE / len(bound.y), "gtol": FLAT},
    )
    return _Optimum(bound, np.asarray(found.x), float(found.fun))


def _prior(parameters: Array) -> tuple[float, Array]:
    """Minus the log prior of the parameters, and its gradient."""
    p = len(parameters) - 1
    apart = (parameters[1:] - 0.5 * np.log(p) - TYPICAL) / WIDTH
    return 0.5 * float(apart @ apart), np.array([0.0, *(apart / WIDTH)])


def _refined(rough: _Optimum, rng: np.random.Generator) -> RegressionPosterior:
    """The surface at the optimum, with as many landmarks as it needs, the optimum being found again with those."""
    best, m = rough, FEWEST
    while True:
        surface = _surface(best)
        enough = surface.amplitude * surface.moments.unseen <= NEGLIGIBLE * surface.noise * surface.dof
        if enough or m >= MOST or surface.m < m:
            return surface if best is rough else _surface(_optimum(best.bound, best.parameters, CLOSELY))
        m = min(2 * m, MOST)
        kernel = best.bound.unpack(best.parameters)[1]
        z, y = best.bound.z, best.bound.y
        bound = Bound(kernel, z, y, z[_landmarks(kernel, z, m, rng)])
        best = _Optimum(bound, best.parameters, np.nan)


def _surface(optimum: _Optimum) -> RegressionPosterior:
    kernel = optimum.bound.unpack(optimum.parameters)[1]
    features = Features.of(kernel, optimum.bound.z, optimum.bound.nodes)
    moments = Moments.of(features, optimum.bound.y)
    gamma, idle = average_ratio(moments)
    state = State.at(gamma, moments)
    return RegressionPosterior(features, moments, state, gamma * state.noise, idle)


def _landmarks(kernel: Kernel, z: Array, m: int, rng: np.random.Generator) -> Integers:
    """At most m of the rows z (n, p), chosen among some of them where there are many."""
    some = np.arange(len(z)) if len(z) <= CANDIDATES else rng.choice(len(z), CANDIDATES, replace=False)
    return np.asarray(some[choose_landmarks(kernel, z[some], min(m, len(some)), rng)])
