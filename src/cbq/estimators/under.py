"""The model of f that a fit has, under another family of measures: how far the runs reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from cbq.common import Array, evenly
from cbq.fit import Finding, Fit, points_of, sobol_blocks
from cbq.gp import Reach
from cbq.samples import Samples

POINTS = 256  # of a measure: shares are then known to about 2%
SOME_THETAS = 12  # of the observed ones, at which shares are compared
MUCH_MORE = 0.1  # of the mass than under the family of the samples, from which on a fit warns
AnyFit = TypeVar("AnyFit", bound=Fit)


def unreached(samples: Samples, reaches: Sequence[Reach], theta: Array) -> Array:
    """The share (M,) of the measures at thetas (M, p) that the runs do not reach, by the process that misses most."""
    found, u = np.zeros(len(theta)), sobol_blocks(samples.d, POINTS, 1, np.random.default_rng(0))
    for m, measure in enumerate(samples.conditional(theta)):
        x, weights, _ = points_of(measure, u, 1)
        inputs = np.column_stack([x, np.tile(theta[m], (len(x), 1))]) if samples.depends_on_theta else x
        found[m] = max(float(weights @ reach.misses(inputs)) for reach in reaches)
    return found


def under_other_family(new: AnyFit, old: Fit) -> AnyFit:
    """The new fit, with a finding where the runs miss much more of its measures than of the measures of the old one."""
    theta = old.theta[evenly(len(old.theta), SOME_THETAS)]
    after, before = new._unreached(theta), old._unreached(theta)
    worst, findings = int(np.argmax(after - before)), [each for each in old.about_samples if each.kind != "reach"]
    if after[worst] - before[worst] > MUCH_MORE:
        text = (
            f"under this family, {np.mean(after):.0%} of the mass is where the runs do not reach, and "
            f"{after[worst]:.0%} at {old.names.at('theta', theta[worst])}; under the family of the samples it is "
            f"{np.mean(before):.0%}. There, f is less certain than at 95% of the runs, each predicted from all others."
        )
        findings.append(Finding("reach", text))
    return new._replaced(about_samples=tuple(findings), _has_other_family=True)
