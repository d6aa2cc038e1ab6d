"""Descriptions of figures drawn with matplotlib, in figures that notebooks display and that open no window."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from math import ceil
from textwrap import wrap
from typing import Any, cast

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure as MatplotlibFigure
from matplotlib.ticker import FuncFormatter, LogFormatterMathtext, LogLocator, NullFormatter

from cbq.common import shown
from cbq.plotting.figure import (
    BLUE,
    ORANGE,
    Axis,
    Band,
    Bars,
    Dots,
    Figure,
    Heat,
    Label,
    Line,
    Mark,
    Panel,
    Rule,
    Zone,
    cut,
    placed,
)

COLOURS = ("#0072B2", "#D55E00", "#333333", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C")
STROKES: dict[str, Any] = {"solid": "-", "dashed": (0, (4, 2)), "dotted": ":"}
EXPONENT_LIMITS = (-3, 6)  # powers of ten beyond which axes use an exponent
LETTERS = 15  # of a legend, in an inch
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small", "columnspacing": 1.2, "handlelength": 2.0}
NAME_LENGTH, NAME_LINES = 30, 2  # of names on axes and in legends
NUMBER_2_AND_5_BELOW = {"x": 1.8, "y": 2.8}  # decades of a logarithmic axis below which 2 and 5 are numbered, too


class ShownFigure(MatplotlibFigure):
    """A figure that displays as a PNG image in every notebook, whatever its matplotlib backend."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", bbox_inches="tight")
        return buffer.getvalue()


def draw_figure(figure: Figure, texts: Mapping[str, str | None]) -> MatplotlibFigure:
    """A new figure. texts: title, xlabel and ylabel of the user's own, or None."""
    canvas = ShownFigure(figsize=figure.size, layout="constrained")
    rows, columns = len(figure.rows), max(map(len, figure.rows))
    share: dict[str, Any] = {"sharex": "col" if "x" in figure.share else False}
    share |= {"sharey": "row" if "y" in figure.share else False, "height_ratios": figure.heights}
    grid = canvas.subplots(rows, columns, squeeze=False, **share)
    explained: dict[str, Any] = {}
    for i, row in enumerate(figure.rows):
        for j, (panel, ax) in enumerate(zip(row, grid[i], strict=True)):
            if panel is None:
                ax.set_visible(False)
                continue
            below = [each[j] for each in figure.rows[i + 1 :] if each[j] is not None]
            entries = draw_panel(ax, panel, texts)
            if "x" in figure.share:  # one label for each column
                ax.set_xlabel("" if below else ax.get_xlabel())
                ax.tick_params(labelbottom=not below)
            if "y" in figure.share and j:
                ax.set_ylabel("")
            new = {label: handle for label, handle in entries.items() if label not in explained}
            explained |= new
            if new and columns == 1:  # each label is explained once, above the first panel that has it
                above = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
                _legend(ax, new, figure.size[0], above)
    for j, ax in enumerate(grid[0] if "x" in figure.share else ()):
        _set_common(ax, "x", [row[j] for row in figure.rows])
    for row, ax in zip(figure.rows, grid[:, 0] if "y" in figure.share else (), strict=False):
        _set_common(ax, "y", row)
    if explained and columns > 1:
        _legend(canvas, explained, figure.size[0], {"loc": f"outside {'lower' if texts['title'] else 'upper'} center"})
    canvas.align_labels()
    if texts["title"]:
        canvas.suptitle(texts["title"])
    if any(figure.notes):
        canvas.supxlabel("\n".join(filter(None, figure.notes)), color=COLOURS[ORANGE], fontsize="small")
    return canvas


def _set_common(ax: Any, along: str, panels: Sequence[Panel | None]) -> None:
    """Set the limits of an axis that panels share, unless it has names, which are the same for all."""
    known = [panel.limits["xy".index(along)] for panel in panels if panel and not getattr(panel, along).names]
    if known:
        ax.set(**{f"{along}lim": (min(low for low, _ in known), max(high for _, high in known))})


def draw_into(given: Any, figure: Figure, texts: Mapping[str, str | None]) -> MatplotlibFigure:
    """Draw into given axes, one for each panel. Their own labels, limits and entries of the legend stay."""
    most = len(figure.panels)
    several = given.flat if isinstance(given, np.ndarray) else given if isinstance(given, list | tuple) else [given]
    axes: list[Any] = list(several[:most])
    for ax in axes or [given]:
        if not callable(getattr(ax, "fill_between", None)) or not hasattr(ax, "figure"):
            raise TypeError(f"ax must be axes of matplotlib, as plt.subplots() returns them, but it is {shown(ax)}.")
    explained: set[str] = set()
    for ax, panel in zip(axes, figure.panels, strict=False):
        own = {"xlabel": texts["xlabel"] or ax.get_xlabel(), "ylabel": texts["ylabel"] or ax.get_ylabel()}
        entries = draw_panel(ax, panel, own, keep_limits=ax.has_data())
        handles, labels = ax.get_legend_handles_labels()
        entries |= {label: handle for label, handle in zip(labels, handles, strict=True) if label not in entries}
        if texts["title"]:
            ax.set_title(texts["title"])
        if set(entries) - explained:
            ax.legend(entries.values(), map(_fitted, entries), frameon=False, fontsize="small")
        explained |= set(entries)
    return cast(MatplotlibFigure, axes[0].figure.figure)  # the whole figure, also of axes in a subfigure


def draw_panel(ax: Any, panel: Panel, texts: Mapping[str, str | None], *, keep_limits: bool = False) -> dict[str, Any]:
    """Draw a panel into axes; return the handles of the legend by label, in order."""
    entries: dict[str, Any] = {}
    bands: dict[int, tuple[Any, ...]] = {}
    for mark in panel.marks:
        handle = draw_mark(ax, mark, panel)
        if isinstance(mark, Band):  # in the legend, too, a narrow band lies on the wide one of its colour
            handle = bands[mark.colour] = (*bands.get(mark.colour, ()), handle)
        label = getattr(mark, "label", "")
        if label and not isinstance(mark, Heat):
            entries.setdefault(label, handle)
    for along, axis, ends in (("x", panel.x, panel.limits[0]), ("y", panel.y, panel.limits[1])):
        _set_axis(ax, along, axis, None if keep_limits else ends)
        own = texts[f"{along}label"] if axis.label and axis.own else None
        ax.set(**{f"{along}label": own or axis.label})
    if panel.title:
        ax.set_title(panel.title, fontsize="medium")
    heat, bars = (any(isinstance(mark, kind) for mark in panel.marks) for kind in (Heat, Bars))
    bare = ["top", "right", *["left"] * bool(panel.y.names and not bars), *["bottom"] * bool(heat)]
    if not heat or panel.x.names:
        ax.spines[bare].set_visible(False)
    return entries


def draw_mark(ax: Any, mark: Mark, panel: Panel) -> Any:
    """Draw a mark; return its handle for the legend."""
    common = {"zorder": mark.layer, "label": getattr(mark, "label", None) or None}
    match mark:
        case Line():
            style: dict[str, Any] = {"color": COLOURS[mark.colour], "lw": mark.width, "ls": STROKES[mark.dash]}
            style["solid_capstyle"] = "butt"  # a wide line is a bar, which ends at its last point
            return ax.plot(mark.x, mark.y, marker=mark.marker, ms=4.5, alpha=mark.opacity, **style, **common)[0]
        case Band():
            low, high = (cut(end, panel.limits[1], log=panel.y.log) for end in (mark.low, mark.high))
            return ax.fill_between(mark.x, low, high, color=COLOURS[mark.colour], alpha=mark.opacity, lw=0, **common)
        case Dots():
            return _points(ax, mark, panel, common)
        case Bars():
            return _bars(ax, mark)
        case Heat():
            return _heat(ax, mark, panel)
        case Zone():
            hatched = {"facecolor": "none", "edgecolor": COLOURS[ORANGE], "alpha": 0.35, "lw": 0, "hatch": mark.hatch}
            spans = [(start, end - start) for start, end in mark.spans]
            return ax.broken_barh(spans, (0, 1), transform=ax.get_xaxis_transform(), **hatched, **common)
        case Rule():
            style = {"color": COLOURS[mark.colour], "lw": mark.width, "ls": STROKES[mark.dash], **common}
            if mark.along == "slope":
                return ax.axline((0.0, 0.0), slope=mark.at, **style)
            return ax.axvline(mark.at, **style) if mark.along == "x" else ax.axhline(mark.at, **style)
        case Label():
            return _text(ax, mark, panel)
    raise TypeError(f"{type(mark).__name__} has no drawing with matplotlib.")


def _points(ax: Any, mark: Dots, panel: Panel, common: dict[str, Any]) -> Any:
    colour, y = COLOURS[mark.colour], placed(mark.y, panel.limits[1])
    style: dict[str, Any] = {"color": colour, "alpha": mark.opacity, "ms": mark.size, "ls": "none", **common}
    style |= {"marker": mark.marker, "mfc": {"solid": colour}.get(mark.fill, mark.fill), "mew": 0.7}
    if mark.low is None:
        inside = bool(np.all(np.isfinite(mark.y)))  # half of a point on an edge is outside
        (drawn,) = ax.plot(mark.x, y, rasterized=len(mark.x) > 500, clip_on=inside, **style)
        return drawn
    return ax.errorbar(mark.x, y, [y - mark.low, mark.high - y], elinewidth=0.25 * mark.size, **style)


def _bars(ax: Any, mark: Bars) -> None:
    rows, value = np.arange(len(mark.value)), np.asarray(mark.value)
    reach = np.maximum([value - mark.low, mark.high - value], 0.0)
    ax.barh(rows, value, height=0.62, color=[COLOURS[ORANGE if i == mark.accent else BLUE] for i in rows])
    ax.errorbar(value, rows, xerr=reach, fmt="none", ecolor=COLOURS[2], elinewidth=1.2, capsize=3)


def _heat(ax: Any, mark: Heat, panel: Panel) -> None:
    low, high = mark.ends
    if not high > low:  # any width, for one colour
        low, high = low - 0.5, high + 0.5
    norm = LogNorm(low, high) if mark.log else Normalize(low, high)
    style: dict[str, Any] = {"cmap": mark.palette, "norm": norm, "zorder": mark.layer, "rasterized": True}
    if mark.is_grid:
        drawn = ax.pcolormesh(mark.edges("x"), mark.edges("y"), np.asarray(mark.cells), **style)
    else:
        drawn = ax.scatter(mark.x, mark.y, c=mark.cells, s=30, marker="s", **style)
    bar = ax.figure.colorbar(drawn, ax=ax, label=mark.label)
    if not mark.log:
        bar.formatter.set_powerlimits(EXPONENT_LIMITS)
        bar.formatter.set_useMathText(True)


def _text(ax: Any, mark: Label, panel: Panel) -> None:
    place = [float(placed(at, ends)) for at, ends in zip((mark.x, mark.y), panel.limits, strict=True)]
    style: dict[str, Any] = {"fontsize": "small", "color": "white" if mark.colour is None else COLOURS[mark.colour]}
    style |= {"ha": ("center", "left", "right")[mark.right], "va": ("center", "bottom", "top")[mark.above]}
    if mark.right and not mark.above:  # hide the lines behind
        style["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.8}
    shift = (7 * mark.right, 5 * mark.above)
    ax.annotate(_fitted(mark.words), place, shift, textcoords="offset points", zorder=mark.layer, **style)


def _legend(where: Any, entries: Mapping[str, Any], width: float, place: Mapping[str, Any]) -> None:
    """One row if it has room in this width in inches, otherwise rows of about equal length."""
    lengths, letters = [min(len(label), NAME_LENGTH) + 6 for label in entries], int(LETTERS * width)
    columns = len(entries) if sum(lengths) <= letters else max(1, letters // max(lengths))
    columns = ceil(len(entries) / ceil(len(entries) / columns))
    where.legend(entries.values(), map(_fitted, entries), ncols=columns, **place, **LEGEND)


def _set_axis(ax: Any, along: str, axis: Axis, ends: tuple[float, float] | None) -> None:
    """Scale, limits and ticks; ends: the limits, or None to leave them."""
    drawn = getattr(ax, f"{along}axis")
    if axis.log:
        ax.set(**{f"{along}scale": "log"})
    if ends is not None:
        ax.set(**{f"{along}lim": ends[::-1] if axis.names and along == "y" else ends})
    if axis.names:
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if along == "x" else {}
        drawn.set_ticks(range(len(axis.names)), [_fitted(name) for name in axis.names], **turned)
        ax.tick_params(axis=along, length=0)
    elif axis.log:
        _set_log_ticks(drawn, along, np.log10(ends if ends is not None else drawn.get_view_interval()))
    else:
        ax.ticklabel_format(axis=along, scilimits=EXPONENT_LIMITS, useMathText=True)
    if axis.ticks is not None:
        drawn.set_ticks(axis.ticks, [f"{tick:.6g}" for tick in axis.ticks])
        drawn.set_ticks([], minor=True)


def _set_log_ticks(drawn: Any, along: str, powers: Any) -> None:
    """Few short numbers."""
    low, high = powers
    if high - low < NUMBER_2_AND_5_BELOW[along]:
        drawn.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    short = low >= EXPONENT_LIMITS[0] and high <= EXPONENT_LIMITS[1]
    drawn.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}") if short else LogFormatterMathtext())
    drawn.set_minor_formatter(NullFormatter())


def _fitted(name: str) -> str:
    """A name on at most two lines, with an ellipsis in the middle if it is still too long."""
    most = NAME_LENGTH * NAME_LINES
    words = name if len(name) <= most else f"{name[: most // 2 - 2]} ... {name[-(most // 2) + 4 :]}"
    return "\n".join(wrap(words, NAME_LENGTH, max_lines=NAME_LINES, placeholder=" ...")) or name
