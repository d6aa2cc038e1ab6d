"""Where the points of all thetas do not reach, and biases that thetas share."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import cbq
from cbq.fit.findings import silent
from cbq.measures import Empirical, Gamma, Gaussian, LogNormal, Uniform
from cbq.methods.multioutput.unreached import EXPECTED_MASS, OUTERMOST, unreached

RNG = np.random.default_rng(12)


@pytest.mark.parametrize(
    "measure",
    [
        Gaussian(0.5, cov=2.0),
        Gamma(2.0, 1.0),
        Uniform(-1.0, 3.0),
        LogNormal(0.0, 1.0),
        Gaussian([0.0, 1.0], cov=[1.0, 3.0]),
    ],
    ids=repr,
)
def test_the_mass_beyond_the_points_is_that_of_draws(measure):
    n = 200
    x = RNG.uniform(0.2, 1.0, (n, measure.dim))
    draws, ordered = measure.sample(200_000, 3), np.sort(x, axis=0)
    outside = (draws < ordered[OUTERMOST - 1]) | (draws > ordered[-OUTERMOST])
    expected = np.sum(np.mean(outside, axis=0)) - EXPECTED_MASS * measure.dim
    assert expected > 0.1
    assert_allclose(unreached([measure, measure], x), [expected] * 2, atol=0.01)


def test_measures_of_several_kinds_are_looked_at_one_by_one():
    measures = [Gaussian(0.0, 1.0), Uniform(0.0, 1.0)]
    x = RNG.uniform(0.0, 1.0, (100, 1))
    assert_allclose(unreached(measures, x), [unreached([each], x)[0] for each in measures])


def test_points_of_the_measure_itself_reach_far_enough():
    measure = Gaussian(np.zeros(3), np.ones(3))
    found = [unreached([measure], measure.sample(100, seed))[0] for seed in range(200)]
    assert np.mean(np.array(found) > 0) < 0.01


def test_nothing_is_said_where_points_are_few_or_measures_have_atoms():
    far = Gaussian(100.0, 1.0)
    assert unreached([far], RNG.normal(size=(10, 1))) == 0
    assert unreached([far], RNG.normal(size=(11, 1))) > 0
    assert unreached([Empirical(np.full(3, 100.0))], RNG.normal(size=(50, 1))) == 0


def kinked():
    """|X|, X ~ N(theta, 1), for thetas so large that no point is negative."""
    prior = Uniform(4.0, 8.0)
    return cbq.Problem(
        lambda x, theta: np.abs(x[:, 0]), lambda theta: Gaussian(theta[0], 1.0), prior, depends_on_theta=False
    )


def test_intervals_widen_where_the_points_do_not_reach_and_nowhere_else():
    with silent():
        samples = kinked().collect(10, 10, rng=0)
        fit = cbq.MOBQ().fit(samples)
        theta = np.array([[0.5], [6.0]])
        mean, std = fit.predict(theta, return_std=True)
        _, cov = fit.predict(theta, return_cov=True)
    assert_allclose(np.sqrt(np.diagonal(cov)), std, rtol=1e-10)
    assert np.min(samples.all_points) > 0
    truth = norm.expect(np.abs, loc=0.5)
    assert 0.3 < abs(mean[0] - truth) < 3 * std[0]
    assert std[1] < 1e-3


QUIET = pytest.mark.filterwarnings("ignore::cbq.FitWarning")


@pytest.mark.slow
@QUIET
def test_many_thetas_with_few_sobol_points_share_a_bias_that_their_intervals_hold():
    problem = cbq.problems.get("butterfly")
    theta = problem.prior.sample(200, 5)
    truth, inside = problem.exact(theta), []
    for seed in range(4):
        low, high = cbq.CBQ().fit(problem.collect(300, 8, rng=seed, design="sobol")).interval(theta)
        inside.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(inside) > 0.85  # 0.78 where small residuals over theta lower the variances
