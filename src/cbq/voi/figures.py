"""Figures of decisions: EVPPI, EVPI, acceptability, the plane and its frontier, and the value of studies by their size.

`..._figure` describes a figure, which matplotlib draws, and pages as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from scipy.special import ndtri

from cbq.common import Array, evenly, one_of, whole
from cbq.plotting import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    Axis,
    Band,
    Bars,
    Dots,
    Figure,
    Heat,
    Label,
    Line,
    Panel,
    Rule,
    plain,
    series,
    spans_decades,
)
from cbq.voi.information import EvppiRow, EvppiTable, inputs_of
from cbq.voi.money import money, unit

if TYPE_CHECKING:
    from cbq.voi.cost_effectiveness import CePlane, IcerTable
    from cbq.voi.one_way import TornadoTable
    from cbq.voi.perfect import Evpi, NetBenefitTable
    from cbq.voi.sample_information import EvsiTable
    from cbq.voi.sampling_benefit import EnbsTable
    from cbq.voi.submission import Acceptability
    from cbq.voi.variance import VarianceTable

Kind = Literal["bars", "lines", "map"]
WIDTH, FRAME_HEIGHT, BAR_HEIGHT = 6.4, 1.1, 0.36  # in inches
BAR_WIDTH = 10.0  # of a tornado, in points
MAP_FRAME, CELL = 2.4, 0.46  # in inches
MARKERS_BELOW = 12  # points on a line
MOST, MOST_LINES = 20, 8  # sets that are drawn unless more are asked for
MOST_PRICES = 5  # values of the willingness to pay with a line of their own
MOST_DOTS = 2000  # draws of a decision in a plane
NAMED_BELOW = 12  # decisions on a frontier that all have their names beside them
PAIRS_FOR_MAP = 6  # from which on pairs are drawn as a map: all pairs of four inputs
NUMBERED = 8  # inputs of a map whose cells show their numbers
PRICE = "willingness to pay"


# EVPPI


def values_figure(table: EvppiTable, kind: str | None = None, most: int | None = None) -> Figure:
    """A horizontal bar for each set, the largest on top; a line for each, if the willingness to pay varies; or a map.

    Error bars and bands are the intervals of the table, and a dashed line is EVPI.

    kind : "bars", "lines" over the willingness to pay, or "map": the EVPPI of pairs of inputs, with each input
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
        return _map(table, number)
    if chosen == "lines":
        return _lines(table, number)
    rows, label = table.largest(number), unit("EVPPI", table.currency)
    what = f"{label}{at_price(table.rows[0])}, {100 * table.level:.4g}% intervals"
    evpi = Rule(rows[0].evpi, "x", "EVPI", ORANGE)
    return _bars([row.pars for row in rows], _columns(rows, "evppi"), [evpi], what, rest=len(table.rows) - len(rows))


def reductions_figure(table: VarianceTable) -> Figure:
    """A bar for each set with its reduction of the variance of the first output, the largest on top."""
    first = table.rows[0].output
    every = sorted((row for row in table.rows if row.output == first), key=lambda row: -row.reduction)
    rows, what = every[:MOST], f"expected reduction of the variance of {first}, {100 * table.level:.4g}% intervals"
    variance = Rule(rows[0].variance, "x", "variance", ORANGE)
    names, values = [row.pars for row in rows], _columns(rows, "reduction")
    return _bars(names, values, [variance], what, rest=len(every) - len(rows))


def _kind(table: EvppiTable) -> Kind:
    if len({row.willingness_to_pay for row in table.rows}) > 1:
        return "lines"
    sizes = [len(inputs_of(row)) for row in table.rows]
    return "map" if max(sizes) == 2 and sizes.count(2) >= PAIRS_FOR_MAP else "bars"


def _columns(rows: Sequence[Any], name: str) -> tuple[Array, Array, Array]:
    """Low ends, values and high ends of rows."""
    low, value, high = (np.array([getattr(row, key) for row in rows], float) for key in ("lower", name, "upper"))
    return low, value, high


def _bars(
    names: Sequence[str],
    values: tuple[Array, Array, Array],
    rules: Sequence[Rule],
    what: str,
    *,
    accent: int | None = None,
    limits: tuple[float, float] | None = None,
    rest: int = 0,
) -> Figure:
    """Bars with intervals from the top, and dashed lines at values that they cannot exceed."""
    low, value, high = values
    more = f"\n{rest} more sets, each up to {money(float(value[-1]), 3)}, are not drawn" if rest else ""
    x = Axis(plain(what) + more, zero=True, limits=limits)
    panel = Panel([Bars(value, low, high, accent), *rules], x, Axis(names=[plain(name) for name in names]))
    return Figure([[panel]], (WIDTH, FRAME_HEIGHT + BAR_HEIGHT * len(names)))


def _lines(table: EvppiTable, most: int) -> Figure:
    """A line with a band over the willingness to pay for each of the sets with the largest values."""
    sets, marks = largest_sets(table), []
    drawn = {name for name, _ in sets[:most]}
    for i, name in enumerate(name for name in dict.fromkeys(row.pars for row in table.rows) if name in drawn):
        rows = dict(sets)[name]
        marks += _line([row.willingness_to_pay or 0.0 for row in rows], _columns(rows, "evppi"), name, i)
    rows = sets[0][1]
    x = [row.willingness_to_pay or 0.0 for row in rows]
    marks.append(Line(x, [row.evpi for row in rows], "EVPI", INK, "dashed"))
    rest = len(sets) - len(drawn)
    label = unit(PRICE, table.currency) + f"\n{rest} more sets, with smaller values, are not drawn" * bool(rest)
    y = Axis(f"{unit('EVPPI', table.currency)}, {100 * table.level:.4g}% bands", zero=True)
    return Figure([[Panel(marks, Axis(label), y)]])


def largest_sets(table: EvppiTable) -> list[tuple[str, list[EvppiRow]]]:
    """The rows of each set by rising willingness to pay, the sets with the largest values first."""
    by_set: dict[str, list[EvppiRow]] = {}
    for row in sorted(table.rows, key=lambda row: row.willingness_to_pay or 0.0):
        by_set.setdefault(row.pars, []).append(row)
    return sorted(by_set.items(), key=lambda pair: -max(row.evppi for row in pair[1]))


def _line(x: Any, values: tuple[Array, Array, Array], name: str, i: int) -> list[Any]:
    """Line i of several with its band, with markers if it has few points."""
    low, value, high = values
    style = series(i) | ({} if len(x) < MARKERS_BELOW else {"marker": ""})
    return [Line(x, value, plain(name), **style), Band(x, low, high, colour=style["colour"], opacity=0.15)]


def _map(table: EvppiTable, most: int) -> Figure:
    """A map of pairs, below and on the diagonal."""
    names, values = pair_matrix(table)
    if not names:
        raise ValueError("kind='map' is for sets of one or two inputs, but this table has none: pass kind='bars'.")
    labels, rest = [plain(name) for name in names[:most]], len(names) - most
    n, at = len(labels), np.arange(len(labels))
    cells = np.where(np.tri(n, dtype=bool), values[:n, :n], np.nan)
    label = f"{unit('EVPPI', table.currency)}{at_price(table.rows[0])}\n(EVPI {money(table.rows[0].evpi, 3)})"
    marks: list[Any] = [Heat(at, at, cells, label)]
    half = 0.5 * (np.nanmin(cells) + np.nanmax(cells))
    for i, j in np.argwhere(np.isfinite(cells) & (n <= NUMBERED)):
        colour = None if cells[i, j] < half else INK
        marks.append(Label(j, i, money(float(cells[i, j]), 3), colour=colour))
    x = Axis(f"{rest} more inputs, with smaller values, are not drawn" if rest > 0 else "", names=labels)
    size = (MAP_FRAME + CELL * max(n, 6) + 0.8, MAP_FRAME - 0.6 + CELL * max(n, 5))
    return Figure([[Panel(marks, x, Axis(names=labels))]], size)


def pair_matrix(table: EvppiTable) -> tuple[list[str], Array]:
    """The inputs of single sets and pairs, the largest values first, and a matrix of EVPPI.

    The matrix is symmetric, with single inputs on the diagonal, and NaN for sets that the table does not have.
    """
    found = {frozenset(inputs_of(row)): row.evppi for row in table.rows if len(inputs_of(row)) <= 2}
    names = list(dict.fromkeys(name for row in table.rows for name in inputs_of(row) if len(inputs_of(row)) <= 2))
    alone = {name: found.get(frozenset([name]), np.nan) for name in names}
    best = {name: max(value for pair, value in found.items() if name in pair) for name in names}
    names.sort(key=lambda name: (-np.nan_to_num(alone[name], nan=-1.0), -best[name]))
    return names, np.array([[found.get(frozenset([a, b]), np.nan) for b in names] for a in names])


def at_price(row: Any) -> str:
    """The willingness to pay of a row in words, if there is one."""
    return "" if row.willingness_to_pay is None else f" at a willingness to pay of {row.willingness_to_pay:g}"


# Costs and effects


def acceptability_figure(found: Acceptability) -> Figure:
    """A curve with a band for each decision, and the frontier: a wide line behind the one that is best on average."""
    level = f"{100 * found.level:.4g}%"
    if found.willingness_to_pay is None or len(found.willingness_to_pay) == 1:
        at = "" if found.willingness_to_pay is None else f" at a {PRICE} of {found.willingness_to_pay[0]:g}"
        what = f"probability of being best{at}\n(orange: the best on average), {level} intervals"
        ends = found.lower[0], found.probability[0], found.upper[0]
        return _bars(found.decisions, ends, [], what, accent=int(found.best[0]), limits=(0.0, 1.0))
    order = np.argsort(found.willingness_to_pay)
    x, best, marks = found.willingness_to_pay[order], found.best[order], []
    for d, name in enumerate(found.decisions):
        columns = (found.lower[order, d], found.probability[order, d], found.upper[order, d])
        style = series(d) | {"marker": ""}
        marks += [
            Line(x, columns[1], plain(name), **style),
            Band(x, *columns[::2], colour=style["colour"], opacity=0.15),
        ]
    breaks = np.flatnonzero(np.diff(best)) + 1
    frontier = np.insert(found.frontier[order], breaks, np.nan)
    marks.append(Line(np.insert(x, breaks, x[breaks]), frontier, "frontier", INK, width=5.0, opacity=0.28))
    y = Axis(f"probability of being best, {level} bands", limits=(0.0, 1.0))
    return Figure([[Panel(marks, Axis(unit(PRICE, found.currency)), y)]])


def losses_figure(table: NetBenefitTable) -> Figure:
    """A line with a band over the willingness to pay for each decision; bars, if there is one price."""
    reach, rows = (
        float(ndtri(0.5 + 0.5 * table.level)),
        sorted(table.rows, key=lambda row: row.willingness_to_pay or 0.0),
    )
    names, label = list(dict.fromkeys(row.decision for row in rows)), unit("expected loss", table.currency)

    def ends(some: Sequence[Any]) -> tuple[Array, Array, Array]:
        loss, se = (np.array([getattr(row, key) for row in some]) for key in ("loss", "loss_se"))
        return np.maximum(loss - reach * se, 0.0), loss, loss + reach * se

    if len(table.prices) == 1:
        what = f"{label}{at_price(rows[0])}\n(orange: the decision to choose, whose loss is EVPI)"
        return _bars(names, ends(rows), [], what, accent=[row.chosen for row in rows].index(True))
    marks = []
    for d, name in enumerate(names):
        some = [row for row in rows if row.decision == name]
        marks += _line([row.willingness_to_pay for row in some], ends(some), name, d)
    chosen = [row for row in rows if row.chosen]
    marks.append(Line([row.willingness_to_pay for row in chosen], [row.loss for row in chosen], "EVPI", INK, "dashed"))
    y = Axis(f"{label}, {100 * table.level:.4g}% bands", zero=True)
    return Figure([[Panel(marks, Axis(unit(PRICE, table.currency)), y)]])


def plane_figure(found: CePlane, most: int = MOST_DOTS) -> Figure:
    """Draws as dots, their means as crosses, and their ellipses; the origin is the reference."""
    some = evenly(len(found.effects), most)
    marks: list[Any] = [Rule(0.0, along, "", GREY, "solid", 0.8) for along in ("x", "y")]
    for d, name in enumerate(found.decisions):
        style, effects, costs = series(d + 1), found.effects[:, d], found.costs[:, d]  # 0 is the reference elsewhere
        colour, dash = style["colour"], style["dash"]
        marks.append(Dots(effects[some], costs[some], colour=colour, size=1.8, opacity=0.4))
        x, y = found.ellipse(d).T
        marks.append(Line(x, y, plain(name), colour, dash))
        marks.append(Dots([np.mean(effects)], [np.mean(costs)], colour=colour, marker="X", size=8, fill="white"))
    if found.willingness_to_pay is not None:
        marks.append(Rule(found.willingness_to_pay, "slope", f"{PRICE} of {found.willingness_to_pay:g}"))
    what = ("effect", unit("cost", found.currency))
    axes = [Axis(f"{each}, compared with {plain(found.reference)}") for each in what]
    return Figure([[Panel(marks, axes[0], axes[1])]])


def frontier_figure(found: IcerTable) -> Figure:
    """Means of all decisions, with a line through the frontier and names beside the dots."""
    on = [row for row in found.rows if row.status == "frontier"]
    marks: list[Any] = [Line([row.effect for row in on], [row.cost for row in on], "frontier", BLUE, marker="o")]
    for status, mark in (("dominated", "x"), ("extendedly dominated", "+")):
        rows = [row for row in found.rows if row.status == status]
        if rows:
            effects, costs = [row.effect for row in rows], [row.cost for row in rows]
            marks.append(Dots(effects, costs, label=status, colour=ORANGE, marker=mark, size=8))
    middle = 0.5 * (min(row.effect for row in found.rows) + max(row.effect for row in found.rows))
    for row in found.rows if len(found.rows) <= NAMED_BELOW else on:
        side = 1 if row.effect <= middle else -1
        marks.append(Label(row.effect, row.cost, plain(row.decision), side, -side))
    return Figure([[Panel(marks, Axis("mean effect"), Axis(unit("mean cost", found.currency)))]])


def evpi_figure(found: Evpi, level: float) -> Figure:
    """A curve with its band over the willingness to pay."""
    x, estimate, low, high = evpi_curve(found, level)
    marks = [Line(x, estimate, width=1.8, marker="" if len(x) > 1 else "o"), Band(x, low, high)]
    name = "EVPI per decision" if found.population is None else "population EVPI"
    y = Axis(f"{unit(name, found.currency)}, {100 * level:.4g}% band", zero=True)
    return Figure([[Panel(marks, Axis(unit(PRICE, found.currency)), y)]])


def evpi_curve(found: Evpi, level: float) -> tuple[Array, ...]:
    """The willingness to pay, by rising values, with EVPI and its ends."""
    columns = [np.ravel(each) for each in (found.willingness_to_pay, found.estimate, *found.interval(level))]  # type: ignore[arg-type]
    order = np.argsort(columns[0])
    return tuple(column[order] for column in columns)


def tornado_figure(table: TornadoTable) -> Figure:
    """A bar for each input from its low (blue) over the average to its high value (orange), the longest on top."""
    rows, marks = table.rows[:MOST], list[Any]()
    for j, row in enumerate(rows):
        for value, colour, label in ((row.at_low, BLUE, "low value"), (row.at_high, ORANGE, "high value")):
            bar = Line([table.average, value], [j, j], label * (j == 0), colour, width=BAR_WIDTH)
            marks.append(bar)
    marks += [Rule(table.average, "x", "average", INK, "solid", 1.0), Rule(0.0, "x", "", GREY, "dashed", 1.0)]
    what = f"net benefit of {table.decision} less {table.reference}"
    rest = len(table.rows) - len(rows)
    label = plain(unit(what, table.currency)) + f"\n{rest} more inputs, with shorter bars, are not drawn" * bool(rest)
    names, ends = [plain(row.pars) for row in rows], [0.0, *(v for row in rows for v in (row.at_low, row.at_high))]
    margin = 0.04 * (max(ends) - min(ends)) or 1.0
    x = Axis(label, limits=(min(ends) - margin, max(ends) + margin))
    return Figure([[Panel(marks, x, Axis(names=names))]], (WIDTH, FRAME_HEIGHT + BAR_HEIGHT * len(names)))


# Studies


def evsi_figure(table: EvsiTable) -> Figure:
    """A line with a band over the size for each willingness to pay, with EVPPI as a dashed line of the same colour."""
    marks = []
    for i, price in enumerate(drawn_prices(table.prices)):
        rows = table.at(price)
        name = "EVSI" if price is None else f"EVSI at {price:g}"
        marks += _line([row.size for row in rows], _columns(rows, "evsi"), name, i)
        marks.append(Rule(rows[0].evppi, "y", "EVPPI" * (i == 0), series(i)["colour"], width=1.2))
    name = "EVSI" if table.population is None else "population EVSI"
    return _by_size(marks, table.sizes, f"{unit(name, table.currency)}, {100 * table.level:.4g}% bands")


def enbs_figure(table: EnbsTable) -> Figure:
    """A line with a band over the size for each willingness to pay, with a large mark at the best size."""
    marks: list[Any] = []
    for i, price in enumerate(drawn_prices(table.prices)):
        rows, best, colour = table.at(price), table.best(price), series(i)["colour"]
        name = "ENBS" if price is None else f"ENBS at {price:g}"
        marks += _line([row.size for row in rows], _columns(rows, "enbs"), name, i)
        at = ([best.size], [best.enbs]) if best.enbs > 0 else ([], [])
        label = f"best size, {best.size}" if best.enbs > 0 else "no size is worth its cost"
        marks.append(Dots(*at, label=label, colour=colour, marker="D", size=9))
    marks.append(Rule(0.0, "y", "", INK, "solid", 1.0))
    return _by_size(
        marks, [row.size for row in table.rows], f"{unit('ENBS', table.currency)}, {100 * table.level:.4g}% bands"
    )


def drawn_prices(prices: Sequence[float | None]) -> list[float | None]:
    """The values of the willingness to pay that are drawn: the first, the last, and some between."""
    return [prices[i] for i in evenly(len(prices), MOST_PRICES)]


def _by_size(marks: list[Any], sizes: Sequence[int], label: str) -> Figure:
    x = Axis("size of the study", log=spans_decades(np.array(sizes, dtype=float)))
    return Figure([[Panel(marks, x, Axis(label, zero=True))]])
