"""ProbNum's zoo of quadrature problems, each as a function of its first input, with ProbNum's solvers beside ours.

Run: .venv/bin/python benchmarks/published/zoo.py [--seeds 3] [--out published]

The definitions are those of ProbNum's zoo and of the pages that it names (sfu.ca/~ssurjano; Emukit's toy integrands),
with its default parameters: a = 5 and u = 0.5 of the Genz families. Problems that have a dimension have 3 inputs, the
others 2. theta is the first input, uniform over its range, and I(theta) the mean over the others. At 16 thetas f is
run at 16 and at 50 points each. Scores are the RMSE over these thetas in units of the root mean square of I, since
ProbNum's solvers have no estimate at other thetas. The truth is a Gauss-Legendre rule on panels that end at all
kinks.

ProbNum (0.1.25) solves one integral for each theta: with its defaults (`bayesquad`: random points), and from our
points (`bayesquad_from_data`). Both have its default kernel, of which it fits the amplitude alone. Its policies that
choose points (us, mi, ivr) raise a TypeError on Python 3.11. "Sobol average" is the plain average of the points that
ours have.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

import cbq
from _tables import Score, Table, run
from cbq.measures import Uniform

T, COUNTS = 16, (16, 50)
EDGES = np.array(
    [0.0, 1e-9, 1e-6, 1e-4, 1e-2, 0.1, 0.25, 0.5, 0.75, 1.0]
)  # of panels, in units of the range of an input
NODES = 32  # of a panel
Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Integrand:
    """A function of points (n, d) in the cube (low, high)^d."""

    f: Function
    d: int = 3
    low: float = 0.0
    high: float = 1.0

    @cached_property
    def rule(self) -> tuple[np.ndarray, np.ndarray]:
        """Points (n, d - 1) and weights (n,) that average over all inputs but the first."""
        x, w = np.polynomial.legendre.leggauss(NODES)
        half = 0.5 * np.diff(EDGES)[:, None]
        line, weights = (EDGES[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()
        grid = np.stack(np.meshgrid(*[line] * (self.d - 1), indexing="ij"), axis=-1).reshape(-1, self.d - 1)
        product = weights
        for _ in range(self.d - 2):
            product = np.outer(product, weights).ravel()
        return self.low + (self.high - self.low) * grid, product

    def at(self, x: np.ndarray, theta: float) -> np.ndarray:
        """The values at points (n, d - 1) of the other inputs."""
        return self.f(np.column_stack([np.full(len(x), theta), x]))

    def truth(self, theta: np.ndarray) -> np.ndarray:
        """I at thetas (M,)."""
        x, w = self.rule
        return np.array([w @ self.at(x, t) for t in theta])

    @property
    def problem(self) -> cbq.Problem:
        """The problem whose theta is the first input."""
        ends = np.full(self.d - 1, self.low), np.full(self.d - 1, self.high)
        others = Uniform(*ends)
        return cbq.Problem(lambda x, t: self.at(x, t[0]), lambda _: others, Uniform(self.low, self.high))


def peaks(x: np.ndarray) -> np.ndarray:
    """x - u of the Genz families."""
    return x - 0.5


def alternating(x: np.ndarray) -> np.ndarray:
    """-x_1 + x_1 x_2 - x_1 x_2 x_3."""
    return np.asarray(np.cumprod(x, axis=1) @ (-1.0) ** np.arange(1, x.shape[1] + 1))


def radius(x: np.ndarray) -> np.ndarray:
    """The distance to the origin."""
    return np.asarray(np.linalg.norm(x, axis=1))


def circular(x: np.ndarray) -> np.ndarray:
    """r^2 times the standard normal density of r."""
    return np.asarray(radius(x) ** 2 * np.exp(-0.5 * radius(x) ** 2) / np.sqrt(2 * np.pi))


def hennig(x: np.ndarray) -> np.ndarray:
    """exp(-x' C x - sin(3 r^2)) with C = [[1, 0.5], [0.5, 1]]."""
    return np.asarray(np.exp(-np.sum(x**2, axis=1) - x[:, 0] * x[:, 1] - np.sin(3 * radius(x) ** 2)))


ZOO = {
    "Genz continuous": Integrand(lambda x: np.exp(-5 * np.sum(np.abs(peaks(x)), axis=1))),
    "Genz corner peak": Integrand(lambda x: (1 + 5 * np.sum(x, axis=1)) ** -4.0),
    "Genz discontinuous": Integrand(lambda x: np.where(np.any(x > 0.5, axis=1), 0.0, np.exp(5 * np.sum(x, axis=1)))),
    "Genz Gaussian": Integrand(lambda x: np.exp(-25 * np.sum(peaks(x) ** 2, axis=1))),
    "Genz oscillatory": Integrand(lambda x: np.cos(np.pi + 5 * np.sum(x, axis=1))),
    "Genz product peak": Integrand(lambda x: np.prod(1 / (1 / 25 + peaks(x) ** 2), axis=1)),
    "Bratley": Integrand(alternating),
    "Roos and Arnold": Integrand(lambda x: np.prod(np.abs(4 * x - 2), axis=1)),
    "Sobol G": Integrand(lambda x: np.prod((np.abs(4 * x - 2) + (a := np.arange(3) / 2 - 0.5)) / (1 + a), axis=1)),
    "Morokoff and Caflisch 1": Integrand(lambda x: (4 / 3) ** 3 * np.prod(x ** (1 / 3), axis=1)),
    "Morokoff and Caflisch 2": Integrand(lambda x: np.prod(3 - x, axis=1) / 2.5**3),
    "Hennig": Integrand(hennig, 2, -3.0, 3.0),
    "sombrero": Integrand(lambda x: np.sinc(radius(x)), 2, -3.0, 3.0),
    "circular Gaussian": Integrand(circular, 2, -3.0, 3.0),
}
PRINTED = {"Hennig": 3.525721820076955, "sombrero": 0.85225026427372, "circular Gaussian": 4.853275495632483}
OURS = {"CBQ": cbq.CBQ, "Auto": cbq.Auto}


def scored(estimate: np.ndarray, truth: np.ndarray) -> float:
    """The RMSE in units of the root mean square of the truth."""
    return float(np.sqrt(np.mean((estimate - truth) ** 2) / np.mean(truth**2)))


def ours(samples: cbq.Samples, truth: np.ndarray, method: str) -> Score:
    """The scores of a fit."""
    fit = OURS[method]().fit(samples)
    low, high = fit.interval(samples.theta)
    return scored(fit.predict(samples.theta), truth), float(np.mean((low <= truth) & (truth <= high)))


def average(samples: cbq.Samples, truth: np.ndarray) -> Score:
    """The score of the averages at each theta."""
    return scored(np.mean(samples.f, axis=1), truth), None


def probnum(case: Integrand, samples: cbq.Samples, truth: np.ndarray, seed: int | None) -> Score:
    """The scores of ProbNum at each theta, with random points of a seed, or with the points of the samples."""
    from probnum.quad import bayesquad, bayesquad_from_data

    rng, size = np.random.default_rng(seed), (case.high - case.low) ** (case.d - 1)
    options = {"max_evals": samples.f.shape[1], "var_tol": 0.0}
    domain, found = (np.full(case.d - 1, case.low), np.full(case.d - 1, case.high)), []
    for t, theta in enumerate(samples.theta[:, 0]):
        if seed is None:
            integral, _ = bayesquad_from_data(samples.points(t), samples.f[t], domain=domain)
        else:
            f = partial(case.at, theta=theta)
            integral, _ = bayesquad(f, case.d - 1, domain=domain, rng=rng, options=options)
        found.append((float(integral.mean) / size, float(integral.std) / size))
    mean, std = np.array(found).T
    return scored(mean, truth), float(np.mean(np.abs(mean - truth) <= 1.96 * std))


def fill(table: Table, options: Namespace) -> None:
    """All problems and sizes."""
    for name, integral in PRINTED.items():  # of the whole integral, over both inputs
        x, w = np.polynomial.legendre.leggauss(400)
        found = 36 * float(0.5 * w @ ZOO[name].truth(3 * x))
        if abs(found - integral) > 1e-7:
            raise ValueError(f"{name} has the integral {found!r} here, and {integral!r} in ProbNum")
    try:
        import probnum as package

        version = f"probnum {package.__version__}"
    except ImportError:
        print("ProbNum is not installed: `make published` has it, in an environment with NumPy 1.")
        version = ""
    for name, case in ZOO.items():
        for N in COUNTS:
            for seed in range(options.seeds):
                samples = case.problem.collect(T, N, rng=seed, design="sobol", progress=False)
                truth = case.truth(samples.theta[:, 0])
                measure = partial(table.measure, name, runs=T * N, seed=seed)
                measure(method="Sobol average", call=partial(average, samples, truth))
                for method in OURS:
                    measure(method=method, call=partial(ours, samples, truth, method))
                if version:
                    theirs = partial(probnum, case, samples, truth)
                    measure(method="ProbNum", call=partial(theirs, seed), source=version)
                    measure(method="ProbNum, our points", call=partial(theirs, None), source=version)


if __name__ == "__main__":
    run(__doc__, fill, "zoo", seeds=3)
