"""Figures of I over theta: a line with bands for p = 1, maps of mean and standard deviation for p = 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq._arrays import Array, finite, squarable
from cbq._checks import between_0_and_1, called, flag, is_whole, shown
from cbq._memory import require_memory
from cbq.fit.base import FEW, Fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Truth = Callable[[Array], npt.ArrayLike] | npt.ArrayLike

BLUE, ORANGE, INK = "#0072B2", "#D55E00", "#333333"  # distinct for colour-blind readers (Okabe and Ito)
LINE_SIZE, MAP_SIZE = (6.4, 4.0), (4.6, 3.7)  # of a panel, inches
ROW_HEIGHT = 0.65  # of a row among several, relative to its height alone
MARGIN = 0.04  # on either side of a range, relative to it
MANY_THETAS = 60  # above this number, their dots are smaller and below the lines that they would hide
DOTS: dict[str, Any] = {"color": INK, "ms": 3.6, "elinewidth": 1.0}
MANY_DOTS: dict[str, Any] = {"color": "#8C8C8C", "ms": 2.0, "elinewidth": 0.6, "zorder": 1.5}
HATCHED: dict[str, Any] = {"facecolor": "none", "edgecolor": ORANGE, "alpha": 0.35, "lw": 0}
LEGEND_COLUMNS = 5
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small", "columnspacing": 1.2}
EXPONENT_LIMITS = (-3, 6)  # powers of ten beyond which axes use an exponent


def plot_fit(
    fit: Fit,
    theta: npt.ArrayLike | None = None,
    *,
    output: int | None = None,
    level: float = 0.95,
    truth: Truth | None = None,
    ax: Axes | None = None,
    points: int = 200,
    band: bool = False,
) -> Figure:
    """A figure of the predictive distribution of I over theta.

    For p = 1 the mean is a line, with bands of intervals at `level` and at 50%. Dots with error bars are estimates from
    the points of each theta alone: those of stage 1, or plain averages for fits without a stage 1. For p = 2 there are
    maps of the mean and of the standard deviation, with dots at the observed thetas. Where f failed at more than a few
    points, the background is hatched, and dots of maps are orange; where thetas are beyond the observed ones, the
    background is hatched with crosses, and maps have orange ones. No window opens and no setting of
    matplotlib changes: use `figure.savefig(path)`, or draw into axes of your own with `ax`.

    Parameters
    ----------
    theta : where to draw, (M, p), or (M,) for p = 1; by default a regular grid over the observed thetas. For p = 2,
        thetas that do not form a grid are drawn as single squares.
    output : the index of the output to draw; None draws all, a row for each.
    level : the level of the intervals of the wide band and of the error bars.
    truth : the true I, to compare with: a function of theta (M, p), or values at `theta`. For p = 1 it is a dashed
        line, for p = 2 a map of the error.
    ax : axes to draw into, for p = 1 and one output.
    points : the number of grid points along each coordinate.
    band : for p = 1, whether to draw the ends of the simultaneous band at `level`, `fit.band`, as dotted lines.
    """
    if fit.p > 2:
        raise ValueError(
            f"plot draws one or two coordinates of theta, but this fit has p = {fit.p}: fix all but one or two of them "
            f"in an array of thetas (M, {fit.p}), and draw the columns of fit.to_frame(thetas)."
        )
    outputs, level = _outputs(fit, output), between_0_and_1(level, "level")
    if ax is not None and (fit.p > 1 or len(outputs) > 1):
        remedy = "omit ax for p = 2" if fit.p > 1 else f"choose one of {len(outputs)} outputs, as with output=0"
        raise ValueError(f"ax takes a single panel, for p = 1 and one output: {remedy}.")
    if flag(band, "band") and fit.p == 2:
        raise ValueError("band=True draws lines, for p = 1, but this fit has p = 2: use fit.band(theta).")
    if ax is not None:
        require_axes(ax)
    thetas = _grid(fit.theta, points) if theta is None else fit._thetas(theta)
    true = None if truth is None else _truth(truth, thetas, outputs, fit.C or 1, given=theta is not None)
    if fit.p == 2:
        return _maps(fit, thetas, outputs, true)
    if ax is None:
        return _lines(_Curve(fit, thetas, true, level, band=band), outputs)
    entries = _Curve(fit, thetas, true, level, band=band).draw(ax, outputs[0])
    handles, labels = ax.get_legend_handles_labels()
    entries |= {label: handle for label, handle in zip(labels, handles, strict=True) if label not in entries}
    ax.set_xlabel(ax.get_xlabel() or r"$\theta$")
    ax.legend(entries.values(), entries.keys(), frameon=False)
    return whole_figure(ax)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, which no window shows."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plot needs matplotlib: python -m pip install matplotlib.") from error
    return Figure(figsize=(width, height), layout="constrained")


def require_axes(ax: object) -> None:
    """Raise unless these are axes of matplotlib."""
    if not callable(getattr(ax, "fill_between", None)) or not hasattr(ax, "figure"):
        raise TypeError(f"ax must be axes of matplotlib, as plt.subplots() returns them, but it is {shown(ax)}.")


def whole_figure(ax: Axes) -> Figure:
    """The figure that contains the axes, also if they are in a subfigure."""
    return cast("Figure", cast(Any, ax.figure).figure)


class _Curve:
    """What is drawn for p = 1: values (M, C) sorted by theta, and estimates at the nodes within their range."""

    def __init__(self, fit: Fit, thetas: Array, true: Array | None, level: float, *, band: bool) -> None:
        if len(thetas) < 2:
            raise ValueError(
                "plot draws a line over two thetas or more, but there is one: use fit.interval for that theta."
            )
        order = np.argsort(thetas[:, 0], kind="stable")
        thetas, self.x = thetas[order], thetas[order, 0]
        self.fit, self.level, self.true = fit, level, None if true is None else true[order]
        self.mean = _columns(fit.predict(thetas))
        levels = (level, 0.5) if level > 0.5 else (level,)
        self.bands = {each: [_columns(end) for end in fit.interval(thetas, each)] for each in levels}
        self.ends = [_columns(end) for end in fit.band(thetas, level)] if band else []
        self.dots_label, dot, std = _single_theta_estimates(fit)
        node = fit.theta[: len(dot), 0]
        inside = (node >= self.x[0]) & (node <= self.x[-1])
        self.node, self.dot, self.bar = node[inside], dot[inside], ndtri(0.5 * (1 + level)) * std[inside]

        marks, none = fit._marks(thetas), np.zeros(len(thetas))
        self.hatched = {
            (f"f failed at more than {FEW:.0%}", "///"): marks.get("failed", none) > FEW,
            ("beyond the observed thetas", "xxx"): marks.get("beyond", none) > 0,
        }

    def draw(self, ax: Axes, c: int) -> dict[str, Any]:
        """Draw output c; return the handles of the legend by label, in order.

        The handle of the narrow band shows it on top of the wide one, as in the figure.
        """
        entries: dict[str, Any] = {}
        bands: list[Any] = []
        for (level, (low, high)), alpha in zip(self.bands.items(), (0.16, 0.26), strict=False):
            label = f"{100 * level:.4g}% interval"
            bands.append(ax.fill_between(self.x, low[:, c], high[:, c], color=BLUE, alpha=alpha, lw=0, label=label))
            entries[label] = tuple(bands)
        for end in self.ends:
            label = f"{100 * self.level:.4g}% band"
            (entries[label],) = ax.plot(self.x, end[:, c], color=BLUE, lw=1.0, ls=":", label=label)
        for (label, hatch), where in self.hatched.items():
            if np.any(where):
                whole: dict[str, Any] = {"where": where, "transform": ax.get_xaxis_transform(), "zorder": 0.5}
                entries[label] = ax.fill_between(self.x, 0, 1, label=label, hatch=hatch, **whole, **HATCHED)
        if len(self.node):
            style, label = DOTS if len(self.node) <= MANY_THETAS else MANY_DOTS, self.dots_label
            entries[label] = ax.errorbar(self.node, self.dot[:, c], self.bar[:, c], fmt="o", label=label, **style)
        (mean,) = ax.plot(self.x, self.mean[:, c], color=BLUE, lw=1.8, label="mean")
        if self.true is not None:
            dashes = (0, (4, 2))
            (entries["truth"],) = ax.plot(self.x, self.true[:, c], color=ORANGE, lw=1.5, ls=dashes, label="truth")
        ax.set_ylabel(ax.get_ylabel() or _name(self.fit, c))
        ax.margins(x=0)
        return {"mean": mean, **entries}

    def limits(self, c: int) -> tuple[float, float]:
        """The limits of the vertical axis of output c; error bars far beyond everything else are cut off."""
        shown = [*self.bands[self.level], *self.ends, self.dot, *([] if self.true is None else [self.true])]
        values = np.concatenate([each[:, c] for each in shown])
        low, high = float(np.min(values)), float(np.max(values))
        reach = 0.5 * (high - low)
        ends = np.concatenate([values, self.dot[:, c] - self.bar[:, c], self.dot[:, c] + self.bar[:, c]])
        low, high = max(low - reach, float(np.min(ends))), min(high + reach, float(np.max(ends)))
        margin = MARGIN * (high - low) or 0.5 * abs(low) or 1.0
        return low - margin, high + margin


def _single_theta_estimates(fit: Fit) -> tuple[str, Array, Array]:
    """A label, estimates from the points of each observed theta alone, and their standard errors, (T, C) each.

    The arrays are (0, C) for fits that do not keep such estimates.
    """
    stage1, averages = (getattr(fit, name, None) for name in ("stage1", "averages"))
    if stage1 is not None:
        return "stage 1", _columns(stage1.mean), _columns(stage1.std)
    if averages is not None:
        return "averages", averages.mean, np.sqrt(averages.variance)
    none = np.empty((0, fit.C or 1))
    return "", none, none


def _lines(curve: _Curve, outputs: list[int]) -> Figure:
    """A figure for p = 1 with a row for each output."""
    rows = len(outputs)
    figure = new_figure(LINE_SIZE[0], LINE_SIZE[1] * (1.0 if rows == 1 else ROW_HEIGHT * rows))
    axes = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    legends = []
    for ax, c in zip(axes, outputs, strict=True):
        legends.append(curve.draw(ax, c))
        ax.set_ylim(*curve.limits(c))
        ax.ticklabel_format(scilimits=EXPONENT_LIMITS, useMathText=True)
        ax.spines[["top", "right"]].set_visible(False)
    above: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
    entries = legends[0]
    columns = len(entries) if len(entries) <= LEGEND_COLUMNS else -(-len(entries) // 2)
    axes[0].legend(entries.values(), entries.keys(), ncols=columns, handlelength=1.6, **above, **LEGEND)
    axes[-1].set_xlabel(r"$\theta$")
    figure.align_ylabels(list(axes))
    _say_below(figure, [_failed(curve.fit)])
    return figure


def _maps(fit: Fit, thetas: Array, outputs: list[int], true: Array | None) -> Figure:
    """A figure for p = 2: maps of mean, standard deviation and, given the truth, error, with a row for each output."""
    rows, columns = len(outputs), 2 if true is None else 3
    figure = new_figure(MAP_SIZE[0] * columns, MAP_SIZE[1] * rows)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    mean, std = (_columns(values) for values in fit.predict(thetas, return_std=True))
    for row, c in zip(axes, outputs, strict=True):
        _map(row[0], fit, thetas, mean[:, c], f"mean of {_name(fit, c)}", cmap="viridis")
        _map(row[1], fit, thetas, std[:, c], f"standard deviation of {_name(fit, c)}", cmap="cividis")
        if true is not None:
            error = mean[:, c] - true[:, c]
            size = float(np.max(np.abs(error))) or 1.0
            title = f"error of the mean of {_name(fit, c)}"
            _map(row[2], fit, thetas, error, title, cmap="PuOr", vmin=-size, vmax=size)
        row[0].set_ylabel(r"$\theta_1$")
    for ax in axes[-1]:
        ax.set_xlabel(r"$\theta_0$")
    crosses = "orange crosses: thetas beyond the observed ones" if np.any(fit.beyond(thetas)) else ""
    _say_below(figure, [_failed(fit), crosses])
    return figure


def _failed(fit: Fit) -> str:
    """A line about the points at which f failed, if it did."""
    if fit.failures is None:
        return ""
    return f"f failed at {fit.failures.share:.1%} of the points: I is conditional on {fit.conditional_on}"


def _say_below(figure: Figure, lines: list[str]) -> None:
    """Lines below everything, those that say something."""
    if any(lines):
        figure.supxlabel("\n".join(filter(None, lines)), color=ORANGE, fontsize="small")


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
    bar.formatter.set_powerlimits(EXPONENT_LIMITS)
    bar.formatter.set_useMathText(True)


def _outputs(fit: Fit, output: int | None) -> list[int]:
    """The indices of the outputs to draw."""
    known = range(fit.C or 1)
    if output is None:
        return list(known)
    if not is_whole(output, 0, len(known) - 1):
        choices = "0" if len(known) == 1 else f"one of 0 to {len(known) - 1}"
        raise ValueError(f"output must be {choices}, or None for all, but it is {shown(output)}.")
    return [int(output)]


def _grid(theta: Array, points: int) -> Array:
    """A regular grid (M, p) a little beyond the thetas (T, p), but positive in coordinates that are all positive."""
    if not is_whole(points, 2):
        raise ValueError(
            f"points must be the number of grid points, an integer of 2 or more, but it is {shown(points)}."
        )
    axes = []
    p = theta.shape[1]
    require_memory(p * points**p, f"a grid of points = {points} in each coordinate", "pass fewer points")
    for column in theta.T:
        low, high = float(np.min(column)), float(np.max(column))
        margin = MARGIN * (high - low) or 0.5 * abs(low) or 1.0
        start = max(low - margin, 0.5 * low) if low > 0 else low - margin
        axes.append(np.linspace(start, high + margin, points))
    if len(axes) == 2:
        return mesh(*axes)
    if len(theta) == 1:  # without the node, whose narrow interval would look like a crack in the band
        return axes[0][:, None]
    return np.union1d(axes[0], theta[:, 0])[:, None]  # with the nodes, where a rough I has its corners


def mesh(x: Array, y: Array) -> Array:
    """All pairs of x (n,) and y (m,), sorted by y: (m n, 2)."""
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def _truth(truth: Truth, thetas: Array, outputs: list[int], C: int, *, given: bool) -> Array:
    """The true values (M, C) at thetas (M, p); if one output is drawn, the truth of that output is enough."""
    if not callable(truth) and not given:
        raise ValueError("truth is an array: pass the thetas of its values as theta, or a function of theta as truth.")
    values = squarable(finite(called(truth, "truth", thetas) if callable(truth) else truth, "truth"), "truth")
    M = len(thetas)
    if values.shape == (M, C):
        return values
    if len(outputs) > 1 or values.shape not in {(M,), (M, 1)}:
        wanted = f"({M},)" if C == 1 else f"({M}, {C}){f' or ({M},)' * (len(outputs) == 1)}"
        raise ValueError(f"truth has shape {values.shape}, but for {M} thetas it must have shape {wanted}.")
    return np.broadcast_to(values.reshape(M, 1), (M, C))


def _columns(values: Any) -> Array:
    """Values (M,) or (M, C) as (M, C)."""
    return np.asarray(values).reshape(len(values), -1)


def _name(fit: Fit, c: int) -> str:
    return r"$I(\theta)$" if fit.C is None else rf"$I_{{{c}}}(\theta)$"
