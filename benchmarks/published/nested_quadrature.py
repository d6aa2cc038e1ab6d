"""Nested kernel quadrature on its synthetic problem, beside nested Monte Carlo and ours, with the same runs.

Run: .venv/bin/python benchmarks/published/nested_quadrature.py [--seeds 5] [--out published]

The problem is the synthetic one of Chen, Naslidnyk and Briol (ICML 2025, arXiv:2502.18284): theta and x are uniform
on (0, 1)^d, g = sum_j x_j^2.5 + sum_j theta_j^2.5, and E (E g)^2 = 16/49 d^2 + (1/6 - 4/49) d is asked for. Their
method is run here as their published settings have it: two stages of kernel quadrature with product Matern 3/2
kernels of lengthscale 1, zero means, nuggets 0.1 N^(-2/d) and 0.1 T^(-2/d), a Sobol sequence of x for each theta and
independent thetas; "Sobol theta" has one for theta too. Ours: one fit with Sobol points, and `cbq.nested_expectation`
of its square; "additive" passes `Additive(Matern(2.5))` for x and for theta.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial

import numpy as np
from scipy.stats.qmc import Sobol

import cbq
from _tables import Score, Table, run
from cbq.kernels import Additive, Matern
from cbq.measures import Uniform

SIZES = {1: (10, 30, 100), 10: (10, 30), 20: (10, 30)}  # N = T, by dimension
METHODS = {
    "CBQ": lambda: cbq.CBQ(),
    "Auto": lambda: cbq.Auto(),
    "CBQ, additive": lambda: cbq.CBQ(kernel_x=Additive(Matern(2.5)), kernel_theta=Additive(Matern(2.5))),
}


def truth(d: int) -> float:
    """E (E g)^2: the mean of E g is 4 d / 7, and theta_j^2.5 has the variance 1/6 - 4/49."""
    return 16 / 49 * d**2 + (1 / 6 - 4 / 49) * d


def g(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The integrand at points (n, d) and theta (d,)."""
    return np.asarray(np.sum(x**2.5, axis=-1) + np.sum(theta**2.5))


def draws(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """The first n points of a scrambled Sobol sequence."""
    return np.asarray(Sobol(d, rng=rng).random_base2(int(np.ceil(np.log2(n)))))[:n]


def matern(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A product of Matern 3/2 kernels of lengthscale 1, for points (n, d) and (m, d)."""
    r = np.sqrt(3) * np.abs(x[:, None] - y)
    return np.asarray(np.prod((1 + r) * np.exp(-r), axis=-1))


def matern_mean(x: np.ndarray) -> np.ndarray:
    """The integral over (0, 1)^d: (2 - (2 + s) e^-s) / sqrt 3 on either side, with s = sqrt 3 times its length."""
    sides = [(2 - (2 + s) * np.exp(-s)) / np.sqrt(3) for s in (np.sqrt(3) * x, np.sqrt(3) * (1 - x))]
    return np.asarray(np.prod(sides[0] + sides[1], axis=-1))


def kernel_quadrature(x: np.ndarray, f: np.ndarray) -> float:
    """The kernel quadrature of values f (n,) at points (n, d), with the published nugget."""
    n, d = x.shape
    return float(matern_mean(x) @ np.linalg.solve(matern(x, x) + 0.1 * n ** (-2 / d) * np.eye(n), f))


def nested(d: int, n: int, seed: int, *, kernel: bool, sobol: bool = False) -> Score:
    """The error of nested kernel quadrature or of nested Monte Carlo."""
    rng = np.random.default_rng(seed)
    theta = draws(n, d, rng) if sobol else rng.random((n, d))
    if not kernel:
        return abs(np.mean([np.mean(g(rng.random((n, d)), row)) ** 2 for row in theta]) - truth(d)), None
    inner = [kernel_quadrature(x, g(x, row)) for row, x in ((row, draws(n, d, rng)) for row in theta)]
    return abs(kernel_quadrature(theta, np.square(inner)) - truth(d)), None


def ours(d: int, n: int, seed: int, method: str) -> Score:
    """The error of a fit, and whether its interval holds the truth."""
    cube = Uniform(np.zeros(d), np.ones(d))
    problem = cbq.Problem(g, lambda _: cube, cube)
    fit = METHODS[method]().fit(problem.collect(n, n, rng=seed, design="sobol", progress=False))
    number = cbq.nested_expectation(fit, np.square, cube, rng=seed)
    low, high = number.interval()
    return abs(number.estimate - truth(d)), float(low <= truth(d) <= high)


def fill(table: Table, options: Namespace) -> None:
    """All dimensions and sizes."""
    for d, sizes in SIZES.items():
        for n in sizes:
            for seed in range(options.seeds):
                measure = partial(table.measure, f"d = {d}", runs=n * n, seed=seed)
                here = "arXiv:2502.18284, as restated here"
                measure(method="nested Monte Carlo", call=partial(nested, d, n, seed, kernel=False), source=here)
                measure(method="nested kernel quadrature", call=partial(nested, d, n, seed, kernel=True), source=here)
                call = partial(nested, d, n, seed, kernel=True, sobol=True)
                measure(method="nested kernel quadrature, Sobol theta", call=call, source=here)
                for method in METHODS:
                    if method != "CBQ, additive" or d > 1:
                        measure(method=method, call=partial(ours, d, n, seed, method))


if __name__ == "__main__":
    run(__doc__, fill, "nested_quadrature", seeds=5)
