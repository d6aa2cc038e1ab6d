"""Figures of comparisons: errors beside seconds, as dots for each method or as lines over the size of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.comparison.comparison import Comparison, ComparisonRow
from cbq.comparison.table import short
from cbq.fit.plot import ABOVE, AMONG_OTHERS, BLUE, INK, ORANGE, PLAIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Told apart by the colour-blind (Okabe and Ito), and by their marks where there is no colour.
COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK, "#8C8C8C")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<")
STROKES = ("-", "--", ":")  # of the first methods, of those that have the same colours, and so on
WIDTH, HEIGHT, PER_METHOD = 8.6, 3.4, 0.31  # of the figure, of a row of lines, and of a method among dots, in inches
FRAME = 0.75  # the height of the axis and the title of a row of dots, in inches
LETTERS = 108  # that a line of the legend takes
ROOM = (0.06, 0.26)  # on the left and on the right of dots, of the range of the axis: on the right are their values
ERRORS = {"rmse": "RMSE", "loo": "leave-one-out error"}
FEW_DECADES = {"x": 1.8, "y": 2.8}  # of an axis, up to which 2 and 5 are numbered as well as 1
GREY, PALE = "#8C8C8C", "#DDDDDD"


def plot_comparison(comparison: Comparison, ax: Any = None) -> Figure:
    """A figure of errors on the left and seconds on the right, both in logarithms, with a row for each output.

    Where all samples are of one size, there is a dot for each method. Otherwise there is a line for each method over
    the number of points N at a theta, or over all evaluations where the number of thetas differs too. Of several
    samples of the same size the line, or the full dot, is the median. What is zero, infinite or unknown is not drawn
    on a line, and written out among dots.

    ax : axes of your own, for one output: one for the errors alone, or two, for errors and seconds.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plot needs matplotlib: python -m pip install 'cbq[plot]'.") from error
    outputs = list(dict.fromkeys(row.output for row in comparison.rows))
    panels = _Lines(comparison) if len({(row.T, row.N) for row in comparison.rows}) > 1 else _Dots(comparison)
    if ax is not None:
        return _into(panels, np.ravel(ax).tolist(), outputs)
    figure = Figure(figsize=(WIDTH, panels.height(len(outputs))), layout="constrained")
    axes = figure.subplots(len(outputs), 2, sharex=panels.sharex, sharey=panels.sharey, squeeze=False)
    for pair, output in zip(axes, outputs, strict=True):
        panels.draw(pair, output)
    panels.finish(figure, axes)
    return figure


def _into(panels: _Lines | _Dots, axes: list[Axes], outputs: list[int | None]) -> Figure:
    """Draw into one or two axes of a user."""
    if len(outputs) > 1 or len(axes) > 2:
        many = f"{len(outputs)} outputs and {len(axes)} axes"
        raise ValueError(
            f"ax takes one output and one or two axes, but there are {many}: leave ax out, or plot a cbq.Comparison "
            f"of the rows of one output."
        )
    panels.draw(axes, outputs[0])
    if isinstance(panels, _Lines):
        for ax in axes:
            ax.set_xlabel(panels.size)
        axes[0].legend(frameon=False, fontsize="small")
    return cast("Figure", cast(Any, axes[0].figure).figure)  # that of a subfigure is the whole


class _Panels:
    """What both kinds of figures know: the methods, and the rows of each."""

    def __init__(self, comparison: Comparison) -> None:
        self.rows = comparison.rows
        self.methods = list(dict.fromkeys(row.method for row in self.rows))
        known = [name for name in ERRORS if any(np.isfinite(getattr(row, name)) for row in self.rows)]
        self.error = ERRORS[known[0]] if len(known) == 1 else "error"

    def of(self, method: str, output: int | None) -> list[ComparisonRow]:
        return [row for row in self.rows if (row.method, row.output) == (method, output)]

    def quantities(self, output: int | None) -> list[tuple[str, str]]:
        """The two fields that are drawn, with their names."""
        of = "" if output is None else f", output {output}"
        return [("error", self.error + of), ("seconds", "seconds of the fit")]


class _Dots(_Panels):
    """A dot for each method, whose names are on the vertical axis, the first on top."""

    sharex, sharey = False, True

    def height(self, outputs: int) -> float:
        return outputs * (FRAME + PER_METHOD * len(self.methods))

    def draw(self, axes: Sequence[Axes], output: int | None) -> None:
        for ax, (field, label) in zip(axes, self.quantities(output), strict=False):
            values = [np.array([getattr(row, field) for row in self.of(name, output)]) for name in self.methods]
            of_both = field == "error" and any(np.isfinite(row.loo) for row in self.rows)
            _dots(ax, values, mark_best=not of_both)  # the error of the reference would choose
            ax.set_yticks(range(len(self.methods)), self.methods)
            ax.set_ylim(len(self.methods) - 0.4, -0.6)
            ax.set_xlabel(label)

    def finish(self, figure: Figure, axes: Any) -> None:
        for ax in axes.flat:
            ax.spines[["top", "right", "left"]].set_visible(False)
            ax.tick_params(axis="y", length=0)
        for pair in axes:
            figure.align_xlabels(list(pair))


def _dots(ax: Axes, values: Sequence[Array], *, mark_best: bool) -> None:
    """Values of each method in its row: all of them as rings where there are several, their median as a dot."""
    seen = [_drawable(each) for each in values]
    _logarithmic(ax.xaxis, np.concatenate(seen), ROOM)
    medians = [float(np.median(each)) for each in seen if each.size]
    for i, (each, drawn) in enumerate(zip(values, seen, strict=True)):
        ax.axhline(i, color=PALE, lw=0.8, zorder=0)
        if not drawn.size:
            _write(ax, (0.02, i), _in_words(each), ax.get_yaxis_transform(), color=GREY)
            continue
        middle = float(np.median(drawn))
        colour = ORANGE if mark_best and middle == min(medians) and len(medians) > 1 else BLUE
        if len(drawn) > 1:
            ax.plot(drawn, np.full(len(drawn), i), "o", ms=4, mfc="none", mec=colour, mew=0.7, alpha=0.6)
        ax.plot([middle], [i], "o", ms=7, color=colour)
        _write(ax, (float(drawn.max()), i), short(middle, 2), ax.transData, color=INK)


def _write(ax: Axes, place: tuple[float, float], text: str, transform: Any, color: str) -> None:
    """A word to the right of a place, upon a white ground that hides the line behind."""
    ax.annotate(
        text,
        place,
        (7, 0),
        xycoords=transform,
        textcoords="offset points",
        va="center",
        fontsize="small",
        color=color,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
    )


class _Lines(_Panels):
    """A line for each method over the size of the samples."""

    sharex, sharey = True, False

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(comparison)
        by_N = len({row.T for row in self.rows}) == 1
        self.field, self.size = ("N", r"points $N$ at each $\theta$") if by_N else ("evaluations", "evaluations of $f$")
        looks = ((*look, stroke) for stroke in STROKES for look in zip(COLOURS, MARKS, strict=True))
        self.looks = dict(zip(self.methods, cycle(looks), strict=False))

    def height(self, outputs: int) -> float:
        return 0.4 + HEIGHT * (1.0 if outputs == 1 else AMONG_OTHERS * outputs)

    def draw(self, axes: Sequence[Axes], output: int | None) -> None:
        for ax, (field, label) in zip(axes, self.quantities(output), strict=False):
            for name in self.methods:
                self._line(ax, name, output, field)
            every = np.array([getattr(row, field) for row in self.rows if row.output == output], dtype=float)
            _logarithmic(ax.yaxis, _drawable(every), (0.05, 0.05))
            ax.set_xscale("log")
            ax.set_ylabel(label)
            self._ticks(ax)

    def finish(self, figure: Figure, axes: Any) -> None:
        for ax in axes.flat:
            ax.spines[["top", "right"]].set_visible(False)
        for ax in axes[-1]:
            ax.set_xlabel(self.size)
        longest = max(map(len, self.methods)) + 6
        ncols = max(1, min(len(self.methods), LETTERS // longest))
        ncols = -(-len(self.methods) // -(-len(self.methods) // ncols))  # as many in every line, as far as can be
        own = {"loc": "outside upper center", "handlelength": 2.6, "ncols": ncols}
        style = {key: value for key, value in ABOVE.items() if key not in ("bbox_to_anchor", "borderaxespad")} | own
        figure.legend(*axes[0, 0].get_legend_handles_labels(), **style)
        for column in axes.T:
            figure.align_ylabels(list(column))

    def _line(self, ax: Axes, name: str, output: int | None, field: str) -> None:
        """The medians of a method at each size, and every value as a small dot where a size has several."""
        rows = self.of(name, output)
        x, y = (np.array([getattr(row, each) for row in rows], dtype=float) for each in (self.field, field))
        x, y = x[_can_be_drawn(y)], y[_can_be_drawn(y)]
        colour, mark, stroke = self.looks[name]
        label = name if x.size else f"{name} (no answer)"
        sizes = np.unique(x)
        middle = [float(np.median(y[x == size])) for size in sizes]
        if len(x) > len(sizes):
            ax.plot(x, y, "o", ms=3, color=colour, mew=0, alpha=0.35)
        ax.plot(sizes, middle, color=colour, marker=mark, ms=5, ls=stroke, lw=1.6, label=label)

    def _ticks(self, ax: Axes) -> None:
        """The sizes themselves on the horizontal axis, where they do not crowd."""
        sizes = np.unique([float(getattr(row, self.field)) for row in self.rows])
        apart = np.diff(np.log(sizes)) / (np.log(sizes[-1] / sizes[0]) or 1.0)
        if np.all(apart > 0.09):
            ax.set_xticks(sizes, [f"{size:.6g}" for size in sizes])
            ax.set_xticks([], minor=True)


def _logarithmic(axis: Axis, values: Array, room: tuple[float, float]) -> None:
    """A logarithmic axis of a decade or more around positive values, with room at the ends, and few, short numbers."""
    from matplotlib.ticker import FuncFormatter, LogFormatterMathtext, LogLocator, NullFormatter

    x = axis is axis.axes.xaxis
    (axis.axes.set_xscale if x else axis.axes.set_yscale)("log")
    if not values.size:
        axis.set_ticks([])
        return
    low, high = np.log10(values.min()), np.log10(values.max())
    missing = max(1.0 - (high - low), 0.0)
    low, high = low - 0.5 * missing, high + 0.5 * missing
    reach = high - low
    low, high = low - room[0] * reach, high + room[1] * reach
    (axis.axes.set_xlim if x else axis.axes.set_ylim)(10**low, 10**high)
    if high - low < FEW_DECADES["x" if x else "y"]:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    written_out = low >= PLAIN[0] and high <= PLAIN[1]
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}") if written_out else LogFormatterMathtext())
    axis.set_minor_formatter(NullFormatter())


def _can_be_drawn(values: Array) -> Booleans:
    return np.asarray(np.isfinite(values) & (values > 0))


def _drawable(values: Array) -> Array:
    return np.asarray(values[_can_be_drawn(values)])


def _in_words(values: Array) -> str:
    """What is written where nothing can be drawn on a logarithmic axis."""
    known = values[~np.isnan(values)]
    return "no answer" if not known.size else short(float(np.median(known)), 2)
