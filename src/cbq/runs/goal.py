"""The goal of an adaptive run: the estimands, the half-width of its interval, and whether rounds have reached it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from cbq.checkpoint import Outputs
from cbq.common import ROUNDING, Array, between_0_and_1, finite, is_number, one_of, shown, whole
from cbq.runs.estimands import Estimand, Mean, estimands, wanted_width
from cbq.samples import Names

Criterion = Literal["rms", "max"]
Budget = int | Mapping[str, float]  # runs, or limits of "runs", "seconds" and "cost"
MAX_SHARE = 0.95  # share of Q over which "max" takes the largest half-width
DEFAULT_BUDGET, MAX_BUDGET = 500, 10_000  # runs: with more, choosing them takes longer than it saves


@dataclass(frozen=True, eq=False)
class Goal:
    """What is wanted, the half-width of its interval, and the number of runs to spend.

    tolerance: in units of the estimand. rtol: in units of its spread over Q. relative: in units of its value. None: no
    such goal. They are those of all estimands that have none of their own. criterion: one, or one for each quantity.
    budget: runs. seconds, cost: of f, likewise limits.
    """

    tolerance: Array | None  # (1,) or (C,)
    rtol: float | None
    criterion: Criterion | tuple[Criterion, ...]
    level: float
    budget: int
    relative: float | None = None
    seconds: float | None = None
    cost: float | None = None
    estimands: tuple[Estimand, ...] = (Mean(),)

    @classmethod
    def of(
        cls,
        tolerance: Any = None,
        rtol: Any = None,
        criterion: Any = "rms",
        level: Any = 0.95,
        budget: Any = DEFAULT_BUDGET,
        relative: Any = None,
        goal: Any = None,
    ) -> Goal:
        """From the arguments of `solve`, or from a record."""
        wanted = estimands(goal)
        if tolerance is not None:
            tolerance = np.atleast_1d(finite(tolerance, "tolerance"))
            if tolerance.ndim > 1 or not np.all(tolerance > 0):
                raise ValueError(
                    f"tolerance must be a number above 0, or one for each output of f, but it is {shown(tolerance)}."
                )
            if len(tolerance) > 1 and wanted != (Mean(),):
                raise ValueError(
                    f"tolerance has {len(tolerance)} numbers, as for Mean alone: give each goal its own tolerance."
                )
        runs, seconds, cost = _limits_of(budget)
        return cls(
            tolerance,
            None if rtol is None else wanted_width(rtol, "rtol"),
            _criteria(criterion),
            between_0_and_1(level, "level"),
            runs,
            None if relative is None else wanted_width(relative, "relative"),
            seconds,
            cost,
            wanted,
        )

    def require_outputs(self, outputs: Outputs | None, names: Names) -> None:
        """Raise if the goal does not match values of this shape; None if it is unknown."""
        if outputs is None:
            return
        C = outputs[0] if outputs else 1
        if self.tolerance is not None and len(self.tolerance) not in (1, C):
            raise ValueError(f"tolerance has {len(self.tolerance)} numbers, but f has {C} output{'s' * (C > 1)}.")
        K = len(self.columns(C, names))
        if not isinstance(self.criterion, str) and len(self.criterion) != K:
            what = f"f has {C} output{'s' * (C > 1)}" if self.of_mean_only else f"{K} quantities are wanted"
            raise ValueError(f"criterion has {len(self.criterion)} entries, but {what}.")

    def columns(self, C: int, names: Names) -> list[tuple[Estimand, int]]:
        """The K quantities that are estimated, each an estimand of one of C outputs."""
        found = list[tuple[Estimand, int]]()
        for estimand in self.estimands:
            every = isinstance(estimand, Mean) and estimand.output is None
            found += [(estimand, c) for c in (range(C) if every else [estimand.column(names, C)])]
        return found

    @property
    def of_mean_only(self) -> bool:
        """Whether nothing but integrals is wanted, of all outputs."""
        return all(isinstance(each, Mean) and each.output is None for each in self.estimands)

    @property
    def record(self) -> dict[str, Any]:
        """The arguments of `of` as a JSON object."""
        found = {name: getattr(self, name) for name in ("tolerance", "rtol", "criterion", "level")}
        found["criterion"] = self.criterion if isinstance(self.criterion, str) else list(self.criterion)
        limits = {"runs": self.budget, "seconds": self.seconds, "cost": self.cost}
        limits = {name: limit for name, limit in limits.items() if limit is not None}
        found["budget"] = limits if len(limits) > 1 else self.budget
        found["tolerance"] = None if self.tolerance is None else self.tolerance.tolist()
        if self.relative is not None:
            found["relative"] = self.relative
        if self.estimands != (Mean(),):
            found["goal"] = [each.record for each in self.estimands]
        return found

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `solve`."""
        return self.record | {"goal": list(self.estimands), "relative": self.relative}

    @property
    def has_target(self) -> bool:
        """Whether there is a wanted accuracy; without one, the budget is spent."""
        everywhere = [self.tolerance, self.rtol, self.relative]
        return any(width is not None for width in (*everywhere, *(w for e in self.estimands for w in _widths(e))))

    def size(self, half_width: Array) -> Array:
        """The criterion (K,) of half-widths (G, K) at thetas of Q."""
        largest = [self.criterion_of(k) == "max" for k in range(half_width.shape[1])]
        found = np.sqrt(np.mean(half_width**2, axis=0))
        found[largest] = np.quantile(half_width[:, largest], MAX_SHARE, axis=0, method="higher")
        return np.asarray(found)

    def criterion_of(self, k: int) -> Criterion:
        """The criterion of quantity k."""
        return self.criterion if isinstance(self.criterion, str) else self.criterion[k]

    @property
    def most(self) -> str:
        """The limits in words."""
        parts = [f"{self.budget} runs"]
        parts += [] if self.seconds is None else [f"{self.seconds:g} s of f"]
        parts += [] if self.cost is None else [f"a cost of {self.cost:g}"]
        return ", ".join(parts)

    def target(self, mean: Array, half_width: Array | None = None, spread: Array | None = None) -> Array:
        """The largest value (K,) of `size` that meets the goal, for estimates (G, K); inf without a target.

        spread: (K,), the unit of rtol; by default the standard deviation of the estimates over thetas.
        half_width: (G, K), of the intervals. A goal in units of the value is met theta by theta: the largest size is
        that of half-widths in proportion to these, by default the same at all thetas.
        """
        K = mean.shape[1]
        half = np.ones_like(mean) if half_width is None else np.maximum(half_width, np.finfo(float).tiny)
        absolute, rtol, relative = self._limits(K)
        rounding = ROUNDING * np.max(np.abs(mean), axis=0)  # constant estimates have no spread
        with np.errstate(divide="ignore", over="ignore"):
            in_values = self.size(half / np.abs(mean))
        in_units = np.where(np.isfinite(in_values), self.size(half) / np.where(in_values > 0, in_values, 1.0), 0.0)
        target = np.minimum(np.inf, absolute)
        some = np.isfinite(rtol)
        spread = np.std(mean, axis=0) if spread is None else spread
        by_spread = np.maximum(np.where(some, rtol, 0.0) * spread, rounding)
        target[some] = np.minimum(target, by_spread)[some]
        some = np.isfinite(relative)
        target[some] = np.minimum(target, np.where(some, relative, 0.0) * in_units)[some]
        return np.asarray(target)

    def target_at(self, last: Round) -> Array:
        """The largest value (K,) of `size` that meets the goal at a round."""
        return self.target(last.mean, last.half_width, last.spread)

    def _limits(self, K: int) -> tuple[Array, Array, Array]:
        """The tolerance, rtol and relative half-width (K,) of each of K quantities; inf for none."""
        every = K - len(self.estimands) + 1  # outputs of which the mean is wanted
        rows = list[Array]()
        for estimand in self.estimands:
            own: Sequence[Any] = _widths(estimand)
            if all(width is None for width in own):
                own = self.tolerance, self.rtol, self.relative
            own = [np.inf if width is None else width for width in own]
            n = every if isinstance(estimand, Mean) and estimand.output is None else 1
            rows.append(np.stack([np.broadcast_to(width, n) for width in own]))
        absolute, rtol, relative = np.concatenate(rows, axis=1)
        return absolute, rtol, relative

    def __str__(self) -> str:
        if not self.has_target:
            return f"no accuracy, and {self.most}"
        of = self.estimands[0].text("f") if len(self.estimands) == 1 else "each"
        of, number = ("I", "") if self.of_mean_only else (of, f" for {of}")
        tolerance = None if self.tolerance is None else ", ".join(f"{each:g}" for each in self.tolerance)
        parts = _shown_widths(of, None if tolerance is None else tolerance + number, self.rtol, self.relative)
        for each in self.estimands:
            absolute = None if each.tolerance is None else f"{each.tolerance:g} for {each.text('f')}"
            parts += _shown_widths(each.text("f"), absolute, each.rtol, each.relative)
        return f"{' and '.join(parts)}, with {self.most} at most"


def _criteria(criterion: Any) -> Criterion | tuple[Criterion, ...]:
    """The argument `criterion`: one, or a list of one for each output or quantity."""
    if not isinstance(criterion, list | tuple):
        found: Criterion = one_of(criterion, Criterion, "criterion")
        return found
    if not criterion:
        raise ValueError(f"criterion must be one of {', '.join(get_args(Criterion))}, or a list, but it is empty.")
    return tuple(one_of(each, Criterion, f"criterion[{k}]") for k, each in enumerate(criterion))


def _limits_of(budget: Any) -> tuple[int, float | None, float | None]:
    """The argument `budget`: the largest number of runs, and limits of their seconds and of their cost, if any."""
    limits = dict(budget) if isinstance(budget, Mapping) else {"runs": budget}
    unknown = [name for name in limits if name not in ("runs", "seconds", "cost")]
    if unknown or not limits:
        raise ValueError(
            f"budget must be a number of runs, or limits such as {{'runs': 300, 'seconds': 3600, 'cost': 20}}, but it "
            f"is {shown(budget)}."
        )
    for name in ("seconds", "cost"):
        if name in limits and not (is_number(limits[name], 0.0) and limits[name] > 0):
            raise ValueError(f"budget[{name!r}] must be a number above 0, but it is {shown(limits[name])}.")
    runs = limits.get("runs", MAX_BUDGET)
    if whole(runs, "budget", 1) > MAX_BUDGET:
        raise ValueError(
            f"budget must be at most {MAX_BUDGET} runs, but it is {shown(runs)}: for a cheap f, draw all points at "
            f"once with collect."
        )
    seconds, cost = (float(limits[name]) if name in limits else None for name in ("seconds", "cost"))
    return int(runs), seconds, cost


def _widths(estimand: Estimand) -> tuple[float | None, float | None, float | None]:
    return estimand.tolerance, estimand.rtol, estimand.relative


def _shown_widths(of: str, tolerance: str | None, rtol: float | None, relative: float | None) -> list[str]:
    """The wanted half-widths of a quantity in words."""
    parts = [] if tolerance is None else [tolerance]
    parts += [] if rtol is None else [f"{rtol:.3g} of the spread of {of}"]
    return parts + ([] if relative is None else [f"{relative:.3g} of the value of {of}"])


@dataclass(frozen=True, eq=False)
class Round:
    """The estimates at G thetas of Q after `runs` runs: means and half-widths of intervals, (G, K) each.

    sound: whether the fit had enough runs to learn f, and learnt it. quantities: the estimands as JSON; by default I.
    spread: (K,), the unit of rtol, where it is not the standard deviation of the estimates over thetas.
    """

    runs: int
    mean: Array
    half_width: Array
    sound: bool
    quantities: tuple[str, ...] = ()
    spread: Array | None = None

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Round:
        """From a record of the ledger."""
        arrays = {name: np.array(record[name], dtype=np.float64) for name in ("mean", "half_width")}
        known: dict[str, Any] = arrays | {"quantities": tuple(record.get("quantities", ()))}
        if "spread" in record:
            known["spread"] = np.array(record["spread"], dtype=np.float64)
        return cls(runs=int(record["runs"]), sound=bool(record["sound"]), **known)

    @property
    def record(self) -> dict[str, Any]:
        """The round as a JSON object."""
        found = {
            "runs": self.runs,
            "sound": self.sound,
            "mean": self.mean.tolist(),
            "half_width": self.half_width.tolist(),
        }
        found |= {"quantities": list(self.quantities)} if self.quantities else {}
        return found | ({} if self.spread is None else {"spread": self.spread.tolist()})


def is_reached(rounds: Sequence[Round], goal: Goal, in_a_row: int = 2) -> bool:
    """Whether the goal holds at each of the last `in_a_row` rounds.

    Stopping at the first narrow interval would be biased: runs are chosen where they narrow it.
    """
    last = rounds[-in_a_row:]
    return goal.has_target and len(last) == in_a_row and all(_holds(round, goal) for round in last)


def _holds(last: Round, goal: Goal) -> bool:
    return last.sound and bool(np.all(goal.size(last.half_width) <= goal.target_at(last)))
