"""The predictions of a fit at many thetas, for figures, and for the sliders and tables of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import isfinite
from typing import Any

import numpy as np

from cbq.common import Array, Booleans, Integers, digits_apart
from cbq.fit.base import Fit
from cbq.fit.theta_grids import SPARE_DIGITS, is_logarithmic, round_axis, theta_range
from cbq.measures import Measure
from cbq.report import Reader, capital, resolved

POINTS = {1: 241, 2: 41, 3: 15, 4: 8}  # along each coordinate of a full grid; more coordinates have slices
SLICE_POINTS, LEAST_POINTS = 41, 5
MAX_NUMBERS = 12_000  # of all outputs on a grid, at most, which keeps a report small
OBSERVED_ONLY = (ValueError, TypeError, NotImplementedError)  # raised by fits that predict at the observed thetas only
ROUNDING = 1e-14  # of I: a smaller difference is no difference


@dataclass(frozen=True, eq=False)
class AnswerGrid:
    """The mean and the ends of intervals of a level, (M, C), at thetas (M, p); NaN for fits without intervals.

    axes : the coordinates of the grid, whose combinations the thetas are, or along which they are, one coordinate after
        the other; None if they are no grid. middle : for each axis, the index where the others are fixed.
    """

    fit: Fit
    level: float
    theta: Array
    mean: Array
    low: Array
    high: Array
    axes: tuple[Array, ...] | None = None
    middle: tuple[int, ...] = ()
    full: bool = True
    is_log: bool = False  # whether the only axis is even in logarithms
    is_observed: bool = False  # whether these are the observed thetas, the only ones that the fit predicts at

    @classmethod
    def of(cls, fit: Fit, prior: Measure | None, level: float) -> AnswerGrid:
        """On a grid over the range of the prior and of the observed thetas."""
        full = fit.p in POINTS
        ends = theta_range(fit.theta, prior).T
        most = POINTS[fit.p] if full else SLICE_POINTS
        if full:
            most = max(min(most, int((MAX_NUMBERS / (fit.C or 1)) ** (1 / fit.p))), LEAST_POINTS)
        log = fit.p == 1 and is_logarithmic(fit.theta, *ends[0])
        make = partial(round_axis, log=log) if fit.p < 3 else _even_axis
        axes = tuple(make(low, high, most) for low, high in ends)
        median = np.median(fit.theta, axis=0)
        middle = tuple(int(np.argmin(np.abs(axis - m))) for axis, m in zip(axes, median, strict=True))
        theta = _combined(axes) if full else _along(axes, middle)
        try:
            return replace(cls.at(fit, theta, level), axes=axes, middle=middle, full=full, is_log=log)
        except OBSERVED_ONLY:  # at the observed thetas in order, which are a grid for p = 1
            theta = np.unique(fit.theta, axis=0)
            along = (theta[:, 0],) if fit.p == 1 and len(theta) > 1 else None
            return replace(cls.at(fit, theta, level), axes=along, middle=(len(theta) // 2,), is_observed=True)

    @classmethod
    def at(cls, fit: Fit, theta: Array, level: float, *, bare: bool = True) -> AnswerGrid:
        """At thetas (M, p). bare: whether a fit without standard errors may have no intervals, or else raises."""
        mean = as_columns(fit.predict(theta))
        try:
            low, high = (as_columns(end) for end in fit.interval(theta, level))
        except OBSERVED_ONLY:
            if not bare:
                raise
            low = high = np.full_like(mean, np.nan)
        return cls(fit, level, theta, mean, low, high)

    @property
    def half_width(self) -> Array:
        """The half-width of the intervals, (M, C)."""
        return 0.5 * (self.high - self.low)

    @cached_property
    def beyond(self) -> Booleans:
        """Whether each theta is beyond the observed ones, (M,)."""
        return self.fit.beyond(self.theta)

    @cached_property
    def digits(self) -> list[int]:
        """The digits with which thetas can be told apart, for each coordinate."""
        return [digits_apart(column) for column in self.theta.T]

    def place(self, names: Sequence[str], rows: Integers) -> str:
        """Thetas in words: "at a = 1, b = 2" for one, "with a from 1 to 3, b = 2" for the smallest box with several."""
        low, high = np.min(self.theta[rows], axis=0), np.max(self.theta[rows], axis=0)
        fixed = np.full(len(names), False)
        if not self.full and self.axes is not None:  # along each coordinate, the others are in the middle
            centre = np.array([axis[m] for axis, m in zip(self.axes, self.middle, strict=True)])
            fixed = (low == centre) & (high == centre)
        parts = [
            f"{name} = {a:.{n}g}" if a == b else f"{name} from {a:.{n}g} to {b:.{n}g}"
            for name, n, a, b, skip in zip(names, self.digits, low, high, fixed, strict=True)
            if not skip or np.all(fixed)
        ]
        ends = np.any((low == np.min(self.theta, axis=0)) | (high == np.max(self.theta, axis=0)))
        end = ", where the range shown ends" if ends and len(self.theta) > 1 else ""
        return f"{'at' if len(rows) == 1 else 'with'} {', '.join(parts)}{end}"

    @property
    def has_intervals(self) -> bool:
        """Whether the fit has intervals, all of them finite."""
        return bool(np.all(np.isfinite(self.low)))

    def reader(self, key: str, names: Sequence[str], outputs: Sequence[str]) -> Reader:
        """Sliders along the axes."""
        assert self.axes is not None
        quantities = [(name, self.mean[:, c], self.low[:, c], self.high[:, c]) for c, name in enumerate(outputs)]
        remark = "This theta is beyond the observed ones: the interval rests on a prior."
        return Reader(key, names, self.axes, quantities, self.level, self.middle, self.full, self.beyond, remark)


def as_columns(values: Any) -> Array:
    """Values (M,) or (M, C) as (M, C)."""
    return np.asarray(values).reshape(len(values), -1)


def _even_axis(low: float, high: float, points: int) -> Array:
    """Evenly spaced numbers with few digits."""
    unit = 10.0 ** np.floor(np.log10((high - low) / (10 * points)))
    digits = digits_apart(np.array([low, high])) + SPARE_DIGITS
    return np.unique([float(f"{round(v / unit) * unit:.{digits}g}") for v in np.linspace(low, high, points)])


def _combined(axes: Sequence[Array]) -> Array:
    """All combinations (M, p), the last coordinate fastest."""
    return np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)


def _along(axes: Sequence[Array], middle: Sequence[int]) -> Array:
    """The places along each axis, the other coordinates at their middle, one axis after the other: (M, p)."""
    centre = np.array([axis[m] for axis, m in zip(axes, middle, strict=True)])
    found = []
    for j, axis in enumerate(axes):
        places = np.tile(centre, (len(axis), 1))
        places[:, j] = axis
        found.append(places)
    return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class Extreme:
    """The rows (k,) of a grid at which I may be smallest, or largest, and between which numbers it is there."""

    rows: Integers
    low: float
    high: float


def smallest_and_largest(low: Array, high: Array) -> tuple[Extreme, Extreme]:
    """The extremes of an I with intervals from low (M,) to high (M,), which may be infinite."""
    ends = np.abs([low, high])
    rounding = ROUNDING * np.max(ends, initial=0.0, where=np.isfinite(ends))
    bottom, top = float(np.min(high)), float(np.max(low))
    least, most = np.flatnonzero(low <= bottom + rounding), np.flatnonzero(high >= top - rounding)
    return Extreme(least, float(np.min(low)), bottom), Extreme(most, top, float(np.max(high)))


def extremes_in_words(grid: AnswerGrid, c: int, name: str, names: Sequence[str]) -> str:
    """A sentence on where output c, which has this name, is smallest and largest; names: of theta."""
    mean, half = grid.mean[:, c], grid.half_width[:, c]
    if len(mean) == 1:
        return f"{capital(name)} is {resolved(float(mean[0]), float(half[0]))} {grid.place(names, np.array([0]))}."
    if np.any(np.isnan(grid.low)):
        rows = (np.array([np.argmin(mean)]), np.array([np.argmax(mean)]))
        ends = [f"{mean[i][0]:.6g} {grid.place(names, i)}" for i in rows]
        return f"The estimate of {name} is smallest, {ends[0]}, and largest, {ends[1]}; it has no intervals."
    found = smallest_and_largest(grid.low[:, c], grid.high[:, c])
    if len(found[0].rows) == len(mean):
        reach = f"reach from {_from_to(found[0].low, found[1].high)}"
        return f"Where {name} is smallest or largest cannot be told: its intervals at all thetas overlap, and {reach}."
    ends = [
        f"{resolved(float(mean[each.rows[0]]), float(half[each.rows[0]]))} {grid.place(names, each.rows)}"
        if len(each.rows) == 1
        else f"{_from_to(each.low, each.high)}, somewhere {grid.place(names, each.rows)}"
        for each in found
    ]
    return f"{capital(name)} is smallest, {ends[0]}, and largest, {ends[1]}."


def _from_to(low: float, high: float) -> str:
    """Two numbers with the digits that tell them apart; one if they are equal."""
    half, ends = 0.5 * (high - low), (low, high) if high > low else (low,)
    return " to ".join(resolved(end, half) if isfinite(half) else f"{end:.6g}" for end in ends)
