"""The page of an appendix: costs and effects, who is best how often, and what it is worth to learn more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cbq.common.arrays import Array
from cbq.common.tables import short
from cbq.report import charts
from cbq.report.charts import Axis, Bars, Lines, Reader, figure, resolved
from cbq.report.document import Page, Section
from cbq.report.parts import Html, facts, folded, heading, joined, notice, paragraph, table
from cbq.voi.cost_effectiveness import CePlane, IcerRow, IcerTable, number_text
from cbq.voi.curves import dots
from cbq.voi.perfect import Evpi
from cbq.voi.report import answer_part, method_part, notes_part, repeat_part
from cbq.voi.submission import Acceptability, Appendix

COLOURS = (0, 1, 3, 4, 5)  # of decisions; frontiers and lines of the willingness to pay have the one between
READER = "price"
MOST_DOTS = 300  # draws of a decision in the chart of the plane
MOST_ROWS = 12  # of the table of probabilities; all are folded
EXAMPLE = (
    "import cbq\n\nfound = cbq.voi.appendix((effects, costs), inputs, willingness_to_pay=range(0, 50_001, 1000))\n"
    "found.report('report.html')"
)


def appendix_page(
    found: Appendix, title: str | None = None, repeat: str | None = None, record: Mapping[str, str] | None = None
) -> Page:
    """The page of an appendix, with a section for each part that there is."""
    names = found.ceac.decisions
    subtitle = f"{len(names)} decisions ({', '.join(names)}), from {found.ceac.n} draws of a model."
    sections = [*_sections(found), Section("How to repeat it", repeat_part(repeat or EXAMPLE, record or {}))]
    return Page(title or "Probabilistic sensitivity analysis", subtitle, _top(found), sections)


def _top(found: Appendix) -> Html:
    if found.evppi is not None:
        return notes_part(found.evppi)
    if found.icers is not None and (doubtful := [row for row in found.icers.rows if row.note]):
        return joined(notice("remark", f"{row.decision}:", f"{row.note}.") for row in doubtful)
    return Html("")


def _sections(found: Appendix) -> Iterator[Section]:
    if found.icers is not None and found.plane is not None:
        yield Section("Costs and effects", joined([*_ratios(found.icers), *_plane(found.plane)]))
    yield Section("Which decision is best", _acceptability(found.ceac, found.evpi))
    yield Section("The value of perfect information", _perfect(found.evpi, found.ceac))
    if found.evppi is not None:
        at = None if found.plane is None else found.plane.willingness_to_pay
        yield Section("The value of learning inputs", answer_part(found.evppi, at))
        yield Section("How it was computed", method_part(found.evppi))


def _ratios(found: IcerTable) -> list[Html]:
    header = ["decision", "status", "effect", "cost", "ICER", "interval", "compared with", "more effect", "more cost"]
    rows = [_ratio_cells(row) for row in found.rows]
    caption = (
        f"Mean effects and costs, by rising cost, and the cost of one more unit of effect (ICER). Intervals of "
        f"{100 * found.level:.4g}%: of the willingness to pay from which on a decision is better than the one it is "
        f"compared with, over the draws; infinite if in some of them it never is."
    )
    return [paragraph(_in_words(found)), table(header, rows, caption, left=2)]


def _ratio_cells(row: IcerRow) -> list[str]:
    interval = f"{number_text(row.lower, 4)} to {number_text(row.upper, 4)}" if row.comparator else "-"
    means, ratio = [short(row.effect, 5), short(row.cost, 6)], [number_text(row.icer, 5), interval]
    more = [number_text(each, 5) for each in (row.incremental_effect, row.incremental_cost)]
    return [row.decision, row.status, *means, *ratio, row.comparator or "-", *more]


def _in_words(found: IcerTable) -> str:
    """Which decision is best on average at which willingness to pay."""
    on = [row for row in found.rows if row.status == "frontier"]
    if len(on) == 1:
        return f"{on[0].decision} is best on average at every willingness to pay: it dominates all others."
    places = [f"{on[0].decision} up to a willingness to pay of {number_text(on[1].icer, 4)}"]
    for row, after in zip(on[1:], [*on[2:], None], strict=True):
        places.append(f"{row.decision} from there" + (f" to {number_text(after.icer, 4)}" if after else " on"))
    return f"Best on average: {', '.join(places)}."


def _plane(found: CePlane) -> list[Html]:
    some = dots(len(found.effects), MOST_DOTS)
    effects, costs = found.effects[some], found.costs[some]
    ellipses = [found.ellipse(d, 80) for d in range(len(found.decisions))]
    reach = [np.array([min(each.min(), 0.0), max(each.max(), 0.0)]) for each in (effects, costs)]
    reach = [
        np.array([min(ends[0], *(e[:, i].min() for e in ellipses)), max(ends[1], *(e[:, i].max() for e in ellipses))])
        for i, ends in enumerate(reach)
    ]
    zero = np.zeros(2)
    series: list[Any] = [charts.line("", reach[0], zero, 2), charts.line("", zero, reach[1], 2)]
    for d, name in enumerate(found.decisions):
        colour = COLOURS[(d + 1) % len(COLOURS)]  # the first is that of the reference in other charts
        cloud = charts.dots("", effects[:, d], costs[:, d], colour=colour)
        x, y = ellipses[d].T
        series += [cloud, charts.line(name, x, y, colour, dashed=d + 1 >= len(COLOURS))]
    caption = (
        f"Differences from {found.reference} in {len(some)} of {len(found.effects)} draws, with ellipses that hold "
        f"{100 * found.level:.4g}% of normal draws."
    )
    if found.willingness_to_pay is not None:
        price = found.willingness_to_pay
        x, y = _price_line(price, *reach)
        series.append(charts.line(f"willingness to pay of {price:g}", x, y, 2, dashed=True))
        shares = ", ".join(_below(found))
        caption += f" Below the line, where a decision is worth its cost: {shares}."
    chart = Lines(Axis("more effect"), Axis("more cost"), series, height=340)
    text = "dots of draws in the cost-effectiveness plane; the table above has the means"
    return [heading("The cost-effectiveness plane"), figure([(chart, text)], caption)]


def _below(found: CePlane) -> Iterator[str]:
    for name, share, low, high in zip(found.decisions, *found.share_below(), strict=True):
        half = 0.5 * (high - low)
        low, share, high = (resolved(100 * float(each), 100 * float(half)) for each in (low, share, high))
        yield f"{share}% ({low}% to {high}%) of the draws of {name}"


def _price_line(price: float, xs: Array, ys: Array) -> tuple[Array, Array]:
    """The part of the line through the origin with this slope that is inside a box."""
    inside = np.clip(xs, *(ys / price)) if price > 0 else xs
    return inside, price * inside


def _acceptability(found: Acceptability, perfect: Evpi) -> Html:
    words = (
        "The probability that a decision has the largest net benefit, as the share of draws in which it has. The one "
        "to choose is that with the largest mean net benefit, which need not be the one that is best most often."
    )
    if found.willingness_to_pay is None or len(found.willingness_to_pay) == 1:
        return joined([paragraph(words), _bars(found), _probabilities(found)])
    return joined([paragraph(words), _reader(found, perfect).html(), _curves(found), _probabilities(found)])


def _bars(found: Acceptability) -> Html:
    columns = zip(found.decisions, found.probability[0], found.lower[0], found.upper[0], strict=True)
    rows = [{"label": name, "value": p, "low": low, "high": high} for name, p, low, high in columns]
    caption = f"Best on average: {found.decisions[found.best[0]]}."
    chart = Bars(Axis("probability of being best"), rows)
    return figure([(chart, "bars of probabilities; the table below has the numbers")], caption)


def _by_price(found: Acceptability) -> Acceptability:
    """The same with a willingness to pay that rises."""
    prices = found.willingness_to_pay
    assert prices is not None
    order = np.argsort(prices)
    names = ("willingness_to_pay", "probability", "lower", "upper", "best")
    return replace(found, **{name: getattr(found, name)[order] for name in names})


def _curves(given: Acceptability) -> Html:
    found = _by_price(given)
    x = found.willingness_to_pay
    assert x is not None
    series = []
    for d, name in enumerate(found.decisions):
        colour, dashed = COLOURS[d % len(COLOURS)], d >= len(COLOURS)
        series.append(charts.band(name, x, found.lower[:, d], found.upper[:, d], colour))
        series.append(charts.line(name, x, found.probability[:, d], colour, dashed=dashed))
    series.append(charts.dots("best on average (frontier)", x, found.frontier, colour=2))
    chart = Lines(Axis("willingness to pay"), Axis("probability", zero=True), series, reader=READER)
    caption = f"Acceptability curves with {100 * found.level:.4g}% bands; dots mark the decision to choose."
    return figure([(chart, "acceptability curves; the table below has the numbers")], caption)


def _reader(given: Acceptability, perfect: Evpi) -> Reader:
    found = _by_price(given)
    assert found.willingness_to_pay is not None
    quantities = [
        (f"probability that {name} is best", found.probability[:, d], found.lower[:, d], found.upper[:, d])
        for d, name in enumerate(found.decisions)
    ]
    prices, estimate, low, high = _perfect_curve(perfect, found.level)
    quantities.append(("EVPI", estimate, low, high))
    return Reader(READER, ["willingness to pay"], [prices], quantities, found.level, [len(prices) // 2])


def _probabilities(found: Acceptability) -> Html:
    K, prices = len(found.probability), found.willingness_to_pay
    header = [*["willingness to pay"] * (prices is not None), *found.decisions, "best on average"]
    rows = []
    for k in range(K):
        price = [] if prices is None else [f"{prices[k]:g}"]
        rows.append([*price, *(f"{p:.3f}" for p in found.probability[k]), found.decisions[found.best[k]]])
    caption = f"Probability of being best, from {found.n} draws."
    if K <= MOST_ROWS:
        return table(header, rows, caption)
    return folded(f"Probabilities at {K} values of the willingness to pay", table(header, rows, caption))


def _perfect_curve(found: Evpi, level: float) -> tuple[Array, Array, Array, Array]:
    """The willingness to pay, by rising values, with EVPI and its ends."""
    order = np.argsort(np.ravel(np.asarray(found.willingness_to_pay)))
    columns = (found.willingness_to_pay, found.estimate, *found.interval(level))
    prices, estimate, low, high = (np.ravel(np.asarray(each))[order] for each in columns)
    return prices, estimate, low, high


def _perfect(found: Evpi, accepted: Acceptability) -> Html:
    level = accepted.level
    words = paragraph(
        "What it would be worth, per decision, to know all inputs before deciding (EVPI): the expected loss from "
        "choosing under uncertainty, and the most that any study can be worth."
    )
    if np.ndim(found.estimate) == 0 or np.size(found.estimate) == 1:
        low, high = (float(np.ravel(end)[0]) for end in found.interval(level))
        value, half = float(np.ravel(found.estimate)[0]), 0.5 * (high - low)
        known = f"{resolved(value, half)} ({resolved(low, half)} to {resolved(high, half)})"
        return joined([words, facts({"EVPI": known})])
    x, estimate, low_end, high_end = _perfect_curve(found, level)
    series = [charts.band("EVPI", x, low_end, high_end, 0), charts.line("EVPI", x, estimate, 0)]
    chart = Lines(Axis("willingness to pay"), Axis("EVPI", zero=True), series, reader=READER)
    caption = f"EVPI per decision with {100 * level:.4g}% bands."
    return joined([words, figure([(chart, "EVPI over the willingness to pay")], caption)])
