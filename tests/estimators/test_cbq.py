"""Conditional Bayesian quadrature as a user meets it: defaults, options, odd data, and what must not change."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import cbq
from cbq.estimators.conditional import StageOneSelection
from cbq.kernels import RBF, Additive, Matern, Stein, TensorProduct, Warped
from cbq.measures import Gamma, Gaussian, LogNormal, Mixture, Product, StudentT, Uniform
from quiet import silent
from refusals import refusals


def problem(f=lambda x, theta: np.sin(x[:, 0]) + theta[0], family=None, prior=None, **options):
    family = family or (lambda theta: Gaussian(theta[0], 1.0))
    return cbq.Problem(f, family, prior or Uniform(1.0, 3.0), **options)


def truth(theta):
    """E sin(X) + theta for X ~ N(theta, 1)."""
    return np.exp(-0.5) * np.sin(theta) + theta


def answers(fit, theta):
    mean, std = fit.predict(theta, return_std=True)
    return [mean, std, *fit.interval(theta, 0.9)]


NEW = np.linspace(1.1, 2.9, 7)


# What the default promises -----------------------------------------------------------------------------------------


def test_the_default_is_accurate_and_its_intervals_hold_the_truth():
    fit = cbq.CBQ().fit(problem().collect(15, 12, rng=0))
    mean, std = fit.predict(NEW, return_std=True)
    low, high = fit.interval(NEW, 0.99)
    assert np.max(np.abs(mean - truth(NEW))) < 0.01
    assert np.all((low < truth(NEW)) & (truth(NEW) < high))
    assert np.all(std < 0.05)


@pytest.mark.parametrize("name", ["butterfly", "health", "linear", "sir"])
def test_it_beats_plain_averages_on_every_problem_of_the_paper(name):
    target = cbq.problems.get(name)
    samples = target.collect(20, 25, rng=3)
    fit = cbq.CBQ().fit(samples)
    exact = target.exact(samples.theta)
    error = np.sqrt(np.mean((fit.predict(samples.theta) - exact) ** 2))
    plain = np.sqrt(np.mean((np.mean(samples.f, axis=1) - exact) ** 2))
    assert error < 0.2 * plain


def test_a_kink_that_few_points_see_does_not_fool_it():
    # f is analytic but for a kink in the tail: the likelihood prefers an RBF kernel, whose estimate is far off
    def f(x, theta):
        return np.exp(0.5 * x[:, 0]) + 3.0 * np.maximum(-1.2 - x[:, 0], 0.0)

    family = lambda theta: Gaussian(0.0, 1.0)  # noqa: E731
    samples = problem(f, family, Uniform(0.0, 1.0)).collect(20, 40, rng=1)
    exact = np.exp(0.125) + 3.0 * (np.exp(-0.72) / np.sqrt(2 * np.pi) - 1.2 * 0.11506967022170822)
    errors = {
        name: np.sqrt(np.mean((cbq.CBQ(kernel_x=k).fit(samples).stage1.mean - exact) ** 2))
        for name, k in {"auto": "auto", "rbf": RBF(), "matern": Matern(1.5)}.items()
    }
    assert errors["rbf"] > 3 * errors["matern"]
    assert errors["auto"] < 1.5 * errors["matern"]


def test_a_smooth_f_gets_the_accuracy_of_a_smooth_kernel():
    samples = problem().collect(10, 20, rng=1)
    exact = truth(samples.theta[:, 0])
    auto, rough = (
        np.sqrt(np.mean((cbq.CBQ(kernel_x=k).fit(samples).stage1.mean - exact) ** 2)) for k in ("auto", Matern(1.5))
    )
    assert auto < 0.05 * rough


def test_inputs_that_do_not_matter_do_little_harm():
    def f(x, theta):
        return np.stack([np.sin(x[:, 0]), np.cos(x[:, 1])], axis=1)

    family = lambda theta: Gaussian(np.full(6, theta[0]), np.ones(6))  # noqa: E731
    samples = problem(f, family).collect(12, 30, rng=2)
    t = samples.theta[:, 0]
    exact = np.exp(-0.5) * np.stack([np.sin(t), np.cos(t)], axis=1)
    error = {ard: np.sqrt(np.mean((cbq.CBQ(ard=ard).fit(samples).stage1.mean - exact) ** 2)) for ard in (True, False)}
    assert error[True] < 0.2 * error[False]


@pytest.mark.parametrize(
    "family",
    [
        lambda t: Uniform(0.0, t[0]),
        lambda t: Gamma(t[0], 2.0),
        lambda t: StudentT(5.0, t[0], 0.5),
        lambda t: LogNormal([0.0, 0.1 * t[0]], [[0.2, 0.1], [0.1, 0.2]]),
        lambda t: Product([Gamma(t[0], 2.0), Uniform(0.0, 1.0)]),
        lambda t: Mixture([0.5, 0.5], [Gaussian(0.0, cov=0.2), Gaussian(t[0], cov=0.1)]),
        lambda t: Gaussian(t[0], 1.0) if t[0] < 2 else StudentT(6.0, t[0], 1.0),
    ],
    ids=["uniform", "gamma", "student", "lognormal", "product", "mixture", "mixed"],
)
@pytest.mark.filterwarnings("ignore:tails:cbq.FitWarning")
def test_it_works_for_measures_of_all_kinds(family):
    def f(x, theta):
        return np.sin(x).sum(axis=1)

    samples = problem(f, family).collect(8, 25, rng=4)
    fit = cbq.CBQ().fit(samples)
    for t in range(3):  # against plain averages of many points
        measure = family(samples.theta[t])
        many = f(measure.sample(40_000, 9), None)
        assert abs(fit.stage1.mean[t] - many.mean()) < 5 * many.std() / 200 + 5 * fit.stage1.std[t]


# Shapes and options ------------------------------------------------------------------------------------------------


def test_shapes_with_and_without_an_axis_of_outputs():
    one = cbq.CBQ().fit(problem().collect(6, 8, rng=0))
    mean, cov = one.predict(NEW, return_cov=True)
    assert (mean.shape, cov.shape, one.sample(NEW, 3, 0).shape) == ((7,), (7, 7), (3, 7))
    assert one.weights(NEW).shape == (7, 6, 8)
    two = cbq.CBQ().fit(problem(lambda x, t: np.stack([x[:, 0], x[:, 0] ** 2], axis=1)).collect(6, 8, rng=0))
    mean, cov = two.predict(NEW, return_cov=True)
    assert (mean.shape, cov.shape, two.sample(NEW, 3, 0).shape) == ((7, 2), (7, 7, 2), (3, 7, 2))
    assert two.weights(NEW).shape == (7, 6, 8, 2)
    assert two.stage1.mean.shape == two.stage1.std.shape == (6, 2)
    assert two.interval(NEW)[0].shape == (7, 2)
    assert two.leave_one_out().standardised.shape == (6, 2)


def test_all_answers_speak_of_one_measure():
    fit = cbq.CBQ().fit(problem().collect(8, 6, rng=1))
    mean, std = fit.predict(NEW, return_std=True)
    _, cov = fit.predict(NEW, return_cov=True)
    draws = fit.sample(NEW, 100_000, 0)
    low, high = fit.interval(NEW, 0.8)
    assert_allclose(np.diag(cov), std**2, rtol=1e-6)
    assert_allclose(draws.mean(axis=0), mean, atol=4 * np.max(std) / 300)
    assert_allclose(np.cov(draws.T), cov, atol=0.05 * np.max(cov))
    assert_allclose(np.mean((low < draws) & (draws < high), axis=0), 0.8, atol=0.01)


@pytest.mark.parametrize("ragged", [False, True])
def test_the_weights_give_the_plain_posterior_mean(ragged):
    samples = problem().collect(6, [5, 6, 7, 8, 9, 10] if ragged else 8, rng=1)
    plain = cbq.CBQ(calibrate=False).fit(samples)
    weights = plain.weights(NEW)
    total = sum(w @ samples.values(t) for t, w in enumerate(weights if ragged else weights.swapaxes(0, 1)))
    assert_allclose(total, plain.predict(NEW), rtol=1e-9)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(),
        Matern(0.5),
        Matern(2.5, 0.8),
        TensorProduct(Matern(1.5)),
        Additive(RBF()),
        Warped(RBF(), "gaussianise"),
        Warped(Matern(1.5), "whiten"),
        Stein(Matern(2.5)),
        RBF() + 0.5 * Matern(1.5),
        RBF(3.0) * Matern(2.5),
    ],
    ids=repr,
)
def test_any_kernel_of_the_library_will_do_in_stage_one(kernel):
    samples = problem().collect(8, 25, rng=2)
    exact = truth(samples.theta[:, 0])
    estimates = cbq.CBQ(kernel_x=kernel).fit(samples).stage1.mean, np.mean(samples.f, axis=1)
    error, plain = (np.sqrt(np.mean((each - exact) ** 2)) for each in estimates)
    assert error < 0.5 * plain


@pytest.mark.parametrize(
    "kernel",
    [RBF(), Matern(0.5), Matern(1.5, 2.0), Warped(RBF(), "log"), RBF() + Matern(1.5), TensorProduct(RBF())],
    ids=repr,
)
def test_any_kernel_of_the_library_will_do_in_stage_two(kernel):
    fit = cbq.CBQ(kernel_theta=kernel).fit(problem().collect(16, 12, rng=2, design="sobol"))
    assert_allclose(fit.predict(NEW), truth(NEW), atol=0.06 if getattr(kernel, "nu", 1.5) == 0.5 else 0.01)


def test_outputs_apart_or_together():
    def f(x, theta):
        return np.stack([np.sin(x[:, 0]), x[:, 1] ** 2], axis=1)

    samples = problem(f, lambda t: Gaussian([t[0], t[0]], [1.0, 1.0])).collect(8, 15, rng=1)
    apart, together = (cbq.CBQ(outputs=o).fit(samples) for o in ("separate", "shared"))
    for c in range(2):
        alone = cbq.CBQ().fit(samples.output(c))
        assert_allclose(apart.predict(NEW)[:, c], alone.predict(NEW), rtol=1e-5)
    exact = np.stack([np.exp(-0.5) * np.sin(NEW), 1 + NEW**2], axis=1)
    inside = samples.theta.max() > NEW
    assert_allclose(together.predict(NEW)[inside], exact[inside], atol=0.05)


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
def test_a_polynomial_trend_helps_beyond_the_thetas():
    samples = problem(lambda x, t: x[:, 0], prior=Uniform(1.0, 2.0)).collect(8, 10, rng=0)  # I(theta) = theta
    plain = {"log_theta": False, "calibrate": False}
    error = {trend: abs(cbq.CBQ(trend=trend, **plain).fit(samples).predict([4.0])[0] - 4.0) for trend in (0, 1)}
    assert error[1] < 1e-3 < error[0]


def test_shared_lengthscales_are_the_same_at_every_theta():
    def f(x, theta):  # smooth at half of the thetas, wild at the others
        return np.sin((1.0 if theta[0] < 2 else 12.0) * x[:, 0])

    samples = problem(f).collect(12, 25, rng=0)
    calm = samples.theta[:, 0] < 2
    exact = np.exp(-0.5) * np.sin(samples.theta[calm, 0])
    error = {
        kind: np.max(np.abs(cbq.CBQ(kernel_x=RBF(), lengthscales=kind).fit(samples).stage1.mean[calm] - exact))
        for kind in ("shared", "per-theta")
    }
    assert error["per-theta"] < 0.1 * error["shared"]


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_ragged_samples_are_those_of_each_theta():
    counts = [5, 12, 5, 7, 12, 40]
    samples = problem().collect(6, counts, rng=3)
    whole = cbq.CBQ(kernel_x=Matern(1.5, 1.0)).fit(samples)
    for t in range(6):
        alone = cbq.CBQ(kernel_x=Matern(1.5, 1.0)).fit(samples.select(t))
        assert_allclose(whole.stage1.mean[t], alone.stage1.mean[0], rtol=1e-9)
        assert_allclose(whole.stage1.std[t], alone.stage1.std[0], rtol=1e-6)
        assert_allclose(whole.stage1.weights[t], alone.stage1.weights[0], rtol=1e-6)


def test_one_theta_with_far_more_points_is_believed_more():
    counts = [8] * 9 + [400]
    fit = cbq.CBQ().fit(problem(lambda x, t: np.abs(x[:, 0] - 1.7)).collect(10, counts, rng=3))
    assert fit.stage1.std[9] < 0.4 * np.median(fit.stage1.std[:9])


def test_leave_one_out_residuals_have_the_size_that_is_expected_of_them():
    fit = cbq.CBQ().fit(problem(lambda x, t: np.abs(x[:, 0] - 1.7)).collect(40, 10, rng=5))
    loo = fit.leave_one_out()
    assert loo.residual.shape == loo.std.shape == (40,)
    assert 0.3 < np.sqrt(np.mean(loo.standardised**2)) < 2.0
    assert loo.coverage(0.5) < loo.coverage(0.95) <= 1.0


@pytest.mark.filterwarnings("ignore:few points:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_the_summary_says_what_was_chosen_and_every_warning():
    fit = cbq.CBQ().fit(problem().collect(5, 2, rng=0))
    text = fit.summary()
    assert "5 thetas" in text
    assert "fewer than 4 points" in text
    assert all(warning in text for warning in fit.warnings)
    assert "No warnings" in cbq.CBQ().fit(problem().collect(8, 9, rng=0)).summary()


def test_a_table_has_a_row_per_theta():
    fit = cbq.CBQ().fit(problem().collect(6, 6, rng=0))
    frame = fit.to_frame(NEW)
    assert list(frame.columns) == ["theta", "mean", "std", "lower", "upper"]
    assert_allclose(frame["mean"], fit.predict(NEW))
    assert_allclose(frame["upper"], fit.interval(NEW)[1])
    assert len(fit.to_frame()) == 6


def test_many_thetas_are_predicted_in_blocks():
    fit = cbq.CBQ().fit(problem().collect(6, 6, rng=0))
    for a, b in zip(answers(fit, np.resize(NEW, 5000)), answers(fit, NEW), strict=True):
        assert_allclose(a, np.resize(b, 5000), rtol=1e-9)


# Odd data ----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:few points:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
@pytest.mark.parametrize("T", [1, 2, 3])
@pytest.mark.parametrize("N", [1, 2, 3, 20])
@pytest.mark.parametrize("calibrate", [True, False])
def test_few_thetas_and_few_points(T, N, calibrate):
    samples = problem().collect(T, N, rng=7)
    if T == N == 1:
        with pytest.raises(ValueError, match="one theta with one value"):
            cbq.CBQ(calibrate=calibrate).fit(samples)
        return
    fit = cbq.CBQ(calibrate=calibrate).fit(samples)
    mean, std = fit.predict(np.append(samples.theta[:, 0], 5.0), return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(std))
    assert np.all(std > 0)
    fit.summary()
    fit.sample(NEW, 2, 0)


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
@pytest.mark.parametrize("value", [0.0, 3.0, 1e12, -1e-12])
def test_of_a_constant_f_the_mean_is_known_and_the_error_is_not(value):
    fit = cbq.CBQ().fit(problem(lambda x, t: np.full(len(x), value)).collect(6, 6, rng=0))
    mean, std = fit.predict(NEW, return_std=True)
    assert_allclose(mean, value, rtol=1e-12)
    assert np.all(np.isinf(std))


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
def test_f_may_be_constant_in_x_alone_or_at_some_thetas():
    fit = cbq.CBQ().fit(problem(lambda x, t: np.full(len(x), t[0])).collect(12, 6, rng=0))
    assert_allclose(fit.predict(NEW), NEW, atol=1e-3)
    half = problem(lambda x, t: np.sin(x[:, 0]) if t[0] > 2 else np.zeros(len(x))).collect(12, 6, rng=0)
    assert np.all(np.isfinite(cbq.CBQ().fit(half).predict(NEW, return_std=True)))


@pytest.mark.filterwarnings("ignore:chains:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:noise:cbq.FitWarning")
def test_duplicated_points_and_thetas():
    theta = np.append(np.linspace(1.0, 3.0, 8), [1.0, 2.0, 2.0])
    samples = problem().collect(None, 9, rng=0, theta=theta)
    x = np.array(samples.x)
    x[:, 1] = x[:, 0]
    f = np.sin(x[..., 0]) + samples.theta
    fit = cbq.CBQ().fit(cbq.Samples(theta, x, f, samples.measures))
    assert_allclose(fit.predict(NEW), truth(NEW), atol=0.05)
    assert not any("equal points" in warning for warning in fit.warnings)
    f[:, 1] += 0.1
    noisy = cbq.CBQ().fit(cbq.Samples(theta, x, f, samples.measures))
    assert any("different values at equal points" in warning for warning in noisy.warnings)
    same = cbq.CBQ().fit(problem().collect(None, 9, rng=0, theta=np.full(8, 2.0)))
    assert_allclose(same.predict([2.0]), truth(2.0), atol=0.01)


def test_theta_columns_of_very_different_scale():
    prior = Product([Uniform(1.0, 3.0), Uniform(0.0, 1e9), Uniform(0.0, 1e-9)])

    def f(x, t):
        return np.sin(x[:, 0]) + t[1] / 1e9 + t[2] / 1e-9

    samples = problem(f, prior=prior).collect(40, 10, rng=0)
    fit = cbq.CBQ().fit(samples)
    new = prior.sample(50, 1)
    exact = np.exp(-0.5) * np.sin(new[:, 0]) + new[:, 1] / 1e9 + new[:, 2] / 1e-9
    assert np.sqrt(np.mean((fit.predict(new) - exact) ** 2)) < 0.05


@pytest.mark.filterwarnings("ignore:shared design:cbq.FitWarning")
def test_theta_may_be_zero_and_points_may_lie_on_the_edge_of_their_measure():
    measure = Uniform(0.0, 1.0)
    x = np.linspace(0.0, 1.0, 11)
    theta = np.linspace(0.1, 1.0, 8)
    fit = cbq.CBQ().fit(cbq.Samples(theta, np.tile(x, (8, 1)), np.exp(theta[:, None] * x), measure))
    exact = np.append(1.0, np.expm1(theta) / theta)
    assert_allclose(fit.predict(np.append(0.0, theta))[1:], exact[1:], atol=1e-4)
    logs = cbq.CBQ(log_theta=True).fit(cbq.Samples(theta, np.tile(x, (8, 1)), np.exp(theta[:, None] * x), measure))
    mean, std = logs.predict([0.0, 0.1], return_std=True)
    assert std[0] > 100 * std[1]  # the logarithm of zero is far from everything
    assert np.isfinite(mean[0])


def test_measures_that_differ_in_kind_where_nobody_looks_first():
    low = np.full(50, 0.5)
    low[7] = -0.5
    samples = problem(lambda x, t: x[:, 0] ** 2).collect(None, 50, rng=0, theta=np.linspace(1, 3, 50))
    measures = [Uniform(a, 2.0) for a in low]
    x = [measure.sample(50, t) for t, measure in enumerate(measures)]
    fit = cbq.CBQ().fit(cbq.Samples(samples.theta, x, [p[:, 0] ** 2 for p in x], measures))
    assert_allclose(fit.stage1.mean, (8.0 - low**3) / 3 / (2.0 - low), rtol=1e-5)


def test_a_linear_f_under_a_stein_kernel_in_two_dimensions():
    rng = np.random.default_rng(0)
    theta = np.linspace(1.0, 2.0, 10)
    measures = [cbq.measures.Unnormalised(score=lambda x, m=m: m - x, dim=2) for m in theta]
    x = [rng.normal(m, 1.0, size=(40, 2)) for m in theta]
    fit = cbq.CBQ().fit(cbq.Samples(theta, x, [p[:, 0] for p in x], measures, design="mcmc"))
    assert_allclose(fit.stage1.mean, theta, atol=1e-6)


def test_repeated_points_of_a_chain_count_once():
    samples = problem(lambda x, t: np.abs(x[:, 0] - 1.5)).collect(6, 20, rng=3)
    twice = cbq.Samples(
        samples.theta, np.repeat(samples.x, 2, axis=1), np.repeat(samples.f, 2, axis=1), samples.measures, design="mcmc"
    )
    once = cbq.Samples(samples.theta, samples.x, samples.f, samples.measures, design="mcmc")
    for a, b in zip(answers(cbq.CBQ().fit(twice), NEW), answers(cbq.CBQ().fit(once), NEW), strict=True):
        assert_allclose(a, b, rtol=1e-9)
    weights = cbq.CBQ().fit(twice).stage1.weights
    assert_allclose(np.sum(weights * twice.f, axis=1), cbq.CBQ().fit(once).stage1.mean, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:few points:cbq.FitWarning")
@pytest.mark.parametrize("few", [1, 2])
def test_thetas_with_hardly_any_points_are_not_confused_by_one_with_many(few):
    fit = cbq.CBQ().fit(problem().collect(10, [few] * 9 + [40], rng=1))
    assert np.max(fit.stage1.std) < 5.0  # f is of size one
    assert np.sqrt(np.mean((fit.predict(NEW) - truth(NEW)) ** 2)) < 0.5


def test_loud_thetas_do_not_decide_the_smoothness_of_quiet_ones():
    def f(x, theta):
        return 1e4 * np.exp(0.5 * x[:, 0]) if theta[0] > 2 else np.abs(x[:, 0] - 1.5)

    samples = problem(f).collect(20, 30, rng=0)
    quiet = samples.theta[:, 0] <= 2
    m = samples.theta[quiet, 0] - 1.5
    exact = np.sqrt(2 / np.pi) * np.exp(-(m**2) / 2) + m * (1 - 2 * stats.norm.cdf(-m))
    error = {
        name: np.sqrt(np.mean((cbq.CBQ(kernel_x=k).fit(samples).stage1.mean[quiet] - exact) ** 2))
        for name, k in {"auto": "auto", "matern": Matern(1.5)}.items()
    }
    assert error["auto"] < 2 * error["matern"]


# Small changes of f ------------------------------------------------------------------------------------------------


def payoffs(seed, T=24, N=64, C=14, offset=0.0):
    """Outputs max(g - t, 0) of a smooth g in three dimensions, for thresholds t of which few points exceed the last."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(0.0, 1.0, (T, 3))
    x = theta[:, None, :] + rng.standard_normal((T, N, 3))
    g = np.exp(x @ [0.4, 0.3, 0.2])
    thresholds = np.append(np.quantile(g, np.linspace(0.05, 0.98, C - 1)), np.sort(g, axis=None)[-5])
    return theta, x, np.maximum(g[..., None] - thresholds, 0.0) + offset


def largest_change(estimator, theta, x, f, noises):
    """How far relative noise in f moves means and standard deviations, in units of the latter."""
    new, rng = np.random.default_rng(1).uniform(0.0, 1.0, (20, 3)), np.random.default_rng(0)

    def answers(f):
        samples = cbq.Samples(theta, x, f, lambda t: Gaussian(t, np.ones(3)))
        return np.stack(estimator.fit(samples).predict(new, return_std=True))

    expected = answers(f)
    moved = [answers(f * (1.0 + noise * rng.standard_normal(f.shape))) - expected for noise in noises]
    return np.max(np.abs(moved) / expected[1])


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning", "ignore:noise:cbq.FitWarning")
@pytest.mark.parametrize("seed", range(3))
def test_the_last_digits_of_f_hardly_matter_where_outputs_are_constant_at_most_thetas(seed):
    assert largest_change(cbq.CBQ(outputs="shared"), *payoffs(seed), [1e-13, 1e-10]) < 1e-2


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "estimator",
    [cbq.CBQ(), cbq.CBQ(ard=False), cbq.CBQ(lengthscales="shared"), cbq.CBQ(calibrate=False)],
    ids=["separate", "one lengthscale", "shared lengthscales", "plain"],
)
@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:tails:cbq.FitWarning")
def test_nor_where_such_values_are_far_from_zero(estimator, seed):
    assert largest_change(estimator, *payoffs(seed, T=16, N=30, C=3, offset=5.0), [1e-13]) < 1e-2


def test_what_is_constant_at_some_thetas_takes_its_variance_from_the_others_and_says_so():
    theta, x, f = payoffs(0)
    with pytest.warns(cbq.FitWarning, match="^equal values: all values of f are equal at"):
        fit = cbq.CBQ().fit(cbq.Samples(theta, x, f[..., -1], lambda t: Gaussian(t, np.ones(3))))
    constant = np.ptp(f[..., -1], axis=1) == 0
    assert 0 < np.count_nonzero(constant) < 24
    assert np.min(fit.stage1.std[constant]) > 0.1 * np.min(fit.stage1.std[~constant])
    assert any(f"equal at {np.count_nonzero(constant)} of 24 thetas" in each for each in fit.warnings)


def test_what_is_constant_at_every_theta_is_known_exactly():
    theta = np.linspace(1.0, 3.0, 8)
    measures = [Gaussian(t, 1.0) for t in theta]
    x = theta[:, None] + np.random.default_rng(0).normal(size=(8, 5))
    samples = cbq.Samples(theta, x, np.repeat(theta[:, None], 5, axis=1), measures)
    with pytest.warns(cbq.FitWarning, match="^equal values: all values of f are equal at 8 of 8 thetas"):
        fit = cbq.CBQ().fit(samples)
    assert_allclose(fit.stage1.mean, theta, rtol=1e-15)
    assert_allclose(fit.stage1.std, 0.0, atol=1e-15)
    assert len(fit.warnings) == 1


# What must not change ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"calibrate": False}, {"kernel_x": Matern(1.5)}], ids=str)
@pytest.mark.parametrize("scale", [1000.0, 1e12, 1e-12, -3.7, 1e90, 1e-90])
@pytest.mark.parametrize("shift", [0.0, 12.5])
def test_f_in_other_units_is_the_same_answer_in_other_units(options, scale, shift):
    samples = problem(lambda x, t: np.abs(x[:, 0] - 1.5) + t[0]).collect(12, 15, rng=4)
    other = samples.with_values(scale * (np.asarray(samples.f) + shift))
    before, after = (cbq.CBQ(**options).fit(s) for s in (samples, other))
    (mean, std, low, high), (mean2, std2, low2, high2) = answers(before, NEW), answers(after, NEW)
    if scale < 0:
        low, high = high, low
    unit = np.max(np.abs(mean))
    assert_allclose(mean2 / scale - shift, mean, atol=1e-6 * unit)
    assert_allclose(std2 / abs(scale), std, rtol=1e-5, atol=1e-6 * unit)
    assert_allclose(low2 / scale - shift, low, atol=1e-6 * unit)
    assert_allclose(high2 / scale - shift, high, atol=1e-6 * unit)


@pytest.mark.parametrize("units", [[1000.0, 1e-6], [0.3, 7e8]], ids=str)
@pytest.mark.parametrize("options", [{}, {"kernel_theta": Matern(1.5)}, {"kernel_theta": RBF(), "trend": 2}], ids=str)
def test_theta_in_other_units_is_the_same_answer(units, options):
    prior = Uniform([1.0, 2.0], [3.0, 4.0])
    samples = problem(lambda x, t: np.abs(x[:, 0] - 1.5) + np.sin(t[1]), prior=prior).collect(15, 12, rng=4)
    other = cbq.Samples(samples.theta * units, samples.x, samples.f, samples.measures)
    new = prior.sample(6, 0)
    for a, b in zip(
        answers(cbq.CBQ(**options).fit(samples), new), answers(cbq.CBQ(**options).fit(other), new * units), strict=True
    ):
        assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_fit_is_deterministic_and_changes_nothing():
    samples = problem(lambda x, t: np.abs(x[:, 0] - 1.5)).collect(10, 12, rng=4)
    before = [np.array(samples.theta), np.array(samples.x), np.array(samples.f)]
    method = cbq.CBQ()
    first, second = method.fit(samples), method.fit(samples)
    for a, b in zip(answers(first, NEW), answers(second, NEW), strict=True):
        assert np.array_equal(a, b)
    assert method == cbq.CBQ()
    for a, b in zip(before, [samples.theta, samples.x, samples.f], strict=True):
        assert np.array_equal(a, b)
    state = np.random.get_state()[1].copy()  # noqa: NPY002, the global generator must not be touched
    method.fit(samples)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002
    with pytest.raises(AttributeError):
        first.theta = None
    with pytest.raises(ValueError, match="read-only"):
        first.stage1.columns["mean"][0] = 0.0


def test_the_number_of_threads_does_not_matter():
    samples = problem(lambda x, t: np.abs(x[:, 0] - 1.5)).collect(6, 150, rng=4)
    whole = cbq.CBQ(kernel_x=Matern(1.5)).fit(samples)
    with cbq.linalg.at_most(1):
        single = cbq.CBQ(kernel_x=Matern(1.5)).fit(samples)
    assert_allclose(single.predict(NEW), whole.predict(NEW), rtol=1e-9)


# What is refused ---------------------------------------------------------------------------------------------------

FIT = cbq.CBQ().fit(problem().collect(6, 5, rng=0))
LOGS = cbq.CBQ(log_theta=True).fit(problem().collect(6, 5, rng=0))

test_wrong_values_are_refused = refusals(
    {
        "mean": (lambda: cbq.CBQ(mean="flat"), "mean must be 'constant' or 'zero', but it is 'flat'"),
        "lengthscales": (lambda: cbq.CBQ(lengthscales="all"), "lengthscales must be 'per-theta' or 'shared'"),
        "outputs": (lambda: cbq.CBQ(outputs=1), "outputs must be 'separate' or 'shared'"),
        "trend": (lambda: cbq.CBQ(trend=-1), "trend must be the degree of a polynomial"),
        "noise": (lambda: cbq.CBQ(noise=-0.1), "noise must be a variance"),
        "log_theta": (lambda: cbq.CBQ(log_theta="yes"), "log_theta must be 'auto', True or False"),
        "ard": (lambda: cbq.CBQ(ard="no"), "ard must be True or False"),
        "noise list": (lambda: cbq.CBQ(noise=[0.1]), "noise must be a variance"),
        "logs of a kernel": (lambda: cbq.CBQ(log_theta=True, kernel_theta=RBF()), r"write Warped\(kernel, 'log'\)"),
        "no logs": (
            lambda: cbq.CBQ(log_theta=True).fit(problem(prior=Uniform(-1.0, 0.0)).collect(3, 3, rng=0)),
            "needs a coordinate of theta that is positive",
        ),
        "stein of mean zero": (
            lambda: cbq.CBQ(kernel_x=Stein(RBF()), mean="zero").fit(problem().collect(3, 5, rng=0)),
            "would say that I is zero",
        ),
        "batch of kernels": (
            lambda: cbq.CBQ(kernel_x=RBF(np.ones((3, 1, 1)))).fit(problem().collect(3, 5, rng=0)),
            "lengthscales for a batch",
        ),
        "distribution of theta": (
            lambda: cbq.CBQ(kernel_theta=Warped(RBF(), "whiten")).fit(problem().collect(3, 5, rng=0)),
            "cannot act on theta",
        ),
        "level": (lambda: FIT.interval(NEW, 95), "level must lie between 0 and 1"),
        "theta": (lambda: FIT.predict(np.ones((3, 2))), r"theta has shape \(3, 2\).*p = 1"),
        "nan theta": (lambda: FIT.predict([np.nan]), "theta must be finite"),
        "both": (lambda: FIT.predict(NEW, return_std=True, return_cov=True), "not both"),
        "not positive": (lambda: LOGS.predict([-1.0]), "must not be negative.*log_theta=False"),
        "huge f": (
            lambda: cbq.CBQ().fit(problem(lambda x, t: 1e200 * x[:, 0]).collect(3, 3, rng=0)),
            "values of f of about .*e\\+200",
        ),
    },
    ValueError,
)

test_wrong_types_are_refused = refusals(
    {
        "kernel_x": (lambda: cbq.CBQ(kernel_x="rbf"), "kernel_x must be 'auto' or a kernel"),
        "kernel_theta": (lambda: cbq.CBQ(kernel_theta=None), "kernel_theta must be 'auto' or a kernel"),
        "samples": (lambda: cbq.CBQ().fit(np.ones(3)), "fit takes cbq.Samples"),
        "rng": (lambda: FIT.sample(NEW, 3, None), "rng must be"),
        "jitter": (lambda: cbq.CBQ(jitter=1e-8), "jitter must be a cbq.linalg.Jitter"),
        "paper": (lambda: cbq.CBQ.paper("rbf"), "kernel_x must be a kernel"),
    },
    TypeError,
)


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_a_kernel_without_an_embedding_is_refused_with_the_ways_out():
    samples = problem(family=lambda t: stats.exponnorm(t[0])).collect(3, 5, rng=0)
    with pytest.raises(cbq.embeddings.NoEmbedding, match=r"kernel_x.*Warped\(.*'gaussianise'\)"):
        cbq.CBQ(kernel_x=RBF()).fit(samples)
    assert cbq.CBQ(kernel_x=Warped(RBF(), "gaussianise")).fit(samples).stage1.mean.shape == (3,)


def test_thetas_that_share_a_design_have_errors_in_common():
    problem = cbq.problems.get("linear")
    own = cbq.CBQ().fit(problem.collect(12, 16, rng=0, design="sobol"))
    assert not any(finding.kind == "shared design" for finding in own.findings)
    with pytest.warns(cbq.FitWarning, match="shared design: all 12 thetas have the same points"):
        shared = cbq.CBQ().fit(problem.collect(12, 16, rng=0, design="sobol", scramble="common"))
    assert np.all(shared.stage1.stretch**2 >= 2.0)
    few = problem.collect(3, 16, rng=0, design="sobol", scramble="common")
    with pytest.warns(cbq.FitWarning) as caught:
        cbq.CBQ().fit(few)
    assert any("shared design" in str(each.message) for each in caught)


def test_a_user_may_pass_the_choices_of_both_stages(tmp_path):
    samples = cbq.problems.get("butterfly").collect(100, 8, rng=1)
    with silent():
        plain = cbq.CBQ().fit(samples)
        fit = cbq.CBQ(calibration=cbq.Calibration(factor=2.0, common=0.0)).fit(samples)
        one = cbq.CBQ(selection=StageOneSelection(most=1, least=1)).fit(samples)
    assert_allclose(fit.predict([[100.0]]), plain.predict([[100.0]]), rtol=1e-12)
    assert np.all(np.diff(fit.interval([[100.0]]), axis=0) < np.diff(plain.interval([[100.0]]), axis=0))
    assert len(one.stage1.hyperparameters[0]) == 1 < len(plain.stage1.hyperparameters[0])
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq")
    assert again.theta_calibration == fit.theta_calibration
    assert_allclose(again.interval([[100.0]]), fit.interval([[100.0]]), rtol=1e-12)


@pytest.mark.parametrize("name", ["selection", "calibration"])
def test_choices_of_another_type_are_refused(name):
    with pytest.raises(TypeError, match=f"{name} must be a .*, but it is 3"):
        cbq.CBQ(**{name: 3})


def test_a_product_may_hold_a_correlated_gaussian():
    def family(theta):
        return Product([Gaussian([theta[0], 0.0], cov=[[1.0, 0.5], [0.5, 1.0]]), Gaussian(0.0, cov=1.0)])

    def f(x, theta):  # I = theta + 0.5 + 1
        return x[:, 0] * (1 + x[:, 1]) + x[:, 2] ** 2

    # On x itself, kernels of single coordinates have no embedding.
    samples = problem(f, family, Uniform(0.0, 1.0)).collect(6, 40, rng=0)
    assert_allclose(cbq.CBQ().fit(samples).predict([[0.3], [0.8]]), [1.8, 2.3], atol=0.1)
