"""`cbq solve`, `cbq ask`, `cbq tell` and `cbq status`: runs of f until the estimate of I reaches an accuracy.

`ask`, `tell` and `status` share a file, which keeps the problem, the seed and the goal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

from cbq.checkpoint import StoredLedger, read_ledger
from cbq.cli import options
from cbq.cli.estimate import Report
from cbq.cli.results import tell_results
from cbq.cli.sheets import read_sheet
from cbq.cli.source import RECORD, ProblemSource, write_record
from cbq.cli.tables import check_writable, command_line, write_columns, write_figure
from cbq.common import evenly, one_of, run_entropy, shown_seed
from cbq.problems.problem import Problem
from cbq.runs import GOAL_NOTE, AdaptiveAnswer, Asked, OnChange, Session

PROBLEM_NOTE, LEASE_NOTE = "problem", "lease"  # names of the problem and of the lease in a checkpoint
WAIT = 5.0  # seconds to wait for another process to release the file, if nothing else is asked for
OVER = 3  # exit status if there is nothing to run: a loop in a shell ends


@dataclass(frozen=True)
class Solving(options.Running, options.Showing):
    """How `cbq solve` runs f."""

    batch: int | None = options.whole(
        "Choose this many runs together, before any of them is made.",
        shown="an eighth of the runs so far; with --workers, as they become free",
    )
    overhead: float | None = options.setting(
        "Choose runs for a mean in at most this many times the time of f, beyond 10 s; inf for no limit.",
        metavar="NUMBER",
        shown="1",
    )
    deadline: str | None = options.setting(
        "End within this time, such as 90s, 30m or 2h: begin no run that should take longer.", metavar="TIME"
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `Problem.solve`."""
        found = super().arguments | {"batch": self.batch}
        if self.overhead is not None:
            found["overhead"] = None if math.isinf(self.overhead) else self.overhead
        if self.deadline is not None:
            found["deadline"] = options.seconds(self.deadline, "--deadline")
        return found


@dataclass(frozen=True)
class Resumed:
    """The file of a run, and the problem that begins it, or that has moved."""

    run: Path = options.argument("Name the file of the run, such as run.sqlite.", metavar="RUN", dir_okay=False)
    problem: str | None = options.setting(
        "Name the problem, or path/to/file.py:attribute, to begin a run, or if that file has moved. RUN remembers it.",
        "--problem",
        metavar="PROBLEM",
        shown="from RUN",
    )
    option: list[str] | None = options.setting(options.PROBLEM_OPTION, "--option", metavar="KEY=VALUE")


@dataclass(frozen=True)
class Changing:
    """What to do if f has changed, or if another process has the file."""

    on_change: str = options.setting(options.ON_CHANGE, default="raise", metavar="NAME")
    wait: str = options.setting(
        "Wait this long for another process that has RUN open, such as 30s or 10m.",
        default=options.duration(WAIT),
        metavar="TIME",
    )


@dataclass(frozen=True)
class Asking(Changing):
    """The runs to ask for."""

    n: int | None = options.whole("Ask for this many runs.", "--n", shown="16, then an eighth of the runs so far")
    out: Path | None = options.setting(
        "Write the table to this file, .csv, .xlsx, .ods or .parquet.",
        metavar="FILE",
        dir_okay=False,
        shown="standard output",
    )
    pending: bool = options.setting(
        "List the runs that were asked for and not told, instead of new runs.", "--pending", default=False
    )
    lease: str | None = options.setting(
        "Ask again for runs that have no result after this time, such as 90m, 2h or 1d: their jobs may be lost. RUN "
        "remembers it.",
        "--lease",
        metavar="TIME",
        shown="never",
    )
    seed: int | None = options.setting(
        "Begin a run with this random seed.", "--seed", metavar="INTEGER", min=0, shown="0"
    )


@dataclass(frozen=True)
class Telling(Changing):
    """The table of results."""

    results: Path = options.argument(
        "Name a table of results: CSV, Excel, .ods or Parquet.", metavar="RESULTS", dir_okay=False
    )
    sheet: str | None = options.setting(
        "Read this sheet of a workbook, by its name or its number.", "--sheet", metavar="NAME"
    )
    header_row: int | None = options.whole("Find the names of the columns in this line, below titles.", "--header-row")


@dataclass(frozen=True, eq=False)
class Run:
    """An adaptive run in a file, with its problem and the source of the problem."""

    session: Session
    problem: Problem
    source: ProblemSource


def solve(context: typer.Context, named: options.Named, accuracy: options.Accuracy, solving: Solving) -> None:
    """Estimate I(theta) to an accuracy that you state.

    Chooses where to run f, runs it there, and stops when the intervals of I(theta) are as narrow as --rtol or
    --tolerance, or when the budget is spent; without either, it spends the budget. Prints whether the accuracy is
    reached, the number of runs and the next run, and the table of `cbq run`. With --above, --below or --quantile, the
    goal is a probability or a quantile of f itself; with --maximize or --minimize, the best theta, whose expected
    regret --tolerance or --rtol limits; with --value-at-risk, --expected-shortfall or --expected-loss, a risk measure
    of I over the prior. With --out, writes to the folder

    \b
      estimate.csv  the table, on a finer grid
      goals.csv     probabilities and quantiles, if asked for
      numbers.csv   the best I and risk measures, if asked for
      best.csv      the thetas that may be best, if asked for
      figure.png    the estimate over theta and the next runs
      report.html   a self-contained report: the answer, the choices, checks, warnings
      history.csv   the half-width of the intervals and the goal, round by round
      history.png   the half-width against the number of runs
      fit.cbq       the fit, for `cbq predict` and `cbq.load`
      run.json      versions, seed, options, timings

    If Python cannot run f, use `cbq ask` and `cbq tell`.

    \b
    Examples:
      cbq solve sir --rtol 0.05 --budget 300 --out out/
      cbq solve butterfly --above 5 --relative 0.05
      cbq solve butterfly --value-at-risk 0.995 --relative 0.05
      cbq solve simulator.py:problem --tolerance 0.5 --criterion max --workers 2
      cbq solve simulator.py:build --option days=30 --checkpoint run.sqlite
    """
    goal, out, checkpoint = accuracy.goal({}), solving.out, solving.checkpoint
    options.check(goal.level, out)
    source = named.source
    target = source.load()
    at_thetas = options.thetas(solving.at, target.p, "--at")  # refused before the run rather than after it
    start = perf_counter()
    with options.resumable(checkpoint), source.locating_errors():
        if checkpoint is not None:  # so that `cbq status` finds the problem, too
            with target._session(goal, run_entropy(solving.seed), None, None, checkpoint) as session:
                session.note(PROBLEM_NOTE, source.record)
        answer = target.solve(**goal.arguments, **solving.arguments)
    seconds = perf_counter() - start
    with source.locating_errors():
        report = Report(target, answer.samples, answer.fit, goal.level, at_thetas)
        if out is not None:  # now, so that a later error does not lose an expensive run
            _save_answer(answer, out, source, target.name, sampling=asdict(solving), seconds=seconds)
        _show_summary(answer)
        report.show()
        table = report.table.theta
        for name, columns in answer._goal_tables(table[evenly(len(table), 9)]).items():
            typer.echo("")
            write_columns(None, columns)
            if out is not None:
                write_columns(out / f"{name}.csv", columns)
        if out is not None:
            _write_answer(answer, report, out, command_line(context), {"seed": str(solving.seed)})
        if goal.has_target and not answer.reached:  # again at the end: the summary may have scrolled away
            typer.secho(f"\n{' '.join(filter(None, [answer.lines()[0], answer.advice]))}", fg="red")


def ask(resumed: Resumed, accuracy: options.Accuracy, asking: Asking) -> None:
    """List the next runs of f, for a simulator in any language.

    Writes a table with a row for each run: its id, theta and x, in columns id, theta or theta_0, theta_1, ..., and x or
    x_0, x_1, ..., or by the names that the problem gives them. Run f there, in any order, and pass the results to `cbq
    tell`. The first call names the problem, whose integrand may be None, and the goal; the file RUN remembers both.
    With --lease, runs whose jobs were lost come again, before new ones. Ends with exit status 3, and without a table,
    once the accuracy is reached or the budget spent.

    \b
    Examples:
      cbq ask run.sqlite --problem simulator.py:problem --rtol 0.01
      cbq ask run.sqlite --n 8 --lease 2h --out points.csv
      cbq ask run.sqlite --pending
    """
    run, out, pending = resumed.run, asking.out, asking.pending
    if out is not None:
        if out.resolve() == run.resolve():
            raise ValueError(f"--out {out} would overwrite the run: name another file for the table.")
        check_writable(out)
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
    wait = options.seconds(asking.wait, "--wait")
    with _opened(resumed, asking.on_change, wait, begin=not pending, seed=asking.seed, accuracy=accuracy) as opened:
        session = opened.session
        lease = _lease(session, asking.lease)
        reason = _why_none(session, pending=pending)
        asked, n_again = session.pending, 0
        if not pending:
            asked, n_again = _next_runs(session, asking.n, None if session.reached else lease, new=reason is None)
        earlier = _earlier(session, run, asked, lease)  # their table may have been lost
        if not len(asked):
            typer.echo(f"Nothing to run: {reason}{earlier}", err=True)
            raise typer.Exit(OVER)
        write_columns(out, asked.to_columns())
    more = f" {n_again} of them were asked for before and not told." * bool(n_again) + earlier
    if out is not None:
        how = f"run f there, and tell the results with cbq tell {run}."
        typer.echo(f"{len(asked)} runs are in {out}: {how}{more}")
    elif more:  # apart from the table
        typer.echo(more.strip(), err=True)


def tell(resumed: Resumed, telling: Telling) -> None:
    """Take results of the runs that `cbq ask` asked for.

    RESULTS has a row for each run, with columns id and f, or f_0, f_1, ... for several outputs, or the names that the
    problem gives to f; other columns are ignored. A run has failed if its value is empty or nan, or if there is a text
    in the column `failed`. Rows may come in any order, and in any number: all of them are taken, or none. The same
    results may be told again; other values for a run are refused.

    \b
    Examples:
      cbq tell run.sqlite results.csv
    """
    table = read_sheet(telling.results, telling.sheet, telling.header_row)
    for remark in table.remarks:
        typer.echo(f"{remark}.", err=True)
    with _opened(resumed, telling.on_change, options.seconds(telling.wait, "--wait")) as opened:
        session = opened.session
        before = session.n_told
        tell_results(table, session)
        failed = f", {len(session.failures)} of which failed" * bool(session.failures)
        counts = f"{session.n_told} of {session.n_asked} runs are told{failed}"
        typer.echo(f"{session.n_told - before} new results. {counts}. cbq status {resumed.run} shows the estimate.")


def status(context: typer.Context, resumed: Resumed, output: options.Output) -> None:
    """Show the state of a run, and the next step.

    Prints the numbers of runs asked and told, and the estimate of I. Changes nothing in RUN. With --out, writes the
    same files as `cbq solve` to the folder: the estimate, its figure, the history and its figure, the fit for `cbq
    predict`, and a record.

    \b
    Examples:
      cbq status run.sqlite
      cbq status run.sqlite --out out/
    """
    out = output.out
    with _opened(resumed, None) as opened:
        session = opened.session  # closed below, so that others can ask and tell during the fit
    with opened.source.locating_errors():
        failed = f" ({len(session.failures)} failed)" * bool(session.failures)
        lease = _lease(session, None)
        n = 0 if lease is None else len(session.overdue(lease))
        late = f" ({n} for more than {options.duration(lease or 0.0)})" * bool(n)
        typer.echo(
            f"{opened.problem.name}: {session.n_asked} runs asked for, {session.n_told} told{failed}, "
            f"{len(session.pending)} pending{late}. Wanted: {session.goal}."
        )
        if session.missing:
            typer.echo(f"\nNext: {_next(session, resumed.run)}")
            if out is not None:
                raise ValueError(f"there is nothing to write to {out} before there is an estimate.")
            return
        answer = session.answer()
        typer.echo("")
        _show_summary(answer)
        typer.echo(f"Next: {_next(session, resumed.run)}")
        if out is not None:
            options.check(session.goal.level, out)
            _save_answer(answer, out, opened.source, opened.problem.name)
            report = Report(opened.problem, answer.samples, answer.fit, session.goal.level)
            _write_answer(answer, report, out, command_line(context), {})


def _show_summary(answer: AdaptiveAnswer) -> None:
    """The summary, and a blank line; its first line is red if the goal was not reached."""
    first, _, rest = str(answer.summary()).partition("\n")
    typer.secho(first, fg="red" if answer.status else None)
    typer.echo(f"{rest}\n")


@contextmanager
def _opened(
    resumed: Resumed,
    on_change: str | None,
    wait: float = WAIT,
    *,
    begin: bool = False,
    seed: int | None = None,
    accuracy: options.Accuracy | None = None,
) -> Iterator[Run]:
    """The run in a file, locked against other processes.

    on_change : as for `Problem.session`; None to read the run only. begin : whether to make the file if there is none.
    wait : seconds to wait for another process to release the file. seed, accuracy : by default, the ones in the file.
    """
    file, problem = resumed.run, resumed.problem
    is_new = not file.exists() or file.stat().st_size == 0  # if the first call was killed
    if is_new and (problem is None or not begin):
        raise ValueError(f"there is no run {file}: cbq ask {file} --problem path/to/file.py:attribute begins one.")
    stored = None if is_new else read_ledger(file, wait)
    source = ProblemSource.optional(problem, resumed.option) or _stored_source(file, stored)
    remembered = {} if stored is None else stored.notes.get(GOAL_NOTE, {"level": stored.settings["level"]})
    goal = (accuracy or options.Accuracy()).goal(remembered)
    entropy = _entropy(file, stored, seed)
    target = source.load()
    with source.locating_errors(), target._session(goal, entropy, None, None, file, wait) as session:
        if on_change is None:
            session._warn_if_changed()
        else:
            session._resume(one_of(on_change, OnChange, "on_change"))
        if problem is not None:
            session.note(PROBLEM_NOTE, source.record)
        yield Run(session, target, source)


def _stored_source(file: Path, stored: StoredLedger | None) -> ProblemSource:
    """The problem in the file."""
    record = None if stored is None else stored.notes.get(PROBLEM_NOTE)
    if record is None:
        raise ValueError(f"{file} does not name its problem: pass --problem path/to/file.py:attribute.")
    source = ProblemSource.of_record(record)
    if source.file is not None and not source.file.is_file():
        raise ValueError(f"{file} is a run of {source}, which is no longer there: pass --problem with its new place.")
    return source


def _entropy(file: Path, stored: StoredLedger | None, seed: int | None) -> list[int]:
    """The entropy of the run from its seed (default: 0)."""
    if stored is None:
        return run_entropy(0 if seed is None else seed)
    entropy: list[int] = stored.settings["seed"]
    if seed is not None and run_entropy(seed) != entropy:
        raise ValueError(
            f"{file} began with {shown_seed(entropy)}, but --seed {seed} is passed: leave it out, or name another "
            f"file for a new run."
        )
    return entropy


def _save_answer(answer: AdaptiveAnswer, folder: Path, source: ProblemSource, problem: str, **parts: Any) -> None:
    """Write the fit of an answer, and its record with further parts."""
    answer.fit.save(folder / "fit.cbq")
    runs = {"runs": answer.n_runs, "failed": answer.n_failed, "rounds": len(answer.rounds)}
    result = {"reached": answer.reached, "fit": type(answer.fit).__name__, "warnings": answer.fit.warnings}
    write_record(folder, source, problem, goal=answer.goal.record, **runs, **result, **parts)


def _write_answer(answer: AdaptiveAnswer, report: Report, folder: Path, command: str, record: dict[str, str]) -> None:
    """Write the tables and figures of an answer, and print the paths."""
    written = report.write(folder, replace(answer, fit=answer.fit._quiet).plot)
    history = answer.history
    write_columns(folder / "history.csv", history.to_columns())
    written += [str(folder / "history.csv"), write_figure(folder / "history.png", history.plot)]
    written.append(report.write_report(folder / "report.html", command, record, answer))
    typer.echo(f"Written: {', '.join(written)}, {folder / 'fit.cbq'}, {folder / RECORD}.")


def _lease(session: Session, given: str | None) -> float | None:
    """The seconds after which a run without a result is lost, as given or as the file remembers; None for never."""
    if given is not None:
        session.note(LEASE_NOTE, options.seconds(given, "--lease"))
    lease: float | None = session.noted(LEASE_NOTE)
    return lease


def _next_runs(session: Session, n: int | None, lease: float | None, *, new: bool) -> tuple[Asked, int]:
    """At most n runs to make: lost ones, and then new ones within the budget; and the number of lost ones."""
    wanted = n or session.batch_size(1)
    again = session.ask_again(lease or math.inf, wanted)
    wanted = min(wanted - len(again), session.goal.budget - session.n_asked) if new else 0
    return (again + session.ask(wanted) if wanted > 0 else again), len(again)


def _earlier(session: Session, run: Path, asked: Asked, lease: float | None) -> str:
    """A sentence on pending runs besides these."""
    n = len(session.pending) - len(asked)
    if not n:
        return ""
    back = "" if lease is None else f", and cbq ask repeats each {options.duration(lease)} after it was asked for"
    return f" {n} runs that were asked for earlier are pending: cbq ask {run} --pending lists them{back}."


def _why_none(session: Session, *, pending: bool) -> str | None:
    """Why there is nothing to run; None if there is."""
    if pending:
        return None if len(session.pending) else "no run is pending."
    if session.reached:
        return f"the accuracy is reached ({session.goal}). Continue with a smaller --rtol or --tolerance."
    if session.n_asked >= session.goal.budget:
        return f"{session.n_asked} runs were asked for, which is the budget. Continue with a larger --budget."
    return None


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
