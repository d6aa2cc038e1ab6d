"""The report of a study: what its results are worth at each size, and which size is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cbq.common.arrays import evenly
from cbq.common.tables import short
from cbq.fit.naming import capital
from cbq.fit.report import made_with
from cbq.fit.styles import spans_decades
from cbq.report import charts
from cbq.report.charts import Axis, Lines, figure, resolved
from cbq.report.document import Page, Section
from cbq.report.parts import Html, code, facts, folded, joined, notice, paragraph, table
from cbq.voi.sample_information import EvsiTable
from cbq.voi.sampling_benefit import EnbsTable, percent

COLOURS = (0, 1, 3, 4, 5)  # of values of the willingness to pay; EVPPI has the one between
MOST_ROWS = 40  # of a table; the others are folded


def study_page(
    evsi: EvsiTable | None,
    enbs: EnbsTable | None,
    title: str | None = None,
    repeat: str | None = None,
    record: Mapping[str, str] | None = None,
) -> Page:
    """The page of EVSI, of ENBS, or of both."""
    found: Any = evsi if evsi is not None else enbs
    sections = [Section("The question", _question(found))]
    if evsi is not None:
        sections.append(Section("What the study is worth", _evsi(evsi)))
    if enbs is not None:
        sections.append(Section("The size of the study", _enbs(enbs)))
    sections += [
        Section("How it was computed", _method(found)),
        Section("How to repeat it", _repeat(repeat, enbs is not None, record or {})),
    ]
    subtitle = f"The value of a study of {found.rows[0].pars}, for {len({row.size for row in found.rows})} sizes of it."
    return Page(title or "The size of the study", subtitle, _notes(found), sections)


def _question(found: EvsiTable | EnbsTable) -> Html:
    asked = (
        f"A decision is made under uncertain inputs. What would a study of {found.rows[0].pars} be worth, if the "
        f"decision were made after it, and how large should it be?"
    )
    meaning = (
        "EVSI is the expected gain in net benefit per decision from the results of a study. It grows with the size of "
        "the study, up to EVPPI, the gain from knowing the inputs exactly. ENBS is EVSI for all whom the study would "
        "serve, less its cost: the best size has the largest ENBS, and a study is worth its cost if that is above 0."
    )
    known = {"intervals": f"{100 * found.level:.4g}%"}
    prices = [price for price in found.prices if price is not None]
    if prices:
        known["willingness to pay"] = ", ".join(f"{price:g}" for price in prices)
    return joined([paragraph(asked), paragraph(meaning), facts(known)])


def _evsi(found: EvsiTable) -> Html:
    largest = max(found.rows, key=lambda row: (row.size, row.evsi))
    half = 0.5 * (largest.upper - largest.lower)
    low, value, high = (resolved(each, half) for each in (largest.lower, largest.evsi, largest.upper))
    share = f", {largest.evsi / largest.evppi:.0%} of EVPPI ({short(largest.evppi, 4)})" if largest.evppi > 0 else ""
    words = f"A study of size {largest.size} is worth {value} ({low} to {high}){_at(largest)}{share}."
    series = _series(found, "evsi", "EVSI")
    for price in _drawn(found.prices):
        rows = found.at(price)
        x = np.array([row.size for row in rows], dtype=float)
        series.append(charts.line(f"EVPPI{_at(rows[0])}", x, np.array([row.evppi for row in rows]), 2, dashed=True))
    chart = Lines(_sizes(found), Axis("EVSI", zero=True), series)
    drawn = figure([(chart, "lines of EVSI; the table below has the numbers")], "EVSI over the size of the study.")
    names = {"evsi": "EVSI", "se": "standard error", "lower": "lower", "upper": "upper", "evppi": "EVPPI"}
    return joined([paragraph(words), drawn, _table(found, names, "EVSI")])


def _enbs(found: EnbsTable) -> Html:
    words = [paragraph(f"{capital(found.in_words(price))}.") for price in _drawn(found.prices)]
    chart = Lines(_sizes(found), Axis("ENBS", zero=True), _series(found, "enbs", "ENBS"))
    drawn = figure([(chart, "lines of ENBS; the table below has the numbers")], "ENBS over the size of the study.")
    names = {"population": "population", "evsi": "EVSI", "cost": "cost", "enbs": "ENBS", "lower": "lower"}
    names |= {"upper": "upper", "best": "P(best)", "worthwhile": "P(ENBS > 0)"}
    return joined([*words, drawn, _table(found, names, "ENBS")])


def _series(found: EvsiTable | EnbsTable, name: str, label: str) -> list[dict[str, Any]]:
    series = []
    for colour, price in zip(COLOURS, _drawn(found.prices), strict=False):
        rows: Sequence[Any] = found.at(price)
        x, low, mean, high = (
            np.array([getattr(row, key) for row in rows], dtype=float) for key in ("size", "lower", name, "upper")
        )
        title = f"{label}{_at(rows[0])}"
        series += [charts.band(title, x, low, high, colour), charts.line(title, x, mean, colour)]
    return series


def _table(found: EvsiTable | EnbsTable, names: Mapping[str, str], label: str) -> Html:
    priced = found.prices != [None]
    header = ["size", *["willingness to pay"] * priced, *names.values()]
    rows = []
    for row in found.rows:
        half = 0.5 * (row.upper - row.lower)
        price = [f"{row.willingness_to_pay:g}"] if row.willingness_to_pay is not None else []
        rows.append([str(row.size), *price, *(_cell(getattr(row, key), key, half) for key in names)])
    caption = f"{label} with {100 * found.level:.4g}% intervals."
    first, rest = table(header, rows[:MOST_ROWS], caption, left=1), rows[MOST_ROWS:]
    return joined([first, folded(f"{len(rest)} more rows", table(header, rest, caption, left=1))]) if rest else first


def _cell(value: float, key: str, half: float) -> str:
    if key in ("best", "worthwhile"):
        return percent(value)
    return short(value, 2 if key == "se" else 4) if key in ("se", "population", "cost") else resolved(value, half)


def _method(found: EvsiTable | EnbsTable) -> Html:
    return joined(
        [
            paragraph(
                "The results of the study depend on the net benefits through its inputs alone. The net benefits are "
                "regressed by a Gaussian process on the input, from which the value of all results follows, or on the "
                "simulated summary of the study, with the same participants in studies of all sizes. Intervals cover "
                "the uncertainty of the regression and of the draws. Estimates are moved, as little as possible, so "
                "that they grow with the size and are at most EVPPI."
            ),
            *(paragraph(f"{each}.") for each in found.notes),
        ]
    )


def _notes(found: EvsiTable | EnbsTable) -> Html:
    notes = list(dict.fromkeys(row.note for row in found.rows if row.note))
    if not notes:
        return notice("good", "No warnings.", "Nothing in the regressions makes the intervals doubtful.")
    return joined(notice("warning", "Note:", f"{capital(note)}.") for note in notes)


def _repeat(repeat: str | None, with_costs: bool, record: Mapping[str, str]) -> Html:
    lines = "import cbq\n\nfound = cbq.evsi(outputs, inputs, pars, study, sizes)\n"
    if with_costs:
        lines += "found = cbq.enbs(found, cost, population, horizon, discount)\n"
    return joined(
        [code(repeat or f"{lines}found.report('report.html')", "how to repeat it"), facts({**record, **made_with()})]
    )


def _sizes(found: EvsiTable | EnbsTable) -> Axis:
    return Axis("size of the study", log=spans_decades(np.array([row.size for row in found.rows], dtype=float)))


def _drawn(prices: Sequence[float | None]) -> list[float | None]:
    return [prices[i] for i in evenly(len(prices), len(COLOURS))]


def _at(row: Any) -> str:
    return "" if row.willingness_to_pay is None else f" at a willingness to pay of {row.willingness_to_pay:g}"
