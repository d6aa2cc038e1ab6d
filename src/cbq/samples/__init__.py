"""Samples: thetas, points, values of f and measures, which every estimator takes."""

from cbq.samples.failures import Failures
from cbq.samples.posteriors import ChainWarning
from cbq.samples.samples import Samples

__all__ = ["ChainWarning", "Failures", "Samples"]
