"""The method on one page: its graphical model, the Gaussian processes of stage 1 and the one of stage 2 (butterfly)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import cbq
from cbq import CBQ
from cbq.kernels import Kernel, Matern, Warped
from cbq.linalg import factor_gram
from experiments.analysis import ResultTable, Row
from experiments.common import Array, rmse, share_inside
from experiments.experiment import Cell, Experiment
from experiments.figures import BLUE, ORANGE, PURPLE, RED, new_figure
from experiments.graphical_model import draw_graphical_model
from experiments.methods import collect_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PROBLEM = "butterfly"
SIZE = (10, 10)  # T, N
LENGTHSCALE = 0.5  # of log x; given, so that all curves here are those of one kernel
THETA_COLOURS = (BLUE, ORANGE, PURPLE)  # one for each theta whose stage 1 is shown
CURVE_POINTS = 161
TAIL = 0.02  # probability of the prior beyond either end of the picture
REACH = 1.96  # standard deviations of a 95% band


def kernel_x() -> Kernel:
    """Matern 3/2 of log x."""
    return Warped(Matern(1.5, LENGTHSCALE), "log")


def cells(quick: bool) -> list[Cell]:
    """One cell with one seed."""
    T, N = (5, 6) if quick else SIZE
    return [Cell(PROBLEM, T, N, ("CBQ.paper",), seeds=1, seconds=0.5)]


def run(cell: Cell, seed: int) -> list[Row]:
    """Everything that is drawn, by kind: f, points, densities, the processes of stage 1, stage 2 and the truth."""
    problem, samples = cbq.problems.get(cell.problem), collect_cell(cell, seed)
    fit = CBQ.paper(kernel_x=kernel_x()).fit(samples)
    order = np.argsort(samples.theta[:, 0])
    shown = order[np.linspace(0, len(order) - 1, len(THETA_COLOURS) + 2).round().astype(int)[1:-1]]
    rows: list[Row] = []
    x = np.linspace(0.0, max(_high_quantile(samples.measure(t)) for t in shown), CURVE_POINTS)[1:, None]
    rows += _curve_rows("f", 0.0, x[:, 0], problem.evaluate(samples.theta[shown[0]], x))
    for t in shown:
        theta = float(samples.theta[t, 0])
        mean, std = process_of_f(samples, t, float(fit.stage1.std[t]), x)
        rows += _curve_rows("node", theta, samples.points(t)[:, 0], samples.values(t))
        rows += _curve_rows("density", theta, x[:, 0], np.exp(samples.measure(t).logpdf(x)))
        rows += _curve_rows("process", theta, x[:, 0], mean, std)
    for t in order:
        rows.append(_row("stage 1", float(samples.theta[t, 0]), 0.0, fit.stage1.mean[t], fit.stage1.std[t]))
    first, last = problem.prior.transport([[TAIL], [1 - TAIL]])[:, 0]
    line = np.linspace(first, last, CURVE_POINTS)[:, None]
    (mean, std), truth = fit.predict(line, return_std=True), problem.exact(line)
    low, high = fit.interval(line, 0.95)
    for i, theta in enumerate(line[:, 0]):
        ends = {"low": float(low[i]), "high": float(high[i]), "truth": float(truth[i])}
        rows.append(_row("stage 2", float(theta), 0.0, mean[i], std[i]) | ends)
    return rows


def _high_quantile(measure: cbq.measures.Measure) -> float:
    return float(measure.transport([[1 - TAIL / 4]])[0, 0])


def process_of_f(samples: cbq.Samples, t: int, std_of_integral: float, new: Array) -> tuple[Array, Array]:
    """The posterior mean and standard deviation (n,) of f(., theta_t) at new points (n, 1).

    f is standardised over all thetas and has the mean zero. The amplitude is the one that gives the integral its
    standard deviation.
    """
    kernel, points = kernel_x(), samples.points(t)
    centre, unit = float(np.mean(samples.table)), float(np.std(samples.table))
    embedding = cbq.embed(kernel, samples.measure(t))
    right = np.column_stack([(samples.values(t) - centre) / unit, embedding.mean(points), kernel(points, new)])
    w = factor_gram(kernel, points).solve_lower(right)
    w_f, w_mu, w_new = w[:, 0], w[:, 1], w[:, 2:]
    amplitude = std_of_integral**2 / (float(embedding.variance) - w_mu @ w_mu)
    variance = amplitude * np.maximum(1 - np.sum(w_new * w_new, axis=0), 0)  # k(x, x) = 1
    return centre + unit * (w_f @ w_new), np.sqrt(variance)


def _row(kind: str, theta: float, x: float, value: float, std: float = 0.0) -> Row:
    return {"method": kind, "theta": theta, "x": x, "value": float(value), "std": float(std)}


def _curve_rows(kind: str, theta: float, x: Array, values: Array, std: Array | None = None) -> list[Row]:
    stds = np.zeros(len(x)) if std is None else std
    return [_row(kind, theta, float(a), v, s) for a, v, s in zip(x, values, stds, strict=True)]


def draw(table: ResultTable) -> Figure:
    """The graphical model on the left, stage 1 at three thetas in the middle, stage 2 on the right."""
    figure = new_figure(10.6, 4.6)
    grid = figure.add_gridspec(3, 3, width_ratios=(0.95, 1.05, 1.35))
    draw_graphical_model(figure.add_subplot(grid[:, 0]))
    thetas = table.where(method="node").distinct("theta")
    panels = [figure.add_subplot(grid[i, 1]) for i in range(len(thetas))]
    for ax, theta, colour in zip(panels, thetas, THETA_COLOURS, strict=True):
        _draw_stage_one(ax, table, theta, colour)
        ax.sharex(panels[-1])
        ax.sharey(panels[-1])
    for ax in panels[:-1]:
        ax.tick_params(labelbottom=False)
    panels[0].set_title(r"stage 1: $f$ at three of the $\theta_t$")
    panels[0].legend(frameon=False, fontsize=7.5, ncols=3, loc="upper center", handlelength=1.5, columnspacing=0.8)
    panels[len(panels) // 2].set_ylabel("loss $f(x)$")
    panels[-1].set_xlabel("price $x$ at time 2")
    answer = figure.add_subplot(grid[:, 2])
    _draw_stage_two(answer, table, dict(zip(thetas, THETA_COLOURS, strict=True)))
    for ax in (*panels, answer):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_stage_one(ax: Axes, table: ResultTable, theta: float, colour: str) -> None:
    """f, its process with a 95% band, the points, and at the bottom the measure of x."""
    f, process, nodes, density = (
        table.where(method="f"),
        *(table.where(method=kind, theta=theta) for kind in ("process", "node", "density")),
    )
    mean, std = np.array(process.values("value")), np.array(process.values("std"))
    x = process.values("x")
    ax.fill_between(x, mean - REACH * std, mean + REACH * std, color=colour, alpha=0.2, lw=0, label="95% band")
    ax.plot(x, mean, color=colour, lw=1.5, label="mean of $f$")
    ax.plot(f.values("x"), f.values("value"), color="0.35", lw=1.0, ls="--", label="$f$")
    inside = [(a, v) for a, v in zip(nodes.values("x"), nodes.values("value"), strict=True) if a <= max(x)]
    ax.plot([a for a, _ in inside], [v for _, v in inside], "o", ms=4, color=colour)
    values = f.values("value")
    reach = max(values) - min(values)
    bottom, top = min(values) - 0.75 * reach, max(values) + 0.75 * reach
    height = np.array(density.values("value"))
    ax.fill_between(density.values("x"), bottom, bottom + 0.4 * reach * height / max(height), color="0.75", lw=0)
    (row,) = table.where(method="stage 1", theta=theta)
    text = rf"$\theta = {theta:.0f}$:  $I_{{BQ}} = {row['value']:.1f} \pm {row['std']:.1f}$"
    ax.text(0.985, 0.74, text, transform=ax.transAxes, ha="right", fontsize=8, color=colour)
    ax.set(xlim=(0, max(x)), ylim=(bottom, top))


def _draw_stage_two(ax: Axes, table: ResultTable, colours: dict[float, str]) -> None:
    line, nodes = table.where(method="stage 2"), table.where(method="stage 1")
    theta = line.values("theta")
    low, high = line.values("low"), line.values("high")
    ax.fill_between(theta, low, high, color=RED, alpha=0.15, lw=0, label="95% band of stage 2")
    ax.plot(theta, line.values("value"), color=RED, lw=1.8, label=r"$I_{CBQ}(\theta)$, mean of stage 2")
    ax.plot(theta, line.values("truth"), color="0.35", lw=1.2, ls="--", label=r"truth $I(\theta)$")
    for row in nodes:
        first = row is nodes.rows[0]
        dots: dict[str, Any] = {"fmt": "o", "ms": 4.5, "color": colours.get(row["theta"], "black"), "elinewidth": 1.0}
        label = r"$I_{BQ}(\theta_t) \pm 2$ std, from stage 1" if first else None
        ax.errorbar([row["theta"]], [row["value"]], [REACH * row["std"]], label=label, **dots)
    ax.set_title(r"stage 2: a process over $\theta$")
    ax.set(xlabel=r"price $\theta$ at time 1", ylabel=r"$I(\theta) = E\, f(X)$")
    ax.legend(frameon=False, loc="best")
    ax.margins(x=0.02)
    shown = [*low, *high, *nodes.values("value"), *line.values("truth")]
    reach = max(shown) - min(shown)
    ax.set_ylim(min(shown) - 0.15 * reach, max(shown) + 0.15 * reach)  # long bars of stage 1 are cut off


def verdict(table: ResultTable) -> str:
    """The RMSE and the coverage of the curve that is shown."""
    line = table.where(method="stage 2")
    mean, truth = np.array(line.values("value")), np.array(line.values("truth"))
    low, high = np.array(line.values("low")), np.array(line.values("high"))
    T, N = line.rows[0]["T"], line.rows[0]["N"]
    return (
        f"butterfly with T = {T}, N = {N}: RMSE {rmse(mean, truth):.3g} where I has a range of {np.ptp(truth):.3g}; "
        f"{share_inside(low, truth, high):.0%} of the curve is in the 95% band"
    )


EXPERIMENT = Experiment(
    "illustration",
    "The method on one page: graphical model, stage 1 and stage 2 (butterfly)",
    "CBQ is Bayesian quadrature at each theta, then heteroscedastic Gaussian process regression over theta",
    cells,
    run,
    draw,
    verdict,
    version=2,
    labels=("theta", "x"),
    caption="**The method on butterfly, T = 10, N = 10, one seed.** Left: the graphical model; plates repeat over "
    "points and thetas, and grey values are observed. Middle: stage 1 at three of the thetas, each with the posterior "
    "mean and 95% band of f (Matern 3/2 of log x with a given lengthscale), its points, f itself (dashed), the density "
    "of x (grey) and the resulting integral with its standard deviation. Right: stage 2 with its 95% band, the "
    "estimates of stage 1 (the three thetas in their colours) and the truth (dashed).",
)
