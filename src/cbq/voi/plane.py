"""The cost-effectiveness plane: differences in effect and cost from a reference, draw by draw, with an ellipse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common.arrays import Array
from cbq.common.checks import between_0_and_1, did_you_mean, is_number, is_whole, listed, shown
from cbq.common.tables import data_frame, short
from cbq.fit.labels import with_labels
from cbq.nested.decisions import Name
from cbq.voi.acceptability import wilson_interval
from cbq.voi.economics import EffectsAndCosts, effective_sizes
from cbq.voi.shown import ShownAsTable, sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SLOPE = 1e150  # beyond, net benefits overflow
MAX_POINTS = 100_000  # of an ellipse
QUADRANTS = ("north_east", "south_east", "south_west", "north_west")


@dataclass(frozen=True, eq=False, repr=False)
class CePlane(ShownAsTable):
    """Differences of D - 1 decisions from a reference, in n draws. Immutable; it prints as a table.

    reference, decisions : the name of the reference, and those of the others.
    effects, costs : (n, D - 1), the differences.
    willingness_to_pay : the slope of the line below which a draw favours a decision, or None.
    level : of the ellipses and the intervals. notes : remarks on the outputs, without full stops.

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

        Draws on an axis count as those with no more effect, or with no more cost.
        """
        east, north = self.effects > 0, self.costs > 0
        inside = (east & north, east & ~north, ~east & ~north, ~east & north)
        return {name: np.mean(each, axis=0) for name, each in zip(QUADRANTS, inside, strict=True)}

    def columns(self) -> dict[str, list[Any]]:
        """The columns of `to_frame`."""
        rows: dict[str, Any] = {
            "decision": list(self.decisions),
            "reference": [self.reference] * len(self.decisions),
            "incremental_effect": np.mean(self.effects, axis=0),
            "incremental_cost": np.mean(self.costs, axis=0),
            "correlation": np.array([correlation(*both) for both in zip(self.effects.T, self.costs.T, strict=True)]),
            **self.quadrants(),
        }
        if self.willingness_to_pay is not None:
            names = ("below_line", "below_line_lower", "below_line_upper")
            rows |= {"willingness_to_pay": [self.willingness_to_pay] * len(self.decisions)}
            rows |= dict(zip(names, self.share_below(), strict=True))
        return {name: column if isinstance(column, list) else column.tolist() for name, column in rows.items()}

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each decision but the reference."""
        return data_frame(self.columns())

    def plot(
        self, ax: Any = None, *, title: str | None = None, xlabel: str | None = None, ylabel: str | None = None
    ) -> Figure:
        """The draws of each decision with its mean and ellipse, and the line of the willingness to pay.

        title, xlabel, ylabel : texts in place of those of the figure.
        """
        from cbq.voi.curves import plot_plane

        return with_labels(plot_plane(self, ax), ax, title, xlabel, ylabel)

    def _cells(self) -> tuple[list[list[str]], list[str]]:
        columns = self.columns()
        header = ["decision", "more effect", "more cost", *(name.replace("_", "-") for name in QUADRANTS)]
        used = ["incremental_effect", "incremental_cost", *QUADRANTS]
        if self.willingness_to_pay is not None:
            header, used = [*header, "below the line"], [*used, "below_line"]
        lines = [[name, *(short(columns[key][d], 4) for key in used)] for d, name in enumerate(self.decisions)]
        legend = f"Means and shares of {len(self.effects)} draws, against {self.reference}."
        if self.willingness_to_pay is not None:
            legend += f" The line is that of a willingness to pay of {self.willingness_to_pay:g}."
        return [header, *lines], [legend, *sentences(self.notes)]


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
    r = _reference(reference, draws)
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


def _reference(given: Any, draws: EffectsAndCosts) -> int:
    if given is None:
        return int(np.argmin(np.mean(draws.costs, axis=0)))
    if isinstance(given, str) and given in draws.names:
        return draws.names.index(given)
    if is_whole(given, 0, len(draws.names) - 1):
        return int(given)
    hint = did_you_mean(given, draws.names, "decisions") if isinstance(given, str) else listed(draws.names)
    raise ValueError(f"reference must be a decision, by name or position, but it is {shown(given)}: {hint}")
