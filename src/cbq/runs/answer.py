"""The answer and the history of an adaptive run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from cbq.common import Array, between_0_and_1, is_whole, short, shown
from cbq.fit import BestTheta, Fit, Summary, Triple
from cbq.measures import Measure
from cbq.plotting import Drawn, Figure
from cbq.report import ArrayTable, capital, write_page
from cbq.runs.curves import Best, CurveEstimand
from cbq.runs.estimands import Pointwise
from cbq.runs.focus import Focus
from cbq.runs.goal import MAX_SHARE, Goal, Round
from cbq.samples import Names, Runs, Samples, equal_rows

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True, eq=False, repr=False)
class History(ArrayTable, Drawn):
    """The rounds of an adaptive run, K of them.

    runs: (K,), the number of runs with a value at each round. half_width: (K, C), the half-widths of intervals, by the
    criterion of the goal. target: (K, C), the largest half-widths that meet the goal; inf without a goal. chosen: K
    sets of runs, chosen between consecutive rounds. names: of theta, x and f, or of what was asked for instead of I.

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
        table: dict[str, Array] = {"runs": self.runs, "chosen": np.array([len(runs) for runs in self.chosen])}
        for name in ("half_width", "target"):
            columns = getattr(self, name).T
            table |= {f"{name}{suffix}": column for suffix, column in zip(suffixes, columns, strict=True)}
        return table

    def _figure(self) -> Figure:
        """The half-width against the number of runs, with the target as a dashed line."""
        from cbq.runs.figures import history_figure

        return history_figure(self)

    def __repr__(self) -> str:
        last = ", ".join(map(short, self.half_width[-1]))
        return f"History({len(self)} rounds, runs = {self.runs[0]} to {self.runs[-1]}, half_width = {last} at the end)"


@dataclass(frozen=True, eq=False, repr=False)
class AdaptiveAnswer:
    """The answer of `problem.solve`: the fit, the samples behind it, and whether the goal was reached.

    fit : the estimate of I.
    samples : all runs with a value.
    reached : whether the goal was reached.
    runs : the runs with a value, in order; first the points of `start`.
    next : the next runs, which would reduce the uncertainty most.

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
    n_start: int  # points of the samples that the run started from
    seconds: float | None  # of all calls of f, if known
    name: str  # of the problem
    prior: Measure  # Q, of theta

    @property
    def n_runs(self) -> int:
        """The number of new runs, with failed ones, without the points of `start`."""
        return self.samples.n_evaluations + self.n_failed - self.n_start

    @property
    def history(self) -> History:
        """The accuracy at each round."""
        runs, half_width, target = course_of(self.rounds, self.goal)
        ends = [0, *(np.maximum(runs, self.n_start))]
        chosen = tuple(self.runs.take(slice(start, end)) for start, end in pairwise(ends))
        return History(runs, half_width, target, chosen, self._quantities)

    @property
    def best(self) -> BestTheta:
        """The best theta, if the goal, or one of several, was `cbq.Best()`.

        Examples
        --------
        >>> answer = cbq.problems.get("linear", dim=2).solve(goal=cbq.Best(maximize=False), budget=8, rng=0)
        >>> answer.best.theta.shape
        (2,)
        """
        for estimand, c in self.goal.columns(self.fit.C or 1, self.fit.names):
            if isinstance(estimand, Best):
                return estimand.best(self.fit, c, self.prior, self.goal.level)
        raise ValueError("this run has no goal cbq.Best(): answer.fit.best(prior) finds the best theta.")

    def estimate(
        self, theta: npt.ArrayLike | None = None, level: float | None = 0.95, *, goal: int = 0, size: int = 2**14
    ) -> Array | Triple | float | tuple[float, float, float]:
        """What was asked for at thetas (M, p), and the ends of its interval: three arrays (M,), or (M, C) for the mean.

        The best I and risk measures are one number for all thetas: three numbers.

        theta : None for these. level : of the interval; None returns the estimate alone. goal : its number, if there
            are several. size : number of points of each measure from which an outcome is computed.

        Examples
        --------
        >>> answer = cbq.problems.get("butterfly").solve(goal=cbq.Probability(above=5.0), budget=10, rng=0)
        >>> probability, low, high = answer.estimate([90.0, 110.0])
        >>> bool(np.all((low <= probability) & (probability <= high)))
        True
        """
        if not is_whole(goal, 0, len(self.goal.estimands) - 1):
            last = len(self.goal.estimands) - 1
            raise ValueError(f"goal must be a number from 0 to {last}, of one of the goals, but it is {shown(goal)}.")
        estimand, fit = self.goal.estimands[goal], self.fit
        share = 0.95 if level is None else between_0_and_1(level, "level")
        if isinstance(estimand, CurveEstimand):
            if theta is not None:
                raise ValueError(f"{type(estimand).__name__} is one number for all thetas: omit theta.")
            number = estimand.estimate(fit, estimand.column(fit.names, fit.C or 1), self.prior, share)
            return number[0] if level is None else number
        if theta is None:
            raise ValueError(f"theta is missing: {type(estimand).__name__} has an estimate at each theta.")
        found: Triple
        if isinstance(estimand, Pointwise) and estimand.of_outcome:
            c = estimand.column(fit.names, fit.C or 1)
            focus = Focus.on(estimand, c, fit, fit._thetas(theta), np.random.default_rng(0), size=size)
            found = focus.interval(share, self.samples.n_evaluations)
        else:
            low, high = fit.interval(theta, share)
            found = np.asarray(fit.predict(theta)), low, high
            if estimand.output is not None and fit.C is not None:
                c = estimand.column(fit.names, fit.C)
                found = found[0][:, c], low[:, c], high[:, c]
        return found[0] if level is None else found

    def _goal_tables(self, theta: Array) -> dict[str, dict[str, npt.NDArray[Any]]]:
        """The columns of tables, by name: `goals` at thetas (M, p), `numbers` for all thetas, `best` thetas."""
        goals, names, level, C = self.goal.estimands, self.fit.names, self.goal.level, self.fit.C or 1
        tables, each = dict[str, dict[str, npt.NDArray[Any]]](), dict[str, Array]()
        numbers = list[tuple[str, float, float, float]]()
        for k, estimand in enumerate(goals):
            if not (estimand.of_outcome or isinstance(estimand, CurveEstimand)):
                continue
            label = estimand.text(names.f[estimand.column(names, C)])
            if isinstance(estimand, CurveEstimand):
                numbers.append((label, *cast("tuple[float, float, float]", self.estimate(level=level, goal=k))))
            else:
                mean, low, high = cast(Triple, self.estimate(theta, level, goal=k))
                each |= {label: mean, f"{label}, lower": low, f"{label}, upper": high}
        if each:
            tables["goals"] = dict(zip(names.theta, theta.T, strict=True)) | each
        if numbers:
            columns = zip(("what", "estimate", "lower", "upper"), zip(*numbers, strict=True), strict=True)
            tables["numbers"] = {name: np.array(column) for name, column in columns}
        if any(isinstance(estimand, Best) for estimand in goals):
            tables["best"] = self.best.to_columns()
        return tables

    def summary(self) -> Summary:
        """The accuracy, the cost and the next run in plain words, and the summary of the fit."""
        lines, fit = [*self.lines(), ""], self.fit.summary()
        return Summary("\n".join([*lines, fit]), fit.choice, [*lines, *fit.description], fit.findings, self.status == 1)

    def lines(self) -> list[str]:
        """The sentences of the summary about the run itself."""
        failed = f", {self.n_failed} of which failed," * bool(self.n_failed)
        failed += f", besides {self.n_start} from start," * bool(self.n_start)
        K = len(self.rounds)
        took = "" if self.seconds is None else f", and {short(self.seconds)} s of f"
        cost = f"It took {self.n_runs} runs{failed} in {K} round{'s' * (K != 1)}{took}."
        outcome, values = ": ".join(self.outcome), self._values_line()
        return list(filter(None, [outcome, values, cost, self._repeats_line(), self._next_line()]))

    @property
    def n_repeats(self) -> int:
        """The number of runs at the theta and x of an earlier run."""
        return len(self.runs) - len(equal_rows(self.runs.inputs(of_theta=True))[0])

    def _repeats_line(self) -> str:
        """A sentence on how many runs of a random f repeat a point, and why."""
        if not self.samples.stochastic:
            return ""
        why = "where a further draw was expected to lower the variance of I more than a new point"
        return f"{self.n_repeats} of {len(self.runs)} runs repeat the point of an earlier run, {why}."

    @property
    def outcome(self) -> tuple[str, str]:
        """A few words on whether the goal was reached, and a sentence on the width of intervals."""
        if not self.goal.has_target:
            return "No accuracy was asked for", f"{self._accuracy}."
        return "Reached" if self.reached else "Not reached", f"{self._accuracy}. Asked: {self.goal}."

    @property
    def status(self) -> int:
        """0 if the goal was reached, or none was stated, and 1 if the run ended before, as in results of SciPy."""
        return int(self.goal.has_target and not self.reached)

    @property
    def message(self) -> str:
        """Whether the goal was reached, and how accurate the answer is, in sentences."""
        return f"{': '.join(self.outcome)} {self.advice}".strip()

    @property
    def _quantities(self) -> Names:
        """The names of theta and x, and of the K quantities in the place of outputs."""
        names, goal = self.fit.names, self.goal
        if goal.of_mean_only:
            return names
        columns = goal.columns(self.fit.C or 1, names)
        return replace(names, f=tuple(estimand.text(names.f[c]) for estimand, c in columns))

    @property
    def _accuracy(self) -> str:
        last, goal, names = self.rounds[-1], self.goal, self._quantities
        size = goal.size(last.half_width)
        spread, worst = np.std(last.mean, axis=0), worst_quantity(last, goal)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            of_value = goal.size(np.abs(last.half_width / last.mean))[worst]
        over = "root mean square over Q" if goal.criterion_of(worst) == "rms" else f"largest over {MAX_SHARE:.0%} of Q"
        relative = f", {size[worst] / spread[worst]:.2g} of the spread of I" if spread[worst] > 0 else ""
        several = f", the worst of {len(size)}," * (len(size) > 1)
        of_output = f" for {names.output(worst)}{several}" * (len(size) > 1 or not goal.of_mean_only)
        if not goal.of_mean_only:
            relative = f", {of_value:.2g} of its value" * bool(np.isfinite(of_value))
        estimand, _ = goal.columns(self.fit.C or 1, self.fit.names)[worst]
        if isinstance(estimand, CurveEstimand):
            return f"{estimand.accuracy(short(size[worst]), goal.level, of_output)}{relative}"
        return f"the {goal.level:.0%} interval{of_output} has a half-width of {short(size[worst])} ({over}){relative}"

    def _values_line(self) -> str:
        """The estimates of the last round in a sentence, unless nothing but I is wanted."""
        if self.goal.of_mean_only:
            return ""
        last, names = self.rounds[-1], self._quantities
        low, high = np.min(last.mean, axis=0), np.max(last.mean, axis=0)
        ranges = [
            f"{names.output(k)} is {short(low[k])}" + f" to {short(high[k])} over Q" * bool(high[k] > low[k])
            for k in range(len(low))
        ]
        for k, (estimand, c) in enumerate(self.goal.columns(self.fit.C or 1, self.fit.names)):
            if isinstance(estimand, Best):
                found = estimand.best(self.fit, c, self.prior, self.goal.level, feasible=False)
                kept = "" if found.feasible >= self.goal.level else ", which may not satisfy the constraints"
                ranges[k] += f" at {names.at('theta', found.theta)}{kept}"
        return f"{capital('; '.join(ranges))}."

    def _next_line(self) -> str:
        names = self.fit.names
        theta, x = names.at("theta", self.next.theta[0]), names.at("x", self.next.x[0])
        return " ".join(filter(None, [self.advice, f"The next run would be at {theta}, {x}."]))

    @property
    def advice(self) -> str:
        """A sentence on the number of runs that should reach the goal; empty if it is reached or unknown."""
        foreseen = None if self.reached else self.foreseen_runs
        return "" if foreseen is None else f"Extrapolating, about {short(foreseen, 2)} runs in total should suffice."

    @property
    def foreseen_runs(self) -> float | None:
        """The total number of runs to reach the goal, extrapolated from the last rounds; None if unknown."""
        return foreseen_runs(*course_of(self.rounds, self.goal))

    def plot(self, **options: Any) -> matplotlib.figure.Figure:
        """A figure of I over the range of the prior, with the thetas of the next runs marked.

        options : those of `Fit.plot`.
        """
        known: dict[str, Any] = {"prior": self.prior, "upcoming": self.next.theta}
        return self.fit.plot(**(known | options))

    def report(
        self,
        path: str | PathLike[str],
        *,
        truth: Callable[[Array], npt.ArrayLike] | None = None,
        title: str | None = None,
        repeat: str | None = None,
    ) -> None:
        """Write a self-contained HTML report: the report of the fit, and the course of the run.

        truth : the true I, a function of theta (M, p), to compare with. title : of the page.
        repeat : code or a command that makes this run.
        """
        from cbq.runs.report import answer_page

        write_page(lambda: answer_page(self, truth, title, repeat), path)

    def __repr__(self) -> str:
        return f"AdaptiveAnswer({self.outcome[0].lower()}, {self.n_runs} runs, {type(self.fit).__name__})"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


def course_of(rounds: Sequence[Round], goal: Goal) -> tuple[Array, Array, Array]:
    """The runs (n,), the half-widths (n, K) and the targets (n, K) of n rounds."""
    half_width = np.stack([goal.size(each.half_width) for each in rounds])
    target = np.stack([goal.target_at(each) for each in rounds])
    return np.array([each.runs for each in rounds]), half_width, target


def worst_quantity(last: Round, goal: Goal) -> int:
    """The quantity that is the furthest from its goal, or from its spread if there is no goal."""
    size, target = goal.size(last.half_width), goal.target_at(last)
    unit = np.maximum(np.where(np.isfinite(target), target, np.std(last.mean, axis=0)), np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        return int(np.argmax(size / unit))


def foreseen_runs(
    runs: Array, half_width: Array, target: Array, *, rounds: int = 5, most: float = 20.0
) -> float | None:
    """The total number of runs to reach the goal, extrapolated from the last `rounds`; None if unknown.

    most: the largest extrapolation, in multiples of the runs so far.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.max(half_width / target, axis=1)
    known = np.flatnonzero(np.isfinite(ratio) & (ratio > 0))[-rounds:]
    if len(known) < 3:
        return None
    slope, level = np.polyfit(np.log(runs[known]), np.log(ratio[known]), 1)
    if slope >= 0:
        return None
    found, now = float(np.exp(min(-level / slope, 700.0))), float(runs[-1])
    return found if now < found <= most * now else None
