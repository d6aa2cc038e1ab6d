"""EVPPI from tables of draws: errors, standard errors, coverage and seconds, with the truth by quadrature.

Run: .venv/bin/python benchmarks/psa.py [--draws 40] [--rows 10000] [--workers 2]

Tables of the health model have one row for each draw of all 19 inputs. The toy model has two decisions with the net
benefits 0 and theta + s e, where theta and e are standard normal. `order` is how often, and by how many standard
errors, the estimate of a set exceeds that of a set that contains it. `wall` is the time of all sets of a table.
"""

from __future__ import annotations

from argparse import ArgumentParser
from time import perf_counter

import numpy as np
from scipy.stats import norm

from _common import OneThreadPool, met, positive_integer, print_record, with_progress
from cbq.nested.decisions import make_decisions
from cbq.problems import health
from cbq.psa import values_of_information
from cbq.psa.analysis import Contrasts, analyse

SETS = (("theta1", "theta2"), ("theta1",), ("theta2",), ("x6",), ("x5",), ("theta2", "x1"))
PAIRS = (  # a set, and one that contains it
    (("theta1",), ("theta1", "theta2")),
    (("theta2",), ("theta1", "theta2")),
    (("theta2",), ("theta2", "x1")),  # x1 has no value
)
CORRELATED = {"theta1": 0, "theta2": 1, "x6": 2, "x14": 3}
TOYS = ((300, 1.0), (300, 5.0), (3000, 1.0), (3000, 5.0))  # rows and s
GRID = 6000


def table(rows: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The net benefits (rows, 2) and the inputs of the health model."""
    rng, problem = np.random.default_rng(seed), health.build()
    theta = problem.prior.sample(rows, rng)
    noise = (
        problem.family(health.THETA_MEAN).sample(rows, rng) - health.MEAN
    )  # its distribution is the same at all thetas
    x = health.conditional_mean(theta) + noise
    inputs = {"theta1": theta[:, 0], "theta2": theta[:, 1]} | {f"x{j + 1}": x[:, j] for j in range(17)}
    return health.integrand(x, theta.T), inputs


def truth(names: tuple[str, ...]) -> float:
    """The EVPPI of a set with one input that matters: a midpoint rule over conditional means in closed form."""
    if names == ("theta1", "theta2"):
        return health.EVPPI
    names = tuple(name for name in names if name != "x1")
    m, means = health.MEAN, np.array([*health.THETA_MEAN, health.MEAN[health.X6], health.MEAN[health.X14]])
    std = np.array([*health.THETA_STD, health.STD[health.X6], health.STD[health.X14]])
    cov = std[:, None] * (health.RHO + (1 - health.RHO) * np.eye(4)) * std
    u = norm.ppf((np.arange(GRID) + 0.5) / GRID)
    x5, given, left = np.full(GRID, m[4]), np.tile(means, (GRID, 1)), cov
    if names == ("x5",):
        x5 = m[4] + health.STD[4] * u
    else:
        i = CORRELATED[names[0]]
        given = means + np.outer(u, cov[:, i] / std[i])
        left = cov - np.outer(cov[:, i], cov[:, i]) / cov[i, i]
    of1, of2 = (left[i, j] + given[:, i] * given[:, j] for i, j in ((0, 2), (1, 3)))  # E theta1 x6, E theta2 x14
    I1 = health.VALUE * (x5 * of1 + m[6] * m[7] * m[8]) - (m[0] + m[1] * m[2] * m[3])
    I2 = health.VALUE * (m[12] * of2 + m[14] * m[15] * m[16]) - (m[9] + m[10] * m[11] * m[3])
    return float(np.mean(np.maximum(I1, I2)) - max(np.mean(I1), np.mean(I2)))


def health_estimates(rows: int, seed: int) -> dict[tuple[str, ...], tuple[float, float, float]]:
    """For each set: the estimate, its standard error, and seconds."""
    outputs, inputs = table(rows, seed)
    contrasts, found = Contrasts.of(outputs, make_decisions(2)), {}
    for names in SETS:
        start = perf_counter()
        value = analyse(contrasts, np.column_stack([inputs[name] for name in names]), np.random.default_rng(0))
        found[names] = float(value.evppi[0]), float(value.se[0]), perf_counter() - start
    return found


def toy_estimates(rows: int, s: float, seed: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """The estimates and standard errors of theta and of an input without value."""
    u = np.random.default_rng(seed).standard_normal((rows, 3))
    outputs = np.column_stack([np.zeros(rows), u[:, 0] + s * u[:, 1]])
    both = values_of_information(outputs, u, [[0], [2]]).rows
    return (both[0].evppi, both[0].se), (both[1].evppi, both[1].se)


def print_row(name: str, true: float, found: np.ndarray, more: str = "") -> None:
    """Print a row of the table: found (draws, 2) are estimates and standard errors."""
    apart = np.abs(found[:, 0] - true)
    within = [np.mean(apart <= q * found[:, 1] + 1e-9) for q in (norm.ppf(0.975), 3.0)]
    print(
        f"{name:<26}{true:>10.4f}{found[:, 0].mean():>10.4f}{found[:, 0].std():>9.4f}{found[:, 1].mean():>9.4f}"
        f"{within[0]:>8.1%}{within[1]:>8.1%}{more}"
    )


def main() -> None:
    """Print all tables."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=positive_integer, default=40)
    parser.add_argument("--rows", type=positive_integer, default=10_000)
    parser.add_argument("--workers", type=positive_integer, default=2)
    options = parser.parse_args()
    print_record()
    print(f"\n{'':<26}{'truth':>10}{'mean':>10}{'sd':>9}{'se':>9}{'95%':>8}{'3 se':>8}  seconds")
    with OneThreadPool(options.workers) as pool:
        jobs = [(options.rows, seed) for seed in range(options.draws)]
        pairs = with_progress(pool.run(health_estimates, jobs), len(jobs), "health")
        results = [found for _, found in sorted(pairs, key=lambda pair: pair[0])]
        for names in SETS:
            found = np.array([each[names] for each in results])
            print_row(f"health {', '.join(names)}", truth(names), found[:, :2], f"{np.median(found[:, 2]):>9.2f}")
        for rows, s in TOYS:
            jobs = [(rows, s, seed) for seed in range(options.draws)]
            toys = [each for _, each in with_progress(pool.run(toy_estimates, jobs), len(jobs), "toy")]
            print_row(f"toy n={rows}, s={s:g}", 1 / np.sqrt(2 * np.pi), np.array([each[0] for each in toys]))
            print_row(f"toy n={rows}, s={s:g}, no value", 0.0, np.array([each[1] for each in toys]))
    for small, large in PAIRS:
        over = np.array([(each[small][0] - each[large][0]) / each[large][1] for each in results])
        print(f"order: {small} above {large} in {np.mean(over > 0):.1%}, by at most {max(over.max(), 0):.2f} se")
    first = np.array([each[SETS[0]] for each in results])[:20]
    close = int(np.sum(np.abs(first[:, 0] - health.EVPPI) <= 3 * first[:, 1]))
    print(f"within 3 se of {health.EVPPI}: {close} of {len(first)}; at least 90%: {met(close >= 0.9 * len(first))}")
    outputs, inputs = table(options.rows, 0)
    start = perf_counter()
    print(f"\n{values_of_information(outputs, inputs, list(map(list, SETS)))}")
    print(f"wall: {perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
