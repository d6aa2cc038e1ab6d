"""The two stages on one page: quadrature at single thetas, then a Gaussian process over theta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.reproduce.cells import Cell, Row
from cbq.reproduce.draw import new_figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.looks import BLACK, BLUE, ORANGE, PURPLE, RED
from cbq.reproduce.measure import collected, rmse
from cbq.reproduce.methods import METHODS
from cbq.reproduce.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, T, N = "butterfly", 10, 12
SHOWN = 3  # thetas of stage 1
COLOURS = (BLUE, ORANGE, PURPLE)
LINE = 161  # points of curves
TAIL = 0.02  # probability of the prior beyond either end


def cells(quick: bool) -> list[Cell]:
    """One picture."""
    return [Cell(NAME, 5 if quick else T, 6 if quick else N, ("CBQ",), seeds=1, seconds=0.5)]


def measure(cell: Cell, seed: int) -> list[Row]:
    """All that is drawn: points of x, the function, densities, stage 1, stage 2 and the truth, by their kind."""
    problem, samples = collected(cell, seed)
    fit = METHODS["CBQ"]().fit(samples)
    stage1 = fit.stage1  # type: ignore[attr-defined]
    order = np.argsort(samples.theta[:, 0])
    picks = order[np.linspace(0, len(order) - 1, SHOWN).round().astype(int)]
    rows: list[Row] = []
    x = np.linspace(0.0, 1.15 * max(float(samples.points(t).max()) for t in picks), LINE)[1:, None]
    rows += _curve("f", 0.0, x[:, 0], problem.evaluate(samples.theta[picks[0]], x))
    for t in picks:
        theta = float(samples.theta[t, 0])
        rows += _curve("node", theta, samples.points(t)[:, 0], samples.values(t))
        rows += _curve("density", theta, x[:, 0], np.exp(samples.measure(t).logpdf(x)))
    for t in order:
        rows.append(_row("stage 1", float(samples.theta[t, 0]), 0.0, stage1.mean[t], stage1.std[t]))
    first, last = problem.prior.transport([[TAIL], [1 - TAIL]])[:, 0]
    line = np.linspace(first, last, LINE)[:, None]
    (mean, std), truth = fit.predict(line, return_std=True), problem.exact(line)
    low, high = fit.interval(line, 0.95)
    for i, theta in enumerate(line[:, 0]):
        ends = {"low": float(low[i]), "high": float(high[i]), "truth": float(truth[i])}
        rows.append(_row("stage 2", float(theta), 0.0, mean[i], std[i]) | ends)
    return rows


def _row(kind: str, theta: float, x: float, value: float, std: float = 0.0) -> Row:
    return {"method": kind, "theta": theta, "x": x, "value": float(value), "std": float(std)}


def _curve(kind: str, theta: float, x: np.ndarray, values: np.ndarray) -> list[Row]:
    return [_row(kind, theta, float(a), v) for a, v in zip(x, values, strict=True)]


def draw(table: Table) -> Figure:
    """Stage 1 on the left, with the measures of x below; stage 2 on the right."""
    page = new_figure(9.6, 4.1)
    grid = page.add_gridspec(2, 2, height_ratios=(3, 1.1), width_ratios=(1, 1.15))
    f, measure, answer = page.add_subplot(grid[0, 0]), page.add_subplot(grid[1, 0]), page.add_subplot(grid[:, 1])
    _stage_one(f, measure, table)
    _stage_two(answer, table)
    for ax in (f, measure, answer):
        ax.spines[["top", "right"]].set_visible(False)
    return page


def _stage_one(ax: Axes, measure: Axes, table: Table) -> None:
    curve = table.where(method="f")
    ax.plot(curve.values("x"), curve.values("value"), color="0.6", lw=1.2, label="$f(x)$")
    for colour, theta in zip(COLOURS, table.where(method="node").distinct("theta"), strict=False):
        nodes, density = (table.where(method=kind, theta=theta) for kind in ("node", "density"))
        label = rf"points of $\theta = {theta:.3g}$"
        ax.plot(nodes.values("x"), nodes.values("value"), "o", ms=4.5, color=colour, label=label)
        measure.plot(density.values("x"), density.values("value"), color=colour, lw=1.4)
        measure.fill_between(density.values("x"), density.values("value"), color=colour, alpha=0.15, lw=0)
    ax.set_title("stage 1: quadrature at each theta", fontsize="medium")
    ax.set_ylabel("loss $f(x)$")
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    ax.sharex(measure)
    ax.tick_params(labelbottom=False)
    measure.set(xlabel="price $x$ at time 2", ylabel=r"measure of $x$", ylim=(0, None))
    measure.margins(x=0)


def _stage_two(ax: Axes, table: Table) -> None:
    line, nodes = table.where(method="stage 2"), table.where(method="stage 1")
    theta = line.values("theta")
    ends = line.values("low"), line.values("high")
    ax.fill_between(theta, *ends, color=BLUE, alpha=0.18, lw=0, label="95% interval of stage 2")
    ax.plot(theta, line.values("value"), color=BLUE, lw=1.8, label="mean of stage 2")
    ax.plot(theta, line.values("truth"), color=RED, lw=1.4, ls="--", label="truth")
    bars = [1.96 * std for std in nodes.values("std")]
    dots: dict[str, Any] = {"fmt": "o", "ms": 4.5, "color": BLACK, "elinewidth": 1.0}
    ax.errorbar(nodes.values("theta"), nodes.values("value"), bars, label="stage 1, one theta each", **dots)
    ax.set_title("stage 2: a Gaussian process over theta", fontsize="medium")
    ax.set(xlabel=r"price $\theta$ at time 1", ylabel=r"$I(\theta) = E\, f(X)$")
    ax.legend(frameon=False, fontsize="small", loc="lower right")
    ax.margins(x=0.02)
    seen = [*ends[0], *ends[1], *nodes.values("value"), *line.values("truth")]
    reach = max(seen) - min(seen)
    ax.set_ylim(min(seen) - 0.15 * reach, max(seen) + 0.15 * reach)  # bars that reach far beyond leave the picture


def verdict(table: Table) -> str:
    """How far the picture is from the truth."""
    line = table.where(method="stage 2")
    mean, truth = np.array(line.values("value")), np.array(line.values("truth"))
    low, high = np.array(line.values("low")), np.array(line.values("high"))
    T, N = line.rows[0]["T"], line.rows[0]["N"]
    return (
        f"butterfly with T = {T}, N = {N}: RMSE {rmse(mean, truth):.3g} where I has a range of {np.ptp(truth):.3g}; "
        f"{np.mean((low <= truth) & (truth <= high)):.0%} of the curve is in the 95% band"
    )


EXPERIMENT = Experiment(
    "illustration",
    "The two stages on one page (butterfly)",
    "CBQ is Bayesian quadrature at each theta, then heteroscedastic Gaussian process regression over theta",
    cells,
    measure,
    draw,
    verdict,
    labels=("theta", "x"),
)
