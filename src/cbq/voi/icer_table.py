"""Incremental cost-effectiveness ratios (ICERs): which decisions are dominated, and what a unit of effect costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cbq.common.arrays import Array
from cbq.common.checks import between_0_and_1
from cbq.common.tables import BLANK, data_frame, short
from cbq.fit.labels import with_labels
from cbq.nested.decisions import Name
from cbq.voi.economics import EffectsAndCosts, effective_sizes
from cbq.voi.shown import ShownAsTable, sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Status = Literal["frontier", "dominated", "extendedly dominated"]
DIGITS = 5  # significant ones of means in text
ROUNDING = 1e-12  # of the largest difference: smaller ones are those of equal decisions
MIN_SIGNAL = 3.0  # standard errors of the difference of effects below which a ratio has no standard error


@dataclass(frozen=True)
class IcerRow:
    """A decision with its place on the cost-effectiveness frontier.

    effect, cost : means over the draws. effect_se, cost_se : their standard errors, as means of so many draws.
    status : "frontier"; "dominated": another one has at least its effect at no more than its cost; or "extendedly
        dominated": at each willingness to pay some other one has a larger mean net benefit.
    comparator : the next decision on the frontier with a smaller effect; empty for the first, and off the frontier.
    incremental_effect, incremental_cost, icer : differences from the comparator, and their ratio; None without one.
    se : the standard error of the ratio, as one of means of so many draws; None if the difference of effects is not
        clear of 0, so that it means nothing.
    lower, upper : the interval, over the draws, of the willingness to pay from which on the decision is better than the
        comparator: 0 for draws in which it dominates the comparator, and infinite for those in which it is dominated.
        Draws in which both differences are below 0, where no such value exists, widen it on both sides.
    note : what makes the ratio doubtful, or an empty string.

    Examples
    --------
    >>> table = cbq.voi.icers((np.array([[1.0, 2.0]] * 9), np.array([[10.0, 30.0]] * 9)))
    >>> table.rows[1].icer
    20.0
    """

    decision: str
    effect: float
    cost: float
    effect_se: float
    cost_se: float
    status: Status
    comparator: str = ""
    incremental_effect: float | None = None
    incremental_cost: float | None = None
    icer: float | None = None
    se: float | None = None
    lower: float | None = None
    upper: float | None = None
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class IcerTable(ShownAsTable):
    """The ICERs of all decisions, by rising cost. Immutable; it prints as a table.

    rows : one for each decision. n : the number of draws. level : of the intervals.
    notes : remarks on the outputs, without full stops.

    Examples
    --------
    >>> effects, costs = np.array([[1.0, 2.0, 1.5]] * 9), np.array([[10.0, 30.0, 40.0]] * 9)
    >>> table = cbq.voi.icers((effects, costs), decisions=["none", "drug", "old drug"])
    >>> [row.status for row in table.rows]
    ['frontier', 'frontier', 'dominated']
    """

    rows: tuple[IcerRow, ...]
    n: int
    level: float = 0.95
    notes: tuple[str, ...] = ()

    @property
    def frontier(self) -> tuple[str, ...]:
        """The decisions on the frontier, by rising effect: each is the best one from its ICER on."""
        return tuple(row.decision for row in self.rows if row.status == "frontier")

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row for each of `rows`."""
        return data_frame([asdict(row) for row in self.rows], self.columns)

    @property
    def columns(self) -> list[str]:
        """The fields of the rows."""
        return [field.name for field in fields(IcerRow)]

    def plot(
        self, ax: Any = None, *, title: str | None = None, xlabel: str | None = None, ylabel: str | None = None
    ) -> Figure:
        """The mean cost and effect of each decision, with a line through those of the frontier.

        title, xlabel, ylabel : texts in place of those of the figure.
        """
        from cbq.voi.curves import plot_frontier

        return with_labels(plot_frontier(self, ax), ax, title, xlabel, ylabel)

    def _cells(self) -> tuple[list[list[str]], list[str]]:
        notes = list(dict.fromkeys(row.note for row in self.rows if row.note))
        header = ["decision", "effect", "cost", "compared with", "more effect", "more cost", "ICER"]
        header += ["se", "lower", "upper", "status", *["note"] * bool(notes)]
        lines = [[*self._row(row), *[_mark(row.note, notes)] * bool(notes)] for row in self.rows]
        legend = (
            f"Means of {self.n} draws. se: of the ICER, by the number of draws. Intervals: in {100 * self.level:.4g}% "
            f"of the draws, the decision is better than the one it is compared with from a willingness to pay in "
            f"between on."
        )
        return [header, *lines], [legend, *(f"[{i}] {n}." for i, n in enumerate(notes, 1)), *sentences(self.notes)]

    @staticmethod
    def _row(row: IcerRow) -> list[str]:
        numbers = (row.incremental_effect, row.incremental_cost, row.icer)
        return [
            row.decision,
            short(row.effect, DIGITS),
            short(row.cost, DIGITS),
            row.comparator or BLANK,
            *(number_text(each, DIGITS) for each in numbers),
            number_text(row.se, 2),
            number_text(row.lower, 4),
            number_text(row.upper, 4),
            row.status,
        ]


def icers(
    outputs: Any,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    decisions: Sequence[str] | None = None,
    level: float = 0.95,
) -> IcerTable:
    """The table of incremental cost-effectiveness ratios, with dominated decisions marked.

    Parameters
    ----------
    outputs, effects, costs : a table with these columns of effects and costs, one of each for each decision; or a pair
        of tables, (effects, costs), with a column for each decision.
    decisions : their names, by default those that the columns tell.
    level : of the intervals.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> effects = {"none": rng.normal(10, 0.1, 500), "drug": rng.normal(12, 0.1, 500)}
    >>> costs = {"none": rng.normal(1000, 10, 500), "drug": rng.normal(21_000, 10, 500)}
    >>> table = cbq.voi.icers((effects, costs))
    >>> round(table.rows[1].icer / 1000), table.rows[1].comparator
    (10, 'none')
    """
    level = between_0_and_1(level, "level")
    draws = EffectsAndCosts.read(outputs, effects, costs, decisions)
    effect, cost = np.mean(draws.effects, axis=0), np.mean(draws.costs, axis=0)
    frontier, dominated = efficient_frontier(effect, cost)
    before = dict(zip(frontier[1:], frontier, strict=False))
    rows = []
    for d in np.lexsort([-effect, cost]).tolist():
        status: Status = "frontier" if d in frontier else "dominated" if d in dominated else "extendedly dominated"
        ratio = _ratio(draws, d, before[d], level) if d in before else {}
        effect_se, cost_se = (_standard_error(each[:, d]) for each in (draws.effects, draws.costs))
        rows.append(IcerRow(draws.names[d], float(effect[d]), float(cost[d]), effect_se, cost_se, status, **ratio))
    return IcerTable(tuple(rows), len(draws.effects), level, draws.notes)


def number_text(value: float | None, digits: int) -> str:
    """A number in few digits, or a mark that there is none."""
    return BLANK if value is None else short(value, digits)


def _mark(note: str, notes: list[str]) -> str:
    return f"[{notes.index(note) + 1}]" if note else ""


def efficient_frontier(effect: Array, cost: Array) -> tuple[list[int], list[int]]:
    """The decisions with the largest net benefit at some willingness to pay, by rising effect; and the dominated ones.

    effect, cost : means (D,). Of decisions that are equal in both, the first counts and the others are dominated.
    """
    even = [ROUNDING * float(np.max(np.abs(each - each[0]))) for each in (effect, cost)]
    kept: list[int] = []
    for d in np.lexsort([-effect, cost]).tolist():  # by cost, and among equals the largest effect first
        if not kept or effect[d] > effect[kept[-1]] + even[0]:
            if kept and cost[d] <= cost[kept[-1]] + even[1]:
                kept.pop()  # equal in cost but for rounding, and less effective
            kept.append(d)
    dominated = [d for d in range(len(effect)) if d not in kept]
    hull: list[int] = []
    for d in kept:
        while len(hull) > 1 and _is_above(hull[-2], hull[-1], d, effect, cost):
            hull.pop()
        hull.append(d)
    return hull, dominated


def _is_above(left: int, middle: int, right: int, effect: Array, cost: Array) -> bool:
    """Whether the middle decision costs more than a mixture of its neighbours with the same effect."""
    wide, narrow = effect[right] - effect[left], effect[middle] - effect[left]
    excess = (cost[middle] - cost[left]) * wide - (cost[right] - cost[left]) * narrow
    return bool(excess > ROUNDING * (cost[right] - cost[left]) * wide)


def _ratio(draws: EffectsAndCosts, d: int, other: int, level: float) -> dict[str, Any]:
    """The ICER of a decision against another one: the fields of an `IcerRow` that it fills."""
    more, dearer = draws.effects[:, d] - draws.effects[:, other], draws.costs[:, d] - draws.costs[:, other]
    effect, cost = float(np.mean(more)), float(np.mean(dearer))
    icer = cost / effect
    doubtful = effect < MIN_SIGNAL * _standard_error(more)
    low, high = threshold_interval(more, dearer, level)
    less = float(np.mean(more <= 0))
    remarks = [
        f"in {less:.2g} of the draws it has no more effect than {draws.names[other]}" if less > 0 else "",
        "the difference of effects is not clear of 0 with so many draws" if doubtful else "",
    ]
    return {
        "comparator": draws.names[other],
        "incremental_effect": effect,
        "incremental_cost": cost,
        "icer": icer,
        "se": None if doubtful else _standard_error(dearer - icer * more) / effect,
        "lower": low,
        "upper": high,
        "note": "; ".join(filter(None, remarks)),
    }


def threshold_interval(more: Array, dearer: Array, level: float) -> tuple[float, float]:
    """Quantiles, over draws, of the willingness to pay from which on more effect (n,) is worth being dearer (n,)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(more > 0, np.maximum(dearer / more, 0.0), np.inf)
    cheaper = (more <= 0) & (dearer < 0)  # better below some willingness to pay, and not above it
    tail = 0.5 * (1.0 - level)
    low = float(np.quantile(np.where(cheaper, 0.0, ratio), tail, method="inverted_cdf"))
    high = float(np.quantile(ratio, 1.0 - tail, method="inverted_cdf"))
    return low, high


def _standard_error(values: Array) -> float:
    """The standard error of the mean of values (n,) in the order of the draws."""
    return float(np.std(values, ddof=1) / np.sqrt(effective_sizes(values[:, None], values[:, None])[0]))
