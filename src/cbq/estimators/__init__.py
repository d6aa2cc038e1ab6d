"""Estimators: each takes the same samples and returns a fit that answers the same questions."""

from cbq.estimators.auto import Auto
from cbq.estimators.base import REFUSALS, Estimator, create, default_estimators, reason, registrations
from cbq.estimators.conditional import CBQ, CBQFit, LeaveOneOut, PaperCBQ, StageOneSelection
from cbq.estimators.conditional.fit import best_thetas
from cbq.estimators.conditional.stage_one import StageOneOptions, fit_stage_one
from cbq.estimators.importance_sampling import ImportanceSampling, ImportanceSamplingFit
from cbq.estimators.least_squares import KLSMC, LSMC, KLSMCFit, LSMCFit
from cbq.estimators.monte_carlo import MonteCarlo, MonteCarloFit
from cbq.estimators.multioutput import MOBQ, KroneckerFit, LatentBQ, LatentBQFit, MOBQFit
from cbq.estimators.multioutput.candidates import automatic_kernels_of_x
from cbq.estimators.multioutput.fit import PointsGroup
from cbq.estimators.multioutput.suggestion import (
    EXPLORATION,
    Exploration,
    Wanted,
    WantedBest,
    WantedValues,
    Wish,
    between_steepest,
    choose_points,
    rough_kernels,
    with_tails,
)
from cbq.estimators.prior_mean import PriorMean, PriorMeanFit
from cbq.estimators.single import BQ, Integral

__all__ = [
    "BQ",
    "CBQ",
    "KLSMC",
    "LSMC",
    "MOBQ",
    "Auto",
    "CBQFit",
    "ImportanceSampling",
    "ImportanceSamplingFit",
    "Integral",
    "KLSMCFit",
    "KroneckerFit",
    "LSMCFit",
    "LatentBQ",
    "LatentBQFit",
    "LeaveOneOut",
    "MOBQFit",
    "MonteCarlo",
    "MonteCarloFit",
    "PaperCBQ",
    "PriorMean",
    "PriorMeanFit",
]
