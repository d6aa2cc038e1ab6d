"""Probability measures of x and of theta, which can be sampled, evaluated and mapped from the unit cube."""

from cbq.measures.base import Measure, as_measure
from cbq.measures.discrete import Binomial, Categorical, Discrete, Poisson
from cbq.measures.empirical_unnormalised import Empirical, Unnormalised
from cbq.measures.gamma_beta_student import Beta, Exponential, Gamma, StudentT
from cbq.measures.gaussian import Gaussian, LogNormal
from cbq.measures.log_measure import LogMeasure
from cbq.measures.mixture import Mixture
from cbq.measures.product import Product
from cbq.measures.scipy_distributions import Quantile, from_scipy
from cbq.measures.scipy_variables import ScipyVariable
from cbq.measures.truncated_gaussian import TruncatedGaussian
from cbq.measures.uniform import Uniform
from cbq.measures.univariate import Univariate

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
    "Quantile",
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
