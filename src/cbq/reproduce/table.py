"""Tables of results: rows by their settings, and quantities over seeds with standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbq._arrays import Array
from cbq.reproduce.cells import Row

RESAMPLES = 500
SHARES = "coverage"  # with which the names of columns begin that hold shares


@dataclass(frozen=True)
class Point:
    """A quantity over seeds: its median, and the ends of a band of one standard error of the median around it.

    Both are those of logarithms where all values are positive, which suits log axes; the standard error is that of
    the bootstrap, as errors have heavy tails. Shares, such as coverage, have a mean in the place of the median, as
    those of single seeds are coarse. With one seed the band has no width.
    """

    middle: float
    low: float
    high: float
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float], *, share: bool = False) -> Point | None:
        """From the values of all seeds, those that are not finite being left out; None where none is left."""
        known = [float(v) for v in values if math.isfinite(v)]
        if not known:
            return None
        if share:
            middle, error = mean(known), stdev(known) / math.sqrt(len(known)) if len(known) > 1 else 0.0
            return cls(middle, max(middle - error, 0.0), min(middle + error, 1.0), len(known))
        logarithmic = min(known) > 0
        array = np.log(known) if logarithmic else np.array(known)
        middle, error, back = float(np.median(array)), _error_of_median(array), math.exp if logarithmic else float
        return cls(back(middle), back(middle - error), back(middle + error), len(known))


@dataclass(frozen=True)
class Table:
    """Results, one row for each method and seed."""

    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def where(self, **settings: Any) -> Table:
        """The rows with these settings; a tuple means any of its members."""
        return Table(tuple(row for row in self.rows if all(_fits(row.get(k), v) for k, v in settings.items())))

    def values(self, name: str, **settings: Any) -> list[float]:
        """A column of numbers, NaN where there is none."""
        return [_number(row.get(name)) for row in self.where(**settings)]

    def distinct(self, name: str) -> list[Any]:
        """The values of a column, in order if they are numbers, as they come if they are texts."""
        found = list(dict.fromkeys(row[name] for row in self.rows if row.get(name) is not None))
        return found if any(isinstance(v, str) for v in found) else sorted(found)

    def point(self, name: str, **settings: Any) -> Point | None:
        """A quantity over the seeds of some settings."""
        return Point.of(self.values(name, **settings), share=name.startswith(SHARES))

    def middle(self, name: str, **settings: Any) -> float:
        """The median of a quantity, or the mean of a share; NaN where there is none."""
        point = self.point(name, **settings)
        return math.nan if point is None else point.middle

    def columns(self) -> list[str]:
        """The names of all columns: settings first, then seed and method, then what was measured."""
        first = ["problem", "design", "T", "N", "seed", "method"]
        every = dict.fromkeys(name for row in self.rows for name in row)
        last = [name for name in ("note",) if name in every]
        return [name for name in first if name in every] + [n for n in every if n not in (*first, *last)] + last


def summary(table: Table, settings: Iterable[str], measured: Iterable[str]) -> list[Row]:
    """A row for each setting and quantity: its middle over seeds, the ends of the band, and how many seeds."""
    settings, measured = list(settings), list(measured)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in table:
        groups.setdefault(tuple(row.get(name) for name in settings), []).append(row)
    found = []
    for key, rows in groups.items():
        points = {name: Table(tuple(rows)).point(name) for name in measured}
        for name, point in points.items():
            if point is not None:
                found.append({**dict(zip(settings, key, strict=True)), "quantity": name, **asdict(point)})
    return found


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The least-squares slope of log y over log x, for the points where both are positive; NaN for fewer than two."""
    pairs = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if a > 0 and b > 0 and math.isfinite(b)]
    if len({a for a, _ in pairs}) < 2:
        return math.nan
    mean_x, mean_y = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    spread = sum((a - mean_x) ** 2 for a, _ in pairs)
    return float(sum((a - mean_x) * (b - mean_y) for a, b in pairs) / spread)


def _error_of_median(values: Array) -> float:
    """The standard deviation of the medians of resamples, which are always the same ones."""
    return float(np.std(np.median(values[_resamples(len(values))], axis=1)))


@cache
def _resamples(n: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(n, size=(RESAMPLES, n))


def _fits(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, tuple) else value == wanted


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
