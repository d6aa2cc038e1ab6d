"""The time that an adaptive run takes for itself, beside the time of f.

By default a batch is an eighth of the runs so far. Where fits and choices that often would take longer than allowed,
batches are larger. Batches as large as the runs so far go on as long as there is time for one more choice, which then
chooses all further runs together. If there is no time for that, either, these are Sobol points, which cost nothing.

Times differ from call to call, and a choice that follows them cannot be repeated. Therefore the only decision that
follows them is coarse, one of a few shares. It stays while the limit holds, a smaller batch needs a margin, and a
checkpoint has it. Where the limit is not near, nothing depends on times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from cbq.common import check_fields, is_number

ONE_BATCH, SOBOL = 0, -1  # of all further runs: chosen together, or not at all
SHARES = (8, 6, 4, 3, 2, 1, ONE_BATCH)  # a batch is the runs so far over one of them


@dataclass(frozen=True)
class Overhead:
    """The limit of the own time: `free` seconds, and `ratio` times the time of f.

    margin: of the limit, which a larger share must keep, so that small errors of the forecast do not change it again.
    ahead: where a goal may end the run early, runs to look ahead, in multiples of the runs so far.
    """

    ratio: float = 1.0
    free: float = 10.0
    margin: float = 0.8
    ahead: int = 4

    def __post_init__(self) -> None:
        check_fields(self, ("ratio", "free"), "a number, zero or more", lambda value: is_number(value, 0.0))


@dataclass(frozen=True)
class Spent:
    """The own time of a run so far: seconds in all, and those of the last rounds with their runs.

    share: a batch is the runs so far over this number, or `ONE_BATCH`, or `SOBOL`.
    """

    seconds: float = 0.0
    rounds: tuple[tuple[int, float], ...] = ()
    share: int = SHARES[0]

    @classmethod
    def of_record(cls, record: Any) -> Spent:
        """From a record of a checkpoint."""
        rounds = tuple((int(runs), float(seconds)) for runs, seconds in record["rounds"])
        return cls(float(record["seconds"]), rounds, int(record["share"]))

    @property
    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"seconds": self.seconds, "rounds": [list(each) for each in self.rounds], "share": self.share}

    def after(self, runs: int, seconds: float, *, kept: int = 3) -> Spent:
        """With a further round. Sobol points need no choice, and are no measure of rounds that do."""
        rounds = self.rounds if self.share == SOBOL else (*self.rounds, (runs, seconds))[-kept:]
        return Spent(self.seconds + seconds, rounds, self.share)

    def share_for(self, limit: Overhead, runs: int, until: int, per_run: float) -> int:
        """The share of the next batches after `runs` runs, which are at most `until` in the end.

        per_run: seconds of f. The first round is no measure of others: it loads libraries.
        """
        if len(self.rounds) < 2 or runs >= until:
            return self.share
        unit = fmean(seconds / _growth(n) for n, seconds in self.rounds[1:])

        def keeps(share: int) -> bool:
            margin = limit.margin if share > self.share else 1.0
            forecast = _forecast(runs, until, share, unit)
            return all(self.seconds + own <= margin * (limit.free + limit.ratio * per_run * n) for n, own in forecast)

        return next(filter(keeps, SHARES), SOBOL)


def _growth(runs: int) -> float:
    """The time of a round, in units of one with few runs: measured at 30 to 1000 runs, and cubic beyond."""
    return float(1.0 + (runs / 350) ** 1.5 + (runs / 1500) ** 3)


def _forecast(runs: int, until: int, share: int, unit: float) -> Sequence[tuple[int, float]]:
    """The numbers of runs at further rounds, and the own seconds up to each.

    After a batch as large as the runs so far, there should be time for one batch of all further runs.
    """
    found, own = list[tuple[int, float]](), 0.0
    while runs < until:
        is_last = share == ONE_BATCH or (share == 1 and bool(found))
        runs = until if is_last else min(runs - (-runs // share), until)
        own += unit * _growth(runs)
        found.append((runs, own))
    return found
