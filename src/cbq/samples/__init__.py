"""Samples: thetas, points, values of f and measures, which every estimator takes."""

from cbq.samples.failures import Failures
from cbq.samples.samples import Samples

__all__ = ["Failures", "Samples"]
