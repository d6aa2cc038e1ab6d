"""The joint posterior of I at two near thetas of linear, beside that of Bayesian quadrature at each theta alone."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

import cbq
from experiments.analysis import ResultTable, Row, ruling
from experiments.common import Array, rmse
from experiments.experiment import Cell, Experiment
from experiments.figures import BLACK, ORANGE, STYLES, legend_below, new_figure
from experiments.methods import method_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (20, 6)  # T, N
PAIR = ((1.9, 2.0), (2.0, 2.0))
ONE_THETA = "BQ, one theta each"
COLOURS = {ONE_THETA: ORANGE, "CBQ.paper": STYLES["CBQ.paper"].colour, "CBQ": STYLES["CBQ"].colour}
RADII = {0.5: 1.1774, 0.95: 2.4477}  # radius of the disc with this probability under a standard bivariate normal
SEEDS_SHOWN = 3


def cells(quick: bool) -> list[Cell]:
    """One size."""
    T, N = (5, 8) if quick else SIZE
    return [Cell("linear", T, N, tuple(COLOURS), seconds=0.5)]


def run(cell: Cell, seed: int) -> list[Row]:
    """Means, standard deviations and correlation of I at the two thetas, which are among the T observed ones."""
    problem, pair = cbq.problems.get(cell.problem), np.array(PAIR)
    others = problem.prior.sample(cell.T - 2, np.random.default_rng([seed, 1]))
    samples = problem.collect(None, cell.N, theta=np.concatenate([pair, others]), rng=seed, progress=False)
    truth, rows = problem.exact(pair), []
    for method in cell.methods:
        fit = method_for("CBQ.paper" if method == ONE_THETA else method, cell.problem).fit(samples)
        if method == ONE_THETA:
            mean, cov = fit.stage1.mean[:2], np.diag(fit.stage1.std[:2] ** 2)
        else:
            mean, cov = fit.predict(pair, return_cov=True)
        rows.append(_row(method, mean, cov, truth))
    return rows


def _row(method: str, mean: Array, cov: Array, truth: Array) -> Row:
    std = np.sqrt(np.diag(cov))
    return {
        "method": method,
        "mean_1": float(mean[0]),
        "mean_2": float(mean[1]),
        "std_1": float(std[0]),
        "std_2": float(std[1]),
        "correlation": float(cov[0, 1] / (std[0] * std[1])),
        "truth_1": float(truth[0]),
        "truth_2": float(truth[1]),
        "rmse": rmse(mean, truth),
    }


def draw(table: ResultTable) -> Figure:
    """A panel for each of the first seeds, with equal axes: ellipses of 50% and 95%, and the truth."""
    seeds = table.distinct("seed")[:SEEDS_SHOWN]
    figure = new_figure(max(2.9 * len(seeds), 4.0), 3.7)
    axes = figure.subplots(1, len(seeds), squeeze=False, sharex=True, sharey=True)[0]
    for ax, seed in zip(axes, seeds, strict=True):
        _draw_ellipses(ax, table.where(seed=seed))
        ax.set_title(f"samples of seed {seed}")
        ax.set_xlabel(rf"$I(\theta)$ at $\theta = {PAIR[0]}$")
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_box_aspect(1)
    (low, high), middle = axes[0].get_xlim(), float(np.mean(axes[0].get_ylim()))
    axes[0].set_ylim(middle - 0.5 * (high - low), middle + 0.5 * (high - low))  # of the same length as the range of x
    axes[0].set_ylabel(rf"$I(\theta)$ at $\theta = {PAIR[1]}$")
    legend_below(figure, list(axes), 4)
    return figure


def _draw_ellipses(ax: Axes, rows: ResultTable) -> None:
    angle = np.linspace(0, 2 * np.pi, 181)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for row in rows:
        s1, s2, r = row["std_1"], row["std_2"], row["correlation"]
        L = np.array([[s1, 0.0], [r * s2, s2 * np.sqrt(max(1 - r * r, 0.0))]])  # L L' is the covariance
        for level, radius in RADII.items():
            ellipse = np.array([[row["mean_1"]], [row["mean_2"]]]) + radius * L @ circle
            label = row["method"] if level == 0.95 else None
            ax.plot(*ellipse, color=COLOURS[row["method"]], lw=1.5 if level == 0.95 else 0.9, label=label)
    ax.plot(rows.rows[0]["truth_1"], rows.rows[0]["truth_2"], "*", ms=7, color=BLACK, ls="none", label="truth")
    ax.ticklabel_format(scilimits=(-3, 4), useMathText=True)
    ax.margins(0.08)
    ax.locator_params(nbins=5)


def verdict(table: ResultTable) -> str:
    """The errors, standard deviations and correlations of all methods."""
    parts = [
        f"{name}: RMSE {table.middle('rmse', method=name):.3g}, standard deviation "
        f"{table.middle('std_1', method=name):.3g}, correlation {table.middle('correlation', method=name):.2f}"
        for name in COLOURS
    ]
    correlation = table.middle("correlation", method="CBQ.paper")
    first = ruling("CBQ relates I at near thetas", correlation > 0.5 if isfinite(correlation) else None)
    return f"{first}\nlinear at theta = {PAIR[0]} and {PAIR[1]}, medians: {'; '.join(parts)}"


EXPERIMENT = Experiment(
    "joint",
    "The joint distribution of I at two near thetas, beside plain Bayesian quadrature (linear)",
    "unlike Bayesian quadrature at single thetas, CBQ accounts for the relation between I at near thetas",
    cells,
    run,
    draw,
    verdict,
    version=2,
    caption=f"**The joint posterior of I at two near thetas**, {PAIR[0]} and {PAIR[1]}, on linear with f = x'x, T = 20 "
    "and N = 6, for three seeds on equal axes. Ellipses hold 50% and 95% of the probability; the star is the truth. "
    "BQ is the first stage of CBQ.paper alone, in which the two answers are independent. The printed medians are over "
    "{seeds} seeds.",
)
