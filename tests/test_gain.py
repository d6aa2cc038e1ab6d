"""What a further value of f is worth, in two ways: by the formulas, and by fitting again with one more value."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cbq.embeddings.many import Integrals
from cbq.gp.gain import MEAN_VARIANCE, NUGGET, Gain
from cbq.gp.pooled import ExactGP
from cbq.kernels import RBF, Matern, XThetaKernel
from cbq.linalg import Jitter
from cbq.measures import Gaussian
from cbq.methods.conditional.fit import RATE, best_thetas

NONE = Jitter(start=0.0)
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
    slope = 1.0 - mu @ process.factor.solve(np.ones((len(points), 1)))[:, 0]
    by_the_mean = np.mean(slope**2) / process.S  # the part that comes from the mean
    return np.mean(process.variance(mu, integrals.variance())), by_the_mean / (1.0 + MEAN_VARIANCE * process.S)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize(("kernel", "points", "u"), KERNELS.values(), ids=KERNELS)
def test_the_gain_is_the_fall_of_the_mean_variance_of_integrals(kernel, points, u, noise):
    """The wide prior of the mean is not flat: what that makes of each variance is known."""
    gain = Gain(kernel, Integrals(kernel, MEASURES, THETA), points, u, noise)
    before, apart = mean_variance(kernel, points, noise + NUGGET)
    for j, found in enumerate(gain.average):
        after, less_apart = mean_variance(kernel, np.vstack([points, u[j]]), noise + NUGGET)
        assert abs(found - (before - after)) <= max(apart, less_apart) * (1 + 1e-6)


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


# two stages


class Process:
    """A Gaussian process on estimates of I at thetas (T, 1), whose variances are a / N^2; a fit for `best_thetas`."""

    kernel = Matern(2.5, 0.4)

    def __init__(self, theta, a, counts):
        self.theta, self.counts = theta, np.array(counts)
        self.stage1 = SimpleNamespace(columns={"variance": (a / self.counts**RATE)[:, None]})

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
