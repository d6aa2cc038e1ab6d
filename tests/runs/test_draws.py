"""Draws of thetas and points: what they depend on, and what they do not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cbq.common.checks import run_entropy
from cbq.measures import (
    Beta,
    Empirical,
    Exponential,
    Gamma,
    Gaussian,
    LogNormal,
    Mixture,
    Product,
    StudentT,
    TruncatedGaussian,
    Uniform,
    as_measure,
)
from cbq.problems.problem import Problem
from cbq.runs.draws import Draws

ENTROPY = run_entropy(0)


def covariance(d):
    root = np.random.default_rng(d).standard_normal((d, d))
    return root @ root.T + np.eye(d)


MEASURES = {
    "beta": Beta(2.0, 3.0),
    "empirical": Empirical(np.random.default_rng(0).standard_normal((30, 2))),
    "exponential": Exponential(2.0),
    "gamma": Gamma(3.0, 2.0),
    "gaussian": Gaussian([1.0, 2.0], cov=covariance(2)),
    "gaussian 5": Gaussian(np.zeros(5), cov=covariance(5)),
    "gaussian 40": Gaussian(np.ones(40), cov=covariance(40)),
    "lognormal": LogNormal(np.zeros(3), cov=covariance(3)),
    "mixture": Mixture([0.3, 0.7], [Gaussian(0.0, 1.0), Gaussian(4.0, cov=2.0)]),
    "mixture 2": Mixture([0.5, 0.5], [Gaussian(np.zeros(2), cov=covariance(2)), Uniform([0.0, 0.0], [1.0, 2.0])]),
    "mixture of mixtures": Mixture([0.5, 0.5], [Mixture([0.5, 0.5], [Gamma(2.0, 1.0), Gamma(9.0, 1.0)]), Beta(2, 2)]),
    "product": Product([Gamma(2.0, 1.0), Mixture([0.3, 0.7], [Gaussian(0.0, 1.0), Gaussian(4.0, cov=2.0)])]),
    "scipy": as_measure(stats.gumbel_r(1.0, 2.0)),
    "student": StudentT(4.0, 0.0, 1.0),
    "truncated": TruncatedGaussian(0.0, 1.0, -1.0, np.inf),
    "uniform": Uniform([0.0, 1.0], [1.0, 3.0]),
}


def drawn(measure, n, design, scramble="independent"):
    return Draws(design, scramble, ENTROPY).points([measure], [n])[0]


@pytest.mark.parametrize("design", ["iid", "sobol"])
@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_points_are_prefix_stable(measure, design):
    long = drawn(measure, 150, design)
    assert long.shape == (150, measure.dim)
    for n in (1, 2, 7, 64, 65, 100):
        np.testing.assert_array_equal(drawn(measure, n, design), long[:n])


@pytest.mark.parametrize("design", ["iid", "sobol"])
@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_thetas_are_prefix_stable(measure, design):
    draws = Draws(design, "independent", ENTROPY)
    np.testing.assert_array_equal(draws.thetas(measure, 5), draws.thetas(measure, 70)[:5])


@pytest.mark.parametrize("design", ["iid", "sobol"])
@pytest.mark.parametrize("name", sorted(set(MEASURES) - {"empirical"}))
def test_draws_follow_their_measure(name, design):
    """Points are transported back to the unit cube, where each coordinate must be uniform."""
    measure = MEASURES[name]
    u = measure.inverse_transport(drawn(measure, 2000, design))
    for j in range(min(measure.dim, 3)):
        assert stats.kstest(u[:, j], "uniform").pvalue > 1e-4


@pytest.mark.parametrize(("which", "same"), [("common", True), ("independent", False)])
def test_a_common_scramble_gives_all_thetas_the_same_points_of_the_unit_cube(which, same):
    measures = [Gaussian([0.0, 1.0], cov=covariance(2)), Gaussian([3.0, 4.0], cov=2.0)]
    draws = Draws("sobol", which, ENTROPY)
    x = draws.points(measures, [32, 20])
    u = [measure.inverse_transport(points) for measure, points in zip(measures, x, strict=True)]
    assert np.allclose(u[0][:20], u[1], atol=1e-12) is same
    thetas = draws.thetas(Uniform([0.0, 0.0], [1.0, 1.0]), 32)
    assert not np.any(np.isclose(thetas, u[0]))


def f(x, theta):
    return x[:, 0]


PROBLEM = Problem(f, lambda theta: Gaussian(theta, 1.0), Uniform([0.0, 1.0], [1.0, 4.0]))


def test_collect_with_a_common_scramble():
    options = {"rng": 3, "design": "sobol", "scramble": "common"}
    long, short = PROBLEM.collect(5, 40, **options), PROBLEM.collect(3, [9, 40, 1], **options)
    np.testing.assert_array_equal(short.theta, long.theta[:3])
    for t, n in enumerate((9, 40, 1)):
        np.testing.assert_array_equal(short.points(t), long.points(t)[:n])
    moved = long.x - long.theta[:, None, :]
    np.testing.assert_allclose(moved, np.broadcast_to(moved[:1], moved.shape), atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scramble": "none"}, "scramble must be 'independent' or 'common', but it is 'none'"),
        ({"scramble": "common", "design": "iid"}, "scramble='common' is for Sobol points"),
    ],
)
def test_scramble_is_checked(options, message):
    with pytest.raises(ValueError, match=message):
        PROBLEM.collect(3, 4, **{"rng": 0, "design": "sobol", **options})
