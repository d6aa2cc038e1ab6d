"""Conditional Bayesian quadrature: Bayesian quadrature at each theta, then a Gaussian process over theta."""

from cbq.methods.conditional.estimator import CBQ
from cbq.methods.conditional.fit import CBQFit, LeaveOneOut
from cbq.methods.conditional.integrals import StageOne
from cbq.methods.conditional.paper import PaperCBQ

__all__ = ["CBQ", "CBQFit", "LeaveOneOut", "PaperCBQ", "StageOne"]
