"""Methods side by side on the same samples: errors, coverage of intervals, seconds."""

from cbq.comparison.compare import compare
from cbq.comparison.comparison import Comparison, ComparisonRow

__all__ = ["Comparison", "ComparisonRow", "compare"]
