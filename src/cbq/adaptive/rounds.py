"""What was known at each round of an adaptive run, and what the rounds together say about the error.

An interval that is read when it first looks good is biased, and a process may be far too cautious, or too bold. Every
round is a test of the earlier ones: their curves were estimated without the runs that came since. The change from the
curve of an earlier round to the present one, in units of the standard deviations of that round, is nearly the size of
its error in these units, once there are half as many runs again. The largest of the last few is taken for the present
round, too: where changes are smaller than half of what was predicted, intervals shrink, and where they are larger than
predicted, intervals grow. On average over thetas they are never narrower than the last changes of the curve.

Where f is random, or jumps in several inputs, errors fall slowly: with n runs of m the change has 1 - n / m of the
variance of the error, and changes are divided by the root of that. Intervals do not shrink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._arrays import Array
from cbq.adaptive.goal import Goal

MORE_RUNS = 1.5  # times as many as at an earlier round judge its curve
JUDGED = 3  # earlier rounds that are judged
LEAST_JUDGED = 2
CAUTION = 2.0  # times the largest relative change is the factor of an interval that shrinks
LAST_CHANGES = 2  # of the curve, which intervals are no narrower than
IN_A_ROW = 2  # rounds at which a goal must hold


@dataclass(frozen=True, eq=False)
class Round:
    """The estimates of I at G thetas of Q when `runs` runs had been made: mean, std and half-width of the interval.

    Each is (G, C). sound: whether the fit had enough runs to learn f, and learnt it. slow: whether errors fall slowly.
    """

    runs: int
    mean: Array
    std: Array
    half_width: Array
    sound: bool
    slow: bool = False

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Round:
        """From a record of the ledger."""
        arrays = {name: np.array(record[name], dtype=np.float64) for name in ("mean", "std", "half_width")}
        slow = bool(record.get("slow", record.get("random")))  # as files of earlier versions call it
        return cls(runs=int(record["runs"]), sound=bool(record["sound"]), slow=slow, **arrays)

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        arrays = {name: getattr(self, name).tolist() for name in ("mean", "std", "half_width")}
        return {"runs": self.runs, "sound": self.sound, "slow": self.slow, **arrays}


def calibration(rounds: Sequence[Round]) -> Array | None:
    """The factor (C,) of the standard deviations of the last round; None if it is too early to tell."""
    last = rounds[-1]
    judged = [each for each in rounds if MORE_RUNS * each.runs <= last.runs and each.sound][-JUDGED:]
    if len(judged) < LEAST_JUDGED:
        return None
    size = _rms(last.std)
    relative = np.max([_error(each, last) / _rms(each.std) for each in judged], axis=0)
    factor = np.where(relative > 1.0, relative, 1.0 if last.slow else np.minimum(CAUTION * relative, 1.0))
    changes = [_rms(last.mean - each.mean) for each in rounds[-1 - LAST_CHANGES : -1]]
    known = size > np.finfo(float).eps * _rms(last.mean)  # the std of a constant is rounding
    return np.where(known, np.maximum(factor, np.max(changes, axis=0) / size), 1.0)


def _error(earlier: Round, last: Round) -> Array:
    """The size (C,) of the error of an earlier round, by its change to the last one."""
    share = 1.0 - earlier.runs / last.runs if last.slow else 1.0
    return np.asarray(_rms(last.mean - earlier.mean) / np.sqrt(share))


def achieved(rounds: Sequence[Round], goal: Goal) -> Array | None:
    """What the calibrated half-widths of the last round come to, (C,); None if they cannot be calibrated yet."""
    factor = calibration(rounds) if rounds else None
    return None if factor is None else goal.size(factor * rounds[-1].half_width)


def is_reached(rounds: Sequence[Round], goal: Goal) -> bool:
    """Whether the goal holds at the last rounds, one after the other."""
    if not goal.has_target or len(rounds) < IN_A_ROW:
        return False
    return all(_holds(rounds[: len(rounds) - k], goal) for k in range(IN_A_ROW))


def _holds(rounds: Sequence[Round], goal: Goal) -> bool:
    found = achieved(rounds, goal)
    return found is not None and rounds[-1].sound and bool(np.all(found <= goal.target(rounds[-1].mean)))


def _rms(values: Array) -> Array:
    """The root mean square over thetas, (C,), at least the smallest positive number."""
    return np.asarray(np.maximum(np.sqrt(np.mean(values**2, axis=0)), np.finfo(float).tiny))
