"""Where a process may be wrong about f: where it disagrees with one that is a step rougher, given the same values.

Adaptive quadrature compares two rules on the same points to see where more are needed. Here the two are processes. At a
kink, or in a narrow feature, their means of f differ by about as much as either errs, and elsewhere they agree: unlike
leave-one-out residuals, the difference is known between the points, and one large value does not hide others near it.

No kernel is rougher than Matern 1/2, whose mean is nearly linear between neighbouring points. A step rougher is the
value at the nearest point: between two points on either side of a jump, both are wrong by about half of it.
"""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array
from cbq.gp.gain import NUGGET
from cbq.gp.pooled import ExactGP, IntegralPosterior
from cbq.kernels import Kernel
from cbq.linalg import Jitter


def disagreement(kernel: Kernel, points: Array, f: Array, u: Array, jitter: Jitter, noise: float = 0.0) -> Array:
    """The squared differences (M, C) at u (M, D) of the means of f by a kernel and by one that is a step rougher.

    They are in units of the variances that the rougher process expects there, or the process itself if none is rougher.
    points: (n, D), with values f (n, C).
    noise: the variance of a value given f, in units of the amplitude.
    """
    process, to_points = ExactGP(kernel, points, f, jitter, noise), kernel(u, points)
    if kernel.is_roughest:
        expected = IntegralPosterior.at(process, to_points, kernel.diag(u))  # f at a point is an integral, too
        nearest = np.argmax(to_points, axis=1)  # with which f correlates most
        apart, amplitude = expected.mean - f[nearest], process.amplitude
    else:
        rougher = kernel.rougher()
        other = ExactGP(rougher, points, f, jitter, noise)
        expected = IntegralPosterior.at(other, rougher(u, points), rougher.diag(u))
        apart, amplitude = expected.mean - process.mean(to_points), other.amplitude
    least = NUGGET * amplitude + np.finfo(float).tiny
    return np.asarray(apart**2 / (expected.spread.T + least))
