"""Designs that all thetas share: the same points v, which each theta's own transport has moved to its measure.

In the coordinates v, I(theta) = E f(x_theta(V), theta) is an integral under one measure for all thetas, and the values
of f lie on a grid of thetas and points.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from cbq._arrays import Array
from cbq.gp.kronecker import GridPoints
from cbq.kernels import Kernel, Warped
from cbq.kernels.warped import NormalCdf
from cbq.measures import Gaussian, Measure
from cbq.methods.multioutput.candidates import LEAST_SPREAD, Automatic, kernels_of_x
from cbq.samples import Samples
from cbq.samples.arrays import equal_rows, units
from cbq.samples.samples import spread

TOLERANCE = 1e-9  # by which normal scores of one point may differ between thetas, where rounding is smaller
LOST_DIGITS = 256.0  # the rounding errors of probabilities, in units of eps, that normal scores are made from
LEAST_THETAS, LEAST_POINTS = 2, 2


def common_points(samples: Samples) -> tuple[Array, Measure] | None:
    """The points v (N, d) that all thetas share, and the measure of v; None if they do not share a design.

    Where thetas share their measure and their points, v is x; otherwise its normal scores under the measures.
    """
    x = samples.x
    if not isinstance(x, np.ndarray) or samples.T < LEAST_THETAS or x.shape[1] < LEAST_POINTS:
        return None
    measure = samples.batched_measure()
    if measure is not None and not measure.batch_shape:
        found = (x[0], measure) if np.all(x == x[0]) else None
    else:
        v = _normal_scores(samples, x)
        found = None if v is None or not _agree(v) else (np.median(v, axis=0), standard_normal(samples.d))
    if found is None or len(equal_rows(found[0])[0]) < len(found[0]) or len(equal_rows(samples.theta)[0]) < samples.T:
        return None
    return found


def require_common_points(samples: Samples) -> tuple[Array, Measure]:
    """`common_points`, or an error where thetas do not share a design."""
    found = common_points(samples)
    if found is None:
        raise ValueError(
            "structure='kronecker' needs the same points at all thetas, in coordinates in which all thetas have one "
            "measure of x, but these samples have others. Collect them with problem.collect(..., design='sobol', "
            "scramble='common'), or pass structure='dense'."
        )
    return found


def _normal_scores(samples: Samples, x: Array) -> Array | None:
    """Standard normal coordinates (T, N, d) of the points; None if a measure has none."""
    measure = samples.batched_measure()
    try:
        if measure is not None:
            return measure.inverse_transport(x, base="normal")
        return np.stack([m.inverse_transport(each, base="normal") for m, each in zip(samples.measures, x, strict=True)])
    except (NotImplementedError, TypeError, ValueError):  # no transport, or points outside of the support
        return None


def _agree(v: Array) -> bool:
    """Whether normal scores (T, N, d) are the same for all thetas, but for rounding errors."""
    if not np.all(np.isfinite(v)):
        return False
    low, high = np.min(v, axis=0), np.max(v, axis=0)
    size = np.maximum(np.abs(low), np.abs(high))
    lost = LOST_DIGITS * np.finfo(float).eps * ndtr(high) / (np.exp(-0.5 * size**2) / np.sqrt(2 * np.pi))
    return bool(np.all(high - low <= TOLERANCE * (1.0 + size) + lost))


def grid_points(samples: Samples) -> GridPoints:
    """The values of f on the grid of thetas and of the points that they share; raises where they share none."""
    v, measure = require_common_points(samples)
    shift, scale = units(samples.table)
    f = ((samples.table - shift) / scale).T.reshape(-1, samples.T, len(v))
    deviation = np.maximum(spread(samples.rescaled(shift, scale)), LEAST_SPREAD).T[:, :, None]
    return GridPoints(samples.theta, v, measure, f, deviation, shift, scale)


def grid_kernels_of_x(samples: Samples, points: GridPoints, kernel_x: Kernel | Automatic) -> list[Kernel]:
    """The kernels of v to choose from, rough ones first; where x is bounded, also on the probabilities of v."""
    found = kernels_of_x(points.v, (points.measure,), kernel_x)
    bounded = all(np.all(np.isfinite(end)) for measure in samples.measures for end in measure.support)
    if isinstance(kernel_x, Kernel) or not bounded or not points.measure.equals(standard_normal(samples.d)):
        return found
    return [each for kernel in found for each in (kernel, Warped(kernel, NormalCdf()))]


def standard_normal(d: int) -> Gaussian:
    """The measure of normal scores in d dimensions."""
    return Gaussian(np.zeros(d), np.ones(d))
