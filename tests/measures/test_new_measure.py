"""A new measure on the line is one file, and works everywhere: in combinations, embeddings, estimators, saved fits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import gamma

import cbq
from cbq.kernels import RBF, Additive, Matern, Stein, TensorProduct, Warped
from cbq.measures import Gamma, Gaussian, LogMeasure, Mixture, Product, Uniform
from gumbel import Gumbel

ONE, FROZEN = Gumbel(0.3, 0.8), stats.gumbel_r(0.3, 0.8)
X = np.array([[-0.9], [0.2], [3.0]])
PROBLEM = cbq.Problem(
    lambda x, theta: np.exp(-x[:, 0]), lambda theta: Gumbel(theta, 0.5), Uniform(1.0, 2.0), depends_on_theta=False
)
NEW = np.array([[1.2], [1.7]])
EXACT = np.exp(-NEW[:, 0]) * gamma(1.5)  # E exp(-X) = exp(-loc) Gamma(1 + scale)


def test_it_agrees_with_scipy():
    u = np.array([[1e-12], [0.3], [0.999]])
    assert_allclose(ONE.logpdf(X), FROZEN.logpdf(X[:, 0]), rtol=1e-13)
    assert_allclose(ONE.transport(u), FROZEN.ppf(u), rtol=1e-13)
    assert_allclose(ONE.inverse_transport(ONE.transport(u)), u, rtol=1e-12)
    assert_allclose([moment.item() for moment in ONE.moments()], FROZEN.stats(), rtol=1e-13)
    assert ONE.sample(4, rng=0).shape == (4, 1)


def test_a_batch_of_it_is_indexed_compared_and_shown():
    batch = Gumbel([0.0, 1.0], 2.0)
    assert batch[1].equals(Gumbel(1.0, 2.0))
    assert repr(batch) == "Gumbel(loc=0 to 1, scale=2, batch_shape=(2,))"
    assert Gumbel._stack([batch[0], batch[1]]).equals(batch)


@pytest.mark.parametrize(
    "measure",
    [ONE, Gumbel(-2.0, 1e-3), Mixture([0.3, 0.7], [ONE, Gumbel(2.0, 0.5)]), LogMeasure(Gamma(2.0, 1.0))],
)
@pytest.mark.parametrize("kernel", [RBF(0.4), Matern(1.5, 0.7), Warped(Matern(2.5, 0.5), "whiten")])
def test_embeddings_on_the_line_agree_with_quadrature(kernel, measure):
    formula, quadrature = cbq.embed(kernel, measure), cbq.embed(kernel, measure, method="quadrature")
    assert_allclose(formula.mean(X), quadrature.mean(X), rtol=1e-9, atol=1e-12)
    assert_allclose(formula.variance, quadrature.variance, rtol=1e-9)


@pytest.mark.parametrize("kernel", [TensorProduct(Matern(1.5, 0.9)), Additive(RBF(0.9)), Matern(1.5, 0.9)])
def test_embeddings_in_the_plane_are_made_from_coordinates(kernel):
    measure, x = Product([ONE, Gaussian(0.3, cov=0.7)]), np.array([[0.1, 0.2], [-1.0, 2.0]])
    embedding = cbq.embed(kernel, measure)
    assert_allclose(embedding.mean(x), cbq.embed(kernel, measure, method="quadrature").mean(x), rtol=1e-6)


def test_a_stein_kernel_integrates_to_zero_under_it():
    kernel, u = Stein(RBF(1.5), ONE), (np.arange(4000) + 0.5) / 4000
    assert abs(np.mean(kernel(ONE.transport(u), [0.3]))) < 1e-2


@pytest.mark.parametrize(
    ("estimator", "tolerance"),
    [
        (cbq.CBQ(), 1e-3),
        (cbq.CBQ(kernel_x=Matern(1.5)), 0.01),
        (cbq.CBQ(borrow=40), 1e-3),
        (cbq.MOBQ(), 1e-3),
        (cbq.Auto(), 1e-3),
        (cbq.ImportanceSampling(), 0.05),  # averages of 20 Sobol points at each theta
        (cbq.KLSMC(), 0.02),
    ],
    ids=["CBQ", "CBQ, kernel", "CBQ, borrowing", "MOBQ", "Auto", "IS", "KLSMC"],
)
def test_estimators_take_it_and_save_their_fits(estimator, tolerance, tmp_path):
    fit = estimator.fit(PROBLEM.collect(T=12, N=20, rng=0, design="sobol"))
    mean = fit.predict(NEW)
    assert_allclose(mean, EXACT, atol=tolerance)  # I is between 0.1 and 0.3
    fit.save(tmp_path / "fit.cbq")
    assert_allclose(cbq.load(tmp_path / "fit.cbq", family=PROBLEM.family).predict(NEW), mean, rtol=1e-12)


def test_samples_with_it_are_saved_and_fits_reported(tmp_path):
    samples = PROBLEM.collect(T=8, N=10, rng=0)
    samples.save(tmp_path / "samples.cbq")
    assert cbq.Samples.load(tmp_path / "samples.cbq", family=PROBLEM.family) == samples
    cbq.CBQ().fit(samples).report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_it_is_a_prior_too():
    problem = cbq.Problem(lambda x, theta: x[:, 0] * theta[0], lambda theta: Gaussian(theta, cov=1.0), Gumbel(2.0, 0.1))
    fit = cbq.CBQ().fit(problem.collect(T=12, N=10, rng=0))
    mean = cbq.nested_expectation(fit, lambda values: values, Gumbel(2.0, 0.1), n=4096, rng=0)
    assert_allclose(mean.estimate, 4 + 0.4 * np.euler_gamma + 0.01 * (np.euler_gamma**2 + np.pi**2 / 6), rtol=1e-3)


def test_further_runs_are_suggested():
    fit = cbq.MOBQ().fit(PROBLEM.collect(T=12, N=20, rng=0))
    assert fit.suggest(3, rng=0).x.shape == (3, 1)
