"""What points have not seen: tails, rare events, noise that nobody declared; and curves that do not share a bias."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import cbq
from cbq.estimators.conditional.stage_two import UnbiasedCurve
from cbq.fit.heavy_tails import linear_shares, outermost
from cbq.measures import Gaussian, LogNormal, StudentT, Uniform
from quiet import silent

QUIET = pytest.mark.filterwarnings("ignore::cbq.FitWarning")


def of_x(f, family=lambda t: Gaussian(t[0], 1.0), prior=None, **options):
    prior = Uniform(0.0, 3.0) if prior is None else prior
    return cbq.Problem(lambda x, theta: f(x[:, 0]), family, prior, depends_on_theta=False, **options)


def kinds(fit):
    return {each.kind for each in fit.findings}


# Tails -------------------------------------------------------------------------------------------------------------


HEAVY = {
    "squares of Student-t inputs": of_x(np.square, lambda t: StudentT(2.5, t[0], 1.0)),
    "a wide lognormal measure": of_x(lambda x: x, lambda t: LogNormal(t[0], cov=4.0), Uniform(0.0, 1.0)),
    "a steep exponential": of_x(lambda x: np.exp(2 * x)),
}
LIGHT = {
    "a sine": of_x(np.sin),
    "a small square": of_x(lambda x: x + 0.1 * x**2),
    "a sine of Student-t inputs": of_x(np.sin, lambda t: StudentT(5.0, t[0], 1.0)),
    "a kink": of_x(lambda x: np.abs(x - 1.5)),
    "a bounded range": of_x(np.exp, lambda t: Uniform(0.0, 1.0 + t[0])),
}


@QUIET
@pytest.mark.parametrize("name", HEAVY)
def test_an_answer_that_the_tails_carry_says_so(name):
    fits = [cbq.CBQ().fit(HEAVY[name].collect(15, 30, rng=seed)) for seed in range(100, 106)]
    assert all("tails" in kinds(fit) for fit in fits)
    assert all(fit.stage1.stretch[0] > 1.5 for fit in fits)


@QUIET
@pytest.mark.parametrize("name", LIGHT)
def test_an_answer_that_the_bulk_carries_hardly_ever_does(name):
    fits = [cbq.CBQ().fit(LIGHT[name].collect(15, 30, rng=seed)) for seed in range(100, 112)]
    assert sum("tails" in kinds(fit) for fit in fits) <= 1
    assert np.median([fit.stage1.stretch[0] for fit in fits]) == 1.0


@QUIET
def test_intervals_hold_what_lies_in_the_tails():
    problem, theta = HEAVY["a wide lognormal measure"], np.linspace(0.1, 0.9, 20)
    inside = []
    for seed in range(200, 208):
        low, high = cbq.CBQ().fit(problem.collect(20, 30, rng=seed)).interval(theta)
        truth = np.exp(theta + 2.0)
        inside.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(inside) > 0.85  # 0.4 without the stretch


@pytest.mark.parametrize("name", HEAVY)
def test_one_process_for_all_points_warns_of_tails_too(name):
    with pytest.warns(cbq.FitWarning, match="^tails: .*f varies most at the outermost points"):
        cbq.MOBQ().fit(HEAVY[name].collect(15, 30, rng=0))


@QUIET
def test_the_intervals_of_auto_hold_what_lies_in_the_tails():
    problem, theta = HEAVY["a wide lognormal measure"], np.linspace(0.1, 0.9, 20)
    low, high = cbq.Auto().fit(problem.collect(20, 30, rng=200)).interval(theta)
    truth = np.exp(theta + 2.0)
    assert np.mean((low <= truth) & (truth <= high)) > 0.85


def test_tails_warn():
    with pytest.warns(cbq.FitWarning, match=r"^tails: the outermost points decide the answer.*proposal="):
        cbq.CBQ().fit(HEAVY["a steep exponential"].collect(15, 30, rng=0))


def test_points_of_a_wide_proposal_have_seen_the_tails():
    problem = HEAVY["a steep exponential"]
    samples = problem.collect(15, 30, rng=0, proposal=lambda t: Gaussian(t[0] + 1.0, cov=4.0))
    assert "tails" not in kinds(cbq.CBQ().fit(samples))


def test_outermost_points_are_the_extremes_of_every_coordinate():
    x = np.array([[[0, 5], [1, -7], [3, 0], [2, 1]], [[9, 0], [8, 1], [7, 2], [6, 3]]], dtype=float)
    samples = cbq.Samples([0.0, 1.0], x, np.zeros((2, 4)), Gaussian(np.zeros(2), cov=100 * np.ones(2)))
    assert outermost(samples).tolist() == [True, True, True, False, True, False, False, True]


def test_the_share_of_the_outermost_points_of_a_linear_function_is_that_of_draws():
    x = np.random.default_rng(0).standard_normal((4000, 30))
    apart2 = (x - x.mean(axis=1, keepdims=True)) ** 2
    at_ends = apart2[np.arange(4000), np.argmax(x, axis=1)] + apart2[np.arange(4000), np.argmin(x, axis=1)]
    found = linear_shares(np.array([30]), np.array([2 / 30]))[0]
    assert_allclose(found, np.mean(at_ends / apart2.sum(axis=1)), rtol=0.05)


# Rare events -------------------------------------------------------------------------------------------------------


@QUIET
def test_a_rare_event_is_not_excluded_where_no_point_met_it():
    fit = cbq.CBQ().fit(of_x(lambda x: 1.0 * (x > 3.5)).collect(12, 20, rng=0))
    assert "equal values" in kinds(fit)
    low, high = fit.interval(np.array([0.1, 2.9]))
    assert np.all((low >= 0) & (high <= 1))
    assert high[0] > 0.01


@pytest.mark.parametrize("method", [cbq.CBQ, cbq.MOBQ, cbq.LSMC, cbq.MonteCarlo])
def test_all_equal_values_warn(method):
    samples = of_x(lambda x: np.zeros(len(x))).collect(8, 10, rng=0)
    with silent():
        fit = method().fit(samples)
    assert "equal values" in kinds(fit)
    assert "a probability of up to 0.3" in " ".join(fit.warnings)


@QUIET
@pytest.mark.parametrize("method", [cbq.Auto, cbq.CBQ, cbq.MOBQ, cbq.LSMC])
def test_one_value_at_each_theta_does_not_exclude_an_event(method):
    free, bounded = (
        method().fit(of_x(lambda x: (x > 4.0) * 1.0, bounds=bounds).collect(7, 1, rng=0))
        for bounds in (None, (0.0, 1.0))
    )
    assert kinds(free) >= {"equal values"}
    assert_array_equal(free.interval([1.0]), [[-np.inf], [np.inf]])
    assert bounded.interval([1.0])[1] > 0.5  # one point misses an event of this probability half of the time


@QUIET
@pytest.mark.parametrize("method", [cbq.Auto, cbq.CBQ, cbq.MOBQ, cbq.LSMC, cbq.MonteCarlo])
def test_an_event_that_no_point_met_is_within_the_intervals(method):
    """P(x > 4) is up to 2%, and none of 20 points at each of 10 thetas has been there."""
    theta, truth = np.linspace(0.1, 1.9, 10), norm.sf(4.0 - np.linspace(0.1, 1.9, 10))
    x = theta[:, None] + norm.ppf((np.arange(20) + 0.5) / 20)
    for bounds, limits in {None: (-np.inf, np.inf), (0.0, np.inf): (0.0, np.inf), (0.0, 1.0): (0.0, 0.3)}.items():
        samples = cbq.Samples(
            theta, x, np.zeros(x.shape), lambda t: Gaussian(t, 1.0), depends_on_theta=False, bounds=bounds
        )
        low, high = method().fit(samples).interval(theta)
        assert np.all((low <= truth) & (truth <= high))
        if np.isinf(limits[1]):
            assert_array_equal(low, limits[0])
            assert_array_equal(high, limits[1])
        else:
            assert np.all((low >= limits[0]) & (high <= limits[1]))


def test_values_at_all_atoms_are_all_of_f():
    """Nothing can have been missed, whatever the values are."""
    coin = cbq.measures.Categorical(np.full((4, 2), 0.5))
    x, equal = np.tile([0.0, 1.0, 0.0, 1.0], (4, 1)), np.full((4, 4), 3.0)
    with silent():
        fit = cbq.CBQ().fit(cbq.Samples(np.arange(4.0), x, equal, coin))
    assert fit.unseen is None
    assert np.all(np.isfinite(fit.interval(np.arange(4.0))))


@QUIET
def test_a_saved_fit_remembers_that_all_values_were_equal(tmp_path):
    fit = cbq.LSMC().fit(of_x(lambda x: np.zeros(len(x))).collect(8, 10, rng=0))
    fit.save(tmp_path / "fit.cbq")
    assert np.all(np.isinf(cbq.load(tmp_path / "fit.cbq").interval([1.0])))


def test_bounds_are_found_in_values_of_two_kinds():
    x = np.linspace(-1, 1, 12)[None]
    f = np.stack([x > 0.3, x, 3 - 4 * (x > 0)], axis=-1)
    samples = cbq.Samples([0.0], x, f, Gaussian(0.0, 1.0))
    assert samples.known_bounds.tolist() == [[0.0, -np.inf, -1.0], [1.0, np.inf, 3.0]]
    assert samples.output(1).known_bounds is None
    once = cbq.Samples([0.0], x, np.maximum(x - 0.9, 0.0), Gaussian(0.0, 1.0))
    assert np.count_nonzero(once.f) == 1
    assert once.known_bounds is None  # a second point above would have another value
    few = cbq.Samples([0.0], x[:, :9], f[:, :9], Gaussian(0.0, 1.0))
    assert few.known_bounds is None
    given = cbq.Samples([0.0], x, f, Gaussian(0.0, 1.0), bounds=(-5.0, 5.0))
    assert given.known_bounds.tolist() == [[0.0, -5.0, -1.0], [1.0, 5.0, 3.0]]


# Noise -------------------------------------------------------------------------------------------------------------


def noisy(samples, sd, seed=1):
    noise = np.random.default_rng(seed).standard_normal(np.shape(samples.f))
    return samples.with_values(np.asarray(samples.f) + sd * noise)


@pytest.mark.parametrize("sd", [0.1, 1.0])
def test_noise_that_was_not_declared_is_found_and_names_the_argument(sd):
    samples = noisy(of_x(np.sin).collect(10, 30, rng=0), sd)
    with pytest.warns(cbq.FitWarning, match=r"^noise: values of f scatter.*stochastic=True"):
        cbq.CBQ().fit(samples)


@QUIET
@pytest.mark.parametrize("name", [*LIGHT, *HEAVY])
def test_rough_and_steep_functions_are_not_taken_for_noise(name):
    problem = (LIGHT | HEAVY)[name]
    assert not any("noise" in kinds(cbq.CBQ().fit(problem.collect(10, 20, rng=seed))) for seed in range(4))


def as_draws(samples):
    return cbq.Samples(samples.theta, samples.x, samples.f, samples.family, depends_on_theta=False, stochastic=True)


def test_declared_noise_is_no_finding_and_equal_points_are_replicates():
    samples = of_x(np.sin).collect(10, 15, rng=0)
    twice = [np.concatenate([samples.points(t)] * 2) for t in range(10)]
    values = [np.concatenate([samples.values(t)] * 2) for t in range(10)]
    both = cbq.Samples(samples.theta, twice, values, samples.family, stochastic=True)
    assert "noise" not in kinds(cbq.CBQ().fit(noisy(both, 0.3)))


def test_with_much_noise_stage_one_is_the_average_and_its_standard_error():
    samples = as_draws(noisy(of_x(lambda x: 0.001 * np.sin(x)).collect(12, 60, rng=3), 1.0))
    stage1 = cbq.CBQ().fit(samples).stage1
    f = np.asarray(samples.f)
    error = np.std(f, axis=1, ddof=1) / np.sqrt(60)
    assert np.all(np.abs(stage1.mean - np.mean(f, axis=1)) < 0.7 * error)
    assert_allclose(np.median(stage1.std / error), 1.0, atol=0.15)


@pytest.mark.slow
def test_errors_fall_with_the_root_of_the_number_of_draws():
    problem, theta = of_x(np.sin), np.linspace(0.2, 2.8, 20)
    truth = np.exp(-0.5) * np.sin(theta)

    def error2(N):
        fits = [cbq.CBQ().fit(as_draws(noisy(problem.collect(12, N, rng=s), 0.5, s))) for s in range(8)]
        return np.mean([(fit.predict(theta) - truth) ** 2 for fit in fits])

    assert 0.03 < error2(240) / error2(15) < 0.2  # 1 / 16


def test_the_word_stochastic_makes_noisy_answers_more_accurate():
    problem, theta = of_x(np.sin), np.linspace(0.2, 2.8, 20)
    truth = np.exp(-0.5) * np.sin(theta)
    errors = {True: [], False: []}
    for seed in range(5):
        plain = noisy(problem.collect(12, 120, rng=seed), 1.0, seed)
        for word, samples in ((True, as_draws(plain)), (False, plain)):
            with silent():
                errors[word].append(np.mean((cbq.CBQ().fit(samples).predict(theta) - truth) ** 2))
    assert np.mean(errors[True]) < 0.7 * np.mean(errors[False])


@pytest.mark.parametrize("options", [{"kernel_x": cbq.kernels.Matern(1.5)}, {"lengthscales": "shared"}], ids=str)
def test_noise_goes_with_kernels_and_shared_lengthscales(options):
    samples = as_draws(noisy(of_x(np.sin).collect(10, 40, rng=0), 0.3))
    fit = cbq.CBQ(**options).fit(samples)
    truth = np.exp(-0.5) * np.sin(samples.theta[:, 0])
    assert np.sqrt(np.mean((fit.stage1.mean - truth) ** 2)) < 0.1
    assert 0.02 < np.median(fit.stage1.std) < 0.2


# Many thetas with few points each ----------------------------------------------------------------------------------


@QUIET
def test_many_thetas_with_few_points_do_not_share_a_bias():
    problem = cbq.problems.get("butterfly")
    theta = problem.prior.sample(200, 5)
    truth, inside, errors = problem.exact(theta), [], []
    for seed in range(300, 304):
        fit = cbq.CBQ().fit(problem.collect(200, 8, rng=seed))
        low, high = fit.interval(theta)
        inside.append(np.mean((low <= truth) & (truth <= high)))
        errors.append(np.sqrt(np.mean((fit.predict(theta) - truth) ** 2)))
    assert np.mean(inside) > 0.85  # 0.7 without the second curve
    assert np.mean(errors) < 0.65  # 0.75 without it


@QUIET
def test_the_second_curve_moves_means_and_covariances_consistently():
    fit = cbq.CBQ().fit(cbq.problems.get("butterfly").collect(100, 8, rng=1))
    posterior = fit.posteriors[0]
    assert isinstance(posterior.second, UnbiasedCurve)
    assert 0 < posterior.second.weight <= 1
    theta = np.array([[80.0], [100.0], [120.0]])
    mean, std = fit.predict(theta, return_std=True)
    again, cov = fit.predict(theta, return_cov=True)
    assert_allclose(again, mean, rtol=1e-10)
    assert_allclose(np.diagonal(cov), std**2, rtol=1e-8)
    draws = fit.sample(theta, 4000, 0)
    assert_allclose(np.mean(draws, axis=0), mean, atol=0.1 * np.max(std))


@QUIET
def test_designs_that_are_no_draws_have_no_second_curve():
    fit = cbq.CBQ().fit(cbq.problems.get("butterfly").collect(60, 8, rng=1, design="sobol"))
    assert fit.posteriors[0].second is None
