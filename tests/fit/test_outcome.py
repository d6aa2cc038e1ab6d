"""The distribution of f(X, theta): against formulas, brute force on f itself, and between its own answers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, norm

import cbq
from cbq.measures import Binomial, Gaussian, Uniform

THETA = np.array([[-0.5], [0.4]])
Q = [0.05, 0.5, 0.9]


def shifted(f=lambda x: 2.0 * x[:, 0] + 1.0, **options):
    """f of x ~ N(theta, 0.7^2)."""
    return cbq.Problem(
        lambda x, theta: f(x),
        lambda theta: Gaussian(theta, cov=0.49),
        Uniform(-1.0, 1.0),
        depends_on_theta=False,
        **options,
    )


@pytest.fixture(scope="module")
def fit():
    """A fit of f = 2 x + 1, which is N(2 theta + 1, 1.4^2)."""
    return cbq.MOBQ().fit(shifted().collect(8, 8, rng=0, design="sobol"))


@pytest.fixture(scope="module")
def outcome(fit):
    return fit.outcome(THETA)


def exact():
    return norm(2 * THETA + 1, 1.4)  # (2, 1), which broadcasts against K values


def test_probabilities_quantiles_and_moments_are_those_of_a_gaussian(outcome):
    c = np.array([-1.0, 0.5, 3.0])
    assert_allclose(outcome.cdf(c), exact().cdf(c), atol=2e-4)
    assert_allclose(outcome.sf(c), exact().sf(c), atol=2e-4)
    assert_allclose(outcome.ppf(Q), exact().ppf(Q), atol=2e-3)
    assert_allclose(outcome.std(), 1.4, rtol=2e-3)
    assert_allclose(outcome.var(), 1.96, rtol=4e-3)
    z = norm.ppf(0.9)
    shortfall = (2 * THETA[:, 0] + 1) + 1.4 * norm.pdf(z) / 0.1
    assert_allclose(outcome.expected_shortfall(0.9), shortfall, rtol=5e-3)
    assert_allclose(np.transpose(outcome.interval(0.8)), exact().ppf([0.1, 0.9]), atol=3e-3)


def test_the_mean_is_the_integral(fit, outcome):
    assert_array_equal(outcome.mean(), fit.predict(THETA))
    assert_array_equal(outcome.mean(level=0.9)[1:], fit.interval(THETA, 0.9))


def test_quantiles_invert_probabilities(outcome):
    assert_allclose(outcome.cdf(outcome.ppf(0.3)[0])[0], 0.3, atol=1e-9)
    assert_allclose(outcome.sf(1.0) + outcome.cdf(1.0), 1.0, atol=1e-15)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_hold_their_estimates_and_grow_with_the_level(outcome, level):
    for triple in (outcome.cdf([0.0, 2.0], level), outcome.ppf(Q, level), outcome.std(level), outcome.sf(1.0, level)):
        estimate, low, high = triple
        assert np.all((low <= estimate) & (estimate <= high))
    _, low, high = outcome.expected_shortfall(0.8, level)
    _, lower, higher = outcome.expected_shortfall(0.8, 0.99)
    assert np.all(higher - lower > high - low)


def test_few_runs_have_wide_intervals_that_hold_the_truth():
    f = lambda x: np.exp(x[:, 0]) + np.sin(5 * x[:, 0])  # noqa: E731
    x = THETA[:, :1] + 0.7 * norm.ppf((np.arange(10**6) + 0.5) / 10**6)
    truth = np.array([np.mean(f(row[:, None]) > 2.0) for row in x])
    few, many = (cbq.MOBQ().fit(shifted(f).collect(T, 4, rng=1, design="sobol")) for T in (4, 20))
    (_, low, high), (_, lower, higher) = (each.outcome(THETA).sf(2.0, level=0.95) for each in (few, many))
    assert np.all((low <= truth) & (truth <= high))
    assert np.all(higher - lower < high - low)


def test_discrete_measures_are_summed_over_their_atoms():
    problem = cbq.Problem(
        lambda x, theta: x[:, 0] ** 2, lambda theta: Binomial(6, theta[0]), Uniform(0.2, 0.8), depends_on_theta=False
    )
    outcome = cbq.MOBQ().fit(problem.collect(6, 6, rng=0)).outcome([0.3, 0.6])
    c = np.array([2.5, 12.5])  # between the values 0, 1, 4, 9, 16, ...
    expected = binom(6, np.array([[0.3], [0.6]])).cdf([1, 3])
    assert_allclose(outcome.cdf(c), expected, atol=1e-6)


def test_outputs_have_distributions_of_their_own_and_events_concern_them_jointly():
    problem = cbq.Problem(
        lambda x, theta: np.column_stack([x[:, 0], -2.0 * x[:, 0]]),
        lambda theta: Gaussian(theta, 1.0),
        Uniform(-1.0, 1.0),
        depends_on_theta=False,
        names={"f": ["up", "down"]},
    )
    outcome = cbq.MOBQ().fit(problem.collect(8, 8, rng=0, design="sobol")).outcome([0.0, 0.5])
    assert outcome.cdf(0.0).shape == (2, 2)
    assert outcome.ppf(Q).shape == (2, 3, 2)
    assert outcome.ppf(Q, level=0.9)[2].shape == (2, 3, 2)
    both = outcome.probability(lambda f: (f[:, 0] > 0) & (f[:, 1] < -1.0))  # x > 0.5
    assert_allclose(both, norm.sf(0.5 - np.array([0.0, 0.5])), atol=5e-3)
    estimate, low, high = outcome.probability(lambda f: (f[:, 0] > 0) & (f[:, 1] > 0), level=0.9)
    assert_allclose(estimate, 0.0, atol=2e-3)
    assert np.all((low >= 0) & (high <= 1))
    assert any("up" in column for column in outcome.to_frame([0.5]).columns)


def test_a_random_f_has_outcomes_of_runs_and_of_means():
    problem = cbq.Problem(
        lambda x, theta, rng: x[:, 0] + 0.5 * rng.standard_normal(len(x)),
        lambda theta: Gaussian(theta, cov=0.25),
        Uniform(-1.0, 1.0),
        depends_on_theta=False,
        stochastic=True,
    )
    fit = cbq.MOBQ().fit(problem.collect(12, 25, rng=0))
    run, mean = (fit.outcome([0.0], of=of).std() for of in ("run", "mean"))
    assert_allclose(run, np.sqrt(0.5), rtol=0.1)
    assert_allclose(mean, 0.5, rtol=0.15)
    assert "of single runs" in repr(fit.outcome([0.0]))


def test_bounds_of_f_bound_its_outcomes():
    problem = shifted(lambda x: np.clip(x[:, 0], 0.0, 1.0), bounds=(0.0, 1.0))
    outcome = cbq.MOBQ().fit(problem.collect(8, 10, rng=0, design="sobol")).outcome(THETA)
    assert_array_equal(outcome.cdf([-0.1, 1.0]), [[0.0, 1.0]] * 2)
    assert np.all(outcome.ppf([0.001, 0.999], level=0.95)[0] <= 1.0)
    assert np.all(outcome.ppf([0.001, 0.999]) >= 0.0)
    clipped = np.clip(THETA + 0.7 * norm.ppf((np.arange(10_000) + 0.5) / 10_000), 0.0, 1.0)
    assert_allclose(outcome.std(), np.std(clipped, axis=1), atol=5e-3)


def test_results_do_not_depend_on_what_was_asked_before(fit):
    one, other = fit.outcome(THETA), fit.outcome(THETA)
    one.ppf(0.5, level=0.9)
    assert_array_equal(one.sf(1.0, level=0.9), other.sf(1.0, level=0.9))
    other._kept.clear()
    assert_array_equal(one.sf(1.0, level=0.9), other.sf(1.0, level=0.9))


def test_saved_fits_have_the_same_outcomes(fit, outcome, tmp_path):
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq", family=lambda theta: Gaussian(theta, cov=0.49))
    assert_array_equal(again.outcome(THETA).cdf(0.5), outcome.cdf(0.5))


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda o: o.ppf(1.0), "q must be between 0 and 1"),
        (lambda o: o.ppf([[0.5]]), r"shape \(1, 1\)"),
        (lambda o: o.cdf(np.nan), "c"),
        (lambda o: o.cdf(0.0, level=1.5), "level"),
        (lambda o: o.probability(lambda f: f), "event must return a boolean"),
        (lambda o: o.probability(3), "event must be a function"),
        (lambda o: o.fit.outcome(THETA, size=10), "size"),
        (lambda o: o.fit.outcome(THETA, of="both"), "of"),
    ],
)
def test_what_cannot_be_answered_is_refused(outcome, ask, words):
    with pytest.raises((ValueError, TypeError), match=words):
        ask(outcome)


@pytest.mark.parametrize("estimator", [cbq.LSMC(), cbq.CBQ()])
def test_fits_without_a_model_of_f_say_so(estimator, fit):
    other = estimator.fit(fit.samples)
    with pytest.raises(ValueError, match=r"no model of f itself.*fit cbq.MOBQ\(\)"):
        other.outcome(THETA)
    with pytest.raises(ValueError, match="no emulator"):
        _ = other.emulator
