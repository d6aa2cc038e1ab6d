"""Models of a PSA whose EVPPI is known: tables of draws, and the truth of some sets computed in two ways.

The truth of a set is E max_d g_d - max_d E g_d for the conditional means g of the net benefits given the set. One way
is a closed form or a midpoint rule, the other adaptive quadrature or plain averages over many draws of g.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import integrate
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from cbq.problems import health

Table = tuple[
    Any, dict[str, np.ndarray]
]  # net benefits (n, D), or a pair of effects and costs; and inputs (n,) by name
GRID = 4000  # nodes of a midpoint rule on the line; its root on each axis of the plane
DRAWS = 4_000_000


@dataclass(frozen=True)
class Model:
    """Draws of a table, the sets of inputs in question, and their EVPPI, computed in two ways.

    truths : numbers, or (K,) for K prices. prices : the values of the willingness to pay; None with net benefits.
    """

    table: Callable[[int, np.random.Generator], Table]
    truths: dict[tuple[str, ...], tuple[Any, Any]]
    prices: tuple[float, ...] | None = None


def gain(g: np.ndarray) -> float:
    """E max_d - max_d E of net benefits (n, D), rows having equal weights."""
    return float(np.mean(np.max(g, axis=1)) - np.max(np.mean(g, axis=0)))


def midpoints(n: int = GRID) -> np.ndarray:
    """Standard normal quantiles at the midpoints of n equal intervals."""
    return np.asarray(ndtri((np.arange(n) + 0.5) / n))


def plane(n: int = 1200) -> np.ndarray:
    """Midpoints of the plane, (n^2, 2)."""
    u = midpoints(n)
    return np.stack(np.meshgrid(u, u, indexing="ij"), axis=-1).reshape(-1, 2)


def by_quad(g: Callable[[float], np.ndarray], breaks: tuple[float, ...] = ()) -> float:
    """E max_d g_d(u) - max_d E g_d(u) for a standard normal u, by adaptive quadrature."""
    ends = [-9.0, *sorted(breaks), 9.0]

    def mean(of: Callable[[float], float]) -> float:
        parts = pairwise(ends)
        return sum(integrate.quad(lambda u: of(u) * norm.pdf(u), a, b, limit=400, epsabs=1e-9)[0] for a, b in parts)

    D = len(g(0.0))
    return mean(lambda u: float(np.max(g(u)))) - max(mean(lambda u, d=d: float(g(u)[d])) for d in range(D))


def by_draws(g: Callable[[np.ndarray], np.ndarray], columns: int, rng: int = 5) -> float:
    """The same from many draws of u (n, columns): right to about 3 digits."""
    return gain(g(np.random.default_rng(rng).standard_normal((DRAWS, columns))))


def positive_part(m: float, s: float) -> float:
    """E max(X, 0) for X ~ N(m, s^2)."""
    return float(m * ndtr(m / s) + s * norm.pdf(m / s))


# --- health: 19 inputs, two decisions, products of correlated inputs

CORRELATED = {"theta1": 0, "theta2": 1, "x6": 2, "x14": 3}


def health_table(n: int, rng: np.random.Generator) -> Table:
    problem = health.build()
    theta = problem.prior.sample(n, rng)
    noise = problem.family(health.THETA_MEAN).sample(n, rng) - health.MEAN  # its distribution is the same at all thetas
    x = health.conditional_mean(theta) + noise
    inputs = {"theta1": theta[:, 0], "theta2": theta[:, 1]} | {f"x{j + 1}": x[:, j] for j in range(17)}
    return health.integrand(x, theta.T), inputs


def health_means(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """Conditional means (n, 2) given one input at its standardised values (n,)."""
    m, means = health.MEAN, np.array([*health.THETA_MEAN, health.MEAN[health.X6], health.MEAN[health.X14]])
    std = np.array([*health.THETA_STD, health.STD[health.X6], health.STD[health.X14]])
    cov = std[:, None] * (health.RHO + (1 - health.RHO) * np.eye(4)) * std

    def of(u: np.ndarray) -> np.ndarray:
        x5, given, left = np.full(len(u), m[4]), np.tile(means, (len(u), 1)), cov
        if name == "x5":
            x5 = m[4] + health.STD[4] * u
        else:
            i = CORRELATED[name]
            given = means + np.outer(u, cov[:, i] / std[i])
            left = cov - np.outer(cov[:, i], cov[:, i]) / cov[i, i]
        of1, of2 = (left[i, j] + given[:, i] * given[:, j] for i, j in ((0, 2), (1, 3)))  # E theta1 x6, E theta2 x14
        first = health.VALUE * (x5 * of1 + m[6] * m[7] * m[8]) - (m[0] + m[1] * m[2] * m[3])
        second = health.VALUE * (m[12] * of2 + m[14] * m[15] * m[16]) - (m[9] + m[10] * m[11] * m[3])
        return np.stack([first, second], axis=1)

    return of


def health_model() -> Model:
    truths = {
        (name,): (gain(of(midpoints())), by_quad(lambda u, of=of: of(np.array([u]))[0]))
        for name, of in ((name, health_means(name)) for name in ("theta1", "theta2", "x5", "x6"))
    }
    root = np.linalg.cholesky([[1, health.RHO], [health.RHO, 1]])

    def both(u: np.ndarray) -> np.ndarray:
        return np.asarray(health.exact(health.THETA_MEAN + (u @ root.T) * health.THETA_STD))

    truths["theta1", "theta2"] = health.EVPPI, by_draws(both, 2)
    return Model(health_table, truths)


# --- linear: four decisions, net benefits linear in four independent inputs

LEVELS = np.array([0.0, 40.0, 20.0, -30.0])
SLOPES = np.array([[0.0, 60.0, -80.0, 150.0], [0.0, -30.0, 100.0, 40.0], [0.0, 0.0, 0.0, 50.0], [0.0, 70.0, 70.0, 0.0]])
NOISE = np.array([100.0, 200.0, 300.0, 400.0])


def linear_table(n: int, rng: np.random.Generator) -> Table:
    u = rng.standard_normal((n, 4))
    return LEVELS + u @ SLOPES + NOISE * rng.standard_normal((n, 4)), {f"u{j + 1}": u[:, j] for j in range(4)}


def envelope(a: np.ndarray, b: np.ndarray) -> float:
    """E max_d (a_d + b_d u) for a standard normal u, from the kinks of the upper envelope of the lines."""
    crossings = sorted({(a[i] - a[j]) / (b[j] - b[i]) for i in range(len(a)) for j in range(i) if b[i] != b[j]})
    ends = [-np.inf, *crossings, np.inf]
    total = 0.0
    for low, high in pairwise(ends):
        inside = np.clip(0.5 * (np.clip(low, -40, 40) + np.clip(high, -40, 40)), -39, 39)
        d = int(np.argmax(a + b * inside))
        total += a[d] * (ndtr(high) - ndtr(low)) + b[d] * (norm.pdf(low) - norm.pdf(high))
    return float(total)


def linear_model() -> Model:
    base = float(np.max(LEVELS))
    truths = {
        (f"u{j + 1}",): (envelope(LEVELS, SLOPES[j]) - base, gain(LEVELS + np.outer(midpoints(), SLOPES[j])))
        for j in range(4)
    }
    rows = [envelope(LEVELS + u * SLOPES[0], SLOPES[1]) for u in midpoints(2000)]
    truths["u1", "u2"] = float(np.mean(rows)) - base, gain(LEVELS + plane() @ SLOPES[:2])
    return Model(linear_table, truths)


# --- products: two decisions, a product of two correlated inputs and a third that is correlated with both

CORRELATION = np.array([[1.0, 0.5, 0.3], [0.5, 1.0, 0.3], [0.3, 0.3, 1.0]])
A, B, C, S = 100.0, 120.0, -130.0, 250.0


def product_table(n: int, rng: np.random.Generator) -> Table:
    u = rng.standard_normal((n, 3)) @ np.linalg.cholesky(CORRELATION).T
    benefit = C + A * (u[:, 0] + 1.0) * (u[:, 1] + 1.0) + B * u[:, 2]
    values = np.column_stack([S * rng.standard_normal(n), benefit + S * rng.standard_normal(n)])
    return values, {"a": u[:, 0], "b": u[:, 1], "c": u[:, 2]}


def product_means(at: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray]:
    """Conditional means (n, 2) given the inputs at these positions, which are v (n, k)."""
    rest = [i for i in range(3) if i not in at]
    slope = np.linalg.solve(CORRELATION[np.ix_(at, at)], CORRELATION[np.ix_(at, rest)])
    left = CORRELATION[np.ix_(rest, rest)] - CORRELATION[np.ix_(rest, at)] @ slope

    def of(v: np.ndarray) -> np.ndarray:
        u, cov = np.empty((len(v), 3)), np.zeros((3, 3))
        u[:, at], u[:, rest] = v, v @ slope
        cov[np.ix_(rest, rest)] = left
        benefit = C + A * ((u[:, 0] + 1.0) * (u[:, 1] + 1.0) + cov[0, 1]) + B * u[:, 2]
        return np.stack([np.zeros(len(v)), benefit], axis=1)

    return of


def product_model() -> Model:
    truths = {}
    for i, name in enumerate("abc"):
        of = product_means((i,))
        truths[(name,)] = gain(of(midpoints()[:, None])), by_quad(lambda u, of=of: of(np.array([[u]]))[0])
    of, root = product_means((0, 1)), np.linalg.cholesky(CORRELATION[:2, :2])
    slope = of(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))[:, 1]

    def given_first(u: float) -> float:  # linear in the second input, which is normal
        ends = [slope[j] + u * (slope[2 + j] - slope[j]) for j in range(2)]
        return positive_part(ends[0] + root[1, 0] * u * (ends[1] - ends[0]), root[1, 1] * abs(ends[1] - ends[0]))

    gross = integrate.quad(lambda u: given_first(u) * norm.pdf(u), -9, 9, limit=400, epsabs=1e-9)[0]
    base = max(0.0, C + A * (1.0 + CORRELATION[0, 1]))
    truths["a", "b"] = gross - base, by_draws(lambda u: of(u @ root.T), 2)
    return Model(product_table, truths)


# --- step: two decisions, a jump along one input and a line along another

JUMP, AT, LOSS, LINE, SCATTER = 400.0, 0.5, 160.0, 150.0, 600.0


def step_table(n: int, rng: np.random.Generator) -> Table:
    x, w, idle, e = rng.standard_normal((4, n))
    benefit = JUMP * (x > AT) - LOSS + LINE * w + SCATTER * e
    return np.column_stack([np.zeros(n), benefit]), {"x": x, "w": w, "idle": idle}


def step_model() -> Model:
    above = 1.0 - float(ndtr(AT))
    low, high = -LOSS, JUMP - LOSS
    base = max(above * high + (1 - above) * low, 0.0)
    mean = above * JUMP - LOSS
    both = above * positive_part(high, LINE) + (1 - above) * positive_part(low, LINE) - base

    def benefits(x: np.ndarray | float, w: np.ndarray | float) -> np.ndarray:
        net = JUMP * (np.asarray(x) > AT) - LOSS + LINE * np.asarray(w)
        return np.stack([np.zeros_like(net), net], axis=-1)

    def line(u: float) -> np.ndarray:
        return np.array([0.0, mean + LINE * u])

    x_only = above * max(high, 0.0) + (1 - above) * max(low, 0.0) - base
    truths = {
        ("x",): (x_only, by_quad(lambda u: benefits(u, 0.0), (AT,))),
        ("w",): (positive_part(mean, LINE) - base, by_quad(line, (-mean / LINE,))),
        ("x", "w"): (both, by_draws(lambda u: benefits(u[:, 0], u[:, 1]), 2)),
        ("x", "idle"): (x_only, by_draws(lambda u: benefits(u[:, 0], 0.0), 2)),
    }
    return Model(step_table, truths)


MODELS: dict[str, Callable[[], Model]] = {
    "health": health_model,
    "linear": linear_model,
    "products": product_model,
    "step": step_model,
}
