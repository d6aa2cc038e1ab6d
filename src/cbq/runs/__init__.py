"""Runs of f: points are drawn or chosen, evaluated in batches, here or on workers, and kept; a run may state a goal."""

from cbq.checkpoint import CheckpointError
from cbq.runs.answer import AdaptiveAnswer, History
from cbq.runs.asked import Asked, RefusedResult
from cbq.runs.collect import OnError, RunOptions, collect_samples
from cbq.runs.curves import Best, ExpectedLoss, ExpectedShortfall, ValueAtRisk
from cbq.runs.draws import CollectDesign, Draws, Scramble
from cbq.runs.estimands import Estimand, Mean, Probability, Quantile, Std
from cbq.runs.goal import DEFAULT_BUDGET, Criterion, Goal
from cbq.runs.integrand import Evaluator, Integrand, IntegrandError, Points, rng_parameter
from cbq.runs.quantity import Quantity
from cbq.runs.report import answer_page
from cbq.runs.resuming import COST, FAMILY, INTEGRAND, OnChange, Sources
from cbq.runs.scheduling import CollectWarning
from cbq.runs.session import GOAL_NOTE, MEASURED, Measured, Session

__all__ = ["AdaptiveAnswer", "Asked", "CheckpointError", "CollectWarning", "History", "IntegrandError", "Session"]
