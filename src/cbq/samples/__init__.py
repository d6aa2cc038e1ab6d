"""Samples: thetas, points, values of f and measures, which every estimator takes."""

from cbq.samples.arrays import (
    MIN_EFFECTIVE_SIZE,
    check_magnitude,
    effective_size,
    effective_sizes,
    equal_rows,
    group_averages,
    spread,
    thetas_in,
    units,
)
from cbq.samples.bounds import as_bounds, rows_outside, shown_bounds
from cbq.samples.columns import ColumnTable, check_same_rows, find_summary
from cbq.samples.conditional import WHY, Family, find_thetas, measures_at
from cbq.samples.files import TOLERANCE, FamilyNeeded, other_measures
from cbq.samples.findings import Failures, in_brief
from cbq.samples.frames import dataset_at
from cbq.samples.joining import require_joinable, require_same
from cbq.samples.names import Names, by_run, by_theta, named_columns, named_row
from cbq.samples.posteriors import ChainWarning
from cbq.samples.probabilities import Enumerated, common_points, standard_normal
from cbq.samples.runs import Cost, Runs
from cbq.samples.samples import Design, Samples

__all__ = ["ChainWarning", "Failures", "Samples"]
