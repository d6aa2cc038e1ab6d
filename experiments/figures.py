"""Figures of the experiments: curves with bands on log axes, and one style for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import floor, log10
from typing import TYPE_CHECKING, Any

from experiments.analysis import ResultTable, Row, SeedSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_SIZE = (3.5, 2.9)  # inches
LEGEND_ROW_HEIGHT = 0.32  # inches
WRITTEN_OUT = 1e-3, 1e4  # numbers on axes between these are written without a power of ten
FEW_DECADES = 2.2  # an axis with fewer decades has ticks at 2 and 5 too


@dataclass(frozen=True)
class Style:
    """The style of a curve: a colour that colour-blind readers can distinguish, a marker and a dash pattern."""

    colour: str
    marker: str
    dash: Any = "-"
    open: bool = False  # hollow markers and thin lines, so that curves below remain visible

    @property
    def band(self) -> float:
        """The opacity of the band."""
        return 0.12 if self.open else 0.25

    @property
    def line(self) -> dict[str, Any]:
        """Keyword arguments of matplotlib's `plot`."""
        size, inside, width = (6.5, "none", 1.1) if self.open else (4.5, self.colour, 1.6)
        marks = {"marker": self.marker, "ms": size, "mfc": inside, "mec": self.colour, "mew": 1.0}
        return {"color": self.colour, "ls": self.dash, "lw": width, **marks}


BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE, GREY = (  # the palette of Okabe and Ito, and a grey
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#0072B2", "#D55E00", "#CC79A7", "#7F7F7F"),
)
DASHED, DOTTED = (0, (4, 1.5)), (0, (1, 1.2))
STYLES: dict[str, Style] = {
    "CBQ.paper": Style(RED, "o"),
    "LSMC": Style(SKY, "v"),
    "KLSMC": Style(PURPLE, "P"),
    "IS": Style(ORANGE, "X"),
    "IS balance": Style(GREY, "*"),
    "CBQ": Style(BLUE, "s"),
    "MOBQ": Style(GREEN, "^"),
    "Auto": Style(BLACK, "D", DASHED, open=True),
    "MOBQ, Nystrom": Style(GREEN, "<", DASHED, open=True),
    "MOBQ, kernel given": Style(GREEN, ">", DOTTED, open=True),
    "CBQ.paper, lambda = 0": Style(RED, "h", DASHED, open=True),
    "CBQ.paper, Stein": Style(RED, "d", DASHED, open=True),
    "CBQ.paper, theta Matern 3/2": Style(RED, "o"),
    "CBQ.paper, theta Gaussian": Style(ORANGE, "X"),
    "CBQ, theta Matern 3/2": Style(SKY, "v", DASHED),
    "CBQ, theta Gaussian": Style(BLUE, "s", DASHED),
    "CBQ.paper, x Matern 3/2": Style(RED, "o"),
    "CBQ.paper, x Gaussian": Style(ORANGE, "X"),
    "CBQ.paper, x Stein": Style(PURPLE, "P"),
    "CBQ, x Matern 3/2": Style(SKY, "v", DASHED),
    "CBQ, x Gaussian": Style(BLUE, "s", DASHED),
    "CBQ, x Stein": Style(GREEN, "^", DASHED),
}
PAPER_METHODS = ("CBQ.paper", "CBQ.paper, lambda = 0", "CBQ.paper, Stein", "LSMC", "KLSMC", "IS", "IS balance")
OUR_METHODS = ("CBQ.paper", "CBQ", "MOBQ", "MOBQ, Nystrom", "Auto")


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


def paper_and_our_panels(
    swept: ResultTable, large: ResultTable, x: str, panels: Mapping[str, Row]
) -> list[list[Panel]]:
    """A row of panels with the methods of the paper, and one with ours; `panels` are settings by title."""
    return [
        [
            Panel(title, method_curves(swept.where(**settings), methods), x, levels=method_curves(large, methods))
            for title, settings in panels.items()
        ]
        for methods in (PAPER_METHODS, OUR_METHODS)
    ]


def large_title(large: ResultTable) -> str:
    """The end of a figure's title that explains the dotted lines; empty if there are none."""
    return f"; dotted: baselines at $N = T = {large.rows[0]['T']}$" if len(large) else ""


def figure_of(panels: Sequence[Sequence[Panel]], title: str, *, share: bool = True) -> Figure:
    """A figure with rows of panels and one legend below; with `share`, panels of a row share the range of y."""
    rows, columns = len(panels), max(len(row) for row in panels)
    labels = dict.fromkeys(curve.label for row in panels for panel in row for curve in panel.curves)
    legend_rows = -(-len(labels) // max(2, 2 * columns))
    ncols = -(-len(labels) // max(legend_rows, 1))
    height = PANEL_SIZE[1] * rows + LEGEND_ROW_HEIGHT * legend_rows + 0.3
    figure = new_figure(max(PANEL_SIZE[0] * columns, 5.4), height)
    axes = figure.subplots(rows, columns, squeeze=False)
    for across, row in zip(axes, panels, strict=True):
        for ax in across[len(row) :]:
            ax.set_visible(False)
        for ax, panel in zip(across, row, strict=False):
            draw_panel(ax, panel)
        if share:
            share_y([ax for ax, _ in zip(across, row, strict=False)])
    legend_below(figure, [ax for across in axes for ax in across], ncols)
    figure.suptitle(title, fontsize="medium")
    return figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, independent of pyplot and its settings."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def require_matplotlib() -> None:
    """Raise before anything is evaluated if figures could not be drawn."""
    if find_spec("matplotlib") is None:
        raise ImportError("figures need matplotlib: python -m pip install 'cbq[plot]'.")


def draw_panel(ax: Axes, panel: Panel) -> None:
    """Draw one panel."""
    for curve in panel.curves:
        draw_curve(ax, curve, panel.x, panel.y)
    for level in panel.levels:
        summary = level.rows.summary(panel.y)
        if summary is not None:
            ax.axhline(summary.middle, color=level.style.colour, ls=":", lw=1.4, zorder=1.5)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_title(panel.title, fontsize="medium")
    ax.set_xlabel(panel.xlabel or f"${panel.x}$")
    ax.set_ylabel(panel.ylabel)
    format_axes(ax, [row[panel.x] for curve in panel.curves for row in curve.rows if row.get(panel.x) is not None])


def draw_curve(ax: Axes, curve: Curve, x: str, y: str) -> None:
    """Draw the medians over seeds, with a band of one standard error."""
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
        ax.fill_between(values, low, high, color=style.colour, alpha=style.band, lw=0)
    ax.plot(values, [s.middle for s in found], label=curve.label, **style.line)


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
    """Share the range of y between neighbouring plots of one quantity, and label only the first of them."""
    for ax in axes[1:]:
        if ax.get_ylabel() == axes[0].get_ylabel() and _overlap(ax.get_ylim(), axes[0].get_ylim()):
            ax.sharey(axes[0])
            ax.autoscale(axis="y")
            ax.set_ylabel("")
    for ax in axes:
        _label_decades(ax)


def legend_below(figure: Figure, axes: Sequence[Axes], ncols: int) -> None:
    """Add one legend for all plots, below them."""
    found: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        style = {"frameon": False, "fontsize": "small", "handlelength": 2.4, "columnspacing": 1.4}
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=ncols, **style)


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two ranges of a log axis overlap by a factor of at least 3."""
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return high > low * 3


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
