"""Multi-output Bayesian quadrature: one Gaussian process on the points of all thetas, integrated under any measure."""

from cbq.methods.multioutput.estimator import MOBQ
from cbq.methods.multioutput.fit import MOBQFit

__all__ = ["MOBQ", "MOBQFit"]
