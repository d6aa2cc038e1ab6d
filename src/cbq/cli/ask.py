"""`cbq ask`: where to run a simulator next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cbq.cli import options
from cbq.cli.ledger import File, From, opened
from cbq.cli.tables import check_writable, write_columns
from cbq.runs import Session

OVER = 3  # exit status if there is nothing to run: a loop in a shell ends

Number = Annotated[
    int | None,
    options.count("--n", show_default="16, then an eighth of the runs so far", help="Ask for this many runs."),
]
Points = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        dir_okay=False,
        show_default="standard output",
        help="Write the table to this file, .csv, .xlsx, .ods or .parquet.",
    ),
]
Pending = Annotated[
    bool, typer.Option("--pending", help="List the runs that were asked for and not told, instead of new runs.")
]
FirstSeed = Annotated[
    int | None,
    typer.Option("--seed", metavar="INTEGER", min=0, show_default="0", help="Begin a run with this random seed."),
]


def ask(
    run: File,
    n: Number = None,
    out: Points = None,
    pending: Pending = False,
    problem: From = None,
    seed: FirstSeed = None,
    rtol: options.Rtol = None,
    tolerance: options.Tolerance = None,
    criterion: options.Criterion = None,
    level: options.GoalLevel = None,
    budget: options.Budget = None,
    on_change: options.OnChange = "raise",
    option: options.Options = None,
    debug: options.Debug = False,
) -> None:
    """List the next runs of f, for a simulator in any language.

    Writes a table with a row for each run: its id, theta and x, in columns id, theta or theta_0, theta_1, ..., and x or
    x_0, x_1, ..., or by the names that the problem gives them. Run f there, in any order, and pass the results to `cbq
    tell`. The first call names the problem, whose integrand may be None, and the goal; the file RUN remembers both.
    Ends with exit status 3, and without a table, once the accuracy is reached or the budget spent.

    \b
    Examples:
      cbq ask run.sqlite --problem simulator.py:problem --rtol 0.01
      cbq ask run.sqlite --n 8 --out points.csv
      cbq ask run.sqlite --pending
    """
    if out is not None:
        if out.resolve() == run.resolve():
            raise ValueError(f"--out {out} would overwrite the run: name another file for the table.")
        check_writable(out)
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
    goal = {"tolerance": tolerance, "rtol": rtol, "criterion": criterion, "level": level, "budget": budget}
    with opened(run, problem, option, begin=not pending, seed=seed, goal=goal, on_change=on_change) as opened_run:
        reason = _why_none(opened_run.session, pending=pending)
        earlier = "" if pending else _pending_note(len(opened_run.session.pending), run)
        if reason is not None:
            typer.echo(f"Nothing to run: {reason}{earlier}", err=True)
            raise typer.Exit(OVER)
        asked = opened_run.session.pending if pending else opened_run.session.ask(_within_budget(opened_run.session, n))
        write_columns(out, asked.to_columns())
    if out is not None:
        typer.echo(f"{len(asked)} runs are in {out}: run f there, and tell the results with cbq tell {run}.{earlier}")


def _pending_note(n: int, run: Path) -> str:
    """A sentence about n pending runs, if there are any: their table may have been lost."""
    again = f"cbq ask {run} --pending lists them"
    return f" {n} runs that were asked for earlier are pending: {again}." * bool(n)


def _why_none(session: Session, *, pending: bool) -> str | None:
    """Why there is nothing to run; None if there is."""
    if pending:
        return None if len(session.pending) else "no run is pending."
    if session.reached:
        return f"the accuracy is reached ({session.goal}). Continue with a smaller --rtol or --tolerance."
    if session.n_asked >= session.goal.budget:
        return f"{session.n_asked} runs were asked for, which is the budget. Continue with a larger --budget."
    return None


def _within_budget(session: Session, n: int | None) -> int:
    """n, or the default size of a batch, limited by the budget."""
    wanted = session.batch_size(1) if n is None else n
    return min(wanted, session.goal.budget - session.n_asked)
