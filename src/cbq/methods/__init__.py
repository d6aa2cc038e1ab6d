"""Estimators: each takes the same samples and returns a fit with the same questions to ask."""

from cbq.methods.cbq import CBQ
from cbq.methods.cbq_fit import CBQFit, LeaveOneOut

__all__ = ["CBQ", "CBQFit", "LeaveOneOut"]
