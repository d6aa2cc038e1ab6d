"""`cbq compare`: compare estimators on one problem."""

from __future__ import annotations

from dataclasses import astuple, fields
from math import isnan
from typing import Annotated

import typer

from cbq.cli import options
from cbq.cli.source import ProblemSource
from cbq.cli.tables import write_csv, write_figure
from cbq.comparison import ComparisonRow
from cbq.comparison import compare as compare_estimators
from cbq.estimators.base import create
from cbq.linalg import engine as use_engine

Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--methods",
        metavar="METHODS",
        show_default="all that suit the problem",
        help=f"Compare these estimators, separated by commas: {options.ESTIMATORS}.",
    ),
]


def compare(
    problem: options.ProblemName,
    methods: Methods = None,
    T: options.T = None,
    N: options.N = 40,
    design: options.Design = "iid",
    theta: options.Theta = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    checkpoint: options.Checkpoint = None,
    batch: options.Batch = None,
    on_error: options.OnError = None,
    on_change: options.OnChange = None,
    timeout: options.Timeout = None,
    engine: options.Engine = "numpy",
    level: options.Level = 0.95,
    out: options.Out = None,
    option: options.Options = None,
    debug: options.Debug = False,
) -> None:
    """Compare estimators on the same samples.

    Prints a table of errors, coverage and width of intervals, and seconds. Errors are against the truth if the problem
    has an exact answer. Otherwise thetas are left out in turn, and predictions there are compared with estimates from
    the points of the left-out thetas. Points are iid unless --design is set, because the standard errors of the
    baselines assume it. With --out, writes comparison.csv and comparison.png to the folder.

    \b
    Examples:
      cbq compare butterfly --T 20 --N 50
      cbq compare sir --methods cbq,mobq,lsmc --design sobol --out out/
      cbq compare simulator.py:problem --checkpoint run.sqlite
    """
    options.check(level, out, engine)
    names = [name.strip() for text in methods or () for name in text.split(",")]
    source = ProblemSource.parse(problem, option)
    estimators = {name: create(name, source.registered) for name in names} or None
    target = source.load()
    sampling = options.Sampling(T, N, seed, design, theta, workers, checkpoint, batch, on_error, on_change, timeout)
    samples = sampling.collect(target, source)
    with source.locating_errors(), use_engine(engine):
        comparison = compare_estimators(samples, estimators, target if target.has_exact else None, level=level)
    typer.echo(str(comparison))
    if out is None:
        return
    rows = [["" if isinstance(v, float) and isnan(v) else v for v in astuple(row)] for row in comparison.rows]
    write_csv(out / "comparison.csv", [field.name for field in fields(ComparisonRow)], rows)
    drawn = write_figure(out / "comparison.png", comparison.plot)
    typer.echo(f"Written: {out / 'comparison.csv'}, {drawn}.")
