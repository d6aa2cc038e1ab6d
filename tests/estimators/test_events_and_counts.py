"""Latent-process Bayesian quadrature: events and counts, against exact means, and what it refuses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from scipy.stats import norm, poisson

import cbq
from cbq.fit import DrawnMeans
from cbq.measures import Gaussian, Poisson, Uniform

THETA = np.linspace(-1.0, 1.0, 9)


def family(theta):
    return Gaussian(theta, 1.0)


def problem(f, **options):
    return cbq.Problem(f, family, Uniform(-1.0, 1.0), depends_on_theta=False, **options)


def event(x, theta):
    return np.where(x[:, 0] > 0.5, 1.0, 0.0)


@pytest.fixture(scope="module")
def fit():
    return cbq.LatentBQ().fit(problem(event).collect(10, 8, rng=0, design="sobol"))


def test_an_event_has_its_probability_within_intervals_in_0_1(fit):
    truth = norm.sf(0.5 - THETA)
    low, high = fit.interval(THETA)
    assert np.all((low <= truth) & (truth <= high))
    assert np.all((low >= 0) & (high <= 1))
    assert_allclose(fit.predict(THETA), truth, atol=0.02)
    assert np.all((fit.sample(THETA, 50, rng=0) >= 0) & (fit.sample(THETA, 50, rng=0) <= 1))


def test_intervals_draws_and_covariances_agree(fit):
    mean, std = fit.predict(THETA, return_std=True)
    cov = fit.predict(THETA, return_cov=True)[1]
    assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-6, atol=1e-12)
    draws = fit.sample(THETA, 4000, rng=0)
    assert_allclose(np.mean(draws, axis=0), mean, atol=5 * np.max(std) / np.sqrt(4000))
    low, high = fit.interval(THETA, 0.8)
    assert_allclose(np.mean((draws >= low) & (draws <= high), axis=0), 0.8, atol=0.05)


def test_rates_of_random_events_and_counts_are_learnt():
    rate = lambda x: ndtr(x[:, 0] - 0.3)  # noqa: E731
    events = problem(lambda x, theta, rng: 1.0 * (rng.random(len(x)) < rate(x)), stochastic=True)
    counts = problem(lambda x, theta, rng: 1.0 * rng.poisson(np.exp(0.5 * x[:, 0])), stochastic=True)
    truths = ndtr((THETA - 0.3) / np.sqrt(2)), np.exp(0.5 * THETA + 0.125)
    for made, truth in zip((events, counts), truths, strict=True):
        found = cbq.LatentBQ().fit(made.collect(16, 16, rng=0, design="sobol"))
        low, high = found.interval(THETA, 0.99)
        assert np.all((low <= truth) & (truth <= high))
        assert np.all(low >= 0)


def test_an_event_that_no_run_has_met_may_happen():
    rare = problem(lambda x, theta: np.where(x[:, 0] > 6.0, 1.0, 0.0), bounds=(0.0, 1.0))
    with pytest.warns(cbq.FitWarning, match="equal values"):
        found = cbq.LatentBQ().fit(rare.collect(8, 8, rng=0, design="sobol"))
    low, high = found.interval(THETA)
    truth = norm.sf(6.0 - THETA)
    assert np.all((low <= truth) & (truth <= high))
    assert np.all(high < 0.2)


def test_the_outcome_of_an_event_is_its_probability(fit):
    outcome = fit.outcome(THETA)
    p, low, high = outcome.sf(0.0, level=0.95)
    assert_allclose(p, fit.predict(THETA), atol=2e-3)
    assert_allclose((low, high), fit.interval(THETA), atol=0.01)
    assert_array_equal(outcome.cdf([-0.5, 1.0]), [[0.0, 1.0]] * len(THETA))
    assert_allclose(outcome.cdf([0.0, 0.9])[:, 1], 1 - p)
    assert_allclose(outcome.mean(), p)
    assert_allclose(outcome.var(), p * (1 - p))
    assert_array_equal(outcome.ppf([0.01, 0.999]), [[0.0, 1.0]] * len(THETA))
    assert_allclose(outcome.expected_shortfall(0.5), np.minimum(p / 0.5, 1.0))
    assert np.all(outcome.std(level=0.9)[1] <= outcome.std())


def test_the_outcome_of_a_count_has_the_distribution_of_its_draws():
    problem_ = problem(lambda x, theta, rng: 1.0 * rng.poisson(np.exp(0.5 * x[:, 0])), stochastic=True)
    outcome = cbq.LatentBQ().fit(problem_.collect(16, 16, rng=0, design="sobol")).outcome([0.0])
    rate, weights = np.exp(0.5 * np.polynomial.hermite_e.hermegauss(60)[0]), np.polynomial.hermite_e.hermegauss(60)[1]
    weights = weights / np.sum(weights)
    k = np.arange(60)
    F = poisson.cdf(k[:, None], rate) @ weights
    pmf = np.diff(F, prepend=0.0)
    ends = [
        (outcome.sf([0.0, 2.5, 4.0], level=0.99), 1 - F[[0, 2, 4]]),
        (outcome.std(level=0.99), np.sqrt(pmf @ k**2 - (pmf @ k) ** 2)),
        (outcome.expected_shortfall(0.9, level=0.99), _shortfall(k, pmf, 0.9)),
        (outcome.ppf([0.5, 0.95, 0.99], level=0.99), np.searchsorted(F, [0.5, 0.95, 0.99])),
    ]
    for (estimate, low, high), truth in ends:
        assert np.all((low <= truth) & (truth <= high))
        assert np.all((low <= estimate) & (estimate <= high))
    assert_array_equal(outcome.interval(0.9), ([0.0], [outcome.ppf(0.95)[0]]))
    assert list(outcome.to_columns([0.5])) == ["theta", "mean", "std", "q50"]


def _shortfall(k, pmf, q):
    v = np.searchsorted(np.cumsum(pmf), q)
    return v + pmf @ np.maximum(k - v, 0) / (1 - q)


def test_functionals_of_one_poisson_distribution_are_exact():
    rate, q = 3.7, np.array([0.2, 0.5, 0.9, 0.999])
    one = DrawnMeans(np.ones(1), np.array([[rate]]), are_events=False)
    assert_allclose(one.cdf(np.array([-1.0, 0.0, 2.9, 8.0]))[0], poisson.cdf([-1, 0, 2, 8], rate))
    assert_array_equal(one.ppf(q)[0], poisson.ppf(q, rate))
    assert_allclose(one.variance(q)[0], rate)
    k = np.arange(80)
    assert_allclose(one.shortfall(q)[0], [_shortfall(k, poisson.pmf(k, rate), each) for each in q])


def test_what_an_outcome_of_events_cannot_answer_is_refused(fit):
    outcome = fit.outcome([0.0])
    for call, words in (
        (lambda: outcome.ppf(1.0), "q must be between 0 and 1"),
        (lambda: outcome.cdf(np.nan), "c must be finite"),
        (lambda: outcome.cdf(np.zeros((2, 2))), "c must be a number or"),
        (lambda: outcome.sf(0.0, level=2.0), "level"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_discrete_measures_outputs_and_dependence_on_theta():
    made = cbq.Problem(
        lambda x, theta: np.column_stack([1.0 * (x[:, 0] > 3 + theta[0]), x[:, 0]]),
        lambda theta: Poisson(3.0),
        Uniform(-1.0, 1.0),
    )
    found = cbq.LatentBQ().fit(made.collect(8, 6, rng=0))
    mean, std = found.predict([0.1], return_std=True)
    assert mean.shape == (1, 2)
    assert found.outcome([0.1, 0.2]).sf([0.0, 1.0]).shape == (2, 2, 2)
    assert [each.link for each in found.priors[:: len(found.priors) // 2]] == ["probit", "log"]
    assert abs(mean[0, 1] - 3.0) < 4 * std[0, 1]


def test_saved_fits_give_the_same_answers(fit, tmp_path):
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq", family=family)
    assert_array_equal(again.predict(THETA), fit.predict(THETA))
    assert_array_equal(again.interval(THETA), fit.interval(THETA))


@pytest.mark.parametrize(
    ("options", "f", "words"),
    [
        ({}, lambda x, theta: x[:, 0], "whole numbers, zero or more, but one is"),
        ({"most": 20}, event, "64 runs, but LatentBQ takes most = 20"),
        ({"link": "probit"}, lambda x, theta: np.round(np.abs(x[:, 0])) + 1.0, "0 or 1, but one is"),
    ],
)
def test_values_that_are_no_events_or_counts_are_refused(options, f, words):
    with pytest.raises(ValueError, match=words):
        cbq.LatentBQ(**options).fit(problem(f).collect(8, 8, rng=0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"link": "logit"}, "link"),
        ({"draws": 3}, "draws"),
        ({"kernel": 3}, "kernel"),
        ({"seed": -1}, "seed"),
        ({"ard": 2}, "ard"),
    ],
)
def test_options_are_checked(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        cbq.LatentBQ(**options)


def test_an_event_has_no_emulator(fit):
    with pytest.raises(ValueError, match=r"no emulator: fit.predict\(theta\) is the probability of the event"):
        _ = fit.emulator
