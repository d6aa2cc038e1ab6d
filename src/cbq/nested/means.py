"""The posterior mean of I at many outer thetas.

Each theta costs a measure of x and its embeddings, but I is smooth in theta. For p = 1 a spline interpolates the mean
from few thetas, more where it bends, if its error at other thetas is far below the posterior standard deviation.
Otherwise, and for p > 1, all means are computed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cbq.common import Array, Progress, evenly, reporting
from cbq.fit import Fit
from cbq.nested.outer import Outer

MIN_THETAS = 8192  # below, interpolation gains little
FIRST_NODES, MAX_NODES = 65, 513
ROUNDING = 1e-8  # of the range of I, up to which means are rounded
NEGLIGIBLE = 1e-2  # an error, in units of the posterior standard deviation of I


def posterior_means(fit: Fit, nodes: Outer, paths: Array, progress: Progress) -> Array:
    """The posterior means (n,) or (n, C) of I at the outer thetas; on their subset they are never interpolated.

    paths : (S, m) or (S, m, C), draws of I at the subset.
    """
    theta, subset = nodes.theta, nodes.subset
    if fit.p > 1 or len(theta) < MIN_THETAS:
        return np.asarray(fit.predict(theta, progress=progress))
    at_subset = np.asarray(fit.predict(theta[subset]))
    known = np.median(np.std(paths, axis=0), axis=0)
    tolerance = np.maximum(NEGLIGIBLE * known, ROUNDING * np.ptp(at_subset, axis=0))
    means = interpolated(lambda t: np.asarray(fit.predict(t[:, None])), theta[:, 0], tolerance)
    if means is None or np.any(np.abs(means[subset] - at_subset) > tolerance):
        return np.asarray(fit.predict(theta, progress=progress))
    means[subset] = at_subset
    with reporting(progress, "predict", 0, len(theta)) as report:
        report(len(theta), len(theta))
    return fit._bounded(means)


def interpolated(function: Callable[[Array], Array], t: Array, tolerance: Array) -> Array | None:
    """Values (n,) or (n, C) of a function at numbers t (n,), most of them interpolated; None if it bends too much.

    Gaps between nodes are halved until values in their middles are predicted within the tolerance, () or (C,).
    """
    from scipy.interpolate import CubicSpline  # slow to import, and rarely needed

    points, place = np.unique(t, return_inverse=True)
    if len(points) < 4 * FIRST_NODES:
        return None
    known = evenly(len(points), FIRST_NODES)
    values = function(points[known])
    left, right = known[:-1], known[1:]  # of the gaps that are left
    while len(left):
        if len(known) + len(left) > min(MAX_NODES, len(points) // 4):
            return None
        middle = np.searchsorted(points, 0.5 * (points[left] + points[right]))
        middle = np.clip(middle, left + 1, right - 1)
        new = function(points[middle])
        apart = np.abs(CubicSpline(points[known], values)(points[middle]) - new)
        wrong = np.any((apart > tolerance).reshape(len(new), -1), axis=1)
        known = np.concatenate([known, middle])
        order = np.argsort(known)
        known, values = known[order], np.concatenate([values, new])[order]
        left, right = np.hstack([[left, middle], [middle, right]])[:, np.concatenate([wrong, wrong])]
        wide = right - left > 1
        left, right = left[wide], right[wide]
    return np.asarray(CubicSpline(points[known], values)(points)[place])
