"""`cbq solve`: run f until the estimate of I reaches an accuracy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from cbq.cli import options
from cbq.cli.estimate import Report
from cbq.cli.ledger import PROBLEM_NOTE
from cbq.cli.source import RECORD, ProblemSource, write_record
from cbq.cli.tables import write_columns, write_figure
from cbq.common.checks import run_entropy
from cbq.runs import AdaptiveAnswer

Batch = Annotated[
    int | None,
    options.count(
        show_default="one for each worker, or an eighth of the runs so far",
        help="Choose this many runs together, before any of them is made.",
    ),
]


def solve(
    problem: options.ProblemName,
    rtol: options.Rtol = None,
    tolerance: options.Tolerance = None,
    criterion: options.Criterion = None,
    level: options.GoalLevel = None,
    budget: options.Budget = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    batch: Batch = None,
    checkpoint: options.Checkpoint = None,
    on_error: options.OnError = None,
    on_change: options.OnChange = None,
    timeout: options.Timeout = None,
    at: options.At = None,
    out: options.Out = None,
    option: options.Options = None,
    debug: options.Debug = False,
) -> None:
    """Estimate I(theta) to an accuracy that you state.

    Chooses where to run f, runs it there, and stops when the intervals of I(theta) are as narrow as --rtol or
    --tolerance, or when the budget is spent; without either, it spends the budget. Prints whether the accuracy is
    reached, the number of runs and the next run, and the table of `cbq run`. With --out, writes to the folder

    \b
      estimate.csv  the table, on a finer grid
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
      cbq solve simulator.py:problem --tolerance 0.5 --criterion max --workers 2
      cbq solve simulator.py:build --option days=30 --checkpoint run.sqlite
    """
    goal = options.goal({}, tolerance=tolerance, rtol=rtol, criterion=criterion, level=level, budget=budget)
    options.check(goal.level, out)
    source = ProblemSource.parse(problem, option)
    target = source.load()
    at_thetas = options.thetas(at, target.p, "--at")  # refused before the run rather than after it
    set_options = {"on_error": on_error, "on_change": on_change}
    given: dict[str, Any] = {name: value for name, value in set_options.items() if value is not None}
    start = perf_counter()
    with options.resumable(checkpoint), source.locating_errors():
        if checkpoint is not None:  # so that `cbq status` knows the problem, too
            with target._session(goal, run_entropy(seed), None, None, checkpoint) as session:
                session.note(PROBLEM_NOTE, source.record)
        answer = target.solve(
            **goal.record, rng=seed, batch=batch, executor=workers, checkpoint=checkpoint, timeout=timeout, **given
        )
    seconds = perf_counter() - start
    with source.locating_errors():
        report = Report(target, answer.samples, answer.fit, goal.level, at_thetas)
        if out is not None:  # now, so that a later error does not lose an expensive run
            running = {"seed": seed, "workers": workers, "batch": batch, "checkpoint": checkpoint, "timeout": timeout}
            save_answer(answer, out, source, target.name, sampling={**running, **given}, seconds=seconds)
        typer.echo(f"{answer.summary()}\n")
        report.show()
        if out is not None:
            write_answer(answer, report, out, seed)
        if goal.has_target and not answer.reached:  # again at the end: the summary may have scrolled away
            typer.echo(f"\n{' '.join(filter(None, [answer.lines()[0], answer.advice]))}")


def save_answer(answer: AdaptiveAnswer, folder: Path, source: ProblemSource, problem: str, **parts: Any) -> None:
    """Write the fit of an answer, and its record with further parts."""
    answer.fit.save(folder / "fit.cbq")
    runs = {"runs": answer.n_runs, "failed": answer.n_failed, "rounds": len(answer.rounds)}
    result = {"reached": answer.reached, "fit": type(answer.fit).__name__, "warnings": answer.fit.warnings}
    write_record(folder, source, problem, goal=answer.goal.record, **runs, **result, **parts)


def write_answer(answer: AdaptiveAnswer, report: Report, folder: Path, seed: int | None = None) -> None:
    """Write the tables and figures of an answer, and print the paths."""
    written = report.write(folder, replace(answer, fit=answer.fit._quiet).plot)
    history = answer.history
    write_columns(folder / "history.csv", history.to_columns())
    written += [str(folder / "history.csv"), write_figure(folder / "history.png", history.plot)]
    written.append(report.write_report(folder / "report.html", {} if seed is None else {"seed": str(seed)}, answer))
    typer.echo(f"Written: {', '.join(written)}, {folder / 'fit.cbq'}, {folder / RECORD}.")
