"""Adaptive runs: state the accuracy, and the library decides what to run next, and when to stop."""

from cbq.adaptive.answer import AdaptiveAnswer, History
from cbq.adaptive.asked import Asked
from cbq.adaptive.session import Session

__all__ = ["AdaptiveAnswer", "Asked", "History", "Session"]
