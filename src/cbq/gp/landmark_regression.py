"""The regression of noisy values at sites on few coordinates, by a sparse Gaussian process.

`fit_regressions` chooses coordinates, kernel, lengthscales and landmarks; `RegressionPosterior` has the posterior of
the regression function at the sites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cbq.common import Array, Integers
from cbq.gp.landmarks import choose_landmarks
from cbq.gp.search import quasi_newton
from cbq.gp.sparse import Bound, LandmarkFeatures, Moments, State, Targets, average_ratio, bound_by_ratio
from cbq.kernels import RBF, Kernel, Matern
from cbq.linalg.gram import on_host
from cbq.linalg.lapack import thin_svd

MIN_LANDMARKS, MAX_LANDMARKS = 48, 768
# Lengthscales ell are in units of sqrt(p) standard deviations of a column; gamma is the signal-to-noise ratio.
LOG_LENGTHSCALE_BOUNDS = np.array([-3.0, 5.0])
LOG_LENGTHSCALE_MEAN, LOG_LENGTHSCALE_STD = np.log(2.0), 1.5  # normal prior of log ell, for tables of few rows
STARTS = (-1.2, -0.4, 0.4, 1.2, 2.0, 2.8)  # log ell
START_RATIOS = np.linspace(-9.0, 9.0, 37)  # log gamma
FLAT = 2.0  # log ell of a start at which steps explain all
MAX_SEARCH_SITES, MAX_CELLS = 2500, (1024, 4096)  # for the search; cells for it, and for its end on all sites
FIRST_STEPS, FINAL_STEPS = 40, 8  # of the optimiser, with the fewest landmarks and with all of them

Family = Callable[[Array], Kernel]  # from lengthscales (p,)
SMOOTH: Family = RBF
ROUGH: Family = partial(Matern, 2.5)


def pilot_basis(
    z: Array,
    rng: np.random.Generator,
    *,
    landmarks: int = 20,
    candidates: int = 2000,
    rows: int = 20,
    tolerance: float = 1e-10,
) -> Array:
    """Orthonormal columns (n, k) that span a constant, linear terms and a few RBF kernels over z (n, p).

    landmarks: of the kernels, at most, and candidates for them. rows: for each column, at least. tolerance: singular
    values that count as zero, relative to the largest.
    """
    n, p = z.shape
    kernel = RBF(2.0 * np.sqrt(p))
    most = max(1, min(landmarks, n // rows))
    some = z[rng.choice(n, min(n, candidates), replace=False)]
    chosen = some[choose_landmarks(kernel, some, most, rng)]
    linear = z if n >= rows * (p + most) else z[:, :0]
    U, sizes, _ = thin_svd(np.column_stack([np.ones(n), linear, kernel(z, chosen)]))
    return np.asarray(U[:, sizes > tolerance * sizes[0]])


@dataclass(frozen=True, eq=False)
class Steps:
    """Indicators (s, J) of steps at the sites, and the log-likelihood that each may gain by chance."""

    indicators: Array
    cost: float


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


def fit_regressions(
    candidates: Sequence[Array], targets: Sequence[Targets], rng: np.random.Generator, steps: Sequence[Steps] = ()
) -> list[RegressionPosterior]:
    """The regressions of r targets of mean 0 and variance 1 on the likeliest of the candidate coordinates (s, p).

    Their counts may differ by factors. All of them share a grid of a common lengthscale for all columns, which chooses
    the coordinates of each, and from which the search of its own hyperparameters starts.

    steps : of each of the targets: further coordinates, if they raise the likelihood by more than their cost.

    Many sites are gathered in the
    cells of a grid for the search of hyperparameters, and in smaller ones for its end. With more than about three
    coordinates, cells would be wide: then some of the sites serve for the search, and all for its end.
    """
    found, none = [], Steps(np.empty((len(candidates[0]), 0)), 0.0)
    starts = _starts(candidates, targets, rng)
    for target, start, its_steps in zip(targets, starts, steps or [none] * len(targets), strict=True):
        search = _Search(target, candidates[-1], rng)
        optima = [search(SMOOTH, start.z, [start.parameters], start.landmarks)]
        optima.append(search(ROUGH, start.z, [optima[0].parameters], start.landmarks))
        if its_steps.indicators.shape[1]:
            optima.append(search.with_steps(min(optima, key=lambda each: each.value), its_steps))
        found.append(search.refined(min(optima, key=lambda each: each.value)))
    return found


@dataclass(frozen=True, eq=False)
class _Optimum:
    """Hyperparameters (log gamma, log-lengthscales), and minus their log posterior density, up to a constant."""

    bound: Bound
    family: Family
    parameters: Array
    value: float


@dataclass(frozen=True, eq=False)
class _Start:
    """Coordinates z (s, p) with landmarks (m, p), hyperparameters, and minus their log posterior density."""

    z: Array
    landmarks: Array
    parameters: Array
    value: float


def _starts(candidates: Sequence[Array], targets: Sequence[Targets], rng: np.random.Generator) -> list[_Start]:
    """For each target the likeliest coordinates, with one lengthscale for all columns, on a grid."""
    fewer = _Fewer.of(candidates[-1], MAX_CELLS[0], MAX_SEARCH_SITES, rng)
    best = [_Start(candidates[0], np.empty((0, 0)), np.empty(0), np.inf)] * len(targets)
    for z in candidates:
        p = z.shape[1]
        scales = [np.full(p, 0.5 * np.log(p) + ell) for ell in STARTS]
        landmarks = _landmarks(SMOOTH(np.exp(scales[0])), z, MIN_LANDMARKS, rng)  # also for longer scales, and rough g
        pairs = [fewer(z, each) for each in targets]
        for scale in scales:
            features = LandmarkFeatures.of(SMOOTH(np.exp(scale)), pairs[0][0], landmarks)
            for i, moments in enumerate(Moments.of_each(features, [few for _, few in pairs])):
                J = bound_by_ratio(np.exp(START_RATIOS), moments)
                parameters = np.array([START_RATIOS[np.argmin(J)], *scale])
                value = float(np.min(J)) + _negative_log_prior(parameters)[0]
                if value < best[i].value:
                    best[i] = _Start(z, landmarks, parameters, value)
    return best


def grid_cells(z: Array, width: float) -> Integers:
    """The cell (n,) of each of the points z (n, p) in a grid of this width, numbered from 0."""
    corners = np.floor((z - np.min(z, axis=0)) / width).astype(np.intp)
    cells = np.zeros(len(z), dtype=np.intp)
    for column in corners.T:
        cells = np.unique(cells * (np.max(column) + 1) + column, return_inverse=True)[1]
    return cells


def finest_cells(
    z: Array, most: int, *, widest: float = 0.6, narrowest: float = 0.1, ratio: float = 1.15
) -> Integers | None:
    """The cells (n,) of the finest grid over points z (n, p) with at most so many, or None if they would be wide.

    Widths are in standard deviations, and tried in steps of a ratio.
    """
    width, cells = widest, grid_cells(z, widest)
    if np.max(cells) >= most:
        return None
    while width > narrowest and np.max(finer := grid_cells(z, width / ratio)) < most:
        width, cells = width / ratio, finer
    return cells


@dataclass(frozen=True, eq=False)
class _Fewer:
    """Cells (s,) of a grid in place of all s sites, or some of the rows if there are no cells."""

    cells: Integers | None
    rows: Integers

    @classmethod
    def of(cls, z: Array, most: int, rows: int, rng: np.random.Generator) -> _Fewer:
        """At most so many cells of coordinates z (s, p), or rows if the cells would be wide."""
        s = len(z)
        if s <= most:
            return cls(None, np.arange(s))
        return cls(finest_cells(z, most), np.arange(s) if s <= rows else rng.choice(s, rows, replace=False))

    def __call__(self, z: Array, targets: Targets) -> tuple[Array, Targets]:
        """Coordinates z (s, p) and targets, in cells or at the rows."""
        if self.cells is None:
            return (z, targets) if len(self.rows) == len(z) else (z[self.rows], targets.take(self.rows))
        sums = [np.bincount(self.cells, targets.counts * column) for column in z.T]
        found = targets.gathered(self.cells)
        return np.stack(sums, axis=1) / found.counts[:, None], found


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for hyperparameters with the fewest landmarks, on fewer sites; values are for all."""

    targets: Targets
    coordinates: Array
    rng: np.random.Generator

    def fewer(self, z: Array, most: int, rows: int) -> _Fewer:
        """Cells of the coordinates, and of the steps that z has beside them; or rows."""
        return _Fewer.of(np.column_stack([self.coordinates, z[:, self.coordinates.shape[1] :]]), most, rows, self.rng)

    def __call__(
        self, family: Family, z: Array, starts: Sequence[Array], landmarks: Array, cost: float = 0.0
    ) -> _Optimum:
        """The optimum of a family of kernels over z (s, p), from the best of the starts."""
        kernel = family(np.ones(z.shape[1]))
        bound = Bound(kernel, *self.fewer(z, MAX_CELLS[0], MAX_SEARCH_SITES)(z, self.targets), landmarks)
        best = starts[0]
        if len(starts) > 1:
            best = min(starts, key=lambda each: bound.value(each) + _negative_log_prior(each)[0])
        parameters = _optimum(bound, best, FIRST_STEPS)
        everywhere = Bound(kernel, z, self.targets, landmarks)
        value = everywhere.value(parameters) + _negative_log_prior(parameters)[0] + cost
        return _Optimum(everywhere, family, parameters, value)

    def with_steps(self, without: _Optimum, steps: Steps) -> _Optimum:
        """The optimum with the steps as further coordinates."""
        J = steps.indicators.shape[1]
        z = np.column_stack([without.bound.z, steps.indicators])
        p, ends = z.shape[1], np.zeros(J)
        flat = np.array([0.0, *np.full(p - J, 0.5 * np.log(p) + FLAT), *ends])
        starts, cost = [np.array([*without.parameters, *ends]), flat], J * steps.cost
        shortest = SMOOTH(np.full(p, np.sqrt(p) * np.exp(STARTS[0])))
        return self(without.family, z, starts, _landmarks(shortest, z, MIN_LANDMARKS, self.rng), cost)

    def refined(self, first: _Optimum) -> RegressionPosterior:
        """The posterior with as many landmarks as it needs, optimised again if the search was coarse."""
        posterior = self._with_landmarks(first.bound, first.parameters, MIN_LANDMARKS)
        m, s = posterior.m, len(self.targets.y)
        if m <= MIN_LANDMARKS and s <= MAX_CELLS[0]:
            return posterior
        bound = replace(first.bound, landmarks=posterior.features.landmarks)
        z, targets = self.fewer(bound.z, MAX_CELLS[1], s)(bound.z, self.targets)
        parameters = _optimum(replace(bound, z=z, targets=targets), first.parameters, FINAL_STEPS)
        return self._with_landmarks(bound, parameters, m)

    def _with_landmarks(
        self, bound: Bound, parameters: Array, m: int, *, most_unseen: float = 0.05
    ) -> RegressionPosterior:
        """The posterior with the landmarks of the bound, m in number, or with more if it needs them.

        most_unseen: the variance that landmarks may fail to represent, relative to the posterior variance.
        """
        while True:
            posterior = _posterior(bound, parameters)
            enough = posterior.amplitude * posterior.moments.unseen <= most_unseen * posterior.noise * posterior.dof
            if enough or m >= MAX_LANDMARKS or posterior.m < m:
                return posterior
            m = min(2 * m, MAX_LANDMARKS)
            landmarks = _landmarks(bound.kernel_at(parameters), bound.z, m, self.rng)
            bound = replace(bound, landmarks=landmarks)


def _optimum(
    bound: Bound,
    start: Array,
    steps: int,
    *,
    log_ratios: tuple[float, float] = (-25.0, 18.0),
    tolerance: float = 0.05,
) -> Array:
    """The hyperparameters of largest posterior density that are uphill from a start.

    log_ratios: the bounds of log gamma. tolerance: of the log-likelihood, and of its gradient.
    """

    def objective(parameters: Array) -> tuple[float, Array]:
        value, gradient = bound(parameters)
        penalty, slope = _negative_log_prior(parameters)
        return value + penalty, gradient + slope

    p = len(start) - 1
    low, high = 0.5 * np.log(p) + LOG_LENGTHSCALE_BOUNDS
    bounds = [log_ratios, *[(float(low), float(high))] * p]
    stopping = {"maxiter": steps, "ftol": tolerance / bound.targets.n, "gtol": tolerance}
    return quasi_newton(objective, np.clip(start, *np.array(bounds).T), bounds, options=stopping)[0]


def _negative_log_prior(parameters: Array) -> tuple[float, Array]:
    """Minus the log prior density of the hyperparameters, up to a constant, and its gradient."""
    p = len(parameters) - 1
    z = (parameters[1:] - 0.5 * np.log(p) - LOG_LENGTHSCALE_MEAN) / LOG_LENGTHSCALE_STD
    return 0.5 * float(z @ z), np.array([0.0, *(z / LOG_LENGTHSCALE_STD)])


def _posterior(bound: Bound, parameters: Array) -> RegressionPosterior:
    features, moments = bound.moments(parameters)
    gamma, zero_probability = average_ratio(moments)
    state = State.at(gamma, moments)
    return RegressionPosterior(features, moments, state, gamma * state.noise, zero_probability)


def _landmarks(kernel: Kernel, z: Array, m: int, rng: np.random.Generator, *, candidates: int = 4096) -> Array:
    """At most m of the rows z (n, p), chosen among a random subset of `candidates` if there are many rows."""
    some = z if len(z) <= candidates else z[rng.choice(len(z), candidates, replace=False)]
    return np.asarray(some[choose_landmarks(kernel, some, min(m, len(some)), rng)])
