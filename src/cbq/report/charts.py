"""Charts and readers: their data as JSON beside an empty drawing, which the script of the page fills.

A chart is a panel of a figure (`cbq.plotting`), which matplotlib draws as well. A reader has a slider for each
coordinate and shows the numbers of a grid at the chosen place; nothing is interpolated. Charts that name a reader mark
the chosen place, and choose another one where they are pointed at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import floor, isfinite, log10
from typing import Any

import numpy as np

from cbq.common import LEAST_DIGITS, MAX_DIGITS, Array, Booleans, digits_apart
from cbq.plotting import Band, Dots, Heat, Label, Mark, Panel, cut, placed
from cbq.report.page import Block, Fragment, words

DIGITS = 12  # significant ones of numbers in the page
MAX_DECIMALS = 8
GROUPED_FROM = 1e6  # whole numbers from here on are written with commas between thousands
EXPONENT_FROM = 1e9  # numbers from here on are written with an exponent
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True, eq=False)
class Reader:
    """Sliders that read quantities on a grid.

    id : a word, for charts to name it.
    names, axes : the names of the coordinates, and their values.
    quantities : for each of them its name, and its mean, low and high ends, (M,) each.
    level : of the intervals.
    middle : the index on each axis where sliders start.
    full : whether the M places are all combinations of the coordinates, the last one fastest; otherwise they are, one
        after the other, those along each coordinate, with all others at the values `middle`.
    marked : (M,), where the remark holds.
    texts : the values of each axis in words; by default their numbers.
    """

    id: str
    names: Sequence[str]
    axes: Sequence[Array]
    quantities: Sequence[tuple[str, Array, Array, Array]]
    level: float
    middle: Sequence[int]
    full: bool = True
    marked: Booleans | None = None
    remark: str = ""
    texts: Sequence[Sequence[str]] | None = None

    def html(self) -> Fragment:
        """Sliders and their readings."""
        data = {
            "axes": list(self.axes),
            "places": self.texts or [[f"{v:.{digits_apart(axis)}g}" for v in axis] for axis in self.axes],
            "quantities": [self._quantity(*each) for each in self.quantities],
            "level": f"{100 * self.level:.4g}%",
            "middle": list(self.middle),
            "full": self.full,
            "marked": None if self.marked is None else np.flatnonzero(self.marked),
            "remark": self.remark,
        }
        sliders = "\n".join(self._slider(j) for j in range(len(self.names)))
        return Fragment(
            f'<div class="reader" id="{words(self.id)}">{json_script(data)}{sliders}'
            f'<div class="readings" role="status" aria-live="polite"></div></div>'
        )

    def _quantity(self, name: str, mean: Array, low: Array, high: Array) -> dict[str, Any]:
        """Numbers for charts, and texts for readers."""
        half = 0.5 * (high - low)
        texts = [[resolved(float(v), float(h)) for v, h in zip(each, half, strict=True)] for each in (mean, low, high)]
        return {"name": name, "mean": mean, "low": low, "high": high, "texts": texts}

    def _slider(self, j: int) -> str:
        key, name = words(f"{self.id}-{j}"), words(self.names[j])
        return (
            f'<div class="slider"><label for="{key}">{name}</label><input type="range" id="{key}" min="0" '
            f'max="{len(self.axes[j]) - 1}" step="1" value="{self.middle[j]}"><output for="{key}"></output></div>'
        )


def figure_html(panels: Panel | Sequence[Panel], caption: str, *, height: int = 300, **reading: Any) -> Fragment:
    """Panels side by side where there is room, each with a name for screen readers, and a caption.

    reading : `reader`, the id of the reader whose place the charts mark, `output`, the index of the quantity drawn as a
        spot, and `slice`, whether panel j has the curves along coordinate j through the place of the reader; documents,
        which have no reader, leave these out.
    """
    drawn, several = "", [panels] if isinstance(panels, Panel) else panels
    for j, panel in enumerate(several):
        name, more = _unicode(panel.title or panel.y.label or caption), {"height": height, "axis": j, **reading}
        drawn += (
            f'<div class="chart">{json_script(_specification(panel) | more)}'
            f'<ul class="legend" aria-hidden="true"></ul>'
            f'<svg role="img" aria-label="{words(name)}; a table has the numbers."></svg></div>'
        )
    html = f'<figure><div class="charts">{drawn}</div><figcaption>{words(caption)}</figcaption></figure>'
    charts = [Block("chart", panel=panel) for panel in several if panel.marks and "slice" not in reading]
    return Fragment(html, *charts, *[Block("caption", caption)] * bool(charts))


def _specification(panel: Panel) -> dict[str, Any]:
    """A panel as the script of the page reads it."""
    axes = {}
    for along, axis, ends in zip("xy", (panel.x, panel.y), panel.limits, strict=True):
        texts = {"label": _unicode(axis.label), "names": [_unicode(name) for name in axis.names]}
        axes[along] = asdict(axis) | texts | {"ends": np.array(ends)}
    return {"title": _unicode(panel.title), **axes, "marks": [_mark(mark, panel) for mark in panel.marks]}


def _mark(mark: Mark, panel: Panel) -> dict[str, Any]:
    data = {field.name: getattr(mark, field.name) for field in fields(mark)}
    data = {key: np.asarray(v, dtype=np.float64) if _is_column(v) else v for key, v in data.items()}
    data |= {"type": type(mark).__name__.lower(), "layer": mark.layer}
    data |= {key: _unicode(data[key]) for key in ("label", "words") if key in data}
    if isinstance(mark, Dots | Label):
        data |= {along: placed(data[along], ends) for along, ends in zip("xy", panel.limits, strict=True)}
    if isinstance(mark, Band):
        data |= {key: cut(data[key], panel.limits[1], log=panel.y.log) for key in ("low", "high")}
    if isinstance(mark, Heat):
        data |= {"ends": np.array(mark.ends)} | ({along: mark.edges(along) for along in "xy"} if mark.is_grid else {})  # type: ignore[arg-type]
    return data


def _is_column(value: Any) -> bool:
    return isinstance(value, np.ndarray | list | tuple)


def _unicode(label: str) -> str:
    """A label without the mathematics that matplotlib reads, with letters and subscripts as on paper: I₀(θ)."""
    label = label.replace("\n", "; ")
    if r"\theta" in label:
        label = re.sub(r"_\{?(\d+)\}?", lambda found: found[1].translate(SUBSCRIPTS), label)
    return re.sub(r"(?<!\\)\$", "", label).replace(r"\$", "$").replace(r"\theta", "θ")


def json_script(data: object) -> str:
    """Data that the script of the page reads; no text in it can end the element or become markup."""
    text = json.dumps(_plain(data), allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json">{text}</script>'


def _plain(data: Any) -> Any:
    """Data as JSON has it, with null for numbers that are not finite.

    Numbers have `DIGITS` digits; numbers of an array have as many of the range of each column, so that places which are
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
    """Numbers, or nested lists of them, with this many digits; null if they are not finite."""
    if isinstance(data, list):
        return [_numbers(each, digits) for each in data]
    return float(f"{data:.{digits}g}") if isfinite(data) else None


def _digits(array: Array) -> int:
    """The digits of the numbers of an array (n,) or (n, k)."""
    columns = array.T if array.ndim == 2 else (array.ravel(),)
    finite = [column[np.isfinite(column)] for column in columns]
    return DIGITS + max((digits_apart(column) - LEAST_DIGITS for column in finite if len(column)), default=0)


def resolved(value: float, half_width: float) -> str:
    """A number with the digits that the half-width of its interval leaves: two of the half-width itself."""
    if not isfinite(value):
        return "-"
    if not (isfinite(half_width) and half_width > 0):
        return f"{value:.6g}"
    decimals = 1 - floor(log10(half_width))
    if decimals > MAX_DECIMALS or abs(value) >= EXPONENT_FROM:
        digits = decimals + (floor(log10(abs(value))) + 1 if value else 1)
        return f"{value:.{min(max(digits, 1), MAX_DIGITS) - 1}e}"
    if decimals >= 0:
        return f"{value:.{decimals}f}"
    whole = round(value, decimals)
    return f"{whole:,.0f}" if abs(whole) >= GROUPED_FROM else f"{whole:.0f}"
