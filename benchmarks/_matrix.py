"""The judging matrix: problems with known answers, among them many on which an estimator may fail.

Each case has a problem, its exact I as a function of theta (M, p), and the sizes (T, N) at which it is judged. Truths
are closed forms, or midpoint rules over quantiles where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import erfc
from scipy.stats import norm

import cbq
from cbq.measures import Beta, Gamma, LogNormal, Measure, Normal, Poisson, Product, StudentT, Uniform

Array = np.ndarray
Truth = Callable[[Array], Array]
SIZES = ((8, 5), (10, 16), (15, 40))  # 40 to 600 runs
FEW_THETAS, LARGE = ((7, 20), (12, 20), (20, 20)), ((50, 120),)
LEVELS = (np.arange(200_000) + 0.5) / 200_000  # a midpoint rule on (0, 1)
SCORES = norm.ppf(LEVELS)


def _collected(problem: cbq.Problem, T: int, N: int, seed: int, design: str) -> cbq.Samples:
    return problem.collect(T, N, rng=seed, design=design, progress=False)


@dataclass(frozen=True)
class Case:
    """A problem, made when it is needed; its exact I at theta (M, p), None for the problem's own; and sizes (T, N).

    collect: the samples of a problem from T, N, a seed and a design. designs: those at which the case is judged.
    """

    problem: Callable[[], cbq.Problem]
    truth: Truth | None = None
    sizes: Sequence[tuple[int, int]] = SIZES
    collect: Callable[[cbq.Problem, int, int, int, str], cbq.Samples] = _collected
    designs: Sequence[str] = ("iid", "sobol")


def _line(theta: Array) -> Measure:
    return Normal(theta[0], std=1.0)


def _cube(d: int) -> Callable[[Array], Measure]:
    """d independent inputs, the first with mean theta."""
    return lambda theta: Normal(np.append(theta[0], np.zeros(d - 1)), std=np.ones(d))


def _of_x(
    f: Callable[[Array], Array], family: Callable[[Array], Measure] = _line, low: float = 0.0, high: float = 2.0
) -> Callable[[], cbq.Problem]:
    """f of x (n, d) alone."""
    return lambda: cbq.Problem(lambda x, theta: f(x), family, Uniform(low, high), depends_on_theta=False)


def _of_both(
    f: Callable[[Array, Array], Array], family: Callable[[Array], Measure] = _line
) -> Callable[[], cbq.Problem]:
    """f of x (n, d) and theta (1,)."""
    return lambda: cbq.Problem(f, family, Uniform(0.0, 2.0))


def _by_quantiles(f: Callable[[Array], Array], std: float = 1.0) -> Truth:
    """E f(X) for X ~ N(theta, std^2)."""

    @lru_cache
    def one(t: float) -> float:
        return float(np.mean(f(t + std * SCORES)))

    return lambda theta: np.array([one(t) for t in theta[:, 0].tolist()])


def _floor_truth(a: float) -> Truth:
    """E floor(a X): the sum over k > 0 of P(a X >= k), less that over k <= 0 of P(a X < k)."""
    k = np.arange(1, 200)

    def truth(theta: Array) -> Array:
        above = norm.sf(k / a - theta[:, :1])
        below = norm.cdf((1 - k) / a - theta[:, :1])
        return np.asarray(np.sum(above - below, axis=1))

    return truth


def _wave(theta: Array, a: float, phase: float = 0.0) -> Array:
    """E cos(a X + phase) for X ~ N(theta, 1)."""
    return np.asarray(np.cos(a * theta[:, 0] + phase) * np.exp(-0.5 * a**2))


def _random(f: Callable[..., Array]) -> Callable[[], cbq.Problem]:
    return lambda: cbq.Problem(f, _line, Uniform(0.0, 2.0), depends_on_theta=False, stochastic=True)


def _shocked(x: Array, theta: Array) -> Array:
    """sin(x) and a shock of mean 0 that all points of a theta share, as they do where a simulator has a seed each."""
    shock = norm.ppf(np.modf(1e4 * abs(np.sin(1e6 * theta[0] + 1.0)))[0] * 0.998 + 0.001)
    return np.asarray(np.sin(x[:, 0]) + 0.1 * shock)


DIRECTION = np.array([0.5, 0.4, -0.3, 0.3, 0.2, -0.2, 0.2, 0.1, -0.1, 0.1])
PHASES = np.linspace(0.0, 2.0, 19)


def _interacting(x: Array) -> Array:
    """Ten inputs, none of which can be told apart from the others: the cosine of a sum, and a product."""
    return np.asarray(np.cos(x @ (2 * DIRECTION)) + 0.5 * x[:, 0] * x[:, 1] * np.tanh(x[:, 2] + 0.5))


def _interacting_truth(theta: Array) -> Array:
    # x_1 has the mean 0 and is independent of the others, so that the product has the mean 0.
    return np.asarray(np.cos(2 * DIRECTION[0] * theta[:, 0]) * np.exp(-2 * np.sum(DIRECTION**2)))


def _additive(x: Array) -> Array:
    return np.asarray(np.sum(np.sin(x + PHASES[: x.shape[1]]), axis=1))


def _additive_truth(d: int, pairs: bool = False) -> Truth:
    def truth(theta: Array) -> Array:
        first = np.sin(theta[:, 0] + PHASES[0])
        return np.asarray(np.exp(-0.5) * (first + np.sum(np.sin(PHASES[1:d]))) + pairs * (1 + theta[:, 0] ** 2))

    return truth


def _nineteen(x: Array) -> Array:
    return np.asarray(_additive(x) + x[:, 0] ** 2 + x[:, 1] * x[:, 2])


def _tailed(theta: Array) -> Measure:
    return Product([StudentT(2.5, theta[0], 1.0), Normal(theta[0], std=1.0)])


def _flood(x: Array, theta: Array) -> Array:
    """The cost of a flood under a dyke of height theta: a kink that moves with theta."""
    return np.asarray(np.maximum(x[:, 0] + x[:, 1] - theta[0], 0.0) ** 1.5)


def _flood_truth(theta: Array) -> Array:
    # The sum of the inputs less theta is N(1 - theta, 1.25).
    return _by_quantiles(lambda excess: np.maximum(excess, 0.0) ** 1.5, np.sqrt(1.25))(1.0 - theta)


def _laplace(m: Array) -> Array:
    """E exp(-|Z|) for Z ~ N(m, 1)."""

    def half(m: Array) -> Array:
        return np.asarray(0.5 * np.exp(0.5 - m) * erfc((1 - m) / np.sqrt(2)))

    return half(m) + half(-m)


def _common_scramble(problem: cbq.Problem, T: int, N: int, seed: int, design: str) -> cbq.Samples:
    """All thetas with the same Sobol points, in the coordinates of their measures."""
    return problem.collect(T, N, rng=seed, design="sobol", scramble="common", progress=False)


def _ragged(problem: cbq.Problem, T: int, N: int, seed: int, design: str) -> cbq.Samples:
    """From 2 to 2 N points at a theta."""
    counts = np.random.default_rng(seed).integers(2, 2 * N, T)
    return problem.collect(T, counts, rng=seed, design=design, progress=False)


def _one_large(problem: cbq.Problem, T: int, N: int, seed: int, design: str) -> cbq.Samples:
    """N points at all thetas but one, which has 40."""
    return problem.collect(T, [N] * (T - 1) + [40], rng=seed, design=design, progress=False)


def _chain(problem: cbq.Problem, T: int, N: int, seed: int, design: str) -> cbq.Samples:
    """N steps of an autoregressive chain at each theta, stationary under N(theta, 1), with correlations of 0.5."""
    drawn = problem.collect(T, N, rng=seed, progress=False)
    z = drawn.x[..., 0] - drawn.theta
    for i in range(1, N):
        z[:, i] = 0.5 * z[:, i - 1] + np.sqrt(0.75) * z[:, i]
    x = (drawn.theta + z)[..., None]
    f = np.stack([problem.integrand(points, t) for points, t in zip(x, drawn.theta, strict=True)])
    return cbq.Samples(drawn.theta, x, f, _line, depends_on_theta=False, design="mcmc")


def _smooth(x: Array) -> Array:
    return np.asarray(np.sin(x[:, 0]) + 0.5 * np.cos(2 * x[:, 0]))


def _smooth_truth(t: Array) -> Array:
    return _wave(t, 1.0, -0.5 * np.pi) + 0.5 * _wave(t, 2.0)


def _rare(c: float, bounds: tuple[float, float] | None) -> Callable[[], cbq.Problem]:
    """The event x > c."""
    return lambda: cbq.Problem(
        lambda x, theta: 1.0 * (x[:, 0] > c), _line, Uniform(0.0, 2.0), depends_on_theta=False, bounds=bounds
    )


CASES: dict[str, Case] = {
    **{name: Case(lambda name=name: cbq.problems.get(name)) for name in ("linear", "sir", "butterfly", "health")},
    "smooth": Case(
        _of_x(_smooth),
        _smooth_truth,
    ),
    "kink": Case(
        _of_x(lambda x: np.maximum(x[:, 0] - 1.0, 0.0)),
        lambda t: (t[:, 0] - 1) * norm.cdf(t[:, 0] - 1) + norm.pdf(t[:, 0] - 1),
    ),
    "jump": Case(_of_x(lambda x: 1.0 * (x[:, 0] > 1.3)), lambda t: norm.sf(1.3 - t[:, 0])),
    "narrow": Case(
        _of_x(lambda x: np.exp(-0.5 * ((x[:, 0] - 1) / 0.05) ** 2)),
        lambda t: 0.05 / np.sqrt(1.0025) * np.exp(-0.5 * (t[:, 0] - 1) ** 2 / 1.0025),
    ),
    "oscillating": Case(_of_x(lambda x: np.cos(6 * x[:, 0]) + x[:, 0]), lambda t: t[:, 0] + _wave(t, 6.0)),
    "gamma": Case(
        _of_x(lambda x: np.exp(-x[:, 0]), lambda t: Gamma(t[0], 2.0), 1.0, 3.0), lambda t: (2 / 3) ** t[:, 0]
    ),
    "lognormal": Case(
        _of_x(lambda x: 1 / (1 + x[:, 0]), lambda t: LogNormal(t[0], std=0.5)),
        _by_quantiles(lambda log_x: 1 / (1 + np.exp(log_x)), 0.5),
    ),
    "beta and gamma": Case(
        _of_x(
            lambda x: x[:, 0] ** 2 * np.exp(-0.5 * x[:, 1]),
            lambda t: Product([Beta(1 + t[0], 2.0), Gamma(2.0, 1 + t[0])]),
        ),
        lambda t: (
            (1 + t[:, 0]) * (2 + t[:, 0]) / ((3 + t[:, 0]) * (4 + t[:, 0])) * ((1 + t[:, 0]) / (1.5 + t[:, 0])) ** 2
        ),
    ),
    "of theta": Case(
        _of_both(lambda x, t: np.sin(x[:, 0]) + t[0] ** 2 * np.cos(x[:, 0])),
        lambda t: _wave(t, 1.0, -0.5 * np.pi) + t[:, 0] ** 2 * _wave(t, 1.0),
    ),
    "moving kink": Case(
        _of_both(_flood, lambda t: Normal([0.5, 0.5], std=[1.0, 0.5])),
        _flood_truth,
    ),
    "moving jump": Case(
        _of_both(lambda x, t: 1.0 * (x[:, 0] > 0.5 + 0.5 * t[0])), lambda t: norm.sf(0.5 - 0.5 * t[:, 0])
    ),
    "two thetas": Case(
        lambda: cbq.Problem(
            lambda x, t: np.sin(x[:, 0] + x[:, 1]) + t[0] * x[:, 1] ** 2,
            lambda t: Normal(t, std=[0.5, 1.0]),
            Uniform([0.0, 0.0], [2.0, 2.0]),
        ),
        lambda t: np.sin(t[:, 0] + t[:, 1]) * np.exp(-0.625) + t[:, 0] * (1 + t[:, 1] ** 2),
    ),
    "additive, 10 inputs": Case(_of_x(_additive, _cube(10)), _additive_truth(10)),
    "interacting, 10 inputs": Case(_of_x(_interacting, _cube(10)), _interacting_truth),
    "19 inputs": Case(_of_x(_nineteen, _cube(19)), _additive_truth(19, pairs=True)),
    "noise": Case(
        _random(lambda x, theta, rng: np.sin(x[:, 0]) + 0.3 * rng.standard_normal(len(x))),
        lambda t: _wave(t, 1.0, -0.5 * np.pi),
    ),
    "draws of an event": Case(
        _random(lambda x, theta, rng: 1.0 * (rng.random(len(x)) < norm.cdf(x[:, 0] - 1))),
        lambda t: norm.cdf((t[:, 0] - 1) / np.sqrt(2)),
    ),
    "a shock per theta": Case(_of_both(_shocked), lambda t: _wave(t, 1.0, -0.5 * np.pi)),
    "whole numbers": Case(_of_x(lambda x: np.floor(3 * x[:, 0])), _floor_truth(3.0)),
    "rounded": Case(_of_x(lambda x: np.round(np.exp(x[:, 0]))), _by_quantiles(lambda x: np.round(np.exp(x)))),
    "I jumps": Case(
        _of_both(lambda x, t: x[:, 0] + 1.0 * (t[0] > 1.1)), lambda t: t[:, 0] + 1.0 * (t[:, 0] > 1.1), FEW_THETAS
    ),
    "I oscillates": Case(
        _of_both(lambda x, t: x[:, 0] + np.sin(7 * t[0])), lambda t: t[:, 0] + np.sin(7 * t[:, 0]), FEW_THETAS
    ),
    "heavy tails": Case(
        _of_x(lambda x: x[:, 0] ** 2 + np.sin(x[:, 1]), _tailed),
        lambda t: t[:, 0] ** 2 + 5.0 + _wave(t, 1.0, -0.5 * np.pi),
    ),
    "exponential": Case(_of_x(lambda x: np.exp(1.5 * x[:, 0])), lambda t: np.exp(1.5 * t[:, 0] + 1.125)),
    "6000 points": Case(
        _of_x(lambda x: np.exp(-np.abs(x[:, 0] - 1)) + x[:, 0] * x[:, 1], _cube(2)),
        lambda t: _laplace(t[:, 0] - 1),
        LARGE,
    ),
    "2500 thetas": Case(_of_x(lambda x: np.sin(x[:, 0])), lambda t: _wave(t, 1.0, -0.5 * np.pi), ((2500, 3),)),
    "a common design": Case(_of_x(_smooth), _smooth_truth, collect=_common_scramble, designs=("sobol",)),
    "health, a common design": Case(
        lambda: cbq.problems.get("health"), collect=_common_scramble, sizes=((10, 16), (15, 40)), designs=("sobol",)
    ),
    "ragged": Case(_of_x(_smooth), _smooth_truth, collect=_ragged),
    "one theta with 40 points": Case(_of_x(_smooth), _smooth_truth, ((10, 1), (10, 2), (20, 3)), _one_large),
    "2 or 3 points": Case(_of_x(_smooth), _smooth_truth, ((40, 2), (40, 3), (200, 3))),
    "2 or 3 points, butterfly": Case(lambda: cbq.problems.get("butterfly"), sizes=((40, 2), (40, 3), (200, 3))),
    "300 thetas": Case(lambda: cbq.problems.get("butterfly"), sizes=((300, 8),)),
    "atoms": Case(
        _of_x(lambda x: np.exp(-0.2 * x[:, 0]), lambda t: Poisson(3.0 + 2 * t[0])),
        lambda t: np.exp(-(3.0 + 2 * t[:, 0]) * (1 - np.exp(-0.2))),
    ),
    "a rare event": Case(_rare(3.0, None), lambda t: norm.sf(3.0 - t[:, 0])),
    "a rare event, bounds": Case(_rare(3.5, (0.0, 1.0)), lambda t: norm.sf(3.5 - t[:, 0])),
    "a chain": Case(_of_x(_smooth), _smooth_truth, collect=_chain, designs=("iid",)),
}
