"""`problem.solve`: ask for a batch, evaluate it and tell the results, until the goal is reached."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from cbq.checkpoint import BatchResult
from cbq.common import Report, WorkerError, reporting
from cbq.runs.answer import AdaptiveAnswer
from cbq.runs.collect import RunOptions, workers_for
from cbq.runs.integrand import Evaluator, IntegrandError, Points, Task
from cbq.runs.policies import dependence_on_theta
from cbq.runs.scheduling import Scheduler, ThisProcess
from cbq.runs.session import Session


def solve(session: Session, evaluator: Evaluator, options: RunOptions, name: str, batch: int | None) -> AdaptiveAnswer:
    """Make runs until the goal is reached or the budget spent, and return the answer.

    batch: number of runs chosen at a time (default: `Session.batch_size`).
    """
    with (
        closing(workers_for(evaluator, options)) as workers,
        reporting(options.progress, name, session.n_told, session.goal.budget) as report,
    ):
        session._resume(options.on_change, workers, evaluator)
        if options.on_error == "raise":
            session.forget_failures()
        try:
            _make_pending(session, workers, options, report)
            _require_independence(session)
            while not session.is_over:
                size = session.batch_size(workers.n_workers) if batch is None else batch
                session.ask(min(size, max(session.goal.budget - session.n_told, session.missing, 1)))
                _make_pending(session, workers, options, report)
                _require_independence(session)
        except (IntegrandError, WorkerError, KeyboardInterrupt) as error:
            _add_advice(error, session)
            raise
    return session.answer()


def _make_pending(
    session: Session,
    workers: ThisProcess | Scheduler,
    options: RunOptions,
    report: Report,
    *,
    failures: int = 10,
) -> None:
    """Make the pending runs; one by one until the first value, which shows the outputs of f.

    failures: raise after this number of failures without a value.
    """

    def on_finished(results: Sequence[BatchResult]) -> None:
        session.take(results)
        report(session.n_told, session.goal.budget)

    skip = options.on_error == "skip"
    while len(pending := session.pending):
        batch = list(pending) if session.outputs is not None else list(pending)[:1]
        points = [Points(theta, x[None], t) for t, theta, x in batch]
        workers.evaluate([Task(point, session.outputs, skip) for point in points], on_finished)
        if session.outputs is None and session.n_told >= failures:
            did = session.failures[batch[0][0]]
            raise points[0].failure(0, did, f", and it failed at all {session.n_told} runs so far.")


def _require_independence(session: Session) -> None:
    """Raise if runs show that f depends on theta although the problem denies it."""
    if session.samples is None or session.samples.depends_on_theta:
        return
    evidence = dependence_on_theta(session.samples)
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
