"""The expected value of perfect information (EVPI), for one decision and for all that information serves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq.common import Array, autocorrelation_times, between_0_and_1, data_frame, is_number, is_sorted, number, shown
from cbq.nested.answer import number_or_array
from cbq.nested.decisions import Decisions, Name, make_decisions
from cbq.plotting import draw
from cbq.report import Column, Table, digits
from cbq.samples import Samples
from cbq.voi.outputs import read_outputs, scale_net_benefits

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True, eq=False, repr=False)
class Evpi(Table):
    """E max_d NB_d - max_d E NB_d with its standard error: numbers, or (K,) for a vector of willingness to pay.

    Immutable: arrays are read-only. population : the number of decisions that values are for; None for one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> low, high = cbq.evpi(rng.normal(size=(400, 2))).interval()
    >>> bool(low < high)
    True
    """

    estimate: float | Array
    std: float | Array
    willingness_to_pay: float | Array | None = None
    population: float | None = None

    _left = 0
    _most = 12

    def __post_init__(self) -> None:
        for field in fields(self):
            if (given := getattr(self, field.name)) is not None:
                object.__setattr__(self, field.name, number_or_array(given))

    @property
    def per(self) -> str:
        """What values are for, in words."""
        return "per decision" if self.population is None else f"for a population of {self.population:.6g}"

    def interval(self, level: float = 0.95) -> tuple[float | Array, float | Array]:
        """The ends of the normal interval of this level, at least 0."""
        z = float(ndtri(0.5 * (1.0 + between_0_and_1(level, "level"))))
        low, high = np.maximum(self.estimate - z * self.std, 0.0), self.estimate + z * self.std
        return (low, high) if np.ndim(high) else (float(low), float(high))

    def to_columns(self, level: float = 0.95) -> dict[str, list[float]]:
        """The columns by name, with intervals of this level."""
        return {column.name: column.values for column in self._columns(level)}

    columns = to_columns

    def to_frame(self, level: float = 0.95) -> Any:
        """A pandas DataFrame with a row for each willingness to pay, and intervals of this level."""
        return data_frame(self.to_columns(level))

    def to_text(self, level: float = 0.95) -> str:
        """A table in plain text, with intervals of this level; of a long vector, some rows."""
        return self._text(self._columns(level), self._below(level))

    def plot(
        self,
        ax: Any = None,
        *,
        level: float = 0.95,
        title: str | None = None,
        xlabel: str | None = None,
        ylabel: str | None = None,
    ) -> matplotlib.figure.Figure:
        """EVPI over the willingness to pay, with a band of this level.

        title, xlabel, ylabel : texts in place of those of the figure.
        """
        from cbq.voi.figures import evpi_figure

        if self.willingness_to_pay is None:
            raise ValueError(
                "EVPI of net benefits is one number, which has no figure: pass effects, costs and several values of "
                "willingness_to_pay to cbq.evpi."
            )
        figure = evpi_figure(self, between_0_and_1(level, "level"))
        return draw(figure, ax, title=title, xlabel=xlabel, ylabel=ylabel)

    def for_population(self, population: float) -> Evpi:
        """The same for this many decisions instead of one, as `cbq.voi.population` counts them."""
        factor = multiplier(population, self.population)
        return replace(self, estimate=factor * self.estimate, std=factor * self.std, population=factor)

    def _columns(self, level: float = 0.95) -> Iterator[Column]:
        low, high = self.interval(level)
        found = {"evpi": self.estimate, "se": self.std, "lower": low, "upper": high}
        if self.willingness_to_pay is not None:
            found = {"willingness_to_pay": self.willingness_to_pay} | found
        for name, values in found.items():
            yield Column(name, np.ravel(values).tolist(), digits(5))

    def _below(self, level: float = 0.95) -> list[str]:
        people = [] if self.population is None else [f"{population_note(self.population)}."]
        return [f"Intervals of {100 * between_0_and_1(level, 'level'):.4g}%.", *people]


def evpi(
    outputs: Any,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
) -> Evpi:
    """The expected value of perfect information: of learning all uncertain inputs before deciding.

    Parameters
    ----------
    outputs : the net benefit of each decision, one row per draw: a table with named columns (of pandas, polars or
        pyarrow, or a mapping) or an array (n, D); or cbq.Samples with C outputs, whose thetas are the independent
        draws. A single column is the difference from a decision with net benefit 0.
    effects, costs, willingness_to_pay : if outputs holds effects and costs instead, the columns of both for each
        decision, and the value of one unit of effect, a number or a vector. The outputs may then also be a pair of
        tables, (effects, costs), with a column for each decision.

    Examples
    --------
    >>> net_benefits = np.array([[0.0, 1.0], [0.0, -2.0]] * 50)
    >>> cbq.evpi(net_benefits).estimate
    0.5
    """
    options = {"effects": effects, "costs": costs, "willingness_to_pay": willingness_to_pay}
    if isinstance(outputs, Samples):
        if outputs.stochastic or outputs.log_weights is not None:
            what = "random values of f" if outputs.stochastic else "points from a proposal"
            raise ValueError(f"EVPI is an average over draws of the model itself, but these samples have {what}.")
        values, groups = outputs.table.reshape(int(np.sum(outputs.counts)), -1), np.asarray(outputs.counts)
        decisions = make_decisions(values.shape[1], **options)  # type: ignore[arg-type]
    else:
        described = read_outputs(outputs, options)
        decisions, values = described.decisions, described.values
        groups = np.ones(len(values), dtype=np.intp)
    if len(groups) < 2:
        raise ValueError(
            f"the standard error of EVPI needs at least 2 independent draws, but outputs has {len(groups)}: draw more."
        )
    values, decisions, unit = scale_net_benefits(values, decisions)
    independent = isinstance(outputs, Samples) or is_sorted(values)
    estimate, std = (unit * found for found in perfect_information(values, decisions, groups, independent))
    if not decisions.several:
        estimate, std = estimate[0], std[0]
    return Evpi(estimate, std, decisions.willingness_to_pay)


def perfect_information(
    values: Array, decisions: Decisions, groups: npt.NDArray[np.intp], independent: bool = False
) -> tuple[Array, Array]:
    """EVPI and its standard error, (K,) each, from outputs (rows, C) in groups of these sizes.

    All groups have the same weight, whatever their size. Unless they are independent, the standard error allows for
    the autocorrelation of groups in their order.
    """
    starts = np.concatenate([[0], np.cumsum(groups)[:-1]])
    found = []
    for weights in decisions.weights:
        benefits = values @ (weights - weights[:1]).T  # less the first decision's, which leaves EVPI unchanged
        means = np.mean(np.add.reduceat(benefits, starts) / groups[:, None], axis=0)
        gain = np.max(benefits, axis=1) - benefits[:, int(np.argmax(means))]
        each = np.add.reduceat(gain, starts) / groups
        time = 1.0 if independent else float(autocorrelation_times(each[:, None])[0])
        found.append((np.mean(each), np.std(each, ddof=1) * np.sqrt(time / len(groups))))
    estimate, std = np.array(found).T
    return estimate, std


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
    """Return the number of a population, by which values are multiplied, unless they are for a population already."""
    if before is not None:
        raise ValueError(
            f"these values are for a population of {before:g} already, and population= would count it twice: "
            f"start from those of one decision."
        )
    return at_least_0(value, "population")


def population_note(factor: float) -> str:
    """The remark on a table of values for a population."""
    return f"Values are for a population of {factor:.6g}"


def at_least_0(value: Any, name: str) -> float:
    """Return `value` as a float if it is a number, at least 0."""
    if not is_number(value, 0.0, 1e30):
        raise ValueError(f"{name} must be a number from 0 to 1e30, but it is {shown(value)}.")
    return number(value, name)
