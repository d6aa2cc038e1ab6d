"""The expected net benefit of sampling (ENBS): the value of a study for a population, less its cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from cbq.common import Array, RNGLike, called, generator, is_number, number, shown
from cbq.linalg.lapack import eigh
from cbq.plotting import Drawn, Figure
from cbq.report import Page, in_text
from cbq.voi.information import DIGITS, PricedTable, one_price
from cbq.voi.perfect import at_least_0, multiplier
from cbq.voi.perfect import population as people
from cbq.voi.sample_information import EvsiRow, EvsiTable

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
    note : remarks on the estimate of EVSI, or an empty string.

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
    population: float = field(metadata=in_text(DIGITS))
    evsi: float = field(metadata=in_text(DIGITS))
    cost: float = field(metadata=in_text(DIGITS))
    enbs: float = field(metadata=in_text(DIGITS))
    se: float = field(metadata=in_text(2))
    lower: float = field(metadata=in_text(DIGITS))
    upper: float = field(metadata=in_text(DIGITS))
    best: float = field(metadata=in_text(percent))
    worthwhile: float = field(metadata=in_text(percent))
    note: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class EnbsTable(PricedTable, Drawn):
    """The expected net benefit of sampling for several sizes of a study. Immutable; it prints as a table.

    rows : one for each size and willingness to pay, in this order.
    level : of the intervals.
    notes : remarks on the study and the tables, without full stops.

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
        return (
            f"{at}the best size is {row.size}, with probability {percent(row.best)} among these, and worth its cost "
            f"with probability {percent(row.worthwhile)}"
        )

    def _legend(self) -> str:
        return f"Intervals of {100 * self.level:.4g}%."

    def _remarks(self) -> list[str]:
        words = [self.in_words(price) for price in self.prices]
        return [*(each[0].upper() + each[1:] for each in words), *self.notes]

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
    served = np.array([_population(population, horizon, discount, delay, n) for n in sizes])
    reach, rows = float(ndtri(0.5 * (1.0 + evsi.level))), {}
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
                lower=number_served * max(row.evsi - reach * row.se, 0.0) - spent,
                upper=number_served * min(row.evsi + reach * row.se, row.upper) - spent,
                best=float(np.mean(best == j)),
                worthwhile=float(np.mean(draws[:, j] > 0)),
                note=row.note,
            )
    return EnbsTable(tuple(rows[key] for key in sorted(rows)), evsi.level, evsi.notes)


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


def _population(yearly: float, horizon: float | None, discount: float, delay: OfSize, size: int) -> float:
    wait = _at_size(delay, "delay", size)
    if horizon is not None:
        return people(multiplier(yearly), horizon, discount, delay=wait)
    if wait > 0 or at_least_0(discount, "discount") > 0:
        named = "delay" if wait > 0 else "discount"
        raise ValueError(f"{named} needs horizon=, and population= as the number for each year.")
    return multiplier(yearly)
