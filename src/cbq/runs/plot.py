"""Figures of adaptive runs: the half-width against the number of runs, and I with the thetas of the next runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common.arrays import Array
from cbq.fit.base import Fit
from cbq.fit.naming import plain
from cbq.fit.styles import BLUE, LINE_SIZE, ORANGE, new_figure, require_axes, whole_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cbq.runs.answer import History

COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito


def plot_history(history: History, ax: Any = None) -> Figure:
    """The half-width at each round against the number of runs, a line for each output, and the target."""
    if ax is None:
        ax = new_figure(*LINE_SIZE).subplots()
    from matplotlib.ticker import LogFormatter

    require_axes(ax)
    C = history.half_width.shape[1]
    for c in range(C):
        colour = COLOURS[c % len(COLOURS)]
        label = "half-width" if C == 1 else f"half-width of {plain(history.names.output(c))}"
        ax.plot(history.runs, history.half_width[:, c], "o-", ms=4, lw=1.4, color=colour, label=label)
        if np.any(np.isfinite(history.target[:, c])):
            ax.plot(
                history.runs, history.target[:, c], "--", lw=1.2, color=colour, label="asked for" if c == 0 else None
            )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("runs")
    ax.set_ylabel("half-width of the interval of I")
    ticks = np.unique(np.round(np.geomspace(history.runs[0], history.runs[-1], 6)).astype(int))
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.xaxis.minorticks_off()
    ax.yaxis.set_major_formatter(LogFormatter())
    ax.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))  # labels between few powers of ten
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small")
    return whole_figure(ax)


def plot_answer(fit: Fit, upcoming: Array, **options: Any) -> Figure:
    """A figure of a fit, with the thetas (n, p) of upcoming runs marked: along the lower edge, or on the maps.

    Slices, for p > 2, are drawn without them: runs are not on a slice.
    """
    figure = fit.plot(**options)
    style: dict[str, Any] = {"color": ORANGE, "ls": "none", "clip_on": False}
    if fit.p == 1:
        panels = [options["ax"]] if options.get("ax") is not None else [ax for ax in figure.axes if ax.get_xlabel()]
        for ax in panels:
            ax.plot(upcoming[:, 0], np.zeros(len(upcoming)), "^", ms=5, transform=ax.get_xaxis_transform(), **style)
            ax.text(0.01, 0.03, "\u25b2 next runs", color=ORANGE, fontsize="small", transform=ax.transAxes)
    elif fit.p == 2:
        for ax in figure.axes:
            if ax.get_title():  # a map, and no bar of colours
                ax.plot(upcoming[:, 0], upcoming[:, 1], "^", ms=4, **style)
    return figure
