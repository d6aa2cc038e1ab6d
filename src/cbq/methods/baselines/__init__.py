"""The baselines of the paper: Monte Carlo, importance sampling, and regressions of plain averages on theta."""

from cbq.methods.baselines.importance_sampling import ImportanceSampling, ImportanceSamplingFit
from cbq.methods.baselines.kernel_least_squares import KLSMC, KLSMCFit
from cbq.methods.baselines.least_squares import LSMC, LSMCFit
from cbq.methods.baselines.monte_carlo import MonteCarlo, MonteCarloFit

__all__ = [
    "KLSMC",
    "LSMC",
    "ImportanceSampling",
    "ImportanceSamplingFit",
    "KLSMCFit",
    "LSMCFit",
    "MonteCarlo",
    "MonteCarloFit",
]
