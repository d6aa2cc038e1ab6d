"""Colours and sizes that all figures share, and figures that no window shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from cbq.common.arrays import Array
from cbq.common.checks import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, INK = "#0072B2", "#D55E00", "#333333"  # distinct for colour-blind readers (Okabe and Ito)
LINE_SIZE, MAP_SIZE = (6.4, 4.0), (4.6, 3.7)  # of a panel, inches
ROW_HEIGHT = 0.65  # of a row among several, relative to its height alone
LEGEND_COLUMNS = 5
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small", "columnspacing": 1.2}
EXPONENT_LIMITS = (-3, 6)  # powers of ten beyond which axes use an exponent
DECADE = 10.0  # a positive quantity whose values differ by more than this factor has a logarithmic axis


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, which no window shows."""
    try:
        import matplotlib.figure  # noqa: F401

        from cbq.plotting.figure import ShownFigure
    except ImportError as error:
        raise ImportError("plot needs matplotlib: python -m pip install matplotlib.") from error
    return ShownFigure(figsize=(width, height), layout="constrained")


def require_axes(ax: object) -> None:
    """Raise unless these are axes of matplotlib."""
    if not callable(getattr(ax, "fill_between", None)) or not hasattr(ax, "figure"):
        raise TypeError(f"ax must be axes of matplotlib, as plt.subplots() returns them, but it is {shown(ax)}.")


def whole_figure(ax: Axes) -> Figure:
    """The figure that contains the axes, also if they are in a subfigure."""
    return cast("Figure", cast(Any, ax.figure).figure)


def say_below(figure: Figure, lines: list[str]) -> None:
    """Lines below everything, those that say something."""
    if any(lines):
        figure.supxlabel("\n".join(filter(None, lines)), color=ORANGE, fontsize="small")


def spans_decades(values: Array) -> bool:
    """Whether positive values differ so much that an axis should be logarithmic."""
    positive = values[values > 0]
    return bool(positive.size and positive.max() > DECADE * positive.min())
