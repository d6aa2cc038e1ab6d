"""Figures of comparisons: errors beside seconds, a dot for each estimator or lines over the size of samples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.comparison.table import Comparison, ComparisonRow, short
from cbq.fit.plot import BLUE, EXPONENT_LIMITS, INK, LEGEND_ABOVE, ORANGE, ROW_HEIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Distinct for colour-blind readers (Okabe and Ito), and by their markers without colour.
COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK, "#8C8C8C")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<")
STROKES = ("-", "--", ":")  # one after another, each with all colours
WIDTH, LINES_HEIGHT, DOTS_HEIGHT = 8.6, 3.4, 0.31  # of the figure, a row of lines and an estimator among dots, inches
AXIS_HEIGHT = 0.75  # of the axis and the label of a row of dots, inches
LEGEND_CHARACTERS = 108  # in a line of the legend
DOTS_MARGINS = (0.06, 0.26)  # left and right of the dots, relative to the range: their values are on the right
ERRORS = {"rmse": "RMSE", "loo": "leave-one-out error"}
TICKS_AT_125_BELOW = {"x": 1.8, "y": 2.8}  # decades of an axis below which 2 and 5 are numbered as well as 1
GREY, PALE = "#8C8C8C", "#DDDDDD"


def plot_comparison(comparison: Comparison, ax: Any = None) -> Figure:
    """A figure of errors on the left and seconds on the right, on logarithmic axes, with a row for each output.

    If all samples have one size, each estimator is a dot. Otherwise each estimator is a line over the number N of
    points at a theta, or over the number of evaluations if the number of thetas varies too. With several samples of
    the same size, the line or the filled dot is the median. Values that are zero, infinite or unknown are left out of
    lines and written out among dots.

    ax : axes to draw into, for one output: one for the errors alone, or two for errors and seconds.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plot needs matplotlib: python -m pip install 'cbq[plot]'.") from error
    outputs = list(dict.fromkeys(row.output for row in comparison.rows))
    panels = _Lines(comparison) if len({(row.T, row.N) for row in comparison.rows}) > 1 else _Dots(comparison)
    if ax is not None:
        return _draw_into(panels, np.ravel(ax).tolist(), outputs)
    figure = Figure(figsize=(WIDTH, panels.height(len(outputs))), layout="constrained")
    axes = figure.subplots(len(outputs), 2, sharex=panels.sharex, sharey=panels.sharey, squeeze=False)
    for pair, output in zip(axes, outputs, strict=True):
        panels.draw(pair, output)
    panels.finish(figure, axes)
    return figure


def _draw_into(panels: _Lines | _Dots, axes: list[Axes], outputs: list[int | None]) -> Figure:
    """Draw into one or two axes of the user."""
    if len(outputs) > 1 or len(axes) > 2:
        raise ValueError(
            f"ax takes one output and one or two axes, but there are {len(outputs)} outputs and {len(axes)} axes: omit "
            f"ax, or plot a cbq.Comparison of the rows of one output."
        )
    panels.draw(axes, outputs[0])
    if isinstance(panels, _Lines):
        for ax in axes:
            ax.set_xlabel(panels.size_label)
        axes[0].legend(frameon=False, fontsize="small")
    return cast("Figure", cast(Any, axes[0].figure).figure)  # the whole figure, also of a subfigure


class _Panels:
    """The estimators of a comparison and their rows, for both kinds of figures."""

    def __init__(self, comparison: Comparison) -> None:
        self.rows = comparison.rows
        self.names = list(dict.fromkeys(row.method for row in self.rows))
        known = [name for name in ERRORS if any(np.isfinite(getattr(row, name)) for row in self.rows)]
        self.error_label = ERRORS[known[0]] if len(known) == 1 else "error"

    def rows_of(self, name: str, output: int | None) -> list[ComparisonRow]:
        return [row for row in self.rows if (row.method, row.output) == (name, output)]

    def quantities(self, output: int | None) -> list[tuple[str, str]]:
        """The two fields that are drawn, with their labels."""
        suffix = "" if output is None else f", output {output}"
        return [("error", self.error_label + suffix), ("seconds", "seconds of the fit")]


class _Dots(_Panels):
    """A dot for each estimator, with their names on the vertical axis, the first on top."""

    sharex, sharey = False, True

    def height(self, outputs: int) -> float:
        return outputs * (AXIS_HEIGHT + DOTS_HEIGHT * len(self.names))

    def draw(self, axes: Sequence[Axes], output: int | None) -> None:
        for ax, (field, label) in zip(axes, self.quantities(output), strict=False):
            values = [np.array([getattr(row, field) for row in self.rows_of(name, output)]) for name in self.names]
            # Errors at left-out thetas include those of the estimates they are measured against: none is the best.
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
    drawable = [each[_is_drawable(each)] for each in values]
    _set_log_scale(ax.xaxis, np.concatenate(drawable), DOTS_MARGINS)
    medians = [float(np.median(each)) for each in drawable if each.size]
    for i, (every, drawn) in enumerate(zip(values, drawable, strict=True)):
        ax.axhline(i, color=PALE, lw=0.8, zorder=0)
        if not drawn.size:
            known = every[~np.isnan(every)]
            text = short(float(np.median(known)), 2) if known.size else "no estimate"
            _write(ax, (0.02, i), text, ax.get_yaxis_transform(), color=GREY)
            continue
        median = float(np.median(drawn))
        colour = ORANGE if mark_best and median == min(medians) and len(medians) > 1 else BLUE
        if len(drawn) > 1:
            ax.plot(drawn, np.full(len(drawn), i), "o", ms=4, mfc="none", mec=colour, mew=0.7, alpha=0.6)
        ax.plot([median], [i], "o", ms=7, color=colour)
        _write(ax, (float(drawn.max()), i), short(median, 2), ax.transData, color=INK)


def _write(ax: Axes, position: tuple[float, float], text: str, transform: Any, color: str) -> None:
    """Write text to the right of a position, on white that hides the line behind it."""
    ax.annotate(
        text,
        position,
        (7, 0),
        xycoords=transform,
        textcoords="offset points",
        va="center",
        fontsize="small",
        color=color,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
    )


class _Lines(_Panels):
    """A line for each estimator over the size of the samples."""

    sharex, sharey = True, False

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(comparison)
        same_T = len({row.T for row in self.rows}) == 1
        self.size = "N" if same_T else "evaluations"
        self.size_label = r"points $N$ at each $\theta$" if same_T else "evaluations of $f$"
        styles = ((*style, stroke) for stroke in STROKES for style in zip(COLOURS, MARKS, strict=True))
        self.styles = dict(zip(self.names, cycle(styles), strict=False))

    def height(self, outputs: int) -> float:
        return 0.4 + LINES_HEIGHT * (1.0 if outputs == 1 else ROW_HEIGHT * outputs)

    def draw(self, axes: Sequence[Axes], output: int | None) -> None:
        for ax, (field, label) in zip(axes, self.quantities(output), strict=False):
            for name in self.names:
                self._draw_line(ax, name, output, field)
            values = np.array([getattr(row, field) for row in self.rows if row.output == output], dtype=float)
            _set_log_scale(ax.yaxis, values[_is_drawable(values)], (0.05, 0.05))
            ax.set_xscale("log")
            ax.set_ylabel(label)
            self._set_ticks(ax)

    def finish(self, figure: Figure, axes: Any) -> None:
        for ax in axes.flat:
            ax.spines[["top", "right"]].set_visible(False)
        for ax in axes[-1]:
            ax.set_xlabel(self.size_label)
        longest = max(map(len, self.names)) + 6
        ncols = max(1, min(len(self.names), LEGEND_CHARACTERS // longest))
        ncols = -(-len(self.names) // -(-len(self.names) // ncols))  # lines of about equal length
        own = {"loc": "outside upper center", "handlelength": 2.6, "ncols": ncols}
        style = {k: v for k, v in LEGEND_ABOVE.items() if k not in ("bbox_to_anchor", "borderaxespad")} | own
        figure.legend(*axes[0, 0].get_legend_handles_labels(), **style)
        for column in axes.T:
            figure.align_ylabels(list(column))

    def _draw_line(self, ax: Axes, name: str, output: int | None, field: str) -> None:
        """Draw the median at each size, and every value as a small dot if a size has several."""
        rows = self.rows_of(name, output)
        x, y = (np.array([getattr(row, each) for row in rows], dtype=float) for each in (self.size, field))
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


def _set_log_scale(axis: Axis, values: Array, margins: tuple[float, float]) -> None:
    """Make an axis logarithmic, with at least a decade around positive values, margins, and few and short labels."""
    from matplotlib.ticker import FuncFormatter, LogFormatterMathtext, LogLocator, NullFormatter

    x = axis is axis.axes.xaxis
    (axis.axes.set_xscale if x else axis.axes.set_yscale)("log")
    if not values.size:
        axis.set_ticks([])
        return
    low, high = np.log10(values.min()), np.log10(values.max())
    missing = max(1.0 - (high - low), 0.0)
    low, high = low - 0.5 * missing, high + 0.5 * missing
    decades = high - low
    low, high = low - margins[0] * decades, high + margins[1] * decades
    (axis.axes.set_xlim if x else axis.axes.set_ylim)(10**low, 10**high)
    if high - low < TICKS_AT_125_BELOW["x" if x else "y"]:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    plain = low >= EXPONENT_LIMITS[0] and high <= EXPONENT_LIMITS[1]
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}") if plain else LogFormatterMathtext())
    axis.set_minor_formatter(NullFormatter())


def _is_drawable(values: Array) -> Booleans:
    """Which values have a place on a logarithmic axis."""
    return np.asarray(np.isfinite(values) & (values > 0))
