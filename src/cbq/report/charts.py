"""Charts and readers: what they show as JSON beside an empty drawing, which the script of the page fills.

A reader has a slider for each coordinate and says what is known at the chosen place. It moves on a grid, and shows the
numbers of the grid as they are: nothing is interpolated. Charts that name a reader mark the chosen place, and choose
another one where they are pointed at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, isfinite, log10
from typing import Any, Literal

import numpy as np

from cbq.common.arrays import LEAST_DIGITS, MAX_DIGITS, Array, digits_apart
from cbq.report.parts import Html, joined, words

DIGITS = 12  # significant ones of numbers in the page
MAX_DECIMALS = 8
EXPONENT_FROM = 1e9  # numbers from here on are written with an exponent


@dataclass(frozen=True)
class Axis:
    """The label of an axis, and whether it is logarithmic.

    zero : whether it must contain zero. ticks : for maps, the names of the places 0, 1, ... in place of numbers.
    """

    label: str
    log: bool = False
    zero: bool = False
    ticks: Sequence[str] | None = None


@dataclass(frozen=True, eq=False)
class Lines:
    """A chart of lines, bands, dots and zones over x; colours are numbers from 0 on.

    reader, axis, output: the reader whose place the chart marks, along this coordinate.
    """

    x: Axis
    y: Axis
    series: Sequence[Mapping[str, Any]]
    height: int = 300
    reader: str | None = None
    axis: int = 0
    output: int | None = None
    kind: Literal["lines"] = field(default="lines", init=False)


@dataclass(frozen=True, eq=False)
class Slice:
    """A chart along one coordinate of a reader, through the place that the reader shows."""

    x: Axis
    y: Axis
    reader: str
    axis: int
    output: int
    height: int = 230
    kind: Literal["slice"] = field(default="slice", init=False)


@dataclass(frozen=True, eq=False)
class Map:
    """A chart of colours over two coordinates: values (len(ys), len(xs)), with dots at places (n, 2)."""

    x: Axis
    y: Axis
    xs: Array
    ys: Array
    values: Array
    label: str
    log: bool = False
    palette: Literal["viridis", "cividis"] = "viridis"
    dots: Array | None = None
    reader: str | None = None
    kind: Literal["map"] = field(default="map", init=False)


@dataclass(frozen=True, eq=False)
class Bars:
    """Horizontal bars with intervals, one below the other: rows of label, value, low and high; a rule across all."""

    x: Axis
    rows: Sequence[Mapping[str, Any]]
    rule: Mapping[str, Any] | None = None
    kind: Literal["bars"] = field(default="bars", init=False)


Chart = Lines | Slice | Map | Bars


def band(label: str, x: Array, low: Array, high: Array, colour: int = 0, *, pale: bool = True) -> dict[str, Any]:
    """A band between two lines."""
    return {"type": "band", "label": label, "x": x, "low": low, "high": high, "colour": colour, "pale": pale}


def line(label: str, x: Array, y: Array, colour: int = 0, *, dashed: bool = False) -> dict[str, Any]:
    """A line."""
    return {"type": "line", "label": label, "x": x, "y": y, "colour": colour, "dashed": dashed}


def dots(
    label: str, x: Array, y: Array, low: Array | None = None, high: Array | None = None, colour: int = 2
) -> dict[str, Any]:
    """Dots, with bars from low to high if they are given."""
    return {"type": "dots", "label": label, "x": x, "y": y, "low": low, "high": high, "colour": colour}


def zone(label: str, start: float, end: float) -> dict[str, Any]:
    """A part of the horizontal axis with a background of its own."""
    return {"type": "zone", "label": label, "ends": np.array([start, end])}


@dataclass(frozen=True, eq=False)
class Reader:
    """Sliders that read quantities on a grid.

    id : a word, for charts to name it.
    names, axes : of the coordinates: what they are called, and their values.
    quantities : for each of them its name, and its mean, low and high ends, (M,) each.
    full : whether the M places are all combinations of the coordinates, the last one fastest; otherwise they are, one
        after the other, those along each coordinate, with all others at the values `middle` (indices).
    level : of the intervals. marked : (M,), where a remark holds. remark : what it says.
    """

    id: str
    names: Sequence[str]
    axes: Sequence[Array]
    quantities: Sequence[tuple[str, Array, Array, Array]]
    level: float
    middle: Sequence[int]
    full: bool = True
    marked: Array | None = None
    remark: str = ""

    def html(self) -> Html:
        """Sliders and what they read."""
        data = {
            "axes": list(self.axes),
            "quantities": [dict(zip(("name", "mean", "low", "high"), each, strict=True)) for each in self.quantities],
            "level": f"{100 * self.level:.4g}%",
            "middle": list(self.middle),
            "full": self.full,
            "marked": None if self.marked is None else np.flatnonzero(self.marked),
            "remark": self.remark,
        }
        sliders = [self._slider(j) for j in range(len(self.names))]
        return Html(
            f'<div class="reader" id="{words(self.id)}">{json_script(data)}{joined(sliders)}'
            f'<div class="readings" role="status" aria-live="polite"></div></div>'
        )

    def _slider(self, j: int) -> Html:
        key, name = words(f"{self.id}-{j}"), words(self.names[j])
        return Html(
            f'<div class="slider"><label for="{key}">{name}</label><input type="range" id="{key}" min="0" '
            f'max="{len(self.axes[j]) - 1}" step="1" value="{self.middle[j]}"><output for="{key}"></output></div>'
        )


def figure(charts: Sequence[tuple[Chart, str]], caption: str) -> Html:
    """Charts side by side where there is room, each with a text for those who cannot see it, and a caption."""
    drawn = "".join(
        f'<div class="chart">{json_script(_specification(chart))}<ul class="legend" aria-hidden="true"></ul>'
        f'<svg role="img" aria-label="{words(text)}"></svg></div>'
        for chart, text in charts
    )
    return Html(f'<figure><div class="charts">{drawn}</div><figcaption>{words(caption)}</figcaption></figure>')


def _specification(chart: Chart) -> dict[str, Any]:
    axes = {name: vars(getattr(chart, name)) for name in ("x", "y") if hasattr(chart, name)}
    return {"kind": chart.kind} | vars(chart) | axes


def json_script(data: object) -> Html:
    """Data that the script of the page reads; no text in it can end the element or become markup."""
    text = json.dumps(_plain(data), allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json">{text}</script>')


def _plain(data: Any) -> Any:
    """Data as JSON has it, with null for numbers that are not finite.

    Numbers have `DIGITS` digits; those of an array have as many of the range of each column, so that places which are
    large and near to each other stay apart.
    """
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, np.ndarray):
        return _numbers(data.tolist(), _digits(data)) if data.dtype.kind == "f" else _plain(data.tolist())
    if isinstance(data, list | tuple):
        return [_plain(each) for each in data]
    return _numbers(data, DIGITS) if isinstance(data, float) else data


def _numbers(data: Any, digits: int) -> Any:
    """Numbers, or nested lists of them, with this many digits; null for those that are not finite."""
    if isinstance(data, list):
        return [_numbers(each, digits) for each in data]
    return float(f"{data:.{digits}g}") if isfinite(data) else None


def _digits(array: Array) -> int:
    """Those of the numbers of an array (n,) or (n, k)."""
    columns = array.T if array.ndim == 2 else (array.ravel(),)
    finite = [column[np.isfinite(column)] for column in columns]
    return DIGITS + max((digits_apart(column) - LEAST_DIGITS for column in finite if len(column)), default=0)


def resolved(value: float, half_width: float) -> str:
    """A number with the digits that the half-width of its interval leaves: two of the half-width itself.

    The script of the page does the same.
    """
    if not isfinite(value):
        return "-"
    if not (isfinite(half_width) and half_width > 0):
        return f"{value:.6g}"
    decimals = 1 - floor(log10(half_width))
    if decimals > MAX_DECIMALS or abs(value) >= EXPONENT_FROM:
        digits = decimals + (floor(log10(abs(value))) + 1 if value else 1)
        return f"{value:.{min(max(digits, 1), MAX_DIGITS) - 1}e}"
    return f"{value:.{decimals}f}" if decimals >= 0 else f"{round(value, decimals):.0f}"
