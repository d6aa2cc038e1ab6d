"""Tables of values in money: for a decision or a population, in a currency, at one price of effects or at several.

The willingness to pay is the price of one unit of effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from cbq.common import called, is_number, number, short, shown, text
from cbq.report import Column, RowTable
from cbq.voi.outputs import PRICE

OfTime = float | Callable[[float], float]
UPTAKE_PANELS, UPTAKE_NODES = 64, 4  # of the integral of a user's uptake, which may have kinks
DIGITS = 4  # significant digits of estimates in texts
GROUPED_FROM, GROUPED_BELOW = 1e6, 1e15  # numbers that are written with commas between thousands


def money(value: float, digits: int = DIGITS) -> str:
    """A number in few digits, without an exponent up to a quadrillion: 15,940,000."""
    few = float(f"{value:.{digits}g}")
    return f"{few:,.0f}" if GROUPED_FROM <= abs(few) < GROUPED_BELOW else short(value, digits)


def in_digits(digits: int) -> Callable[[float], str]:
    """Writes money with so many significant digits."""
    return partial(money, digits=digits)


class InCurrency:
    """A result with values in money, whose currency may be stated."""

    currency: str

    def in_currency(self, currency: str) -> Self:
        """The same, with the name of the currency on tables, figures and reports; no number changes."""
        return replace(self, currency=text(currency, "currency"))  # type: ignore[type-var]


def unit(label: str, currency: str) -> str:
    """A label with the currency, if it is stated."""
    return f"{label} ({currency})" if currency else label


def currency_note(currency: str) -> list[str]:
    """The remark on a table of values in a currency, if it is stated."""
    return [f"Money is in {currency}"] if currency else []


class PricedTable(RowTable, InCurrency):
    """A table of rows at several values of the willingness to pay."""

    level: float

    @property
    def prices(self) -> list[float | None]:
        """The values of the willingness to pay, as they were given; [None] if the outputs are net benefits."""
        return list(dict.fromkeys(row.willingness_to_pay for row in self.rows))

    def at(self, willingness_to_pay: float | None = None) -> list[Any]:
        """The rows at one of `prices`, which may be left out if there is one alone."""
        price = one_price(willingness_to_pay, self.prices)
        return [row for row in self.rows if row.willingness_to_pay == price]

    def _columns(self) -> Iterator[Column]:
        """The columns, without the willingness to pay if the outputs are net benefits."""
        return (each for each in super()._columns() if each.name != PRICE or self.prices != [None])

    def _legend(self) -> str:
        return f"Intervals of {100 * self.level:.4g}%; {self.rows[0].n} rows."

    def _remarks(self) -> Sequence[str]:
        return [*super()._remarks(), *currency_note(self.currency)]


class MoneyTable(PricedTable):
    """A table of values in money, for one decision or for a population."""

    _money: ClassVar[tuple[str, ...]]  # the fields of rows in money
    population: float | None

    def for_population(self, population: float) -> Self:
        """The same for this many decisions instead of one, as `cbq.voi.population` counts them."""
        factor = multiplier(population, self.population)
        rows = tuple(replace(row, **{name: factor * getattr(row, name) for name in self._money}) for row in self.rows)
        changes = {"rows": rows, "notes": (*self.notes, population_note(factor)), "population": factor}
        return replace(self, **changes)  # type: ignore[type-var]


def one_price(willingness_to_pay: Any, prices: Sequence[float | None]) -> float | None:
    """Return the willingness to pay if it is one of the prices, or the only one in place of None."""
    price = prices[0] if willingness_to_pay is None and len(prices) == 1 else willingness_to_pay
    if not (price is None or is_number(price)) or price not in prices:
        raise ValueError(
            f"willingness_to_pay must be one of {', '.join(map(str, prices))}, but it is {shown(willingness_to_pay)}."
        )
    return price


def nearest_price(prices: Sequence[float | None], at: float) -> float | None:
    """The price that is nearest to a number; None if the outputs are net benefits."""
    return min((price for price in prices if price is not None), key=lambda price: abs(price - at), default=None)


def population(
    incidence: float, horizon: float, discount: float = 0.0, *, delay: float = 0.0, uptake: OfTime = 0.0
) -> float:
    """The number of people whose decision information serves, by which EVPI, EVPPI and EVSI of one are multiplied.

    They come evenly over time, and one who comes after t years counts (1 + discount)^-t, so that the number is
    incidence times the integral of this from `delay` to `horizon`, times the share of uptake.

    Parameters
    ----------
    incidence : the number of people for each year.
    horizon : the years until the decision is not made any more, from now on.
    discount : the annual rate, such as 0.035.
    delay : the years until the information is there: those who come before do not profit from it.
    uptake : the years, from the information on, until all decisions follow it; the share of those that do grows in
        proportion to time. Or a function from the years since the information to this share, from 0 to 1.

    Examples
    --------
    >>> cbq.voi.population(1000, horizon=10)
    10000.0
    >>> round(cbq.voi.population(1000, horizon=10, discount=0.035))
    8461
    >>> cbq.voi.population(1000, horizon=10, uptake=4)
    8000.0
    """
    rate = float(np.log1p(at_least_0(discount, "discount")))
    yearly, end, start = (
        at_least_0(value, name) for value, name in ((incidence, "incidence"), (horizon, "horizon"), (delay, "delay"))
    )
    years = max(end - start, 0.0)
    if callable(uptake):
        served = _following(uptake, rate, years)
    else:
        growing = at_least_0(uptake, "uptake")
        until = min(growing, years)
        served = _discounted(rate, years) - _discounted(rate, until)
        served += _discounted_growth(rate, until) / growing if growing > 0 else _discounted(rate, until)
    return float(yearly * np.exp(-rate * start) * served)


def _discounted(rate: float, years: float) -> float:
    """The integral of exp(-rate t) from 0 to `years`."""
    return years if rate * years < 1e-12 else float(-np.expm1(-rate * years) / rate)


def _discounted_growth(rate: float, years: float) -> float:
    """The integral of t exp(-rate t) from 0 to `years`; a series where its terms would cancel."""
    x = rate * years
    if x < 1e-3:
        return years**2 * (1 / 2 - x / 3 + x**2 / 8 - x**3 / 30)
    return float(-np.expm1(-x) - x * np.exp(-x)) / rate**2


def _following(uptake: Callable[[float], float], rate: float, years: float) -> float:
    """The integral of a share that is a function of time, times exp(-rate t), by Gauss-Legendre panels."""
    nodes, weights = np.polynomial.legendre.leggauss(UPTAKE_NODES)
    edges = np.linspace(0.0, years, UPTAKE_PANELS + 1)
    half = 0.5 * np.diff(edges)[:, None]
    times, total = (edges[:-1, None] + half * (1.0 + nodes)).ravel(), (half * weights).ravel()
    shares = [called(uptake, "uptake", float(t)) for t in times]
    for t, share in zip(times, shares, strict=True):
        if not is_number(share, 0.0, 1.0):
            raise ValueError(f"uptake must return a share from 0 to 1, but at {t:.3g} years it is {shown(share)}.")
    return float(np.sum(total * np.exp(-rate * times) * np.array(shares, dtype=np.float64)))


def multiplier(value: Any, before: float | None = None) -> float:
    """Return the number of a population, by which values are multiplied, unless they are for a population already."""
    if before is not None:
        raise ValueError(
            f"these values are for a population of {before:g} already, and population= would count it twice: "
            f"start from the values of one decision."
        )
    return at_least_0(value, "population")


def population_note(factor: float) -> str:
    """The remark on a table of values for a population."""
    return f"Values are for a population of {people(factor)}"


def people(number: float) -> str:
    """A number of people, whole if it is large."""
    return (
        f"{number:,.0f}"
        if GROUPED_FROM <= number < GROUPED_BELOW
        else f"{number:.0f}"
        if number >= 1e4
        else short(number, 6)
    )


def at_least_0(value: Any, name: str) -> float:
    """Return `value` as a float if it is a number, at least 0."""
    if not is_number(value, 0.0, 1e30):
        raise ValueError(f"{name} must be a number from 0 to 1e30, but it is {shown(value)}.")
    return number(value, name)
