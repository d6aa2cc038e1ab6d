"""`cbq run`: from a problem to an answer."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from cbq._arrays import Array
from cbq.cli import options, record, words
from cbq.cli.estimate import Estimate, against, estimate
from cbq.cli.figures import figure, write_figure
from cbq.cli.places import observed, reported
from cbq.cli.sampling import Sampling
from cbq.cli.source import Source
from cbq.comparison.methods import REFUSALS
from cbq.fit.base import Fit
from cbq.problem import Problem

At = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="THETA",
        show_default=False,
        help="A theta to report the answer at, in place of a grid; may be repeated.",
    ),
]


def run(
    problem: options.Problem,
    T: options.T = None,
    N: options.N = 40,
    method: options.Method = "auto",
    design: options.Design = "iid",
    theta: options.Theta = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    checkpoint: options.Checkpoint = None,
    batch: options.Batch = None,
    on_error: options.OnError = None,
    level: options.Level = 0.95,
    at: At = None,
    out: options.Out = None,
    option: options.Options = None,
    debug: options.Debug = False,
) -> None:
    """Estimate I(theta) from few evaluations of f.

    f is evaluated at T thetas, N times each, and I(theta) = E f(X, theta) estimated as a function of theta. Prints how
    it was done and a table: theta, the mean of I, its standard deviation, the ends of its interval. Where the truth is
    known it is put beside. With --out, the folder gets

    \b
      estimate.csv  the table, on a finer grid
      figure.png    the answer over theta, where theta has one or two coordinates
      fit.cbq       the fit, for `cbq predict` and `cbq.load`
      run.json      versions, seed, options, timings

    \b
    Examples:
      cbq run sir --T 15 --N 40 --design sobol --out out/
      cbq run linear --option dim=2 --option f=inner --method cbq
      cbq run simulator.py:problem --workers 2 --checkpoint run.sqlite --out out/
      cbq run simulator.py:build --option days=30 --theta 0.5 --theta 1.0 --theta 2.0
    """
    options.check(level, out)
    chosen = words.method(method)
    source = Source.parse(problem, words.options(option))
    sampling = Sampling(T, N, seed, design, theta, workers, checkpoint, batch, on_error)
    target = source.load()
    words.thetas(at, target.p)  # refused now rather than after the run
    clock = [perf_counter()]
    samples = sampling.collect(target, source)
    clock.append(perf_counter())
    with source.blamed():
        fit = chosen.fit(samples)
        clock.append(perf_counter())
        seconds = {"collect": clock[1] - clock[0], "fit": clock[2] - clock[1]}
        if out is not None:  # at once: what was expensive is safe whatever comes next
            sizes = {"T": samples.T, "evaluations": samples.n_evaluations}
            parts = {"sampling": sampling.record() | sizes, "method": method, "level": level, "seconds": seconds}
            _keep(out, source, target, fit, **parts)
        _say(target, samples.n_evaluations, fit, seconds)
        table = _table(target, fit, words.thetas(at, target.p), level, own=theta is not None)
        table.show()
        lines = [table.note, against(target, samples, fit, level)] if target.has_exact else [table.note]
        typer.echo("\n".join(["", *filter(None, lines)]).rstrip("\n"))
        if out is None:
            return
        table.write(out / "estimate.csv")
        line = table.theta if at is None else reported(target, fit, own=theta is not None)
        drawn = write_figure(out / "figure.png", lambda: figure(fit, target, level, line))
    typer.echo(f"Written: {out / 'estimate.csv'}, {drawn}, {out / 'fit.cbq'}, {out / record.NAME}.")


def _table(problem: Problem, fit: Fit, at: Array | None, level: float, *, own: bool) -> Estimate:
    """The answer at the thetas that were asked for, or over the prior, or at the observed thetas if it must be."""
    if at is not None:
        return estimate(fit, at, level, problem)
    try:
        return estimate(fit, reported(problem, fit, own=own), level, problem)
    except REFUSALS:  # a fit that has no answer between observed thetas
        return estimate(fit, observed(fit), level, problem)


def _keep(out: Path, source: Source, problem: Problem, fit: Fit, **parts: Any) -> None:
    """Write the fit and the record of the run."""
    fit.save(out / "fit.cbq")
    parts |= {"choice": fit.choice, "fit": type(fit).__name__}
    record.write(out, source, problem.name, **parts)


def _say(problem: Problem, evaluations: int, fit: Fit, seconds: dict[str, float]) -> None:
    """What was done."""
    times = f"collected in {seconds['collect']:.1f} s, fitted in {seconds['fit']:.1f} s"
    typer.echo(f"{problem.name}: {evaluations} evaluations, {times}.\n\n{fit.summary()}\n")
