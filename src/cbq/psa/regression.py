"""The regressions on the columns of a set: canonical outputs on chosen coordinates, by sparse Gaussian processes.

Canonical outputs are linear combinations of outputs whose signals and noises are both uncorrelated in a pilot
regression. Regressing them independently is therefore adequate, and results do not depend on linear maps of the
outputs: on their units, or on the decision that differences are taken from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from cbq._arrays import Array
from cbq.gp.landmarks import choose_landmarks
from cbq.gp.search import quasi_newton
from cbq.gp.sparse import Bound, LandmarkFeatures, Moments, State, average_ratio
from cbq.kernels import RBF, Kernel, Matern
from cbq.linalg.dense import eigh, thin_svd
from cbq.linalg.resident import on_host

CONSTANT_BELOW = 1e-12  # standard deviation of an output, relative to its largest value
RANK_TOLERANCE = 1e-10  # relative to the largest eigenvalue of the correlations, or singular value of the basis
MAX_PILOT_LANDMARKS, MAX_PILOT_CANDIDATES = 20, 2000  # landmarks of the pilot regression, and rows to choose from
MIN_PILOT_ROWS = 20  # for each column of its basis
NORMAL_ABOVE = 0.995  # correlation of a column with its normal scores
MIN_LANDMARKS, MAX_LANDMARKS = 48, 768
MAX_UNSEEN = 0.05  # variance that landmarks do not represent, relative to the posterior variance
MAX_CANDIDATES = 8192  # rows among which landmarks are chosen
# Lengthscales ell are in units of sqrt(p) standard deviations of a column; gamma is the signal-to-noise ratio.
LOG_LENGTHSCALE_BOUNDS = np.array([-3.0, 5.0])
LOG_LENGTHSCALE_MEAN, LOG_LENGTHSCALE_STD = np.log(2.0), 1.5  # normal prior of log ell, for tables of few rows
LOG_RATIO_BOUNDS = (-25.0, 18.0)
STARTS = tuple((ell, gamma) for ell in (-1.2, 0.0, 1.2) for gamma in (-4.0, 0.0))  # log ell and log gamma
FIRST_STEPS, FINAL_STEPS = 40, 12  # of the optimiser, with the fewest landmarks and with all of them
VALUE_TOLERANCE, GRADIENT_TOLERANCE = 0.01, 0.01  # of the log-likelihood


@dataclass(frozen=True, eq=False)
class CanonicalOutputs:
    """y = mean + values @ back, for y (n, q), mean (q,), values (n, r) of mean 0 and variance 1, and back (r, q).

    r is the rank of y less its mean: 0 if all of y is constant.
    """

    mean: Array
    values: Array
    back: Array


def canonical_outputs(y: Array, z: Array, rng: np.random.Generator) -> CanonicalOutputs:
    """The canonical outputs of y (n, q) for a regression on z (n, p)."""
    mean = np.mean(y, axis=0)
    centred = y - mean
    std = np.sqrt(np.mean(centred**2, axis=0))
    varies = std > CONSTANT_BELOW * np.max(np.abs(y), axis=0)
    scaled = centred[:, varies] / std[varies]
    if not scaled.size:
        return CanonicalOutputs(mean, np.empty((len(y), 0)), np.empty((0, y.shape[1])))
    white, unwhiten = _whitened(scaled)
    basis = _pilot_basis(z, rng)
    residual = white - basis @ (basis.T @ white)
    rotation = eigh(residual.T @ residual / len(y))[1]
    values = white @ rotation
    rotation *= np.where(np.sum(values**3, axis=0) < 0, -1.0, 1.0)  # fixes the signs of the eigenvectors
    back = np.zeros((rotation.shape[1], y.shape[1]))
    back[:, varies] = rotation.T @ unwhiten * std[varies]
    return CanonicalOutputs(mean, white @ rotation, back)


def candidate_coordinates(columns: Array) -> list[Array]:
    """The coordinates (n, p) to choose from for the columns (n, p) of a set, none of them constant.

    These are the standardised columns and, if one of them is far from normal, also the normal scores of all columns,
    which have no outliers.
    """
    standard = (columns - np.mean(columns, axis=0)) / np.std(columns, axis=0)
    scores = np.stack([normal_scores(column) for column in columns.T], axis=1)
    correlation = np.mean(standard * scores, axis=0)
    binary = np.array([len(np.unique(column[:1000])) <= 2 and len(np.unique(column)) <= 2 for column in columns.T])
    return [standard] if np.all((correlation > NORMAL_ABOVE) | binary) else [standard, scores]


def normal_scores(column: Array) -> Array:
    """The standardised normal quantiles (n,) of the ranks of a column (n,); ties share their mean rank."""
    _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - 0.5 * counts
    scores = ndtri(middle / len(column))[place]
    return np.asarray((scores - np.mean(scores)) / np.std(scores))


def _whitened(scaled: Array) -> tuple[Array, Array]:
    """Uncorrelated columns (n, r) of variance 1, and the map (r, q) from them to centred columns `scaled` (n, q)."""
    eigenvalues, axes = eigh(scaled.T @ scaled / len(scaled))
    kept = eigenvalues > RANK_TOLERANCE * eigenvalues[-1]
    stds = np.sqrt(eigenvalues[kept])
    return scaled @ axes[:, kept] / stds, stds[:, None] * axes[:, kept].T


def _pilot_basis(z: Array, rng: np.random.Generator) -> Array:
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
        return len(self.features.landmarks)

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
        for rows, there in self.features.blocks():
            phi = on_host(there)
            seen = np.sum(phi * phi, axis=1)
            centred = phi - self.moments.centre
            spread = np.sqrt(self.amplitude) * self.state.factor.solve_lower(centred.T).T
            yield RowBlock(rows, centred @ self.state.weights, spread, self.amplitude * np.maximum(1.0 - seen, 0.0))


def fit_regression(candidates: Sequence[Array], y: Array, rng: np.random.Generator) -> RegressionPosterior:
    """The regression of y (n,), of mean 0 and variance 1, on the likeliest of the candidate coordinates (n, p)."""
    p = candidates[0].shape[1]
    unit = np.sqrt(p) * np.ones(p)
    smooth = min((_search(RBF(unit), z, y, rng) for z in candidates), key=lambda each: each.value)
    rough = _search(Matern(2.5, unit), smooth.bound.z, y, rng, smooth.parameters)
    return _refined(min(smooth, rough, key=lambda each: each.value), rng)


@dataclass(frozen=True, eq=False)
class _Optimum:
    """Hyperparameters (log gamma, log-lengthscales), and minus their log posterior density, up to a constant."""

    bound: Bound
    parameters: Array
    value: float


def _search(kernel: Kernel, z: Array, y: Array, rng: np.random.Generator, start: Array | None = None) -> _Optimum:
    """The optimum with the fewest landmarks, from the best of `STARTS` or from a given start."""
    p = z.shape[1]
    starts = [np.array([gamma, *np.full(p, 0.5 * np.log(p) + ell)]) for ell, gamma in STARTS]
    shortest = kernel.with_log_lengthscales(starts[0][1:])  # its landmarks are adequate for longer lengthscales too
    bound = Bound(kernel, z, y, _landmarks(shortest, z, MIN_LANDMARKS, rng))
    if start is None:
        start = min(starts, key=lambda each: bound.value(each) + _negative_log_prior(each)[0])
    return _optimum(bound, start, FIRST_STEPS)


def _optimum(bound: Bound, start: Array, steps: int) -> _Optimum:
    def objective(parameters: Array) -> tuple[float, Array]:
        value, gradient = bound(parameters)
        penalty, slope = _negative_log_prior(parameters)
        return value + penalty, gradient + slope

    p = len(start) - 1
    low, high = 0.5 * np.log(p) + LOG_LENGTHSCALE_BOUNDS
    bounds = [LOG_RATIO_BOUNDS, *[(float(low), float(high))] * p]
    stopping = {"maxiter": steps, "ftol": VALUE_TOLERANCE / len(bound.y), "gtol": GRADIENT_TOLERANCE}
    return _Optimum(bound, *quasi_newton(objective, np.clip(start, *np.array(bounds).T), bounds, options=stopping))


def _negative_log_prior(parameters: Array) -> tuple[float, Array]:
    """Minus the log prior density of the hyperparameters, up to a constant, and its gradient."""
    p = len(parameters) - 1
    z = (parameters[1:] - 0.5 * np.log(p) - LOG_LENGTHSCALE_MEAN) / LOG_LENGTHSCALE_STD
    return 0.5 * float(z @ z), np.array([0.0, *(z / LOG_LENGTHSCALE_STD)])


def _refined(first: _Optimum, rng: np.random.Generator) -> RegressionPosterior:
    """The posterior with as many landmarks as it needs, its hyperparameters optimised again if they are more."""
    z, y, parameters = first.bound.z, first.bound.y, first.parameters
    kernel, bound, m = first.bound.kernel_at(parameters), first.bound, MIN_LANDMARKS
    while True:
        posterior = _posterior(bound, parameters)
        enough = posterior.amplitude * posterior.moments.unseen <= MAX_UNSEEN * posterior.noise * posterior.dof
        if enough or m >= MAX_LANDMARKS or posterior.m < m:
            break
        m = min(2 * m, MAX_LANDMARKS)
        bound = Bound(kernel, z, y, _landmarks(kernel, z, m, rng))
    return posterior if m == MIN_LANDMARKS else _posterior(bound, _optimum(bound, parameters, FINAL_STEPS).parameters)


def _posterior(bound: Bound, parameters: Array) -> RegressionPosterior:
    features, moments = bound.moments(parameters)
    gamma, zero_probability = average_ratio(moments)
    state = State.at(gamma, moments)
    return RegressionPosterior(features, moments, state, gamma * state.noise, zero_probability)


def _landmarks(kernel: Kernel, z: Array, m: int, rng: np.random.Generator) -> Array:
    """At most m of the rows z (n, p), chosen among a random subset if there are many rows."""
    some = z if len(z) <= MAX_CANDIDATES else z[rng.choice(len(z), MAX_CANDIDATES, replace=False)]
    return np.asarray(some[choose_landmarks(kernel, some, min(m, len(some)), rng)])
