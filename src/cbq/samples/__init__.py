"""Thetas, points, values and measures: what every method takes."""

from cbq.samples.samples import Samples

__all__ = ["Samples"]
