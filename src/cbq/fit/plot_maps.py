"""Maps of I over two coordinates of theta: of the mean, of the half-width of the interval and of the error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cbq.common.arrays import Array
from cbq.fit.base import FEW, Fit
from cbq.fit.labels import Labels
from cbq.fit.naming import expectation_labels, theta_labels
from cbq.fit.plot_lines import MANY_THETAS, as_columns, failed_line
from cbq.fit.styles import EXPONENT_LIMITS, INK, MAP_SIZE, ORANGE, new_figure, say_below, spans_decades
from cbq.fit.theta_grids import mesh

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def maps_figure(
    fit: Fit, thetas: Array, outputs: list[int], true: Array | None, level: float, labels: Labels, notes: list[str]
) -> Figure:
    """Maps of mean, half-width and, given the truth, error, with a row for each output."""
    rows, columns = len(outputs), 2 if true is None else 3
    figure = new_figure(MAP_SIZE[0] * columns, MAP_SIZE[1] * rows)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    mean, names = as_columns(fit.predict(thetas)), expectation_labels(fit)
    low, high = (as_columns(end) for end in fit.interval(thetas, level))
    for row, c in zip(axes, outputs, strict=True):
        _map(row[0], fit, thetas, mean[:, c], f"mean of {names[c]}", cmap="viridis")
        width = 0.5 * (high - low)[:, c]
        title = f"half-width of the {100 * level:.4g}% interval of {names[c]}"
        _map(row[1], fit, thetas, width, title, cmap="cividis", norm=_scale(width))
        if true is not None:
            error = mean[:, c] - true[:, c]
            size = float(np.max(np.abs(error))) or 1.0
            _map(row[2], fit, thetas, error, f"error of the mean of {names[c]}", cmap="PuOr", vmin=-size, vmax=size)
        row[0].set_ylabel(labels.ylabel or theta_labels(fit)[1])
    for ax in axes[-1]:
        ax.set_xlabel(labels.xlabel or theta_labels(fit)[0])
    if labels.title:
        figure.suptitle(labels.title)
    crosses = "orange crosses: thetas beyond the observed ones" if np.any(fit.beyond(thetas)) else ""
    say_below(figure, [failed_line(fit), crosses, *notes])
    return figure


def _scale(values: Array) -> Any:
    """A logarithmic scale of colours for values that are all positive and span decades; None for a linear one."""
    from matplotlib.colors import LogNorm

    return LogNorm() if np.min(values) > 0 and spans_decades(values) else None


def _map(ax: Axes, fit: Fit, thetas: Array, values: Array, title: str, **colours: Any) -> None:
    """Draw values (M,) at thetas (M, 2): filled cells if the thetas form a grid, single squares otherwise."""
    x, y = np.unique(thetas[:, 0]), np.unique(thetas[:, 1])
    order = np.lexsort(thetas.T)  # by theta_1, then by theta_0
    grid = len(thetas) == len(x) * len(y) and np.array_equal(thetas[order], mesh(x, y))
    if grid and min(len(x), len(y)) > 1:
        cells = values[order].reshape(len(y), len(x))
        drawn: Any = ax.pcolormesh(x, y, cells, shading="nearest", rasterized=True, **colours)
    else:
        drawn = ax.scatter(thetas[:, 0], thetas[:, 1], c=values, s=30, marker="s", **colours)
    far = thetas[fit.beyond(thetas)]
    if len(far):
        ax.scatter(far[:, 0], far[:, 1], s=12, marker="x", color=ORANGE, linewidths=0.7, alpha=0.5)
    size = 16 if len(fit.theta) <= MANY_THETAS else 6
    failed = fit._marks(fit.theta).get("failed", np.zeros(len(fit.theta)))
    fill = np.where(failed > FEW, ORANGE, "white")
    ax.scatter(fit.theta[:, 0], fit.theta[:, 1], s=size, color=fill, edgecolors=INK, linewidths=0.7)
    ax.set_title(title, fontsize="medium")
    bar = cast(Any, ax.figure).colorbar(drawn, ax=ax)
    if colours.get("norm") is None:
        bar.formatter.set_powerlimits(EXPONENT_LIMITS)
        bar.formatter.set_useMathText(True)
