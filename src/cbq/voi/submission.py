"""Which decision is best in how many of the draws, and all parts of the appendix of a submission together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Integers, RNGLike, between_0_and_1, generator
from cbq.nested.decisions import Name
from cbq.plotting import Drawn, Figure
from cbq.report import Column, Table, sentences, write_page
from cbq.voi.cost_effectiveness import CePlane, IcerTable, ce_plane, icers, slope_of_line
from cbq.voi.information import EvppiTable, evppi, inputs_of
from cbq.voi.money import InCurrency, currency_note, nearest_price
from cbq.voi.one_way import TornadoTable, numeric_inputs, tornado
from cbq.voi.outputs import NetBenefitDraws, effective_sizes, wilson_interval
from cbq.voi.perfect import Evpi, NetBenefitTable, evpi, net_benefits

TIE = 1e-14  # of the terms of net benefits, about what rounding leaves of equal ones


@dataclass(frozen=True, eq=False, repr=False)
class Acceptability(Table, Drawn, InCurrency):
    """The probability of each of D decisions to be best, for K values of the willingness to pay.

    decisions : their names.
    willingness_to_pay : (K,), or None if the outputs are net benefits (K = 1).
    probability, lower, upper : (K, D), the shares of draws and the ends of their intervals, which allow for the draws
        being a sample.
    best : (K,), the decisions with the largest mean net benefit, by position: the ones to choose.
    n : the number of draws. level : of the intervals. notes : remarks on the outputs, without full stops.
    currency : of the willingness to pay, if it is stated.

    Examples
    --------
    >>> net_benefits = {"old": [0.0, 0.0, 0.0, 0.0], "new": [1.0, 2.0, -1.0, 3.0]}
    >>> found = cbq.voi.ceac(net_benefits)
    >>> found.probability
    array([[0.25, 0.75]])
    >>> found.frontier
    array([0.75])
    """

    decisions: tuple[str, ...]
    willingness_to_pay: Array | None
    probability: Array
    lower: Array
    upper: Array
    best: Integers
    n: int
    level: float = 0.95
    notes: tuple[str, ...] = ()
    currency: str = ""

    _most = 12

    def __post_init__(self) -> None:
        for name in ("willingness_to_pay", "probability", "lower", "upper", "best"):
            if (given := getattr(self, name)) is not None:
                array = np.array(given)
                array.setflags(write=False)
                object.__setattr__(self, name, array)

    @property
    def frontier(self) -> Array:
        """The probability (K,) that the decision with the largest mean net benefit is best (CEAF)."""
        return np.asarray(np.take_along_axis(self.probability, self.best[:, None], axis=1)[:, 0])

    def _figure(self) -> Figure:
        """The curves with their bands, and the frontier; bars, if there is one willingness to pay."""
        from cbq.voi.figures import acceptability_figure

        return acceptability_figure(self)

    columns = Table.to_columns

    def _columns(self) -> Iterator[Column]:
        K, D = self.probability.shape
        if self.willingness_to_pay is not None:
            yield Column("willingness_to_pay", np.repeat(self.willingness_to_pay, D).tolist())
        yield Column("decision", list(self.decisions) * K)
        for name in ("probability", "lower", "upper"):
            yield Column(name, getattr(self, name).ravel().tolist())
        yield Column("frontier", (np.arange(D) == self.best[:, None]).ravel().tolist())

    def _in_text(self) -> Iterator[Column]:
        """A row for each willingness to pay, with a column for each decision."""
        if self.willingness_to_pay is not None:
            yield Column("willingness_to_pay", self.willingness_to_pay, "{:g}".format)
        for name, share in zip(self.decisions, self.probability.T, strict=True):
            yield Column(name, share, "{:.3f}".format, name)
        yield Column("best on average", [self.decisions[d] for d in self.best], str)

    def _below(self) -> list[str]:
        half = float(np.max(self.upper - self.lower)) / 2
        legend = f"The share of {self.n} draws in which each is best, to within {half:.3f} at {100 * self.level:.4g}%."
        return [legend, *sentences([*self.notes, *currency_note(self.currency)])]


def ceac(
    outputs: Any,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    decisions: Sequence[str] | None = None,
    level: float = 0.95,
) -> Acceptability:
    """The cost-effectiveness acceptability curve (CEAC) and frontier (CEAF): how often each decision is best.

    Parameters
    ----------
    outputs, effects, costs, willingness_to_pay : as in `cbq.evpi`: net benefits, or effects and costs with a number or
        a vector.
    decisions : their names, by default as the columns suggest.
    level : of the intervals of probabilities (Wilson's, for a share of so many draws). Draws that are
        autocorrelated in their order count as fewer.

    Where several decisions are equally good, a draw counts for each in equal parts, so that probabilities sum to 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = {"qaly_A": rng.normal(1, 0.1, 500), "qaly_B": rng.normal(1.2, 0.1, 500)}
    >>> table |= {"cost_A": np.full(500, 1000.0), "cost_B": np.full(500, 3000.0)}
    >>> options = {"effects": ["qaly_A", "qaly_B"], "costs": ["cost_A", "cost_B"]}
    >>> found = cbq.voi.ceac(table, **options, willingness_to_pay=[0, 50_000])
    >>> found.best, found.probability[0]
    (array([0, 1]), array([1., 0.]))
    """
    level = between_0_and_1(level, "level")
    options = {"effects": effects, "costs": costs, "willingness_to_pay": willingness_to_pay}
    draws = NetBenefitDraws.read(outputs, options, decisions)
    each = [_at_one_price(benefits, size, level) for benefits, size in draws.benefits()]
    probability, lower, upper, best = (np.array(values) for values in zip(*each, strict=True))
    price = draws.decisions.willingness_to_pay
    prices = None if price is None else np.ravel(price)
    return Acceptability(draws.names, prices, probability, lower, upper, best, len(draws.values), level, draws.notes)


def _at_one_price(benefits: Array, size: Array, level: float) -> tuple[Array, Array, Array, int]:
    """Shares with their intervals (D,), and the best on average, for net benefits (n, D) of terms of this size."""
    top = np.max(benefits, axis=1, keepdims=True)
    wins = (benefits >= top - TIE * size).astype(np.float64)
    wins /= np.sum(wins, axis=1, keepdims=True)
    share = np.mean(wins, axis=0)
    return (
        share,
        *wilson_interval(share, effective_sizes(wins, benefits), level),
        int(np.argmax(np.mean(benefits, axis=0))),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Appendix:
    """The results of a probabilistic sensitivity analysis. Immutable; it prints as its parts, one below the other.

    icers, plane : None if the outputs are net benefits, which do not tell effects from costs.
    net_benefits, ceac, evpi : at each willingness to pay.
    evppi : None if there are no inputs to value. tornado : at one willingness to pay; None without inputs of numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=300)
    >>> effects, costs = {"old": 0 * risk, "new": 1 + risk}, {"old": 0 * risk, "new": 20_000 + 0 * risk}
    >>> found = cbq.voi.appendix((effects, costs), {"risk": risk}, willingness_to_pay=[10_000, 20_000, 30_000])
    >>> found.icers.frontier, len(found.evppi.rows)
    (('old', 'new'), 3)
    """

    icers: IcerTable | None
    plane: CePlane | None
    net_benefits: NetBenefitTable
    ceac: Acceptability
    evpi: Evpi
    evppi: EvppiTable | None = None
    tornado: TornadoTable | None = None

    @property
    def line(self) -> float | None:
        """The willingness to pay of the line in the plane, which texts and reports show first; None without a plane."""
        return None if self.plane is None else self.plane.willingness_to_pay

    @property
    def parts(self) -> dict[str, Any]:
        """The parts that there are, by name."""
        every = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: part for name, part in every.items() if part is not None}

    def in_currency(self, currency: str) -> Appendix:
        """The same, with the name of the currency on all parts; no number changes."""
        return replace(self, **{name: part.in_currency(currency) for name, part in self.parts.items()})

    def for_population(self, population: float) -> Appendix:
        """The same with EVPI and EVPPI for this many decisions instead of one, as `cbq.voi.population` counts them."""
        partial = None if self.evppi is None else self.evppi.for_population(population)
        return replace(self, evpi=self.evpi.for_population(population), evppi=partial)

    def report(self, path: str | PathLike[str], *, title: str | None = None, repeat: str | None = None) -> None:
        """Write tables and charts of all parts: HTML that loads nothing, or Word or PDF by the suffix .docx or .pdf.

        title : of the page. repeat : code or a command that makes these results.
        """
        from cbq.voi.pages import appendix_page

        write_page(lambda: appendix_page(self, title, repeat), path, title=title, repeat=repeat)

    def __str__(self) -> str:
        """The tables of all parts under their names."""
        parts = {
            "Costs and effects": self.icers,
            "Differences from the reference": self.plane,
            "Net benefits and expected losses": at_line(self.net_benefits, self.line),
            "Probability of being best (CEAC)": self.ceac,
            "Expected value of perfect information (EVPI)": self.evpi,
            "Expected value of partial perfect information (EVPPI)": at_line(self.evppi, self.line),
            "Tornado": self.tornado,
        }
        return "\n\n".join(f"{name}\n{part}" for name, part in parts.items() if part is not None)

    __repr__ = __str__


def at_line(table: Any, line: float | None) -> Any:
    """The rows of a table at the willingness to pay that is nearest to the line, with a note on the others."""
    if table is None or line is None:
        return table
    prices, nearest = table.prices, nearest_price(table.prices, line)
    rows = tuple(row for row in table.rows if row.willingness_to_pay == nearest)
    notes = [f"{len(prices) - 1} more values of the willingness to pay are not shown"] * (len(prices) > 1)
    return replace(table, rows=rows, notes=(*notes, *table.notes))


def appendix(
    outputs: Any,
    inputs: Any = None,
    pars: Any = "all",
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    decisions: Sequence[str] | None = None,
    reference: Name | None = None,
    line: float | None = None,
    level: float = 0.95,
    rng: RNGLike = 0,
) -> Appendix:
    """All parts of the appendix of a submission, from one table of draws.

    Parameters
    ----------
    outputs, effects, costs, willingness_to_pay : as in `cbq.evpi`.
    inputs, pars, rng : as in `cbq.evppi`; without inputs there is no EVPPI.
    decisions : their names, by default as the columns suggest.
    reference : the decision that the plane compares with, as in `cbq.voi.ce_plane`.
    line : the willingness to pay of the line in the plane, which texts and reports show first (default: the middle
        one). It is added to the others if it is not one of them.
    level : of all intervals.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = cbq.voi.appendix({"old": np.zeros(100), "new": rng.normal(0.5, 1, 100)})
    >>> found.icers is None, found.ceac.decisions
    (True, ('old', 'new'))
    """
    at = None if line is None else slope_of_line(line, "line")
    if inputs is None and not (isinstance(pars, str) and pars == "all"):
        raise ValueError("pars are columns of inputs=, which are missing: pass them, too.")
    seed = generator(rng)
    given = {"effects": effects, "costs": costs}
    if at is not None and willingness_to_pay is not None and at not in np.ravel(willingness_to_pay):
        willingness_to_pay = np.sort(np.append(np.ravel(willingness_to_pay), at))
    priced = given | {"willingness_to_pay": willingness_to_pay}
    accepted = ceac(outputs, **priced, decisions=decisions, level=level)  # type: ignore[arg-type]
    if accepted.willingness_to_pay is None and (reference is not None or at is not None):
        raise ValueError(
            "reference and line= are for the plane of effects and costs, but the outputs are net "
            "benefits: leave them out."
        )
    table, plane = None, None
    if accepted.willingness_to_pay is not None:
        prices = np.sort(accepted.willingness_to_pay)
        at = float(prices[len(prices) // 2]) if at is None else at
        table = icers(outputs, **given, decisions=decisions, level=level)
        plane = ce_plane(outputs, **given, decisions=decisions, willingness_to_pay=at, reference=reference, level=level)
    perfect = evpi(outputs, **priced)  # type: ignore[arg-type]
    benefits = net_benefits(outputs, **priced, decisions=decisions, level=level)  # type: ignore[arg-type]
    partial = bars = None
    if inputs is not None:
        partial = evppi(outputs, inputs, pars, **priced, level=level, rng=seed)  # type: ignore[arg-type]
        single = numeric_inputs(inputs, [name for row in partial.rows for name in inputs_of(row)])
        best = next(row.decision for row in benefits.at(at) if row.chosen)
        against = None if plane is None or plane.reference == best else plane.reference
        at_one = {**given, "willingness_to_pay": at, "decisions": decisions, "reference": against, "rng": seed}
        bars = tornado(outputs, inputs, single, **at_one) if single else None  # type: ignore[arg-type]
    return Appendix(table, plane, benefits, accepted, perfect, partial, bars)
