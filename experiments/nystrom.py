"""Landmarks in MOBQ: an approximate Gram matrix with exact cross terms, and one low-rank model, over their number.

The paper approximates the Gram matrix as Williams and Seeger do, K ~ K_nm K_mm^-1 K_mn, and leaves the embedding as it
is. Then the two do not belong to one process. In a low-rank model the embedding is projected on the landmarks as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import cbq
from cbq.kernels import RBF
from cbq.linalg import factor
from experiments.analysis import ResultTable, Row, medians_text, ruling
from experiments.common import Array, problem_with_truth, rmse
from experiments.experiment import BANDS, Cell, Experiment, as_options
from experiments.figures import BLACK, BLUE, RED, Curve, Panel, Style, figure_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T, N, TEST_THETAS = 50, 20, 100
LANDMARKS = (20, 50, 100, 200)
KERNEL, NUGGET, LANDMARK_NUGGET = RBF(1.0), 1e-6, 1e-10  # the paper's kernel and nugget, with the likeliest lengthscale
EXACT, EXACT_CROSS, LOW_RANK = "exact", "exact cross terms", "low-rank model"
CURVES = {EXACT: Style(BLACK, "", "--"), EXACT_CROSS: Style(RED, "o"), LOW_RANK: Style(BLUE, "s")}


def cells(quick: bool) -> list[Cell]:
    """One cell for each number of landmarks."""
    size, several = ((4, 5), (5, 10)) if quick else ((T, N), LANDMARKS)
    return [
        Cell("linear", *size, tuple(CURVES), as_options({"landmarks": m}), seconds=0.5, thetas=TEST_THETAS)
        for m in several
    ]


def run(cell: Cell, seed: int) -> list[Row]:
    """The RMSE of I by one process on all points, exact and with both approximations."""
    problem, theta, truth = problem_with_truth("linear", cell.thetas)
    samples = problem.collect(cell.T, cell.N, rng=seed, progress=False)
    x, f = samples.all_points, samples.table[:, 0]
    y = (f - np.mean(f)) / np.std(f)
    m = int(dict(cell.options)["landmarks"])
    chosen = np.random.default_rng(seed).choice(len(x), m, replace=False)
    mu = np.stack([cbq.embed(KERNEL, problem.family(each)).mean(x) for each in theta])  # (M, n)
    cross = KERNEL(x, x[chosen])
    projected = factor(KERNEL(x[chosen]), nugget=np.full(m, LANDMARK_NUGGET)).solve(cross.T)  # K_mm^-1 K_mn
    grams = {EXACT: KERNEL(x), EXACT_CROSS: cross @ projected, LOW_RANK: cross @ projected}
    means = {EXACT: mu, EXACT_CROSS: mu, LOW_RANK: mu[:, chosen] @ projected}
    return [
        {"method": k, "rmse": rmse(np.mean(f) + np.std(f) * _integral(grams[k], means[k], y), truth)} for k in grams
    ]


def _integral(gram: Array, mu: Array, y: Array) -> Array:
    """mu (K + nugget)^-1 y for mu (M, n): (M,)."""
    return np.asarray(mu @ factor(gram, nugget=np.full(len(y), NUGGET)).solve(y[:, None])[:, 0])


def draw(table: ResultTable) -> Figure:
    """Errors over the number of landmarks."""
    curves = [Curve(name, table.where(method=name), style) for name, style in CURVES.items()]
    row = table.rows[0]
    title = f"linear, $T = {row['T']}$, $N = {row['N']}$"
    return figure_of([[Panel(title, curves, "landmarks", xlabel="landmarks", ylabel="RMSE of $I$")]])


def verdict(table: ResultTable) -> str:
    """The errors at each number of landmarks."""
    lines = [f"{m} landmarks: {medians_text(table, tuple(CURVES), landmarks=m)}" for m in table.distinct("landmarks")]
    few = min(table.distinct("landmarks"))
    exact, crossed = (table.middle("rmse", method=name, landmarks=few) for name in (EXACT, EXACT_CROSS))
    return "\n".join([ruling("exact cross terms make few landmarks worse than none", crossed > 10 * exact), *lines])


EXPERIMENT = Experiment(
    "nystrom",
    "MOBQ with landmarks: approximate Gram with exact cross terms, and a low-rank model",
    "MOBQ has larger errors with the Nystrom approximation",
    cells,
    run,
    draw,
    verdict,
    caption="**Landmarks in one Gaussian process on all 1000 points of linear** with the paper's kernel and nugget. "
    "RMSE of I over the number of landmarks: the Gram matrix approximated and the embedding exact, as in the paper, "
    f"and both approximated, which is one low-rank model. {BANDS}",
)
