"""Sensitivity indices from 256 runs: errors, coverage of intervals, and SALib with the same number of runs.

Run: .venv/bin/python benchmarks/sensitivity.py [--seeds 20] [--problems NAME ...] [--runs 256] [--out PATH.json]

The runs of cbq are Sobol points of the inputs, to which cbq.MOBQ is fitted. The truth is exact for Ishigami's function,
the g-function (d = 8) and the linear functions of correlated inputs; elsewhere it is an average of f itself over 2^19
Sobol points. Reported are the largest error of the first-order and total indices (for correlated inputs, also of
Shapley effects), the share of all indices whose truth is in the interval of 95%, of those above 0.001 alone, and the
median width of these. SALib has Saltelli's design with as many runs as fit into the budget (independent inputs only),
and RBD-FAST on the runs of cbq (first-order indices).
"""

from __future__ import annotations

import json
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import factorial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats.qmc import Sobol

import cbq
from _common import positive_integer, print_record, with_progress
from cbq.measures import Gaussian, Measure, Uniform

Array = np.ndarray
INDICES = ("first", "total", "shapley")
LEAST = 1e-3  # of a share that matters


@dataclass(frozen=True)
class Case:
    """f and the measure of its inputs; exact: its indices, where they are known in closed form."""

    f: Callable[[Array], Array]
    measure: Measure
    exact: Callable[[], dict[str, Array]] | None = None


def _box(*ends: tuple[float, float]) -> Uniform:
    low, high = np.array(ends).T
    return Uniform(low, high)


def _ishigami(x: Array) -> Array:
    return np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])


def _exact_ishigami() -> dict[str, Array]:
    a, b, pi = 7.0, 0.1, np.pi
    first = np.array([0.5 * (1 + b * pi**4 / 5) ** 2, a**2 / 8, 0.0])
    both = b**2 * pi**8 * (1 / 18 - 1 / 50)  # of the first and the third input
    whole = np.sum(first) + both
    return {"first": first / whole, "total": (first + np.array([both, 0.0, both])) / whole}


G = np.array([0.0, 1.0, 4.5, 9.0, 99.0, 99.0, 99.0, 99.0])


def _g(x: Array) -> Array:
    return np.prod((np.abs(4 * x - 2) + G) / (1 + G), axis=1)


def _exact_g() -> dict[str, Array]:
    v = 1 / (3 * (1 + G) ** 2)
    whole = np.prod(1 + v) - 1
    return {"first": v / whole, "total": v * np.prod(1 + v) / (1 + v) / whole}


def _borehole(x: Array) -> Array:
    rw, r, Tu, Hu, Tl, Hl, length, Kw = x.T
    log = np.log(r / rw)
    return 2 * np.pi * Tu * (Hu - Hl) / (log * (1 + 2 * length * Tu / (log * rw**2 * Kw) + Tu / Tl))


def _wing_weight(x: Array) -> Array:
    Sw, Wfw, A, angle, q, taper, tc, Nz, Wdg, Wp = x.T
    c = np.cos(np.deg2rad(angle))
    lift = 0.036 * Sw**0.758 * Wfw**0.0035 * (A / c**2) ** 0.6 * q**0.006 * taper**0.04
    return lift * (100 * tc / c) ** -0.3 * (Nz * Wdg) ** 0.49 + Sw * Wp


def _otl(x: Array) -> Array:
    b1, b2, f, c1, c2, beta = x.T
    gain, source = beta * (c2 + 9), 12 * b2 / (b1 + b2)
    return ((source + 0.74) * gain + 11.35 * f + 0.74 * f * gain / c1) / (gain + f)


BETA = np.array([1.0, 2.0, -1.0, 0.5])
CORRELATED = np.array([[1.0, 0.5, 0.0, 0.2], [0.5, 1.0, -0.3, 0.0], [0.0, -0.3, 2.0, 0.6], [0.2, 0.0, 0.6, 1.0]])


def _exact_linear() -> dict[str, Array]:
    """Var E[b'x | x_S] = b'C_S C_SS^-1 C_S'b, and Shapley effects over all sets."""
    d, whole = len(BETA), float(BETA @ CORRELATED @ BETA)

    def share(some: tuple[int, ...]) -> float:
        if not some:
            return 0.0
        c = CORRELATED[list(some)] @ BETA
        return float(c @ np.linalg.solve(CORRELATED[np.ix_(some, some)], c)) / whole

    shapley = np.zeros(d)
    for i in range(d):
        rest = [j for j in range(d) if j != i]
        for size in range(d):
            weight = factorial(size) * factorial(d - size - 1) / factorial(d)
            shapley[i] += weight * sum(share((*some, i)) - share(some) for some in combinations(rest, size))
    every = tuple(range(d))
    total = [1 - share((*every[:i], *every[i + 1 :])) for i in range(d)]
    return {"first": np.array([share((i,)) for i in range(d)]), "total": np.array(total), "shapley": shapley}


CASES = {
    "ishigami": Case(_ishigami, _box(*[(-np.pi, np.pi)] * 3), _exact_ishigami),
    "sobol-g": Case(_g, _box(*[(0.0, 1.0)] * 8), _exact_g),
    "borehole": Case(
        _borehole,
        _box(
            (0.05, 0.15),
            (100, 50000),
            (63070, 115600),
            (990, 1110),
            (63.1, 116),
            (700, 820),
            (1120, 1680),
            (9855, 12045),
        ),
    ),
    "wing weight": Case(
        _wing_weight,
        _box(
            (150, 200),
            (220, 300),
            (6, 10),
            (-10, 10),
            (16, 45),
            (0.5, 1),
            (0.08, 0.18),
            (2.5, 6),
            (1700, 2500),
            (0.025, 0.08),
        ),
    ),
    "otl circuit": Case(_otl, _box((50, 150), (25, 70), (0.5, 3), (1.2, 2.5), (0.25, 1.2), (50, 300))),
    "linear, correlated": Case(lambda x: x @ BETA, Gaussian(np.zeros(4), cov=CORRELATED), _exact_linear),
}


@lru_cache
def truth(name: str) -> dict[str, Array]:
    """The exact indices, or averages of f of independent inputs over 16 Sobol sequences.

    First-order indices are variances of E[f | x_i] over nodes of x_i, all with the same points of the other inputs:
    errors of these averages have little variance, so that indices of 1e-12 are right, too.
    """
    case = CASES[name]
    if case.exact is not None:
        return case.exact()
    d, parts = case.measure.dim, []
    nodes, weights = np.polynomial.legendre.leggauss(12)
    for seed in range(16):
        u, v = np.split(Sobol(2 * d, rng=seed).random(2**15), 2, axis=1)
        f = case.f(case.measure.transport(u))
        row = [np.var(f)]
        for i in range(d):
            given, changed = [], u.copy()
            for node in 0.5 * (nodes + 1):
                changed[:, i] = node
                given.append(np.mean(case.f(case.measure.transport(changed))))
            changed[:, i] = v[:, i]
            apart = np.array(given) - 0.5 * weights @ np.array(given)
            row += [0.5 * weights @ apart**2, 0.5 * np.mean((f - case.f(case.measure.transport(changed))) ** 2)]
        parts.append(row)
    variance, *rest = np.mean(parts, axis=0)
    return {"first": np.array(rest[::2]) / variance, "total": np.array(rest[1::2]) / variance}


def by_cbq(name: str, runs: int, seed: int) -> dict[str, Any]:
    """Errors, coverage and widths of all indices, and seconds."""
    case, true = CASES[name], truth(name)
    problem = cbq.Problem(
        lambda x, theta: case.f(x), lambda theta: case.measure, Uniform(0.0, 1.0), depends_on_theta=False
    )
    samples = problem.collect(theta=[0.5], N=runs, rng=seed, design="sobol")
    start = perf_counter()
    fit = cbq.MOBQ().fit(samples)
    fitted = perf_counter()
    rows = cbq.sensitivity(fit, rng=seed, shapley="shapley" in true).rows
    seconds = {"fit": fitted - start, "seconds": perf_counter() - fitted}

    def column(key: str) -> Array:
        return np.concatenate([[getattr(row, index + key) for row in rows] for index in true])

    exact = np.concatenate(list(true.values()))
    estimate, low, high = column(""), column("_low"), column("_high")
    matters, inside = exact > LEAST, (low <= exact) & (exact <= high)
    return {
        "error": float(np.max(np.abs(estimate - exact))),
        "covered": float(np.mean(inside)),
        "covered_above": float(np.mean(inside[matters])),
        "width": float(np.median((high - low)[matters])),
        "missed": float(np.max(np.maximum(low - exact, exact - high))),
        **seconds,
    }


def by_salib(name: str, runs: int, seed: int) -> dict[str, float]:
    """The largest errors of SALib, and the coverage of its bootstrap intervals."""
    from SALib.analyze import rbd_fast, sobol
    from SALib.sample import sobol as sample_sobol

    case, true = CASES[name], truth(name)
    if "shapley" in true:
        return {}
    d, (low, high) = case.measure.dim, case.measure.support
    asked = {"num_vars": d, "names": [str(i) for i in range(d)], "bounds": np.stack([low, high], axis=1).tolist()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # N need be no power of two
        x = sample_sobol.sample(asked, runs // (d + 2), calc_second_order=False, seed=seed)
        found = sobol.analyze(asked, case.f(x), calc_second_order=False, seed=seed)
        given = case.measure.transport(Sobol(d, rng=seed).random(runs))
        fast = rbd_fast.analyze(asked, given, case.f(given), seed=seed)
    exact = np.concatenate([true["first"], true["total"]])
    estimate, half = np.append(found["S1"], found["ST"]), np.append(found["S1_conf"], found["ST_conf"])
    return {
        "salib": float(np.max(np.abs(estimate - exact))),
        "salib_covered": float(np.mean(np.abs(estimate - exact) <= half)),
        "rbd_fast": float(np.max(np.abs(np.array(fast["S1"]) - true["first"]))),
    }


def measured(names: list[str], runs: int, seeds: int) -> Iterator[dict[str, Any]]:
    """One row for each problem."""
    for name in names:
        found = [by_cbq(name, runs, s) | by_salib(name, runs, s) for s in with_progress(range(seeds), seeds, name)]
        columns = {key: np.array([each[key] for each in found]) for key in found[0]}
        worst = {key: float(np.max(columns[key])) for key in ("error", "missed")}
        means = {key: float(np.mean(values)) for key, values in columns.items()}
        yield {"problem": name, **means, **{f"worst_{key}": value for key, value in worst.items()}}


def main() -> None:
    """Print a row for each problem."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=positive_integer, default=20)
    parser.add_argument("--runs", type=positive_integer, default=256)
    parser.add_argument("--problems", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    record, rows = print_record(), []
    heads = ["error", "worst", "covered", "> 0.001", "width", "missed", "s", "SALib", "covered", "RBD-FAST"]
    keys = ["error", "worst_error", "covered", "covered_above", "width", "worst_missed", "seconds"]
    keys += ["salib", "salib_covered", "rbd_fast"]
    print(f"{'problem':20s}" + "".join(f"{head:>10s}" for head in heads))
    for row in measured(asked.problems, asked.runs, asked.seeds):
        rows.append(row)
        print(f"{row['problem']:20s}" + "".join(f"{row[key]:10.4f}" if key in row else f"{'-':>10s}" for key in keys))
    if asked.out is not None:
        asked.out.write_text(json.dumps({"record": record, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
