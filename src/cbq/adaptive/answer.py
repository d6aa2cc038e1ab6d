"""What an adaptive run has come to, and how it got there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cbq import _html
from cbq._arrays import Array
from cbq._checks import file_name
from cbq._names import Names
from cbq._tables import data_frame, short
from cbq.adaptive.goal import MAX_SHARE, Goal, Round
from cbq.adaptive.plot import plot_answer, plot_history
from cbq.fit.base import Fit
from cbq.fit.labels import with_labels
from cbq.fit.summary import Summary
from cbq.measures import Measure
from cbq.samples import Samples
from cbq.samples.runs import Runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """The rounds of an adaptive run, K of them.

    runs: (K,), the runs with a value at each round. half_width: (K, C), the half-widths of intervals, by the criterion
    of the goal. target: (K, C), the largest half-widths that meet the goal, inf if nothing was asked for. chosen: the
    runs that were chosen from one round to the next, K sets. names: of theta, x and f.

    Examples
    --------
    >>> history = cbq.problems.get("butterfly").solve(budget=16, rng=0).history
    >>> int(history.runs[-1]), list(history.to_columns())
    (16, ['runs', 'chosen', 'half_width', 'target'])
    """

    runs: Array
    half_width: Array
    target: Array
    chosen: tuple[Runs, ...]
    names: Names

    def __len__(self) -> int:
        return len(self.runs)

    def to_columns(self) -> dict[str, Array]:
        """The columns of a table, (K,) each: runs, chosen, and the half_width and target of each output."""
        suffixes = ("",) if self.names.f == ("f_0",) else self.names.suffixes
        table: dict[str, Array] = {"runs": self.runs, "chosen": np.array([len(each) for each in self.chosen])}
        for name in ("half_width", "target"):
            columns = getattr(self, name).T
            table |= {f"{name}{suffix}": column for suffix, column in zip(suffixes, columns, strict=True)}
        return table

    def to_frame(self) -> Any:
        """A pandas table with a row for each round."""
        return data_frame(self.to_columns())

    def plot(
        self, ax: Any = None, *, title: str | None = None, xlabel: str | None = None, ylabel: str | None = None
    ) -> Figure:
        """A figure of the half-width against the number of runs, with the target as a dashed line."""
        return with_labels(plot_history(self, ax), ax, title, xlabel, ylabel)

    def __repr__(self) -> str:
        last = ", ".join(map(short, self.half_width[-1]))
        return f"History({len(self)} rounds, runs = {self.runs[0]} to {self.runs[-1]}, half_width = {last} at the end)"

    def _repr_html_(self) -> str:
        return _html.column_table(self.to_columns(), "History")


@dataclass(frozen=True, eq=False, repr=False)
class AdaptiveAnswer:
    """The answer of `problem.solve`: the fit, the samples behind it, and whether the goal was reached.

    fit : the estimate of I.
    samples : all runs with a value.
    reached : whether the accuracy that was asked for holds.
    runs : where f was evaluated, in the order of the runs, first those of the samples that the run started from.
    next : the runs that would come next: those that reduce the uncertainty most, whatever f is there.

    Examples
    --------
    >>> answer = cbq.problems.get("butterfly").solve(budget=16, rng=0)
    >>> answer.n_runs, answer.fit.p
    (16, 1)
    """

    fit: Fit
    samples: Samples
    reached: bool
    goal: Goal
    rounds: tuple[Round, ...]
    runs: Runs
    next: Runs
    n_failed: int
    n_start: int  # runs of the samples that were there before
    seconds: float | None  # that f took in all, if it is known
    name: str  # of the problem
    prior: Measure  # Q, of theta

    @property
    def n_runs(self) -> int:
        """The number of runs that were made, with those that failed, and without those that were there before."""
        return self.samples.n_evaluations + self.n_failed - self.n_start

    @property
    def history(self) -> History:
        """What was known at each round."""
        half_width = np.stack([self.goal.size(each.half_width) for each in self.rounds])
        target = np.stack([self.goal.target(each.mean) for each in self.rounds])
        runs = np.array([each.runs for each in self.rounds])
        ends = [0, *(np.maximum(runs, self.n_start))]
        chosen = tuple(self.runs.take(slice(start, end)) for start, end in pairwise(ends))
        return History(runs, half_width, target, chosen, self.fit.names)

    def summary(self) -> Summary:
        """What was reached, what it cost, and what would be next, in plain words, and the summary of the fit."""
        lines, fit = [*self.lines(), ""], self.fit.summary()
        return Summary("\n".join([*lines, fit]), fit.choice, [*lines, *fit.description], fit.findings)

    def lines(self) -> list[str]:
        """The sentences of the summary about the run itself."""
        failed = f", {self.n_failed} of which failed," * bool(self.n_failed)
        failed += f", besides {self.n_start} that were there before," * bool(self.n_start)
        K = len(self.rounds)
        took = "" if self.seconds is None else f", and {short(self.seconds)} s of f"
        cost = f"It took {self.n_runs} runs{failed} in {K} round{'s' * (K != 1)}{took}."
        return [": ".join(self.outcome), cost, self._next_line()]

    @property
    def outcome(self) -> tuple[str, str]:
        """Whether the goal was reached, in a word or two, and in a sentence how narrow the intervals are."""
        if not self.goal.has_target:
            return "No accuracy was asked for", f"{self._accuracy}."
        return "Reached" if self.reached else "Not reached", f"{self._accuracy}. Asked: {self.goal}."

    @property
    def _accuracy(self) -> str:
        last = self.goal.size(self.rounds[-1].half_width)
        target, spread = self.goal.target(self.rounds[-1].mean), np.std(self.rounds[-1].mean, axis=0)
        unit = np.maximum(np.where(np.isfinite(target), target, spread), np.finfo(float).tiny)
        with np.errstate(over="ignore"):
            worst = int(np.argmax(last / unit))
        over = "root mean square over Q" if self.goal.criterion == "rms" else f"largest over {MAX_SHARE:.0%} of Q"
        relative = f", {last[worst] / spread[worst]:.2g} of the spread of I" if spread[worst] > 0 else ""
        of_output = f" for {self.fit.names.output(worst)}, the worst of {len(last)}," * (len(last) > 1)
        return (
            f"the {self.goal.level:.0%} interval{of_output} has a half-width of {short(last[worst])} ({over}){relative}"
        )

    def _next_line(self) -> str:
        names = self.fit.names
        theta, x = names.at("theta", self.next.theta[0]), names.at("x", self.next.x[0])
        return " ".join(filter(None, [self.advice, f"The next run would be at {theta}, {x}."]))

    @property
    def advice(self) -> str:
        """How many runs a goal that was not reached would take, in a sentence; empty if it is not known."""
        foreseen = None if self.reached else self.foreseen_runs
        return "" if foreseen is None else f"Extrapolating, about {short(foreseen, 2)} runs in total should suffice."

    @property
    def foreseen_runs(self) -> float | None:
        """How many runs, with those before, would reach the goal by the trend of the last rounds; None if unknown."""
        return foreseen_runs(self.history)

    def plot(self, **options: Any) -> Figure:
        """A figure of I over the range of the prior, with the thetas of the next runs marked.

        options : those of `Fit.plot`.
        """
        return plot_answer(self.fit, self.next.theta, **({"prior": self.prior} | options))

    def report(
        self,
        path: str | PathLike[str],
        *,
        truth: Callable[[Array], npt.ArrayLike] | None = None,
        title: str | None = None,
        repeat: str | None = None,
    ) -> None:
        """Write a page to hand on, one HTML file that loads nothing: that of the fit, and how the run came to it.

        truth : the true I, a function of theta (M, p), to compare with. title : of the page.
        repeat : code or a command that makes this run.
        """
        from cbq.adaptive.report import answer_page

        name = file_name(path, "path")
        answer_page(self, truth, title, repeat).write(name)

    def __repr__(self) -> str:
        return f"AdaptiveAnswer({self.outcome[0].lower()}, {self.n_runs} runs, {type(self.fit).__name__})"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


def foreseen_runs(history: History, rounds: int = 5, most: float = 20.0) -> float | None:
    """How many runs would reach the goal by the trend of the last `rounds`; None if it is not known.

    most: times the runs so far: more would be a guess.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.max(history.half_width / history.target, axis=1)
    known = np.flatnonzero(np.isfinite(ratio) & (ratio > 0))[-rounds:]
    if len(known) < 3:
        return None
    slope, level = np.polyfit(np.log(history.runs[known]), np.log(ratio[known]), 1)
    if slope >= 0:
        return None
    runs, now = float(np.exp(min(-level / slope, 700.0))), float(history.runs[-1])
    return runs if now < runs <= most * now else None
