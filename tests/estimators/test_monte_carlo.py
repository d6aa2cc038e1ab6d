"""Plain averages: their measure at the observed thetas, and nothing anywhere else."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import cbq
from cbq.fit import predictive
from cbq.fit.predictive import PredictiveDistribution
from cbq.measures import Gaussian
from refusals import refusals

RNG = np.random.default_rng(3)
THETA = np.array([[1.0, 2.0], [0.5, 1.0], [3.0, 1.0], [0.0, 0.0]])
COUNTS = (5, 2, 9, 3)
MEASURE = Gaussian(0.0, 1.0)
X = [RNG.normal(size=n) for n in COUNTS]
F = [10 * t + np.sin(3 * x) for t, x in enumerate(X)]


def ragged(outputs=False, **options):
    f = [np.stack([values, values**2], axis=1) for values in F] if outputs else F
    return cbq.Samples(THETA, X, f, MEASURE, **options)


def samples(f, theta=None):
    f = np.atleast_2d(f)
    x = np.random.default_rng(0).normal(size=f.shape)
    return cbq.Samples(np.arange(len(f)) if theta is None else theta, x, f, MEASURE)


def test_the_measure_at_each_theta_is_that_of_the_textbook():
    fit = cbq.MonteCarlo().fit(ragged())
    low, high = fit.interval(THETA, 0.9)
    for t, f in enumerate(F):
        measure = stats.t(len(f) - 1, np.mean(f), stats.sem(f))
        assert_allclose(fit.predict(THETA)[t], np.mean(f), rtol=1e-12)
        assert_allclose([low[t], high[t]], measure.interval(0.9), rtol=1e-10)
    _, std = fit.predict(THETA[[0, 2]], return_std=True)
    assert_allclose(std, [stats.t(len(F[t]) - 1, 0, stats.sem(F[t])).std() for t in (0, 2)], rtol=1e-12)


def test_the_answer_follows_the_order_of_the_question_and_the_outputs():
    one, two = cbq.MonteCarlo().fit(ragged()), cbq.MonteCarlo().fit(ragged(outputs=True))
    order = [2, 0, 2]
    assert_array_equal(two.predict(THETA[order])[:, 0], one.predict(THETA)[order])
    assert_allclose(two.predict(THETA)[:, 1], [np.mean(f**2) for f in F], rtol=1e-12)
    assert two.interval(THETA[order])[0].shape == (3, 2)
    assert_array_equal(fit_low(one)[order], one.interval(THETA[order])[0])
    assert list(one.to_frame().columns) == ["theta_0", "theta_1", "mean", "std", "lower", "upper"]


def fit_low(fit):
    return fit.interval(THETA)[0]


def test_two_or_three_points_have_intervals_but_no_finite_standard_deviation():
    fit = cbq.MonteCarlo().fit(ragged())
    mean, std = fit.predict(THETA, return_std=True)
    assert_array_equal(np.isinf(std), [False, True, False, True])
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(fit.interval(THETA)))
    _, cov = fit.predict(THETA, return_cov=True)
    assert_allclose(np.diag(cov), std**2, rtol=1e-14)
    assert np.all(cov[~np.eye(4, dtype=bool)] == 0)


def test_equal_thetas_pool_their_points():
    f = RNG.normal(size=(4, 3))
    fit = cbq.MonteCarlo().fit(samples(f, theta=[2.0, 0.0, 2.0, -0.0]))
    assert fit.theta.tolist() == [[2.0], [0.0]]
    assert fit.counts.tolist() == [6, 6]
    together = [np.concatenate([f[0], f[2]]), np.concatenate([f[1], f[3]])]
    assert_allclose(fit.predict([2.0, 0.0]), np.mean(together, axis=1), rtol=1e-12)
    assert_allclose(fit.interval([2.0])[1], stats.t(5, np.mean(together[0]), stats.sem(together[0])).ppf(0.975))


def test_draws_are_independent_but_for_equal_thetas_which_are_the_same_number():
    fit = cbq.MonteCarlo().fit(samples(RNG.normal(size=(3, 8))))
    theta = [0.0, 1.0, 0.0, 2.0]
    draws = fit.sample(theta, 40_000, 0)
    assert_array_equal(draws[:, 0], draws[:, 2])
    mean, cov = fit.predict(theta, return_cov=True)
    assert_allclose(draws.mean(axis=0), mean, atol=0.02)
    assert_allclose(np.cov(draws.T), cov, atol=0.05 * np.max(cov))
    assert np.linalg.matrix_rank(cov) == 3
    size = np.abs(draws - mean)  # a shared chi-square would make their sizes correlated
    assert abs(np.corrcoef(size[:, 0], size[:, 1])[0, 1]) < 0.02
    low, high = fit.interval(theta, 0.8)
    assert_allclose(np.mean((low < draws) & (draws < high), axis=0), 0.8, atol=0.01)


def test_draws_of_values_that_differ_in_their_degrees_of_freedom():
    df = np.array([1.0, 3.0, 50.0])
    measure = PredictiveDistribution(np.array([[0.0, 1.0, 2.0]]), np.diag([1.0, 4.0, 9.0])[None], df)
    draws = predictive.sample_jointly([measure], np.eye(1), 50_000, np.random.default_rng(1))[..., 0]
    for m, (loc, scale) in enumerate([(0, 1), (1, 2), (2, 3)]):
        assert stats.kstest(draws[:, m], stats.t(df[m], loc, scale).cdf).pvalue > 1e-3
        assert_allclose(measure.quantile(0.1)[m], stats.t(df[m], loc, scale).ppf(0.1), rtol=1e-10)
        assert_allclose(measure.cdf(np.array([0.5, 0.5, 0.5]))[m], stats.t(df[m], loc, scale).cdf(0.5), rtol=1e-12)


def test_intervals_hold_what_they_promise_on_normal_values():
    f = np.random.default_rng(0).normal(1.0, 2.0, size=(4000, 4))
    fit = cbq.MonteCarlo().fit(samples(f))
    low, high = fit.interval(fit.theta, 0.9)
    assert_allclose(np.mean((low < 1.0) & (high > 1.0)), 0.9, atol=0.015)


@pytest.mark.filterwarnings("ignore:few points:cbq.FitWarning")
def test_one_point_has_a_mean_and_nothing_else():
    x = [np.zeros(3), np.zeros(1)]
    fit = cbq.MonteCarlo().fit(cbq.Samples([1.0, 7.5], x, [np.arange(3.0), np.array([4.0])], MEASURE))
    assert_array_equal(fit.predict([7.5, 1.0]), [4.0, 1.0])
    assert np.all(np.isfinite(fit.interval([1.0])))
    asked = ([1.0, 7.5],)
    for ask in (
        lambda: fit.predict(*asked, return_std=True),
        lambda: fit.predict(*asked, return_cov=True),
        lambda: fit.interval(*asked),
        lambda: fit.sample(*asked, 3, 0),
        fit.to_frame,
    ):
        with pytest.raises(ValueError, match=r"no standard error at theta = \[7.5\], which has one point: evaluate f"):
            ask()
    assert "1 of 2 thetas have one point" in fit.summary()
    alone = cbq.MonteCarlo().fit(samples([[2.0]]))
    assert alone.predict([0.0]) == 2.0
    assert "There are no standard errors" in alone.summary()


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e8, 1e150])
def test_values_of_any_size(scale):
    plain, scaled = (cbq.MonteCarlo().fit(samples(k * np.array([[1.0, 2.0, 4.0, 5.0, 9.0]]))) for k in (1.0, scale))
    for one, other in zip(plain.predict([0.0], return_std=True), scaled.predict([0.0], return_std=True), strict=True):
        assert_allclose(other, scale * one, rtol=1e-12)
    assert_allclose(scaled.interval([0.0]), scale * np.array(plain.interval([0.0])), rtol=1e-12)
    assert np.all(np.isfinite(scaled.sample([0.0], 5, 0)))


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
@pytest.mark.parametrize("value", [0.0, 0.1, -1e150, 1e-150])
def test_a_value_that_all_points_have_does_not_exclude_others(value):
    fit = cbq.MonteCarlo().fit(samples(np.full((2, 7), value)))
    mean, std = fit.predict([0.0, 1.0], return_std=True)
    assert_array_equal(mean, value)
    assert_array_equal(std, np.inf)
    assert_array_equal(fit.interval([1.0]), [[-np.inf], [np.inf]])
    with pytest.raises(ValueError, match="I cannot be drawn: all values of f are equal"):
        fit.sample([1.0, 1.0], 2, 0)


def test_a_large_offset_does_not_hide_the_spread():
    noise = np.array([[0.1, -0.2, 0.3, 0.05]])
    _, std = cbq.MonteCarlo().fit(samples(1e9 + noise)).predict([0.0], return_std=True)
    assert_allclose(std, stats.sem(noise[0]) * np.sqrt(3), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:chains:cbq.FitWarning")
@pytest.mark.parametrize(("design", "says"), [("iid", None), ("sobol", "are too large"), ("mcmc", "are too small")])
def test_the_summary_warns_where_points_are_not_independent(design, says):
    fit = cbq.MonteCarlo().fit(ragged(outputs=True, design=design))
    text, named = fit.summary(), {"iid": "iid", "sobol": "Sobol", "mcmc": "MCMC"}[design]
    assert "Monte Carlo: 4 thetas (p = 2), 2 to 9 " + named in text
    assert "Output 1:" in text
    assert ("No warnings." in text) == (says is None)
    assert says is None or (says in text and says in fit.warnings[0])


def test_the_fit_is_frozen_and_its_picture_is_drawn_at_observed_thetas():
    fit = cbq.MonteCarlo().fit(samples(RNG.normal(size=(5, 6))))
    with pytest.raises(AttributeError, match="cannot be changed"):
        fit.theta = THETA
    assert not any(a.flags.writeable for a in (fit.theta, fit.averages.mean, fit.averages.variance, fit.counts))
    assert fit.plot(fit.theta) is not None
    with pytest.raises(ValueError, match=r"or use cbq\.CBQ"):
        fit.plot()
    assert repr(fit) == f"MonteCarloFit(T=5, p=1, C=None, {fit.names.ranges('theta', fit.theta)})"


FIT = cbq.MonteCarlo().fit(ragged())

test_refusals = refusals(
    {
        "another theta": (
            lambda: FIT.predict([[1.0, 2.0], [1.0, 2.5]]),
            r"at the 4 observed thetas only, and theta = \[1.  2.5\] is not one of them: .* or use cbq.CBQ",
        ),
        "shape": (lambda: FIT.predict([1.0]), "has p = 2"),
        "level": (lambda: FIT.interval(THETA, 1.0), "level must lie between 0 and 1"),
    },
    ValueError,
)


def test_what_are_no_samples_is_refused():
    with pytest.raises(TypeError, match=r"fit takes cbq.Samples, but a ndarray arrived"):
        cbq.MonteCarlo().fit(THETA)
