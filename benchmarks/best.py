"""The best theta: is the stated probability right, and how many runs does `solve(goal=cbq.Best())` take?

Run: .venv/bin/python benchmarks/best.py [--seeds 5] [--first 0] [--cases ...] [--random 200] [--workers 2]

Calibration: random functions of theta (p = 1 and 2) from few runs; the probability of being within epsilon of the best
that `fit.best` states, against how often it is. Runs: six problems with known optimum; the runs after which the true
regret of the chosen theta is below a tolerance at two rounds in a row. "Whole curve" chooses runs as `solve` does for
I at all thetas; "solve(tolerance)" stops once the intervals of I are within the tolerance, as `solve` does. "EI of
averages" is a Gaussian process on averages of f over several draws of x, with expected improvement over the best
posterior mean; one round suffices. BoTorch's acquisition functions for such averages differ from it in details.
`solve(goal=Best)` also stops by itself: after these runs, with the true regret in the last column.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import ndtr
from scipy.stats import norm

import cbq
from _common import OneThreadPool, met, positive_integer, print_record, with_progress
from cbq.fit import Contest
from cbq.measures import Empirical, Gaussian, Measure, Uniform

BINS, EPSILON = 10, 0.05
BUDGET, AVERAGED, MOST_AVERAGED = 80, 8, 480


@dataclass(frozen=True)
class Case:
    """A problem, its exact I at theta (M, p), the largest I that is allowed, and the tolerance of regret.

    allowed : which thetas keep the constraints. goal : further arguments of `cbq.Best`.
    """

    f: Callable[[np.ndarray, np.ndarray], np.ndarray]
    d: int
    prior: Measure
    exact: Callable[[np.ndarray], np.ndarray]
    best: float
    tolerance: float
    goal: dict[str, Any] = field(default_factory=dict)
    allowed: Callable[[np.ndarray], np.ndarray] = lambda theta: np.ones(len(theta), dtype=bool)
    outputs: tuple[str, ...] = ("f",)

    @property
    def problem(self) -> cbq.Problem:
        """The problem of cbq."""
        names = {"f": list(self.outputs)} if len(self.outputs) > 1 else None
        d = self.d
        return cbq.Problem(self.f, lambda theta: Gaussian(np.zeros(d), std=np.ones(d)), self.prior, names=names)

    def regret(self, theta: np.ndarray) -> float:
        """The true loss by theta (p,), infinite where it is not allowed."""
        return float(self.best - self.exact(theta[None])[0]) if self.allowed(theta[None])[0] else np.inf


def newsvendor() -> Case:
    """An order of theta is sold for 5 up to a demand of 10 + 2 x, and costs 3: a kink."""
    z = norm.ppf(0.4)
    exact = lambda theta: 5 * (10 + 2 * _least((theta[:, 0] - 10) / 2)) - 3 * theta[:, 0]  # noqa: E731
    f = lambda x, theta: 5 * np.minimum(10 + 2 * x[:, 0], theta[0]) - 3 * theta[0]  # noqa: E731
    return Case(f, 1, Uniform(4.0, 16.0), exact, float(exact(np.array([[10 + 2 * z]]))[0]), 0.05)


def _least(t: np.ndarray) -> np.ndarray:
    """E min(X, t) of a standard normal X."""
    return -norm.pdf(t) + t * (1 - norm.cdf(t))


def branin() -> Case:
    """The negative Branin function, with an error that grows with it."""

    def value(theta: np.ndarray) -> np.ndarray:
        a, b = theta[..., 0], theta[..., 1]
        bent = b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6
        return -(bent**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10)

    f = lambda x, theta: value(theta) * (1 + 0.3 * x[:, 0]) + 5 * x[:, 0]  # noqa: E731
    return Case(f, 1, Uniform([-5.0, 0.0], [10.0, 15.0]), value, -0.39788736, 0.5)


def hartmann() -> Case:
    """The Hartmann function of three coordinates, with two errors."""
    A = np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]])
    P = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
    alpha = np.array([1.0, 1.2, 3.0, 3.2])

    def value(theta: np.ndarray) -> np.ndarray:
        return np.exp(-np.sum(A * (theta[..., None, :] - P) ** 2, axis=-1)) @ alpha

    f = lambda x, theta: value(theta) * (1 + 0.3 * np.sin(x[:, 0])) + 0.3 * x[:, 1]  # noqa: E731
    return Case(f, 2, Uniform(np.zeros(3), np.ones(3)), value, 3.86278215, 0.2)


def reactor() -> Case:
    """Four settings, each with an optimum of its own, two of which are met with an error."""
    centre, weight = np.array([0.2, 0.7, 0.4, 0.9]), np.array([1.0, 2.0, 0.5, 1.0])

    def f(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        met = np.tile(theta, (len(x), 1))
        met[:, :2] += 0.2 * x
        return 1 - (met - centre) ** 2 @ weight

    exact = lambda theta: 1 - (theta - centre) ** 2 @ weight - 0.04 * 3.0  # noqa: E731
    return Case(f, 2, Uniform(np.zeros(4), np.ones(4)), exact, 1 - 0.12, 0.02)


def loaded() -> Case:
    """The largest gain 2 a + b under a mean load of at most 1, a^2 + b^2."""

    def f(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        a, b = theta
        return np.stack([2 * a + b + 0.3 * x[:, 0], a**2 + b**2 + 0.5 * a * x[:, 0]], axis=1)

    exact = lambda theta: 2 * theta[:, 0] + theta[:, 1]  # noqa: E731
    goal = {"output": "gain", "subject_to": {"load": (None, 1.0)}}
    allowed = lambda theta: np.sum(theta**2, axis=1) <= 1.0  # noqa: E731
    prior = Uniform([0.0, 0.0], [1.5, 1.5])
    return Case(f, 1, prior, exact, np.sqrt(5.0), 0.05, goal, allowed, ("gain", "load"))


def alternatives() -> Case:
    """Twelve alternatives with three attributes each."""
    theta = np.random.default_rng(3).uniform(size=(12, 3))
    slope = np.array([1.0, -0.5, 0.7])

    def exact(theta: np.ndarray) -> np.ndarray:
        return theta @ slope - (theta[:, 0] - 0.5) ** 2 + 0.1 * theta[:, 1]

    f = lambda x, theta: theta @ slope - (theta[0] + 0.3 * x[:, 0] - 0.5) ** 2 + 0.1 * theta[1] * x[:, 0] ** 2 + 0.09  # noqa: E731
    return Case(f, 1, Empirical(theta), exact, float(np.max(exact(theta))), 0.01)


CASES = {each.__name__: each for each in (newsvendor, branin, hartmann, reactor, loaded, alternatives)}


def solved(name: str, seed: int) -> tuple[int, float, int, float]:
    """The runs after which `solve(goal=Best)` has a small regret, and that regret; and both where it stops."""
    case = CASES[name]()
    goal, found, stopped = cbq.Best(tolerance=case.tolerance, **case.goal), list[tuple[int, float]](), False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with case.problem.session(goal=goal, budget=BUDGET, rng=seed) as session:
            while not session.is_over:
                _more(session, case)
                if not session.missing:
                    theta = (
                        session._estimate().foci[0][0].wishes[0][0].theta[0]
                    )  # the chosen one, without another search
                    found.append((session.n_told, case.regret(theta)))
            stopped = session.reached
    return *_first(found, case.tolerance), (found[-1][0] if stopped else BUDGET + 1), found[-1][1]


def whole_curve(name: str, seed: int) -> tuple[int, float, int, float]:
    """The runs after which the best theta of a fit to runs for the whole curve has a small regret, and that regret."""
    case, found = CASES[name](), list[tuple[int, float]]()
    options = {"maximize": True, "subject_to": None, "output": None, "level": 0.95, "among": None} | case.goal
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with case.problem.session(budget=BUDGET, rng=seed) as session:
            while session.n_told < BUDGET and _first(found, case.tolerance)[0] > BUDGET:
                _more(session, case)
                contest = Contest.of(session.fit(), case.prior, size=1000, spread=128, rng=0, **options)
                found.append((session.n_told, case.regret(contest.theta[contest.chosen])))
    runs, regret = _first(found, case.tolerance)
    return runs, regret, runs, regret


def to_tolerance(name: str, seed: int) -> tuple[int, float, int, float]:
    """The runs after which `solve` knows I at all thetas to the tolerance, and the regret of the best theta then."""
    case = CASES[name]()
    options = {"maximize": True, "subject_to": None, "output": None, "level": 0.95, "among": None} | case.goal
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = case.problem.solve(tolerance=case.tolerance, budget=2 * BUDGET, rng=seed, progress=False)
        contest = Contest.of(answer.fit, case.prior, size=1000, rng=0, **options)
    runs, regret = answer.n_runs + (not answer.reached), case.regret(contest.theta[contest.chosen])
    return runs, regret, runs, regret


def _more(session: Any, case: Case) -> None:
    runs = session.ask(min(session.batch_size(1), BUDGET - session.n_told))
    session.tell(runs.ids, np.concatenate([case.f(x[None], t) for _, t, x in runs]))


def _first(found: list[tuple[int, float]], tolerance: float) -> tuple[int, float]:
    """The runs and the regret at the first of two rounds in a row with a small regret."""
    for (runs, regret), (_, again) in pairwise(found):
        if max(regret, again) <= tolerance:
            return runs, regret
    return BUDGET + 1, found[-1][1] if found else np.inf


def averages(name: str, seed: int) -> tuple[int, float, int, float]:
    """The runs until the best posterior mean of averages of f has a small regret."""
    case, rng = CASES[name](), np.random.default_rng(seed)
    p = case.prior.dim
    discrete = isinstance(case.prior, Empirical)

    def drawn(n: int) -> np.ndarray:
        return case.prior.sample(n, rng)

    theta = drawn(2 * p + 2)
    values = [_average(case, t, rng) for t in theta]
    regret = np.inf
    while (runs := AVERAGED * len(theta)) <= MOST_AVERAGED:
        y, noise = (np.array(each) for each in zip(*values, strict=True))
        candidates = np.unique(drawn(400), axis=0)
        if not discrete:
            low, high = case.prior.support
            near = theta[np.argmax(y[:, 0])] + 0.05 * (high - low) * rng.standard_normal((100, p))
            candidates = np.concatenate([candidates, np.clip(near, low, high)])
        found = [_GP(theta, y[:, c], noise[:, c]) for c in range(y.shape[1])]
        mean, std = found[0](np.concatenate([theta, candidates]))
        feasible = np.ones(len(mean))
        if len(found) > 1:  # the load
            other, error = found[1](np.concatenate([theta, candidates]))
            feasible = ndtr((1.0 - other) / error)
        sure = np.where(feasible >= 0.95, mean, -np.inf)
        chosen = int(np.argmax(sure if np.any(feasible >= 0.95) else feasible))
        every = np.concatenate([theta, candidates])
        regret = case.regret(every[chosen])
        if regret <= case.tolerance:
            return runs, regret, runs, regret
        z = (mean - mean[chosen]) / std
        improvement = feasible * std * (norm.pdf(z) + z * ndtr(z))
        theta = np.concatenate([theta, every[[int(np.argmax(improvement))]]])
        values.append(_average(case, theta[-1], rng))
    return MOST_AVERAGED + 1, regret, MOST_AVERAGED + 1, regret


def _average(case: Case, theta: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The averages (C,) of f over draws, and their variances."""
    f = np.asarray(case.f(rng.standard_normal((AVERAGED, case.d)), theta)).reshape(AVERAGED, -1)
    return np.mean(f, axis=0), np.var(f, axis=0, ddof=1) / AVERAGED + 1e-12


class _GP:
    """A process of Matern 5/2 with a constant mean, on averages with the mean of their variances as noise."""

    def __init__(self, theta: np.ndarray, y: np.ndarray, noise: np.ndarray) -> None:
        self.theta, self.unit = theta, np.maximum(np.std(theta, axis=0), 1e-9)
        self.shift, self.scale = np.mean(y), np.std(y) + 1e-12
        self.y, self.noise = (y - self.shift) / self.scale, np.full(len(y), np.mean(noise) / self.scale**2)
        starts = [np.zeros(theta.shape[1] + 1), np.append(np.full(theta.shape[1], 1.0), 0.0)]
        fits = [minimize(self._loss, start, method="L-BFGS-B", bounds=[(-2.5, 3.5)] * len(start)) for start in starts]
        self.log = min(fits, key=lambda each: each.fun).x
        self.factor = cho_factor(self._gram(self.log))
        self.weights = cho_solve(self.factor, self.y)

    def _k(self, a: np.ndarray, b: np.ndarray, log: np.ndarray) -> np.ndarray:
        unit = self.unit * np.exp(log[:-1])
        r = np.sqrt(5 * np.sum(((a[:, None] - b) / unit) ** 2, axis=-1))
        return np.exp(log[-1]) * (1 + r + r**2 / 3) * np.exp(-r)

    def _gram(self, log: np.ndarray) -> np.ndarray:
        return self._k(self.theta, self.theta, log) + np.diag(self.noise + 1e-8)

    def _loss(self, log: np.ndarray) -> float:
        factor = cho_factor(self._gram(log))
        return float(0.5 * self.y @ cho_solve(factor, self.y) + np.sum(np.log(np.diag(factor[0]))))

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        k = self._k(theta, self.theta, self.log)
        variance = np.exp(self.log[-1]) - np.sum(k * cho_solve(self.factor, k.T).T, axis=1)
        return self.shift + self.scale * (k @ self.weights), self.scale * np.sqrt(np.maximum(variance, 1e-12))


METHODS = {
    "solve(goal=Best)": solved,
    "whole curve": whole_curve,
    "solve(tolerance)": to_tolerance,
    "EI of averages": averages,
}


def stated(seed: int) -> tuple[float, bool, float, float]:
    """The stated probability on a random function, whether it holds, the expected regret, and the true one.

    f is a sum of waves with random frequencies, phases and amplitudes, in theta and x, whose mean over x is known.
    """
    rng = np.random.default_rng([7, seed])
    p = 1 + seed % 2
    w, b = rng.normal(scale=2.5 / np.sqrt(p), size=(6, p)), rng.normal(scale=0.6, size=6)
    phase, size = rng.uniform(0, 2 * np.pi, 6), rng.normal(size=6)

    def exact(theta: np.ndarray) -> np.ndarray:
        return np.cos(theta @ w.T + phase) @ (size * np.exp(-0.5 * b**2))

    def f(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return np.cos(w @ theta + phase + x * b) @ size

    prior = Uniform(np.zeros(p), np.ones(p))
    problem = cbq.Problem(f, lambda theta: Gaussian(0.0, cov=1.0), prior)
    T = int(rng.integers(3, 9)) * p
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = cbq.MOBQ().fit(problem.collect(T, 2, rng=seed, design="sobol", progress=False))
        grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 2001 if p == 1 else 101)] * p), axis=-1).reshape(-1, p)
        values = exact(grid)
        epsilon = EPSILON * np.ptp(values)
        best = fit.best([(0.0, 1.0)] * p, epsilon=epsilon, size=500, rng=seed)
    regret = float(np.max(values) - exact(best.theta[None])[0])
    return best.probability, regret <= epsilon, best.expected_regret / np.ptp(values), regret / np.ptp(values)


def calibration(found: np.ndarray) -> None:
    """Print, for each bin of the stated probability, how often it held."""
    probability, held, expected, regret = found.T
    print(f"\n{len(found)} random functions, within {EPSILON:.0%} of the range of the best")
    print(f"{'stated':>12} {'functions':>10} {'mean stated':>12} {'held':>7}   inside two standard errors")
    edges = np.minimum((probability * BINS).astype(int), BINS - 1)
    for k in range(BINS):
        mine = edges == k
        if np.any(mine):
            mean = np.mean(probability[mine])
            error = np.sqrt(max(mean * (1 - mean), 0.25 / np.sum(mine)) / np.sum(mine))
            good = abs(np.mean(held[mine]) - mean) <= 2 * error
            row = f"{k / BINS:5.1f} to {(k + 1) / BINS:.1f} {np.sum(mine):10} {mean:12.3f} {np.mean(held[mine]):7.3f}"
            print(f"{row}   {met(bool(good))}")
    print(f"{'all':>12} {len(found):10} {np.mean(probability):12.3f} {np.mean(held):7.3f}")
    print(f"expected regret {np.mean(expected):.4f} of the range on average, true regret {np.mean(regret):.4f}")


def main() -> None:
    """Print the run record and both tables."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=positive_integer, default=5, help="number of seeds (default 5)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default 0)")
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--random", type=int, default=200, help="number of random functions (default 200)")
    parser.add_argument("--workers", type=positive_integer, default=2, help="processes (default 2)")
    options = parser.parse_args()
    print_record()
    seeds = range(options.first, options.first + options.seeds)
    with OneThreadPool(options.workers) as pool:
        if options.cases:
            print(f"{'':32}{'runs, each seed':<34} {'median':>7}   stops after, each seed; regret <= tolerance then")
        for name in options.cases:
            tolerance = CASES[name]().tolerance
            for method in options.methods:
                jobs = [(name, seed) for seed in seeds]
                results = with_progress(pool.run(METHODS[method], jobs), len(jobs), f"{name} {method}")
                runs, _, stop, regret = np.array([result for _, result in results]).T
                each, stops = (" ".join(f"{int(n)}" for n in numbers) for numbers in (runs, stop))
                last = f"{stops}; {np.sum(regret <= tolerance)} of {len(runs)}" if METHODS[method] is solved else ""
                print(f"{f'{name}, {method}':32}{each:<34} {np.median(runs):7.0f}   {last}", flush=True)
        if options.random:
            first = options.first
            jobs = [(seed,) for seed in range(first, first + options.random)]
            results = with_progress(pool.run(stated, jobs), len(jobs), "random functions")
            calibration(np.array([result for _, result in results], dtype=float))


if __name__ == "__main__":
    main()
