"""`problem.solve`: ask for runs, make them and tell the results, until the goal is reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from time import monotonic

import numpy as np

from cbq.checkpoint import BatchResult
from cbq.common import Course, WorkerError, course, short
from cbq.fit import dependence_on_theta
from cbq.runs.answer import AdaptiveAnswer, course_of, foreseen_runs, worst_quantity
from cbq.runs.asynchronous import NextRuns, Watch
from cbq.runs.collect import RunOptions, workers_for
from cbq.runs.integrand import Evaluator, IntegrandError, Points, Task
from cbq.runs.overhead import Overhead
from cbq.runs.scheduling import Scheduler, ThisProcess
from cbq.runs.session import Session
from cbq.runs.trial import StoredPoints


def solve(
    session: Session,
    evaluator: Evaluator,
    options: RunOptions,
    name: str,
    batch: int | None,
    overhead: Overhead | None = None,
) -> AdaptiveAnswer:
    """Make runs until the goal is reached or the budget spent, and return the answer.

    batch: number of runs chosen at a time. By default, several workers get a run whenever one of them is free, and one
    gets `Session.batch_size`. overhead: the limit of the own time, without `batch`.
    """
    with (
        closing(workers_for(evaluator, options)) as workers,
        course(options.progress, name, session.n_told, session.goal.budget) as shown,
    ):
        stored = session._resume(options.on_change, evaluator)
        if options.on_error == "raise":
            session.forget_failures()
        run = _Run(session, workers, stored, options, Shown(session, shown, name), batch, overhead)
        try:
            _require_independence(session)
            while run.goes_on():
                run.advance()
                _require_independence(session)
            stored.evaluate(workers, [], session.take)  # where nothing was left to run
        except (IntegrandError, WorkerError, KeyboardInterrupt) as error:
            _add_advice(error, session)
            raise
    return session.answer()


class Shown(Watch):
    """The course of a run, as it is shown: counts, whether runs are chosen, and a line for each round."""

    def __init__(self, session: Session, course: Course, name: str, clock: Callable[[], float] = monotonic) -> None:
        self._session, self._course, self._name = session, course, name
        self._clock, self._began, self._before = clock, clock(), session.n_told
        self._rounds = session.n_rounds

    def told(self) -> None:
        """Results have come."""
        self._course.report(self._session.n_told, self._session.goal.budget)

    def choosing(self) -> None:
        """Runs are being chosen."""
        self._course.doing("choosing runs")

    def chosen(self) -> None:
        """Runs have been chosen, maybe at a new round."""
        if self._session.n_rounds > self._rounds:
            self._rounds = self._session.n_rounds
            self._course.line(self._line())

    def _line(self) -> str:
        session, goal = self._session, self._session.goal
        runs, half_width, target = course_of(session.rounds, goal)
        worst, seconds = worst_quantity(session.rounds[-1], goal), self._clock() - self._began
        wanted = f" (asked: {short(target[-1, worst])})" * bool(np.isfinite(target[-1, worst]))
        foreseen = foreseen_runs(runs, half_width, target) if goal.has_target else None
        left = min(foreseen or np.inf, goal.budget) - session.n_told
        each = seconds / max(session.n_told - self._before, 1)
        ahead = f"about {short(each * left, 2)} s left" if foreseen or not goal.has_target else ""
        ahead = ahead or f"at most about {short(each * left, 2)} s left"
        return (
            f"{self._name}: {session.n_told} of at most {goal.budget} runs, half-width {short(half_width[-1, worst])}"
            f"{wanted}, {short(seconds, 2)} s, {ahead}"
        )


@dataclass(frozen=True)
class _Run:
    """Runs of a session, and where they are made."""

    session: Session
    workers: ThisProcess | Scheduler
    stored: StoredPoints
    options: RunOptions
    shown: Shown
    batch: int | None
    overhead: Overhead | None

    def goes_on(self) -> bool:
        """Whether there is anything to run."""
        if len(self.session.pending):
            return True
        self.shown.choosing()
        return not self.session.is_over

    def advance(self) -> None:
        """Make the pending runs, and further ones: a batch, or until the session is over."""
        if not len(self.session.pending):
            self._ask()
        self._make_first_value()
        if self.batch is None and isinstance(self.workers, Scheduler) and self._n_workers() > 1:
            if self.session.outputs is not None:
                self._keep_busy(self.workers)
        elif len(self.session.pending):
            self.stored.evaluate(self.workers, self._tasks(), self._take)

    def _ask(self) -> None:
        session = self.session
        if self.batch is None and self.overhead is not None:
            session._keep_pace(self.overhead)
        size = session.batch_size(self.workers.n_workers) if self.batch is None else self.batch
        session.ask(min(size, max(session._affordable(self._n_workers()), session.missing, 1)))
        self.shown.chosen()

    def _make_first_value(self, *, failures: int = 10) -> None:
        """Make pending runs one by one until the first value, which shows the outputs of f.

        failures: raise after this number of failures without a value.
        """
        while self.session.outputs is None and len(self.session.pending):
            task = self._tasks()[0]
            self.stored.evaluate(self.workers, [task], self._take)
            if self.session.outputs is None and self.session.n_told >= failures:
                did = self.session.failures[task.batch.t]
                raise task.points.failure(0, did, f", and it failed at all {self.session.n_told} runs so far.")

    def _keep_busy(self, scheduler: Scheduler) -> None:
        skip = self.options.on_error == "skip"
        runs = NextRuns(
            self.session,
            self._n_workers,
            lambda: _evidence(self.session) is None,
            skip_failures=skip,
            overhead=self.overhead,
            shown=self.shown,
        )

        def on_finished(results: Sequence[BatchResult]) -> None:
            runs.note(results)
            self._take(results)

        self.stored.evaluate_chosen(scheduler, runs, on_finished)

    def _n_workers(self) -> int:
        return self.options.in_flight or self.workers.n_workers

    def _tasks(self) -> list[Task]:
        points = [Points(theta, x[None], t) for t, theta, x in self.session.pending]
        return [Task(each, self.session.outputs, self.options.on_error == "skip") for each in points]

    def _take(self, results: Sequence[BatchResult]) -> None:
        self.session.take(results)
        self.shown.told()


def _evidence(session: Session) -> str | None:
    """Runs that show that f depends on theta although the problem denies it; None if there are none."""
    if session._quantity.depends_on_theta or (samples := session.samples) is None:
        return None
    return dependence_on_theta(samples)


def _require_independence(session: Session) -> None:
    """Raise if runs show that f depends on theta although the problem denies it."""
    evidence = _evidence(session)
    if evidence is not None:
        kept = "" if session.checkpoint is None else f" {session.checkpoint} keeps all {session.n_told} runs."
        raise ValueError(
            f"f depends on theta, although the problem has depends_on_theta=False: {evidence}. Pass "
            f"depends_on_theta=True to cbq.Problem and start a new run.{kept}"
        )


def _add_advice(error: BaseException, session: Session) -> None:
    """Add to an error how many runs are kept, and how to resume."""
    if session.checkpoint is None:
        advice = "Nothing is kept: with checkpoint='run.sqlite' an interrupted run can be resumed."
    else:
        advice = (
            f"{session.n_told} runs are in {session.checkpoint}: call solve again with the same arguments to resume."
        )
    message = str(error) or "solve was interrupted."
    error.args = (f"{message} {advice}", *error.args[1:])
