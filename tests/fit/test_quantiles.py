"""Quantiles of mixtures of Student-t distributions, against bisections, SciPy and extended precision."""

import tracemalloc

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import stdtr, stdtrit

import cbq
from cbq.fit import predictive
from cbq.fit.predictive import PredictiveDistribution
from cbq.measures import Gaussian

DFS = {"4": 4.0, "103.5": 103.5, "Gaussian": np.inf, "one for each theta": np.linspace(1.5, 40.0, 200)}
PROBABILITIES = (1e-12, 1e-4, 0.025, 0.3, 0.5, 0.9, 0.975, 1 - 1e-12)


def mixtures(J, apart, spread, M=200):
    """Locations and scales (J, M), which differ between components by about so much, the latter in logarithms."""
    rng = np.random.default_rng(J)
    return apart * rng.normal(size=(J, M)), np.exp(spread * rng.normal(size=(J, M)))


def bisected(locations, scales, df, probability):
    """The quantile between those of the components, by 200 bisections of the tail that keeps its digits."""
    if probability > 0.5:
        return -bisected(-locations, scales, df, 1 - probability)
    each = locations + scales * stdtrit(df, probability)
    low, high = np.min(each, axis=0), np.max(each, axis=0)
    for _ in range(200):
        middle = 0.5 * (low + high)
        below = np.mean(stdtr(df, (middle - locations) / scales), axis=0) < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def resolution(x, locations, scales, df, probability):
    """How well x is known: the tolerance, the rounding of x, and that of the distribution function over its slope."""
    density = np.mean(stats.t.pdf(x, df, locations, scales), axis=0)
    rounding = 4e-15 * min(probability, 1 - probability) / density
    return 1e-12 * np.min(scales, axis=0) + 8 * np.finfo(float).eps * np.abs(x) + rounding


@pytest.mark.parametrize(("J", "apart", "spread"), [(2, 0.1, 0.1), (2, 2.0, 0.7), (3, 0.0, 1.0), (5, 20.0, 4.0)])
@pytest.mark.parametrize("df", DFS.values(), ids=DFS)
def test_quantiles_are_those_of_bisections(J, apart, spread, df):
    locations, scales = mixtures(J, apart, spread)
    for probability in PROBABILITIES:
        found = PredictiveDistribution(locations, scales**2, df).quantile(probability)
        expected = bisected(locations, scales, df, probability)
        error = np.abs(found - expected) / resolution(expected, locations, scales, df, probability)
        assert np.max(error) < 2.0


def exact_quantile(locations, scales, df, probability):
    """The quantile in 40 digits."""
    with mp.workdps(40):
        nu, p = mp.mpf(df), mp.mpf(probability)

        def cdf(z):
            if nu == mp.inf:
                return mp.ncdf(z)
            tail = mp.betainc(nu / 2, mp.mpf(1) / 2, 0, nu / (nu + z * z), regularized=True) / 2
            return tail if z < 0 else 1 - tail

        parts = [(mp.mpf(a), mp.mpf(b)) for a, b in zip(locations, scales, strict=True)]
        each = [a + b * mp.mpf(float(stdtrit(df, probability))) for a, b in parts]
        slack = max(b for _, b in parts) * (1 + abs(each[0])) * mp.mpf("1e-9")
        low, high = min(each) - slack, max(each) + slack
        for _ in range(150):
            middle = (low + high) / 2
            below = sum(cdf((middle - a) / b) for a, b in parts) / len(parts) < p
            low, high = (middle, high) if below else (low, middle)
        return float(low)


@pytest.mark.parametrize("df", [1.0, 4.0, 23.0, np.inf])
@pytest.mark.parametrize("probability", [1e-12, 0.025, 0.4, 0.975, 1 - 1e-12])
@pytest.mark.parametrize("scales", [(1.0, 1.3), (1.0, 4.0), (1e-6, 1.0, 30.0)], ids=str)
def test_quantiles_have_the_digits_of_extended_precision(df, probability, scales):
    locations = np.linspace(-0.5, 0.7, len(scales))
    columns = locations[:, None], np.array(scales)[:, None]
    found = PredictiveDistribution(columns[0], columns[1] ** 2, df).quantile(probability)
    exact = np.array([exact_quantile(locations, scales, df, probability)])
    assert np.abs(found - exact)[0] <= resolution(exact, *columns, df, probability)[0]


def test_few_evaluations_of_the_distribution_function_are_enough(monkeypatch):
    evaluated = []
    monkeypatch.setattr(predictive, "stdtr", lambda df, z: evaluated.append(z.size) or stdtr(df, z))
    locations, scales = mixtures(2, 0.2, 0.2)
    for df in DFS.values():
        for probability in (0.005, 0.025, 0.25, 0.75, 0.975, 0.995):
            evaluated.clear()
            PredictiveDistribution(locations, scales**2, df).quantile(probability)
            assert sum(evaluated) <= 3 * locations.size  # a bisection to 1e-12 takes 40


@pytest.mark.parametrize("J", [1, 2, 3])
@pytest.mark.parametrize("df", DFS.values(), ids=DFS)
def test_components_that_agree_have_the_quantile_of_each(J, df):
    location, scale = (np.tile(part[0], (J, 1)) for part in mixtures(1, 3.0, 2.0))
    for probability in PROBABILITIES:
        found = PredictiveDistribution(location, scale**2, df).quantile(probability)
        upper = probability > 0.5
        quantile = stats.t.isf(1 - probability, df) if upper else stats.t.ppf(probability, df)
        assert_allclose(found, location[0] + scale[0] * quantile, rtol=1e-13, atol=1e-13)


def test_only_the_thetas_that_have_not_converged_are_searched(monkeypatch):
    evaluated = []
    monkeypatch.setattr(predictive, "stdtr", lambda df, z: evaluated.append(z.shape[1]) or stdtr(df, z))
    locations, scales = mixtures(3, 0.1, 0.1)
    locations[:, :5], scales[:, :5] = mixtures(3, 1.0, 12.0, M=5)  # scales that differ by many orders take bisections
    PredictiveDistribution(locations, scales**2, 9.0).quantile(0.45)
    assert len(evaluated) > 5
    assert max(evaluated[4:]) <= 5


@pytest.mark.parametrize(
    ("locations", "scales", "probability", "expected"),
    [
        ((0.0, 1.0), (0.0, 0.0), 0.3, 0.0),
        ((0.0, 1.0), (0.0, 0.0), 0.7, 1.0),
        ((5.0, 5.0), (0.0, 0.0), 0.7, 5.0),
        ((-2.0, 1.0), (0.0, 3.0), 0.3, -2.0),  # F jumps from 0.08 to 0.58
        ((-2.0, 1.0), (0.0, 3.0), 0.7, 1.0 + 3.0 * stats.norm.ppf(0.4)),  # (1 + 0.4) / 2 = 0.7
        ((8.0, 1.0), (0.0, 3.0), 0.3, 1.0 + 3.0 * stats.norm.ppf(0.6)),  # (0 + 0.6) / 2 = 0.3
    ],
)
def test_components_without_spread_are_jumps(locations, scales, probability, expected):
    columns = np.array(locations)[:, None], np.array(scales)[:, None]
    found = PredictiveDistribution(columns[0], columns[1] ** 2, np.inf).quantile(probability)
    assert_allclose(found, expected, rtol=1e-14, atol=1e-14)


def test_inputs_are_not_modified_and_order_does_not_matter():
    locations, scales = mixtures(3, 1.0, 1.0)
    measure = PredictiveDistribution(locations.copy(), scales**2, 7.0)
    for array in (measure.locations, measure.scales2):
        array.setflags(write=False)
    found = measure.quantile(0.2)
    assert_array_equal(measure.locations, locations)
    turned = PredictiveDistribution(locations[::-1], scales[::-1] ** 2, 7.0).quantile(0.2)
    assert_allclose(turned, found, rtol=1e-12, atol=1e-12)


def small_fit():
    theta = np.linspace(1.0, 2.0, 6)
    x = theta[:, None] + np.random.default_rng(0).normal(size=(6, 8))
    return cbq.CBQ(kernel_x=cbq.kernels.RBF(1.0)).fit(cbq.Samples(theta, x, np.sin(x), lambda t: Gaussian(t, 1.0)))


@pytest.mark.parametrize("ask", ["interval", "predict"])
def test_answers_at_many_thetas_take_little_more_memory_than_themselves(ask):
    fit, theta = small_fit(), np.linspace(1.0, 2.0, 300_000)
    tracemalloc.start()
    try:
        answers = fit.interval(theta) if ask == "interval" else fit.predict(theta, return_std=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.3 * (theta.nbytes + sum(each.nbytes for each in answers))


def test_blocks_of_thetas_do_not_change_intervals():
    fit, theta = small_fit(), np.linspace(1.0, 2.0, 5000)
    some = slice(4000, 4200)  # across two blocks
    for whole, part in zip(fit.interval(theta), fit.interval(theta[some]), strict=True):
        assert_allclose(whole[some], part, rtol=1e-9)
