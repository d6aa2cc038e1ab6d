"""A new radial kernel is one file, and works everywhere: in combinations, embeddings, estimators, and saved fits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cbq
from cbq.embeddings import NoEmbedding
from cbq.kernels import Additive, Stein, TensorProduct, Warped
from cbq.measures import Gamma, Gaussian, Uniform
from rational import Rational

PROBLEM = cbq.Problem(
    lambda x, theta: np.exp(-x[:, 0]), lambda theta: Gamma(theta, 2.0), Uniform(1.0, 4.0), depends_on_theta=False
)
NEW = np.array([[1.5], [3.2]])
EXACT = (2.0 / 3.0) ** NEW[:, 0]  # E exp(-X), X ~ Gamma(theta, rate 2)
BOTH = Gaussian([0.3, -0.2], cov=[0.7, 1.4])


def test_the_gram_matrix_and_its_derivative():
    x = np.random.default_rng(0).normal(size=(7, 2))
    kernel = Rational([0.8, 1.7])
    r2 = np.sum(((x[:, None] - x) / [0.8, 1.7]) ** 2, axis=-1)
    assert_allclose(kernel(x), 1.0 / (1.0 + 0.5 * r2), rtol=1e-14)
    step = 1e-6 * np.array([1.0, 0.0])
    up, down = (kernel.with_log_lengthscales(kernel.log_lengthscales + sign * step)(x) for sign in (1, -1))
    assert_allclose(kernel.derivatives(x)[0], (up - down) / 2e-6, atol=1e-8)


@pytest.mark.parametrize("measure", [Gaussian(0.3, cov=0.7), Uniform(-0.5, 1.3), Gamma(2.6, 1.5)])
@pytest.mark.parametrize(
    "kernel", [Rational(0.4), Rational(0.7) + 2.0 * Rational(0.2), Warped(Rational(0.5), "whiten")]
)
def test_embeddings_on_the_line_agree_with_quadrature(kernel, measure):
    x = np.array([[-0.4], [0.3], [2.0]])
    formula, quadrature = cbq.embed(kernel, measure), cbq.embed(kernel, measure, method="quadrature")
    assert_allclose(formula.mean(x), quadrature.mean(x), rtol=1e-10)
    assert_allclose(formula.variance, quadrature.variance, rtol=1e-9)


@pytest.mark.parametrize("kind", [TensorProduct, Additive])
def test_embeddings_in_the_plane_are_made_from_coordinates(kind):
    x = np.array([[0.1, 0.2], [-1.0, 2.0]])
    embedding = cbq.embed(kind(Rational(0.9)), BOTH)
    assert_allclose(embedding.mean(x), cbq.embed(embedding.kernel, BOTH, method="quadrature").mean(x), rtol=1e-6)


def test_without_a_rule_over_scales_the_radial_kernel_is_refused_in_the_plane():
    with pytest.raises(NoEmbedding, match=r"Rational has no scale_rule. Use TensorProduct\(Rational"):
        cbq.embed(Rational(0.9), BOTH)


def test_a_stein_kernel_of_it_integrates_to_zero():
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    kernel = Stein(Rational(1.5), Gaussian(0.0, cov=1.0))
    assert abs(weights @ kernel(nodes, [0.3])[:, 0]) < 1e-6


@pytest.mark.parametrize(
    ("estimator", "tolerance"),
    [
        (cbq.CBQ(kernel_x=Rational(), kernel_theta=Rational()), 5e-3),
        (cbq.CBQ(kernel_x=Warped(Rational(), "log"), borrow=40), 5e-3),
        (cbq.MOBQ(kernel_x=Rational()), 5e-3),
        (cbq.MOBQ(kernel_x=[Rational(), Warped(Rational(), "log")], nystrom=50), 5e-3),
        (cbq.KLSMC(kernel=Rational()), 0.05),  # averages of 20 Sobol points
    ],
    ids=["CBQ", "CBQ, borrowing", "MOBQ", "MOBQ, landmarks", "KLSMC"],
)
def test_estimators_take_it_and_save_their_fits(estimator, tolerance, tmp_path):
    fit = estimator.fit(PROBLEM.collect(T=12, N=20, rng=0, design="sobol"))
    mean = fit.predict(NEW)
    assert_allclose(mean, EXACT, atol=tolerance)  # I is between 0.2 and 0.7
    fit.save(tmp_path / "fit.cbq")
    assert_allclose(cbq.load(tmp_path / "fit.cbq", family=PROBLEM.family).predict(NEW), mean, rtol=1e-12)


def test_further_runs_are_suggested():
    fit = cbq.MOBQ(kernel_x=Rational()).fit(PROBLEM.collect(T=12, N=20, rng=0))
    assert fit.suggest(3, rng=0).x.shape == (3, 1)
