"""Thetas, points, values and laws: what every method takes."""

from cbq.samples.samples import Samples

__all__ = ["Samples"]
