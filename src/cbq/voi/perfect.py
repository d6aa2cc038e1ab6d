"""The expected value of perfect information (EVPI), and the net benefit and the expected loss of each decision.

The loss of a decision in a draw is the net benefit by which the best decision of this draw exceeds it. EVPI is the
expected loss of the decision with the largest mean net benefit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq.common import Array, autocorrelation_times, between_0_and_1, data_frame, is_sorted
from cbq.nested.answer import number_or_array
from cbq.nested.decisions import Decisions, Name, make_decisions
from cbq.plotting import Drawn, Figure, draw
from cbq.report import Column, Table, digits, in_text, sentences
from cbq.samples import Samples
from cbq.voi.money import InCurrency, PricedTable, currency_note, in_digits, money, multiplier, people, population_note
from cbq.voi.outputs import PRICE, NetBenefitDraws, effective_sizes, read_outputs, scale_net_benefits

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True, eq=False, repr=False)
class Evpi(Table, InCurrency):
    """E max_d NB_d - max_d E NB_d with its standard error: numbers, or (K,) for a vector of willingness to pay.

    Immutable: arrays are read-only. population : the number of decisions that values are for; None for one.
    currency : of the values, if it is stated.

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
    currency: str = ""

    _left = 0
    _most = 12

    def __post_init__(self) -> None:
        for each in fields(self):
            given = getattr(self, each.name)
            if given is not None and each.name != "currency":
                object.__setattr__(self, each.name, number_or_array(given))

    @property
    def per(self) -> str:
        """What values are for, in words."""
        return "per decision" if self.population is None else f"for a population of {people(self.population)}"

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
            yield Column(PRICE, np.ravel(self.willingness_to_pay).tolist(), digits(5))
        for name, values in found.items():
            yield Column(name, np.ravel(values).tolist(), in_digits(2 if name == "se" else 5))

    def _below(self, level: float = 0.95) -> list[str]:
        notes = [] if self.population is None else [population_note(self.population)]
        legend = f"Intervals of {100 * between_0_and_1(level, 'level'):.4g}%."
        return [legend, *sentences([*notes, *currency_note(self.currency)])]


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


@dataclass(frozen=True)
class NetBenefitRow:
    """The net benefit and the expected loss of a decision at one willingness to pay.

    net_benefit, se : the mean over draws, and its standard error as a mean of so many draws.
    lower, upper : the credible interval, quantiles over the draws.
    loss, loss_se : the expected loss, the mean of how much less the net benefit is than the largest of the draw.
    chosen : whether the decision has the largest mean net benefit. Its expected loss is EVPI.
    note : always empty.

    Examples
    --------
    >>> row = cbq.voi.net_benefits({"old": [0.0, 0.0], "new": [1.0, -3.0]}).rows[0]
    >>> row.decision, row.net_benefit, row.loss, row.chosen
    ('old', 0.0, 0.5, True)
    """

    decision: str = field(metadata=in_text())
    willingness_to_pay: float | None = field(metadata=in_text("{:g}".format))
    net_benefit: float = field(metadata=in_text(in_digits(5), "mean net benefit"))
    se: float = field(metadata=in_text(in_digits(2)))
    lower: float = field(metadata=in_text(in_digits(5)))
    upper: float = field(metadata=in_text(in_digits(5)))
    loss: float = field(metadata=in_text(money, "expected loss"))
    loss_se: float = field(metadata=in_text(in_digits(2), "its se"))
    chosen: bool = field(metadata=in_text(lambda chosen: "yes" if chosen else "no", "to choose"))
    note: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class NetBenefitTable(PricedTable, Drawn):
    """The net benefits and the expected losses of all decisions. Immutable; it prints as a table.

    rows : one for each willingness to pay and decision, in this order.
    n : the number of draws. level : of the credible intervals. currency : of the values, if it is stated.
    notes : remarks on the outputs, without full stops.

    Examples
    --------
    >>> table = cbq.voi.net_benefits({"old": [0.0, 0.0], "new": [1.0, -3.0]})
    >>> [row.loss for row in table.at()]
    [0.5, 1.5]
    """

    rows: tuple[NetBenefitRow, ...]
    n: int
    level: float = 0.95
    notes: tuple[str, ...] = ()
    currency: str = ""

    def _figure(self) -> Figure:
        """Expected losses over the willingness to pay; the lowest is EVPI. Bars, if there is one price."""
        from cbq.voi.figures import losses_figure

        return losses_figure(self)

    def _legend(self) -> str:
        return (
            f"Means of {self.n} draws; {100 * self.level:.4g}% of the draws are between lower and upper. The expected "
            f"loss of the decision to choose is EVPI per decision."
        )


def net_benefits(
    outputs: Any,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    decisions: Sequence[str] | None = None,
    level: float = 0.95,
) -> NetBenefitTable:
    """The mean net benefit of each decision with its credible interval, and its expected loss.

    Parameters
    ----------
    outputs, effects, costs, willingness_to_pay : as in `cbq.evpi`.
    decisions : their names, by default as the columns suggest.
    level : of the credible intervals, which have this share of the draws.

    Examples
    --------
    >>> outputs = {"old": np.zeros(400), "new": np.random.default_rng(0).normal(1, 2, 400)}
    >>> old, new = cbq.voi.net_benefits(outputs).rows
    >>> new.chosen, bool(np.isclose(new.loss, cbq.evpi(outputs).estimate))
    (True, True)
    """
    tail = 0.5 * (1.0 - between_0_and_1(level, "level"))
    options = {"effects": effects, "costs": costs, PRICE: willingness_to_pay}
    draws = NetBenefitDraws.read(outputs, options, decisions)
    given = draws.decisions.willingness_to_pay
    prices: list[float | None] = [None] if given is None else [*np.ravel(given).tolist()]
    rows = []
    for price, weights, (differences, _) in zip(prices, draws.decisions.weights, draws.benefits(), strict=True):
        benefits = draws.values @ weights.T
        loss = np.max(differences, axis=1, keepdims=True) - differences
        best = int(np.argmax(np.mean(differences, axis=0)))
        low, high = np.quantile(benefits, [tail, 1.0 - tail], axis=0)
        columns = {"net_benefit": np.mean(benefits, axis=0), "lower": low, "upper": high, "loss": np.mean(loss, axis=0)}
        for name, each in (("se", benefits), ("loss_se", loss)):
            columns[name] = np.std(each, axis=0, ddof=1) / np.sqrt(effective_sizes(each, benefits))
        for d, decision in enumerate(draws.names):
            values: dict[str, Any] = {name: float(draws.unit * column[d]) for name, column in columns.items()}
            rows.append(NetBenefitRow(decision, price, **values, chosen=d == best))
    return NetBenefitTable(tuple(rows), len(draws.values), level, draws.notes)
