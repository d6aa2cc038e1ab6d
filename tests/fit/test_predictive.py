"""Draws of several outputs at once, and where the correlation of their errors comes from."""

import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import cbq
from cbq.fit import predictive
from cbq.fit.predictive import PredictiveDistribution
from cbq.linalg.lapack import correlation
from cbq.measures import Gaussian

TOGETHER = np.array([[1.0, 0.7], [0.7, 1.0]])
SCALES = np.array([[[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.5]]])
METHODS = [cbq.MonteCarlo(), cbq.LSMC(), cbq.KLSMC(), cbq.CBQ(), cbq.MOBQ()]
METHODS.append(cbq.MOBQ(outputs="shared"))


def rng(seed=0):
    return np.random.default_rng(seed)


def test_the_correlation_of_errors():
    plain = rng().normal(size=(50, 3))
    errors = plain * [1.0, 1e150, 1e-200]
    expected = [[a @ b / np.sqrt((a @ a) * (b @ b)) for a in plain.T] for b in plain.T]
    assert_allclose(correlation(errors), expected, rtol=1e-13)
    assert_array_equal(np.diagonal(correlation(errors)), 1.0)


def test_outputs_without_errors_go_with_no_other():
    assert_array_equal(correlation(np.array([[0.0, 1.0], [0.0, 2.0]])), np.eye(2))
    assert_array_equal(correlation(np.empty((0, 2))), np.eye(2))


def test_outputs_of_one_measure_are_drawn_with_their_correlation():
    measures = [
        PredictiveDistribution(np.zeros((1, 3)), SCALES, 9.0),
        PredictiveDistribution(np.ones((1, 3)), 4 * SCALES, 9.0),
    ]
    draws = predictive.sample_jointly(measures, TOGETHER, 400_000, rng())
    assert draws.shape == (400_000, 3, 2)
    expected = 9 / 7 * np.kron(np.array([[1.0, 1.4], [1.4, 4.0]]), SCALES[0])
    found = np.cov(draws.transpose(0, 2, 1).reshape(len(draws), 6).T)
    assert_allclose(found, expected, atol=0.06)
    for c, (loc, scale) in enumerate([(0, 1), (1, 2)]):
        measure = stats.t(9, loc, scale * np.sqrt(SCALES[0, 0, 0]))
        assert stats.kstest(draws[:20_000, 0, c], measure.cdf).pvalue > 1e-3


@pytest.mark.parametrize("df", [np.inf, 4.0])
def test_outputs_that_agree_are_drawn_as_one(df):
    measures = [
        PredictiveDistribution(np.zeros((1, 3)), SCALES, df),
        PredictiveDistribution(np.zeros((1, 3)), 4 * SCALES, df),
    ]
    draws = predictive.sample_jointly(measures, np.ones((2, 2)), 100, rng())
    assert_allclose(draws[..., 1], 2 * draws[..., 0], rtol=1e-10, atol=1e-10)


def test_antithetic_draws_have_the_mean_of_the_measure():
    locations = np.array([[0.0, 1.0, 2.0], [4.0, 3.0, 2.0]])
    measures = [PredictiveDistribution(locations, np.concatenate([SCALES, 3 * SCALES]), 5.0)] * 2
    draws = predictive.sample_jointly(measures, TOGETHER, 1000, rng(), antithetic=True)
    assert draws.shape == (1000, 3, 2)
    assert_allclose(np.mean(draws, axis=0), np.mean(locations, axis=0)[:, None].repeat(2, axis=1), atol=1e-12)
    many = predictive.sample_jointly(measures, TOGETHER, 200_000, rng(1), antithetic=True)
    assert_allclose(np.cov(many[..., 0].T), measures[0].cov, atol=0.15)
    assert predictive.sample_jointly(measures, TOGETHER, 5, rng(), antithetic=True).shape == (5, 3, 2)


def samples(noise):
    """Two outputs with the same noise, of opposite signs, and one with its own."""
    theta = np.linspace(1.0, 2.0, 12)[:, None]
    x = rng(2).normal(size=(12, 8, 1)) + theta[:, None]
    own = rng(3).normal(size=x.shape)[..., 0]
    f = np.stack([noise, 5.0 - 3.0 * noise, own], axis=-1)
    return cbq.Samples(theta, x, f, lambda t: Gaussian(t, 1.0))


@pytest.mark.filterwarnings("ignore:not learnt:cbq.FitWarning", "ignore:noise:cbq.FitWarning")
@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__ + getattr(m, "outputs", ""))
def test_errors_that_outputs_share_are_shared_by_the_draws_of_a_fit(method):
    fit = method.fit(samples(rng(4).normal(size=(12, 8))))
    assert_allclose(fit.correlation[0, 1], -1.0, atol=1e-6)
    assert abs(fit.correlation[0, 2]) < 0.5
    draws = fit.sample(fit.theta[:4], 20_000, 0)
    for m in range(4):
        found = np.corrcoef(draws[:, m].T)
        assert_allclose(found[0, 1], -1.0, atol=1e-3)
        assert abs(found[0, 2]) < abs(fit.correlation[0, 2]) + 0.05  # measures that differ in shape go together less


def test_importance_sampling_knows_the_correlation_of_outputs():
    theta = np.array([[0.0], [1.0]])
    x = theta[:, None] + rng(5).normal(size=(2, 20, 1))
    f = np.concatenate([x, -2 * x], axis=-1)
    fit = cbq.ImportanceSampling().fit(cbq.Samples(theta, x, f, lambda t: Gaussian(t, 1.0), depends_on_theta=False))
    assert_allclose(fit.correlation, [[1, -1], [-1, 1]])


@pytest.mark.filterwarnings("ignore:noise:cbq.FitWarning")
@pytest.mark.parametrize("method", [cbq.CBQ(), cbq.MonteCarlo(), cbq.LSMC()], ids=lambda m: type(m).__name__)
def test_correlations_survive_a_file(method, tmp_path):
    fit = method.fit(samples(rng(4).normal(size=(12, 8))))
    fit.save(tmp_path / "fit.cbq")
    assert_array_equal(cbq.load(tmp_path / "fit.cbq").correlation, fit.correlation)


def test_saved_fits_without_a_correlation_are_refused(tmp_path):
    fit = cbq.MonteCarlo().fit(samples(rng(4).normal(size=(12, 8))))
    fit.save(tmp_path / "fit.cbq")
    with zipfile.ZipFile(tmp_path / "fit.cbq") as file, zipfile.ZipFile(tmp_path / "older.cbq", "w") as older:
        (missing,) = (name for name in file.namelist() if name.endswith("correlation.npy"))
        for name in set(file.namelist()) - {missing}:
            older.writestr(name, file.read(name))
    with pytest.raises(ValueError, match=r"older.cbq is damaged"):
        cbq.load(tmp_path / "older.cbq")


@pytest.mark.filterwarnings("ignore:(noise|equal values|few thetas):cbq.FitWarning")
def test_the_recipe_of_the_paper_takes_outputs_as_independent():
    assert_array_equal(cbq.CBQ.paper().fit(samples(np.ones((12, 8)))).correlation, np.eye(3))


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_one_output_has_the_correlation_one():
    x = rng(6).normal(size=(3, 5))
    fit = cbq.CBQ().fit(cbq.Samples([1.0, 2.0, 3.0], x, x**2, Gaussian(0.0, 1.0)))
    assert_array_equal(fit.correlation, [[1.0]])


def test_a_stretched_distribution_has_the_same_mean_and_a_larger_spread():
    plain = PredictiveDistribution(np.array([[0.0, 1.0], [0.5, 1.5]]), np.array([[1.0, 4.0], [2.0, 1.0]]), 5.0)
    wide = plain.stretched(3.0)
    assert_allclose(wide.mean, plain.mean)
    assert_allclose(wide.variance, 9.0 * plain.variance)
    for probability in (0.025, 0.5, 0.9):
        assert_allclose(wide.quantile(probability) - wide.mean, 3.0 * (plain.quantile(probability) - plain.mean))
