"""Two pictures of the method on butterfly: its two stages on one page, and the joint distribution at two thetas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import cbq
from experiments.analysis import ResultTable, Row
from experiments.common import Array, rmse, share_inside
from experiments.experiment import Cell, Experiment
from experiments.figures import BLACK, BLUE, ORANGE, PURPLE, RED, STYLES, legend_below, new_figure
from experiments.methods import METHODS, collect_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PROBLEM = "butterfly"

# the two stages
STAGES_SIZE = (10, 12)  # T, N
THETA_COLOURS = (BLUE, ORANGE, PURPLE)  # one for each theta whose stage 1 is shown
CURVE_POINTS = 161
TAIL = 0.02  # probability of the prior beyond either end of the picture

# two near thetas
PAIR_SIZE = (20, 10)  # T, N
PAIR = (95.0, 100.0)
ONE_THETA = "BQ, one theta each"
PAIR_COLOURS = {ONE_THETA: ORANGE, "CBQ.paper": STYLES["CBQ.paper"].colour, "CBQ": STYLES["CBQ"].colour}
RADII = {0.5: 1.1774, 0.95: 2.4477}  # radius of the disc with this probability under a standard bivariate normal
SEEDS_SHOWN = 3


def cells_of_stages(quick: bool) -> list[Cell]:
    """One cell with one seed."""
    T, N = (5, 6) if quick else STAGES_SIZE
    return [Cell(PROBLEM, T, N, ("CBQ",), seeds=1, seconds=0.5)]


def run_stages(cell: Cell, seed: int) -> list[Row]:
    """Everything that is drawn, by kind: f, points, densities, stage 1, stage 2 and the truth."""
    problem, samples = cbq.problems.get(cell.problem), collect_cell(cell, seed)
    fit = METHODS["CBQ"]().fit(samples)
    order = np.argsort(samples.theta[:, 0])
    shown = order[np.linspace(0, len(order) - 1, len(THETA_COLOURS)).round().astype(int)]
    rows: list[Row] = []
    x = np.linspace(0.0, 1.15 * max(float(samples.points(t).max()) for t in shown), CURVE_POINTS)[1:, None]
    rows += _curve_rows("f", 0.0, x[:, 0], problem.evaluate(samples.theta[shown[0]], x))
    for t in shown:
        theta = float(samples.theta[t, 0])
        rows += _curve_rows("node", theta, samples.points(t)[:, 0], samples.values(t))
        rows += _curve_rows("density", theta, x[:, 0], np.exp(samples.measure(t).logpdf(x)))
    for t in order:
        rows.append(_stage_row("stage 1", float(samples.theta[t, 0]), 0.0, fit.stage1.mean[t], fit.stage1.std[t]))
    first, last = problem.prior.transport([[TAIL], [1 - TAIL]])[:, 0]
    line = np.linspace(first, last, CURVE_POINTS)[:, None]
    (mean, std), truth = fit.predict(line, return_std=True), problem.exact(line)
    low, high = fit.interval(line, 0.95)
    for i, theta in enumerate(line[:, 0]):
        ends = {"low": float(low[i]), "high": float(high[i]), "truth": float(truth[i])}
        rows.append(_stage_row("stage 2", float(theta), 0.0, mean[i], std[i]) | ends)
    return rows


def _stage_row(kind: str, theta: float, x: float, value: float, std: float = 0.0) -> Row:
    return {"method": kind, "theta": theta, "x": x, "value": float(value), "std": float(std)}


def _curve_rows(kind: str, theta: float, x: Array, values: Array) -> list[Row]:
    return [_stage_row(kind, theta, float(a), v) for a, v in zip(x, values, strict=True)]


def draw_stages(table: ResultTable) -> Figure:
    """Stage 1 on the left, with the measures of x below; stage 2 on the right."""
    figure = new_figure(9.6, 4.1)
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 1.1), width_ratios=(1, 1.15))
    values, densities, answer = (figure.add_subplot(part) for part in (grid[0, 0], grid[1, 0], grid[:, 1]))
    _draw_stage_one(values, densities, table)
    _draw_stage_two(answer, table)
    for ax in (values, densities, answer):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_stage_one(ax: Axes, densities: Axes, table: ResultTable) -> None:
    f = table.where(method="f")
    ax.plot(f.values("x"), f.values("value"), color="0.6", lw=1.2, label="$f(x)$")
    for colour, theta in zip(THETA_COLOURS, table.where(method="node").distinct("theta"), strict=False):
        nodes, density = (table.where(method=kind, theta=theta) for kind in ("node", "density"))
        label = rf"points of $\theta = {theta:.3g}$"
        ax.plot(nodes.values("x"), nodes.values("value"), "o", ms=4.5, color=colour, label=label)
        densities.plot(density.values("x"), density.values("value"), color=colour, lw=1.4)
        densities.fill_between(density.values("x"), density.values("value"), color=colour, alpha=0.15, lw=0)
    ax.set_title("stage 1: quadrature at each theta", fontsize="medium")
    ax.set_ylabel("loss $f(x)$")
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    ax.sharex(densities)
    ax.tick_params(labelbottom=False)
    densities.set(xlabel="price $x$ at time 2", ylabel=r"measure of $x$", ylim=(0, None))
    densities.margins(x=0)


def _draw_stage_two(ax: Axes, table: ResultTable) -> None:
    line, nodes = table.where(method="stage 2"), table.where(method="stage 1")
    theta = line.values("theta")
    low, high = line.values("low"), line.values("high")
    ax.fill_between(theta, low, high, color=BLUE, alpha=0.18, lw=0, label="95% interval of stage 2")
    ax.plot(theta, line.values("value"), color=BLUE, lw=1.8, label="mean of stage 2")
    ax.plot(theta, line.values("truth"), color=RED, lw=1.4, ls="--", label="truth")
    bars = [1.96 * std for std in nodes.values("std")]
    dots: dict[str, Any] = {"fmt": "o", "ms": 4.5, "color": BLACK, "elinewidth": 1.0}
    ax.errorbar(nodes.values("theta"), nodes.values("value"), bars, label="stage 1, one theta each", **dots)
    ax.set_title("stage 2: a Gaussian process over theta", fontsize="medium")
    ax.set(xlabel=r"price $\theta$ at time 1", ylabel=r"$I(\theta) = E\, f(X)$")
    ax.legend(frameon=False, fontsize="small", loc="lower right")
    ax.margins(x=0.02)
    shown = [*low, *high, *nodes.values("value"), *line.values("truth")]
    reach = max(shown) - min(shown)
    ax.set_ylim(min(shown) - 0.15 * reach, max(shown) + 0.15 * reach)  # long bars of stage 1 are cut off


def verdict_on_stages(table: ResultTable) -> str:
    """The RMSE and the coverage of the curve that is shown."""
    line = table.where(method="stage 2")
    mean, truth = np.array(line.values("value")), np.array(line.values("truth"))
    low, high = np.array(line.values("low")), np.array(line.values("high"))
    T, N = line.rows[0]["T"], line.rows[0]["N"]
    return (
        f"butterfly with T = {T}, N = {N}: RMSE {rmse(mean, truth):.3g} where I has a range of {np.ptp(truth):.3g}; "
        f"{share_inside(low, truth, high):.0%} of the curve is in the 95% band"
    )


def cells_of_pair(quick: bool) -> list[Cell]:
    """One size."""
    T, N = (5, 8) if quick else PAIR_SIZE
    return [Cell(PROBLEM, T, N, tuple(PAIR_COLOURS), seconds=0.8)]


def run_pair(cell: Cell, seed: int) -> list[Row]:
    """Means, standard deviations and correlation of I at the two thetas, which are among the T observed ones."""
    problem = cbq.problems.get(cell.problem)
    pair = np.array(PAIR)[:, None]
    others = problem.prior.sample(cell.T - 2, np.random.default_rng([seed, 1]))
    theta = np.concatenate([pair, others])
    samples = problem.collect(None, cell.N, theta=theta, rng=seed, batch=10_000, progress=False)
    truth, rows = problem.exact(pair), []
    for method in cell.methods:
        if method == ONE_THETA:
            stage1 = METHODS["CBQ"]().fit(samples.select(np.array([0, 1]))).stage1
            mean, cov = stage1.mean, np.diag(stage1.std**2)
        else:
            mean, cov = METHODS[method]().fit(samples).predict(pair, return_cov=True)
        rows.append(_pair_row(method, mean, cov, truth))
    return rows


def _pair_row(method: str, mean: Array, cov: Array, truth: Array) -> Row:
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


def draw_pair(table: ResultTable) -> Figure:
    """A panel for each of the first seeds: ellipses of 50% and 95%, and the truth."""
    seeds = table.distinct("seed")[:SEEDS_SHOWN]
    figure = new_figure(3.5 * len(seeds), 4.0)
    axes = figure.subplots(1, len(seeds), squeeze=False, sharex=True, sharey=True)[0]
    for ax, seed in zip(axes, seeds, strict=True):
        _draw_ellipses(ax, table.where(seed=seed))
        ax.set_title(f"samples of seed {seed}", fontsize="medium")
        ax.set_xlabel(rf"$I(\theta)$ at $\theta = {PAIR[0]:g}$")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(rf"$I(\theta)$ at $\theta = {PAIR[1]:g}$")
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
            ax.plot(*ellipse, color=PAIR_COLOURS[row["method"]], lw=1.6 if level == 0.95 else 1.0, label=label)
    ax.plot(rows.rows[0]["truth_1"], rows.rows[0]["truth_2"], "*", ms=11, color=BLACK, ls="none", label="truth")
    ax.ticklabel_format(scilimits=(-3, 4), useMathText=True)
    ax.margins(0.08)
    ax.locator_params(nbins=5)


def verdict_on_pair(table: ResultTable) -> str:
    """The errors, standard deviations and correlations of all methods."""
    parts = [
        f"{name}: RMSE {table.middle('rmse', method=name):.3g}, standard deviation "
        f"{table.middle('std_1', method=name):.3g}, correlation {table.middle('correlation', method=name):.2f}"
        for name in PAIR_COLOURS
    ]
    return f"butterfly at theta = {PAIR[0]:g} and {PAIR[1]:g}, medians: {'; '.join(parts)}"


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "illustration",
        "The two stages on one page (butterfly)",
        "CBQ is Bayesian quadrature at each theta, then heteroscedastic Gaussian process regression over theta",
        cells_of_stages,
        run_stages,
        draw_stages,
        verdict_on_stages,
        labels=("theta", "x"),
    ),
    Experiment(
        "joint",
        "The joint distribution of I at two near thetas, beside plain Bayesian quadrature (butterfly)",
        "CBQ shares information between near thetas: their answers are correlated, and surer than those of single "
        "thetas",
        cells_of_pair,
        run_pair,
        draw_pair,
        verdict_on_pair,
    ),
)
