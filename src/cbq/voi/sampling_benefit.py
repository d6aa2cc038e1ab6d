"""The expected net benefit of sampling (ENBS): the value of a study for a population, less its cost.

A portfolio is several studies together. The value of their results is the EVPPI of their simulated summaries, so that
no portfolio is worth less than a part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq.common import Array, RNGLike, called, generator, is_number, number, shown, whole
from cbq.linalg.lapack import eigh
from cbq.nested.decisions import Name
from cbq.plotting import Drawn, Figure
from cbq.report import Page, in_text
from cbq.samples import ColumnTable
from cbq.voi.information import evppi
from cbq.voi.money import OfTime, PricedTable, at_least_0, in_digits, money, multiplier, one_price, population_note
from cbq.voi.money import people as number_of_people
from cbq.voi.money import population as people
from cbq.voi.sample_information import EvsiRow, EvsiTable, number_of_participants, study_columns
from cbq.voi.studies import as_study

MAX_STUDIES = 6  # of a portfolio, which has 63 combinations of them
DRAWS = 20_000  # of EVSI of all sizes jointly, for probabilities
OfSize = float | Callable[[int], float]


def percent(probability: float) -> str:
    """A probability that was counted among draws, none of which make it certain."""
    if probability < 0.005:
        return "<1%"
    return ">99%" if probability > 0.995 else f"{probability:.0%}"


@dataclass(frozen=True)
class EnbsRow:
    """The expected net benefit of sampling of a study of one size at one willingness to pay.

    pars, size, participants, willingness_to_pay : as in `EvsiRow`.
    population : the number of people who profit from the study. evsi : for all of them. cost : of the study.
    enbs, se, lower, upper : evsi less cost, its standard error and the ends of its interval.
    best : the probability that this size has the largest ENBS, and that it is above 0.
    worthwhile : the probability that ENBS is above 0.
    note : remarks on the estimate of EVSI, or an empty string. doubtful : whether they make it doubtful.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=300)
    >>> study = cbq.voi.studies.Normal(sd=2.0)
    >>> found = cbq.evsi({"old": 0 * risk, "new": risk}, {"risk": risk}, "risk", study, sizes=[10, 40])
    >>> [row.cost for row in cbq.enbs(found, cost=3.0, population=1000, fixed_cost=50.0).rows]
    [80.0, 170.0]
    """

    pars: str = field(metadata=in_text())
    size: int = field(metadata=in_text())
    willingness_to_pay: float | None = field(metadata=in_text("{:g}".format))
    participants: float
    population: float = field(metadata=in_text(number_of_people))
    evsi: float = field(metadata=in_text(money))
    cost: float = field(metadata=in_text(money))
    enbs: float = field(metadata=in_text(money))
    se: float = field(metadata=in_text(in_digits(2)))
    lower: float = field(metadata=in_text(money))
    upper: float = field(metadata=in_text(money))
    best: float = field(metadata=in_text(percent))
    worthwhile: float = field(metadata=in_text(percent))
    note: str = ""
    doubtful: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class EnbsTable(PricedTable, Drawn):
    """The expected net benefit of sampling for several sizes of a study. Immutable; it prints as a table.

    rows : one for each size and willingness to pay, in this order.
    level : of the intervals.
    notes : remarks on the study and the tables, without full stops. currency : of the values, if it is stated.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=300)
    >>> study = cbq.voi.studies.Normal(sd=2.0)
    >>> found = cbq.evsi({"old": 0 * risk, "new": risk}, {"risk": risk}, "risk", study, sizes=[1, 10, 40])
    >>> cbq.enbs(found, cost=3.0, population=1000).best().size
    10
    """

    rows: tuple[EnbsRow, ...]
    level: float = 0.95
    notes: tuple[str, ...] = ()
    currency: str = ""

    def best(self, willingness_to_pay: float | None = None) -> EnbsRow:
        """The row with the largest ENBS at one of `prices`, which may be left out if there is one alone.

        If its ENBS is not above 0, no study of these sizes is worth its cost.
        """
        rows: list[EnbsRow] = self.at(willingness_to_pay)
        return max(rows, key=lambda row: row.enbs)

    def _figure(self) -> Figure:
        """ENBS over the size of the study, with bands, and the best size marked."""
        from cbq.voi.figures import enbs_figure

        return enbs_figure(self)

    def in_words(self, willingness_to_pay: float | None = None) -> str:
        """Which size is best at one of `prices`, in a sentence without a full stop."""
        price = one_price(willingness_to_pay, self.prices)
        row = self.best(price)
        at = "" if price is None else f"At a willingness to pay of {price:g}, "
        none = 1.0 - sum(each.best for each in self.at(price))
        if row.enbs <= 0:
            return f"{at}no size is worth its cost (probability {percent(none)})"
        several = f" ({row.participants:g} participants)" * (row.participants != row.size)
        return (
            f"{at}the best size is {row.size}{several}, with probability {percent(row.best)} among these, and "
            f"worth its cost with probability {percent(row.worthwhile)}{self._beyond(row)}"
        )

    def _beyond(self, best: EnbsRow) -> str:
        """A remark on a best size that no size beyond it was compared with."""
        sizes = [row.size for row in self.at(best.willingness_to_pay)]
        if len(sizes) > 1 and best.size in (max(sizes), min(sizes)):
            ends = ("largest", "larger") if best.size == max(sizes) else ("smallest", "smaller")
            return f"; it is the {ends[0]} size of the table, and {ends[1]} ones, which were not tried, may be better"
        return ""

    def _legend(self) -> str:
        return f"Intervals of {100 * self.level:.4g}%."

    def _remarks(self) -> list[str]:
        words = [self.in_words(price) for price in self.prices]
        return [*(each[0].upper() + each[1:] for each in words), *super()._remarks()]

    def _page(self, title: str | None, repeat: str | None) -> Page:
        from cbq.voi.pages import study_page

        return study_page(None, self, title, repeat)


def enbs(
    evsi: EvsiTable,
    cost: OfSize,
    population: float,
    horizon: float | None = None,
    discount: float = 0.0,
    *,
    fixed_cost: float = 0.0,
    delay: OfSize = 0.0,
    uptake: OfTime = 0.0,
    rng: RNGLike = 0,
) -> EnbsTable:
    """The expected net benefit of sampling, EVSI for a population less the cost of the study, for each size of it.

    Parameters
    ----------
    evsi : what `cbq.evsi` returned.
    cost : for each participant; or a function from the size to the cost of the whole study.
    population : the number of people whose decision the study serves: for each year if `horizon` is given, else in all.
    horizon : the years until the decision is not made any more, from now on.
    discount : the annual rate, such as 0.035, at which those who come later count less. The cost is spent now.
    fixed_cost : of the study, beside the cost of participants.
    delay : the years until its results are there, a number or a function of the size: those who come before do not
        profit. It needs a horizon.
    uptake : the years, from the results on, until all follow them, as in `cbq.voi.population`. It needs a horizon.
    rng : a generator or a seed, for draws of EVSI from which probabilities are counted.

    Returns
    -------
    A table with a row for each size and willingness to pay. `best()` has the largest ENBS, and `best` of a row is the
    probability, by the joint uncertainty of EVSI over sizes, that it is the best one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> response = rng.beta(8, 4, 500)
    >>> net_benefits = {"old": 0 * response, "new": 1000 * (response - 0.65) + rng.normal(0, 50, 500)}
    >>> found = cbq.evsi(net_benefits, {"response": response}, "response", "binomial", sizes=[10, 100, 1000])
    >>> cbq.enbs(found, cost=500, population=1000, horizon=10, discount=0.035).best().size
    100
    """
    if not isinstance(evsi, EvsiTable):
        raise TypeError(f"evsi must be what cbq.evsi returned, but it is {shown(evsi)}.")
    multiplier(population, evsi.population)
    random, sizes = generator(rng), evsi.sizes
    participants = {row.size: row.participants for row in evsi.rows}
    fixed = number(fixed_cost, "fixed_cost")
    costs = np.array([_at_size(cost, "cost", n, participants[n]) + fixed for n in sizes])
    served = np.array([_population(population, horizon, discount, delay, uptake, n) for n in sizes])
    rows: dict[tuple[int, int], EnbsRow] = {}
    for k, price in enumerate(evsi.prices):
        given = evsi.at(price)
        draws = _draws(given, evsi.covariance[k], random) * served - costs  # (S, J)
        best = np.where(np.max(draws, axis=1) > 0, np.argmax(draws, axis=1), -1)
        for j, (row, number_served, spent) in enumerate(zip(given, served.tolist(), costs.tolist(), strict=True)):
            rows[j, k] = EnbsRow(
                pars=row.pars,
                size=row.size,
                willingness_to_pay=price,
                participants=row.participants,
                population=number_served,
                evsi=number_served * row.evsi,
                cost=spent,
                enbs=number_served * row.evsi - spent,
                se=number_served * row.se,
                lower=number_served * row.lower - spent,
                upper=number_served * row.upper - spent,
                best=float(np.mean(best == j)),
                worthwhile=float(np.mean(draws[:, j] > 0)),
                note=row.note,
                doubtful=row.doubtful,
            )
    return EnbsTable(tuple(rows[key] for key in sorted(rows)), evsi.level, evsi.notes, evsi.currency)


def _draws(rows: Sequence[EvsiRow], covariance: Array, rng: np.random.Generator) -> Array:
    """Draws (S, J) of EVSI of J sizes, jointly; none is below 0."""
    roots, axes = eigh(covariance)
    spread = axes * np.sqrt(np.maximum(roots, 0.0))
    half = rng.standard_normal((DRAWS // 2, len(rows))) @ spread.T
    mean = np.array([row.evsi for row in rows])
    return np.asarray(np.maximum(mean + np.concatenate([half, -half]), 0.0))


def _at_size(value: OfSize, name: str, size: int, each: float = 1.0) -> float:
    """A number for each, or a function of the size, which must return a number."""
    if not callable(value):
        return each * at_least_0(value, name)
    found = called(value, name, size)
    if not is_number(found, 0.0, 1e150):
        raise ValueError(f"{name} must return a number, at least 0, but for size {size} it is {shown(found)}.")
    return float(found)


def _population(
    yearly: float, horizon: float | None, discount: float, delay: OfSize, uptake: OfTime, size: int
) -> float:
    wait = _at_size(delay, "delay", size)
    if horizon is not None:
        return people(multiplier(yearly), horizon, discount, delay=wait, uptake=uptake)
    needing = {
        "delay": wait,
        "discount": at_least_0(discount, "discount"),
        "uptake": 1.0 if callable(uptake) else at_least_0(uptake, "uptake"),
    }
    for name, value in needing.items():
        if value > 0:
            raise ValueError(f"{name} needs horizon=, and population= as the number for each year.")
    return multiplier(yearly)


@dataclass(frozen=True)
class PlannedStudy:
    """A study of a fixed size, as a part of a portfolio.

    pars, study : as in `cbq.evsi`. size : of the study, or of each of its groups. cost : of the whole study.

    Examples
    --------
    >>> cbq.voi.PlannedStudy("risk", "binomial", 100, cost=50_000.0).cost
    50000.0
    """

    pars: Any
    study: Any
    size: int
    cost: float = 0.0

    def __post_init__(self) -> None:
        sets = self.pars if isinstance(self.pars, list | tuple) else [self.pars]
        names = (name for each in sets for name in (each if isinstance(each, list | tuple) else [each]))
        if not all(isinstance(name, str | int | np.integer) for name in names):
            raise TypeError(f"pars must be the name of an input, or a list of names, but it is {shown(self.pars)}.")
        as_study(self.study)
        whole(self.size, "size", 1)
        at_least_0(self.cost, "cost")


@dataclass(frozen=True)
class PortfolioRow:
    """The value of some studies together at one willingness to pay.

    studies : their names. participants, cost : of all of them.
    evsi, se, lower, upper : of all results together, for the population, with the interval.
    enbs : evsi less cost. note : remarks on the estimate, or an empty string.

    Examples
    --------
    >>> risk = np.random.default_rng(0).normal(size=300)
    >>> plans = {"cohort": cbq.voi.PlannedStudy("risk", cbq.voi.studies.Normal(sd=2.0), 50, cost=10.0)}
    >>> row = cbq.voi.portfolio({"old": 0 * risk, "new": risk}, {"risk": risk}, plans, population=1000).rows[0]
    >>> row.studies, row.participants, bool(row.enbs == row.evsi - 10)
    ('cohort', 50.0, True)
    """

    studies: str = field(metadata=in_text())
    willingness_to_pay: float | None = field(metadata=in_text("{:g}".format))
    participants: float = field(metadata=in_text("{:g}".format))
    evsi: float = field(metadata=in_text(money))
    se: float = field(metadata=in_text(in_digits(2)))
    lower: float = field(metadata=in_text(money))
    upper: float = field(metadata=in_text(money))
    cost: float = field(metadata=in_text(money))
    enbs: float = field(metadata=in_text(money))
    n: int
    note: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class PortfolioTable(PricedTable):
    """The value of every combination of studies. Immutable; it prints as a table.

    rows : one for each combination and willingness to pay. level : of the intervals.
    notes : remarks on the tables, without full stops. currency : of the values, if it is stated.

    Examples
    --------
    >>> risk = np.random.default_rng(0).normal(size=300)
    >>> plans = {"cohort": cbq.voi.PlannedStudy("risk", cbq.voi.studies.Normal(sd=2.0), 50, cost=1e6)}
    >>> table = cbq.voi.portfolio({"old": 0 * risk, "new": risk}, {"risk": risk}, plans, population=1000)
    >>> table.best() is None
    True
    """

    rows: tuple[PortfolioRow, ...]
    level: float = 0.95
    notes: tuple[str, ...] = ()
    currency: str = ""

    def best(self, willingness_to_pay: float | None = None) -> PortfolioRow | None:
        """The row with the largest ENBS at one of `prices`; None if no combination is worth its cost."""
        best: PortfolioRow = max(self.at(willingness_to_pay), key=lambda row: row.enbs)
        return best if best.enbs > 0 else None


def portfolio(
    outputs: Any,
    inputs: Any,
    studies: Mapping[str, PlannedStudy],
    population: float,
    horizon: float | None = None,
    discount: float = 0.0,
    *,
    delay: float = 0.0,
    uptake: OfTime = 0.0,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    level: float = 0.95,
    rng: RNGLike = 0,
) -> PortfolioTable:
    """The value of several studies together, and of each combination of them: which ones are worth their cost?

    Studies inform the same decision, so that their values do not add up. The results of each study are simulated in
    each row, and EVSI of a combination is the value of learning all of its results before deciding.

    Parameters
    ----------
    outputs, inputs, effects, costs, willingness_to_pay, level : as in `cbq.evppi`.
    studies : up to 6, by name.
    population, horizon, discount, delay, uptake : as in `cbq.enbs`.
    rng : a generator or a seed, for the results of the studies, landmarks and posterior draws.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk, price = rng.normal(size=300), rng.normal(size=300)
    >>> plans = {
    ...     "cohort": cbq.voi.PlannedStudy("risk", cbq.voi.studies.Normal(sd=2.0), 50, cost=20.0),
    ...     "survey": cbq.voi.PlannedStudy("price", cbq.voi.studies.Normal(sd=2.0), 50, cost=20.0),
    ... }
    >>> outputs, inputs = {"old": 0 * risk, "new": risk - price}, {"risk": risk, "price": price}
    >>> table = cbq.voi.portfolio(outputs, inputs, plans, population=1000)
    >>> [row.studies for row in table.rows], table.best().studies
    (['cohort', 'survey', 'cohort + survey'], 'cohort + survey')
    """
    if not isinstance(studies, Mapping) or not 0 < len(studies) <= MAX_STUDIES:
        raise TypeError(
            f"studies must be a mapping from 1 to {MAX_STUDIES} names to planned studies, not {shown(studies)}."
        )
    for name, plan in studies.items():
        if not isinstance(name, str) or not isinstance(plan, PlannedStudy):
            raise TypeError(f"studies must map names to cbq.voi.PlannedStudy, but {shown(name)} has {shown(plan)}.")
    served = _population(population, horizon, discount, delay, uptake, 1)
    seed, table = int(generator(rng).integers(2**62)), ColumnTable.of(inputs, "inputs")
    results: dict[str, Array] = {}
    columns_of: dict[str, list[str]] = {}
    participants: dict[str, float] = {}
    for i, (name, plan) in enumerate(studies.items()):
        study, what = as_study(plan.study), f"pars of {name!r} in studies, columns of inputs,"
        columns = study_columns(plan.pars, study, table, what)
        participants[name] = number_of_participants(columns, study, plan.size)
        # Numbers of their own: a table that was drawn with the same seed must not repeat them.
        (summary,) = study.summaries(columns, [plan.size], np.random.default_rng([seed, i]))
        own = {f"{name}: result {j + 1}": column for j, column in enumerate(summary.T)}
        results, columns_of = results | own, columns_of | {name: [*own]}
    subsets = [names for k in range(1, len(studies) + 1) for names in combinations(studies, k)]
    sets = {" + ".join(names): [column for name in names for column in columns_of[name]] for names in subsets}
    options: dict[str, Any] = {"effects": effects, "costs": costs, "willingness_to_pay": willingness_to_pay}
    found = evppi(outputs, results, sets, **options, level=level, rng=seed)
    by_label = dict(zip(sets, subsets, strict=True))
    rows = []
    for row in found.rows:
        plans = [studies[name] for name in by_label[row.pars]]
        cost, value = sum(plan.cost for plan in plans), served * row.evppi
        known = {"willingness_to_pay": row.willingness_to_pay, "n": row.n, "note": row.note}
        money_of = {"evsi": value, "cost": cost, "enbs": value - cost}
        money_of |= {name: served * getattr(row, name) for name in ("se", "lower", "upper")}
        rows.append(
            PortfolioRow(
                studies=row.pars,
                participants=sum(participants[name] for name in by_label[row.pars]),
                **known,
                **money_of,
            )
        )
    return PortfolioTable(tuple(rows), found.level, (population_note(served),))
