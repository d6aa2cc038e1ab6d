"""The net benefits of two treatments that depend on 19 uncertain inputs, given two of them; in closed form."""

from __future__ import annotations

import numpy as np

from cbq.common import Array
from cbq.measures import Gaussian
from cbq.problems.problem import Problem
from cbq.problems.registry import register

#                    x1     x2   x3    x4   x5   x6   x7    x8   x9    x10   x11  x12   x13  x14  x15   x16  x17
MEAN = np.array([1000.0, 0.1, 5.2, 400.0, 0.3, 3.0, 0.25, -0.1, 0.5, 1500.0, 0.08, 6.1, 0.3, 3.0, 0.2, -0.1, 0.5])
STD = np.array([1.0, 0.02, 1.0, 200.0, 0.1, 0.5, 0.1, 0.02, 0.2, 1.0, 0.02, 1.0, 0.05, 1.0, 0.05, 0.02, 0.2])
THETA_MEAN, THETA_STD = np.array([0.7, 0.8]), np.array([0.1, 0.1])
RHO = 0.6  # the correlation of each pair of theta1, theta2, x6 and x14
VALUE = 1e4  # the value of a unit of benefit
X6, X14 = 5, 13  # the columns of x6 and x14
EVPPI = 247.9120  # E max(I_1, I_2) - max(E I_1, E I_2) of learning both thetas, by quadrature
for _array in (MEAN, STD, THETA_MEAN, THETA_STD):
    _array.setflags(write=False)


def integrand(x: Array, theta: Array) -> Array:
    """The net benefits of the two treatments at x (n, 17), theta (2,) or, with one theta per point, (2, n): (n, 2)."""
    x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17 = x.T
    f1 = VALUE * (theta[0] * x5 * x6 + x7 * x8 * x9) - (x1 + x2 * x3 * x4)
    f2 = VALUE * (theta[1] * x13 * x14 + x15 * x16 * x17) - (x10 + x11 * x12 * x4)
    return np.stack([f1, f2], axis=-1)


def conditional_mean(theta: Array) -> Array:
    """E[x | theta1, theta2] at theta (..., 2): (..., 17)."""
    # In standard units, the regression of x6 or x14 on the two thetas has the coefficients rho / (1 + rho).
    z = np.sum((theta - THETA_MEAN) / THETA_STD, axis=-1) * (RHO / (1 + RHO))
    mean = np.broadcast_to(MEAN, (*z.shape, 17)).copy()
    mean[..., [X6, X14]] += STD[[X6, X14]] * z[..., None]
    return mean


def family(theta: Array) -> Gaussian:
    """The measure of x on R^17 given both thetas (2,)."""
    explained = 2 * RHO**2 / (1 + RHO)  # by theta, of the variances and the covariance of x6 and x14, standardised
    correlation = np.eye(17)
    correlation[[X6, X14], [X6, X14]] = 1 - explained
    correlation[[X6, X14], [X14, X6]] = RHO - explained
    return Gaussian(conditional_mean(theta), cov=STD[:, None] * correlation * STD)


def exact(theta: Array) -> Array:
    """The expected net benefits at theta (M, 2): (M, 2). Inputs that are multiplied are independent given theta."""
    return integrand(conditional_mean(theta), theta.T)


@register("health")
def build() -> Problem:
    """Net benefits of two treatments given two of their response rates, theta = (theta1, theta2) (Brennan et al.).

    All 19 inputs are Gaussian, and the measure of x is conditioned on both thetas. f has C = 2 outputs. The expected
    value of learning theta is `EVPPI`.
    """
    cov = THETA_STD[:, None] * np.array([[1, RHO], [RHO, 1]]) * THETA_STD
    return Problem(integrand, family, Gaussian(THETA_MEAN, cov=cov), exact=exact, name="health")
