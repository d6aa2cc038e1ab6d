"""Figures over the size of a study: of EVSI, and of the expected net benefit of sampling."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common.arrays import evenly
from cbq.comparison.plot import LINE_STYLES
from cbq.fit.styles import INK, LEGEND, LINE_SIZE, new_figure, require_axes, spans_decades, whole_figure
from cbq.voi.sample_information import EvsiTable
from cbq.voi.sampling_benefit import EnbsTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 5  # values of the willingness to pay that are drawn: the first, the last, and some between
MARKERS_BELOW = 12  # points on a line


def plot_evsi(table: EvsiTable, ax: Any = None) -> Figure:
    """A line with a band over the size for each willingness to pay, with EVPPI as a dashed line of the same colour."""
    ax = _axes(ax)
    prices = _drawn(table.prices)
    for price, (colour, mark, stroke) in zip(prices, cycle(LINE_STYLES), strict=False):
        rows = table.at(price)
        _line(ax, rows, "evsi", "EVSI" if price is None else f"EVSI at {price:g}", colour, mark, stroke)
        first = price == prices[0]
        ax.axhline(rows[0].evppi, color=colour, ls="--", lw=1.2, label="EVPPI" if first else None)
    ax.set_ylim(bottom=0.0)
    each = "" if table.population is None else f" for a population of {table.population:.4g}"
    return _finished(ax, table.sizes, f"EVSI{each}, {100 * table.level:.4g}% bands")


def plot_enbs(table: EnbsTable, ax: Any = None) -> Figure:
    """A line with a band over the size for each willingness to pay, with a large mark at the best size."""
    ax = _axes(ax)
    for price, (colour, mark, stroke) in zip(_drawn(table.prices), cycle(LINE_STYLES), strict=False):
        rows, best = table.at(price), table.best(price)
        _line(ax, rows, "enbs", "ENBS" if price is None else f"ENBS at {price:g}", colour, mark, stroke)
        label = f"best size, {best.size}" if best.enbs > 0 else "no size is worth its cost"
        if best.enbs > 0:
            ax.plot([best.size], [best.enbs], ls="", marker="D", ms=9, color=colour, mec="white", label=label)
        else:
            ax.plot([], [], ls="", label=label)
    ax.axhline(0.0, color=INK, lw=1.0)
    return _finished(ax, [row.size for row in table.rows], f"ENBS, {100 * table.level:.4g}% bands")


def _drawn(prices: Sequence[float | None]) -> list[float | None]:
    return [prices[i] for i in evenly(len(prices), MOST_LINES)]


def _axes(ax: Any) -> Any:
    if ax is None:
        return new_figure(*LINE_SIZE).subplots()
    require_axes(ax)
    return ax


def _line(ax: Axes, rows: Sequence[Any], name: str, label: str, colour: str, mark: str, stroke: Any) -> None:
    """A line over the size with its band."""
    x = [row.size for row in rows]
    ax.fill_between(x, [row.lower for row in rows], [row.upper for row in rows], color=colour, alpha=0.15, lw=0)
    marker = mark if len(rows) < MARKERS_BELOW else ""
    y = [getattr(row, name) for row in rows]
    ax.plot(x, y, color=colour, ls=stroke, marker=marker, ms=4.5, lw=1.6, label=label)


def _finished(ax: Axes, sizes: Sequence[int], label: str) -> Figure:
    if spans_decades(np.array(sizes, dtype=float)):
        ax.set_xscale("log")
    ax.set_xlabel("size of the study")
    ax.set_ylabel(label)
    ax.spines[["top", "right"]].set_visible(False)
    _, labels = ax.get_legend_handles_labels()
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(len(labels), 3), **LEGEND)
    return whole_figure(ax)
