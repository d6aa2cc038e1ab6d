"""Bayesian quadrature of one integral."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import cbq
from cbq.kernels import RBF, Matern
from cbq.measures import Gaussian, Uniform

X = np.linspace(-2.0, 2.5, 9)


def f(x):
    return np.sin(x) + x**2


def test_it_is_the_posterior_of_the_textbook():
    kernel, measure = Matern(2.5, 0.9), Gaussian(0.2, std=0.8)
    found = cbq.BQ(kernel, mean="zero").fit(X, f(X), measure)
    K, embedding = kernel(X), cbq.embed(kernel, measure)
    weights = np.linalg.solve(K, embedding.mean(X))
    amplitude = f(X) @ np.linalg.solve(K, f(X)) / 9
    variance = amplitude * (embedding.variance - weights @ embedding.mean(X))
    assert_allclose(found.mean, weights @ f(X), rtol=1e-8)
    assert_allclose(found.weights, weights, rtol=1e-7)
    # the amplitude is integrated out: Student-t with nine degrees of freedom
    assert_allclose(found.std, np.sqrt(variance * 9 / 7), rtol=1e-6)
    assert_allclose(found.interval(0.9), stats.t(9, found.mean, np.sqrt(variance)).interval(0.9), rtol=1e-6)


def test_an_unknown_mean_has_weights_that_sum_to_one():
    found = cbq.BQ(RBF(0.8)).fit(X, f(X) + 1e6, Gaussian(0.0, std=0.7))
    assert_allclose(np.sum(found.weights), 1.0, rtol=1e-9)
    assert found.df == 8
    assert_allclose(found.mean - 1e6, cbq.BQ(RBF(0.8)).fit(X, f(X), Gaussian(0.0, std=0.7)).mean, atol=1e-7)


def test_the_default_integrates_a_smooth_function():
    x = stats.qmc.Sobol(2, seed=0).random(64)
    found = cbq.BQ().fit(x, np.cos(x[:, 0]) * x[:, 1], Uniform([0.0, 0.0], [1.0, 1.0]))
    low, high = found.interval(0.99)
    assert low <= np.sin(1.0) / 2 <= high
    assert abs(found.mean - np.sin(1.0) / 2) < 1e-4


def test_several_functions_and_scipy_measures():
    both = cbq.BQ(RBF(0.7)).fit(X, np.stack([f(X), np.cos(X)], axis=1), stats.norm(0.0, 0.7))
    alone = cbq.BQ(RBF(0.7)).fit(X, np.cos(X), Gaussian(0.0, std=0.7))
    assert both.mean.shape == both.std.shape == (2,)
    assert_allclose(both.mean[1], alone.mean, rtol=1e-9)
    assert both.weights.shape == (9, 2)


def test_equal_values_do_not_show_how_f_varies():
    with pytest.warns(cbq.FitWarning, match="all values of f are equal"):
        found = cbq.BQ(RBF(1.0)).fit(X, np.full(9, 3.0), Gaussian(0.0, std=1.0))
    assert found.mean == pytest.approx(3.0)
    assert found.interval() == (-np.inf, np.inf)


def test_few_points_raise_no_finding_about_thetas():
    assert cbq.BQ(RBF(1.0)).fit([0.1, 1.0], [1.0, 2.0], Gaussian(0.0, std=1.0)).findings == ()


@pytest.mark.parametrize(
    ("x", "values"), [(X, f(X)[:-1]), (X[None, :, None], f(X)), ([1.0], [2.0]), (X, f(X)[:, None, None])]
)
def test_shapes_that_do_not_match_are_refused(x, values):
    with pytest.raises(ValueError, match=r"x has shape .* and f .*, but they must be"):
        cbq.BQ().fit(x, values, Gaussian(0.0, std=1.0))


def test_points_outside_the_support_and_numbers_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="x must"):
        cbq.BQ().fit(X, f(X), Uniform(0.0, 1.0))
    with pytest.raises(ValueError, match="f must be finite"):
        cbq.BQ().fit(X, np.where(X > 0, np.nan, 1.0), Gaussian(0.0, std=1.0))
