"""Where f has no finite variance under measures whose tails fall as a power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import cbq
from cbq.fit.heavy_tails import has_long_tails, infinite_variance, power_tail, tail_exponent
from cbq.measures import (
    Beta,
    Exponential,
    Gamma,
    LogNormal,
    Mixture,
    Normal,
    Product,
    StudentT,
    Uniform,
    Unnormalised,
    from_scipy,
)
from quiet import silent


def product(theta):
    return Product([StudentT(2.5, theta[0], 1.0), Normal(theta[0], std=1.0)])


def collected(f, family, N=30, seed=0):
    return cbq.Problem(f, family, Uniform(0.0, 2.0)).collect(10, N, rng=seed, progress=False)


@pytest.mark.parametrize(
    ("measure", "exponent"),
    [
        (StudentT(2.5, 3.0, 0.1), 2.5),
        (StudentT(1.0, 0.0, 10.0), 1.0),
        (from_scipy(stats.pareto(3.0)), 3.0),
        (from_scipy(stats.invgamma(2.5)), 2.5),
        (Mixture([0.9, 0.1], [Normal(0.0, std=1.0), StudentT(3.0, 0.0, 1.0)]), 3.0),
        (product([0.5]).marginal(0), 2.5),
    ],
    ids=repr,
)
def test_the_exponent_of_power_tails(measure, exponent):
    assert tail_exponent(measure) == pytest.approx(exponent, rel=0.01)


@pytest.mark.parametrize(
    "measure",
    [
        Normal(0.0, std=1.0),
        Gamma(0.5, 1.0),
        Exponential(1.0),
        LogNormal(0.0, std=0.3),
        LogNormal(0.0, std=3.0),
        Uniform(0.0, 1.0),
        Beta(0.5, 0.5),
        from_scipy(stats.weibull_min(0.4)),
        from_scipy(stats.laplace()),
    ],
    ids=repr,
)
def test_other_tails_fall_faster_than_any_power(measure):
    with np.errstate(all="ignore"):
        assert tail_exponent(measure) == np.inf


@pytest.mark.parametrize("seed", range(3))
def test_a_square_of_a_heavy_input_is_found_inside_a_product(seed):
    found = power_tail(collected(lambda x, theta: x[:, 0] ** 2 + np.sin(x[:, 1]), product, seed=seed))
    assert found is not None
    assert found.coordinate == 0
    assert found.exponent == pytest.approx(2.5, rel=0.01)
    assert 1.25 <= found.growth <= 3.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "f",
    [
        lambda x, theta: np.sin(x[:, 0]) + x[:, 1] ** 4,
        lambda x, theta: x[:, 0] + x[:, 1],
        lambda x, theta: x[:, 1] ** 2,
    ],
    ids=["bounded along it", "linear", "of the other input"],
)
def test_f_of_finite_variance_is_not_found(f, seed):
    assert power_tail(collected(f, product, seed=seed)) is None


@pytest.mark.parametrize("estimator", [cbq.CBQ(), cbq.MOBQ(), cbq.LSMC()], ids=lambda each: type(each).__name__)
def test_every_estimator_names_it(estimator):
    samples = collected(lambda x, theta: x[:, 0] ** 2 + np.sin(x[:, 1]), product)
    with silent():
        texts = [each.text for each in estimator.fit(samples).serious_findings if each.kind == "tails"]
    assert any("no finite variance" in each and "|x_0|^" in each for each in texts)


def test_few_points_in_heavy_tails_are_named():
    rng = np.random.default_rng(0)
    theta = np.linspace(0.0, 1.0, 8)

    def found(df, n):
        x = theta[:, None] + rng.standard_t(df, (8, n))
        samples = cbq.Samples(theta, x, np.sin(x), lambda t: StudentT(df, t[0], 1.0))
        return [each.text for each in infinite_variance(samples)]

    assert any("too few points lie there" in each and "power -2.5" in each for each in found(2.5, 5))
    assert found(2.5, 60) == []  # which show that the sine does not grow
    assert found(6.0, 5) == []


def test_measures_without_quantiles_are_left_alone():
    x = np.random.default_rng(0).standard_normal((2, 40))
    for measure in (Unnormalised(score=lambda x: -x, dim=1), None):
        assert infinite_variance(cbq.Samples([0.0, 1.0], x, x**2, measure)) == ()


@pytest.mark.parametrize("seed", range(3))
def test_points_that_are_outermost_in_a_light_input_do_not_hide_those_of_a_heavy_one(seed):
    with silent():
        fit = cbq.CBQ().fit(collected(lambda x, theta: x[:, 0] ** 2 + np.sin(x[:, 1]), product, seed=seed))
    assert fit.stage1.stretch[0] > 2.0  # 1.3 to 1.5 with the outermost points of both inputs together


@pytest.mark.parametrize(
    ("measure", "is_long"),
    [
        (StudentT(2.5, 3.0, 0.1), True),
        (LogNormal(0.0, std=2.0), True),  # between the probabilities x grows as exp(2 z), z from 2.33 to 3.72
        (LogNormal(0.0, std=0.5), False),
        (Gamma(0.3, 1.0), False),
        (Normal(5.0, std=1e-3), False),
        (product([0.5]), True),
        (Unnormalised(score=lambda x: -x, dim=1), False),
    ],
    ids=repr,
)
def test_long_tails_fall_more_slowly_than_a_fourth_power(measure, is_long):
    x = np.linspace(0.1, 1.0, 20).reshape(2, 10, 1) * np.ones(measure.dim)
    assert has_long_tails(cbq.Samples([0.0, 1.0], x, x[..., 0], measure)) == is_long
