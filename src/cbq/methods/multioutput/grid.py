"""The values of f on a grid, where all thetas share a design.

In the coordinates v of its points, I(theta) = E f(x_theta(V), theta) is an integral under one measure for all thetas,
and the values of f lie on a grid of thetas and points.
"""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array
from cbq.gp.kronecker import GridPoints
from cbq.kernels import Kernel, Warped
from cbq.kernels.warped import NormalCdf
from cbq.measures import Measure
from cbq.methods.multioutput.candidates import LEAST_SPREAD, Automatic, kernels_of_x
from cbq.methods.multioutput.common_design import common_points, standard_normal
from cbq.samples import Samples
from cbq.samples.arrays import units
from cbq.samples.samples import spread

LEAST_THETAS = 5  # with fewer, what quadratures have in common cannot be told from noise


def design_of_grid(samples: Samples) -> tuple[Array, Measure] | None:
    """`common_points`, where there are thetas enough for a grid."""
    return common_points(samples) if samples.T >= LEAST_THETAS else None


def require_design_of_grid(samples: Samples) -> tuple[Array, Measure]:
    """`design_of_grid`, or an error where there is none."""
    found = design_of_grid(samples)
    if found is None:
        raise ValueError(
            f"structure='kronecker' needs the same points at {LEAST_THETAS} or more thetas, in coordinates in which "
            f"all have one measure of x, and no theta or point twice, but these samples have others. Collect them with "
            f"problem.collect(..., design='sobol', scramble='common'), or pass structure='dense'."
        )
    return found


def grid_points(samples: Samples) -> GridPoints:
    """The values of f on the grid of thetas and of the points that they share; raises where they share none."""
    v, measure = require_design_of_grid(samples)
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
