"""Estimators compared on the same samples: errors, coverage of intervals, seconds."""

from cbq.comparison.run import compare
from cbq.comparison.scores import KnownTruth, score_against_truth
from cbq.comparison.table import Comparison, ComparisonRow

__all__ = ["Comparison", "ComparisonRow", "compare"]
