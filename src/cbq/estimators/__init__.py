"""Estimators: each takes the same samples and returns a fit that answers the same questions."""

from cbq.estimators.auto import Auto
from cbq.estimators.baselines.importance_sampling import ImportanceSampling, ImportanceSamplingFit
from cbq.estimators.baselines.kernel_least_squares import KLSMC, KLSMCFit
from cbq.estimators.baselines.least_squares import LSMC, LSMCFit
from cbq.estimators.baselines.monte_carlo import MonteCarlo, MonteCarloFit
from cbq.estimators.conditional import CBQ, CBQFit, LeaveOneOut, PaperCBQ
from cbq.estimators.multioutput import MOBQ, KroneckerFit, MOBQFit

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
