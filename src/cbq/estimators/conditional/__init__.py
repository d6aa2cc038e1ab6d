"""Conditional Bayesian quadrature: Bayesian quadrature at each theta, then a Gaussian process over theta."""

from cbq.estimators.conditional.candidates import StageOneSelection
from cbq.estimators.conditional.estimator import CBQ
from cbq.estimators.conditional.fit import CBQFit, LeaveOneOut
from cbq.estimators.conditional.paper import PaperCBQ
from cbq.estimators.conditional.stage_one_data import StageOne

__all__ = ["CBQ", "CBQFit", "LeaveOneOut", "PaperCBQ", "StageOne", "StageOneSelection"]
