"""The regression of noisy values at sites on few coordinates, by a sparse Gaussian process.

`fit_regression` chooses coordinates, kernel, lengthscales and landmarks; `RegressionPosterior` has the posterior of the
regression function at the sites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cbq.common import Array, Integers
from cbq.gp.landmarks import choose_landmarks
from cbq.gp.search import quasi_newton
from cbq.gp.sparse import Bound, LandmarkFeatures, Moments, State, Targets, average_ratio
from cbq.kernels import RBF, Kernel, Matern
from cbq.linalg.gram import on_host
from cbq.linalg.lapack import thin_svd

RANK_TOLERANCE = 1e-10  # relative to the largest singular value of the basis
MAX_PILOT_LANDMARKS, MAX_PILOT_CANDIDATES = 20, 2000  # landmarks of the pilot regression, and rows to choose from
MIN_PILOT_ROWS = 20  # for each column of its basis
MIN_LANDMARKS, MAX_LANDMARKS = 48, 768
MAX_UNSEEN = 0.05  # variance that landmarks do not represent, relative to the posterior variance
MAX_CANDIDATES = 4096  # rows among which landmarks are chosen
# Lengthscales ell are in units of sqrt(p) standard deviations of a column; gamma is the signal-to-noise ratio.
LOG_LENGTHSCALE_BOUNDS = np.array([-3.0, 5.0])
LOG_LENGTHSCALE_MEAN, LOG_LENGTHSCALE_STD = np.log(2.0), 1.5  # normal prior of log ell, for tables of few rows
LOG_RATIO_BOUNDS = (-25.0, 18.0)
STARTS = tuple((ell, gamma) for ell in (-1.2, 0.0, 1.2) for gamma in (-4.0, 0.0))  # log ell and log gamma
FLAT = 2.0  # log ell of a start at which steps explain all
MAX_SEARCH_SITES = 2500  # for the first search
FIRST_STEPS, FINAL_STEPS = 40, 8  # of the optimiser, with the fewest landmarks and with all of them
VALUE_TOLERANCE, GRADIENT_TOLERANCE = 0.01, 0.01  # of the log-likelihood

Family = Callable[[Array], Kernel]  # from lengthscales (p,)
SMOOTH: Family = RBF
ROUGH: Family = partial(Matern, 2.5)


def pilot_basis(z: Array, rng: np.random.Generator) -> Array:
    """Orthonormal columns (n, k) that span a constant, linear terms and a few RBF kernels over z (n, p)."""
    n, p = z.shape
    kernel = RBF(2.0 * np.sqrt(p))
    most = max(1, min(MAX_PILOT_LANDMARKS, n // MIN_PILOT_ROWS))
    some = z[rng.choice(n, min(n, MAX_PILOT_CANDIDATES), replace=False)]
    landmarks = some[choose_landmarks(kernel, some, most, rng)]
    linear = z if n >= MIN_PILOT_ROWS * (p + most) else z[:, :0]
    U, sizes, _ = thin_svd(np.column_stack([np.ones(n), linear, kernel(z, landmarks)]))
    return np.asarray(U[:, sizes > RANK_TOLERANCE * sizes[0]])


@dataclass(frozen=True, eq=False)
class Steps:
    """Indicators (s, J) of steps at the sites, and the log-likelihood that each may gain by chance."""

    indicators: Array
    cost: float


NO_STEPS = Steps(np.empty((0, 0)), 0.0)


@dataclass(frozen=True, eq=False)
class SiteBlock:
    """The posterior at some sites: mean (b,), covariance spread spread' with spread (b, m), and unseen (b,).

    unseen : the prior variance that the landmarks do not represent, to be added to the posterior variance.
    """

    sites: slice
    mean: Array
    spread: Array
    unseen: Array


@dataclass(frozen=True, eq=False)
class RegressionPosterior:
    """The posterior of the regression function g at the sites, for an output of mean 0 and variance 1.

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
        return len(self.features.landmarks)

    @property
    def dof(self) -> float:
        """The effective number of parameters, including the constant."""
        return 1.0 + self.m - float(np.trace(self.state.factor.inverse()))

    @property
    def mean_std(self) -> float:
        """The standard deviation of the mean of g over the rows, which is independent of g less this mean."""
        return float(np.sqrt(self.noise / self.moments.n))

    def blocks(self) -> Iterator[SiteBlock]:
        """The posterior of g less its mean over the rows, at all sites in blocks."""
        for sites, there in self.features.blocks():
            phi = on_host(there)
            seen = np.sum(phi * phi, axis=1)
            centred = phi - self.moments.centre
            spread = np.sqrt(self.amplitude) * self.state.factor.solve_lower(centred.T).T
            unseen = self.amplitude * np.maximum(1.0 - seen, 0.0)
            yield SiteBlock(sites, centred @ self.state.weights, spread, unseen)

    def everywhere(self) -> SiteBlock:
        """The posterior at all sites together."""
        parts = list(self.blocks())
        joined = (np.concatenate([getattr(part, name) for part in parts]) for name in ("mean", "spread", "unseen"))
        return SiteBlock(slice(0, parts[-1].sites.stop), *joined)

    def at(self, sites: Integers) -> SiteBlock:
        """The posterior at some sites."""
        (block,) = replace(self, features=self.features.at(self.features.z[sites])).blocks()
        return block


def fit_regression(
    candidates: Sequence[Array], targets: Targets, rng: np.random.Generator, steps: Steps = NO_STEPS
) -> RegressionPosterior:
    """The regression of targets of mean 0 and variance 1 on the likeliest of the candidate coordinates (s, p).

    Steps are further coordinates, if they raise the likelihood by more than their cost. Hyperparameters are searched on
    some of the sites if they are many, then improved on all of them.
    """
    search = _Search.of(targets, rng)
    smooth = min((search(SMOOTH, z) for z in candidates), key=lambda each: each.value)
    found = [smooth, search(ROUGH, smooth.bound.z, [smooth.parameters])]
    if steps.indicators.shape[1]:
        best = min(found, key=lambda each: each.value)
        found += search.with_steps(best, steps)
    return _refined(min(found, key=lambda each: each.value), rng, again=len(search.rows) < len(targets.y))


@dataclass(frozen=True, eq=False)
class _Optimum:
    """Hyperparameters (log gamma, log-lengthscales), and minus their log posterior density, up to a constant."""

    bound: Bound
    parameters: Array
    value: float


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for hyperparameters with the fewest landmarks, on some of the sites; values are for all."""

    targets: Targets
    rows: Integers
    rng: np.random.Generator

    @classmethod
    def of(cls, targets: Targets, rng: np.random.Generator) -> _Search:
        s = len(targets.y)
        rows = np.arange(s) if s <= MAX_SEARCH_SITES else rng.choice(s, MAX_SEARCH_SITES, replace=False)
        return cls(targets, rows, rng)

    def __call__(self, family: Family, z: Array, starts: Sequence[Array] = (), cost: float = 0.0) -> _Optimum:
        """The optimum of a family of kernels over z (s, p), from the best of the starts or of `STARTS`."""
        p = z.shape[1]
        kernel = family(np.ones(p))
        default = [np.array([gamma, *np.full(p, 0.5 * np.log(p) + ell)]) for ell, gamma in STARTS]
        shortest = kernel.with_log_lengthscales(default[0][1:])  # its landmarks serve longer ones too
        landmarks = _landmarks(shortest, z, MIN_LANDMARKS, self.rng)
        bound = Bound(kernel, z[self.rows], self.targets.take(self.rows), landmarks)
        best = min(starts or default, key=lambda each: bound.value(each) + _negative_log_prior(each)[0])
        parameters = _optimum(bound, best, FIRST_STEPS)
        everywhere = Bound(kernel, z, self.targets, landmarks)
        value = everywhere.value(parameters) + _negative_log_prior(parameters)[0] + cost
        return _Optimum(everywhere, parameters, value)

    def with_steps(self, without: _Optimum, steps: Steps) -> list[_Optimum]:
        """The optima with the steps as further coordinates, for both families of kernels."""
        J = steps.indicators.shape[1]
        z = np.column_stack([without.bound.z, steps.indicators])
        p, ends = z.shape[1], np.zeros(J)
        flat = np.array([0.0, *np.full(p - J, 0.5 * np.log(p) + FLAT), *ends])
        starts, cost = [np.array([*without.parameters, *ends]), flat], J * steps.cost
        return [self(family, z, starts, cost) for family in (SMOOTH, ROUGH)]


def _optimum(bound: Bound, start: Array, steps: int) -> Array:
    """The hyperparameters of largest posterior density that are uphill from a start."""

    def objective(parameters: Array) -> tuple[float, Array]:
        value, gradient = bound(parameters)
        penalty, slope = _negative_log_prior(parameters)
        return value + penalty, gradient + slope

    p = len(start) - 1
    low, high = 0.5 * np.log(p) + LOG_LENGTHSCALE_BOUNDS
    bounds = [LOG_RATIO_BOUNDS, *[(float(low), float(high))] * p]
    stopping = {"maxiter": steps, "ftol": VALUE_TOLERANCE / bound.targets.n, "gtol": GRADIENT_TOLERANCE}
    return quasi_newton(objective, np.clip(start, *np.array(bounds).T), bounds, options=stopping)[0]


def _negative_log_prior(parameters: Array) -> tuple[float, Array]:
    """Minus the log prior density of the hyperparameters, up to a constant, and its gradient."""
    p = len(parameters) - 1
    z = (parameters[1:] - 0.5 * np.log(p) - LOG_LENGTHSCALE_MEAN) / LOG_LENGTHSCALE_STD
    return 0.5 * float(z @ z), np.array([0.0, *(z / LOG_LENGTHSCALE_STD)])


def _refined(first: _Optimum, rng: np.random.Generator, again: bool) -> RegressionPosterior:
    """The posterior with as many landmarks as it needs, its hyperparameters optimised again if they are more.

    again : whether to optimise them in any case.
    """
    bound, parameters, m = first.bound, first.parameters, MIN_LANDMARKS
    kernel = bound.kernel_at(parameters)
    while True:
        posterior = _posterior(bound, parameters)
        enough = posterior.amplitude * posterior.moments.unseen <= MAX_UNSEEN * posterior.noise * posterior.dof
        if enough or m >= MAX_LANDMARKS or posterior.m < m:
            break
        m = min(2 * m, MAX_LANDMARKS)
        bound = replace(bound, landmarks=_landmarks(kernel, bound.z, m, rng))
    if m == MIN_LANDMARKS and not again:
        return posterior
    return _posterior(bound, _optimum(bound, parameters, FINAL_STEPS))


def _posterior(bound: Bound, parameters: Array) -> RegressionPosterior:
    features, moments = bound.moments(parameters)
    gamma, zero_probability = average_ratio(moments)
    state = State.at(gamma, moments)
    return RegressionPosterior(features, moments, state, gamma * state.noise, zero_probability)


def _landmarks(kernel: Kernel, z: Array, m: int, rng: np.random.Generator) -> Array:
    """At most m of the rows z (n, p), chosen among a random subset if there are many rows."""
    some = z if len(z) <= MAX_CANDIDATES else z[rng.choice(len(z), MAX_CANDIDATES, replace=False)]
    return np.asarray(some[choose_landmarks(kernel, some, min(m, len(some)), rng)])
