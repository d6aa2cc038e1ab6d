"""Discrete measures are finite sums: exact where all atoms are known, and at home wherever measures are taken."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import cbq
from cbq.embeddings import NoEmbedding
from cbq.kernels import RBF, Matern, Stein, TensorProduct, Warped
from cbq.measures import (
    Binomial,
    Categorical,
    Empirical,
    Gamma,
    Gaussian,
    LogMeasure,
    Mixture,
    Poisson,
    Product,
    Uniform,
    as_measure,
)
from cbq.measures.base import stack
from quiet import silent
from refusals import refusals

PRIOR = Uniform(0.2, 0.8)
THETA = np.linspace(0.2, 0.8, 7)


def f(x, theta=None):
    return np.exp(-0.3 * x[..., 0]) + 0.1 * x[..., 0] ** 2


def mean_of_f(measure):
    return np.sum(measure.weights * f(measure.points), axis=-1)


# probabilities and atoms


@pytest.mark.parametrize(("n", "p"), [(5, 0.3), (1000, 0.01), (100_000, 0.7), (1, 0.5), (7, 1 - 1e-12)])
def test_binomial_probabilities_have_all_digits(n, p):
    for k in {0, n // 3, int(n * p), n}:
        with mp.workdps(40):
            exact = mp.log(mp.binomial(n, k)) + k * mp.log(mp.mpf(p)) + (n - k) * mp.log(1 - mp.mpf(p))
        assert Binomial(n, p).logpdf(k) == pytest.approx(float(exact), rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("rate", [1e-3, 1.0, 30.0, 1e6])
def test_poisson_probabilities_have_all_digits(rate):
    for k in {0, 2, int(rate), int(1.3 * rate)}:
        with mp.workdps(40):
            exact = k * mp.log(mp.mpf(rate)) - mp.mpf(rate) - mp.loggamma(k + 1)
        assert Poisson(rate).logpdf(k) == pytest.approx(float(exact), rel=1e-13, abs=1e-13)


@pytest.mark.parametrize(
    ("measure", "frozen"),
    [(Poisson(r), stats.poisson(r)) for r in (1e-3, 2.0, 1e5)]
    + [(Binomial(n, p), stats.binom(n, p)) for n, p in ((7, 0.4), (10**6, 0.3), (10**6, 1e-5))],
    ids=["rare", "few", "many", "small", "large", "large and rare"],
)
def test_atoms_hold_all_but_a_negligible_mass(measure, frozen):
    k = measure.points[:, 0]
    assert frozen.cdf(k[0] - 1) + frozen.sf(k[-1]) < 1e-16
    assert np.sum(measure.weights) == pytest.approx(1.0, abs=1e-14)
    u = np.array([0.01, 0.3, 0.5, 0.99])
    np.testing.assert_array_equal(measure.transport(u)[:, 0], frozen.ppf(u))


def test_degenerate_parameters():
    assert Binomial(4, [0.0, 1.0]).sample(3, 0)[..., 0].tolist() == [[0, 0, 0], [4, 4, 4]]
    assert Binomial(0, 0.3).logpdf([0.0, 1.0]).tolist() == [0.0, -np.inf]
    assert Poisson(2.0).logpdf([-1.0, 0.5]).tolist() == [-np.inf, -np.inf]


def test_expectations_have_closed_forms():
    theta = np.array([0.2, 0.5, 0.7])
    pgf = np.exp(-0.3)  # E exp(-0.3 X), and E X^2 = Var X + (E X)^2
    binomial = (1 - theta + theta * pgf) ** 12 + 0.1 * (12 * theta * (1 - theta) + (12 * theta) ** 2)
    poisson = np.exp(9 * theta * (pgf - 1)) + 0.1 * (9 * theta + (9 * theta) ** 2)
    np.testing.assert_allclose(mean_of_f(Binomial(12, theta)), binomial, rtol=1e-13)
    np.testing.assert_allclose(mean_of_f(Poisson(9 * theta)), poisson, rtol=1e-13)


def test_inverse_transport_is_the_middle_of_the_interval_of_an_atom():
    measure = Categorical([0.2, 0.5, 0.3], [-1.0, 2.0, 5.0])
    np.testing.assert_allclose(measure.inverse_transport([-1.0, 2.0, 5.0, 3.0])[:, 0], [0.1, 0.45, 0.85, 0.7])
    for each in (measure, Poisson(3.0)):
        np.testing.assert_array_equal(each.transport(each.inverse_transport(each.sample(20, 0))), each.sample(20, 0))


def test_a_stack_may_have_different_numbers_of_atoms():
    parts = [Categorical([0.5, 0.5]), Categorical([0.2, 0.3, 0.5], [1.0, 4.0, 9.0])]
    both = stack(parts)
    assert both.batch_shape == (2,)
    x = np.arange(10.0)
    np.testing.assert_array_equal(both.logpdf(x[:, None]), [part.logpdf(x) for part in parts])
    np.testing.assert_array_equal(both.support, np.stack([part.support for part in parts], axis=1))


# mixtures and products


def test_a_mixture_of_a_spike_and_a_density():
    measure = Mixture([0.4, 0.6], [Categorical([1.0]), Gamma(2.0, 1.0)])
    u = np.array([0.1, 0.39, 0.4, 0.7, 0.95])
    expected = [0.0, 0.0, 0.0, *stats.gamma(2).ppf((u[3:] - 0.4) / 0.6)]
    np.testing.assert_allclose(measure.transport(u)[:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(measure.logpdf([0.0, 1.5]), [np.log(0.4), np.log(0.6) + stats.gamma(2).logpdf(1.5)])
    np.testing.assert_allclose(measure.inverse_transport([0.0, 1.5])[:, 0], [0.2, 0.4 + 0.6 * stats.gamma(2).cdf(1.5)])
    assert np.mean(measure.sample(4000, 0) == 0) == pytest.approx(0.4, abs=0.05)


def test_a_mixture_of_counts_is_a_sum_over_their_atoms():
    measure = Mixture([0.3, 0.7], [Poisson(1.0), Poisson(8.0)])
    k = np.arange(60.0)
    pmf = 0.3 * stats.poisson(1).pmf(k) + 0.7 * stats.poisson(8).pmf(k)
    np.testing.assert_allclose(np.exp(measure.logpdf(k)), pmf, rtol=1e-11, atol=1e-300)
    u = np.linspace(0.01, 0.99, 23)
    np.testing.assert_array_equal(measure.transport(u)[:, 0], k[np.searchsorted(np.cumsum(pmf), u)])
    kernel = Matern(1.5, 2.0)
    assert cbq.embed(kernel, measure).variance == pytest.approx(pmf @ kernel.gram(k[:, None]) @ pmf, rel=1e-12)


@pytest.mark.parametrize("kernel", [RBF([1.0, 2.0]), TensorProduct(Matern(1.5, [1.0, 2.0])), Matern(2.5, [1.0, 2.0])])
def test_a_product_with_counts_is_embedded_by_a_sum(kernel):
    measure = Product([Binomial(3, 0.4), Gaussian(0.0, std=0.5)])
    x = np.array([[1.0, 0.3], [2.5, -1.0]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    total = 0.0
    for k, w in zip(measure.blocks[0].points[:, 0], measure.blocks[0].weights, strict=True):
        y = np.column_stack([np.full(80, k), 0.5 * nodes])
        total = total + w * kernel.gram(x, y) @ (weights / np.sum(weights))
    tolerance = 1e-9 if isinstance(kernel, RBF) else 2e-3  # Gauss-Hermite rules do not like kinks
    np.testing.assert_allclose(cbq.embed(kernel, measure).mean(x), total, rtol=tolerance)


# estimators


@pytest.mark.parametrize("n", [2, 6, 30])
def test_the_integral_is_the_sum_where_all_atoms_are_known(n):
    x = np.tile(np.arange(n + 1.0), (7, 1))[..., None]
    fit = cbq.CBQ().fit(cbq.Samples(THETA, x, f(x), lambda t: Binomial(n, t[0]), depends_on_theta=False))
    exact = mean_of_f(Binomial(n, THETA))
    np.testing.assert_allclose(fit.stage1.mean, exact, rtol=1e-13)
    np.testing.assert_array_equal(fit.stage1.std, 0.0)
    np.testing.assert_allclose(fit.stage1.weights, Binomial(n, THETA).weights, atol=1e-14)
    assert np.max(np.abs(fit.predict(THETA) - exact)) < 1e-4 * np.max(exact)


def test_one_missing_atom_is_uncertain():
    x = np.tile([0.0, 1.0, 2.0, 4.0], (7, 1))[..., None]
    fit = cbq.CBQ().fit(cbq.Samples(THETA, x, f(x), lambda t: Binomial(4, t[0]), depends_on_theta=False))
    assert np.all(fit.stage1.std > 0)


FAMILIES = {
    "binomial": lambda t: Binomial(6, t[0]),
    "poisson": lambda t: Poisson(10 * t[0]),
    "scipy": lambda t: stats.nbinom(6, 0.4 + 0.5 * t[0]),
    "spike": lambda t: Mixture([t[0], 1 - t[0]], [Categorical([1.0]), Binomial(5, 0.3)]),
}


def truths(family):
    def one(measure):
        if isinstance(measure, Mixture):
            return sum(w * one(c) for w, c in zip(measure.weights, measure.components, strict=True))
        return mean_of_f(measure)

    return np.array([one(as_measure(family(np.array([t])))) for t in THETA])


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("design", ["iid", "sobol"])
def test_every_estimator_takes_counts(family, design):
    samples = cbq.Problem(f, family, PRIOR, depends_on_theta=False).collect(12, 24, rng=0, design=design)
    exact = truths(family)
    size = np.ptp(samples.table)
    for estimator in (cbq.CBQ(), cbq.MOBQ(), cbq.Auto(), cbq.LSMC(), cbq.ImportanceSampling(kind="balance")):
        rough = isinstance(estimator, cbq.LSMC | cbq.ImportanceSampling)
        with silent():
            found, std = estimator.fit(samples).predict(THETA, return_std=True)
        assert np.max(np.abs(found - exact)) < (0.2 if rough else 0.02) * size, type(estimator).__name__
        assert np.all(np.abs(found - exact) < 6 * std + 1e-6), type(estimator).__name__


def test_a_fit_with_counts_is_saved_and_asked_again(tmp_path):
    family = FAMILIES["poisson"]
    samples = cbq.Problem(f, family, PRIOR, depends_on_theta=False).collect(8, 12, rng=0)
    with silent():
        fit = cbq.MOBQ().fit(samples)
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq", family=family)
    np.testing.assert_array_equal(again.predict(fit.theta), fit.predict(fit.theta))


def test_an_adaptive_run_takes_counts():
    problem = cbq.Problem(f, FAMILIES["binomial"], PRIOR, depends_on_theta=False)
    with silent():
        answer = problem.solve(tolerance=1e-3, budget=60, rng=0)
        found = answer.fit.predict(THETA)
    np.testing.assert_allclose(found, truths(FAMILIES["binomial"]), atol=3e-3)


def test_a_discrete_prior_of_theta_is_summed_over():
    problem = cbq.Problem(lambda x, t: x[:, 0] + t[0], lambda t: Gaussian(t, std=1.0), Uniform(0, 8))
    samples = problem.collect(12, 8, rng=0)
    with silent():
        fit = cbq.CBQ().fit(samples)
        answer = cbq.nested_expectation(fit, np.square, stats.binom(8, 0.5), rng=0)
    assert answer.estimate == pytest.approx(4 * (2.0 + 16.0), rel=1e-3)


# refusals

REFUSED = {
    "score": (lambda: Poisson(2.0).score(1.0), r"the measure Poisson\(rate=2\) is discrete and has no score"),
    "Stein": (lambda: cbq.embed(Stein(RBF(1.0)), Poisson(2.0)), "discrete"),
    "logarithm": (lambda: LogMeasure(Poisson(2.0)), "has atoms"),
    "table": (lambda: Mixture([1.0], [Empirical([1.0])]), "normalised densities"),
    "several": (
        lambda: Mixture([0.5, 0.5], [Product([Poisson(1.0)] * 2), Gaussian([0.0, 0.0], std=1.0)]),
        "all discrete, or all continuous",
    ),
    "quadrature": (lambda: cbq.embed(RBF(1.0), Poisson(2.0), "quadrature"), "smooth transport"),
    "scores of a mixture": (
        lambda: cbq.embed(Warped(RBF(1.0), "gaussianise"), Mixture([0.5, 0.5], [Poisson(1.0), Gamma(2.0, 1.0)])),
        "atoms",
    ),
    "trials": (lambda: Binomial(2.5, 0.5), "n must be a whole number of trials, but it is 2.5"),
    "probability": (lambda: Binomial(2, 1.5), "p must be a probability"),
    "probabilities": (lambda: Categorical([0.5, 0.6]), "probabilities must sum to 1"),
    "values": (lambda: Categorical([0.5, 0.5], [1.0]), "one probability for each of its values"),
    "atoms": (lambda: Poisson(1e20), "atoms to hold all but 1e-17"),
    "tail": (lambda: as_measure(stats.zipf(2.0)), "too heavy a tail for a finite sum"),
    "scipy": (lambda: as_measure(stats.binom(5, 1.5)), "not defined"),
}
test_refused = refusals(REFUSED, (TypeError, ValueError, NoEmbedding))
