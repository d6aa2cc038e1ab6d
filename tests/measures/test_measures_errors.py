"""Invalid arguments of measures raise errors that say what was wrong and what to do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cbq.measures import (
    Beta,
    Empirical,
    Exponential,
    Gamma,
    Gaussian,
    LogMeasure,
    LogNormal,
    Mixture,
    Product,
    StudentT,
    TruncatedGaussian,
    Uniform,
    Unnormalised,
    as_measure,
    from_scipy,
)
from refusals import refusals

NORMAL = Gaussian(0, 1)
NORMAL_2 = Gaussian([0, 0], 1)

INVALID_VALUES = {
    "gamma shape": (lambda: Gamma(0, 1), "shape must be positive, but its smallest value is 0"),
    "gamma rate": (lambda: Gamma(1, [-2, 3]), "rate must be positive, but its smallest value is -2"),
    "gamma nan": (lambda: Gamma([1, np.nan], 1), "shape must be finite, but 1 of its 2 values"),
    "gamma batch": (lambda: Gamma(np.ones(3), np.ones(2)), r"shape \(3,\), rate \(2,\) do not fit together"),
    "exponential": (lambda: Exponential(-1), "rate must be positive"),
    "beta": (lambda: Beta(1, 0), "b must be positive"),
    "t df": (lambda: StudentT(0, 0, 1), "df must be positive"),
    "t scale": (lambda: StudentT(1, 0, -1), "scale must be positive"),
    "t loc": (lambda: StudentT(1, np.inf, 1), "loc must be finite"),
    "truncated std": (lambda: TruncatedGaussian(0, 0, 0, 1), "std must be positive"),
    "truncated order": (
        lambda: TruncatedGaussian(0, 1, 2, 1),
        "lower must be below upper, but lower = 2 and upper = 1",
    ),
    "truncated inf": (lambda: TruncatedGaussian(0, 1, np.inf, np.inf), "lower must be below upper"),
    "truncated nan": (lambda: TruncatedGaussian(0, 1, np.nan, 1), "lower must not be NaN"),
    "uniform order": (lambda: Uniform(1, 1), "lower must be below upper"),
    "uniform inf": (lambda: Uniform(0, np.inf), "upper must be finite"),
    "uniform sides": (lambda: Uniform([0, 0], [1, 1, 1]), "lower has 2 coordinates, but upper has 3"),
    "lognormal": (lambda: LogNormal(0, -1), "positive definite"),
    "mixture empty": (lambda: Mixture([], []), "Mixture needs at least one measure, but the list is empty"),
    "mixture length": (
        lambda: Mixture([0.5, 0.5], [NORMAL]),
        r"weights have shape \(2,\), but the shape for 1 component is \(\.\.\., 1\)",
    ),
    "mixture negative": (
        lambda: Mixture([1.5, -0.5], [NORMAL, NORMAL]),
        "must not be negative, but the smallest is -0.5",
    ),
    "mixture sum": (lambda: Mixture([0.5, 0.6], [NORMAL, NORMAL]), "must sum to 1, but they sum to 1.1"),
    "mixture dims": (
        lambda: Mixture([0.5, 0.5], [NORMAL, NORMAL_2]),
        r"the same dimension, but they have dimensions \[1, 2\]",
    ),
    "mixture batch": (
        lambda: Mixture([0.5, 0.5], [Gamma(np.ones(2), 1), Gamma(np.ones(3), 1)]),
        "do not fit together",
    ),
    "product empty": (lambda: Product([]), "Product needs at least one measure, but the list is empty"),
    "product batch": (lambda: Product([Gamma(np.ones(2), 1), Gamma(np.ones(3), 1)]), "do not fit together"),
    "empirical empty": (lambda: Empirical([]), r"points have shape \(0, 1\)"),
    "empirical scalar": (lambda: Empirical(1.0), r"points have shape \(\)"),
    "empirical length": (
        lambda: Empirical([1, 2, 3], [0.5, 0.5]),
        r"weights have shape \(2,\), but the shape for 3 points is \(\.\.\., 3\)",
    ),
    "empirical sum": (lambda: Empirical([1, 2], [0.5, 0.6]), "must sum to 1, but they sum to 1.1"),
    "empirical negative": (lambda: Empirical([1, 2], [1.5, -0.5]), "must not be negative"),
    "empirical unknown point": (
        lambda: Empirical([1, 2]).inverse_transport([1, 3]),
        "1 of 2 points are not among its points of positive weight",
    ),
    "unnormalised dim": (
        lambda: Unnormalised(np.sum, dim=0),
        "dim must be a positive integer, but it is 0",
    ),
    "log measure dim": (lambda: LogMeasure(NORMAL_2), "one-dimensional"),
    "log measure support": (lambda: LogMeasure(NORMAL), "begins at -inf"),
    "t mean": (lambda: StudentT(1, 0, 1).moments(), "no mean and no covariance"),
    "t variance": (lambda: StudentT([3, 2], 0, 1).moments(), "df = 2 has no covariance: it needs df > 2"),
    "cauchy": (lambda: from_scipy(stats.levy()).moments(), "no finite mean"),
    "scipy scale": (lambda: from_scipy(stats.laplace(0, -1)), "laplace is not defined for the shapes"),
    "scipy nan": (lambda: from_scipy(stats.weibull_min(np.nan)), "shape 0 of the scipy distribution must not be NaN"),
    "cube": (lambda: Gamma(1, 1).transport([0.5, 1.5]), "must lie in the unit cube"),
    "base": (lambda: Gamma(1, 1).transport(0.5, "gauss"), "base must be 'uniform' or 'normal'"),
    "points": (lambda: NORMAL_2.logpdf([1.0, 2.0]), r"write x\[None, :\]"),
    "points batch": (lambda: Gamma(np.ones(3), 1).logpdf(np.ones((2, 5, 1))), "do not fit together"),
    "orthant": (lambda: LogNormal([0, 0], 1).inverse_transport([[1, -1]]), "must be positive"),
    "score outside": (lambda: Gamma(2, 1).score([1.0, -1.0]), "1 of 2 points lie outside the support"),
    "score at a zero": (lambda: Beta(2, 2).score(0.0), "zero or infinite"),
    "corner, gaussian": (lambda: NORMAL_2.transport([[0.0, 0.5]]), "strictly between 0 and 1"),
    "corner, mixture": (
        lambda: Mixture([1.0], [NORMAL_2]).transport([[0.0, 1.0]]),
        "strictly between 0 and 1",
    ),
    "n": (lambda: Gamma(2, 1).sample(-1, 0), "zero or more"),
}

INVALID_TYPES = {
    "multivariate": (lambda: from_scipy(stats.dirichlet([1, 2, 3])), "dirichlet has no quantile function"),
    "not frozen": (lambda: as_measure(stats.norm), "freeze it"),
    "not frozen, multivariate": (lambda: as_measure(stats.multivariate_normal), "freeze it"),
    "not frozen, from_scipy": (lambda: from_scipy(stats.norm), "freeze it"),
    "anything": (lambda: as_measure("normal"), "but a str arrived"),
    "product of one": (lambda: Product(NORMAL), r"takes a list of measures, .*: pass \[measure\]"),
    "mixture of one": (lambda: Mixture([1.0], NORMAL), r"takes a list of measures, .*: pass \[measure\]"),
    "mixture of atoms": (lambda: Mixture([1.0], [Empirical([1, 2])]), "normalised densities"),
    "mixture of unknown": (lambda: Mixture([1.0], [Unnormalised(np.sum, dim=1)]), "normalised densities"),
    "text": (lambda: Gamma("a", 1), "shape must hold real numbers"),
    "rng": (lambda: Gamma(1, 1).sample(3, None), "rng must be"),
    "empirical density": (lambda: Empirical([1, 2]).logpdf(1.0), "finite set of points"),
    "empirical score": (lambda: Empirical([1, 2]).score(1.0), "no score"),
    "empirical conditional": (lambda: Empirical([1, 2]).conditional(np.ones((2, 0))), "no conditional"),
    "neither": (lambda: Unnormalised(dim=2), "neither was given"),
    "no function": (lambda: Unnormalised(3.0, dim=2), "log_density must be a function"),
    "score only": (lambda: Unnormalised(score=np.negative, dim=1).logpdf(1.0), "pass log_density"),
    "unnormalised sample": (lambda: Unnormalised(np.sum, dim=1).sample(3, 0), "no sample: its normalisation"),
    "unnormalised transport": (lambda: Unnormalised(np.sum, dim=1).transport(0.5), "no transport"),
    "unnormalised inverse": (
        lambda: Unnormalised(np.sum, dim=1).inverse_transport(0.5),
        "no inverse_transport",
    ),
    "unnormalised moments": (lambda: Unnormalised(np.sum, dim=1).moments(), "Stein kernel"),
}

test_invalid_values_raise_an_error_that_says_why = refusals(INVALID_VALUES, ValueError)
test_invalid_types_raise_an_error_that_says_why = refusals(INVALID_TYPES, TypeError)


def test_functions_of_an_unnormalised_measure_are_checked():
    x = np.ones((4, 2))
    with pytest.raises(ValueError, match=r"log_density returned an array of shape \(\), but \(4,\)"):
        Unnormalised(lambda x: np.sum(x), dim=2).logpdf(x)
    with pytest.raises(ValueError, match=r"score returned an array of shape \(4,\), but \(4, 2\)"):
        Unnormalised(score=lambda x: x[..., 0], dim=2).score(x)
    with pytest.raises(ValueError, match="NaN or inf in 4 of its 4 values"):
        Unnormalised(lambda x: np.full(x.shape[:-1], np.nan), dim=2).logpdf(x)
    with pytest.raises(ValueError, match="NaN or inf in 8 of its 8 values"):
        Unnormalised(score=lambda x: np.full(x.shape, np.inf), dim=2).score(x)
    half = Unnormalised(lambda x: np.where(x[..., 0] > 1, 0.0, -np.inf), dim=2)
    assert np.all(half.logpdf(x) == -np.inf)
    with pytest.raises(ValueError, match="edge of the support"):
        half.score(x)


def test_weights_are_normalised_to_the_last_digit():
    m = Mixture([0.3 + 4e-9, 0.7], [NORMAL, NORMAL])
    assert m.weights.sum() == pytest.approx(1, abs=1e-15)
