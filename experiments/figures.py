"""Figures of the experiments: curves with bands on log axes, and one style for each method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import floor, log10
from typing import TYPE_CHECKING, Any

from experiments.analysis import ResultTable, SeedSummary, best_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_SIZE = (2.75, 2.35)  # inches
LEGEND_ROW_HEIGHT = 0.26  # inches
WRITTEN_OUT = 1e-3, 1e4  # numbers on axes between these are written without a power of ten
FEW_DECADES = 2.2  # an axis with fewer decades has ticks at 2 and 5 too
FONTS: dict[Any, Any] = {"font.size": 9.0, "axes.titlesize": 9.0, "axes.linewidth": 0.7, "legend.fontsize": 8.5}


@dataclass(frozen=True)
class Style:
    """The style of a curve: a colour that colour-blind readers can distinguish, a marker and a dash pattern."""

    colour: str
    marker: str
    dash: Any = "-"
    size: float = 4.5  # of markers
    width: float = 1.5

    @property
    def line(self) -> dict[str, Any]:
        """Keyword arguments of matplotlib's `plot` for the line."""
        return {"color": self.colour, "ls": self.dash, "lw": self.width}

    def markers(self, *, few: bool) -> dict[str, Any]:
        """Keyword arguments of matplotlib's `plot` for markers; those of few seeds are white."""
        inside = "white" if few else self.colour
        return {"ls": "none", "marker": self.marker, "ms": self.size, "mfc": inside, "mec": self.colour, "mew": 1.0}

    @property
    def legend(self) -> dict[str, Any]:
        """Keyword arguments of a line and its marker in a legend."""
        return {**self.markers(few=False), **self.line}


BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE, GREY, BROWN = (  # the palette of Okabe and Ito, a grey and a brown
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#0072B2", "#D55E00", "#CC79A7", "#8A8A8A", "#7A4B12"),
)
DASHED, DOTTED = (0, (4, 1.5)), (0, (1, 1.2))
BEST_BASELINE = "best baseline"
BEST_STYLE = Style(GREY, "", "-", width=3.0)
STYLES: dict[str, Style] = {
    "CBQ.paper": Style(RED, "o"),
    "LSMC": Style(SKY, "v"),
    "KLSMC": Style(PURPLE, "P"),
    "IS": Style(ORANGE, "X"),
    "IS balance": Style(BROWN, "*", DASHED, size=6.0),
    "CBQ": Style(BLUE, "s"),
    "MOBQ": Style(GREEN, "^", size=7.5, width=2.2),
    "Auto": Style(BLACK, "D", DOTTED, size=3.0, width=1.2),  # small, so that the curve it coincides with is seen
    "MOBQ, Nystrom": Style(PURPLE, "<", DASHED),
    "MOBQ, paper's kernel": Style(BLACK, ">", DOTTED),
    "MOBQ, paper": Style(BLACK, ">", DASHED),
    "CBQ.paper, Stein": Style(BLACK, "d", DASHED),
    "CBQ.paper, Stein of log x": Style(BLACK, "d", DASHED),
    "CBQ.paper, lambda = 0": Style(GREEN, "<", DOTTED),
    "CBQ.paper, additive": Style(BLACK, "d", DASHED),
    "CBQ.paper, theta Matern 3/2": Style(RED, "o"),
    "CBQ.paper, theta Gaussian": Style(BLUE, "X"),
    "CBQ, theta Matern 3/2": Style(RED, "o", DASHED),
    "CBQ, theta Gaussian": Style(BLUE, "X", DASHED),
    "CBQ.paper, x Matern 3/2": Style(RED, "o"),
    "CBQ.paper, x Gaussian": Style(BLUE, "X"),
    "CBQ.paper, x Stein": Style(GREEN, "P"),
    "CBQ, x Matern 3/2": Style(RED, "o", DASHED),
    "CBQ, x Gaussian": Style(BLUE, "X", DASHED),
    "CBQ, x Stein": Style(GREEN, "P", DASHED),
}
PAPER_METHODS = (
    *("LSMC", "KLSMC", "IS", "IS balance", "CBQ.paper", "CBQ.paper, Stein"),
    *("CBQ.paper, Stein of log x", "CBQ.paper, lambda = 0", "CBQ.paper, additive"),
)
OUR_METHODS = ("CBQ.paper", "CBQ", "MOBQ", "MOBQ, Nystrom", "Auto")
BASELINES = ("LSMC", "KLSMC", "IS", "IS balance")


@dataclass(frozen=True)
class Curve:
    """A labelled curve through the medians of its rows."""

    label: str
    rows: ResultTable
    style: Style


@dataclass(frozen=True)
class Panel:
    """A plot of a quantity `y` over `x`: curves, and levels as dotted horizontal lines."""

    title: str
    curves: Sequence[Curve]
    x: str
    y: str = "rmse"
    levels: Sequence[Curve] = ()
    xlabel: str = ""
    ylabel: str = "RMSE"


def method_curves(table: ResultTable, methods: Sequence[str]) -> list[Curve]:
    """A curve for each method that has rows."""
    curves = [Curve(name, table.where(method=name), STYLES[name]) for name in methods]
    return [curve for curve in curves if len(curve.rows)]


def best_baseline(table: ResultTable, x: str, y: str = "rmse") -> list[Curve]:
    """The grey curve of the baseline that is the best at each x; none if there are no baselines."""
    rows = best_of(table, BASELINES, x, y)
    return [Curve(BEST_BASELINE, rows, BEST_STYLE)] if len(rows) else []


def theirs_and_ours(table: ResultTable, title: str, x: str, large: ResultTable, **more: Any) -> tuple[Panel, Panel]:
    """A panel of the paper's methods, and one of ours with the best baseline; `more` are fields of a panel."""
    theirs = Panel(title, method_curves(table, PAPER_METHODS), x, levels=method_curves(large, PAPER_METHODS), **more)
    ours = [*best_baseline(table, x, theirs.y), *method_curves(table, OUR_METHODS)]
    return theirs, Panel("", ours, x, **more)


def figure_of(panels: Sequence[Sequence[Panel]], *, share: bool = True) -> Figure:
    """A figure with rows of panels and one legend below; with `share`, panels of a row share the range of y."""
    rows, columns = len(panels), max(len(row) for row in panels)
    labels = {curve.label for row in panels for panel in row for curve in panel.curves if curve.label}
    ncols = legend_columns(len(labels), columns)
    height = PANEL_SIZE[1] * rows + LEGEND_ROW_HEIGHT * -(-len(labels) // ncols) + 0.1
    figure = new_figure(max(PANEL_SIZE[0] * columns, 4.4), height)
    axes = figure.subplots(rows, columns, squeeze=False)
    draw_panels(axes, panels, share=share)
    legend_below(figure, [ax for across in axes for ax in across], ncols)
    return figure


def legend_columns(labels: int, columns: int) -> int:
    """The number of columns of a legend below this many columns of panels, with rows of about equal length."""
    rows = -(-labels // max(3, 2 * columns))
    return max(-(-labels // max(rows, 1)), 1)


def draw_panels(axes: Any, panels: Sequence[Sequence[Panel]], *, share: bool = True) -> None:
    """Draw rows of panels into rows of axes; panels of a row with the same label of y share its range."""
    full = max(
        (len(curve.rows.distinct("seed")) for row in panels for panel in row for curve in panel.curves), default=0
    )
    for across, row in zip(axes, panels, strict=True):
        for ax in across[len(row) :]:
            ax.set_visible(False)
        for ax, panel in zip(across, row, strict=False):
            draw_panel(ax, panel, full)
        if share:
            share_y([ax for ax, _ in zip(across, row, strict=False)])


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, independent of pyplot and its settings."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def require_matplotlib() -> None:
    """Raise before anything is evaluated if figures could not be drawn."""
    if find_spec("matplotlib") is None:
        raise ImportError("figures need matplotlib: python -m pip install 'cbq[plot]'.")


def draw_panel(ax: Axes, panel: Panel, full: int) -> None:
    """Draw one panel; markers of points with fewer than `full` seeds are white."""
    for curve in panel.curves:
        draw_curve(ax, curve, panel.x, panel.y, full)
    for level in panel.levels:
        summary = level.rows.summary(panel.y)
        if summary is not None:
            ax.axhline(summary.middle, color=level.style.colour, ls=":", lw=1.4, zorder=1.5)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_title(panel.title)
    ax.set_xlabel(panel.xlabel or f"${panel.x}$")
    ax.set_ylabel(panel.ylabel)
    format_axes(ax, [row[panel.x] for curve in panel.curves for row in curve.rows if row.get(panel.x) is not None])


def draw_curve(ax: Axes, curve: Curve, x: str, y: str, full: int) -> None:
    """Draw the medians over seeds, with a band of one standard error; markers of fewer seeds than `full` are white."""
    ax.plot([], [], label=curve.label, **curve.style.legend)
    summaries: dict[Any, SeedSummary] = {}
    for value in curve.rows.distinct(x):
        summary = curve.rows.summary(y, **{x: value})
        if summary is not None and summary.middle > 0:
            summaries[value] = summary
    if not summaries:
        return
    values, found, style = list(summaries), list(summaries.values()), curve.style
    if len(values) > 1:
        low, high = [s.low for s in found], [s.high for s in found]
        ax.fill_between(values, low, high, color=style.colour, alpha=0.18, lw=0)
    middles = [s.middle for s in found]
    ax.plot(values, middles, **style.line)
    for few in (False, True):
        shown = [(v, m) for v, m, s in zip(values, middles, found, strict=True) if (s.seeds < full) is few]
        ax.plot([v for v, _ in shown], [m for _, m in shown], **style.markers(few=few))


def format_axes(ax: Axes, x: Sequence[float]) -> None:
    """Set readable ticks: the values of x themselves if they are few, decades of y, a light grid."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    values = _spaced(sorted(set(x)))
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
    """Share the range of y between the plots of one quantity, and label only the first of them."""
    first: dict[str, Axes] = {}
    for ax in axes:
        leader = first.setdefault(ax.get_ylabel(), ax)
        if ax is not leader:
            ax.sharey(leader)
            ax.autoscale(axis="y")
            ax.set_ylabel("")
            ax.tick_params(labelleft=False)
    for ax in axes:
        _label_decades(ax)


def legend_below(figure: Figure, axes: Sequence[Axes], ncols: int) -> None:
    """Add one legend for all plots, below them."""
    found: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        style = {"frameon": False, "handlelength": 2.4, "columnspacing": 1.4}
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=ncols, **style)


def _spaced(values: Sequence[float]) -> list[float]:
    """The values of a log axis whose labels fit side by side, always with the last; long labels need more room."""
    kept: list[float] = []
    reach = values[-1] / values[0] if values else 1.0
    for value in reversed(values):
        if not kept or kept[-1] / value >= reach ** (0.035 * len(f"{kept[-1]:g}")):
            kept.append(value)
    return kept[::-1]


def _label_decades(ax: Axes) -> None:
    """Label a log axis of y: short numbers are written out, others are powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    low, high = ax.get_ylim()
    if not 0 < low < high:
        return
    few = log10(high / low) < FEW_DECADES
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,), numticks=12 if few else 8))
    short = WRITTEN_OUT[0] <= low and high <= 10 * WRITTEN_OUT[1]
    ax.yaxis.set_major_formatter(FuncFormatter((lambda v, _: f"{v:g}") if short else _power_of_ten))


def _power_of_ten(value: float, _: Any = None) -> str:
    exponent = floor(log10(value) + 1e-9)
    digit = value / 10**exponent
    return rf"$10^{{{exponent}}}$" if abs(digit - 1) < 1e-6 else rf"${digit:.0f}\cdot10^{{{exponent}}}$"
