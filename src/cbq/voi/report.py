"""The report of an EVPPI table: what it is worth to learn inputs before deciding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cbq.common.checks import listed
from cbq.common.tables import short
from cbq.fit.naming import capital
from cbq.fit.report import made_with
from cbq.report import charts
from cbq.report.charts import Axis, Bars, Lines, Map, Reader, figure, resolved
from cbq.report.document import Page, Section
from cbq.report.parts import Html, code, facts, folded, joined, notice, paragraph, table
from cbq.voi.information import EvppiRow, EvppiTable, inputs_of
from cbq.voi.plot import MOST, PAIRS_FOR_MAP, pair_matrix

COLOURS = (0, 1, 3, 4, 5)  # of sets in a chart over the willingness to pay; EVPI has the one between
MOST_LINES = len(COLOURS)
MOST_ROWS = 40  # of the table; the others are folded
FEW = 5  # sets in a sentence
READER = "reading"
EXAMPLE = "import cbq\n\ntable = cbq.voi.values_of_information(outputs, inputs, pars)\ntable.report('report.html')"
MOST_NAMED = 6  # sets that a notice names
NOTHING = 1e-3  # of EVPI: sets that are worth less are said to be worth next to nothing


def table_page(
    found: EvppiTable, title: str | None = None, repeat: str | None = None, record: Mapping[str, str] | None = None
) -> Page:
    """The page of a table."""
    sections = [
        Section("The question", _question(found)),
        Section("The answer", answer_part(found)),
        Section("How it was computed", method_part(found)),
        Section("How to repeat it", repeat_part(repeat or EXAMPLE, record or {})),
    ]
    sets = len({row.pars for row in found.rows})
    subtitle = f"The value of learning {sets} set{'s' * (sets > 1)} of inputs, from {found.rows[0].n} draws of a model."
    return Page(title or "The value of information", subtitle, notes_part(found), sections)


def _question(found: EvppiTable) -> Html:
    prices = _prices(found)
    asked = "A decision is made under uncertain inputs. What would it be worth to learn some of them before deciding?"
    meaning = (
        "EVPPI is the expected gain in net benefit per decision from knowing the inputs of a set exactly; EVPI is that "
        "of knowing all of them, which no set exceeds. A study can be worth its cost only if that is below EVPPI, over "
        "all decisions that it would inform."
    )
    known = {"draws": str(found.rows[0].n), "intervals": f"{100 * found.level:.4g}%"}
    if prices:
        known["willingness to pay"] = ", ".join(f"{price:g}" for price in prices)
    return joined([paragraph(asked), paragraph(meaning), facts(known)])


def answer_part(found: EvppiTable, at: float | None = None) -> Html:
    """EVPPI in words, as charts, and as a table; of several values of the willingness to pay, at the one nearest to at.

    By default at the one where the largest EVPPI is.
    """
    prices = _prices(found)
    parts = [paragraph(_in_words(found))]
    if len(prices) > 1:
        parts += [_reader(found, prices).html(), _over_prices(found, prices)]
    else:
        parts += [_bars(found), *_pairs(found)]
    return joined([*parts, _tables(found, at)])


def _in_words(found: EvppiTable) -> str:
    best = found.largest(1)[0]
    at = "" if best.willingness_to_pay is None else f" at a willingness to pay of {best.willingness_to_pay:g}"
    half = 0.5 * (best.upper - best.lower)
    low, value, high = (resolved(each, half) for each in (best.lower, best.evppi, best.upper))
    share = f", {best.evppi / best.evpi:.0%} of EVPI ({short(best.evpi, 4)})" if best.evpi > 0 else ""
    small = sum(row.evppi <= NOTHING * row.evpi for row in found.rows)
    none = f" {small} of {len(found.rows)} are worth next to nothing." if small else ""
    return f"{capital(best.pars)} is worth most: {value} ({low} to {high}){at}{share}.{none}"


def _bars(found: EvppiTable) -> Html:
    rows = found.largest(MOST)
    drawn = [{"label": row.pars, "value": row.evppi, "low": row.lower, "high": row.upper} for row in rows]
    rule = {"value": rows[0].evpi, "label": f"EVPI, {short(rows[0].evpi, 4)}"}
    rest = len(found.rows) - len(rows)
    caption = "EVPPI of each set with its interval, the largest on top." + f" {rest} more are in the table." * bool(
        rest
    )
    return figure([(Bars(Axis("EVPPI"), drawn, rule), "bars of EVPPI; the table below has the numbers")], caption)


def _pairs(found: EvppiTable) -> list[Html]:
    """A map of pairs, if there are many."""
    if sum(len(inputs_of(row)) == 2 for row in found.rows) < PAIRS_FOR_MAP:
        return []
    names, values = pair_matrix(found)
    names, values = names[:MOST], values[:MOST, :MOST]
    places = np.arange(len(names), dtype=np.float64)
    numbers = [str(i) for i in range(1, len(names) + 1)]
    axes = Axis("", ticks=numbers), Axis("", ticks=[f"{i}. {name}" for i, name in zip(numbers, names, strict=True)])
    caption = "EVPPI of pairs of inputs, with each input alone on the diagonal."
    return [figure([(Map(*axes, places, places, values, "EVPPI"), caption)], caption)]


def _over_prices(found: EvppiTable, prices: list[float]) -> Html:
    x, series = np.array(prices), []
    for i, (name, rows) in enumerate(_largest_sets(found, prices)[:MOST_LINES]):
        low, mean, high = (np.array([getattr(row, key) for row in rows]) for key in ("lower", "evppi", "upper"))
        series += [charts.band(name, x, low, high, COLOURS[i]), charts.line(name, x, mean, COLOURS[i])]
    evpi = np.array([row.evpi for row in _largest_sets(found, prices)[0][1]])
    series.append(charts.line("EVPI", x, evpi, 2, dashed=True))
    chart = Lines(Axis("willingness to pay"), Axis("EVPPI", zero=True), series, reader=READER)
    rest = len({row.pars for row in found.rows}) - MOST_LINES
    caption = "EVPPI over the willingness to pay." + f" {rest} more with smaller values are in the table." * (rest > 0)
    return figure([(chart, "lines of EVPPI; the table below has the numbers")], caption)


def _reader(found: EvppiTable, prices: list[float]) -> Reader:
    quantities = []
    for name, rows in _largest_sets(found, prices)[:MOST_LINES]:
        mean, low, high = (np.array([getattr(row, key) for row in rows]) for key in ("evppi", "lower", "upper"))
        quantities.append((f"EVPPI of {name}", mean, low, high))
    evpi = np.array([row.evpi for row in _largest_sets(found, prices)[0][1]])
    quantities.append(("EVPI", evpi, np.full(len(evpi), np.nan), np.full(len(evpi), np.nan)))
    return Reader(READER, ["willingness to pay"], [np.array(prices)], quantities, found.level, [len(prices) // 2])


def _largest_sets(found: EvppiTable, prices: list[float]) -> list[tuple[str, list[EvppiRow]]]:
    """The rows of each set in the order of the prices, those with the largest values first."""
    by_set: dict[str, dict[float | None, EvppiRow]] = {}
    for row in found.rows:
        by_set.setdefault(row.pars, {})[row.willingness_to_pay] = row
    rows = [(name, [each[price] for price in prices]) for name, each in by_set.items()]
    return sorted(rows, key=lambda pair: -max(row.evppi for row in pair[1]))


def _tables(found: EvppiTable, at: float | None) -> Html:
    """The table at one willingness to pay, the largest first, and all of it folded if it is longer."""
    every, rows = found.largest(len(found.rows)), found.rows
    prices = _prices(found)
    if len(prices) > 1:
        wanted = every[0].willingness_to_pay if at is None else at
        nearest = min(prices, key=lambda price: abs(price - (wanted or 0.0)))
        rows = tuple(row for row in found.rows if row.willingness_to_pay == nearest)
    first = sorted(rows, key=lambda row: -row.evppi)[:MOST_ROWS]
    price = "" if len(prices) < 2 else f" at a willingness to pay of {first[0].willingness_to_pay:g}"
    caption = f"EVPPI{price} with {100 * found.level:.4g}% intervals, the largest first."
    shown = _table(first, caption)
    if len(first) == len(every):
        return shown
    return joined([shown, folded(f"All {len(every)} rows", _table(found.rows, "EVPPI of all sets."))])


def _table(given: Sequence[EvppiRow], caption: str) -> Html:
    priced = given[0].willingness_to_pay is not None
    header = ["inputs", *["willingness to pay"] * priced, "EVPPI", "standard error", "lower", "upper", "share of EVPI"]
    rows = []
    for row in given:
        half = 0.5 * (row.upper - row.lower)
        price = [f"{row.willingness_to_pay:g}"] if row.willingness_to_pay is not None else []
        numbers = [resolved(row.evppi, half), short(row.se, 2), resolved(row.lower, half), resolved(row.upper, half)]
        rows.append([row.pars, *price, *numbers, f"{row.evppi / row.evpi:.0%}" if row.evpi > 0 else "-"])
    return table(header, rows, caption, left=1)


def method_part(found: EvppiTable) -> Html:
    """How EVPPI was computed."""
    row = max(found.rows, key=lambda each: each.landmarks)
    return joined(
        [
            paragraph(
                "The net benefits are regressed on the inputs of a set by a Gaussian process, whose hyperparameters "
                "are fitted. EVPPI is the posterior expectation of the gain, and its interval covers the uncertainty "
                "of the regression and of the draws. No set is worth less than a part of it: estimates are moved, as "
                "little as possible, to be so."
            ),
            facts({"draws": str(row.n), "landmarks of the regressions, at most": str(row.landmarks)}),
        ]
    )


def notes_part(found: EvppiTable) -> Html:
    """What is doubtful, or that nothing is."""
    about: dict[str, dict[str, None]] = {}  # the sets that each note is about
    for row in found.rows:
        if row.note:
            about.setdefault(row.note, {})[row.pars] = None
    if not about:
        return notice("good", "No warnings.", "Nothing in the regressions makes the intervals doubtful.")
    sets = [(note, listed(names, MOST_NAMED)) for note, names in about.items()]
    return joined(notice("warning", f"{names}:", f"{note}.") for note, names in sets)


def repeat_part(repeat: str, record: Mapping[str, str]) -> Html:
    """Code or a command, the record of the run, and the versions behind the page."""
    return joined([code(repeat, "how to repeat it"), facts({**record, **made_with()})])


def _prices(found: EvppiTable) -> list[float]:
    return sorted({row.willingness_to_pay for row in found.rows if row.willingness_to_pay is not None})
