"""Inputs given some of them: against the conditionals of a joint Gaussian."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cbq
from cbq.indices.inputs import Hierarchy, OneMeasure, joint_inputs
from cbq.measures import Gaussian, Uniform
from cbq.runs import sobol

N = 2**12


def hierarchical_samples():
    """theta ~ N(0, 1), x_0 | theta ~ N(theta, 0.5^2), x_1 ~ N(0, 1)."""
    problem = cbq.Problem(
        lambda x, theta: x[:, 0] + theta[0] + x[:, 1],
        lambda theta: Gaussian([theta[0], 0.0], std=[0.5, 1.0]),
        Gaussian(0.0, std=1.0),
    )
    return problem, problem.collect(6, 6, rng=0, design="sobol")


COV = np.array([[1.0, 1.0, 0.0], [1.0, 1.25, 0.0], [0.0, 0.0, 1.0]])


def conditional_moments(kept):
    """The slopes on the kept inputs, and the covariance of the others given these."""
    rest = [j for j in range(3) if j not in kept]
    slopes = COV[np.ix_(rest, kept)] @ np.linalg.inv(COV[np.ix_(kept, kept)])
    return rest, slopes, COV[np.ix_(rest, rest)] - slopes @ COV[np.ix_(kept, rest)]


@pytest.mark.parametrize("kept", [[0], [1], [2], [0, 1], [1, 2], [0, 2]])
@pytest.mark.parametrize("kind", ["hierarchy", "one measure"])
def test_the_others_have_their_conditional_distribution(kind, kept):
    problem, samples = hierarchical_samples()
    inputs = (
        joint_inputs(samples, problem.prior)
        if kind == "hierarchy"
        else OneMeasure(Gaussian(np.zeros(3), cov=COV), ("a", "b", "c"), 1)
    )
    assert isinstance(inputs, Hierarchy if kind == "hierarchy" else OneMeasure)
    u, v = sobol(N, 6, np.random.default_rng(0)).reshape(N, 2, 3).swapaxes(0, 1)
    x = inputs.points(u)
    found = inputs.given(kept, x, v)
    rest, slopes, cov = conditional_moments(kept)
    residual = found[:, rest] - x[:, kept] @ slopes.T
    assert_allclose(found[:, kept], x[:, kept])
    assert_allclose(np.mean(residual, axis=0), 0.0, atol=0.02)
    assert_allclose(np.cov(residual.T), cov if len(rest) > 1 else cov[0, 0], atol=0.03)
    assert_allclose(np.cov(residual.T, x[:, kept].T)[: len(rest), len(rest) :], 0.0, atol=0.03)


def test_a_family_of_equal_measures_is_one_measure():
    problem = cbq.problems.get("sobol-g")
    inputs = joint_inputs(problem.collect(4, 4, rng=0), problem.prior)
    assert isinstance(inputs, OneMeasure)
    assert inputs.names == ("theta", "x_0", "x_1", "x_2")
    x, theta = inputs.parts(inputs.points(np.full((2, 4), 0.25)))
    assert x.shape == (2, 3)
    assert theta.shape == (2, 1)


def test_a_family_without_a_stack_works_as_well():
    """Measures of different types at different thetas, which no batch holds."""
    problem = cbq.Problem(
        lambda x, theta: x[:, 0] + theta[0] * x[:, 1],
        lambda theta: Gaussian([0.0, 0.0], std=1.0) if theta[0] < 0.5 else Uniform([-1.0, -1.0], [1.0, 1.0]),
        Uniform(0.0, 1.0),
    )
    samples = problem.collect(4, 6, rng=0)
    inputs = Hierarchy(problem.prior, samples, ("theta", "x_0", "x_1"), atoms=64)
    u, v = np.random.default_rng(0).random((2, 50, 3))
    x = inputs.points(u)
    outside = np.abs(x[:, 1]) > 1  # which only a Gaussian gives
    found = inputs.given([1], x, v)
    assert np.any(outside)
    assert np.all(found[outside, 0] < 0.5)
