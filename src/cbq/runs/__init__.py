"""Runs of f: points are drawn or chosen, evaluated in batches, here or on workers, and kept; a run may state a goal."""

from cbq.checkpoint import CheckpointError
from cbq.runs.answer import AdaptiveAnswer, History
from cbq.runs.asked import Asked
from cbq.runs.integrand import IntegrandError
from cbq.runs.scheduling import CollectWarning
from cbq.runs.session import Session

__all__ = ["AdaptiveAnswer", "Asked", "CheckpointError", "CollectWarning", "History", "IntegrandError", "Session"]
