"""Cost-effectiveness: the table of incremental ratios (ICERs) with dominated decisions, and the plane of all draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from cbq.common import BLANK, Array, between_0_and_1, did_you_mean, is_number, is_whole, listed, short, shown
from cbq.nested.decisions import Name
from cbq.plotting import Drawn, Figure
from cbq.report import Column, RowTable, Table, in_text, sentences
from cbq.voi.money import InCurrency, currency_note, in_digits, money
from cbq.voi.outputs import PRICE, EffectsAndCosts, effective_sizes, wilson_interval

Status = Literal["frontier", "dominated", "extendedly dominated"]
DIGITS = 5  # significant ones of means in text
ROUNDING = 1e-12  # of the largest difference: with smaller ones, decisions are equal
MIN_SIGNAL = 3.0  # standard errors of the difference of effects below which a ratio has no standard error
MAX_SLOPE = 1e150  # beyond, net benefits overflow
MAX_POINTS = 100_000  # of an ellipse
QUADRANTS = ("north_east", "south_east", "south_west", "north_west")


@dataclass(frozen=True)
class IcerRow:
    """A decision with its place on the cost-effectiveness frontier.

    effect, cost : means over the draws. effect_se, cost_se : their standard errors, as means of so many draws.
    status : "frontier"; "dominated": another one has at least its effect at no more than its cost; or "extendedly
        dominated": at each willingness to pay some other one has a larger mean net benefit.
    comparator : the next decision on the frontier with a smaller effect; empty for the first, and off the frontier.
    incremental_effect, incremental_cost, icer : differences from the comparator, and their ratio; None without one.
    incremental_effect_lower, ..., incremental_cost_upper : the credible intervals of the differences, over the draws.
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

    decision: str = field(metadata=in_text())
    effect: float = field(metadata=in_text(DIGITS))
    cost: float = field(metadata=in_text(in_digits(DIGITS)))
    effect_se: float
    cost_se: float
    status: Status = field(metadata=in_text())
    comparator: str = field(default="", metadata=in_text())
    incremental_effect: float | None = field(default=None, metadata=in_text(DIGITS, "more effect"))
    incremental_cost: float | None = field(default=None, metadata=in_text(in_digits(DIGITS), "more cost"))
    icer: float | None = field(default=None, metadata=in_text(in_digits(DIGITS), "ICER"))
    se: float | None = field(default=None, metadata=in_text(in_digits(2)))
    lower: float | None = field(default=None, metadata=in_text(money))
    upper: float | None = field(default=None, metadata=in_text(money))
    incremental_effect_lower: float | None = None
    incremental_effect_upper: float | None = None
    incremental_cost_lower: float | None = None
    incremental_cost_upper: float | None = None
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class IcerTable(RowTable, Drawn, InCurrency):
    """The ICERs of all decisions, by rising cost. Immutable; it prints as a table.

    rows : one for each decision. n : the number of draws. level : of the intervals.
    notes : remarks on the outputs, without full stops. currency : of costs, if it is stated.

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
    currency: str = ""

    @property
    def frontier(self) -> tuple[str, ...]:
        """The decisions on the frontier, by rising effect: each is the best one from its ICER on."""
        return tuple(row.decision for row in self.rows if row.status == "frontier")

    def _figure(self) -> Figure:
        """The mean cost and effect of each decision, with a line through the frontier."""
        from cbq.voi.figures import frontier_figure

        return frontier_figure(self)

    def _legend(self) -> str:
        return (
            f"Means of {self.n} draws. se is the standard error of the ICER. In {100 * self.level:.4g}% of draws, the "
            f"lowest willingness to pay at which the decision beats its comparator is between lower and upper."
        )

    def _remarks(self) -> Sequence[str]:
        return [*self.notes, *currency_note(self.currency)]


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
    decisions : their names, by default as the columns suggest.
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
    less, dominates = float(np.mean(more <= 0)), float(np.mean((more > 0) & (dearer <= 0)))
    this, name = draws.names[d], draws.names[other]
    never = ", so that upper is infinite" * bool(np.isinf(high))
    always = ", so that lower is 0" * (dominates > 0.5 * (1.0 - level))
    remarks = [
        f"in {less:.1%} of draws, {this} has no more effect than {name}, and paying more does not make it better{never}"
        if less > 0
        else "",
        f"in {dominates:.1%} of draws, {this} has more effect at no more cost, and is better at any price{always}"
        if always
        else "",
        "the difference of effects is not clear of 0 with so many draws" if doubtful else "",
    ]
    effect_ends, cost_ends = (credible_interval(each, level) for each in (more, dearer))
    return {
        "comparator": draws.names[other],
        "incremental_effect": effect,
        "incremental_cost": cost,
        "icer": icer,
        "se": None if doubtful else _standard_error(dearer - icer * more) / effect,
        "lower": low,
        "upper": high,
        "incremental_effect_lower": effect_ends[0],
        "incremental_effect_upper": effect_ends[1],
        "incremental_cost_lower": cost_ends[0],
        "incremental_cost_upper": cost_ends[1],
        "note": "; ".join(filter(None, remarks)),
    }


def credible_interval(values: Array, level: float) -> tuple[float, float]:
    """The quantiles of draws (n,) that have this share of them between."""
    low, high = np.quantile(values, [0.5 * (1.0 - level), 0.5 * (1.0 + level)]).tolist()
    return low, high


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


@dataclass(frozen=True, eq=False, repr=False)
class CePlane(Table, Drawn, InCurrency):
    """Differences of D - 1 decisions from a reference, in n draws. Immutable; it prints as a table.

    reference, decisions : the name of the reference, and of each other decision.
    effects, costs : (n, D - 1), the differences.
    willingness_to_pay : the slope of the line below which a draw favours a decision, or None.
    level : of the ellipses and the intervals. notes : remarks on the outputs, without full stops.
    currency : of costs, if it is stated.

    Examples
    --------
    >>> effects = {"old": [0.0, 0.0, 0.0, 0.0], "new": [1.0, 2.0, 1.0, -1.0]}
    >>> costs = {"old": [0.0, 0.0, 0.0, 0.0], "new": [100.0, 120.0, 200.0, 50.0]}
    >>> plane = cbq.voi.ce_plane((effects, costs), willingness_to_pay=150)
    >>> plane.quadrants()["north_east"], plane.share_below()[0]
    (array([0.75]), array([0.5]))
    """

    reference: str
    decisions: tuple[str, ...]
    effects: Array
    costs: Array
    willingness_to_pay: float | None = None
    level: float = 0.95
    notes: tuple[str, ...] = ()
    currency: str = ""

    def __post_init__(self) -> None:
        for name in ("effects", "costs"):
            array = np.array(getattr(self, name))
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def ellipse(self, decision: int = 0, points: int = 200) -> Array:
        """The closed curve (points, 2) of effects and costs that holds `level` of normal draws with their covariance.

        decision : its position in `decisions`. The radius is sqrt(-2 log(1 - level)) standard deviations.
        """
        if not is_whole(decision, 0, len(self.decisions) - 1):
            raise IndexError(
                f"decision must be a position from 0 to {len(self.decisions) - 1}, but it is {shown(decision)}."
            )
        if not is_whole(points, 4, MAX_POINTS):
            raise ValueError(f"points must be a whole number from 4 to {MAX_POINTS}, but it is {shown(points)}.")
        turn = np.linspace(0.0, 2.0 * np.pi, points)
        both = np.stack([self.effects[:, decision], self.costs[:, decision]])
        mean, std = np.mean(both, axis=1), np.std(both, axis=1, ddof=1)
        slope = correlation(*both)
        circle = np.sqrt(-2.0 * np.log1p(-self.level)) * np.stack([np.cos(turn), np.sin(turn)])
        leaning = np.stack([circle[0], slope * circle[0] + np.sqrt(1.0 - slope**2) * circle[1]])
        return np.asarray((mean[:, None] + std[:, None] * leaning).T)

    def share_below(self) -> tuple[Array, Array, Array]:
        """The share of draws below the line of the willingness to pay, and its interval: (D - 1,) each."""
        if self.willingness_to_pay is None:
            raise ValueError("there is no line to be below: make the plane with a willingness_to_pay.")
        below = (self.willingness_to_pay * self.effects > self.costs).astype(np.float64)
        share = np.mean(below, axis=0)
        return share, *wilson_interval(share, effective_sizes(below, self.effects, self.costs), self.level)

    def quadrants(self) -> dict[str, Array]:
        """The share of draws (D - 1,) in each quadrant: more effect is east, and more cost north.

        Draws on an axis have no more effect, or no more cost.
        """
        east, north = self.effects > 0, self.costs > 0
        inside = (east & north, east & ~north, ~east & ~north, ~east & north)
        return {name: np.mean(each, axis=0) for name, each in zip(QUADRANTS, inside, strict=True)}

    def _figure(self) -> Figure:
        """The draws of each decision with its mean and ellipse, and the line of the willingness to pay."""
        from cbq.voi.figures import plane_figure

        return plane_figure(self)

    columns = Table.to_columns

    def _columns(self) -> Iterator[Column]:
        D, both = len(self.decisions), zip(self.effects.T, self.costs.T, strict=True)
        yield Column("decision", list(self.decisions))
        yield Column("reference", [self.reference] * D)
        for name, draws in (("incremental_effect", self.effects), ("incremental_cost", self.costs)):
            yield Column(name, np.mean(draws, axis=0).tolist())
            ends = [credible_interval(each, self.level) for each in draws.T]
            yield Column(f"{name}_lower", [low for low, _ in ends])
            yield Column(f"{name}_upper", [high for _, high in ends])
        yield Column("correlation", [correlation(*each) for each in both])
        for name, share in self.quadrants().items():
            yield Column(name, share.tolist())
        if self.willingness_to_pay is not None:
            share, low, high = self.share_below()
            yield Column(PRICE, [self.willingness_to_pay] * D)
            yield Column("below_line", share.tolist())
            yield Column("below_line_lower", low.tolist())
            yield Column("below_line_upper", high.tolist())

    def _in_text(self) -> Iterator[Column]:
        """The same, with both ends of an interval in one column."""
        found, percent = self.to_columns(), "{:.1%}".format
        yield Column("decision", found["decision"], str)
        for name, label in (("incremental_effect", "more effect"), ("incremental_cost", "more cost")):
            yield Column(name, found[name], money, label)
            ends = zip(found[f"{name}_lower"], found[f"{name}_upper"], strict=True)
            texts = [f"{money(low)} to {money(high)}" for low, high in ends]
            yield Column(f"{name}_interval", texts, str, f"{100 * self.level:.4g}% of draws")
        for name in QUADRANTS:
            yield Column(name, found[name], percent, name.replace("_", "-"))
        if self.willingness_to_pay is not None:
            yield Column("below_line", found["below_line"], percent, "below the line")

    def _below(self) -> list[str]:
        legend = f"Means and shares of {len(self.effects)} draws, against {self.reference}."
        if self.willingness_to_pay is not None:
            legend += f" The line has a willingness to pay of {self.willingness_to_pay:g}."
        return [legend, *sentences([*self.notes, *currency_note(self.currency)])]


def ce_plane(
    outputs: Any,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: float | None = None,
    reference: Name | None = None,
    decisions: Sequence[str] | None = None,
    level: float = 0.95,
) -> CePlane:
    """The cost-effectiveness plane of all decisions against a reference.

    Parameters
    ----------
    outputs, effects, costs, decisions : as in `cbq.voi.icers`.
    willingness_to_pay : one number, the slope of the line in the plane (default: no line).
    reference : the decision to compare with, by name or position; by default the one with the smallest mean cost.
    level : of the ellipses, and of the interval of the share below the line.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> effects, costs = rng.normal([0, 1], 0.1, (500, 2)), rng.normal([0, 100], 30, (500, 2))
    >>> plane = cbq.voi.ce_plane((effects, costs), decisions=["old", "new"], willingness_to_pay=200)
    >>> plane.decisions, plane.ellipse().shape
    (('new',), (200, 2))
    """
    level = between_0_and_1(level, "level")
    price = None if willingness_to_pay is None else slope_of_line(willingness_to_pay, "willingness_to_pay")
    draws = EffectsAndCosts.read(outputs, effects, costs, decisions)
    cheapest = int(np.argmin(np.mean(draws.costs, axis=0)))
    r = cheapest if reference is None else decision_position(reference, draws.names, "reference")
    others = [d for d in range(len(draws.names)) if d != r]
    more, dearer = (each[:, others] - each[:, [r]] for each in (draws.effects, draws.costs))
    names = tuple(draws.names[d] for d in others)
    return CePlane(draws.names[r], names, more, dearer, price, level, draws.notes)


def slope_of_line(value: Any, name: str) -> float:
    """The willingness to pay of a line in the plane, which must be one number."""
    if not is_number(value, 0.0, MAX_SLOPE):
        raise ValueError(f"{name} must be one number from 0 on, for the line in the plane, but it is {shown(value)}.")
    return float(value)


def correlation(x: Array, y: Array) -> float:
    """The correlation of x (n,) and y (n,), from -1 to 1; 0 if one of them is constant."""
    a, b = (each - np.mean(each) for each in (x, y))
    sizes = float(np.sqrt(a @ a)) * float(np.sqrt(b @ b))
    return float(np.clip(a @ b / sizes, -1.0, 1.0)) if sizes > 0 else 0.0


def decision_position(given: Any, names: Sequence[str], argument: str) -> int:
    """The position of a decision that is given by its name or its position."""
    if isinstance(given, str) and given in names:
        return [*names].index(given)
    if is_whole(given, 0, len(names) - 1):
        return int(given)
    hint = did_you_mean(given, names, "decisions") if isinstance(given, str) else listed(names)
    raise ValueError(f"{argument} must be a decision, by name or position, but it is {shown(given)}: {hint}")
