"""Kernels of a user's own from one method, with embeddings from functions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ive

import cbq
from cbq.embeddings import FunctionEmbedding, NoEmbedding, register
from cbq.kernels import RBF, CustomKernel, TensorProduct, Warped
from cbq.measures import Gaussian, Uniform

X = np.array([0.05, 0.3, 0.8])


class Brownian(CustomKernel):
    number = 0

    def evaluate(self, x, y, lengthscale):
        assert lengthscale.shape == (0,)
        return np.minimum(x, y.T)


class Square(CustomKernel):
    """RBF, with a lengthscale for each of two coordinates."""

    number, smoothness = 2, np.inf

    def evaluate(self, x, y, lengthscale):
        return RBF(lengthscale)(x, y)


class Periodic(CustomKernel):
    smoothness = np.inf

    def evaluate(self, x, y, lengthscale):
        return np.exp(-2 * np.sin(np.pi * (x - y.T)) ** 2 / lengthscale**2)


@register(Brownian, Uniform)
def brownian_uniform(kernel, measure):
    """Under Uniform(0, b): x - x^2 / (2 b), and b / 3."""

    def mean(x, one, lengthscale):
        return x[:, 0] - x[:, 0] ** 2 / (2 * one.upper[0])

    return FunctionEmbedding(kernel, measure, mean, lambda one, lengthscale: one.upper[0] / 3)


@register(Periodic, Uniform)
def periodic_uniform(kernel, measure):
    """exp(-1 / l^2) I_0(1 / l^2) under Uniform(0, 1)."""
    return FunctionEmbedding(kernel, measure, lambda x, one, ell: np.full(len(x), ive(0, ell**-2.0)))


def test_matrices_derivatives_and_diagonals_are_those_of_the_formula():
    x = np.random.default_rng(0).normal(size=(3, 5, 2))
    own, known = Square([0.7, 1.3]), RBF([0.7, 1.3])
    assert_allclose(own(x), known(x), rtol=1e-14)
    assert_allclose(own(x, x[:, :2]), known(x, x[:, :2]), rtol=1e-14)
    assert_allclose(own.derivatives(x), known.derivatives(x), atol=1e-7)
    assert_allclose(own.diag(x), np.ones((3, 5)))
    assert_allclose(Brownian().diag(np.linspace(0.1, 1.0, 150)), np.linspace(0.1, 1.0, 150))
    batch = np.log([[[0.5, 1.0]], [[2.0, 3.0]]])
    assert_allclose(own.with_log_lengthscales(batch)(x), known.with_log_lengthscales(batch)(x), rtol=1e-14)


def test_combinations_take_it():
    x = X[:, None]
    total = 2.0 * Periodic(0.5) + Brownian() * RBF(1.0)
    assert_allclose(total(x), 2 * Periodic(0.5)(x) + Brownian()(x) * RBF(1.0)(x))
    assert_allclose(Warped(Brownian(), np.exp)(x), np.minimum(np.exp(x), np.exp(x).T))
    assert total.n_lengthscales == 2


def test_lengthscales_that_are_none_are_free():
    kernel, free = Square().to_fit(np.random.default_rng(0).normal(size=(50, 2)), ard=True)
    assert free.all()
    assert kernel.n_lengthscales == 2
    assert not Brownian().to_fit(X, ard=False)[1].size
    with pytest.raises(ValueError, match="has no lengthscale yet"):
        Periodic()(X)


@pytest.mark.parametrize("kernel", [Brownian(), Periodic(0.4)], ids=repr)
def test_embeddings_agree_with_quadrature(kernel):
    own, numerical = (cbq.embed(kernel, Uniform(0.0, 1.0), method=m) for m in ("auto", "quadrature"))
    assert_allclose(own.mean(X), numerical.mean(X), rtol=1e-10)
    assert_allclose(own.variance, numerical.variance, rtol=1e-9)


def test_batches_of_measures_and_lengthscales_are_taken_one_by_one():
    measures, x = Uniform(np.zeros((2, 1)), np.array([[0.9], [2.0]])), np.stack([X, 2 * X])[..., None]
    embedding = cbq.embed(Brownian(), measures)
    assert_allclose(embedding.variance, [0.3, 2 / 3])
    for t, end in enumerate((0.9, 2.0)):
        assert_allclose(embedding.mean(x)[t], x[t, :, 0] - x[t, :, 0] ** 2 / (2 * end))
    several = Periodic(1.0).with_log_lengthscales(np.log([[0.4], [0.8]]))
    expected = [ive(0, 0.4**-2), ive(0, 0.8**-2)]
    assert_allclose(cbq.embed(several, Uniform(0.0, 1.0)).variance, expected, rtol=1e-9)  # the integral of the mean
    wide, unit = Uniform(0.0, 2.0), Uniform(0.0, 1.0)
    one = cbq.embed(Brownian(), wide)
    assert_allclose(one.cross(unit), np.mean([0.5, 0]) * 2 - 1 / 12, rtol=1e-9)  # E (Y - Y^2 / 4), Y ~ Uniform(0, 1)


SAMPLES = cbq.Problem(
    lambda x, theta: theta[0] + np.sin(2 * np.pi * x[:, 0]), lambda theta: Uniform(0.0, 1.0), Uniform(1.0, 2.0)
).collect(8, 12, rng=0)


@pytest.mark.parametrize("kernel", [Brownian(), Periodic(), Periodic(0.7)], ids=repr)
@pytest.mark.parametrize(
    "method", [lambda k: cbq.CBQ(kernel_x=k), lambda k: cbq.CBQ.paper(k), lambda k: cbq.MOBQ(kernel_x=k)]
)
def test_estimators_take_it(method, kernel):
    mean, std = method(kernel).fit(SAMPLES).predict([1.3, 1.7], return_std=True)
    assert_allclose(mean, [1.3, 1.7], atol=0.15)
    assert np.all(std > 0)


def test_a_kernel_of_theta_needs_no_embedding():
    fit = cbq.CBQ(kernel_theta=Brownian()).fit(SAMPLES)
    assert_allclose(fit.predict([1.5]), [1.5], atol=0.15)


def test_other_measures_have_no_rule():
    with pytest.raises(NoEmbedding, match="no closed form for Brownian under Gaussian"):
        cbq.embed(Brownian(), Gaussian(0.0, std=1.0))
    assert cbq.embed(TensorProduct([Brownian(), RBF(1.0)]), Uniform([0.0, 0.0], [1.0, 1.0])).variance > 0


class Wrong(CustomKernel):
    def evaluate(self, x, y, lengthscale):
        return np.ones(len(x))


@pytest.mark.parametrize(
    ("attempt", "match"),
    [
        (
            lambda: Wrong(1.0)(X),
            r"evaluate returned shape \(3,\) for 3 points x and 3 points y: it must return \(3, 3\)",
        ),
        (lambda: Brownian(1.0), "Brownian has no lengthscale"),
        (lambda: Square([1.0, 2.0, 3.0]), r"lengthscale has shape \(3,\), but Square has 2"),
        (lambda: Periodic(-1.0), "lengthscale must be positive"),
        (lambda: Periodic(1.0).with_log_lengthscales([0.0, 0.0]), "1 values are expected"),
        (
            lambda: FunctionEmbedding(Brownian(), Uniform(0.0, 1.0), lambda x, m, ell: 1.0).mean(X),
            r"mean returned shape \(\) for 3 points",
        ),
        (
            lambda: FunctionEmbedding(Brownian(), Uniform(0.0, 1.0), lambda x, m, ell: x[:, 0] * np.nan).mean(X),
            "the result of mean must be finite",
        ),
    ],
)
def test_wrong_shapes_and_values_are_refused(attempt, match):
    with pytest.raises(ValueError, match=match):
        attempt()


def test_an_embedding_needs_functions():
    with pytest.raises(TypeError, match="mean must be a function"):
        FunctionEmbedding(Brownian(), Uniform(0.0, 1.0), 3.0)
