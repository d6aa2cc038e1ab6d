"""The number of decisions that information serves: those who come within a horizon, discounted."""

from __future__ import annotations

from typing import Any

import numpy as np

from cbq.common.checks import is_number, number, shown


def population(incidence: float, horizon: float, discount: float = 0.0, *, delay: float = 0.0) -> float:
    """The number of people whose decision information serves, by which EVPI, EVPPI and EVSI of one are multiplied.

    They come evenly over time, and one who comes after t years counts (1 + discount)^-t, so that the number is
    incidence times the integral of this from `delay` to `horizon`.

    Parameters
    ----------
    incidence : the number of people for each year.
    horizon : the years until the decision is not made any more, from now on.
    discount : the annual rate, such as 0.035.
    delay : the years until the information is there: those who come before do not profit from it.

    Examples
    --------
    >>> cbq.voi.population(1000, horizon=10)
    10000.0
    >>> round(cbq.voi.population(1000, horizon=10, discount=0.035))
    8461
    """
    rate = np.log1p(at_least_0(discount, "discount"))
    yearly, end, start = (
        at_least_0(value, name) for value, name in ((incidence, "incidence"), (horizon, "horizon"), (delay, "delay"))
    )
    years = max(end - start, 0.0)
    if rate * years < 1e-12:
        return float(yearly * years * np.exp(-rate * start))
    return float(yearly * np.exp(-rate * start) * -np.expm1(-rate * years) / rate)


def multiplier(value: Any, before: float | None = None) -> float:
    """Return the number of a population, by which values are multiplied, unless they are those of one already."""
    if before is not None:
        raise ValueError(
            f"these values are for a population of {before:g} already, and population= would count it twice: "
            f"start from those of one decision."
        )
    return at_least_0(value, "population")


def population_note(factor: float) -> str:
    """The remark on a table whose values are those of a population."""
    return f"Values are for a population of {factor:.6g}"


def at_least_0(value: Any, name: str) -> float:
    """Return `value` as a float if it is a number, at least 0."""
    if not is_number(value, 0.0, 1e30):
        raise ValueError(f"{name} must be a number from 0 to 1e30, but it is {shown(value)}.")
    return number(value, name)
