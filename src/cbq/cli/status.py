"""`cbq status`: the state of a run, and the next step."""

from __future__ import annotations

from pathlib import Path

import typer

from cbq.cli import options
from cbq.cli.estimate import Report
from cbq.cli.ledger import File, From, opened
from cbq.cli.solve import save_answer, write_answer
from cbq.runs import Session


def status(
    run: File,
    out: options.Out = None,
    problem: From = None,
    option: options.Options = None,
    debug: options.Debug = False,
) -> None:
    """Show the state of a run, and the next step.

    Prints the numbers of runs asked and told, and the estimate of I. Changes nothing in RUN. With --out, writes the
    same files as `cbq solve` to the folder: the estimate, its figure, the history and its figure, the fit for `cbq
    predict`, and a record.

    \b
    Examples:
      cbq status run.sqlite
      cbq status run.sqlite --out out/
    """
    with opened(run, problem, option, on_change=None) as opened_run:
        session = opened_run.session  # closed below, so that others can ask and tell during the fit
    with opened_run.source.locating_errors():
        failed = f" ({len(session.failures)} failed)" * bool(session.failures)
        typer.echo(
            f"{opened_run.problem.name}: {session.n_asked} runs asked for, {session.n_told} told{failed}, "
            f"{len(session.pending)} pending. Wanted: {session.goal}."
        )
        if session.missing:
            typer.echo(f"\nNext: {_next(session, run)}")
            if out is not None:
                raise ValueError(f"there is nothing to write to {out} before there is an estimate.")
            return
        answer = session.answer()
        typer.echo(f"\n{answer.summary()}\n\nNext: {_next(session, run)}")
        if out is not None:
            options.check(session.goal.level, out)
            save_answer(answer, out, opened_run.source, opened_run.problem.name)
            write_answer(answer, Report(opened_run.problem, answer.samples, answer.fit, session.goal.level), out)


def _next(session: Session, run: Path) -> str:
    """The next step."""
    table = "--out points.csv"
    lacking = f"an estimate needs {session.missing} more runs with values; " * bool(session.missing)
    if len(session.pending):
        again = f"cbq ask {run} --pending {table} lists them"
        return f"{lacking}make the {len(session.pending)} pending runs ({again}), and cbq tell {run} results.csv."
    if not session.missing and session.reached:
        return f"nothing, the accuracy is reached. cbq status {run} --out out/ writes the estimate."
    if session.n_asked >= session.goal.budget:
        return f"{lacking}the budget is spent. cbq ask {run} --budget {2 * session.goal.budget} {table} continues."
    return f"{lacking}cbq ask {run} --n {session.missing or session.batch_size(1)} {table}."
