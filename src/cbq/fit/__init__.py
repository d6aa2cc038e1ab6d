"""What every estimator returns: the predictive distribution of I over theta, with methods to query it."""

from cbq.fit.answer_section import MAX_DRAWN
from cbq.fit.base import Fit, load
from cbq.fit.best import BestTheta, Contest
from cbq.fit.between_thetas import Interpolation
from cbq.fit.counts import CountOutcome, DrawnMeans
from cbq.fit.diagnostics import Diagnostic, left_out
from cbq.fit.emulator import CorrelatedValues, Emulator, whitening
from cbq.fit.findings import (
    Finding,
    FitWarning,
    all_equal,
    dependence_on_theta,
    few_points_each,
    few_points_together,
    few_thetas,
    for_some,
    shared_design,
    unlearnt_over_theta,
    warn_of,
)
from cbq.fit.heavy_tails import HEAVY_SHARE, has_long_tails, outer_share, outermost_sets, tails
from cbq.fit.importance import Proposal, RareEventSampling, WeightedPoints
from cbq.fit.mixtures import Marginals
from cbq.fit.outcome import Outcome, OutcomeOptions, Triple, points_of, sobol_blocks
from cbq.fit.predictive import PredictiveDistribution
from cbq.fit.report import FitReport
from cbq.fit.summary import (
    Summary,
    chosen_findings,
    count_range,
    design_findings,
    heading,
    on_one_line,
    per_output,
    saving_lines,
)
from cbq.fit.theta_grids import TAIL
from cbq.fit.thetas import FRESH, MARGIN, N_WANTED, Suggestion, thetas_between
from cbq.fit.varied import Varied

__all__ = [
    "CountOutcome",
    "Emulator",
    "Finding",
    "Fit",
    "FitWarning",
    "Interpolation",
    "Outcome",
    "OutcomeOptions",
    "PredictiveDistribution",
    "Varied",
]
