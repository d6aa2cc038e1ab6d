"""Figures of EVPPI: bars by set, lines over the willingness to pay, or a map of pairs of inputs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from cbq.common.arrays import Array
from cbq.common.checks import one_of, whole
from cbq.common.tables import short
from cbq.comparison.plot import LINE_STYLES
from cbq.fit.naming import plain
from cbq.fit.styles import BLUE, INK, ORANGE, new_figure, require_axes, whole_figure
from cbq.voi.information import EvppiRow, EvppiTable, inputs_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cbq.voi.variance import VarianceTable

Kind = Literal["bars", "lines", "map"]
WIDTH, FRAME_HEIGHT, BAR_HEIGHT, LINES_HEIGHT = 6.4, 1.1, 0.34, 4.0  # in inches
MAP_FRAME, CELL = 2.4, 0.46  # in inches
MARKERS_BELOW = 12  # points on a line
MOST, MOST_LINES = 20, 8  # sets that are drawn unless more are asked for
PAIRS_FOR_MAP = 6  # from which on pairs are drawn as a map: all those of four inputs
NUMBERED = 8  # inputs of a map whose cells show their numbers
LINE_LENGTH, MAX_LINES = 30, 2  # of the name of a set


def plot_values(table: EvppiTable, ax: Any = None, *, kind: Kind | None = None, most: int | None = None) -> Figure:
    """A horizontal bar for each set, the largest on top; a line for each, if the willingness to pay varies; or a map.

    Error bars and bands are the intervals of the table, and a dashed line is EVPI. The figure is not displayed: use
    `figure.savefig(path)`, or pass your own `ax`.

    kind : "bars", "lines" over the willingness to pay, or "map": the EVPPI of pairs of inputs, with that of each input
        alone on the diagonal. By default a map if the table has six pairs or more at one willingness to pay, and
        nothing but pairs and single inputs.
    most : the number of sets (of a map, inputs) that are drawn, the largest ones (default: 20 bars or inputs, 8 lines);
        the others are counted.
    """
    chosen = _kind(table) if kind is None else cast(Kind, one_of(kind, Kind, "kind"))
    number = (MOST_LINES if chosen == "lines" else MOST) if most is None else whole(most, "most", 1)
    prices = {row.willingness_to_pay for row in table.rows}
    if chosen != "lines" and len(prices) > 1:
        raise ValueError(f"kind={chosen!r} is for one willingness to pay, but there are {len(prices)}: pass 'lines'.")
    if chosen == "map":
        return _map(ax, table, number)
    if chosen == "lines":
        ax = _axes(ax, WIDTH, LINES_HEIGHT)
        _lines(ax, table, number)
    else:
        rows = table.largest(number)
        bars = Bars(
            [fitted(row.pars) for row in rows],
            np.array([row.evppi for row in rows]),
            np.array([[row.lower for row in rows], [row.upper for row in rows]]),
        )
        ax = _axes(ax, WIDTH, bars.height)
        what = f"EVPPI{_at(rows[0])}, {100 * table.level:.4g}% intervals"
        _bars(ax, bars, (rows[0].evpi, "EVPI"), what, len(table.rows) - len(rows))
    ax.spines[["top", "right"]].set_visible(False)
    return whole_figure(ax)


def plot_reductions(table: VarianceTable, ax: Any = None) -> Figure:
    """A bar for each set with its reduction of the variance of the first output, the largest on top."""
    first = table.rows[0].output
    every = sorted((row for row in table.rows if row.output == first), key=lambda row: -row.reduction)
    rows = every[:MOST]
    bars = Bars(
        [fitted(row.pars) for row in rows],
        np.array([row.reduction for row in rows]),
        np.array([[row.lower for row in rows], [row.upper for row in rows]]),
    )
    ax = _axes(ax, WIDTH, bars.height)
    what = f"expected reduction of the variance of {plain(first)}, {100 * table.level:.4g}% intervals"
    _bars(ax, bars, (rows[0].variance, "variance"), what, len(every) - len(rows))
    ax.spines[["top", "right"]].set_visible(False)
    return whole_figure(ax)


def fitted(name: str) -> str:
    """The name of a set on at most two lines, with an ellipsis in the middle of names that are still too long."""
    most = LINE_LENGTH * MAX_LINES
    text = name if len(name) <= most else f"{name[: most // 2 - 2]} ... {name[-(most // 2) + 4 :]}"
    return plain("\n".join(wrap(text, LINE_LENGTH, max_lines=MAX_LINES, placeholder=" ...")) or name)


def _kind(table: EvppiTable) -> Kind:
    if len({row.willingness_to_pay for row in table.rows}) > 1:
        return "lines"
    sizes = [len(inputs_of(row)) for row in table.rows]
    return "map" if max(sizes) == 2 and sizes.count(2) >= PAIRS_FOR_MAP else "bars"


def _axes(ax: Any, width: float, height: float) -> Any:
    if ax is None:
        return new_figure(width, height).subplots()
    require_axes(ax)
    return ax


@dataclass(frozen=True, eq=False)
class Bars:
    """Bars from the top: names, values (J,), and ends of intervals (2, J)."""

    names: list[str]
    values: Array
    ends: Array

    @property
    def height(self) -> float:
        """Of a figure in which all names have room."""
        lines = sum(name.count("\n") + 1 for name in self.names)
        return FRAME_HEIGHT + BAR_HEIGHT * max(len(self.names), 0.62 * lines)


def _bars(ax: Axes, bars: Bars, most: tuple[float, str], what: str, rest: int) -> None:
    """Bars with error bars, and a dashed line at the largest value that they may have, with its name."""
    heights, values = range(len(bars.names)), bars.values
    reach = np.maximum([values - bars.ends[0], bars.ends[1] - values], 0.0)
    ax.barh(heights, values, height=0.62, color=BLUE)
    ax.errorbar(values, heights, xerr=reach, fmt="none", ecolor=INK, elinewidth=1.2, capsize=3)
    ax.axvline(most[0], color=ORANGE, ls="--", lw=1.4, label=most[1])
    ax.set_yticks(heights, bars.names)
    ax.set_ylim(len(values) - 0.4, -0.6)
    ax.set_xlim(left=0.0)
    ax.tick_params(axis="y", length=0)
    more = f"\n{rest} more sets, each up to {short(float(values[-1]))}, are not drawn" if rest else ""
    ax.set_xlabel(f"{what}{more}")
    _legend(ax, 1)


def _lines(ax: Axes, table: EvppiTable, most: int) -> None:
    """A line with a band over the willingness to pay for each of the sets with the largest values."""
    by_price = sorted(table.rows, key=lambda row: row.willingness_to_pay or 0.0)
    largest: dict[str, float] = {}
    for row in table.rows:
        largest[row.pars] = max(row.evppi, largest.get(row.pars, 0.0))
    drawn = sorted(largest, key=lambda name: -largest[name])[:most]
    sets = [name for name in largest if name in drawn]
    for name, (colour, mark, stroke) in zip(sets, cycle(LINE_STYLES), strict=False):
        rows = [row for row in by_price if row.pars == name]
        x = [row.willingness_to_pay or 0.0 for row in rows]
        ax.fill_between(x, [row.lower for row in rows], [row.upper for row in rows], color=colour, alpha=0.15, lw=0)
        marker = mark if len(rows) < MARKERS_BELOW else ""
        label = fitted(name)
        ax.plot(x, [row.evppi for row in rows], color=colour, ls=stroke, marker=marker, ms=4.5, lw=1.6, label=label)
    ax.plot(x, [row.evpi for row in rows], color=INK, ls="--", lw=1.4, label="EVPI")
    ax.set_ylim(bottom=0.0)
    rest = len(largest) - len(sets)
    ax.set_xlabel("willingness to pay" + f"\n{rest} more sets, with smaller values, are not drawn" * bool(rest))
    ax.set_ylabel(f"EVPPI, {100 * table.level:.4g}% bands")
    _legend(ax, min(len(sets) + 1, 3))


def pair_matrix(table: EvppiTable) -> tuple[list[str], Array]:
    """The inputs of single sets and pairs, those with the largest values first, and a matrix of EVPPI.

    The matrix is symmetric, with that of single inputs on the diagonal, and NaN for sets that the table does not have.
    """
    found = {frozenset(inputs_of(row)): row.evppi for row in table.rows if len(inputs_of(row)) <= 2}
    names = list(dict.fromkeys(name for row in table.rows for name in inputs_of(row) if len(inputs_of(row)) <= 2))
    alone = {name: found.get(frozenset([name]), np.nan) for name in names}
    best = {name: max(value for pair, value in found.items() if name in pair) for name in names}
    names.sort(key=lambda name: (-np.nan_to_num(alone[name], nan=-1.0), -best[name]))
    return names, np.array([[found.get(frozenset([a, b]), np.nan) for b in names] for a in names])


def _map(ax: Any, table: EvppiTable, most: int) -> Figure:
    """A map of pairs, below and on the diagonal."""
    names, values = pair_matrix(table)
    if not names:
        raise ValueError("kind='map' is for sets of one or two inputs, but this table has none: pass kind='bars'.")
    shown, rest = names[:most], len(names) - most
    n = len(shown)
    ax = _axes(ax, MAP_FRAME + CELL * max(n, 6) + 0.8, MAP_FRAME - 0.6 + CELL * max(n, 5))
    cells = np.where(np.tri(n, dtype=bool), values[:n, :n], np.nan)
    drawn = ax.imshow(cells, cmap="viridis", vmin=0.0)
    half = 0.5 * np.nanmax(cells)
    for i, j in zip(*np.nonzero(np.isfinite(cells)), strict=True):
        if n <= NUMBERED:
            colour = "white" if cells[i, j] < half else INK
            ax.text(j, i, short(float(cells[i, j])), ha="center", va="center", fontsize="small", color=colour)
    labels = [fitted(name) for name in shown]
    ax.set_xticks(range(n), labels, rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(n), labels)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if rest > 0:
        ax.set_xlabel(f"{rest} more inputs, with smaller values, are not drawn")
    figure = whole_figure(ax)
    figure.colorbar(drawn, ax=ax, label=f"EVPPI{_at(table.rows[0])} (EVPI {short(table.rows[0].evpi)})")
    return figure


def _at(row: EvppiRow) -> str:
    return "" if row.willingness_to_pay is None else f" at a willingness to pay of {row.willingness_to_pay:g}"


def _legend(ax: Axes, columns: int) -> None:
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small", ncols=columns)
