"""Tables of results, summaries over seeds, and how methods compare, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from experiments.common import Array

Row = dict[str, Any]  # one row of results: a method, named numbers, and a note if something is missing

RESAMPLES = 500  # of the bootstrap
SHARE_PREFIX = "coverage"  # columns whose names begin with it hold shares
TOO_FEW_RESULTS = "too few results to say anything yet"


@dataclass(frozen=True)
class SeedSummary:
    """A quantity over seeds: its median, with the ends of a band of one standard error of the median.

    If all values are positive, both are those of the logarithms, which suits log axes. The standard error is that of
    the bootstrap, since errors have heavy tails. Shares such as coverage have a mean instead of a median, since the
    shares of single seeds are coarse. With one seed the band has no width.
    """

    middle: float
    low: float
    high: float
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float], *, share: bool = False) -> SeedSummary | None:
        """Summarise the values of all seeds, without those that are not finite; None if none is left."""
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
class ResultTable:
    """Results, one row for each method and seed."""

    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def where(self, **settings: Any) -> ResultTable:
        """The rows with these settings; a tuple matches each of its members."""
        return ResultTable(tuple(row for row in self.rows if all(_matches(row.get(k), v) for k, v in settings.items())))

    def values(self, name: str, **settings: Any) -> list[float]:
        """The numbers of a column, NaN where a row has none."""
        return [_number(row.get(name)) for row in self.where(**settings)]

    def distinct(self, name: str) -> list[Any]:
        """The distinct values of a column: numbers are sorted, texts keep their order."""
        found = list(dict.fromkeys(row[name] for row in self.rows if row.get(name) is not None))
        return found if any(isinstance(v, str) for v in found) else sorted(found)

    def summary(self, name: str, **settings: Any) -> SeedSummary | None:
        """The summary over seeds of a column; None if it has no finite value."""
        return SeedSummary.of(self.values(name, **settings), share=name.startswith(SHARE_PREFIX))

    def middle(self, name: str, **settings: Any) -> float:
        """The median of a column, or the mean of a share; NaN if it has no finite value."""
        found = self.summary(name, **settings)
        return math.nan if found is None else found.middle

    def columns(self) -> list[str]:
        """The names of all columns: settings, seed and method, then what was measured, then the note."""
        first = ["problem", "design", "T", "N", "seed", "method"]
        every = dict.fromkeys(name for row in self.rows for name in row)
        last = [name for name in ("note",) if name in every]
        return [name for name in first if name in every] + [n for n in every if n not in (*first, *last)] + last


def summarise(table: ResultTable, settings: Iterable[str], measured: Iterable[str]) -> list[Row]:
    """A row for each combination of settings and each measured column, with its summary over seeds."""
    settings, measured = list(settings), list(measured)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in table:
        groups.setdefault(tuple(row.get(name) for name in settings), []).append(row)
    found = []
    for key, rows in groups.items():
        summaries = {name: ResultTable(tuple(rows)).summary(name) for name in measured}
        for name, summary in summaries.items():
            if summary is not None:
                found.append({**dict(zip(settings, key, strict=True)), "quantity": name, **asdict(summary)})
    return found


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The least-squares slope of log y over log x where both are positive and y is finite; NaN for fewer than two x."""
    pairs = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if a > 0 and b > 0 and math.isfinite(b)]
    if len({a for a, _ in pairs}) < 2:
        return math.nan
    mean_x, mean_y = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    spread = sum((a - mean_x) ** 2 for a, _ in pairs)
    return float(sum((a - mean_x) * (b - mean_y) for a, b in pairs) / spread)


def slope_of_medians(table: ResultTable, x: str, y: str = "rmse", **settings: Any) -> float:
    """The slope of the medians of y over x, both in logarithms."""
    rows = table.where(**settings)
    values = rows.distinct(x)
    return slope(values, [rows.middle(y, **{x: value}) for value in values])


def slope_text(value: float) -> str:
    """A slope in words."""
    return "unknown" if math.isnan(value) else f"{value:.2f}"


def paired_ratios(table: ResultTable, method: str, other: str, y: str = "rmse", **settings: Any) -> list[float]:
    """The error y of another method divided by that of one method on the same samples, for seeds that both have."""
    mine, theirs = (
        {row["seed"]: row[y] for row in table.where(method=m, **settings) if 0 < row.get(y, math.nan) < math.inf}
        for m in (method, other)
    )
    return [theirs[seed] / mine[seed] for seed in mine if seed in theirs]


def ratios_text(table: ResultTable, method: str, others: Sequence[str], y: str = "rmse", **settings: Any) -> str:
    """The median ratios of the errors of other methods to that of one method, in words."""
    found = {other: SeedSummary.of(paired_ratios(table, method, other, y, **settings)) for other in others}
    known = [f"{other} {summary.middle:.3g}" for other, summary in found.items() if summary is not None]
    return ", ".join(known) or "nothing to compare with"


def count_wins(
    table: ResultTable, method: str, other: str, keys: Sequence[str], y: str = "rmse"
) -> tuple[int, int, int]:
    """In how many settings the error y of one method is smaller than that of another, even with it, and larger.

    Errors of the same seed are of the same samples, so that they are paired: a method wins if the 95% interval, by
    Student's t, for the mean of the differences of their logarithms leaves out zero.
    """
    counts = [0, 0, 0]
    for settings in _settings(table, keys):
        logs = np.log(paired_ratios(table, method, other, y, **settings))
        if len(logs) > 1:
            reach = stdtrit(len(logs) - 1, 0.975) * np.std(logs, ddof=1) / np.sqrt(len(logs))
            counts[0 if np.mean(logs) > reach else 2 if np.mean(logs) < -reach else 1] += 1
    return counts[0], counts[1], counts[2]


def wins_text(table: ResultTable, method: str, others: Sequence[str], keys: Sequence[str], y: str = "rmse") -> str:
    """How often one method is better than, even with and worse than each other method, in words."""
    counts = {other: count_wins(table, method, other, keys, y) for other in others}
    found = [f"{other} {won}-{even}-{lost}" for other, (won, even, lost) in counts.items() if won + even + lost]
    settings = max((sum(each) for each in counts.values()), default=0)
    start = f"wins-ties-losses of {method} over {settings} settings (paired, at 95%): "
    return start + (", ".join(found) or "none yet")


HOLDS, PARTLY, FAILS = "holds", "holds partly", "does not hold"
SIMILAR = 2.0  # errors whose medians differ by at most this factor are similar


def smaller_error(
    table: ResultTable, method: str, others: Sequence[str], keys: Sequence[str], y: str = "rmse"
) -> str | None:
    """Whether a method has the smaller error, against each other method; None without results.

    It holds if the method is better in more than half of the settings and worse in at most one of twenty, and holds
    partly if it is better more often than it is worse.
    """
    counts = [count_wins(table, method, other, keys, y) for other in others]
    known = [each for each in counts if sum(each)]
    if not known:
        return None
    if all(won > 0.5 * (won + even + lost) and lost <= 0.05 * (won + even + lost) for won, even, lost in known):
        return HOLDS
    return PARTLY if all(won > lost for won, _, lost in known) else FAILS


def is_similar(one: float, other: float) -> bool | None:
    """Whether two errors differ by at most the factor of "similar"; None if one is unknown."""
    return 1 / SIMILAR <= one / other <= SIMILAR if one > 0 and other > 0 else None


def ruling(claim: str, outcome: str | bool | None) -> str:
    """A line with the verdict on a claim: in words, or whether it holds; None if too few results are there."""
    words = {None: "nothing can be said yet", True: HOLDS, False: FAILS}
    return f"Verdict: {claim}: {outcome if isinstance(outcome, str) else words[outcome]}"


def best_of(table: ResultTable, methods: Sequence[str], x: str, y: str) -> ResultTable:
    """At each value of x, the rows of the method whose median of y is the smallest."""
    rows: list[Row] = []
    for value in table.distinct(x):
        here = table.where(**{x: value})
        medians = {m: here.middle(y, method=m) for m in methods}
        known = {m: v for m, v in medians.items() if math.isfinite(v)}
        if known:
            rows += here.where(method=min(known, key=lambda m: known[m])).rows
    return ResultTable(tuple(rows))


def medians_text(table: ResultTable, methods: Sequence[str], y: str = "rmse", digits: int = 2, **settings: Any) -> str:
    """The medians of y of those methods that have one, in words."""
    found = {m: table.middle(y, method=m, **settings) for m in methods}
    return ", ".join(f"{m} {v:.{digits}g}" for m, v in found.items() if math.isfinite(v)) or "nothing yet"


def _settings(table: ResultTable, keys: Sequence[str]) -> list[Row]:
    found = dict.fromkeys(tuple(row.get(key) for key in keys) for row in table)
    return [dict(zip(keys, values, strict=True)) for values in found]


def _error_of_median(values: Array) -> float:
    """The standard deviation of the medians of resamples, which are always the same."""
    return float(np.std(np.median(values[_resamples(len(values))], axis=1)))


@cache
def _resamples(n: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(n, size=(RESAMPLES, n))


def _matches(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, tuple) else value == wanted


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
