"""Where a process may be wrong about f: where it disagrees with one that is a step rougher, given the same values.

Adaptive quadrature compares two rules on the same points to see where more are needed. Here the two are processes. At a
kink, or in a narrow feature, their means of f differ by about as much as either errs, and elsewhere they agree: unlike
leave-one-out residuals, the difference is known between the points, and one large value does not hide others near it.
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

    They are in units of the variances that the rougher process expects there. points: (n, D), with values f (n, C).
    noise: the variance of a value given f, in units of the amplitude.
    """
    rougher = kernel.rougher()
    process, other = (ExactGP(each, points, f, jitter, noise) for each in (kernel, rougher))
    expected = IntegralPosterior.at(other, rougher(u, points), rougher.diag(u))  # f at a point is an integral, too
    least = NUGGET * other.amplitude + np.finfo(float).tiny
    return np.asarray((process.mean(kernel(u, points)) - expected.mean) ** 2 / (expected.spread.T + least))
