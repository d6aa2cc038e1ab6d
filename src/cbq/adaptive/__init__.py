"""Adaptive runs: state the accuracy, and the library decides what to run next, and when to stop."""

from cbq.adaptive.answer import AdaptiveAnswer, History
from cbq.adaptive.session import Asked, Session

__all__ = ["AdaptiveAnswer", "Asked", "History", "Session"]
