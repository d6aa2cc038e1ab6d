"""The pages of decisions: EVPPI, studies, and the appendix of a submission."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from cbq.common import listed, short
from cbq.report import (
    Html,
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
    PAIRS_FOR_MAP,
    acceptability_figure,
    at_price,
    drawn_prices,
    enbs_figure,
    evpi_curve,
    evpi_figure,
    evsi_figure,
    largest_sets,
    plane_figure,
    values_figure,
)
from cbq.voi.information import EvppiTable, inputs_of
from cbq.voi.perfect import Evpi
from cbq.voi.sample_information import EvsiTable
from cbq.voi.sampling_benefit import EnbsTable
from cbq.voi.submission import Acceptability, Appendix

MOST_LINES = 5  # sets in a chart over the willingness to pay, and under its slider
MOST_DOTS = 300  # draws of a decision in the chart of the plane
MOST_NAMED = 6  # sets that a notice names
NOTHING = 1e-3  # of EVPI: sets that are worth less are said to be worth next to nothing
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


def _interval(low: float, value: float, high: float) -> str:
    """A value with its interval, in the digits that it leaves."""
    half = 0.5 * (high - low)
    return f"{resolved(value, half)} ({resolved(low, half)} to {resolved(high, half)})"


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
    return Page(title or "The value of information", subtitle, _notes(found), sections)


def _values(found: EvppiTable, at: float | None = None) -> Html:
    """EVPPI in words, as charts, and as a table, at the willingness to pay nearest to `at`.

    By default at the one where the largest EVPPI is.
    """
    best = found.largest(1)[0]
    share = ""
    if best.evpi > 0:
        reach = float(ndtri(0.5 + 0.5 * found.level))
        low, high = (min(max(best.share + sign * reach * best.share_se, 0.0), 1.0) for sign in (-1, 1))
        left = _interval(*(best.remaining + sign * reach * best.remaining_se for sign in (-1, 0, 1)))
        share = f": {best.share:.1%} ({low:.1%} to {high:.1%}) of EVPI ({short(best.evpi, 4)}), and {left} below it"
    small = sum(row.evppi <= NOTHING * row.evpi for row in found.rows)
    none = f" {small} of {len(found.rows)} are worth next to nothing." if small else ""
    value = _interval(best.lower, best.evppi, best.upper)
    parts = [paragraph(f"{capital(best.pars)} is worth most: {value}{at_price(best)}{share}.{none}")]
    caption = f"EVPPI with {100 * found.level:.4g}% intervals, the largest first."
    rows = found.largest(len(found.rows))
    if len(found.prices) == 1:
        parts.append(figure_html(values_figure(found, "bars").panels, "EVPPI of each set, the largest on top."))
        if sum(len(inputs_of(row)) == 2 for row in found.rows) >= PAIRS_FOR_MAP:
            pairs = "EVPPI of pairs of inputs, with each input alone on the diagonal."
            parts.append(figure_html(values_figure(found, "map").panels, pairs))
        return joined([*parts, part_of(replace(found, rows=tuple(rows)), caption)])
    over = values_figure(found, "lines", MOST_LINES).panels
    wanted = best.willingness_to_pay if at is None else at
    nearest = min(
        (price for price in found.prices if price is not None), key=lambda price: abs(price - (wanted or 0.0))
    )
    first = [row for row in rows if row.willingness_to_pay == nearest]
    others = [row for row in rows if row.willingness_to_pay != nearest]
    table = part_of(replace(found, rows=(*first, *others)), caption, len(first))
    drawn = figure_html(over, "EVPPI over the willingness to pay.", reader=READER)
    return joined([*parts, _values_reader(found).html(), drawn, table])


def _values_reader(found: EvppiTable) -> Reader:
    quantities, sets = [], largest_sets(found)
    for name, rows in sets[:MOST_LINES]:
        mean, low, high = (np.array([getattr(row, key) for row in rows]) for key in ("evppi", "lower", "upper"))
        quantities.append((f"EVPPI of {name}", mean, low, high))
    rows = sets[0][1]
    unknown = np.full(len(rows), np.nan)
    quantities.append(("EVPI", np.array([row.evpi for row in rows]), unknown, unknown))
    prices = np.array([row.willingness_to_pay for row in rows])
    return Reader(READER, ["willingness to pay"], [prices], quantities, found.level, [len(prices) // 2])


def _method(found: EvppiTable) -> Html:
    words = (
        "The net benefits are regressed on the inputs of a set by a Gaussian process with fitted hyperparameters. "
        "EVPPI is the posterior expectation of the gain, and its interval covers the uncertainty of the regression and "
        "of the draws. No set is worth less than a part of it: estimates are moved, as little as possible, to be so."
    )
    most = max(row.landmarks for row in found.rows)
    known = {"draws": str(found.rows[0].n), "landmarks of the regressions, at most": str(most)}
    return joined([paragraph(words), facts(known)])


def _notes(found: EvppiTable) -> Html:
    """Doubts about sets, or a notice that there are none."""
    about: dict[str, dict[str, None]] = {}  # the sets that each note is about
    for row in found.rows:
        if row.note:
            about.setdefault(row.note, {})[row.pars] = None
    if not about:
        return notice("good", "No warnings.", GOOD)
    sets = [(note, listed(names, MOST_NAMED)) for note, names in about.items()]
    return joined(notice("warning", f"{names}:", f"{note}.") for note, names in sets)


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
        "The results of the study depend on the net benefits through its inputs alone. The net benefits are regressed "
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
    notes = list(dict.fromkeys(row.note for row in found.rows if row.note))
    top = [notice("warning", "Note:", f"{capital(note)}.") for note in notes] or [notice("good", "No warnings.", GOOD)]
    subtitle = f"The value of a study of {pars}, for {len({row.size for row in found.rows})} sizes of it."
    repeated = _repeat(found if enbs is None else enbs, repeat, record)
    return Page(title or "The size of the study", subtitle, joined(top), [*sections, repeated])


def _evsi(found: EvsiTable) -> Html:
    row = max(found.rows, key=lambda row: (row.size, row.evsi))
    share = f", {row.evsi / row.evppi:.0%} of EVPPI ({short(row.evppi, 4)})" if row.evppi > 0 else ""
    value = _interval(row.lower, row.evsi, row.upper)
    words = paragraph(f"A study of size {row.size} is worth {value}{at_price(row)}{share}.")
    return joined([words, *_by_size(found, evsi_figure(found), "EVSI")])


def _by_size(found: EvsiTable | EnbsTable, figure: Any, name: str) -> list[Html]:
    table = part_of(found, f"{name} with {100 * found.level:.4g}% intervals.")
    return [figure_html(figure.panels, f"{name} over the size of the study."), table]


# The appendix of a submission


def appendix_page(
    found: Appendix, title: str | None = None, repeat: str | None = None, record: Mapping[str, str] | None = None
) -> Page:
    """The page of an appendix, with a section for each part that there is."""
    names = found.ceac.decisions
    subtitle = f"{len(names)} decisions ({', '.join(names)}), from {found.ceac.n} draws of a model."
    top = Html("") if found.evppi is None else _notes(found.evppi)
    if found.evppi is None and found.icers is not None:
        doubtful = [row for row in found.icers.rows if row.note]
        top = joined(notice("remark", f"{row.decision}:", f"{row.note}.") for row in doubtful)
    sections = [*_sections(found), _repeat(found, repeat, record)]
    return Page(title or "Probabilistic sensitivity analysis", subtitle, top, sections)


def _sections(found: Appendix) -> Iterator[Section]:
    if found.icers is not None and found.plane is not None:
        yield Section("Costs and effects", joined([*_ratios(found.icers), *_plane(found.plane)]))
    yield Section("Which decision is best", _acceptability(found.ceac, found.evpi))
    yield Section("The value of perfect information", _perfect(found.evpi, found.ceac.level))
    if found.evppi is not None:
        at = None if found.plane is None else found.plane.willingness_to_pay
        yield Section("The value of learning inputs", _values(found.evppi, at))
        yield Section("How it was computed", _method(found.evppi))


def _ratios(found: IcerTable) -> list[Html]:
    """Which decision is best on average at which willingness to pay, and the table."""
    on = [row for row in found.rows if row.status == "frontier"]
    places = [f"{on[0].decision} up to a willingness to pay of {number_text(on[1].icer, 4)}"] if len(on) > 1 else []
    for row, after in zip(on[1:], [*on[2:], None], strict=False):
        places.append(f"{row.decision} from there" + (f" to {number_text(after.icer, 4)}" if after else " on"))
    alone = f"{on[0].decision} is best on average at every willingness to pay: it dominates all others."
    caption = (
        f"Mean effects and costs, by rising cost, and the cost of one more unit of effect (ICER). Intervals of "
        f"{100 * found.level:.4g}%: of the willingness to pay from which on a decision is better than the one it is "
        f"compared with, over the draws; infinite if in some of them it never is."
    )
    return [paragraph(f"Best on average: {', '.join(places)}." if places else alone), part_of(found, caption)]


def _plane(found: CePlane) -> list[Html]:
    caption = (
        f"Differences from {found.reference} in {min(len(found.effects), MOST_DOTS)} of {len(found.effects)} draws, "
        f"with ellipses that hold {100 * found.level:.4g}% of normal draws."
    )
    if found.willingness_to_pay is not None:
        below = zip(found.decisions, *(100 * share for share in found.share_below()), strict=True)
        shares = [f"{_interval(low, share, high)} of the draws of {name}" for name, share, low, high in below]
        caption += f" Below the line, where a decision is worth its cost, in per cent: {', '.join(shares)}."
    drawn = figure_html(plane_figure(found, MOST_DOTS).panels, caption, height=340)
    return [heading("The cost-effectiveness plane"), drawn]


def _acceptability(found: Acceptability, perfect: Evpi) -> Html:
    words = paragraph(
        "The probability that a decision has the largest net benefit, as the share of draws in which it has. The one "
        "to choose is that with the largest mean net benefit, which need not be the one that is best most often."
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
    reader = Reader(PRICES, ["willingness to pay"], [prices], every, found.level, [len(prices) // 2])
    caption = f"Acceptability curves with {100 * found.level:.4g}% bands; the wide line marks the decision to choose."
    return joined([words, reader.html(), figure_html(panels, caption, reader=reader.id), table])


def _perfect(found: Evpi, level: float) -> Html:
    words = paragraph(
        f"What it would be worth, {found.per}, to know all inputs before deciding (EVPI): the expected loss from "
        "choosing under uncertainty, and the most that any study can be worth."
    )
    if np.size(found.estimate) == 1:
        value, low, high = (float(np.ravel(each)[0]) for each in (found.estimate, *found.interval(level)))
        return joined([words, facts({"EVPI": _interval(low, value, high)})])
    caption = f"EVPI {found.per} with {100 * level:.4g}% bands."
    return joined([words, figure_html(evpi_figure(found, level).panels, caption, reader=PRICES)])
