"""The measure of some coordinates given others: densities multiply to the density of all."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cbq.measures import Empirical, Exponential, Gamma, Gaussian, LogNormal, Mixture, Product, Uniform

A = np.random.default_rng(0).normal(size=(4, 4))
COV, MEAN = 0.2 * (A @ A.T + np.eye(4)), A[0]
MEASURES = {
    "Gaussian": Gaussian(MEAN, cov=COV),
    "diagonal Gaussian": Gaussian(MEAN, std=[1.0, 2.0, 3.0, 0.5]),
    "LogNormal": LogNormal(0.3 * MEAN, cov=0.3 * COV),
    "Uniform": Uniform([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 5.0, 7.0]),
    "Mixture": Mixture([0.3, 0.7], [Gaussian(MEAN, cov=COV), Gaussian(-MEAN, cov=2 * COV)]),
    "Product": Product([Gamma(2.0, 1.0), Gaussian(MEAN[:2], cov=COV[:2, :2]), Exponential(2.0)]),
}


@pytest.mark.parametrize("kept", [[0], [2], [0, 3], [1, 2, 3], [1, 2]])
@pytest.mark.parametrize("measure", MEASURES.values(), ids=list(MEASURES))
def test_densities_follow_the_chain_rule(measure, kept):
    x = measure.sample(7, 1)
    rest = [j for j in range(4) if j not in kept]
    others = measure.given(kept, x[:, kept])
    given = np.ravel(np.broadcast_to(others.logpdf(x[:, None, rest]), (7, 1)))
    assert_allclose(given + measure.marginals(kept).logpdf(x[:, kept]), measure.logpdf(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("measure", MEASURES.values(), ids=list(MEASURES))
def test_drawing_some_and_then_the_rest_draws_from_the_measure(measure):
    u, v = np.random.default_rng(2).random((2, 8_000, 4))
    x = measure.transport(u)
    x[:, [0, 2]] = measure.given([1, 3], x[:, [1, 3]]).transport(v[:, None, [0, 2]])[:, 0]
    mean, cov = measure.moments()
    std = np.sqrt(np.diag(cov))
    assert_allclose(np.mean(x, axis=0), mean, atol=5 * np.max(std) / np.sqrt(8_000))
    assert_allclose(np.cov(x.T) / np.outer(std, std), cov / np.outer(std, std), atol=0.15)


def test_every_measure_of_a_batch_has_its_own():
    means = np.arange(12.0).reshape(3, 4)
    batch, x = Gaussian(means, cov=COV[None]), np.array([[1.0], [2.0], [3.0]])
    found = batch.given([2], x)
    for t in range(3):
        assert_allclose(found.mean[t], Gaussian(means[t], cov=COV).given([2], x[t]).mean, rtol=1e-12)


def test_nothing_kept_is_the_measure_itself():
    measure = MEASURES["Gaussian"]
    assert measure.given([], np.empty((5, 0))) is measure
    assert measure.marginals(range(4)) is measure


def test_what_has_no_conditional_is_refused_in_a_sentence():
    with pytest.raises(NotImplementedError, match="Empirical in 2 dimensions does not implement"):
        Empirical(np.eye(2)).given([0], [[1.0]])


def test_wrong_coordinates_are_refused():
    measure = MEASURES["Gaussian"]
    with pytest.raises(ValueError, match="kept must leave some of the 4 coordinates"):
        measure.given([0, 1, 2, 3], np.ones((1, 4)))
    with pytest.raises(ValueError, match="x must hold values"):
        measure.given([0], np.ones((1, 2)))
    with pytest.raises(IndexError, match="kept must be an integer from 0 to 3"):
        measure.marginals([4])
