"""Conditional Bayesian quadrature: Bayesian quadrature at each theta, then a Gaussian process over theta."""

from cbq.methods.conditional.candidates import StageOneSelection
from cbq.methods.conditional.estimator import CBQ
from cbq.methods.conditional.fit import CBQFit, LeaveOneOut
from cbq.methods.conditional.paper import PaperCBQ
from cbq.methods.conditional.stage_one_data import StageOne
from cbq.methods.conditional.stage_two import ThetaCalibration

__all__ = ["CBQ", "CBQFit", "LeaveOneOut", "PaperCBQ", "StageOne", "StageOneSelection", "ThetaCalibration"]
