"""Whether intervals hold what they promise: coverage over the nominal level, on all four problems."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from cbq.methods.registry import REFUSALS, reason
from experiments.analysis import SHARE_PREFIX, ResultTable, Row
from experiments.common import coverage, problem_with_truth
from experiments.experiment import POOLED, Cell, Experiment, method_cell, pooled_cell
from experiments.figures import PANEL_SIZE, STYLES, legend_below, new_figure
from experiments.methods import BASELINES, METHODS, collect_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZES = {"linear": (50, 50), "sir": (15, 40), "butterfly": (20, 50), "health": (50, 50)}
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
TEST_THETAS = 100
UPPER_METHODS, LOWER_METHODS = ("CBQ.paper", *BASELINES), ("CBQ", *POOLED)


def cells(quick: bool) -> list[Cell]:
    """A cell for each problem, and another one for the pooled methods, which take longer."""
    found = []
    for name, (T, N) in SIZES.items():
        T, N, thetas = (5, 6, 10) if quick else (T, N, TEST_THETAS)
        found.append(method_cell(name, T, N, [*UPPER_METHODS, "CBQ"], thetas=thetas))
        if name == "linear" or not quick:
            found.append(pooled_cell(name, T, N, thetas=thetas))
    return found


def run(cell: Cell, seed: int) -> list[Row]:
    """For each method, the coverage of its intervals at all levels."""
    samples = collect_cell(cell, seed)
    _, theta, truth = problem_with_truth(cell.problem, cell.thetas, cell.options)
    found: list[Row] = []
    for method in cell.methods:
        try:
            fit = METHODS[method]().fit(samples)
            shares = {_column(level): coverage(fit, theta, truth, level) for level in LEVELS}
            found.append({"method": method, **shares})
        except REFUSALS as error:
            found.append({"method": method, "note": reason(error)})
    return found


def _column(level: float) -> str:
    return f"{SHARE_PREFIX}_{level:g}"


def draw(table: ResultTable) -> Figure:
    """Coverage over level, on the diagonal if intervals are right: a column for each problem, our methods below."""
    names = table.distinct("problem")
    figure = new_figure(PANEL_SIZE[0] * len(names) * 0.85, PANEL_SIZE[1] * 2.4)
    axes = figure.subplots(2, len(names), squeeze=False, sharex=True, sharey=True)
    for across, methods in zip(axes, (UPPER_METHODS, LOWER_METHODS), strict=True):
        for ax, name in zip(across, names, strict=True):
            _draw_panel(ax, table.where(problem=name), methods)
        across[0].set_ylabel("share of truths inside")
    for top, bottom, name in zip(*axes, names, strict=True):
        row = table.where(problem=name).rows[0]
        top.set_title(f"{name}, $T = {row['T']}$, $N = {row['N']}$", fontsize="medium")
        bottom.set_xlabel("level of intervals")
    legend_below(figure, list(axes.ravel()), 5)
    return figure


def _draw_panel(ax: Axes, table: ResultTable, methods: Sequence[str]) -> None:
    ax.plot([0, 1], [0, 1], color="0.6", lw=1, ls=":", label="nominal")
    for method in methods:
        _draw_coverage(ax, table.where(method=method), method)
    ax.set(xlim=(0, 1), ylim=(0, 1.02), aspect="equal")
    ax.grid(True, color="0.9", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_coverage(ax: Axes, rows: ResultTable, method: str) -> None:
    found = {level: summary for level in LEVELS if (summary := rows.summary(_column(level))) is not None}
    if found:
        style, summaries = STYLES[method], found.values()
        low, high = [s.low for s in summaries], [s.high for s in summaries]
        ax.fill_between([*found], low, high, color=style.colour, alpha=style.band, lw=0)
        ax.plot([*found], [s.middle for s in summaries], label=method, **{**style.line, "ms": 3.5})


def verdict(table: ResultTable) -> str:
    """The mean coverage of 95% and 50% intervals."""
    parts = []
    for name in table.distinct("problem"):
        rows = table.where(problem=name)
        shares = []
        for method in rows.distinct("method"):
            high, half = (rows.middle(_column(level), method=method) for level in (0.95, 0.5))
            if isfinite(high):
                shares.append(f"{method} {high:.2f} and {half:.2f}")
        parts.append(f"{name}: {', '.join(shares)}")
    return f"mean coverage of 95% and 50% intervals: {'; '.join(parts)}"


EXPERIMENT = Experiment(
    "calibration",
    "Coverage of intervals over their level, on all four problems",
    "CBQ's uncertainty is calibrated, if over-confident where N is small",
    cells,
    run,
    draw,
    verdict,
)
