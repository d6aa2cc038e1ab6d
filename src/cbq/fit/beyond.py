"""Which thetas are beyond the observed ones, so that nothing but the prior of a fit speaks about them."""

from __future__ import annotations

import numpy as np

from cbq.common.arrays import Array, Booleans

# No theta is beyond the observed ones that is closer to them than these.
MARGIN = 0.05  # of the range of each coordinate
GAPS = 2.0  # times the widest gap between neighbours
FRESH = 0.05  # the share of fresh thetas from the same distribution that may be beyond a few observed ones
ROUNDING = 1e-9  # of the largest value of a coordinate
MAX_COORDINATE = 1e100  # whose square is finite


def beyond(theta: Array, observed: Array) -> Booleans:
    """Whether each of thetas (M, p) is beyond the observed ones (T, p): (M,).

    It is if it is outside of their range in some coordinate, and further from all of them than they are from each
    other: more than twice the widest gap between neighbours. Coordinates are in units of their standard deviation.
    Where logarithms of the observed ones are less skew than they are, it must be so in logarithms, too. All but a
    single theta is beyond it.
    """
    found = _is_far(theta, observed)
    if np.any(found) and np.any(logs := more_symmetric_logs(observed)):
        found[found] = _is_far(_logs(theta[found], logs), _logs(observed, logs))
    return found


def _is_far(asked: Array, observed: Array) -> Booleans:
    """Whether each of (M, p) is outside of the range of the observed ones (T, p), and far from all of them: (M,)."""
    low, high = np.min(observed, axis=0), np.max(observed, axis=0)
    largest = ROUNDING * np.maximum(np.abs(low), np.abs(high))
    reach = MARGIN * (high - low) + largest
    found = np.asarray(np.any((asked < low - reach) | (asked > high + reach), axis=1))
    if np.any(found) and len(nodes := np.unique(observed, axis=0)) > 1:
        from scipy.spatial import cKDTree  # slow to import, and rarely needed

        centre, unit = np.mean(nodes, axis=0), np.maximum(np.std(nodes, axis=0), np.maximum(largest, 1e-300))
        tree = cKDTree((nodes - centre) / unit)
        gap = np.max(tree.query(tree.data, k=[2])[0])
        with np.errstate(over="ignore"):
            away = np.clip((asked[found] - centre) / unit, -MAX_COORDINATE, MAX_COORDINATE)
        found[found] = tree.query(away)[0] > GAPS * gap
    return found


def more_symmetric_logs(observed: Array) -> Booleans:
    """Which coordinates of thetas (T, p) are all positive, and less skew in logarithms: (p,)."""
    logs = np.all(observed > 0, axis=0)
    return np.asarray(logs & (_skewness(_logs(observed, logs)) < _skewness(observed)))


def _skewness(values: Array) -> Array:
    """The size of the skewness of each column of values (n, p): (p,)."""
    spread = np.std(values, axis=0)
    standard = (values - np.mean(values, axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.asarray(np.abs(np.mean(standard**3, axis=0)))


def _logs(theta: Array, logs: Booleans) -> Array:
    """Thetas (M, p) with the logarithms of some coordinates, which are far below all others where there are none."""
    positive = theta > 0
    of_all = np.where(positive, np.log(np.where(positive, theta, 1.0)), -MAX_COORDINATE)
    return np.where(logs, of_all, theta)
