"""Estimators: each takes the same samples and returns a fit that answers the same questions."""

from cbq.methods.auto import Auto
from cbq.methods.baselines.importance_sampling import ImportanceSampling, ImportanceSamplingFit
from cbq.methods.baselines.kernel_least_squares import KLSMC, KLSMCFit
from cbq.methods.baselines.least_squares import LSMC, LSMCFit
from cbq.methods.baselines.monte_carlo import MonteCarlo, MonteCarloFit
from cbq.methods.conditional import CBQ, CBQFit, LeaveOneOut, PaperCBQ
from cbq.methods.multioutput import MOBQ, KroneckerFit, MOBQFit

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
    "KroneckerFit",
    "LSMCFit",
    "LeaveOneOut",
    "MOBQFit",
    "MonteCarlo",
    "MonteCarloFit",
    "PaperCBQ",
]
