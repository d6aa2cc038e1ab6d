"""Figures of cost-effectiveness: acceptability curves, the plane, the frontier, and EVPI as a curve."""

from __future__ import annotations

from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common.arrays import Integers
from cbq.comparison.plot import LINE_STYLES
from cbq.fit.styles import BLUE, INK, ORANGE, new_figure, require_axes, whole_figure
from cbq.voi.plot import fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cbq.voi.cost_effectiveness import CePlane, IcerTable
    from cbq.voi.perfect import Evpi
    from cbq.voi.submission import Acceptability

SIZE, BAR_HEIGHT, FRAME_HEIGHT = (6.4, 4.2), 0.4, 1.1  # in inches
MOST_DOTS = 2000  # draws of a decision in a plane
NAMED_BELOW = 12  # decisions on a frontier that all have their names beside them
GREY = "#8C8C8C"


def plot_acceptability(found: Acceptability, ax: Any) -> Figure:
    """A curve with a band for each decision, and the frontier: a wide line behind the one that is best on average."""
    if found.willingness_to_pay is None or len(found.willingness_to_pay) == 1:
        return _acceptability_bars(found, ax)
    ax = _axes(ax, *SIZE)
    x = found.willingness_to_pay
    for d, (name, (colour, _, stroke)) in enumerate(zip(found.decisions, cycle(LINE_STYLES), strict=False)):
        ax.fill_between(x, found.lower[:, d], found.upper[:, d], color=colour, alpha=0.15, lw=0)
        ax.plot(x, found.probability[:, d], color=colour, ls=stroke, lw=1.6, label=fitted(name))
    label = "frontier"
    for start, end in segments(found.best):
        ax.plot(x[start:end], found.frontier[start:end], color=INK, lw=5, alpha=0.28, zorder=1.5, label=label)
        label = ""
    ax.set_ylim(0.0, 1.0)
    ax.set_xlabel("willingness to pay")
    ax.set_ylabel(f"probability of being best, {100 * found.level:.4g}% bands")
    return _finished(ax, len(found.decisions) + 1)


def _acceptability_bars(found: Acceptability, ax: Any) -> Figure:
    D = len(found.decisions)
    ax = _axes(ax, SIZE[0], FRAME_HEIGHT + BAR_HEIGHT * D)
    share, low, high = found.probability[0], found.lower[0], found.upper[0]
    ax.barh(range(D), share, height=0.62, color=[ORANGE if d == found.best[0] else BLUE for d in range(D)])
    ax.errorbar(share, range(D), xerr=[share - low, high - share], fmt="none", ecolor=INK, elinewidth=1.2, capsize=3)
    ax.set_yticks(range(D), [fitted(name) for name in found.decisions])
    ax.set_ylim(D - 0.4, -0.6)
    ax.set_xlim(0.0, 1.0)
    ax.tick_params(axis="y", length=0)
    at = "" if found.willingness_to_pay is None else f" at a willingness to pay of {found.willingness_to_pay[0]:g}"
    ax.set_xlabel(f"probability of being best{at}\n(orange: the best on average), {100 * found.level:.4g}% intervals")
    ax.spines[["top", "right"]].set_visible(False)
    return whole_figure(ax)


def segments(best: Integers) -> list[tuple[int, int]]:
    """The ends of runs of equal decisions: best[start:end] is one decision, and best[end] is another."""
    edges = [0, *(np.flatnonzero(np.diff(best)) + 1).tolist(), len(best)]
    return list(pairwise(edges))


def plot_plane(found: CePlane, ax: Any) -> Figure:
    """Draws as dots, their means as crosses, and their ellipses; the origin is the reference."""
    ax = _axes(ax, *SIZE)
    some = dots(len(found.effects))
    styles = cycle([*LINE_STYLES[1:], LINE_STYLES[0]])  # the first is that of the reference in other figures
    for d, (name, (colour, _, stroke)) in enumerate(zip(found.decisions, styles, strict=False)):
        x, y = found.effects[:, d], found.costs[:, d]
        ax.plot(x[some], y[some], ".", ms=2.5, color=colour, alpha=0.3, mew=0, rasterized=True)
        ax.plot(*found.ellipse(d).T, color=colour, ls=stroke, lw=1.6, label=fitted(name))
        ax.plot(np.mean(x), np.mean(y), "X", color=colour, ms=8, mec="white")
    ax.axhline(0.0, color=GREY, lw=0.8, zorder=0)
    ax.axvline(0.0, color=GREY, lw=0.8, zorder=0)
    if found.willingness_to_pay is not None:
        _price_line(ax, found.willingness_to_pay)
    ax.set_xlabel(f"effect, compared with {fitted(found.reference)}")
    ax.set_ylabel(f"cost, compared with {fitted(found.reference)}")
    return _finished(ax, len(found.decisions) + 1)


def dots(n: int, most: int = MOST_DOTS) -> Integers:
    """The positions of at most so many of n draws, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def _price_line(ax: Axes, price: float) -> None:
    """The line on which more effect is worth its cost, within the limits that the draws set."""
    xs, ys = ax.get_xlim(), ax.get_ylim()
    ax.plot(xs, [price * x for x in xs], color=INK, ls="--", lw=1.2, label=f"willingness to pay of {price:g}")
    ax.set_xlim(xs)
    ax.set_ylim(ys)


def plot_frontier(found: IcerTable, ax: Any) -> Figure:
    """Means of all decisions, with a line through those of the frontier and names beside the dots."""
    ax = _axes(ax, *SIZE)
    on = [row for row in found.rows if row.status == "frontier"]
    off = [row for row in found.rows if row.status != "frontier"]
    ax.plot([row.effect for row in on], [row.cost for row in on], "o-", color=BLUE, lw=1.6, ms=6, label="frontier")
    for status, mark in (("dominated", "x"), ("extendedly dominated", "+")):
        rows = [row for row in off if row.status == status]
        if rows:
            ax.plot([row.effect for row in rows], [row.cost for row in rows], mark, color=ORANGE, ms=8, label=status)
    middle = 0.5 * (min(row.effect for row in found.rows) + max(row.effect for row in found.rows))
    for row in found.rows if len(found.rows) <= NAMED_BELOW else on:
        side = 1 if row.effect <= middle else -1
        ax.annotate(
            fitted(row.decision),
            (row.effect, row.cost),
            xytext=(8 * side, -5 * side),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="top" if side > 0 else "bottom",
            fontsize="small",
        )
    ax.margins(0.08)
    ax.set_xlabel("mean effect")
    ax.set_ylabel("mean cost")
    return _finished(ax, 3)


def plot_evpi(found: Evpi, ax: Any, level: float) -> Figure:
    """A curve with its band over the willingness to pay."""
    ax = _axes(ax, *SIZE)
    order = np.argsort(np.ravel(found.willingness_to_pay))  # type: ignore[arg-type]
    x, y = np.ravel(found.willingness_to_pay)[order], np.ravel(found.estimate)[order]  # type: ignore[arg-type]
    low, high = (np.ravel(end)[order] for end in found.interval(level))
    ax.fill_between(x, low, high, color=BLUE, alpha=0.2, lw=0)
    ax.plot(x, y, color=BLUE, lw=1.8, marker="" if len(x) > 1 else "o")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("willingness to pay")
    ax.set_ylabel(f"EVPI per decision, {100 * level:.4g}% band")
    ax.spines[["top", "right"]].set_visible(False)
    return whole_figure(ax)


def _axes(ax: Any, width: float, height: float) -> Any:
    if ax is None:
        return new_figure(width, height).subplots()
    require_axes(ax)
    return ax


def _finished(ax: Axes, entries: int) -> Figure:
    ax.spines[["top", "right"]].set_visible(False)
    columns = min(entries, 3)
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small", ncols=columns)
    return whole_figure(ax)
