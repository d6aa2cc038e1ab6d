"""Bounds of f: all answers of a fit stay inside."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import cbq
from cbq.estimators.base import registrations
from cbq.measures import Gaussian, Uniform
from cbq.samples.bounds import bounds_contradictions

pytestmark = pytest.mark.filterwarnings("ignore::cbq.FitWarning")
ESTIMATORS = {each.name: each.create for each in registrations()}
PRIOR = Uniform(0.0, 4.0)
NEW = np.linspace(0.0, 4.0, 21)[:, None]


def family(theta):
    return Gaussian(theta, 1.0)


def samples(outputs=False, **options):
    """Few points of a steep f between 0 and 1, and of its complement times 3."""

    def f(x, theta):
        share = expit(20 * (x[:, 0] - 2))
        return np.column_stack([share, 3 * (1 - share)]) if outputs else share

    return cbq.Problem(f, family, PRIOR, depends_on_theta=False, **options).collect(8, 6, rng=1)


WIDE = 0.9999  # a level at which the intervals of all estimators exceed the bounds


def thetas(fit):
    return fit.theta if isinstance(fit, cbq.estimators.MonteCarloFit) else NEW


def answers(fit):
    """Means in all ways, the ends of intervals, and draws, each (..., M) or (..., M, C)."""
    at = thetas(fit)
    mean, std = fit.predict(at, return_std=True)
    both, cov = fit.predict(at, return_cov=True)
    return [fit.predict(at), mean, both, *fit.interval(at, WIDE), fit.sample(at, 50, rng=0)], [std, cov]


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


# Of a random f they are the bounds of its mean: draws may lie outside, averages of many may not.


def deaths(x, theta, rng):
    return float(rng.poisson(80 + 5 * theta[0] + x[0] ** 2))


def random_problem(f, bounds):
    return cbq.Problem(f, family, PRIOR, vectorized=False, stochastic=True, bounds=bounds)


def kinds(fit):
    return [each.kind for each in fit.serious_findings]


@pytest.mark.parametrize("name", [each for each in ESTIMATORS if each != "importance-sampling"])
def test_bounds_that_averages_of_draws_contradict_are_named_and_not_used(name):
    wrong, free = (random_problem(deaths, bounds).collect(8, 6, rng=1) for bounds in ((0, 1), (0, np.inf)))
    fit = ESTIMATORS[name]().fit(wrong)
    finding = next(each for each in fit.serious_findings if each.kind == "bounds")
    assert "bounds (0, 1)" in finding.text
    assert "above 1." in finding.text
    assert np.min(fit.predict(fit.theta)) > 60
    np.testing.assert_array_equal(fit.interval(fit.theta), ESTIMATORS[name]().fit(free).interval(fit.theta))


def test_the_end_that_is_not_contradicted_stays():
    given = random_problem(deaths, (0, 1)).collect(8, 6, rng=1)
    np.testing.assert_array_equal(given.bounds, [[0], [1]])
    np.testing.assert_array_equal(given.known_bounds, [[0], [np.inf]])


@pytest.mark.parametrize("door", ["solve", "tell", "samples", "joined"])
def test_contradicted_bounds_are_named_through_every_door(door):
    problem = random_problem(deaths, (0, 1))
    if door == "solve":
        fit = problem.solve(budget=40, rng=0, progress=False).fit
    elif door == "tell":
        rng = np.random.default_rng(0)
        with cbq.Problem(None, family, PRIOR, stochastic=True, bounds=(0, 1)).session(budget=40, rng=0) as session:
            runs = session.ask(40)
            session.tell(runs.ids, rng.poisson(85.0, 40).astype(float))
            fit = session.fit()
    else:
        one = problem.collect(8, 6, rng=1)
        if door == "samples":
            one = cbq.Samples(one.theta, one.x, one.f, family, stochastic=True, bounds=(0, 1))
        else:
            one = one + problem.collect(4, 6, rng=2)
        fit = cbq.LSMC().fit(one)
    assert "bounds" in kinds(fit)
    assert np.min(fit.predict(fit.theta)) > 50


def test_only_a_part_of_the_thetas_may_contradict_the_bounds():
    def f(x, theta, rng):
        return float(rng.normal(0.5 + 3.0 * (theta[0] > 3.2), 0.3))

    fit = cbq.LSMC().fit(random_problem(f, (0, 1)).collect(30, 10, rng=0))
    text = next(each.text for each in fit.serious_findings if each.kind == "bounds")
    assert "300 of them" not in text
    assert "theta = 3." in text


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: float(rng.random() < 0.5),
        lambda rng: float(rng.random() < 0.9) + 0.1,  # of mean 1
        lambda rng: rng.normal(1.0, 1.0),
        lambda rng: rng.normal(0.0, 1.0),
        lambda rng: rng.exponential(1.0),
        lambda rng: 2.0 - rng.exponential(1.0),
        lambda rng: rng.standard_t(3.0),
    ],
    ids=["coin", "two values", "at the upper end", "at the lower end", "skew", "skew away", "heavy tails"],
)
def test_bounds_that_hold_are_not_contradicted(draw):
    """Means are 0, 0.5 or 1, and the bounds 0 and 1: at an end, half of the averages lie outside."""
    rng = np.random.default_rng(5)
    for n in (1, 2, 5, 10, 20, 60):
        for _ in range(60):
            f = np.array([[draw(rng)] for _ in range(n)])
            assert not bounds_contradictions(f, rng.random((n, 2)), np.array([[0.0], [1.0]]))


def test_the_probability_that_bounds_which_hold_are_contradicted():
    """Hoeffding's part is exact: 20 equal coins at the bound 0.9 have the probability 0.12, and contradict nothing."""
    ones = np.ones((20, 1))
    assert not bounds_contradictions(ones, np.zeros((20, 1)), np.array([[0.0], [0.9]]))
    assert not bounds_contradictions(ones, np.zeros((20, 1)), np.array([[-np.inf], [0.9]]))
    assert bounds_contradictions(ones, np.zeros((20, 1)), np.array([[0.0], [0.01]]))  # a probability of 1e-40
