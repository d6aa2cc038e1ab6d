"""EVPPI from tables: errors, standard errors, coverage of intervals and seconds, against truths by quadrature.

Run: .venv/bin/python benchmarks/psa.py [--draws 40] [--rows 10000] [--workers 2]

Tables of the health model have one row per draw of all 19 inputs. The toy is two decisions with the net benefits 0 and
theta + s e, theta and e standard normal. `order` says how often, and by how much in standard errors, the raw estimate
of a set is above that of a set that holds it. `wall` are the seconds of all sets of a table together.
"""

from __future__ import annotations

from argparse import ArgumentParser
from time import perf_counter

import numpy as np
from scipy.stats import norm

from _common import Pool, at_least_one, print_record, yes
from cbq.nested.decisions import make_decisions
from cbq.problems import health
from cbq.psa import values_of_information
from cbq.psa.analysis import analyse
from cbq.psa.net_benefits import Contrasts

SETS = (("theta1", "theta2"), ("theta1",), ("theta2",), ("x6",), ("x5",), ("theta2", "x1"))
PAIRS = (  # a set, and one that holds it
    (("theta1",), ("theta1", "theta2")),
    (("theta2",), ("theta1", "theta2")),
    (("theta2",), ("theta2", "x1")),  # of which x1 has nothing to say
)
JOINT = {"theta1": 0, "theta2": 1, "x6": 2, "x14": 3}  # all of which are correlated
TOYS = ((300, 1.0), (300, 5.0), (3000, 1.0), (3000, 5.0))  # rows and s
GRID = 6000


def table(rows: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Net benefits (rows, 2) and inputs of the health model."""
    rng, problem = np.random.default_rng(seed), health.build()
    theta = problem.prior.sample(rows, rng)
    noise = problem.family(health.THETA_MEAN).sample(rows, rng) - health.MEAN  # the same measure at all thetas
    x = health.conditional_mean(theta) + noise
    inputs = {"theta1": theta[:, 0], "theta2": theta[:, 1]} | {f"x{j + 1}": x[:, j] for j in range(17)}
    return health.integrand(x, theta.T), inputs


def truth(names: tuple[str, ...]) -> float:
    """EVPPI of a set: a midpoint rule over conditional means in closed form, for one input that matters."""
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
        i = JOINT[names[0]]
        given = means + np.outer(u, cov[:, i] / std[i])
        left = cov - np.outer(cov[:, i], cov[:, i]) / cov[i, i]
    of1, of2 = (left[i, j] + given[:, i] * given[:, j] for i, j in ((0, 2), (1, 3)))  # E theta1 x6, E theta2 x14
    I1 = health.VALUE * (x5 * of1 + m[6] * m[7] * m[8]) - (m[0] + m[1] * m[2] * m[3])
    I2 = health.VALUE * (m[12] * of2 + m[14] * m[15] * m[16]) - (m[9] + m[10] * m[11] * m[3])
    return float(np.mean(np.maximum(I1, I2)) - max(np.mean(I1), np.mean(I2)))


def of_health(rows: int, seed: int) -> dict[tuple[str, ...], tuple[float, float, float]]:
    """For each set: the raw estimate, its standard error, and seconds."""
    outputs, inputs = table(rows, seed)
    contrasts, found = Contrasts.of(outputs, make_decisions(2)), {}
    for names in SETS:
        start = perf_counter()
        value = analyse(contrasts, np.column_stack([inputs[name] for name in names]), np.random.default_rng(0))
        found[names] = float(value.evppi[0]), float(value.se[0]), perf_counter() - start
    return found


def of_toy(rows: int, s: float, seed: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """The estimate and standard error of theta, and of an input that has nothing to do with it."""
    u = np.random.default_rng(seed).standard_normal((rows, 3))
    outputs = np.column_stack([np.zeros(rows), u[:, 0] + s * u[:, 1]])
    both = values_of_information(outputs, u, [[0], [2]]).rows
    return (both[0].evppi, both[0].se), (both[1].evppi, both[1].se)


def line(name: str, true: float, found: np.ndarray, more: str = "") -> None:
    """A line of the table: found (draws, 2) are estimates and standard errors."""
    apart = np.abs(found[:, 0] - true)
    within = [np.mean(apart <= q * found[:, 1] + 1e-9) for q in (norm.ppf(0.975), 3.0)]
    print(
        f"{name:<26}{true:>10.4f}{found[:, 0].mean():>10.4f}{found[:, 0].std():>9.4f}{found[:, 1].mean():>9.4f}"
        f"{within[0]:>8.1%}{within[1]:>8.1%}{more}"
    )


def main() -> None:
    """Print all tables."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=at_least_one, default=40)
    parser.add_argument("--rows", type=at_least_one, default=10_000)
    parser.add_argument("--workers", type=at_least_one, default=2)
    options = parser.parse_args()
    print_record()
    print(f"\n{'':<26}{'truth':>10}{'mean':>10}{'sd':>9}{'se':>9}{'95%':>8}{'3 se':>8}  seconds")
    with Pool(options.workers) as pool:
        jobs = [(options.rows, seed) for seed in range(options.draws)]
        results = [found for _, found in sorted(pool.run(of_health, jobs, "health"), key=lambda each: each[0])]
        for names in SETS:
            found = np.array([each[names] for each in results])
            line(f"health {', '.join(names)}", truth(names), found[:, :2], f"{np.median(found[:, 2]):>9.2f}")
        for rows, s in TOYS:
            toys = [each for _, each in pool.run(of_toy, [(rows, s, seed) for seed in range(options.draws)], "toy")]
            line(f"toy n={rows}, s={s:g}", 1 / np.sqrt(2 * np.pi), np.array([each[0] for each in toys]))
            line(f"toy n={rows}, s={s:g}, idle", 0.0, np.array([each[1] for each in toys]))
    for small, large in PAIRS:
        over = np.array([(each[small][0] - each[large][0]) / each[large][1] for each in results])
        print(f"order: {small} above {large} in {np.mean(over > 0):.1%}, by at most {max(over.max(), 0):.2f} se")
    first = np.array([each[SETS[0]] for each in results])[:20]
    close = int(np.sum(np.abs(first[:, 0] - health.EVPPI) <= 3 * first[:, 1]))
    print(f"within 3 se of {health.EVPPI}: {close} of {len(first)}; nine in ten: {yes(close >= 0.9 * len(first))}")
    outputs, inputs = table(options.rows, 0)
    start = perf_counter()
    print(f"\n{values_of_information(outputs, inputs, list(map(list, SETS)))}")
    print(f"wall: {perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
