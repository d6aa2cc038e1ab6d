"""Figures of values of information: bars by set, or lines over willingness to pay."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cbq.comparison.plot import COLOURS, MARKS, STROKES
from cbq.fit.plot import BLUE, INK, ORANGE
from cbq.psa.result import EvppiRow, EvppiTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, FRAME, PER_BAR, LINES = 6.4, 1.1, 0.34, 4.0  # of the figure, of its frame, of a bar and of lines, in inches
MANY = 12  # willingnesses to pay from which on lines have no marks


def plot_values(table: EvppiTable, ax: Any = None) -> Figure:
    """A horizontal bar for each set, the largest on top, or a line for each over willingness to pay where it varies.

    Whiskers and bands are the intervals of the table, and EVPI is a dashed line. Nothing is put on a screen: use
    `figure.savefig(path)`, or draw into axes of your own with `ax`.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plot needs matplotlib: python -m pip install 'cbq[plot]'.") from error
    sets = list(dict.fromkeys(row.pars for row in table.rows))
    bars = len({row.willingness_to_pay for row in table.rows}) == 1
    if ax is None:
        height = FRAME + PER_BAR * len(table.rows) if bars else LINES
        ax = Figure(figsize=(WIDTH, height), layout="constrained").subplots()
    if bars:
        _bars(ax, sorted(table.rows, key=lambda row: -row.evppi), table.level)
    else:
        _lines(ax, {name: [row for row in table.rows if row.pars == name] for name in sets}, table.level)
    ax.spines[["top", "right"]].set_visible(False)
    return cast("Figure", ax.figure.figure)  # that of a subfigure is the whole


def _bars(ax: Axes, rows: list[EvppiRow], level: float) -> None:
    """A bar for each row from the top, with a whisker."""
    places, values = range(len(rows)), np.array([row.evppi for row in rows])
    reach = [values - [row.lower for row in rows], [row.upper for row in rows] - values]
    ax.barh(places, values, height=0.62, color=BLUE)
    ax.errorbar(values, places, xerr=np.maximum(reach, 0.0), fmt="none", ecolor=INK, elinewidth=1.2, capsize=3)
    ax.axvline(rows[0].evpi, color=ORANGE, ls="--", lw=1.4, label="EVPI")
    ax.set_yticks(places, [row.pars for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(left=0.0)
    ax.tick_params(axis="y", length=0)
    at = rows[0].willingness_to_pay
    ax.set_xlabel(
        "EVPPI" + ("" if at is None else f" at a willingness to pay of {at:g}") + f", {100 * level:.4g}% intervals"
    )
    _legend(ax, 1)


def _lines(ax: Axes, sets: dict[str, list[EvppiRow]], level: float) -> None:
    """A line with a band for each set over willingness to pay."""
    looks = cycle((*look, stroke) for stroke in STROKES for look in zip(COLOURS, MARKS, strict=True))
    for (name, unsorted), (colour, mark, stroke) in zip(sets.items(), looks, strict=False):
        rows = sorted(unsorted, key=lambda row: row.willingness_to_pay or 0.0)
        x = [row.willingness_to_pay or 0.0 for row in rows]
        ax.fill_between(x, [row.lower for row in rows], [row.upper for row in rows], color=colour, alpha=0.15, lw=0)
        shown = mark if len(rows) < MANY else ""
        ax.plot(x, [row.evppi for row in rows], color=colour, ls=stroke, marker=shown, ms=4.5, lw=1.6, label=name)
    ax.plot(x, [row.evpi for row in rows], color=INK, ls="--", lw=1.4, label="EVPI")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("willingness to pay")
    ax.set_ylabel(f"EVPPI, {100 * level:.4g}% bands")
    _legend(ax, min(len(sets) + 1, 3))


def _legend(ax: Axes, columns: int) -> None:
    """Above the axes, where it hides nothing."""
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small", ncols=columns)
