"""Distributions of scipy.stats, of both kinds and discrete ones, are measures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import cbq
from cbq.measures import (
    Binomial,
    Categorical,
    Gaussian,
    LogNormal,
    Mixture,
    Poisson,
    ScipyVariable,
    TruncatedGaussian,
    Uniform,
    as_measure,
    from_scipy,
)
from quiet import silent
from refusals import refusals

NORMAL = stats.Normal(mu=0.5, sigma=2.0)

RECOGNISED = {
    "standard": (stats.Normal(), Gaussian(0.0, std=1.0)),
    "normal": (NORMAL, Gaussian(0.5, std=2.0)),
    "batch": (stats.Normal(mu=[1.0, 2.0], sigma=[2.0, 3.0]), Gaussian([[1.0], [2.0]], std=[[2.0], [3.0]])),
    "shifted": (1 - 2 * stats.Normal(), Gaussian(1.0, std=2.0)),
    "uniform": (stats.Uniform(a=-1.0, b=2.0), Uniform(-1.0, 2.0)),
    "mirrored": (1 - 2 * stats.Uniform(a=0.0, b=2.0), Uniform(-3.0, 1.0)),
    "exponential": (stats.exp(NORMAL), LogNormal(0.5, std=2.0)),
    "truncated": (stats.truncate(NORMAL, lb=0.0, ub=3.0), TruncatedGaussian(0.5, 2.0, 0.0, 3.0)),
    "half": (stats.truncate(NORMAL, lb=0.0), TruncatedGaussian(0.5, 2.0, 0.0)),
    "mixture": (
        stats.Mixture([NORMAL, stats.Normal()], weights=[0.3, 0.7]),
        Mixture([0.3, 0.7], [Gaussian(0.5, std=2.0), Gaussian(0.0, std=1.0)]),
    ),
    "frozen binomial": (stats.binom(6, [0.3, 0.4]), Binomial(6, [0.3, 0.4])),
    "frozen bernoulli": (stats.bernoulli(0.3), Binomial(1, 0.3)),
    "frozen Poisson": (stats.poisson(3.0), Poisson(3.0)),
    "table": (stats.rv_discrete(values=([1, 2, 5], [0.2, 0.3, 0.5]))(), Categorical([0.2, 0.3, 0.5], [1.0, 2.0, 5.0])),
}
if hasattr(stats, "Binomial"):  # since scipy 1.16
    RECOGNISED["binomial"] = (stats.Binomial(n=6, p=0.3), Binomial(6, 0.3))


@pytest.mark.parametrize(("given", "measure"), RECOGNISED.values(), ids=RECOGNISED)
def test_known_families_have_their_closed_forms(given, measure):
    assert as_measure(given).equals(measure)
    assert from_scipy(given).equals(measure)


OTHERS = {
    "weibull": (stats.make_distribution(stats.weibull_min)(c=1.5), stats.weibull_min(1.5)),
    "gamma": (stats.make_distribution(stats.gamma)(a=2.0), stats.gamma(2.0)),
    "folded": (stats.abs(stats.Normal()), stats.halfnorm()),
    "scaled": (3 * stats.make_distribution(stats.gamma)(a=2.0) + 1, stats.gamma(2.0, loc=1, scale=3)),
}


@pytest.mark.parametrize(("given", "frozen"), OTHERS.values(), ids=OTHERS)
def test_any_continuous_variable_is_a_measure(given, frozen):
    measure = as_measure(given)
    assert isinstance(measure, ScipyVariable)
    u = np.array([1e-6, 0.2, 0.5, 0.999])
    x = frozen.ppf(u)
    np.testing.assert_allclose(measure.transport(u)[:, 0], x, rtol=1e-7)
    np.testing.assert_allclose(measure.inverse_transport(x)[:, 0], u, rtol=1e-9)
    np.testing.assert_allclose(measure.logpdf(x), frozen.logpdf(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        [float(np.squeeze(each)) for each in measure.moments()], [frozen.mean(), frozen.var()], rtol=1e-9
    )
    np.testing.assert_allclose(measure.score(x[1:3]), from_scipy(frozen).score(x[1:3]), rtol=1e-6)
    np.testing.assert_array_equal(np.ravel(measure.support), frozen.support())
    assert repr(given) in repr(measure)


DISCRETE = {
    "nbinom": stats.nbinom(5, 0.3),
    "geom": stats.geom([0.2, 0.7]),
    "hypergeom": stats.hypergeom(20, 7, 12),
    "randint": stats.randint(2, 6),
    "shifted Poisson": stats.poisson(3.0, loc=2),
    "skellam": stats.skellam(3.0, 4.0),
}


@pytest.mark.parametrize("frozen", DISCRETE.values(), ids=DISCRETE)
def test_any_discrete_distribution_is_a_finite_sum(frozen):
    measure = as_measure(frozen)
    assert isinstance(measure, Categorical)
    mean, cov = measure.moments()
    np.testing.assert_allclose(mean[..., 0], frozen.mean(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(cov[..., 0, 0], frozen.var(), rtol=1e-12)
    k = np.arange(-3.0, 12.0)
    pmf = frozen.pmf(k if not measure.batch_shape else k[:, None])
    found = np.exp(measure.logpdf(k if not measure.batch_shape else np.broadcast_to(k[:, None], (2, 15, 1))))
    np.testing.assert_allclose(found, pmf.T, rtol=1e-12, atol=1e-17)


def test_a_discrete_variable_of_the_new_kind_is_a_finite_sum():
    if not hasattr(stats, "Binomial"):
        pytest.skip("scipy before 1.16 has no discrete random variables")
    measure = as_measure(stats.make_distribution(stats.poisson)(mu=2.0))
    np.testing.assert_allclose(measure.logpdf(np.arange(9.0)), stats.poisson(2).logpmf(np.arange(9)), rtol=1e-12)


@pytest.mark.parametrize("family", [lambda t: stats.Normal(mu=t[0]), lambda t: stats.abs(stats.Normal()) + t[0]])
def test_a_family_may_return_random_variables(family):
    problem = cbq.Problem(lambda x, t: x[:, 0], family, stats.Uniform(a=0.0, b=1.0), depends_on_theta=False)
    with silent():
        fit = cbq.CBQ().fit(problem.collect(6, 12, rng=0, design="sobol"))
        found = fit.predict([0.4])
    assert found[0] == pytest.approx(float(family([0.4]).mean()), abs=5e-3)


REFUSED = {
    "batch of compositions": (lambda: as_measure(stats.abs(stats.Normal(mu=[0.0, 1.0]))), "pass one for each theta"),
    "class": (lambda: as_measure(stats.Normal), "is needed"),
    "frozen, as a variable": (lambda: ScipyVariable(stats.norm(0, 1)), "must be a continuous random variable"),
    "index": (lambda: as_measure(stats.abs(stats.Normal()))[1], "index|single measure"),
}
test_refused = refusals(REFUSED, (TypeError, ValueError, IndexError))
