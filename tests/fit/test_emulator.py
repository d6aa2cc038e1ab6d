"""The emulator: values of f itself, against f, against conditioning by hand, and left-out points."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cbq
from cbq.measures import Gaussian, Uniform


def problem(f=lambda x, theta: np.sin(theta[0] * x[:, 0]) + x[:, 1] ** 2):
    return cbq.Problem(f, lambda theta: Gaussian([theta[0], 0.0], cov=[0.5, 1.0]), Uniform(0.5, 2.0))


@pytest.fixture(scope="module")
def fit():
    return cbq.MOBQ().fit(problem().collect(12, 10, rng=0, design="sobol"))


def test_values_at_runs_are_the_runs(fit):
    samples = fit.samples
    x, theta = samples.all_points[:30], samples.theta[samples.owners[:30]]
    mean, std = fit.emulator.predict(x, theta, return_std=True)
    assert np.all(np.abs(mean - samples.f.ravel()[:30]) <= 4 * std)  # which rounding leaves
    assert np.all(std < 1e-4)


def test_new_values_are_inside_their_intervals():
    inside = []
    for seed in range(4):
        made = problem()
        fit = cbq.MOBQ().fit(made.collect(10, 6, rng=seed, design="sobol"))
        rng = np.random.default_rng(100 + seed)
        for theta in made.prior.sample(10, rng):
            x = made.family(theta).sample(10, rng)
            mean, std = fit.emulator.predict(x, theta, return_std=True)
            inside.append(np.abs(made.evaluate(theta, x) - mean) < 2 * std)
    assert 0.88 < np.mean(inside) <= 1.0


def test_draws_have_the_mean_and_the_covariance(fit):
    x = np.array([[0.5, 0.1], [0.6, 0.1], [2.5, -1.0]])
    mean, cov = fit.emulator.predict(x, [1.1], return_cov=True)
    draws = fit.emulator.sample(x, [1.1], size=20_000, rng=1)
    assert_allclose(draws.mean(axis=0), mean, atol=4 * np.sqrt(np.max(np.diag(cov)) / 20_000))
    assert_allclose(np.cov(draws.T), cov, atol=0.06 * np.max(np.diag(cov)))
    assert_allclose(np.sqrt(np.diag(cov)), fit.emulator.predict(x, [1.1], return_std=True)[1], rtol=1e-6)


def test_draws_of_outputs_with_kernels_of_their_own_agree_as_their_errors_do():
    def outputs(x, theta):
        first = np.sin(3 * x[:, 0]) * x[:, 1]
        return np.stack([first, first + 0.3 * np.exp(x[:, 1])], axis=1)

    fit = cbq.MOBQ().fit(problem(outputs).collect(8, 8, rng=0))
    assert len(fit.groups) == 2
    x, theta = fit.samples.conditional(np.array([[1.0]]))[0].sample(12, np.random.default_rng(1)), np.array([1.0])
    drawn = fit.emulator.sample(x, theta, size=20_000, rng=2)
    moved = fit.emulator.paths(x, theta, len(x), 20_000, np.random.default_rng(3)).moved
    found, expected = (
        np.array([np.corrcoef(each[:, i, 0], each[:, i, 1])[0, 1] for i in range(len(x))]) for each in (moved, drawn)
    )
    assert fit.correlation[0, 1] > 0.3
    assert_allclose(found, expected, atol=0.05)


def test_averages_of_values_are_integrals(fit):
    theta = np.array([1.3])
    x = problem().family(theta).transport(np.random.default_rng(0).random((2**14, 2)))
    assert_allclose(np.mean(fit.emulator.predict(x, theta)), fit.predict([theta])[0], atol=0.03)


def test_paths_by_few_points_have_the_variances_of_all(fit):
    theta, rng = np.array([1.3]), np.random.default_rng(0)
    x = problem().family(theta).sample(300, rng)
    variance, means = fit.emulator.marginals(x, theta)
    paths = fit.emulator.paths(x, theta, few=60, size=6000, rng=rng)
    total = np.var(paths.moved[..., 0], axis=0) + np.mean(paths.factors2) * paths.left[:, 0]
    expected = np.mean(fit.emulator.scales2) * variance[:, 0]
    assert_allclose(np.sum(total), np.sum(expected), rtol=0.1)
    assert_allclose(np.mean(paths.moved[..., 0], axis=0), means[:, 0], atol=0.2 * np.sqrt(np.max(expected)))
    assert_array_equal(paths.moved.shape, (6000, 300, 1))


def test_theta_may_be_left_out_where_f_does_not_depend_on_it():
    made = cbq.problems.get("butterfly")
    emulator = cbq.MOBQ().fit(made.collect(T=12, N=20, rng=0)).emulator
    assert_array_equal(emulator.predict([90.0, 110.0]), emulator.predict([90.0, 110.0], [100.0]))
    assert emulator.sample([90.0, 110.0], size=3, rng=0).shape == (3, 2)


@pytest.mark.parametrize(
    ("x", "theta", "words"),
    [
        ([[0.0, 0.0]], None, "theta is missing"),
        ([[0.0, 0.0, 0.0]], [1.0], r"2 dimensions"),
        ([[0.0, np.nan]], [1.0], "x"),
        (np.zeros((3, 2)), np.ones((2, 1)), "theta has 2 rows, but .* 3 points"),
        (np.zeros((0, 2)), [1.0], "x must be points"),
    ],
)
def test_what_is_not_a_point_is_refused(fit, x, theta, words):
    with pytest.raises(ValueError, match=words):
        fit.emulator.predict(x, theta)


def test_one_theta_is_read_by_its_names():
    pd = pytest.importorskip("pandas")
    made = cbq.Problem(
        lambda x, theta: x[:, 0] + theta[0] + 10 * theta[1],
        lambda theta: Gaussian(0.0, 1.0),
        Uniform([0.0, 0.0], [1.0, 1.0]),
        names={"theta": ["a", "b"]},
    )
    emulator = cbq.MOBQ().fit(made.collect(16, 6, rng=0, design="sobol")).emulator
    expected = emulator.predict([0.0, 1.0], [0.2, 0.9])
    for theta in ({"b": 0.9, "a": 0.2}, pd.Series({"b": 0.9, "a": 0.2}), pd.DataFrame({"b": [0.9], "a": [0.2]})):
        assert_array_equal(emulator.predict([0.0, 1.0], theta), expected)
        assert_array_equal(emulator.sample([0.0], theta, rng=0), emulator.sample([0.0], [0.2, 0.9], rng=0))
    for theta in ({"b": 0.9, "c": 0.2}, pd.Series({"b": 0.9, "c": 0.2})):
        with pytest.raises(ValueError, match="theta has no column 'a'"):
            emulator.predict([0.0], theta)


def test_a_single_coordinate_of_theta_is_read_by_its_name():
    pd = pytest.importorskip("pandas")
    emulator = cbq.MOBQ().fit(cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)).emulator
    expected = emulator.predict([90.0, 110.0], 100.0)
    for theta in ({"theta": 100.0}, pd.Series({"theta": 100.0})):
        assert_array_equal(emulator.predict([90.0, 110.0], theta), expected)
    many = pd.Series({"first": 90.0, "second": 100.0})  # thetas of two points, as in fit.predict
    assert emulator.predict([90.0, 110.0], many).shape == (2,)


@pytest.mark.parametrize("nystrom", [None, 40])
def test_covariances_factor_by_factor_are_those_of_joint_predictions(nystrom):
    made = cbq.MOBQ(nystrom=nystrom).fit(problem().collect(10, 8, rng=0, design="sobol")).calibrated(1.5)
    x, theta = np.random.default_rng(0).normal(size=(8, 2)), np.linspace(0.6, 1.9, 8)[:, None]
    mean, cov = made.emulator.predict(x, theta, return_cov=True)
    (values,) = made.emulator.correlated(x, theta)
    size = np.max(np.abs(cov))
    scale2 = np.mean(made.emulator.scales2)
    assert_allclose(values.mean, mean, rtol=1e-10)
    assert_allclose(made.emulator.means(x, theta)[:, 0], mean, rtol=1e-10)
    assert_allclose(scale2 * values.with_all(values), cov, atol=1e-9 * size)
    pairs = values.take(slice(0, 4)).with_each(values.take(slice(4, 8)))
    assert_allclose(scale2 * pairs, cov[range(4), range(4, 8)], atol=1e-9 * size)
