"""What a figure shows, described once: panels with marks on two axes.

`draw` draws a description with matplotlib, and `cbq.report.charts` puts it on pages. Both take limits from here. Texts
may contain mathematics as matplotlib reads it; `plain` protects names of users.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from cbq.common import Array, shown, text

if TYPE_CHECKING:
    import matplotlib.figure

# Numbers of colours, distinct for colour-blind readers (Okabe and Ito). Pages have their own shades, light and dark.
BLUE, ORANGE, INK, GREEN, PINK, YELLOW, SKY, GREY = range(8)
SERIES = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, GREY)  # ink is left for references, such as EVPI
MARKERS = "os^DvPX"  # so that series also differ without colour
DASHES: tuple[Dash, ...] = ("solid", "dashed", "dotted")
MANY = 60  # from this number on, points are drawn below lines, which they would hide
MARGIN, TEXT_MARGIN = 0.04, 0.1  # around values, relative to their range, without and with texts beside them
DECADE = 10.0  # the ratio of positive values beyond which an axis is logarithmic
MAX_LABEL = 1000  # characters of a user's own label

Dash = Literal["solid", "dashed", "dotted"]
Along = Literal["x", "y"]


@dataclass(frozen=True, eq=False)
class Mark:
    """Something drawn in a panel; marks with the same label share one entry of the legend.

    layer : marks with a larger number cover others.
    """

    layer: ClassVar[float] = 2.0

    def values(self, along: Along) -> list[Array]:
        """The coordinates along x or y that the panel must show, but for the bars of points."""
        return [np.asarray(getattr(self, along), dtype=np.float64)]


@dataclass(frozen=True, eq=False)
class Line(Mark):
    """A line through x and y (n,), broken where y is NaN. width: in points."""

    x: Any
    y: Any
    label: str = ""
    colour: int = BLUE
    dash: Dash = "solid"
    marker: str = ""
    width: float = 1.6
    opacity: float = 1.0


@dataclass(frozen=True, eq=False)
class Band(Mark):
    """The area between low and high (n,) over x (n,)."""

    layer: ClassVar[float] = 1.0
    x: Any
    low: Any
    high: Any
    label: str = ""
    colour: int = BLUE
    opacity: float = 0.18

    def values(self, along: Along) -> list[Array]:
        return [np.asarray(v, dtype=np.float64) for v in ((self.x,) if along == "x" else (self.low, self.high))]


@dataclass(frozen=True, eq=False)
class Dots(Mark):
    """Dots at x and y (n,), with bars from low to high (n,) if they are given; -inf is the lower edge of the panel.

    fill : "solid" in the colour, "white" with an edge in the colour, or "none" for rings.
    size : in points.
    """

    x: Any
    y: Any
    low: Any = None
    high: Any = None
    label: str = ""
    colour: int = INK
    marker: str = "o"
    size: float = 4.0
    fill: Literal["solid", "white", "none"] = "solid"
    opacity: float = 1.0

    @property
    def layer(self) -> float:  # type: ignore[override]
        """Below lines if there are many."""
        return 1.5 if np.size(self.x) > MANY else 2.5


@dataclass(frozen=True, eq=False)
class Bars(Mark):
    """Horizontal bars (J,) from the top, one for each name of the y axis, with intervals; one may be orange."""

    layer: ClassVar[float] = 1.0
    value: Any
    low: Any
    high: Any
    accent: int | None = None

    def values(self, along: Along) -> list[Array]:
        return [np.append(np.asarray(v, dtype=np.float64), 0.0) for v in (self.value, self.high) if along == "x"]


@dataclass(frozen=True, eq=False)
class Heat(Mark):
    """Colours of values (m, n) over the grid of x (n,) and y (m,), or of values (n,) at places x and y (n,).

    centred : whether the middle of the colours is zero.
    """

    layer: ClassVar[float] = 0.5
    x: Any
    y: Any
    cells: Any
    label: str = ""
    palette: Literal["viridis", "cividis", "PuOr"] = "viridis"
    log: bool = False
    centred: bool = False

    @property
    def is_grid(self) -> bool:
        """Whether values fill a grid."""
        return np.ndim(self.cells) == 2

    @property
    def ends(self) -> tuple[float, float]:
        """The values at the ends of the colours."""
        size = float(np.nanmax(np.abs(self.cells))) or 1.0
        return (-size, size) if self.centred else (float(np.nanmin(self.cells)), float(np.nanmax(self.cells)))

    def edges(self, along: Along) -> Array:
        """The edges of the cells of a grid, halfway between places."""
        places: Array = np.asarray(getattr(self, along), dtype=np.float64)
        if len(places) == 1:
            return np.array([places[0] - 0.5, places[0] + 0.5])
        middle = 0.5 * (places[1:] + places[:-1])
        return np.concatenate([[2 * places[0] - middle[0]], middle, [2 * places[-1] - middle[-1]]])

    def values(self, along: Along) -> list[Array]:
        return [self.edges(along)] if self.is_grid else super().values(along)


@dataclass(frozen=True, eq=False)
class Zone(Mark):
    """Parts (k, 2) of the x axis whose background is hatched."""

    layer: ClassVar[float] = 0.4
    spans: Array
    label: str
    hatch: str = "///"

    def values(self, along: Along) -> list[Array]:
        return []

    @classmethod
    def where(cls, x: Array, marked: Any, label: str, hatch: str) -> list[Zone]:
        """One around all runs of marked places among x (n,), rising; none if there is no run of two."""
        steps = np.diff(np.concatenate([[0], np.asarray(marked, dtype=int), [0]]))
        spans = np.stack([x[np.flatnonzero(steps > 0)], x[np.flatnonzero(steps < 0) - 1]], axis=1)
        spans = spans[spans[:, 0] < spans[:, 1]]
        return [cls(spans, label, hatch)] if len(spans) else []


@dataclass(frozen=True, eq=False)
class Rule(Mark):
    """A line across the panel: at this x, at this y, or through the origin with this slope."""

    at: float
    along: Literal["x", "y", "slope"] = "x"
    label: str = ""
    colour: int = INK
    dash: Dash = "dashed"
    width: float = 1.4

    def values(self, along: Along) -> list[Array]:
        return [np.array([self.at], dtype=np.float64)] if along == self.along else []


@dataclass(frozen=True, eq=False)
class Label(Mark):
    """Words right (1) or left (-1) of a place, above (1) or below (-1), or centred on it (0).

    -inf is an edge of the panel.
    """

    layer: ClassVar[float] = 3.0
    x: float
    y: float
    words: str
    right: int = 0
    above: int = 0
    colour: int | None = INK  # None: white

    def values(self, along: Along) -> list[Array]:
        return []


@dataclass(frozen=True)
class Axis:
    """An axis of a panel.

    zero : whether it must contain zero.
    limits : from where to where; by default around the values of the marks.
    ticks : where numbers stand, by default round ones.
    names : of categories at 0, 1, ... in place of numbers, the first on top.
    own : whether a user's own label replaces this one.
    """

    label: str = ""
    log: bool = False
    zero: bool = False
    limits: tuple[float, float] | None = None
    ticks: Sequence[float] | None = None
    names: Sequence[str] = ()
    own: bool = True


@dataclass(frozen=True, eq=False)
class Panel:
    """Marks on two axes, in the order of the legend."""

    marks: Sequence[Mark]
    x: Axis
    y: Axis
    title: str = ""

    @property
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The limits of x and y. Curves fill the panel from left to right, and long bars of points are cut off."""
        return self._ends("x"), self._ends("y")

    def _ends(self, along: Along) -> tuple[float, float]:
        axis: Axis = getattr(self, along)
        if axis.limits is not None:
            return axis.limits
        if axis.names:
            return -0.5, len(axis.names) - 0.5
        marked = any(isinstance(mark, Line) and mark.marker for mark in self.marks)
        curves = [] if marked else [mark for mark in self.marks if _is_curve(mark)]
        marks = curves if along == "x" and curves else self.marks
        fixed = any(isinstance(mark, Heat) and mark.is_grid for mark in marks)
        low, high = _around([v for mark in marks for v in mark.values(along)], axis)
        if along == "y" and not axis.log:
            low, high = _with_bars(low, high, [mark for mark in marks if isinstance(mark, Dots)], bool(curves))
        wide = TEXT_MARGIN if any(isinstance(mark, Label) for mark in marks) else MARGIN
        return (low, high) if fixed or (marks is curves and low < high) else _with_margin(low, high, axis, wide)


def _is_curve(mark: Mark) -> bool:
    """Whether this is a curve or a band over a rising x."""
    if not isinstance(mark, Band | Line):
        return False
    return len(mark.x) > 1 and bool(np.all(np.diff(mark.x) >= 0))


def _around(values: Iterable[Array], axis: Axis) -> tuple[float, float]:
    """The smallest and the largest value that an axis can show."""
    joined = np.concatenate([np.empty(0), *map(np.ravel, values)])
    known = joined[np.isfinite(joined) & ((joined > 0) | (not axis.log))]
    if not len(known):
        return (1.0, 10.0) if axis.log else (0.0, 1.0)
    low, high = float(np.min(known)), float(np.max(known))
    return (min(low, 0.0), max(high, 0.0)) if axis.zero else (low, high)


def _with_bars(low: float, high: float, points: Sequence[Dots], curves: bool) -> tuple[float, float]:
    """The same with the bars of points, which reach half of the range further at most if there are curves."""
    ends = [np.asarray(end) for each in points if each.low is not None for end in (each.low, each.high)]
    ends = [end[np.isfinite(end)] for end in ends]
    if not sum(map(np.size, ends)):
        return low, high
    reach = 0.5 * (high - low) if curves else np.inf
    every = np.concatenate(ends)
    return max(low - reach, min(low, float(every.min()))), min(high + reach, max(high, float(every.max())))


def _with_margin(low: float, high: float, axis: Axis, share: float) -> tuple[float, float]:
    if axis.log:
        margin = (high / low) ** share if high > low else 2.0
        return low / margin, high * margin
    margin = share * (high - low) or 0.5 * abs(low) or 1.0
    return (
        low if axis.zero and low == 0 else low - margin,
        high if axis.zero and high == 0 and low < 0 else high + margin,
    )


def placed(values: Any, ends: tuple[float, float]) -> Array:
    """Values, with -inf moved to the lower end of an axis."""
    found = np.asarray(values, dtype=np.float64)
    return np.where(np.isneginf(found), ends[0], found)


def cut(values: Any, ends: tuple[float, float], *, log: bool) -> Array:
    """Values, with those far outside of an axis, or infinite, moved to where it does not reach."""
    low, high = ends
    if log:
        return np.clip(np.asarray(values, dtype=np.float64), low * low / high, high * high / low)
    return np.clip(np.asarray(values, dtype=np.float64), 2 * low - high, 2 * high - low)


@dataclass(frozen=True, eq=False)
class Figure:
    """Panels in rows, from the top; None leaves a place empty.

    size : in inches. heights : of the rows, relative to each other.
    share : the axes in common: x of the panels of a column, y of the panels of a row; they have one label.
    notes : lines below the panels.
    """

    rows: Sequence[Sequence[Panel | None]]
    size: tuple[float, float] = (6.4, 4.2)
    heights: Sequence[float] | None = None
    share: Literal["", "x", "y", "xy"] = ""
    notes: Sequence[str] = ()

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.rows for panel in row if panel is not None]


def series(i: int) -> dict[str, Any]:
    """Colour, marker and dash of series i of many: arguments of `Line`."""
    n = len(SERIES)
    return {"colour": SERIES[i % n], "marker": MARKERS[i % n], "dash": DASHES[i // n % len(DASHES)]}


def spans_decades(values: Array) -> bool:
    """Whether positive values differ so much that an axis should be logarithmic."""
    positive = values[values > 0]
    return bool(positive.size and positive.max() > DECADE * positive.min())


def plain(name: str) -> str:
    """A name that matplotlib shows as it is, and not as mathematics."""
    return name.replace("$", r"\$")


def draw(
    figure: Figure, ax: Any = None, *, title: Any = None, xlabel: Any = None, ylabel: Any = None
) -> matplotlib.figure.Figure:
    """Draw a description with matplotlib, in a figure that no window shows, or into given axes, one for each panel.

    title, xlabel, ylabel : texts of the user's own, in place of the texts of the figure.
    """
    texts = {"title": title, "xlabel": xlabel, "ylabel": ylabel}
    for name, value in texts.items():
        if value is not None and len(text(value, name)) > MAX_LABEL:
            raise ValueError(f"{name} must have {MAX_LABEL} characters at the most, but it has {len(value)}.")
    try:
        import matplotlib.figure  # noqa: F401

        from cbq.plotting.matplotlib import draw_figure, draw_into
    except ImportError as error:
        raise ImportError("plot needs matplotlib: python -m pip install matplotlib.") from error
    found: matplotlib.figure.Figure = draw_figure(figure, texts) if ax is None else draw_into(ax, figure, texts)
    return found


class Drawn(ABC):
    """A result with a figure."""

    @abstractmethod
    def _figure(self) -> Figure:
        """The description of its figure."""

    def plot(
        self, ax: Any = None, *, title: str | None = None, xlabel: str | None = None, ylabel: str | None = None
    ) -> matplotlib.figure.Figure:
        """A figure of this result, which no window shows: use `figure.savefig(path)`, or pass your own `ax`.

        title, xlabel, ylabel : texts in place of its own.
        """
        return draw(self._figure(), ax, title=title, xlabel=xlabel, ylabel=ylabel)


def plot(result: Any, **options: Any) -> matplotlib.figure.Figure:
    """The figure of a fit, an answer, a history, a comparison or a table: `result.plot(**options)`.

    Examples
    --------
    >>> fit = cbq.LSMC().fit(cbq.problems.get("butterfly").collect(T=12, N=20, rng=0))
    >>> figure = cbq.plot(fit, title="Value of the butterfly")
    >>> figure.get_suptitle()
    'Value of the butterfly'
    """
    method = None if isinstance(result, type) else getattr(result, "plot", None)
    if not callable(method) or not type(result).__module__.startswith("cbq."):
        raise TypeError(
            f"result must be an object with a figure, such as a fit, an answer of problem.solve, a comparison or an "
            f"EVPPI table, but it is {shown(result)}."
        )
    found: matplotlib.figure.Figure = method(**options)
    return found
