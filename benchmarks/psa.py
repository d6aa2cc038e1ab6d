"""EVPPI from tables of draws: bias, RMSE, coverage and seconds for models whose EVPPI is known, beside splines.

Run: .venv/bin/python benchmarks/psa.py [--models markov,patients,correlated,nineteen] [--rows 1000,10000]
    [--tables 30] [--workers 2]

The models and their truths, each computed in two ways, are in `_psa_models.py` (net benefits) and
`_decision_models.py` (effects and costs, at several values of the willingness to pay). A table is analysed with
`cbq.evppi`, all sets of a model together; a spline regression is run on the same tables. It is a cubic
B-spline with knots at quantiles in each column (tensor products for several), ridge penalties chosen by generalised
cross-validation; its EVPPI is the plug-in, as in BCEA, SAVI and voi, and it has no standard error.

For each model, number of rows and set, over all prices: the truth (its mean over prices), bias and root-mean-square
error (RMSE) over the tables, the mean standard error, the share of 95% intervals that hold the truth, the shares of
intervals below and above it, and bias and RMSE of splines. A line `all` pools the sets of a model: a cell of the
targets. Its seconds are CPU time of one core for one set at all prices, of ours and of splines. Its last column is the
largest difference between answers from effects and costs and from the net benefits of the same table, in standard
errors.
"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass
from functools import lru_cache
from time import process_time

import numpy as np
from scipy.interpolate import BSpline

from _common import OneThreadPool, met, positive_integer, print_record, with_progress
from _decision_models import DECISION_MODELS
from _psa_models import MODELS, Model
from cbq.voi import evppi

KNOTS = (10, 6, 3)  # intervals between knots of a spline in one column, in each of two, and in each of three
PENALTIES = np.logspace(-6, 6, 25)
LEAST, POOLED = 0.92, (0.94, 0.97)  # coverage of a model, and of all
SAME = 0.3  # standard errors between both forms of input
TWO_WAYS_AGREE = 5e-3  # difference of truths, one of which may be from draws, relative to the largest of a model
EVERY = MODELS | DECISION_MODELS


@dataclass(frozen=True)
class Found:
    """The answers for one table, (J, K) for J sets and K prices: estimates, standard errors, ends, and splines.

    forms : the differences, in standard errors, between both forms of input at one price; empty for net benefits.
    """

    estimate: np.ndarray
    se: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    spline: np.ndarray
    seconds: float
    spline_seconds: float
    forms: np.ndarray


@lru_cache
def model(name: str) -> Model:
    """The model of this name, with its truths."""
    return EVERY[name]()


def truths(name: str) -> np.ndarray:
    """The truths (J, K) of the sets of a model."""
    return np.array([np.atleast_1d(true) for true, _ in model(name).truths.values()])


def analysed(name: str, rows: int, seed: int) -> Found:
    """The answers for one table of a model."""
    sets, prices = [list(key) for key in model(name).truths], model(name).prices
    outputs, inputs = model(name).table(rows, np.random.default_rng([seed, rows]))
    start = process_time()
    found = evppi(outputs, inputs, sets, willingness_to_pay=prices).rows
    middle = process_time()
    benefits = [outputs] if prices is None else [price * outputs[0] - outputs[1] for price in prices]
    splines = [[spline_evppi(y, np.column_stack([inputs[each] for each in key])) for y in benefits] for key in sets]
    end = process_time()
    fields = {
        name: np.array([getattr(row, name) for row in found]).reshape(len(sets), -1)
        for name in ("evppi", "se", "lower", "upper")
    }
    forms = np.empty(0)
    if prices is not None:
        k = len(prices) // 2
        again = evppi(benefits[k], inputs, sets).rows
        forms = (np.array([row.evppi for row in again]) - fields["evppi"][:, k]) / fields["se"][:, k]
    seconds = (middle - start) / len(sets), (end - middle) / len(sets)
    return Found(*fields.values(), np.array(splines), *seconds, forms)


def spline_evppi(outputs: np.ndarray, columns: np.ndarray) -> float:
    """The plug-in EVPPI of splines: the differences of net benefits (n, D) on one or two columns (n, p)."""
    y = outputs[:, 1:] - outputs[:, :1]
    bases = [_splines(column, KNOTS[columns.shape[1] - 1]) for column in columns.T]
    basis = bases[0]
    for other in bases[1:]:
        basis = (basis[:, :, None] * other[:, None, :]).reshape(len(y), -1)
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


@dataclass(frozen=True)
class Cell:
    """The pooled results of a model at a number of rows."""

    coverage: float
    below: float
    above: float
    beats_splines: bool
    forms: float
    intervals: int


def print_cell(name: str, rows: int, found: list[Found]) -> Cell:
    """Print the lines of a model at a number of rows, and pool them."""
    true = truths(name)
    estimate, se, lower, upper, spline = (
        np.stack([getattr(f, each) for f in found]) for each in Found.__match_args__[:5]
    )
    errors, spline_errors, below, above = estimate - true, spline - true, upper < true, lower > true
    parts = {", ".join(key): np.s_[:, j] for j, key in enumerate(model(name).truths)}
    for label, part in (parts | {"all": np.s_[:]}).items():
        low, high = below[part].mean(), above[part].mean()
        level = f"{np.mean(true[part[1:]]):>9.2f}" if label in parts else f"{'':>9}"
        print(
            f"{name:<11}{rows:>6}  {label:<19}{level}{errors[part].mean():>9.3f}{_rms(errors[part]):>9.3f}"
            f"{se[part].mean():>9.3f}{1 - low - high:>7.3f}{low:>7.3f}{high:>7.3f}"
            f"{spline_errors[part].mean():>10.3f}{_rms(spline_errors[part]):>9.3f}",
            end="\n" if label in parts else "",
        )
    times = [np.median([getattr(f, each) for f in found]) for each in ("seconds", "spline_seconds")]
    forms = np.abs(np.concatenate([f.forms for f in found]))
    furthest = float(np.max(forms, initial=0.0))
    most = f"{furthest:>8.2f} (95%: {np.quantile(forms, 0.95):.2f})" if forms.size else ""
    print(f"{times[0]:>9.2f}{times[1]:>9.3f}{most}", flush=True)
    beats = bool(_rms(errors) <= _rms(spline_errors))
    return Cell(1 - float(low + high), float(low), float(high), beats, furthest, errors.size)


def _rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def check_truths(names: list[str]) -> None:
    """Raise if the two ways to a truth disagree."""
    for name in names:
        largest = np.max(np.abs(truths(name)))
        for key, (one, other) in model(name).truths.items():
            if np.any(np.abs(np.subtract(one, other)) > TWO_WAYS_AGREE * largest):
                raise RuntimeError(f"the EVPPI of {key} of {name} is {one} in one way and {other} in another.")


def main() -> None:
    """Print all tables and whether the targets are met."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(EVERY), help="some of " + ", ".join(EVERY))
    parser.add_argument("--rows", default="1000,10000")
    parser.add_argument("--tables", type=positive_integer, default=30)
    parser.add_argument("--first", type=int, default=0, help="seed of the first table")
    parser.add_argument("--workers", type=positive_integer, default=2)
    options = parser.parse_args()
    names, sizes = options.models.split(","), [positive_integer(each) for each in options.rows.split(",")]
    print_record()
    check_truths(names)
    print(
        f"\n{options.tables} tables each\n{'model':<11}{'rows':>6}  {'set':<19}{'truth':>9}{'bias':>9}{'RMSE':>9}"
        f"{'se':>9}{'95%':>7}{'below':>7}{'above':>7}{'sp. bias':>10}{'sp. RMSE':>9}{'seconds':>9}{'spline':>9}"
        f"{'forms':>8}"
    )
    cells = []
    with OneThreadPool(options.workers) as pool:
        for rows in sizes:
            for name in names:
                jobs = [(name, rows, options.first + seed) for seed in range(options.tables)]
                results = with_progress(pool.run(analysed, jobs), len(jobs), f"{name}, {rows} rows")
                cells.append(print_cell(name, rows, [found for _, found in results]))
    weights = [each.intervals for each in cells]
    pooled, below, above = (
        float(np.average([getattr(each, key) for each in cells], weights=weights))
        for key in ("coverage", "below", "above")
    )
    least, furthest = min(each.coverage for each in cells), max(each.forms for each in cells)
    print(f"pooled coverage {pooled:.3f}, from {POOLED[0]} to {POOLED[1]}: {met(POOLED[0] <= pooled <= POOLED[1])}")
    print(f"intervals below the truth {below:.3f}, above it {above:.3f}")
    print(f"least coverage of a cell {least:.3f}, at least {LEAST}: {met(least >= LEAST)}")
    print(f"largest difference of both forms of input {furthest:.2f} se, at most {SAME}: {met(furthest <= SAME)}")
    print(f"RMSE not above that of splines in {sum(each.beats_splines for each in cells)} of {len(cells)} cells")


if __name__ == "__main__":
    main()
