"""Estimators: each takes the same samples and returns a fit with the same questions to ask."""

from cbq.methods.auto import Auto
from cbq.methods.cbq import CBQ
from cbq.methods.cbq_fit import CBQFit, LeaveOneOut
from cbq.methods.importance_sampling import ImportanceSampling, ImportanceSamplingFit
from cbq.methods.kernel_least_squares import KLSMC, KLSMCFit
from cbq.methods.least_squares import LSMC, LSMCFit
from cbq.methods.mobq import MOBQ
from cbq.methods.mobq_fit import MOBQFit
from cbq.methods.monte_carlo import MonteCarlo, MonteCarloFit
from cbq.methods.paper import PaperCBQ

__all__ = [
    "CBQ",
    "KLSMC",
    "LSMC",
    "MOBQ",
    "Auto",
    "CBQFit",
    "ImportanceSampling",
    "ImportanceSamplingFit",
    "KLSMCFit",
    "LSMCFit",
    "LeaveOneOut",
    "MOBQFit",
    "MonteCarlo",
    "MonteCarloFit",
    "PaperCBQ",
]
