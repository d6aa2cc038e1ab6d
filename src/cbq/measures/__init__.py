"""Laws of x and of theta: each can be sampled, evaluated and reached from the unit cube."""

from cbq.measures.base import Measure
from cbq.measures.gaussian import Gaussian

__all__ = ["Gaussian", "Measure"]
