"""The estimate at each round of an adaptive run, and whether a goal is reached.

An interval that is read when it first looks good is biased: runs are chosen where they narrow it. A goal must therefore
hold at two rounds in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._arrays import Array
from cbq.adaptive.goal import Goal

IN_A_ROW = 2  # rounds at which a goal must hold


@dataclass(frozen=True, eq=False)
class Round:
    """The estimates of I at G thetas of Q when `runs` runs had been made: means and half-widths of intervals.

    Both are (G, C). sound: whether the fit had enough runs to learn f, and learnt it.
    """

    runs: int
    mean: Array
    half_width: Array
    sound: bool

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Round:
        """From a record of the ledger."""
        arrays = {name: np.array(record[name], dtype=np.float64) for name in ("mean", "half_width")}
        return cls(runs=int(record["runs"]), sound=bool(record["sound"]), **arrays)

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "runs": self.runs,
            "sound": self.sound,
            "mean": self.mean.tolist(),
            "half_width": self.half_width.tolist(),
        }


def is_reached(rounds: Sequence[Round], goal: Goal) -> bool:
    """Whether the goal holds at the last rounds, one after the other."""
    last = rounds[-IN_A_ROW:]
    return goal.has_target and len(last) == IN_A_ROW and all(_holds(each, goal) for each in last)


def _holds(last: Round, goal: Goal) -> bool:
    return last.sound and bool(np.all(goal.size(last.half_width) <= goal.target(last.mean)))
