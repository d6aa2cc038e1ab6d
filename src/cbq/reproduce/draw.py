"""Lines with bands, which most figures are made of, on log axes; one look for each method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import floor, log10
from typing import TYPE_CHECKING, Any

from cbq.reproduce.looks import LOOKS, Look
from cbq.reproduce.table import Point, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (3.5, 2.9)  # inches
LEGEND = 0.32  # inches of height for each of its rows
PLAIN = 1e-3, 1e4  # between, numbers are written out on axes
FEW = 2.2  # decades: on an axis with fewer, 2 and 5 are written too


@dataclass(frozen=True)
class Line:
    """A curve: the rows of one method, over `x`."""

    label: str
    rows: Table
    look: Look


@dataclass(frozen=True)
class Panel:
    """A plot of a quantity `y` over `x`: curves, and levels as dotted horizontal lines."""

    title: str
    lines: Sequence[Line]
    x: str
    y: str = "rmse"
    levels: Sequence[Line] = ()
    xlabel: str = ""
    ylabel: str = "RMSE"


def by_method(table: Table, methods: Sequence[str]) -> list[Line]:
    """A line for each method that has rows."""
    lines = [Line(name, table.where(method=name), LOOKS[name]) for name in methods]
    return [line for line in lines if len(line.rows)]


def figure(panels: Sequence[Sequence[Panel]], title: str, *, shared: bool = True) -> Figure:
    """A figure with rows of panels, which share their range of y or do not, and one legend below all of them."""
    rows, columns = len(panels), max(len(row) for row in panels)
    labels = dict.fromkeys(line.label for row in panels for panel in row for line in panel.lines)
    lines = -(-len(labels) // max(2, 2 * columns))  # of the legend
    ncols = -(-len(labels) // max(lines, 1))
    height = PANEL[1] * rows + LEGEND * lines + 0.3
    page = new_figure(max(PANEL[0] * columns, 5.4), height)
    axes = page.subplots(rows, columns, squeeze=False)
    for across, row in zip(axes, panels, strict=True):
        for ax in across[len(row) :]:
            ax.set_visible(False)
        for ax, panel in zip(across, row, strict=False):
            draw_panel(ax, panel)
        if shared:
            share_y([ax for ax, _ in zip(across, row, strict=False)])
    legend_below(page, [ax for across in axes for ax in across], ncols)
    page.suptitle(title, fontsize="medium")
    return page


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that size in inches, which is shown nowhere and changes no setting."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def require_matplotlib() -> None:
    """Refuse to begin what cannot be drawn in the end."""
    if find_spec("matplotlib") is None:
        raise ImportError("figures need matplotlib: python -m pip install 'cbq[plot]'.")


def draw_panel(ax: Axes, panel: Panel) -> None:
    """Draw one plot."""
    for line in panel.lines:
        draw_line(ax, line, panel.x, panel.y)
    for level in panel.levels:
        point = level.rows.point(panel.y)
        if point is not None:
            ax.axhline(point.middle, color=level.look.colour, ls=":", lw=1.4, zorder=1.5)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_title(panel.title, fontsize="medium")
    ax.set_xlabel(panel.xlabel or f"${panel.x}$")
    ax.set_ylabel(panel.ylabel)
    finish(ax, [row[panel.x] for line in panel.lines for row in line.rows if row.get(panel.x) is not None])


def draw_line(ax: Axes, line: Line, x: str, y: str) -> None:
    """The median over seeds with its band of one standard error."""
    points: dict[Any, Point] = {}
    for value in line.rows.distinct(x):
        point = line.rows.point(y, **{x: value})
        if point is not None and point.middle > 0:
            points[value] = point
    if not points:
        return
    at, found, look = list(points), list(points.values()), line.look
    if len(at) > 1:
        low, high = [p.low for p in found], [p.high for p in found]
        ax.fill_between(at, low, high, color=look.colour, alpha=look.band, lw=0)
    ax.plot(at, [p.middle for p in found], label=line.label, **look.style)


def finish(ax: Axes, x: Sequence[float]) -> None:
    """Ticks that can be read: the values of x themselves where they are few, decades of y, a light grid."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    values = _apart(sorted(set(x)))
    if values:
        ax.xaxis.set_major_locator(FixedLocator(values))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    _label_decades(ax)
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.grid(True, which="major", color="0.9", lw=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def share_y(axes: Sequence[Axes]) -> None:
    """One range of y for plots of the same quantity side by side; it is written at the first of them."""
    for ax in axes[1:]:
        if ax.get_ylabel() == axes[0].get_ylabel() and _near(ax.get_ylim(), axes[0].get_ylim()):
            ax.sharey(axes[0])
            ax.autoscale(axis="y")
            ax.set_ylabel("")
    for ax in axes:
        _label_decades(ax)


def legend_below(page: Figure, axes: Sequence[Axes], ncols: int) -> None:
    """One legend for all plots, outside of them."""
    found: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        style = {"frameon": False, "fontsize": "small", "handlelength": 2.4, "columnspacing": 1.4}
        page.legend(found.values(), found.keys(), loc="outside lower center", ncols=ncols, **style)


def _near(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two ranges of a log axis overlap by a good part."""
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return high > low * 3


def _apart(values: Sequence[float]) -> list[float]:
    """Values of a log axis that can be written under it side by side, the last among them; long numbers need room."""
    kept: list[float] = []
    reach = values[-1] / values[0] if values else 1.0
    for value in reversed(values):
        if not kept or kept[-1] / value >= reach ** (0.035 * len(f"{kept[-1]:g}")):
            kept.append(value)
    return kept[::-1]


def _label_decades(ax: Axes) -> None:
    """Numbers along a log axis of y: written out where they are short, as powers of ten where they are not."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    low, high = ax.get_ylim()
    if not 0 < low < high:
        return
    few = log10(high / low) < FEW
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,), numticks=12 if few else 8))
    short = PLAIN[0] <= low and high <= 10 * PLAIN[1]
    ax.yaxis.set_major_formatter(FuncFormatter((lambda v, _: f"{v:g}") if short else _power))


def _power(value: float, _: Any = None) -> str:
    """A number of a log axis as a power of ten."""
    exponent = floor(log10(value) + 1e-9)
    digit = value / 10**exponent
    return rf"$10^{{{exponent}}}$" if abs(digit - 1) < 1e-6 else rf"${digit:.0f}\cdot10^{{{exponent}}}$"
