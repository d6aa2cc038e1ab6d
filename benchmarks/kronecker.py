"""The process on a grid of thetas and shared points: agreement with the dense one, seconds and errors.

    make bench-kronecker

The first line compares means and variances of the two processes on 60 x 60 values, without jitter, relative to the
largest. The others fit `cbq.MOBQ()` to T x N values of two problems; the error is the root-mean-square error at 200
thetas from the prior over the standard deviation of the answers there, inside the share of them in 95% intervals.
"""

from __future__ import annotations

import time

import numpy as np

import cbq
from cbq.embeddings.many import Integrals
from cbq.gp.kronecker import GridPoints, KroneckerGP
from cbq.gp.pooled import ExactGP, IntegralPosterior
from cbq.kernels import Matern, TensorProduct, XThetaKernel
from cbq.linalg import Jitter
from cbq.measures import Gaussian

SIDES = (100, 300, 1000)
PROBLEMS = ("linear", "butterfly")


def agreement(side: int = 60) -> tuple[float, float]:
    """The largest relative differences of means and of variances."""
    v = np.random.default_rng(0).standard_normal((side, 2))
    theta = np.linspace(0.0, 2.0, side)[:, None]
    f = np.sin(np.sum(v, axis=1) * (1 + theta))[None]
    measure, none = Gaussian(np.zeros(2), np.ones(2)), Jitter(start=0.0)
    points = GridPoints(theta, v, measure, f, np.ones((1, side, 1)), np.zeros(1), np.ones(1))
    kernel = XThetaKernel(TensorProduct(Matern(1.5, 1.0)), Matern(1.5, 0.7), 2)
    at = np.linspace(0.0, 2.1, 40)[:, None]
    grid, dense = KroneckerGP(kernel, points, none), ExactGP(kernel, points.u, f.reshape(-1, 1), none)
    one = IntegralPosterior.of(grid, grid.integrals(at))
    other = IntegralPosterior.of(dense, Integrals(kernel, [measure], at))
    pairs = ((one.mean, other.mean), (one.spread, other.spread))
    means, variances = (float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in pairs)
    return means, variances


def main() -> None:
    """Print the table."""
    print("60 x 60, Kronecker and dense: means differ by {:.1e}, variances by {:.1e}".format(*agreement()))
    print(f"{'problem':<10} {'T = N':>6} {'values':>9} {'seconds':>8} {'error':>9} {'inside':>7}")
    for name in PROBLEMS:
        problem = cbq.problems.get(name)
        theta = problem.prior.sample(200, 1)
        exact = problem.exact(theta)
        for side in SIDES:
            samples = problem.collect(side, side, rng=0, design="sobol", scramble="common")
            start = time.perf_counter()
            fit = cbq.MOBQ(structure="kronecker").fit(samples)
            seconds = time.perf_counter() - start
            error = np.sqrt(np.mean((fit.predict(theta) - exact) ** 2)) / np.std(exact)
            low, high = fit.interval(theta)
            inside = np.mean((low <= exact) & (exact <= high))
            print(f"{name:<10} {side:>6} {side**2:>9} {seconds:>8.1f} {error:>9.1e} {inside:>7.2f}", flush=True)


if __name__ == "__main__":
    main()
