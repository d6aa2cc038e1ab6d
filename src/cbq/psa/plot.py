"""Figures of EVPPI: bars by set, or lines over the willingness to pay."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.comparison.plot import LINE_STYLES
from cbq.fit.plot import BLUE, INK, ORANGE, new_figure, require_axes, whole_figure
from cbq.psa.result import EvppiRow, EvppiTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, FRAME_HEIGHT, BAR_HEIGHT, LINES_HEIGHT = 6.4, 1.1, 0.34, 4.0  # in inches
MARKERS_BELOW = 12  # points on a line


def plot_values(table: EvppiTable, ax: Any = None) -> Figure:
    """A horizontal bar for each set, the largest on top; or a line for each, if the willingness to pay varies.

    Error bars and bands are the intervals of the table, and a dashed line is EVPI. The figure is not displayed: use
    `figure.savefig(path)`, or pass your own `ax`.
    """
    bars = len({row.willingness_to_pay for row in table.rows}) == 1
    if ax is None:
        height = FRAME_HEIGHT + BAR_HEIGHT * len(table.rows) if bars else LINES_HEIGHT
        ax = new_figure(WIDTH, height).subplots()
    require_axes(ax)
    if bars:
        _bars(ax, sorted(table.rows, key=lambda row: -row.evppi), table.level)
    else:
        _lines(ax, table)
    ax.spines[["top", "right"]].set_visible(False)
    return whole_figure(ax)


def _bars(ax: Axes, rows: list[EvppiRow], level: float) -> None:
    """A bar with an error bar for each row, from the top."""
    heights, values = range(len(rows)), np.array([row.evppi for row in rows])
    reach = [values - [row.lower for row in rows], [row.upper for row in rows] - values]
    ax.barh(heights, values, height=0.62, color=BLUE)
    ax.errorbar(values, heights, xerr=np.maximum(reach, 0.0), fmt="none", ecolor=INK, elinewidth=1.2, capsize=3)
    ax.axvline(rows[0].evpi, color=ORANGE, ls="--", lw=1.4, label="EVPI")
    ax.set_yticks(heights, [row.pars for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(left=0.0)
    ax.tick_params(axis="y", length=0)
    threshold = rows[0].willingness_to_pay
    at = "" if threshold is None else f" at a willingness to pay of {threshold:g}"
    ax.set_xlabel(f"EVPPI{at}, {100 * level:.4g}% intervals")
    _legend(ax, 1)


def _lines(ax: Axes, table: EvppiTable) -> None:
    """A line with a band over the willingness to pay for each set."""
    by_price = sorted(table.rows, key=lambda row: row.willingness_to_pay or 0.0)
    sets = list(dict.fromkeys(row.pars for row in table.rows))
    for name, (colour, mark, stroke) in zip(sets, cycle(LINE_STYLES), strict=False):
        rows = [row for row in by_price if row.pars == name]
        x = [row.willingness_to_pay or 0.0 for row in rows]
        ax.fill_between(x, [row.lower for row in rows], [row.upper for row in rows], color=colour, alpha=0.15, lw=0)
        marker = mark if len(rows) < MARKERS_BELOW else ""
        ax.plot(x, [row.evppi for row in rows], color=colour, ls=stroke, marker=marker, ms=4.5, lw=1.6, label=name)
    ax.plot(x, [row.evpi for row in rows], color=INK, ls="--", lw=1.4, label="EVPI")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("willingness to pay")
    ax.set_ylabel(f"EVPPI, {100 * table.level:.4g}% bands")
    _legend(ax, min(len(sets) + 1, 3))


def _legend(ax: Axes, columns: int) -> None:
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small", ncols=columns)
