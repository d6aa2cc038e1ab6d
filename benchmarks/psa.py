"""EVPPI from tables of draws: bias, RMSE, coverage and seconds for four models whose EVPPI is known, beside splines.

Run: .venv/bin/python benchmarks/psa.py [--models health,linear,products,step] [--rows 1000,5000,10000,50000]
    [--tables 20] [--workers 2]

The models and their truths, each computed in two ways, are in `_psa_models.py`. A table is analysed with
`values_of_information`, all sets of a model together; a spline regression is run on the same tables. It is a cubic
B-spline with knots at quantiles in each column (tensor products for two), ridge penalties chosen by generalised
cross-validation; its EVPPI is the plug-in, as in BCEA, SAVI and voi, and it has no standard error.

For each model, number of rows and set: the truth, bias and root-mean-square error (RMSE) over the tables, the mean
standard error, the share of 95% intervals that hold the truth, and the RMSE of splines. A line `all` pools the sets of
a model: a cell of the targets. Its seconds are CPU time of one core for one set, of ours and of splines.
"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass
from functools import lru_cache
from time import process_time

import numpy as np
from scipy.interpolate import BSpline

from _common import OneThreadPool, met, positive_integer, print_record, with_progress
from _psa_models import MODELS, Model
from cbq.voi import values_of_information

KNOTS = (10, 6)  # intervals between knots of a spline in one column, and in each of two
PENALTIES = np.logspace(-6, 6, 25)
LEAST, POOLED = 0.88, (0.93, 0.98)  # coverage of a cell, and of all
TWO_WAYS_AGREE = 5e-3  # relative difference of truths, one of which may be from draws


@dataclass(frozen=True)
class Found:
    """The answers for one table, (J,) for J sets: estimates, standard errors, whether intervals cover, and splines."""

    estimate: np.ndarray
    se: np.ndarray
    covers: np.ndarray
    spline: np.ndarray
    seconds: float
    spline_seconds: float


@lru_cache
def model(name: str) -> Model:
    """The model of this name, with its truths."""
    return MODELS[name]()


def analysed(name: str, rows: int, seed: int) -> Found:
    """The answers for one table of a model."""
    truths = {key: true for key, (true, _) in model(name).truths.items()}
    outputs, inputs = model(name).table(rows, np.random.default_rng([seed, rows]))
    start = process_time()
    found = values_of_information(outputs, inputs, [list(key) for key in truths]).rows
    middle = process_time()
    splines = [spline_evppi(outputs, np.column_stack([inputs[each] for each in key])) for key in truths]
    end = process_time()
    covers = [row.lower <= true <= row.upper for row, true in zip(found, truths.values(), strict=True)]
    return Found(
        np.array([row.evppi for row in found]),
        np.array([row.se for row in found]),
        np.array(covers),
        np.array(splines),
        (middle - start) / len(truths),
        (end - middle) / len(truths),
    )


def spline_evppi(outputs: np.ndarray, columns: np.ndarray) -> float:
    """The plug-in EVPPI of splines: the differences of net benefits (n, D) on one or two columns (n, p)."""
    y = outputs[:, 1:] - outputs[:, :1]
    bases = [_splines(column, KNOTS[columns.shape[1] - 1]) for column in columns.T]
    basis = bases[0] if len(bases) == 1 else (bases[0][:, :, None] * bases[1][:, None, :]).reshape(len(y), -1)
    mean = np.mean(basis, axis=0)
    roots, axes = np.linalg.eigh((basis - mean).T @ (basis - mean))
    kept = roots > 1e-10 * roots[-1]
    U = (basis - mean) @ axes[:, kept] / np.sqrt(roots[kept])
    fitted = np.column_stack([_ridge(U, roots[kept], each - np.mean(each)) for each in y.T]) + np.mean(y, axis=0)
    benefits = np.column_stack([np.zeros(len(y)), fitted])
    return float(np.mean(np.max(benefits, axis=1)) - np.max(np.mean(benefits, axis=0)))


def _splines(column: np.ndarray, intervals: int) -> np.ndarray:
    """Cubic B-splines (n, intervals + 3) with knots at quantiles."""
    inner = np.quantile(column, np.linspace(0, 1, intervals + 1))
    knots = np.concatenate([[inner[0]] * 3, inner, [inner[-1]] * 3])
    return np.asarray(BSpline.design_matrix(column, knots, 3).toarray())


def _ridge(U: np.ndarray, roots: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fitted values (n,) of a ridge regression with singular vectors U (n, k), by generalised cross-validation."""
    projected, n = U.T @ y, len(y)
    shrunk = roots / (roots + PENALTIES[:, None] * np.mean(roots))  # (penalties, k)
    left = y @ y - np.sum((2 * shrunk - shrunk**2) * projected**2, axis=1)
    best = int(np.argmin(left / (n - 1 - np.sum(shrunk, axis=1)) ** 2))
    return np.asarray(U @ (shrunk[best] * projected))


def print_cell(name: str, rows: int, found: list[Found]) -> tuple[float, bool]:
    """Print the lines of a model at a number of rows; its pooled coverage, and whether RMSE is not above splines'."""
    truths = {key: true for key, (true, _) in model(name).truths.items()}
    estimate, se, covers, spline = (np.stack([getattr(f, each) for f in found]) for each in Found.__match_args__[:4])
    errors, spline_errors = estimate - list(truths.values()), spline - list(truths.values())
    for j, (key, true) in enumerate(truths.items()):
        print(
            f"{name:<9}{rows:>6}  {', '.join(key):<15}{true:>9.2f}{errors[:, j].mean():>9.3f}"
            f"{_rms(errors[:, j]):>9.3f}{se[:, j].mean():>9.3f}{covers[:, j].mean():>7.2f}"
            f"{spline_errors[:, j].mean():>11.3f}{_rms(spline_errors[:, j]):>9.3f}"
        )
    ours, splines = _rms(errors), _rms(spline_errors)
    times = [np.median([getattr(f, each) for f in found]) for each in ("seconds", "spline_seconds")]
    print(
        f"{name:<9}{rows:>6}  {'all':<15}{'':>9}{errors.mean():>9.3f}{ours:>9.3f}{'':>9}{covers.mean():>7.2f}"
        f"{spline_errors.mean():>11.3f}{splines:>9.3f}{times[0]:>9.2f}{times[1]:>9.3f}",
        flush=True,
    )
    return float(covers.mean()), bool(ours <= splines)


def _rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def check_truths(names: list[str]) -> None:
    """Raise if the two ways to a truth disagree."""
    for name in names:
        for key, (one, other) in model(name).truths.items():
            if abs(one - other) > TWO_WAYS_AGREE * abs(one):
                raise RuntimeError(f"the EVPPI of {key} of {name} is {one} in one way and {other} in another.")


def main() -> None:
    """Print all tables and whether the targets are met."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help="some of " + ", ".join(MODELS))
    parser.add_argument("--rows", default="1000,5000,10000,50000")
    parser.add_argument("--tables", type=positive_integer, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first table")
    parser.add_argument("--workers", type=positive_integer, default=2)
    options = parser.parse_args()
    names, sizes = options.models.split(","), [positive_integer(each) for each in options.rows.split(",")]
    print_record()
    check_truths(names)
    print(
        f"\n{options.tables} tables each\n{'model':<9}{'rows':>6}  {'set':<15}{'truth':>9}{'bias':>9}{'RMSE':>9}"
        f"{'se':>9}{'95%':>7}{'sp. bias':>11}{'sp. RMSE':>9}{'seconds':>9}{'spline':>9}"
    )
    cells, counts = [], []
    with OneThreadPool(options.workers) as pool:
        for rows in sizes:
            for name in names:
                jobs = [(name, rows, options.first + seed) for seed in range(options.tables)]
                results = with_progress(pool.run(analysed, jobs), len(jobs), f"{name}, {rows} rows")
                cells.append(print_cell(name, rows, [found for _, found in results]))
                counts.append(len(model(name).truths))
    coverage = float(np.average([each for each, _ in cells], weights=counts))
    least = min(each for each, _ in cells)
    print(f"pooled coverage {coverage:.3f}, from {POOLED[0]} to {POOLED[1]}: {met(POOLED[0] <= coverage <= POOLED[1])}")
    print(f"least coverage of a cell {least:.3f}, at least {LEAST}: {met(least >= LEAST)}")
    print(f"RMSE not above that of splines in {sum(b for _, b in cells)} of {len(cells)} cells")


if __name__ == "__main__":
    main()
