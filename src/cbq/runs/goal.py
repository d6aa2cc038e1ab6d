"""The goal of an adaptive run: the wanted half-width of the interval of I, and whether rounds have reached it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from cbq.checkpoint import Outputs
from cbq.common import ROUNDING, Array, between_0_and_1, finite, one_of, shown, whole

Criterion = Literal["rms", "max"]
MAX_SHARE = 0.95  # share of Q over which "max" takes the largest half-width
DEFAULT_BUDGET, MAX_BUDGET = 500, 10_000  # runs: with more, choosing them takes longer than it saves


@dataclass(frozen=True, eq=False)
class Goal:
    """The wanted half-width of the interval, and the number of runs to spend.

    tolerance: in units of I. rtol: in units of the spread of I over Q. None: no such goal.
    """

    tolerance: Array | None  # (1,) or (C,)
    rtol: float | None
    criterion: Criterion
    level: float
    budget: int

    @classmethod
    def of(
        cls,
        tolerance: Any = None,
        rtol: Any = None,
        criterion: Any = "rms",
        level: Any = 0.95,
        budget: Any = DEFAULT_BUDGET,
    ) -> Goal:
        """From the arguments of `solve`."""
        if tolerance is not None:
            tolerance = np.atleast_1d(finite(tolerance, "tolerance"))
            if tolerance.ndim > 1 or not np.all(tolerance > 0):
                raise ValueError(
                    f"tolerance must be a number above 0, or one for each output of f, but it is {shown(tolerance)}."
                )
        if rtol is not None:
            ratio = finite(rtol, "rtol")
            if ratio.ndim or not ratio > 0:
                raise ValueError(f"rtol must be a number above 0, such as 0.01, but it is {shown(rtol)}.")
            rtol = float(ratio)
        if whole(budget, "budget", 1) > MAX_BUDGET:
            raise ValueError(
                f"budget must be at most {MAX_BUDGET} runs, but it is {shown(budget)}: for a cheap f, draw "
                f"all points at once with collect."
            )
        return cls(
            tolerance,
            rtol,
            one_of(criterion, Criterion, "criterion"),
            between_0_and_1(level, "level"),
            int(budget),
        )

    def require_outputs(self, outputs: Outputs | None) -> None:
        """Raise if the tolerance does not match values of this shape; None if it is unknown."""
        C = outputs[0] if outputs else 1
        if self.tolerance is not None and outputs is not None and len(self.tolerance) not in (1, C):
            raise ValueError(f"tolerance has {len(self.tolerance)} numbers, but f has {C} output{'s' * (C > 1)}.")

    @property
    def record(self) -> dict[str, Any]:
        """The arguments of `of` as a JSON object."""
        return {**asdict(self), "tolerance": None if self.tolerance is None else self.tolerance.tolist()}

    @property
    def has_target(self) -> bool:
        """Whether there is a wanted accuracy; without one, the budget is spent."""
        return self.tolerance is not None or self.rtol is not None

    def size(self, half_width: Array) -> Array:
        """The criterion (C,) of half-widths (G, C) at thetas of Q."""
        if self.criterion == "rms":
            return np.asarray(np.sqrt(np.mean(half_width**2, axis=0)))
        return np.asarray(np.quantile(half_width, MAX_SHARE, axis=0, method="higher"))

    def target(self, mean: Array) -> Array:
        """The largest value (C,) of `size` that meets the goal, for estimates (G, C) of I; inf without a target."""
        C = mean.shape[1]
        by_tolerance = np.full(C, np.inf) if self.tolerance is None else np.broadcast_to(self.tolerance, (C,))
        rounding = ROUNDING * np.max(np.abs(mean), axis=0)  # a constant I has no spread
        by_rtol = np.inf if self.rtol is None else np.maximum(self.rtol * np.std(mean, axis=0), rounding)
        return np.asarray(np.minimum(by_tolerance, by_rtol))

    def __str__(self) -> str:
        if not self.has_target:
            return f"no accuracy, and {self.budget} runs"
        parts = [] if self.tolerance is None else [", ".join(f"{number:g}" for number in self.tolerance)]
        parts += [] if self.rtol is None else [f"{self.rtol:.3g} of the spread of I"]
        return f"{' and '.join(parts)}, with {self.budget} runs at most"


@dataclass(frozen=True, eq=False)
class Round:
    """The estimates of I at G thetas of Q after `runs` runs: means and half-widths of intervals, (G, C) each.

    sound: whether the fit had enough runs to learn f, and learnt it.
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
        """The round as a JSON object."""
        return {
            "runs": self.runs,
            "sound": self.sound,
            "mean": self.mean.tolist(),
            "half_width": self.half_width.tolist(),
        }


def is_reached(rounds: Sequence[Round], goal: Goal, in_a_row: int = 2) -> bool:
    """Whether the goal holds at each of the last `in_a_row` rounds.

    Stopping at the first narrow interval would be biased: runs are chosen where they narrow it.
    """
    last = rounds[-in_a_row:]
    return goal.has_target and len(last) == in_a_row and all(_holds(round, goal) for round in last)


def _holds(last: Round, goal: Goal) -> bool:
    return last.sound and bool(np.all(goal.size(last.half_width) <= goal.target(last.mean)))
