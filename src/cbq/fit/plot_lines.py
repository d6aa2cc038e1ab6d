"""Lines of I along one coordinate of theta, with bands, and panels of half-widths where bands are too thin to see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from cbq.common.arrays import Array
from cbq.fit.base import FEW, Fit
from cbq.fit.labels import Labels
from cbq.fit.naming import expectation_labels, theta_labels
from cbq.fit.styles import (
    BLUE,
    EXPONENT_LIMITS,
    INK,
    LEGEND,
    LEGEND_COLUMNS,
    LINE_SIZE,
    ORANGE,
    ROW_HEIGHT,
    new_figure,
    say_below,
    spans_decades,
    whole_figure,
)
from cbq.fit.theta_grids import MARGIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MANY_THETAS = 60  # above this number, their dots are smaller and below the lines that they would hide
DOTS: dict[str, Any] = {"color": INK, "ms": 3.6, "elinewidth": 1.0}
MANY_DOTS: dict[str, Any] = {"color": "#8C8C8C", "ms": 2.0, "elinewidth": 0.6, "zorder": 1.5}
HATCHED: dict[str, Any] = {"facecolor": "none", "edgecolor": ORANGE, "alpha": 0.35, "lw": 0}
SHADE: dict[str, Any] = {"color": BLUE, "alpha": 0.18, "lw": 0}
DASHES = (0, (4, 2))
LINE_WIDTH = 1.8  # points
VISIBLE = 2.0  # line widths that a band must have to be seen behind the line
HIDDEN_SHARE = 0.2  # of the thetas, at which the band cannot be seen, from which on there is a second panel
PANEL = 0.38  # height of the second panel, relative to the first one
FLOOR = 0.02  # errors below this part of the smallest half-width run out of a logarithmic panel
SLICE_SIZE, SLICE_COLUMNS = (3.1, 2.5), 3  # inches, and panels in a row
MANY_OUTPUTS = 3  # more have two columns of panels


class Curve:
    """Values (M, C) along coordinate j of thetas (M, p), sorted by it, and for p = 1 estimates at the nodes."""

    def __init__(
        self, fit: Fit, thetas: Array, j: int, true: Array | None, level: float, *, band: bool = False
    ) -> None:
        if len(thetas) < 2:
            raise ValueError(
                "plot draws a line over two thetas or more, but there is one: use fit.interval for that theta."
            )
        order = np.argsort(thetas[:, j], kind="stable")
        thetas, self.x, self.j = thetas[order], thetas[order, j], j
        self.fit, self.level, self.true = fit, level, None if true is None else true[order]
        self.mean = as_columns(fit.predict(thetas))
        levels = (level, 0.5) if level > 0.5 else (level,)
        self.bands = {each: [as_columns(end) for end in fit.interval(thetas, each)] for each in levels}
        self.ends = [as_columns(end) for end in fit.band(thetas, level)] if band else []
        self._set_nodes()
        marks, none = fit._marks(thetas), np.zeros(len(thetas))
        self.hatched = {
            (f"f failed at more than {FEW:.0%}", "///"): marks.get("failed", none) > FEW,
            ("beyond the observed thetas", "xxx"): marks.get("beyond", none) > 0,
        }

    def _set_nodes(self) -> None:
        """Estimates from the points of each theta alone, within the range of the line; none on slices."""
        self.dots_label, dot, std = single_theta_estimates(self.fit)
        node = self.fit.theta[: len(dot), self.j]
        inside = (node >= self.x[0]) & (node <= self.x[-1]) & (self.fit.p == 1)
        self.node, self.dot, self.bar = node[inside], dot[inside], ndtri(0.5 * (1 + self.level)) * std[inside]

    @property
    def half_width(self) -> Array:
        """That of the wide band, (M, C)."""
        low, high = self.bands[self.level]
        return 0.5 * (high - low)

    def draw(self, ax: Axes, c: int) -> dict[str, Any]:
        """Draw output c; return the handles of the legend by label, in order.

        The handle of the narrow band shows it on top of the wide one, as in the figure.
        """
        entries: dict[str, Any] = {}
        bands: list[Any] = []
        for (level, (low, high)), alpha in zip(self.bands.items(), (0.18, 0.28), strict=False):
            label = f"{100 * level:.4g}% interval"
            ends = self._drawn(low[:, c], c), self._drawn(high[:, c], c)
            bands.append(ax.fill_between(self.x, *ends, color=BLUE, alpha=alpha, lw=0, label=label))
            entries[label] = tuple(bands)
        for end in self.ends:
            label = f"{100 * self.level:.4g}% band"
            (entries[label],) = ax.plot(self.x, end[:, c], color=BLUE, lw=1.0, ls=":", label=label)
        entries |= self.hatch(ax)
        if len(self.node):
            style, label = DOTS if len(self.node) <= MANY_THETAS else MANY_DOTS, self.dots_label
            entries[label] = ax.errorbar(self.node, self.dot[:, c], self.bar[:, c], fmt="o", label=label, **style)
        (mean,) = ax.plot(self.x, self.mean[:, c], color=BLUE, lw=LINE_WIDTH, label="mean")
        if self.true is not None:
            (entries["truth"],) = ax.plot(self.x, self.true[:, c], color=ORANGE, lw=1.5, ls=DASHES, label="truth")
        ax.margins(x=0)
        return {"mean": mean, **entries}

    def _drawn(self, end: Array, c: int) -> Array:
        """An end (M,) of a band of output c; an infinite one is beyond the limits of the axis."""
        if np.all(np.isfinite(end)):
            return end
        low, high = self.limits(c)
        return np.clip(end, 2 * low - high, 2 * high - low)

    def hatch(self, ax: Axes) -> dict[str, Any]:
        """Hatch the background where something is to be known about thetas; return the handles by label."""
        entries: dict[str, Any] = {}
        for (label, hatch), where in self.hatched.items():
            if np.any(where):
                whole: dict[str, Any] = {"where": where, "transform": ax.get_xaxis_transform(), "zorder": 0.5}
                entries[label] = ax.fill_between(self.x, 0, 1, label=label, hatch=hatch, **whole, **HATCHED)
        return entries

    def draw_half_width(self, ax: Axes, c: int) -> None:
        """Draw the half-width of output c and, given the truth, the size of the error."""
        width, label = self.half_width[:, c], f"half-width of {100 * self.level:.4g}% interval"
        logarithmic = spans_decades(width)
        ax.fill_between(self.x, np.min(width[width > 0]) * FLOOR**2 if logarithmic else 0.0, width, **SHADE)
        ax.plot(self.x, width, color=BLUE, lw=1.4, label=label)
        top, bottom = float(np.max(width)), float(np.min(width[width > 0])) if logarithmic else 0.0
        if self.true is not None:
            error = np.abs(self.mean - self.true)[:, c]
            ax.plot(self.x, error, color=ORANGE, lw=1.3, ls=DASHES, label="|mean - truth|")
            top, bottom = max(top, float(np.max(error))), bottom * FLOOR ** bool(np.min(error) < bottom)
            ax.legend(loc="lower left", bbox_to_anchor=(0.0, 0.97), ncols=2, borderaxespad=0.0, **LEGEND)
        if logarithmic:
            ax.set_yscale("log")
            ax.set_ylim(bottom / 1.5, top * 1.5)
        else:
            ax.set_ylim(0.0, (1 + 2 * MARGIN) * top or 1.0)
            ax.ticklabel_format(axis="y", scilimits=EXPONENT_LIMITS, useMathText=True)
        ax.set_ylabel("half-width")
        ax.margins(x=0)

    def limits(self, c: int) -> tuple[float, float]:
        """The limits of the vertical axis of output c; error bars far beyond everything else are cut off."""
        shown = [self.mean, *self.bands[self.level], *self.ends, self.dot, *([] if self.true is None else [self.true])]
        values = np.concatenate([each[:, c] for each in shown])
        values = values[~np.isinf(values)]
        low, high = float(np.min(values)), float(np.max(values))
        reach = 0.5 * (high - low)
        ends = np.concatenate([values, self.dot[:, c] - self.bar[:, c], self.dot[:, c] + self.bar[:, c]])
        low, high = max(low - reach, float(np.min(ends))), min(high + reach, float(np.max(ends)))
        margin = MARGIN * (high - low) or 0.5 * abs(low) or 1.0
        return low - margin, high + margin

    def hides_band(self, c: int, height: float) -> bool:
        """Whether the band of output c is too thin to be seen at many thetas, in a panel of this height in inches."""
        low, high = self.limits(c)
        points = 2 * self.half_width[:, c] / (high - low) * 72 * height
        return bool(np.mean(points < VISIBLE * LINE_WIDTH) > HIDDEN_SHARE)


def single_theta_estimates(fit: Fit) -> tuple[str, Array, Array]:
    """A label, estimates from the points of each observed theta alone, and their standard errors, (T, C) each.

    The arrays are (0, C) for fits that do not keep such estimates.
    """
    stage1, averages = (getattr(fit, name, None) for name in ("stage1", "averages"))
    if stage1 is not None:
        return "stage 1", as_columns(stage1.mean), as_columns(stage1.std)
    if averages is not None:
        return "averages", averages.mean, np.sqrt(averages.variance)
    none = np.empty((0, fit.C or 1))
    return "", none, none


def lines_figure(curve: Curve, outputs: list[int], labels: Labels, panel: bool | None, notes: list[str]) -> Figure:
    """A figure for p = 1 with a panel for each output, and one below it for its half-width where it is needed."""
    columns = 1 if len(outputs) <= MANY_OUTPUTS else 2
    rows = -(-len(outputs) // columns)
    height = LINE_SIZE[1] * (1.0 if rows == 1 else ROW_HEIGHT)
    wide = any(curve.hides_band(c, 0.8 * height) for c in outputs) if panel is None else panel
    parts = [1.0, PANEL] if wide else [1.0]
    figure = new_figure(LINE_SIZE[0] * (1.0 if columns == 1 else 1.5), height * sum(parts) * rows)
    grid = figure.subplots(rows * len(parts), columns, sharex=True, squeeze=False, height_ratios=parts * rows)
    legends, names = [], expectation_labels(curve.fit)
    for i, c in enumerate(outputs):
        row, column = len(parts) * (i // columns), i % columns
        ax = grid[row, column]
        legends.append(curve.draw(ax, c))
        ax.set_ylim(*curve.limits(c))
        ax.set_ylabel(labels.ylabel or names[c])
        ax.ticklabel_format(axis="y", scilimits=EXPONENT_LIMITS, useMathText=True)
        if wide:
            curve.draw_half_width(grid[row + 1, column], c)
    lowest = [grid[-1, 0], *([] if columns == 1 else [grid[-1 - len(parts) * (len(outputs) % columns), -1]])]
    for ax in grid[-len(parts) :, len(outputs) - columns * (rows - 1) :].flat:
        ax.set_visible(False)
    for ax in lowest:
        ax.set_xlabel(labels.xlabel or theta_labels(curve.fit)[curve.j])
        ax.tick_params(labelbottom=True)
    _finish(figure, grid, legends[0], labels.title)
    say_below(figure, [failed_line(curve.fit), *notes])
    return figure


def _finish(figure: Figure, grid: Any, legend: dict[str, Any], title: str | None) -> None:
    """The legend above the first row, and the title above it."""
    for ax in grid.flat:
        ax.spines[["top", "right"]].set_visible(False)
    above: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
    columns = len(legend) if len(legend) <= LEGEND_COLUMNS else -(-len(legend) // 2)
    grid[0, -1].legend(legend.values(), legend.keys(), ncols=columns, handlelength=1.6, **above, **LEGEND)
    for column in grid.T:
        figure.align_ylabels(list(column))
    if title:
        figure.suptitle(title)


def draw_into(ax: Axes, curve: Curve, c: int, labels: Labels) -> Figure:
    """Draw output c of a curve into given axes, whose own labels stay."""
    entries = curve.draw(ax, c)
    handles, given = ax.get_legend_handles_labels()
    entries |= {label: handle for label, handle in zip(given, handles, strict=True) if label not in entries}
    ax.set_xlabel(labels.xlabel or ax.get_xlabel() or theta_labels(curve.fit)[0])
    ax.set_ylabel(labels.ylabel or ax.get_ylabel() or expectation_labels(curve.fit)[c])
    if labels.title:
        ax.set_title(labels.title)
    ax.legend(entries.values(), entries.keys(), frameon=False)
    return whole_figure(ax)


def slices_figure(curves: list[Curve], outputs: list[int], labels: Labels, notes: list[str]) -> Figure:
    """A figure for p > 2: for each output a panel along each coordinate, the others fixed."""
    fit, columns = curves[0].fit, min(len(curves), SLICE_COLUMNS)
    rows = -(-len(curves) // columns)
    figure = new_figure(SLICE_SIZE[0] * columns, SLICE_SIZE[1] * rows * len(outputs))
    grid = figure.subplots(rows * len(outputs), columns, squeeze=False)
    names, coordinates, legend = expectation_labels(fit), theta_labels(fit), {}
    for i, c in enumerate(outputs):
        panels = grid[rows * i : rows * (i + 1)].ravel()
        limits = np.array([curve.limits(c) for curve in curves])
        for ax, curve in zip(panels, curves, strict=False):
            legend = curve.draw(ax, c)
            ax.set_ylim(limits[:, 0].min(), limits[:, 1].max())  # one scale, so that coordinates can be compared
            ax.set_xlabel(coordinates[curve.j])
            ax.ticklabel_format(axis="y", scilimits=EXPONENT_LIMITS, useMathText=True)
            ax.spines[["top", "right"]].set_visible(False)
        for ax in panels[::columns]:
            ax.set_ylabel(labels.ylabel or names[c])
        for ax in panels[len(curves) :]:
            ax.set_visible(False)
    figure.legend(legend.values(), legend.keys(), loc="outside upper center", ncols=LEGEND_COLUMNS, **LEGEND)
    if labels.title:
        figure.suptitle(labels.title)
    say_below(figure, [failed_line(fit), *notes])
    return figure


def failed_line(fit: Fit) -> str:
    """A line about the points at which f failed, if it did."""
    if fit.failures is None:
        return ""
    return f"f failed at {fit.failures.share:.1%} of the points: I is conditional on {fit.conditional_on}"


def as_columns(values: Any) -> Array:
    """Values (M,) or (M, C) as (M, C)."""
    return np.asarray(values).reshape(len(values), -1)
