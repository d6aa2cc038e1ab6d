"""Where further values of f help: gains against fits with one more value, disagreement against kriging by inverses."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from cbq.embeddings.many import Integrals
from cbq.estimators.conditional.fit import best_thetas
from cbq.gp.acquisition import NUGGET, Gain, disagreement, knowledge_gradient
from cbq.gp.pooled import ExactGP, PointValues
from cbq.kernels import RBF, Matern, TensorProduct, Warped, XThetaKernel
from cbq.linalg import Jitter
from cbq.measures import Gaussian

NONE = Jitter(start=0.0)
MEAN_VARIANCE = 100.0  # the default of `Gain`
THETA = np.array([[0.0], [0.4], [1.1]])
MEASURES = tuple(Gaussian(theta, cov=0.5) for theta in THETA)
KERNELS = {
    "x": (Matern(1.5, 0.7), np.array([[-0.6], [0.2], [0.9], [1.7]]), np.array([[-1.5], [0.1], [0.5], [2.5], [4.0]])),
    "x and theta": (
        XThetaKernel(RBF(0.8), Matern(2.5, 0.9), 1),
        np.array([[-0.6, 0.0], [0.3, 0.9], [1.2, 0.4]]),
        np.array([[-1.5, 0.2], [0.1, 1.0], [0.5, 0.5], [2.5, 0.7]]),
    ),
}


def mean_variance(kernel, points, noise):
    """The mean variance of the integrals given values at points, with a flat prior of the mean."""
    process = ExactGP(kernel, points, np.zeros((len(points), 1)), NONE, noise)
    integrals = Integrals(kernel, MEASURES, THETA)
    mu = integrals.mean(points)
    by_the_mean = np.mean(process.process.functionals(mu).gap ** 2)  # the part that comes from the mean
    S = process.process.R[0, 0] ** 2
    return np.mean(process.variance(mu, integrals.variance())), by_the_mean / (1.0 + MEAN_VARIANCE * S)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize(("kernel", "points", "u"), KERNELS.values(), ids=KERNELS)
def test_the_gain_is_the_fall_of_the_mean_variance_of_integrals(kernel, points, u, noise):
    """The wide prior of the mean is not flat: what that makes of each variance is known."""
    gain = Gain(kernel, Integrals(kernel, MEASURES, THETA), points, u, noise)
    before, apart = mean_variance(kernel, points, noise + NUGGET)
    for j, found in enumerate(gain.average):
        after, less_apart = mean_variance(kernel, np.vstack([points, u[j]]), noise + NUGGET)
        assert abs(found - (before - after)) <= max(apart, less_apart) * (1 + 1e-6)


@pytest.mark.parametrize(("kernel", "points", "u"), KERNELS.values(), ids=KERNELS)
def test_the_gain_of_values_with_factors_is_exact(kernel, points, u):
    """The fall of the variance of the values at points, each times the square of its factor, by dense algebra."""
    noise, factors = 0.2, np.linspace(0.5, 3.0, len(u))
    every = np.vstack([points, u])
    prior = kernel(every) + MEAN_VARIANCE
    known, n = prior[: len(points), : len(points)] + (noise + NUGGET) * np.eye(len(points)), len(points)
    cov = prior[n:, n:] - prior[n:, :n] @ np.linalg.solve(known, prior[:n, n:])
    expected = np.mean((factors[:, None] * cov) ** 2, axis=0) / (np.diagonal(cov) + noise + NUGGET)
    gain = Gain(kernel, PointValues(kernel, u), points, u, noise, factors=factors)
    assert_allclose(gain.average, expected, rtol=1e-8)


def test_many_points_that_are_added_count_as_points_that_were_there():
    kernel, u = Matern(1.5, 0.02), np.linspace(-3.0, 3.0, 300)[:, None]
    added = Gain(kernel, integrals := Integrals(kernel, MEASURES, THETA), u[:3], u, 0.1)
    for j in range(3, 200):  # more than there is room for at first, several times
        added.add(j)
    known = Gain(kernel, integrals, u[:200], u, 0.1)
    assert_allclose(added.variance, known.variance, rtol=1e-9)
    assert_allclose(added.average, known.average, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(("kernel", "points", "u"), KERNELS.values(), ids=KERNELS)
def test_the_gain_is_exact_for_a_kernel_with_the_variance_of_the_mean(kernel, points, u):
    """The covariance of all integrals and values, by dense algebra."""
    integrals, noise = Integrals(kernel, MEASURES, THETA), 0.2
    every = np.vstack([points, u])
    values = kernel(every) + MEAN_VARIANCE + (noise + NUGGET) * np.eye(len(every))
    mu = integrals.mean(every) + MEAN_VARIANCE

    def explained(rows):
        return np.mean(np.sum(mu[:, rows] * np.linalg.solve(values[np.ix_(rows, rows)], mu[:, rows].T).T, axis=1))

    known = list(range(len(points)))
    expected = [explained([*known, len(points) + j]) - explained(known) for j in range(len(u))]
    assert_allclose(Gain(kernel, integrals, points, u, noise).average, expected, rtol=1e-8, atol=1e-10)
    nothing = Gain(kernel, integrals, points[:0], u, noise).average
    assert_allclose(nothing, [explained([len(points) + j]) for j in range(len(u))], rtol=1e-8)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize(("kernel", "points", "u"), KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("known", [0, 3])
def test_adding_candidates_one_by_one_is_beginning_with_them(kernel, points, u, noise, known):
    integrals = Integrals(kernel, MEASURES, THETA)
    gain = Gain(kernel, integrals, points[:known], u, noise)
    for j in (2, 0):
        gain.add(j)
    at_once = Gain(kernel, integrals, np.vstack([points[:known], u[[2, 0]]]), u, noise)
    others = [1, 3]  # where the variance is not rounding
    assert_allclose(gain.average[others], at_once.average[others], rtol=1e-6)
    assert_allclose(gain.variance[others], at_once.variance[others], rtol=1e-6)
    if noise:  # a second value at the same point is worth something
        assert_allclose(gain.average, at_once.average, rtol=1e-6)
    else:
        assert np.all(gain.average[[2, 0]] < 1e-3 * np.max(at_once.average[others]))


# two processes

STEPS = {
    "rbf": (RBF(0.8), Matern(2.5, 0.8)),
    "matern": (Matern(1.5, 0.5), Matern(0.5, 0.5)),
    "log": (Warped(Matern(2.5, 0.9), "log"), Warped(Matern(1.5, 0.9), "log")),
    "tensor product": (TensorProduct(Matern(2.5, [0.5, 0.9])), TensorProduct(Matern(1.5, [0.5, 0.9]))),
    "x and theta": (XThetaKernel(RBF(0.7), Matern(1.5, 1.1), 1), XThetaKernel(Matern(2.5, 0.7), Matern(0.5, 1.1), 1)),
}


def kriged(kernel, points, f, u, noise):
    """The means and variances (M, C) of f at u, and amplitudes (C,), with an unknown mean: n + 1 equations."""
    n = len(points)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = kernel(points) + noise * np.eye(n)
    system[n, n] = 0.0
    inverse = np.linalg.inv(system)
    right = np.vstack([kernel(points, u), np.ones(len(u))])
    amplitude = np.sum(f * (inverse[:n, :n] @ f), axis=0) / (n - 1)
    variance = kernel.diag(u) - np.sum(right * (inverse @ right), axis=0)
    return (inverse @ right)[:n].T @ f, variance[:, None] * amplitude, amplitude


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize(("kernel", "rougher"), STEPS.values(), ids=STEPS)
def test_the_disagreement_is_that_of_two_processes(kernel, rougher, noise):
    rng = np.random.default_rng(0)
    D = 2 if isinstance(kernel, TensorProduct | XThetaKernel) else 1
    points = rng.uniform(0.2, 3.0, (8, D))
    points[:, 0] = np.linspace(0.2, 3.0, 8)  # apart from one another, for the accuracy of an inverse
    u = 0.5 * (points[1:] + points[:-1])
    f = np.column_stack([np.sin(np.sum(points, axis=1)), np.abs(points[:, 0] - 1.3)])
    mean, _, _ = kriged(kernel, points, f, u, noise)
    other, variance, amplitude = kriged(rougher, points, f, u, noise)
    expected = (mean - other) ** 2 / (variance + NUGGET * amplitude)
    assert_allclose(disagreement(kernel, points, f, u, NONE, noise), expected, rtol=1e-6)


def test_it_is_largest_at_a_kink_and_small_where_f_is_smooth():
    points = np.linspace(0.0, 1.0, 21)[:, None]
    kink = 0.4321  # between two points
    u = np.linspace(0.0, 1.0, 1001)[:, None]
    found = disagreement(Matern(2.5, 1.0), points, np.abs(points - kink), u, Jitter())[:, 0]
    assert abs(u[np.argmax(found), 0] - kink) < 0.05
    between = (np.abs(u[:, 0] - kink) > 0.25) & (np.abs(u[:, 0] - 0.5) < 0.4)  # at the ends, less is known
    assert np.max(found[between]) < 0.02 * np.max(found)


@pytest.mark.parametrize("kernel", [Matern(0.5, 0.7), Warped(Matern(0.5, 0.7), "log")], ids=["x", "log x"])
def test_where_no_kernel_is_rougher_the_nearest_value_is(kernel):
    points = np.array([0.2, 0.5, 0.9, 1.6, 3.0])[:, None]
    f = np.column_stack([points[:, 0] > 1.0, np.sin(points[:, 0])]).astype(float)
    u = np.array([0.3, 1.1, 1.3, 2.9])[:, None]
    mean, variance, amplitude = kriged(kernel, points, f, u, 0.0)
    nearest = f[[0, 2, 3, 4]]  # on a logarithmic scale, too
    expected = (mean - nearest) ** 2 / (variance + NUGGET * amplitude)
    assert_allclose(disagreement(kernel, points, f, u, NONE), expected, rtol=1e-6)


def test_it_is_largest_in_the_gap_that_holds_a_jump():
    points = np.linspace(0.0, 1.0, 21)[:, None]
    u = np.linspace(0.0, 1.0, 1001)[:, None]
    found = disagreement(Matern(0.5, 1.0), points, np.where(points > 0.4321, 1.0, 0.0), u, Jitter())[:, 0]
    between = (u[:, 0] > 0.4) & (u[:, 0] < 0.45)
    assert between[np.argmax(found)]
    assert np.max(found[~between]) < 0.05 * np.max(found)


@pytest.mark.parametrize("kernel", [Matern(2.5, 1.0), Matern(0.5, 1.0)], ids=repr)
def test_a_constant_shows_nothing(kernel):
    points, u = np.linspace(0.0, 1.0, 9)[:, None], np.linspace(-1.0, 2.0, 31)[:, None]
    assert_array_equal(disagreement(kernel, points, np.zeros((9, 1)), u, Jitter()), 0.0)


# two stages


class Process:
    """A Gaussian process on estimates of I at thetas (T, 1), whose variances are a / N^2; a fit for `best_thetas`."""

    kernel = Matern(2.5, 0.4)

    def __init__(self, theta, a, counts):
        self.theta, self.counts = theta, np.array(counts)
        self.stage1 = SimpleNamespace(columns={"variance": (a / self.counts**2.0)[:, None]})

    def _replaced(self, *, unseen):
        assert unseen is None
        return self

    def predict(self, theta, *, return_cov):
        assert return_cov
        K = self.kernel(self.theta) + np.diag(self.stage1.columns["variance"][:, 0])
        k = self.kernel(self.theta, theta)
        return np.zeros(len(theta)), self.kernel(theta) - k.T @ np.linalg.solve(K, k)

    def falls_to(self, wanted, a, new, more, points):
        """The mean variance over wanted thetas once thetas `more` (indices, also into new ones) have more points."""
        counts = np.concatenate([self.counts, np.zeros(len(new))])
        for j in more:
            counts[j] += points
        theta, has = np.concatenate([self.theta, new]), counts > 0
        again = Process(theta[has], a[has], counts[has])
        return np.mean(np.diag(again.predict(wanted, return_cov=True)[1]))


def test_the_best_thetas_are_those_by_which_the_refitted_variance_falls_most():
    """Observed thetas get a smaller variance, new ones one of their own: all choices are tried."""
    theta, new, wanted = (np.array(each)[:, None] for each in ([0.1, 0.5, 0.6], [0.3, 0.95], np.linspace(0, 1, 21)))
    fit, points = Process(theta, np.array([2.0, 0.5, 4.0]), [4, 9, 5]), 3
    a = np.array([2.0, 0.5, 4.0, 2.0, 2.0])  # at new thetas, the median
    every, counts = np.concatenate([theta, new]), np.array([4, 9, 5, 0, 0])
    chosen = best_thetas(5, fit, every, counts, wanted, points)
    for k in range(5):
        left = [fit.falls_to(wanted, a, new, [*chosen[:k], j], points) for j in range(len(every))]
        assert chosen[k] == np.argmin(left)
    cheap = best_thetas(1, fit, every, counts, wanted, points, price=np.where(np.arange(5) == 2, 1e-3, 1.0))
    assert cheap.tolist() == [2]


def test_a_knowledge_gradient_is_what_choosing_later_gains():
    rng = np.random.default_rng(0)
    z = norm.ppf((np.arange(10**5) + 0.5) / 10**5)
    moves, gap = rng.normal(size=(2, 5)), np.array([0.0, 0.7])
    found = knowledge_gradient(gap, moves)
    for u, saved in enumerate(found):
        later = np.max(np.outer(z, moves[:, u]) - gap, axis=1)
        assert_allclose(saved, np.mean(later), rtol=1e-3, atol=1e-6)


def test_a_knowledge_gradient_is_at_most_what_choosing_among_all_gains():
    rng = np.random.default_rng(1)
    z = norm.ppf((np.arange(10**4) + 0.5) / 10**4)
    moves, gaps = rng.normal(size=(6, 8)), np.append(0.0, rng.random(5))
    found = knowledge_gradient(gaps, moves)
    exact = np.array([np.mean(np.max(np.outer(z, each) - gaps, axis=1)) for each in moves.T])
    each = [knowledge_gradient(gaps[[0, g]], moves[[0, g]]) for g in range(1, 6)]
    assert np.all(found <= exact * 1.01)
    assert_allclose(found, np.max(each, axis=0), rtol=1e-12)
    assert np.all(np.sum(each, axis=0) >= exact * 0.99)
    assert np.all(knowledge_gradient(np.array([0.0, 1.0]), np.ones((2, 3))) <= 1e-300)
