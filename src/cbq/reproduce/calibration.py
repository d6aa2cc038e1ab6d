"""Whether intervals hold what they promise: coverage over its nominal level, on all four problems."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from cbq.fit.base import Fit
from cbq.methods.registry import REFUSALS, reason
from cbq.reproduce.cells import Cell, Row
from cbq.reproduce.draw import PANEL, legend_below, new_figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.grids import POOLED, cell, pooled
from cbq.reproduce.looks import LOOKS
from cbq.reproduce.measure import collected, judged
from cbq.reproduce.methods import BASELINES, METHODS
from cbq.reproduce.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZES = {"linear": (50, 50), "sir": (15, 40), "butterfly": (20, 50), "health": (50, 50)}
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
THETAS = 100  # at which coverage is counted
ABOVE, BELOW = ("CBQ.paper", *BASELINES), ("CBQ", *POOLED)


def cells(quick: bool) -> list[Cell]:
    """One for each problem; one process on all points has a cell of its own, as it takes long."""
    found = []
    for name, (T, N) in SIZES.items():
        T, N, thetas = (5, 6, 10) if quick else (T, N, THETAS)
        found.append(cell(name, T, N, [*ABOVE, "CBQ"], thetas=thetas))
        if name == "linear" or not quick:
            found.append(pooled(name, T, N, thetas=thetas))
    return found


def measure(cell: Cell, seed: int) -> list[Row]:
    """The share of truths in intervals of each level, for each method."""
    _, samples = collected(cell, seed)
    theta, truth = judged(cell.problem, cell.options, cell.thetas)
    found: list[Row] = []
    for method in cell.methods:
        try:
            shares = _shares(METHODS[method]().fit(samples), theta, truth)
            found.append({"method": method, **{_column(level): share for level, share in shares.items()}})
        except REFUSALS as error:
            found.append({"method": method, "note": reason(error)})
    return found


def _shares(fit: Fit, theta: np.ndarray, truth: np.ndarray) -> dict[float, float]:
    """The share of truths (M,) or (M, C) inside, by level."""
    found = {}
    for level in LEVELS:
        low, high = fit.interval(theta, level)
        found[level] = float(np.mean((low <= truth) & (truth <= high)))
    return found


def _column(level: float) -> str:
    return f"coverage_{level:g}"


def draw(table: Table) -> Figure:
    """Coverage over level, on the diagonal where intervals are right: a column for each problem, ours below."""
    names = table.distinct("problem")
    page = new_figure(PANEL[0] * len(names) * 0.85, PANEL[1] * 2.4)
    axes = page.subplots(2, len(names), squeeze=False, sharex=True, sharey=True)
    for across, methods in zip(axes, (ABOVE, BELOW), strict=True):
        for ax, name in zip(across, names, strict=True):
            _panel(ax, table.where(problem=name), methods)
        across[0].set_ylabel("share of truths inside")
    for top, bottom, name in zip(*axes, names, strict=True):
        row = table.where(problem=name).rows[0]
        top.set_title(f"{name}, $T = {row['T']}$, $N = {row['N']}$", fontsize="medium")
        bottom.set_xlabel("level of intervals")
    legend_below(page, list(axes.ravel()), 5)
    return page


def _panel(ax: Axes, table: Table, methods: Sequence[str]) -> None:
    ax.plot([0, 1], [0, 1], color="0.6", lw=1, ls=":", label="as promised")
    for method in methods:
        _curve(ax, table.where(method=method), method)
    ax.set(xlim=(0, 1), ylim=(0, 1.02), aspect="equal")
    ax.grid(True, color="0.9", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def _curve(ax: Axes, rows: Table, method: str) -> None:
    found = {level: point for level in LEVELS if (point := rows.point(_column(level))) is not None}
    if found:
        look, points = LOOKS[method], found.values()
        low, high = [point.low for point in points], [point.high for point in points]
        ax.fill_between([*found], low, high, color=look.colour, alpha=look.band, lw=0)
        ax.plot([*found], [point.middle for point in points], label=method, **{**look.style, "ms": 3.5})


def verdict(table: Table) -> str:
    """Mean coverage of 95% and 50% intervals."""
    parts = []
    for name in table.distinct("problem"):
        mine = table.where(problem=name)
        shares = []
        for method in mine.distinct("method"):
            high, half = (mine.middle(_column(level), method=method) for level in (0.95, 0.5))
            if isfinite(high):
                shares.append(f"{method} {high:.2f} and {half:.2f}")
        parts.append(f"{name}: {', '.join(shares)}")
    return f"mean coverage of 95% and 50% intervals: {'; '.join(parts)}"


EXPERIMENT = Experiment(
    "calibration",
    "Coverage of intervals over their level, on all four problems",
    "CBQ's uncertainty is calibrated, if over-confident where N is small",
    cells,
    measure,
    draw,
    verdict,
)
