"""Figures of comparisons: errors beside seconds, a dot for each estimator or lines over the size of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common import Array, Booleans, short
from cbq.comparison.table import Comparison
from cbq.plotting import BLUE, GREY, ORANGE, Axis, Dots, Figure, Label, Line, Panel, Rule, draw, plain, series

if TYPE_CHECKING:
    import matplotlib.figure

WIDTH, LINES_HEIGHT, DOTS_HEIGHT = 8.6, 3.4, 0.31  # of the figure, a row of lines and an estimator among dots, inches
COVERAGE_SIZE = 3.6  # of a panel of coverage, inches
AXIS_HEIGHT = 0.75  # of the axis and the label of a row of dots, inches
ROW_HEIGHT = 0.65  # of a row of lines among several, relative to one alone
DOTS_MARGINS = (0.06, 0.26)  # left and right of the dots, relative to the range: their values are on the right
TICK_GAP = 0.09  # of the range, in logarithms, below which numbers of sizes would overlap
ERRORS = {"rmse": "RMSE", "loo": "leave-one-out error"}


def plot_comparison(comparison: Comparison, ax: Any = None, *, title: str | None = None) -> matplotlib.figure.Figure:
    """A figure of errors on the left and seconds on the right, on logarithmic axes, with a row for each output.

    If all samples have one size, each estimator is a dot. Otherwise each estimator is a line over the number N of
    points at a theta, or over the number of evaluations if the number of thetas varies too. With several samples of
    the same size, the line or the filled dot is the median. Values that are zero, infinite or unknown are left out of
    lines and written out among dots.

    ax : axes to draw into, for one output: one for the errors alone, or two for errors and seconds.
    """
    outputs = list(dict.fromkeys(row.output for row in comparison.rows))
    given = 0 if ax is None else len(ax) if isinstance(ax, list | tuple) else np.size(ax)
    if ax is not None and (len(outputs) > 1 or not 1 <= given <= 2):
        raise ValueError(
            f"ax takes one output and one or two axes, but there are {len(outputs)} outputs and {given} axes: "
            f"omit ax, or plot a cbq.Comparison of the rows of one output."
        )
    return draw(comparison_figure(comparison), ax, title=title)


def plot_coverage(comparison: Comparison, ax: Any = None, *, title: str | None = None) -> matplotlib.figure.Figure:
    """A figure of coverage over level, with a panel for each output; ax: axes to draw into, for one output."""
    if not comparison.levels:
        raise ValueError("there is one level only: pass levels= to cbq.compare, such as np.linspace(0.1, 0.9, 9).")
    return draw(coverage_figure(comparison), ax, title=title)


def coverage_figure(comparison: Comparison) -> Figure:
    """The description of the figure: a line for each estimator, beside the diagonal."""
    outputs = list(dict.fromkeys(row.output for row in comparison.rows))
    panels = [_coverage(comparison, output) for output in outputs]
    return Figure([panels], (COVERAGE_SIZE * len(panels) + 0.6, COVERAGE_SIZE), share="y")


def _coverage(comparison: Comparison, output: int | str | None) -> Panel:
    marks: list[Any] = [Line([0.0, 1.0], [0.0, 1.0], "nominal", colour=GREY, dash="dotted", width=1.0)]
    rows = [row for row in comparison.rows if row.output == output]
    for i, name in enumerate(dict.fromkeys(row.method for row in rows)):
        every = [(row.coverage, *row.coverages) for row in rows if row.method == name and row.coverages]
        if every and np.any(np.isfinite(every)):
            levels = np.array([comparison.level, *comparison.levels])
            order = np.argsort(levels)
            marks.append(Line(levels[order], np.nanmean(every, axis=0)[order], name, **series(i)))
    label = "level of intervals" if output is None else f"level of intervals, {_of(output)}"
    ends, ticks = (0.0, 1.0), (0.0, 0.25, 0.5, 0.75, 1.0)
    return Panel(marks, Axis(label, limits=ends, ticks=ticks), Axis("share inside", limits=(0.0, 1.02), ticks=ticks))


def _of(output: int | str) -> str:
    return f"output {output}" if isinstance(output, int) else plain(output)


def comparison_figure(comparison: Comparison) -> Figure:
    """The description of the figure: a panel of errors and one of seconds for each output."""
    outputs = list(dict.fromkeys(row.output for row in comparison.rows))
    known = [name for name in ERRORS if any(np.isfinite(getattr(row, name)) for row in comparison.rows)]
    error = ERRORS[known[0]] if len(known) == 1 else "error"
    lines = len({(row.T, row.N) for row in comparison.rows}) > 1
    rows = []
    for output in outputs:
        suffix = "" if output is None else f", {_of(output)}"
        pair, make = (("error", error + suffix), ("seconds", "seconds of the fit")), _lines if lines else _dots
        rows.append([make(comparison, output, field, label) for field, label in pair])
    if not lines:
        names = list(dict.fromkeys(row.method for row in comparison.rows))
        return Figure(rows, (WIDTH, len(outputs) * (AXIS_HEIGHT + DOTS_HEIGHT * len(names))), share="y")
    height = 0.4 + LINES_HEIGHT * (1.0 if len(outputs) == 1 else ROW_HEIGHT * len(outputs))
    return Figure(rows, (WIDTH, height), share="x")


def _dots(comparison: Comparison, output: int | str | None, field: str, label: str) -> Panel:
    """The median of each estimator as a dot in its row, and several values as rings around it."""
    values = _by_method(comparison, output, field)
    drawable = {name: value[_is_drawable(value)] for name, value in values.items()}
    medians = {name: float(np.median(value)) for name, value in drawable.items() if value.size}
    # Errors at left-out thetas include the errors of the reference estimates: mark none as the best.
    left_out = field == "error" and any(np.isfinite(row.loo) for row in comparison.rows)
    marks: list[Any] = [Rule(i, "y", colour=GREY, dash="dotted", width=0.6) for i in range(len(values))]
    for i, (name, shown) in enumerate(drawable.items()):
        if not shown.size:
            known = values[name][~np.isnan(values[name])]
            text = short(float(np.median(known)), 2) if known.size else "no estimate"
            marks.append(Label(-np.inf, i, text, right=1, colour=GREY))
            continue
        best = not left_out and medians[name] == min(medians.values()) and len(medians) > 1
        colour = ORANGE if best else BLUE
        if len(shown) > 1:
            marks.append(Dots(shown, np.full(len(shown), i), colour=colour, fill="none", opacity=0.6))
        marks.append(Dots([medians[name]], [i], colour=colour, size=7))
        marks.append(Label(float(shown.max()), i, short(medians[name], 2), right=1))
    limits = _log_limits(np.concatenate(list(drawable.values())), *DOTS_MARGINS)
    return Panel(marks, Axis(label, log=True, limits=limits), Axis(names=list(values)))


def _lines(comparison: Comparison, output: int | str | None, field: str, label: str) -> Panel:
    """The median of each estimator at each size, and every value as a small dot if a size has several."""
    same_T = len({row.T for row in comparison.rows}) == 1
    size, size_label = ("N", r"points $N$ at each $\theta$") if same_T else ("evaluations", "evaluations of $f$")
    sizes, values = _by_method(comparison, output, size), _by_method(comparison, output, field)
    known = {row.method for row in comparison.rows if _is_drawable(row.error)}
    marks: list[Any] = []
    for i, (name, every) in enumerate(values.items()):
        x, y = sizes[name][_is_drawable(every)], every[_is_drawable(every)]
        at, style = np.unique(x), series(i)
        if len(x) > len(at):
            marks.append(Dots(x, y, colour=style["colour"], size=3, opacity=0.35))
        medians = [float(np.median(y[x == each])) for each in at]
        marks.append(Line(at, medians, name if name in known else f"{name} (no estimate)", **style))
    every = np.concatenate(list(values.values()))
    limits = _log_limits(every[_is_drawable(every)], 0.05, 0.05)
    ticks = np.unique(np.concatenate(list(sizes.values())))
    gaps = np.diff(np.log(ticks)) / (np.log(ticks[-1] / ticks[0]) or 1.0)
    x_axis = Axis(size_label, log=True, ticks=ticks if np.all(gaps > TICK_GAP) else None)  # type: ignore[arg-type]
    return Panel(marks, x_axis, Axis(label, log=True, limits=limits))


def _by_method(comparison: Comparison, output: int | str | None, field: str) -> dict[str, Array]:
    """The values of a field for one output, by estimator."""
    names = dict.fromkeys(row.method for row in comparison.rows)
    rows = [row for row in comparison.rows if row.output == output]
    return {name: np.array([getattr(row, field) for row in rows if row.method == name], dtype=float) for name in names}


def _log_limits(values: Array, before: float, after: float) -> tuple[float, float] | None:
    """At least a decade around positive values, with margins relative to it."""
    if not values.size:
        return None
    low, high = np.log10(values.min()), np.log10(values.max())
    missing = max(1.0 - (high - low), 0.0)
    low, high = low - 0.5 * missing, high + 0.5 * missing
    return float(10 ** (low - before * (high - low))), float(10 ** (high + after * (high - low)))


def _is_drawable(values: Any) -> Booleans:
    return np.asarray(np.isfinite(values) & (values > 0))  # on a logarithmic axis
