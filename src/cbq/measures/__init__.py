"""Probability measures of x and of theta: densities, scores, draws, and transport from the unit cube."""

from cbq.measures.base import Measure, as_measure
from cbq.measures.composite import Mixture, Product
from cbq.measures.discrete import Binomial, Categorical, Discrete, Empirical, Poisson
from cbq.measures.gaussian import Gaussian, LogNormal
from cbq.measures.log_measure import LogMeasure
from cbq.measures.scipy_stats import ScipyDistribution, ScipyVariable, from_scipy
from cbq.measures.truncated_gaussian import TruncatedGaussian
from cbq.measures.uniform import Uniform
from cbq.measures.univariate import Beta, Exponential, Gamma, StudentT, Univariate
from cbq.measures.unnormalised import Unnormalised

__all__ = [
    "Beta",
    "Binomial",
    "Categorical",
    "Discrete",
    "Empirical",
    "Exponential",
    "Gamma",
    "Gaussian",
    "LogMeasure",
    "LogNormal",
    "Measure",
    "Mixture",
    "Normal",
    "Poisson",
    "Product",
    "ScipyDistribution",
    "ScipyVariable",
    "StudentT",
    "TruncatedGaussian",
    "Uniform",
    "Univariate",
    "Unnormalised",
    "as_measure",
    "from_scipy",
]

Normal = Gaussian
