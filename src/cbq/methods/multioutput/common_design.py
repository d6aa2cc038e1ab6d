"""Designs that all thetas share exactly: the same points v, which each theta's own transport has moved to its measure.

The values of f then lie on a grid of thetas and points. `samples.shares_design` is less strict: there some thetas may
share some points, in any order, and what matters is that their errors are alike.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from cbq._arrays import Array
from cbq.measures import Gaussian, Measure
from cbq.samples import Samples
from cbq.samples.arrays import equal_rows


def common_points(samples: Samples) -> tuple[Array, Measure] | None:
    """The points v (N, d) that all thetas share, and the measure of v; None if they do not share a design.

    Where thetas share their measure and their points, v is x; otherwise its normal scores under the measures.
    """
    x = samples.x
    one_theta_twice = len(equal_rows(samples.theta)[0]) < samples.T
    if not isinstance(x, np.ndarray) or one_theta_twice or samples.T < 2 or x.shape[1] < 2:
        return None
    measure = samples.batched_measure()
    if measure is not None and not measure.batch_shape:
        found = (x[0], measure) if np.all(x == x[0]) else None
    else:
        v = _normal_scores(samples, x)
        found = None if v is None or not _agree(v) else (np.median(v, axis=0), standard_normal(samples.d))
    return None if found is None or len(equal_rows(found[0])[0]) < len(found[0]) else found


def _normal_scores(samples: Samples, x: Array) -> Array | None:
    """Standard normal coordinates (T, N, d) of the points; None if a measure has none or is discrete."""
    measure = samples.batched_measure()
    if any(each.has_atoms for each in samples.measures):
        return None  # scores of atoms are not normal
    try:
        if measure is not None:
            return measure.inverse_transport(x, base="normal")
        return np.stack([m.inverse_transport(each, base="normal") for m, each in zip(samples.measures, x, strict=True)])
    except (NotImplementedError, TypeError, ValueError):  # no transport, or points outside of the support
        return None


def _agree(v: Array, *, tolerance: float = 1e-9, lost: float = 256.0) -> bool:
    """Whether normal scores (T, N, d) are the same for all thetas, but for rounding errors.

    tolerance: by which scores of one point may differ, where rounding is smaller. lost: the rounding errors, in units
    of eps, of the probabilities that scores are made from.
    """
    if not np.all(np.isfinite(v)):
        return False
    low, high = np.min(v, axis=0), np.max(v, axis=0)
    size = np.maximum(np.abs(low), np.abs(high))
    rounding = lost * np.finfo(float).eps * ndtr(high) / (np.exp(-0.5 * size**2) / np.sqrt(2 * np.pi))
    return bool(np.all(high - low <= tolerance * (1.0 + size) + rounding))


def standard_normal(d: int) -> Gaussian:
    """The measure of normal scores in d dimensions."""
    return Gaussian(np.zeros(d), np.ones(d))
