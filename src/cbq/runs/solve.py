"""`problem.solve`: ask for runs, make them and tell the results, until the goal is reached."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from cbq.checkpoint import BatchResult
from cbq.common import Report, WorkerError, reporting
from cbq.runs.answer import AdaptiveAnswer
from cbq.runs.asynchronous import NextRuns
from cbq.runs.collect import RunOptions, workers_for
from cbq.runs.integrand import Evaluator, IntegrandError, Points, Task
from cbq.runs.overhead import Overhead
from cbq.runs.policies import dependence_on_theta
from cbq.runs.scheduling import Scheduler, ThisProcess
from cbq.runs.session import Session


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
        reporting(options.progress, name, session.n_told, session.goal.budget) as report,
    ):
        session._resume(options.on_change, workers, evaluator)
        if options.on_error == "raise":
            session.forget_failures()
        run = _Run(session, workers, options, report, batch, overhead)
        try:
            _require_independence(session)
            while len(session.pending) or not session.is_over:
                run.advance()
                _require_independence(session)
        except (IntegrandError, WorkerError, KeyboardInterrupt) as error:
            _add_advice(error, session)
            raise
    return session.answer()


@dataclass(frozen=True)
class _Run:
    """Runs of a session, and where they are made."""

    session: Session
    workers: ThisProcess | Scheduler
    options: RunOptions
    report: Report
    batch: int | None
    overhead: Overhead | None

    def advance(self) -> None:
        """Make the pending runs, and further ones: a batch, or until the session is over."""
        if not len(self.session.pending):
            self._ask()
        self._make_first_value()
        if self.batch is None and isinstance(self.workers, Scheduler) and self._n_workers() > 1:
            if self.session.outputs is not None:
                self._keep_busy(self.workers)
        elif len(self.session.pending):
            self.workers.evaluate(self._tasks(), self._take)

    def _ask(self) -> None:
        session = self.session
        if self.batch is None and self.overhead is not None:
            session.keep_pace(self.overhead)
        size = session.batch_size(self.workers.n_workers) if self.batch is None else self.batch
        session.ask(min(size, max(session.goal.budget - session.n_told, session.missing, 1)))

    def _make_first_value(self, *, failures: int = 10) -> None:
        """Make pending runs one by one until the first value, which shows the outputs of f.

        failures: raise after this number of failures without a value.
        """
        while self.session.outputs is None and len(self.session.pending):
            task = self._tasks()[0]
            self.workers.evaluate([task], self._take)
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
        )

        def on_finished(results: Sequence[BatchResult]) -> None:
            runs.note(results)
            self._take(results)

        scheduler.evaluate_chosen(runs, on_finished, report_first=True)

    def _n_workers(self) -> int:
        return self.options.in_flight or self.workers.n_workers

    def _tasks(self) -> list[Task]:
        points = [Points(theta, x[None], t) for t, theta, x in self.session.pending]
        return [Task(each, self.session.outputs, self.options.on_error == "skip") for each in points]

    def _take(self, results: Sequence[BatchResult]) -> None:
        self.session.take(results)
        self.report(self.session.n_told, self.session.goal.budget)


def _evidence(session: Session) -> str | None:
    """Runs that show that f depends on theta although the problem denies it; None if there are none."""
    samples = session.samples
    return None if samples is None or samples.depends_on_theta else dependence_on_theta(samples)


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
