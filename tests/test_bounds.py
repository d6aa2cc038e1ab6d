"""Bounds of f: all answers of a fit stay inside."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import cbq
from cbq.measures import Gaussian, Uniform
from cbq.methods.registry import registrations

pytestmark = pytest.mark.filterwarnings("ignore::cbq.FitWarning")
ESTIMATORS = {each.name: each.create for each in registrations()}
PRIOR = Uniform(0.0, 4.0)
NEW = np.linspace(0.0, 4.0, 21)[:, None]


def family(theta):
    return Gaussian(theta, 1.0)


def samples(outputs=False, **options):
    """Few points of a steep f between 0 and 1, and of its complement times 3."""

    def f(x, theta):
        share = expit(6 * (x[:, 0] - 2))
        return np.column_stack([share, 3 * (1 - share)]) if outputs else share

    return cbq.Problem(f, family, PRIOR, depends_on_theta=False, **options).collect(8, 6, rng=1)


def thetas(fit):
    return fit.theta if isinstance(fit, cbq.methods.MonteCarloFit) else NEW


def answers(fit):
    """Means in all ways, the ends of intervals, and draws, each (..., M) or (..., M, C)."""
    at = thetas(fit)
    mean, std = fit.predict(at, return_std=True)
    both, cov = fit.predict(at, return_cov=True)
    return [fit.predict(at), mean, both, *fit.interval(at), fit.sample(at, 50, rng=0)], [std, cov]


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("outputs", [False, True])
def test_answers_of_every_estimator_stay_within_the_bounds_of_f(name, outputs):
    low, high = (np.array([0.0, 0.0]), np.array([1.0, 3.0])) if outputs else (0.0, 1.0)
    free = answers(ESTIMATORS[name]().fit(samples(outputs)))
    inside = answers(ESTIMATORS[name]().fit(samples(outputs, bounds=(low, high))))
    assert any(np.any((each < low) | (each > high)) for each in free[0])
    for one, other in zip(free[0], inside[0], strict=True):
        np.testing.assert_array_equal(other, np.clip(one, low, high))
    for one, other in zip(free[1], inside[1], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_bands_stay_within_the_bounds_of_f(name):
    fit = ESTIMATORS[name]().fit(samples(bounds=(0, 1)))
    low, high = fit.band(thetas(fit))
    assert np.all((low >= 0) & (low <= fit.interval(thetas(fit))[0]))
    assert np.all((high <= 1) & (high >= fit.interval(thetas(fit))[1]))


def test_one_end_may_be_free():
    fit = cbq.LSMC().fit(samples(bounds=(0, np.inf)))
    free = cbq.LSMC().fit(samples())
    for one, other in zip(answers(fit)[0], answers(free)[0], strict=True):
        np.testing.assert_array_equal(one, np.maximum(other, 0.0))


def test_tables_and_nested_answers_stay_within_the_bounds_of_f():
    given = samples(bounds=(0, 1))
    fit = cbq.LSMC().fit(given)
    table = fit.to_frame(NEW)
    assert table["lower"].min() == 0.0
    assert table["upper"].max() == 1.0
    answer = cbq.nested_expectation(fit, lambda i: np.maximum(i - 1, 0) - np.minimum(i, 0), PRIOR, n=64, rng=0)
    assert answer.estimate == 0.0  # which is positive beyond [0, 1]
    free = cbq.nested_expectation(
        cbq.LSMC().fit(samples()), lambda i: np.maximum(i - 1, 0) - np.minimum(i, 0), PRIOR, n=64, rng=0
    )
    assert free.estimate > 0


@pytest.mark.parametrize(
    "estimator", [cbq.CBQ(), cbq.MOBQ(), cbq.LSMC(), cbq.MonteCarlo()], ids=lambda each: type(each).__name__
)
@pytest.mark.parametrize("outputs", [False, True])
def test_saved_fits_remember_the_bounds(estimator, outputs, tmp_path):
    fit = estimator.fit(samples(outputs, bounds=(-np.inf, [1, 3] if outputs else 1)))
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq", family=family)
    np.testing.assert_array_equal(again.bounds, fit.bounds)
    for one, other in zip(answers(again)[0], answers(fit)[0], strict=True):
        np.testing.assert_array_equal(one, other)
