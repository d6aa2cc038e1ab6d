"""Figures of comparisons: errors beside seconds, a dot for each estimator or lines over the size of samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common.arrays import Array, Booleans
from cbq.common.tables import short
from cbq.comparison.table import Comparison, ComparisonRow
from cbq.fit.naming import plain
from cbq.fit.styles import (
    BLUE,
    EXPONENT_LIMITS,
    INK,
    LEGEND,
    ORANGE,
    ROW_HEIGHT,
    new_figure,
    require_axes,
    whole_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Distinct for colour-blind readers (Okabe and Ito), and by their markers without colour.
COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK, "#8C8C8C")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<")
LINE_STYLES = [(*style, stroke) for stroke in ("-", "--", ":") for style in zip(COLOURS, MARKS, strict=True)]
WIDTH, LINES_HEIGHT, DOTS_HEIGHT = 8.6, 3.4, 0.31  # of the figure, a row of lines and an estimator among dots, inches
AXIS_HEIGHT = 0.75  # of the axis and the label of a row of dots, inches
LEGEND_CHARACTERS = 108  # in a line of the legend
DOTS_MARGINS = (0.06, 0.26)  # left and right of the dots, relative to the range: their values are on the right
ERRORS = {"rmse": "RMSE", "loo": "leave-one-out error"}
TICKS_AT_125_BELOW = {"x": 1.8, "y": 2.8}  # decades of an axis below which 2 and 5 are numbered as well as 1
GREY, PALE = "#8C8C8C", "#DDDDDD"
HIDING = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # hides the line behind a text
BESIDE: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": "small", "bbox": HIDING}


def plot_comparison(comparison: Comparison, ax: Any = None) -> Figure:
    """A figure of errors on the left and seconds on the right, on logarithmic axes, with a row for each output.

    If all samples have one size, each estimator is a dot. Otherwise each estimator is a line over the number N of
    points at a theta, or over the number of evaluations if the number of thetas varies too. With several samples of
    the same size, the line or the filled dot is the median. Values that are zero, infinite or unknown are left out of
    lines and written out among dots.

    ax : axes to draw into, for one output: one for the errors alone, or two for errors and seconds.
    """
    outputs = list(dict.fromkeys(row.output for row in comparison.rows))
    panels = _Lines(comparison) if len({(row.T, row.N) for row in comparison.rows}) > 1 else _Dots(comparison)
    if ax is not None:
        given = list(ax.flat[:3] if isinstance(ax, np.ndarray) else ax if isinstance(ax, list | tuple) else [ax])
        if len(outputs) > 1 or not 1 <= len(given) <= 2:
            raise ValueError(
                f"ax takes one output and one or two axes, but there are {len(outputs)} outputs and {len(given)} axes: "
                f"omit ax, or plot a cbq.Comparison of the rows of one output."
            )
        for panel in given:
            require_axes(panel)
        panels.draw(given, outputs[0])
        if isinstance(panels, _Lines):
            panels.set_size_labels(given)
            given[0].legend(frameon=False, fontsize="small")
        return whole_figure(given[0])
    figure = new_figure(WIDTH, panels.height(len(outputs)))
    axes = figure.subplots(len(outputs), 2, sharex=panels.sharex, sharey=panels.sharey, squeeze=False)
    for pair, output in zip(axes, outputs, strict=True):
        panels.draw(pair, output)
    panels.finish(figure, axes)
    return figure


class _Panels:
    """The estimators of a comparison and their rows, for both kinds of figures."""

    def __init__(self, comparison: Comparison) -> None:
        self.rows = comparison.rows
        self.names = list(dict.fromkeys(row.method for row in self.rows))
        known = [name for name in ERRORS if any(np.isfinite(getattr(row, name)) for row in self.rows)]
        self.error_label = ERRORS[known[0]] if len(known) == 1 else "error"

    def rows_of(self, name: str, output: int | str | None) -> list[ComparisonRow]:
        return [row for row in self.rows if (row.method, row.output) == (name, output)]

    def quantities(self, output: int | str | None) -> list[tuple[str, str]]:
        """The two fields that are drawn, with their labels."""
        suffix = "" if output is None else f", output {output}" if isinstance(output, int) else f", {plain(output)}"
        return [("error", self.error_label + suffix), ("seconds", "seconds of the fit")]


class _Dots(_Panels):
    """A dot for each estimator, with their names on the vertical axis, the first on top."""

    sharex, sharey = False, True

    def height(self, outputs: int) -> float:
        return outputs * (AXIS_HEIGHT + DOTS_HEIGHT * len(self.names))

    def draw(self, axes: Sequence[Axes], output: int | str | None) -> None:
        for ax, (field, label) in zip(axes, self.quantities(output), strict=False):
            values = [np.array([getattr(row, field) for row in self.rows_of(name, output)]) for name in self.names]
            # Errors at left-out thetas include the errors of the reference estimates: mark none as the best.
            left_out = field == "error" and any(np.isfinite(row.loo) for row in self.rows)
            _draw_dots(ax, values, mark_best=not left_out)
            ax.set_yticks(range(len(self.names)), self.names)
            ax.set_ylim(len(self.names) - 0.4, -0.6)
            ax.set_xlabel(label)

    def finish(self, figure: Figure, axes: Any) -> None:
        for ax in axes.flat:
            ax.spines[["top", "right", "left"]].set_visible(False)
            ax.tick_params(axis="y", length=0)
        for pair in axes:
            figure.align_xlabels(list(pair))


def _draw_dots(ax: Axes, values: Sequence[Array], *, mark_best: bool) -> None:
    """Draw the median of each estimator as a dot in its row, and several values as rings around it."""
    drawable = [value[_is_drawable(value)] for value in values]
    _set_log_scale(ax, "x", np.concatenate(drawable), DOTS_MARGINS)
    medians = [float(np.median(value)) for value in drawable if value.size]
    for i, (scores, shown) in enumerate(zip(values, drawable, strict=True)):
        ax.axhline(i, color=PALE, lw=0.8, zorder=0)
        if not shown.size:
            known = scores[~np.isnan(scores)]
            text = short(float(np.median(known)), 2) if known.size else "no estimate"
            ax.annotate(text, (0.02, i), (7, 0), xycoords=ax.get_yaxis_transform(), color=GREY, **BESIDE)
            continue
        median = float(np.median(shown))
        colour = ORANGE if mark_best and median == min(medians) and len(medians) > 1 else BLUE
        if len(shown) > 1:
            ax.plot(shown, np.full(len(shown), i), "o", ms=4, mfc="none", mec=colour, mew=0.7, alpha=0.6)
        ax.plot([median], [i], "o", ms=7, color=colour)
        ax.annotate(short(median, 2), (float(shown.max()), i), (7, 0), color=INK, **BESIDE)


class _Lines(_Panels):
    """A line for each estimator over the size of the samples."""

    sharex, sharey = True, False

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(comparison)
        same_T = len({row.T for row in self.rows}) == 1
        self.size = "N" if same_T else "evaluations"
        self.size_label = r"points $N$ at each $\theta$" if same_T else "evaluations of $f$"
        self.styles = dict(zip(self.names, cycle(LINE_STYLES), strict=False))

    def height(self, outputs: int) -> float:
        return 0.4 + LINES_HEIGHT * (1.0 if outputs == 1 else ROW_HEIGHT * outputs)

    def draw(self, axes: Sequence[Axes], output: int | str | None) -> None:
        for ax, (field, label) in zip(axes, self.quantities(output), strict=False):
            for name in self.names:
                self._draw_line(ax, name, output, field)
            values = np.array([getattr(row, field) for row in self.rows if row.output == output], dtype=float)
            _set_log_scale(ax, "y", values[_is_drawable(values)], (0.05, 0.05))
            ax.set_xscale("log")
            ax.set_ylabel(label)
            self._set_ticks(ax)

    def finish(self, figure: Figure, axes: Any) -> None:
        for ax in axes.flat:
            ax.spines[["top", "right"]].set_visible(False)
        self.set_size_labels(axes[-1])
        longest = max(map(len, self.names)) + 6
        ncols = max(1, min(len(self.names), LEGEND_CHARACTERS // longest))
        ncols = ceil(len(self.names) / ceil(len(self.names) / ncols))  # lines of about equal length
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", handlelength=2.6, ncols=ncols, **LEGEND)
        for column in axes.T:
            figure.align_ylabels(list(column))

    def set_size_labels(self, axes: Iterable[Axes]) -> None:
        for ax in axes:
            ax.set_xlabel(self.size_label)

    def _draw_line(self, ax: Axes, name: str, output: int | str | None, field: str) -> None:
        """Draw the median at each size, and every value as a small dot if a size has several."""
        rows = self.rows_of(name, output)
        x, y = (np.array([getattr(row, quantity) for row in rows], dtype=float) for quantity in (self.size, field))
        x, y = x[_is_drawable(y)], y[_is_drawable(y)]
        colour, mark, stroke = self.styles[name]
        label = name if x.size else f"{name} (no estimate)"
        sizes = np.unique(x)
        medians = [float(np.median(y[x == size])) for size in sizes]
        if len(x) > len(sizes):
            ax.plot(x, y, "o", ms=3, color=colour, mew=0, alpha=0.35)
        ax.plot(sizes, medians, color=colour, marker=mark, ms=5, ls=stroke, lw=1.6, label=label)

    def _set_ticks(self, ax: Axes) -> None:
        """Label the horizontal axis with the sizes themselves, unless their labels would overlap."""
        sizes = np.unique([float(getattr(row, self.size)) for row in self.rows])
        gaps = np.diff(np.log(sizes)) / (np.log(sizes[-1] / sizes[0]) or 1.0)
        if np.all(gaps > 0.09):
            ax.set_xticks(sizes, [f"{size:.6g}" for size in sizes])
            ax.set_xticks([], minor=True)


def _set_log_scale(ax: Axes, name: str, values: Array, margins: tuple[float, float]) -> None:
    """Make the x or y axis logarithmic: at least a decade around positive values, with margins and few short labels."""
    from matplotlib.ticker import FuncFormatter, LogFormatterMathtext, LogLocator, NullFormatter

    axis = ax.xaxis if name == "x" else ax.yaxis
    ax.set(**{f"{name}scale": "log"})
    if not values.size:
        axis.set_ticks([])
        return
    low, high = np.log10(values.min()), np.log10(values.max())
    missing = max(1.0 - (high - low), 0.0)
    low, high = low - 0.5 * missing, high + 0.5 * missing
    decades = high - low
    low, high = low - margins[0] * decades, high + margins[1] * decades
    ax.set(**{f"{name}lim": (10**low, 10**high)})
    if high - low < TICKS_AT_125_BELOW[name]:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    plain = low >= EXPONENT_LIMITS[0] and high <= EXPONENT_LIMITS[1]
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}") if plain else LogFormatterMathtext())
    axis.set_minor_formatter(NullFormatter())


def _is_drawable(values: Array) -> Booleans:
    return np.asarray(np.isfinite(values) & (values > 0))  # on a logarithmic axis
