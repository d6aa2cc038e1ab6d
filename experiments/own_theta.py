"""The health problem as the paper conditions it: each treatment on its own theta alone, with its own nine inputs.

The net benefit of each treatment then has p = 1 and d = 9. The value of information that is made of the two
conditional expectations is about 504. That of learning both thetas is 247.9: each theta says something of the other
treatment too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from cbq import Problem
from cbq.measures import Gaussian
from cbq.problems import health
from experiments.analysis import Row
from experiments.common import TEST_SEED, Array, outer_thetas, rmse
from experiments.experiment import Cell
from experiments.methods import method_for

NAME = "health, own theta"
INPUTS = ((0, 1, 2, 3, 4, 5, 6, 7, 8), (9, 10, 11, 3, 12, 13, 14, 15, 16))  # columns of the 17 inputs x1 to x17
CORRELATED = 5  # the position, among its nine inputs, of the input that is correlated with theta: x6 or x14


@dataclass(frozen=True)
class Treatment:
    """One treatment c, with the measure of its nine inputs given theta_c."""

    c: int

    def mean(self, theta: Array) -> Array:
        """E[x | theta_c] at theta (..., 1): (..., 9)."""
        inputs = list(INPUTS[self.c])
        z = (theta[..., 0] - health.THETA_MEAN[self.c]) / health.THETA_STD[self.c]
        found = np.broadcast_to(health.MEAN[inputs], (*z.shape, len(inputs))).copy()
        found[..., CORRELATED] += health.RHO * health.STD[inputs][CORRELATED] * z
        return found

    def family(self, theta: Array) -> Gaussian:
        """The measure of x on R^9 given theta (1,)."""
        std = health.STD[list(INPUTS[self.c])].copy()
        std[CORRELATED] *= np.sqrt(1 - health.RHO**2)
        return Gaussian(self.mean(theta), np.diag(std**2))

    def integrand(self, x: Array, theta: Array) -> Array:
        """The net benefit at x (n, 9), theta (1,) or, with one theta per point, (1, n): (n,)."""
        x1, x2, x3, x4, x5, x6, x7, x8, x9 = x.T
        return np.asarray(health.VALUE * (theta[0] * x5 * x6 + x7 * x8 * x9) - (x1 + x2 * x3 * x4))

    def exact(self, theta: Array) -> Array:
        """The expected net benefit at theta (M, 1): (M,). Inputs that are multiplied are independent given theta."""
        return self.integrand(self.mean(theta), theta.T)

    def problem(self) -> Problem:
        """The problem of this treatment alone."""
        prior = Gaussian(health.THETA_MEAN[[self.c]], cov=health.THETA_STD[[self.c]][None] ** 2)
        return Problem(self.integrand, self.family, prior, exact=self.exact, name=f"health-{self.c + 1}")


TREATMENTS = (Treatment(0), Treatment(1))


def score(cell: Cell, seed: int, value: Callable[[Array], float]) -> list[Row]:
    """The error of the value of I = (I_1(theta_1), I_2(theta_2)) at draws of both thetas, for each method."""
    theta, _ = outer_thetas("health")
    columns = [theta[:, [each.c]] for each in TREATMENTS]
    truth = np.column_stack([each.exact(own) for each, own in zip(TREATMENTS, columns, strict=True)])
    samples = [each.problem().collect(cell.T, cell.N, rng=_seed(seed, each), progress=False) for each in TREATMENTS]
    found = []
    for name in cell.methods:
        start = perf_counter()
        fits = [method_for(name, NAME).fit(each) for each in samples]
        seconds = perf_counter() - start
        estimate = np.column_stack([fit.predict(own) for fit, own in zip(fits, columns, strict=True)])
        error = abs(value(estimate) - value(truth))
        found.append({"method": name, "value_error": error, "rmse": rmse(estimate, truth), "seconds": seconds})
    return found


def _seed(seed: int, treatment: Treatment) -> np.random.Generator:
    return np.random.default_rng([seed, treatment.c, TEST_SEED])
