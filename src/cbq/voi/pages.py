"""The pages of decisions: EVPPI, studies, and the appendix of a submission."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from cbq.common import Array, listed
from cbq.report import (
    Fragment,
    Page,
    Reader,
    Section,
    capital,
    code,
    facts,
    figure_html,
    heading,
    joined,
    made_with,
    notice,
    paragraph,
    part_of,
    resolved,
    sentences,
)
from cbq.voi.cost_effectiveness import CePlane, IcerTable, number_text
from cbq.voi.figures import (
    MOST,
    PAIRS_FOR_MAP,
    PRICE,
    acceptability_figure,
    at_price,
    drawn_prices,
    enbs_figure,
    evpi_curve,
    evpi_figure,
    evsi_figure,
    largest_sets,
    losses_figure,
    plane_figure,
    tornado_figure,
    values_figure,
)
from cbq.voi.information import NEXT_TO_NOTHING, EvppiRow, EvppiTable, inputs_of
from cbq.voi.money import money, nearest_price, unit
from cbq.voi.one_way import TornadoTable
from cbq.voi.perfect import Evpi, NetBenefitTable
from cbq.voi.sample_information import EvsiTable
from cbq.voi.sampling_benefit import EnbsTable
from cbq.voi.submission import Acceptability, Appendix

MOST_LINES = 5  # sets in a chart over the willingness to pay, and under its slider
MOST_DOTS = 300  # draws of a decision in the chart of the plane
MOST_NAMED = 6  # sets that a notice names
READER, PRICES = "reading", "prices"  # sliders
GOOD = "Nothing in the regressions makes the intervals doubtful."
EXAMPLES = {
    EvppiTable: "table = cbq.evppi(outputs, inputs, pars)\ntable.report('report.html')",
    EvsiTable: "found = cbq.evsi(outputs, inputs, pars, study, sizes)\nfound.report('report.html')",
    EnbsTable: (
        "found = cbq.evsi(outputs, inputs, pars, study, sizes)\n"
        "found = cbq.enbs(found, cost, population, horizon, discount)\nfound.report('report.html')"
    ),
    Appendix: (
        "found = cbq.voi.appendix((effects, costs), inputs, willingness_to_pay=range(0, 50_001, 1000))\n"
        "found.report('report.html')"
    ),
}


def _repeat(found: Any, repeat: str | None, record: Mapping[str, str] | None) -> Section:
    """Code or a command, the record of the run, and the versions behind the page."""
    lines = repeat or f"import cbq\n\n{EXAMPLES[type(found)]}"
    body = joined([code(lines, "how to repeat it"), facts({**(record or {}), **made_with()})])
    return Section("How to repeat it", body)


def _known(level: float, prices: list[Any]) -> dict[str, str]:
    priced = ", ".join(f"{price:g}" for price in prices if price is not None)
    return {"intervals": f"{100 * level:.4g}%"} | ({"willingness to pay": priced} if priced else {})


def _interval(low: float, value: float, high: float, currency: str = "") -> str:
    """A value with its interval, in the digits that it leaves."""
    half = 0.5 * (high - low)
    before = f"{currency} " if currency else ""
    return f"{before}{resolved(value, half)} ({resolved(low, half)} to {resolved(high, half)})"


def _remarked(rows: Sequence[Any], who: Callable[[Any], str]) -> Fragment:
    """The notes of rows, each once with the names and the prices of those it is about: warnings first, then remarks."""
    every, about = {row.willingness_to_pay for row in rows}, dict[tuple[bool, str], list[Any]]()
    for row in rows:
        if row.note:
            about.setdefault((row.doubtful, row.note), []).append(row)
    boxes = [] if any(doubtful for doubtful, _ in about) else [notice("good", "No warnings.", GOOD)]
    for (doubtful, note), some in sorted(about.items(), key=lambda each: not each[0][0]):
        prices = {row.willingness_to_pay for row in some}
        where = "" if prices == every else f" at a {PRICE} {_range(prices)}"
        names = listed(dict.fromkeys(map(who, some)), MOST_NAMED)
        boxes.append(notice("warning" if doubtful else "remark", f"{names}{where}:", f"{note}."))
    return joined(boxes)


def _range(prices: Iterable[float]) -> str:
    """One price, or the smallest and the largest of several, in words."""
    low, high = min(prices), max(prices)
    return f"of {low:g}" if low == high else f"from {low:g} to {high:g}"


# EVPPI


def table_page(
    found: EvppiTable, title: str | None = None, repeat: str | None = None, record: Mapping[str, str] | None = None
) -> Page:
    """The page of a table of EVPPI."""
    asked = "A decision is made under uncertain inputs. What would it be worth to learn some of them before deciding?"
    meaning = (
        "EVPPI is the expected gain in net benefit per decision from knowing the inputs of a set exactly; EVPI is the "
        "gain from knowing all of them, which no set exceeds. A study can be worth its cost only if that is below "
        "EVPPI, over all decisions that it would inform."
    )
    known = facts({"draws": str(found.rows[0].n)} | _known(found.level, found.prices))
    sections = [
        Section("The question", joined([paragraph(asked), paragraph(meaning), known])),
        Section("The answer", _values(found)),
        Section("How it was computed", _method(found)),
        _repeat(found, repeat, record),
    ]
    sets = len({row.pars for row in found.rows})
    subtitle = f"The value of learning {sets} set{'s' * (sets > 1)} of inputs, from {found.rows[0].n} draws of a model."
    return Page(title or "The value of information", subtitle, _remarked(found.rows, lambda row: row.pars), sections)


def _values(found: EvppiTable, at: float | None = None) -> Fragment:
    """EVPPI in words, as charts, and as a table, at the willingness to pay nearest to `at`.

    By default at the one where the largest EVPPI is.
    """
    price = nearest_price(found.prices, found.largest(1)[0].willingness_to_pay or 0.0 if at is None else at)
    ordered = found.largest(len(found.rows))
    first = [row for row in ordered if row.willingness_to_pay == price]
    further = [each for each in drawn_prices(found.prices) if each != price]
    others = [row for each in further for row in ordered if row.willingness_to_pay == each]
    parts = [paragraph(_best_set(found, first[0])), *map(paragraph, _small_sets(found, first))]
    caption = f"{unit('EVPPI', found.currency)} with {100 * found.level:.4g}% intervals, the largest first."
    if len(found.prices) == 1:
        parts.append(figure_html(values_figure(found, "bars").panels, "EVPPI of each set, the largest on top."))
        if sum(len(inputs_of(row)) == 2 for row in found.rows) >= PAIRS_FOR_MAP:
            pairs = "EVPPI of pairs of inputs, with each input alone on the diagonal."
            parts.append(figure_html(values_figure(found, "map").panels, pairs))
        return joined([*parts, part_of(replace(found, rows=tuple(first)), caption)])
    drawn = figure_html(
        values_figure(found, "lines", MOST_LINES).panels, "EVPPI over the willingness to pay.", reader=READER
    )
    caption += f" The table has {1 + len(further)} of {len(found.prices)} values of the willingness to pay."
    table = part_of(replace(found, rows=(*first, *others)), caption, len(first))
    return joined([*parts, _values_reader(found, price).html(), drawn, table])


def _best_set(found: EvppiTable, best: EvppiRow) -> str:
    """The set that is worth most at a willingness to pay, in a sentence."""
    value = _interval(best.lower, best.evppi, best.upper, found.currency)
    share = ""
    if best.evpi > 0:
        reach = float(ndtri(0.5 + 0.5 * found.level))
        low, high = (min(max(best.share + sign * reach * best.share_se, 0.0), 1.0) for sign in (-1, 1))
        ends = [max(best.remaining + sign * reach * best.remaining_se, 0.0) for sign in (-1, 1)]
        left = _interval(ends[0], best.remaining, ends[1])
        share = (
            f", which is {best.share:.1%} ({low:.1%} to {high:.1%}) of EVPI, {money(best.evpi)}; all other inputs "
            f"together could add {left}"
        )
    return f"Learning {best.pars} is worth most{at_price(best)}: {value}{share}."


def _small_sets(found: EvppiTable, rows: Sequence[EvppiRow]) -> list[str]:
    """The sets that are worth next to nothing, at the willingness to pay of these rows, and at all of them."""
    small = [row.pars for row in rows if row.evppi <= NEXT_TO_NOTHING * row.evpi]
    if not small:
        return []
    always = [
        each for each in small if all(row.evppi <= NEXT_TO_NOTHING * row.evpi for row in found.rows if row.pars == each)
    ]
    words = (
        f"{len(small)} of {len(rows)} sets are worth less than {NEXT_TO_NOTHING:.1%} of EVPI{at_price(rows[0])}, so "
        f"that no study of one of them alone can be worth much: {listed(small, MOST_NAMED)}."
    )
    if len(found.prices) > 1 and always:
        words += (
            " All of these are" if len(always) == len(small) else f" Of these, {listed(always, MOST_NAMED)} are"
        ) + " worth as little at every willingness to pay."
    return [words]


def _values_reader(found: EvppiTable, at: float | None) -> Reader:
    quantities, sets = [], largest_sets(found)
    for name, rows in sets[:MOST_LINES]:
        mean, low, high = (np.array([getattr(row, key) for row in rows]) for key in ("evppi", "lower", "upper"))
        quantities.append((f"EVPPI of {name}", mean, low, high))
    rows, reach = sets[0][1], float(ndtri(0.5 + 0.5 * found.level))
    evpi, se = (np.array([getattr(row, key) for row in rows]) for key in ("evpi", "evpi_se"))
    quantities.append(("EVPI", evpi, np.maximum(evpi - reach * se, 0.0), evpi + reach * se))
    prices = np.array([row.willingness_to_pay for row in rows])
    return Reader(READER, [unit(PRICE, found.currency)], [prices], quantities, found.level, [_place(prices, at)])


def _place(prices: Array, at: float | None) -> int:
    """The index of the price nearest to `at`, or of the middle one."""
    return len(prices) // 2 if at is None else int(np.argmin(np.abs(prices - at)))


def _method(found: EvppiTable) -> Fragment:
    words = (
        "The net benefits are regressed on the inputs of a set by a Gaussian process with fitted hyperparameters. "
        "EVPPI is the posterior expectation of the gain, and its interval covers the uncertainty of the regression and "
        "of the draws. No set is worth less than a part of it: estimates are moved, as little as possible, to be so."
    )
    most = max(row.landmarks for row in found.rows)
    known = {"draws": str(found.rows[0].n), "landmarks of the regressions, at most": str(most)}
    return joined([paragraph(words), facts(known)])


# Studies


def study_page(
    evsi: EvsiTable | None,
    enbs: EnbsTable | None,
    title: str | None = None,
    repeat: str | None = None,
    record: Mapping[str, str] | None = None,
) -> Page:
    """The page of EVSI, of ENBS, or of both."""
    found: Any = evsi if evsi is not None else enbs
    pars = found.rows[0].pars
    asked = (
        f"A decision is made under uncertain inputs. What would a study of {pars} be worth, if the decision were made "
        f"after it, and how large should it be?"
    )
    meaning = (
        "EVSI is the expected gain in net benefit per decision from the results of a study. It grows with the size of "
        "the study, up to EVPPI, the gain from knowing the inputs exactly. ENBS is EVSI for all whom the study would "
        "serve, less its cost: the best size has the largest ENBS, and a study is worth its cost if that is above 0."
    )
    method = (
        "Given its inputs, the results of the study do not depend on the net benefits. The net benefits are regressed "
        "by a Gaussian process on the input, from which the value of all results follows, or on the simulated summary "
        "of the study, with the same participants in studies of all sizes. Intervals cover the uncertainty of the "
        "regression and of the draws. Estimates are moved, as little as possible, so that they grow with the size and "
        "are at most EVPPI."
    )
    known = facts(_known(found.level, found.prices))
    sections = [Section("The question", joined([paragraph(asked), paragraph(meaning), known]))]
    if evsi is not None:
        sections.append(Section("What the study is worth", _evsi(evsi)))
    if enbs is not None:
        words = [paragraph(f"{capital(enbs.in_words(price))}.") for price in drawn_prices(enbs.prices)]
        sections.append(Section("The size of the study", joined([*words, *_by_size(enbs, enbs_figure(enbs), "ENBS")])))
    sections.append(Section("How it was computed", joined(map(paragraph, [method, *sentences(found.notes)]))))
    top = _remarked(found.rows, lambda row: f"size {row.size}")
    subtitle = f"The value of a study of {pars}, for {len({row.size for row in found.rows})} sizes of it."
    repeated = _repeat(found if enbs is None else enbs, repeat, record)
    return Page(title or "The size of the study", subtitle, top, [*sections, repeated])


def _evsi(found: EvsiTable) -> Fragment:
    row = max(found.rows, key=lambda row: (row.size, row.evsi))
    share = f", {row.evsi / row.evppi:.0%} of EVPPI ({money(row.evppi)})" if row.evppi > 0 else ""
    value = _interval(row.lower, row.evsi, row.upper, found.currency)
    words = paragraph(f"A study of size {row.size} is worth {value}{at_price(row)}{share}.")
    return joined([words, *_by_size(found, evsi_figure(found), "EVSI")])


def _by_size(found: EvsiTable | EnbsTable, figure: Any, name: str) -> list[Fragment]:
    table = part_of(found, f"{unit(name, found.currency)} with {100 * found.level:.4g}% intervals.")
    return [figure_html(figure.panels, f"{name} over the size of the study."), table]


# The appendix of a submission


def appendix_page(
    found: Appendix, title: str | None = None, repeat: str | None = None, record: Mapping[str, str] | None = None
) -> Page:
    """The page of an appendix, with a section for each part that there is."""
    names = found.ceac.decisions
    subtitle = f"{len(names)} decisions ({', '.join(names)}), from {found.ceac.n} draws of a model."
    top = Fragment() if found.evppi is None else _remarked(found.evppi.rows, lambda row: row.pars)
    sections = [*_sections(found), _repeat(found, repeat, record)]
    return Page(title or "Probabilistic sensitivity analysis", subtitle, top, sections)


def _sections(found: Appendix) -> Iterator[Section]:
    if found.icers is not None and found.plane is not None:
        yield Section("Costs and effects", joined([*_ratios(found.icers), *_plane(found.plane)]))
    yield Section("Which decision is best", _acceptability(found.ceac, found.evpi, found.line))
    yield Section("Net benefits and expected losses", _losses(found.net_benefits, found.line))
    yield Section("The value of perfect information", _perfect(found.evpi, found.ceac.level, found.line))
    if found.evppi is not None:
        yield Section("The value of learning inputs", _values(found.evppi, found.line))
    if found.tornado is not None:
        yield Section("Which inputs move the decision", _tornado(found.tornado))
    if found.evppi is not None:
        yield Section("How it was computed", _method(found.evppi))


def _tornado(found: TornadoTable) -> Fragment:
    low, high = (f"{100 * share:g}%" for share in found.between)
    words = (
        f"The expected net benefit of {found.decision} less {found.reference}{at_price(found.rows[0])}, "
        f"{money(found.average)} on average, given that one input is low or high, while all others vary. Where a bar "
        f"crosses 0, the input alone changes which of the two is better."
    )
    caption = f"Each input at the values that {low} and {high} of the draws are below, with the best decision there."
    drawn = figure_html(
        tornado_figure(found).panels,
        "A bar for each input, the longest on top.",
        height=60 + 26 * len(found.rows[:MOST]),
    )
    return joined([paragraph(words), drawn, part_of(found, caption)])


def _ratios(found: IcerTable) -> list[Fragment]:
    """Which decision is best on average at which willingness to pay, and the table."""
    on = [row for row in found.rows if row.status == "frontier"]
    places = [f"{on[0].decision} up to a willingness to pay of {number_text(on[1].icer, 4)}"] if len(on) > 1 else []
    for row, after in zip(on[1:], [*on[2:], None], strict=False):
        places.append(f"{row.decision} from there" + (f" to {number_text(after.icer, 4)}" if after else " on"))
    alone = f"{on[0].decision} is best on average at every willingness to pay: it dominates all others."
    caption = (
        f"Mean effects and costs, by rising cost. The ICER is the cost of one more unit of effect. In "
        f"{100 * found.level:.4g}% of draws, the lowest willingness to pay at which a decision beats its comparator is "
        f"between lower and upper."
    )
    return [paragraph(f"Best on average: {', '.join(places)}." if places else alone), part_of(found, caption)]


def _plane(found: CePlane) -> list[Fragment]:
    caption = (
        f"Differences from {found.reference} in {min(len(found.effects), MOST_DOTS)} of {len(found.effects)} draws, "
        f"with ellipses that would hold {100 * found.level:.4g}% of normal draws."
    )
    if found.willingness_to_pay is not None:
        below = zip(found.decisions, *(100 * share for share in found.share_below()), strict=True)
        shares = [f"{name} {_interval(low, share, high)}" for name, share, low, high in below]
        caption += f" Percentage of draws below the line, where a decision is worth its cost: {', '.join(shares)}."
    drawn = figure_html(plane_figure(found, MOST_DOTS).panels, caption, height=340)
    table = part_of(
        found, f"Mean differences from {found.reference}, with {100 * found.level:.4g}% credible intervals."
    )
    return [heading("The cost-effectiveness plane"), drawn, table]


def _losses(found: NetBenefitTable, line: float | None) -> Fragment:
    """Net benefits at the willingness to pay nearest to the line, and expected losses over all of them."""
    price = found.prices[0] if line is None else nearest_price(found.prices, line)
    rows = found.at(price)
    best = next(row for row in rows if row.chosen)
    words = (
        f"Choosing {best.decision} has the largest mean net benefit{at_price(best)}. Its expected loss, beside the "
        f"best decision of each draw, is {money(best.loss)}: the smallest of all, and EVPI per decision."
    )
    caption = f"Net benefits{at_price(best)}, with {100 * found.level:.4g}% credible intervals, and expected losses."
    panels = losses_figure(found).panels
    drawn = (
        figure_html(panels, "The expected loss of each decision; the lowest is EVPI.", reader=PRICES)
        if len(found.prices) > 1
        else figure_html(panels, "The expected loss of each decision.")
    )
    return joined([paragraph(words), drawn, part_of(replace(found, rows=tuple(rows)), caption)])


def _acceptability(found: Acceptability, perfect: Evpi, line: float | None) -> Fragment:
    words = paragraph(
        "The probability that a decision has the largest net benefit, as a share of the draws. Choose the decision "
        "with the largest mean net benefit, even if another one is best more often."
    )
    table, panels = (
        part_of(found, f"Probability of being best, from {found.n} draws."),
        acceptability_figure(found).panels,
    )
    if found.willingness_to_pay is None or len(found.willingness_to_pay) == 1:
        return joined([words, figure_html(panels, f"Best on average: {found.decisions[found.best[0]]}."), table])
    order = np.argsort(found.willingness_to_pay)
    quantities = [
        (
            f"probability that {name} is best",
            *(getattr(found, key)[order, d] for key in ("probability", "lower", "upper")),
        )
        for d, name in enumerate(found.decisions)
    ]
    prices, *evpi = evpi_curve(perfect, found.level)
    every = [*quantities, ("EVPI", *evpi)]
    name = unit(PRICE, found.currency)
    reader = Reader(PRICES, [name], [prices], every, found.level, [_place(prices, line)])
    caption = f"Acceptability curves with {100 * found.level:.4g}% bands; the wide line marks the decision to choose."
    return joined([words, reader.html(), figure_html(panels, caption, reader=reader.id), table])


def _perfect(found: Evpi, level: float, line: float | None) -> Fragment:
    words = (
        f"What it would be worth, {found.per}, to know all inputs before deciding (EVPI): the expected loss from "
        f"choosing under uncertainty, and the most that any study can be worth."
    )
    if found.willingness_to_pay is None:
        value, low, high = (float(np.ravel(each)[0]) for each in (found.estimate, *found.interval(level)))
        return joined([paragraph(words), facts({"EVPI": _interval(low, value, high, found.currency)})])
    prices, *columns = evpi_curve(found, level)
    i = _place(prices, line)
    value, low, high = (float(column[i]) for column in columns)
    here = f"At a willingness to pay of {prices[i]:g} it is {_interval(low, value, high, found.currency)}."
    if len(prices) == 1:
        return joined([paragraph(f"{words} {here}")])
    caption = f"{unit('EVPI', found.currency)} {found.per} with {100 * level:.4g}% bands."
    return joined([paragraph(f"{words} {here}"), figure_html(evpi_figure(found, level).panels, caption, reader=PRICES)])
