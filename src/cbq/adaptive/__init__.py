"""Adaptive runs: state an accuracy, and the library chooses the runs and decides when to stop."""

from cbq.adaptive.answer import AdaptiveAnswer, History
from cbq.adaptive.asked import Asked
from cbq.adaptive.session import Session

__all__ = ["AdaptiveAnswer", "Asked", "History", "Session"]
