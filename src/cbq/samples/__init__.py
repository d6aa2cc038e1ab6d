"""Samples: thetas, points, values of f and measures, which every estimator takes."""

from cbq.samples.arrays import (
    MIN_EFFECTIVE_SIZE,
    as_bounds,
    check_magnitude,
    effective_size,
    effective_sizes,
    equal_rows,
    group_averages,
    rows_outside,
    shown_bounds,
    thetas_in,
    units,
)
from cbq.samples.columns import ColumnTable, check_same_rows, find_summary
from cbq.samples.conditional import TOLERANCE, Family, FamilyNeeded, find_thetas, measures_at, other_measures
from cbq.samples.enumerated import Enumerated
from cbq.samples.failures import Failures
from cbq.samples.findings import in_brief
from cbq.samples.joining import require_joinable, require_same
from cbq.samples.names import Names, by_run, by_theta, named_columns, named_row
from cbq.samples.posteriors import ChainWarning
from cbq.samples.runs import Cost, Runs
from cbq.samples.samples import Design, Samples, spread
from cbq.samples.shared_design import common_points, standard_normal
from cbq.samples.unknown import WHY

__all__ = ["ChainWarning", "Failures", "Samples"]
