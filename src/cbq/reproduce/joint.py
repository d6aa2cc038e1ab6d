"""Two near thetas: what is known about both answers together, beside plain Bayesian quadrature at each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cbq import problems
from cbq.reproduce.cells import Cell, Row
from cbq.reproduce.draw import legend_below, new_figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.looks import BLACK, LOOKS, ORANGE
from cbq.reproduce.methods import METHODS
from cbq.reproduce.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, T, N = "butterfly", 20, 10
PAIR = (95.0, 100.0)
PLAIN = "BQ, one theta each"
SHOWN = {PLAIN: ORANGE, "CBQ.paper": LOOKS["CBQ.paper"].colour, "CBQ": LOOKS["CBQ"].colour}
RADII = {0.5: 1.1774, 0.95: 2.4477}  # of ellipses that hold so much of a bivariate normal distribution
PICTURES = 3  # seeds that are drawn


def cells(quick: bool) -> list[Cell]:
    """One size."""
    return [Cell(NAME, 5 if quick else T, 8 if quick else N, tuple(SHOWN), seconds=0.8)]


def measure(cell: Cell, seed: int) -> list[Row]:
    """Means, standard deviations and correlation of I at the two thetas, which are among the T observed ones."""
    problem = problems.get(cell.problem)
    pair = np.array(PAIR)[:, None]
    others = problem.prior.sample(cell.T - 2, np.random.default_rng([seed, 1]))
    theta = np.concatenate([pair, others])
    samples = problem.collect(None, cell.N, theta=theta, rng=seed, batch=10_000, progress=False)
    truth, rows = problem.exact(pair), []
    for method in cell.methods:
        name = "CBQ" if method == PLAIN else method
        fit = METHODS[name]().fit(samples.select(np.array([0, 1])) if method == PLAIN else samples)
        if method == PLAIN:
            mean, cov = fit.stage1.mean, np.diag(fit.stage1.std**2)  # type: ignore[attr-defined]
        else:
            mean, cov = fit.predict(pair, return_cov=True)
        rows.append(_row(method, np.asarray(mean), np.asarray(cov), truth))
    return rows


def _row(method: str, mean: np.ndarray, cov: np.ndarray, truth: np.ndarray) -> Row:
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
        "rmse": float(np.sqrt(np.mean((mean - truth) ** 2))),
    }


def draw(table: Table) -> Figure:
    """A panel for each of the first seeds: ellipses of 50% and 95%, and the truth."""
    seeds = table.distinct("seed")[:PICTURES]
    page = new_figure(3.5 * len(seeds), 4.0)
    axes = page.subplots(1, len(seeds), squeeze=False, sharex=True, sharey=True)[0]
    for ax, seed in zip(axes, seeds, strict=True):
        _panel(ax, table.where(seed=seed))
        ax.set_title(f"samples of seed {seed}", fontsize="medium")
        ax.set_xlabel(rf"$I(\theta)$ at $\theta = {PAIR[0]:g}$")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(rf"$I(\theta)$ at $\theta = {PAIR[1]:g}$")
    legend_below(page, list(axes), 4)
    return page


def _panel(ax: Axes, rows: Table) -> None:
    angle = np.linspace(0, 2 * np.pi, 181)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for row in rows:
        s1, s2, r = row["std_1"], row["std_2"], row["correlation"]
        root = np.array([[s1, 0.0], [r * s2, s2 * np.sqrt(max(1 - r * r, 0.0))]])  # lower, root root' = cov
        for level, radius in RADII.items():
            ring = np.array([[row["mean_1"]], [row["mean_2"]]]) + radius * root @ circle
            label = row["method"] if level == 0.95 else None
            ax.plot(*ring, color=SHOWN[row["method"]], lw=1.6 if level == 0.95 else 1.0, label=label)
    ax.plot(rows.rows[0]["truth_1"], rows.rows[0]["truth_2"], "*", ms=11, color=BLACK, ls="none", label="truth")
    ax.ticklabel_format(scilimits=(-3, 4), useMathText=True)
    ax.margins(0.08)
    ax.locator_params(nbins=5)


def verdict(table: Table) -> str:
    """Correlations, and errors beside those of single thetas."""
    parts = [
        f"{name}: RMSE {table.middle('rmse', method=name):.3g}, standard deviation "
        f"{table.middle('std_1', method=name):.3g}, correlation {table.middle('correlation', method=name):.2f}"
        for name in SHOWN
    ]
    return f"butterfly at theta = {PAIR[0]:g} and {PAIR[1]:g}, medians: {'; '.join(parts)}"


EXPERIMENT = Experiment(
    "joint",
    "The joint distribution of I at two near thetas, beside plain Bayesian quadrature (butterfly)",
    "CBQ shares information between near thetas: their answers are correlated, and surer than those of single thetas",
    cells,
    measure,
    draw,
    verdict,
)
