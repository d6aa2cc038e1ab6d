"""The sensitivity of a Bayesian linear regression to its prior; every answer is a moment of a Gaussian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cbq.common import Array, one_of, positive, require_memory, whole
from cbq.linalg.lapack import cholesky, solve_lower
from cbq.measures import Gaussian, Uniform
from cbq.problems.problem import Problem
from cbq.problems.registry import register

Quantity = Literal["square", "inner"]


@dataclass(frozen=True, eq=False)
class LinearModel:
    """The posterior of x given Z = Y x + noise of variance 1, with prior x ~ N(0, diag(theta))."""

    Y: Array  # (5, d)
    Z: Array  # (5,)
    quantity: Quantity

    @property
    def row(self) -> Array:
        """y* = (0.3, ..., 0.3, 1), a new row of Y: (d,)."""
        return np.append(np.full(self.Y.shape[1] - 1, 0.3), 1.0)

    def posterior(self, theta: Array) -> tuple[Array, Array]:
        """m = Sigma Y'Z and Sigma, Sigma^-1 = diag(1/theta) + Y'Y, at theta (..., d): (..., d), (..., d, d)."""
        theta = positive(theta, "theta")
        d = theta.shape[-1]
        L = cholesky(np.eye(d) / theta[..., None] + self.Y.T @ self.Y)
        rows = solve_lower(L[..., None, :, :], np.eye(d))  # row j is column j of L^-1
        sigma = rows @ np.swapaxes(rows, -1, -2)
        return sigma @ (self.Y.T @ self.Z), sigma

    def family(self, theta: Array) -> Gaussian:
        """The posterior of x at theta (d,)."""
        return Gaussian(*self.posterior(theta))

    def integrand(self, x: Array, theta: Array) -> Array:
        """x'x or x'y* at x (n, d): (n,)."""
        return np.asarray(np.sum(x * x, axis=-1) if self.quantity == "square" else x @ self.row)

    def exact(self, theta: Array) -> Array:
        """tr Sigma + m'm, or m'y*, at theta (M, d): (M,)."""
        mean, sigma = self.posterior(theta)
        if self.quantity == "inner":
            return np.asarray(mean @ self.row)
        return np.asarray(np.trace(sigma, axis1=-2, axis2=-1) + np.sum(mean * mean, axis=-1))


@register("linear")
def build(dim: int = 2, f: Quantity = "square", seed: int = 0) -> Problem:
    """Posterior moments of the coefficients x of a linear regression, as the prior variances theta vary.

    The data are Z = Y beta + noise. With `rng = numpy.random.default_rng(seed)` and in this order, Y (5, d) has d - 1
    columns `rng.uniform(-1, 1, (5, d - 1))` and a column of ones, `beta = rng.standard_normal(d)`, and
    `noise = rng.standard_normal(5)`. The prior of theta is uniform on (1, 3)^d.

    Parameters
    ----------
    dim : the dimension d of x and of theta.
    f : "square" for x'x, or "inner" for x'y* with y* = (0.3, ..., 0.3, 1).
    seed : the seed of the data.
    """
    one_of(f, Quantity, "f")
    dim = whole(dim, "dim", 1)
    require_memory(dim**2, f"a covariance in dim = {dim} dimensions", "pass a smaller dim")
    rng = np.random.default_rng(whole(seed, "seed"))
    Y = np.column_stack([rng.uniform(-1, 1, (5, dim - 1)), np.ones(5)])
    model = LinearModel(Y, Y @ rng.standard_normal(dim) + rng.standard_normal(5), f)
    prior, name = Uniform(np.ones(dim), 3 * np.ones(dim)), f"linear-{dim}-{f}"
    return Problem(model.integrand, model.family, prior, depends_on_theta=False, exact=model.exact, name=name)
