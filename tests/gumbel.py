"""A measure on the line that the package does not have, in one file, as a user would write it."""

import numpy as np

from cbq.io import Numbers, saved
from cbq.measures import Univariate
from cbq.measures.base import parameter, positive_parameter
from cbq.measures.univariate import columns


@saved("tests.Gumbel", loc=Numbers(), scale=Numbers())
class Gumbel(Univariate):
    """The Gumbel measure of largest values: P(X <= x) = exp(-exp(-(x - loc) / scale))."""

    def __init__(self, loc, scale):
        self.loc, self.scale = columns("Gumbel", loc=parameter(loc, "loc"), scale=positive_parameter(scale, "scale"))

    def _mean_and_variance(self):
        return self.loc + np.euler_gamma * self.scale, np.pi**2 / 6 * self.scale**2

    def _log_density(self, y):
        z = (y - self.loc) / self.scale
        with np.errstate(over="ignore"):
            return -z - np.exp(-z) - np.log(self.scale)

    def _slope(self, y):
        return np.expm1(-(y - self.loc) / self.scale) / self.scale

    def _tail(self, y, upper):
        with np.errstate(over="ignore"):
            rate = np.exp(-(y - self.loc) / self.scale)
        return -np.expm1(-rate) if upper else np.exp(-rate)

    def _quantile(self, q, upper):
        with np.errstate(divide="ignore"):
            return self.loc - self.scale * np.log(-(np.log1p(-q) if upper else np.log(q)))
