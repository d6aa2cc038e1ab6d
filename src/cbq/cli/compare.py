"""`cbq compare`: methods side by side on one problem."""

from __future__ import annotations

from dataclasses import astuple, fields
from math import isnan
from pathlib import Path
from typing import Annotated

import typer

from cbq.cli import options, words
from cbq.cli.figures import write_figure
from cbq.cli.sampling import Sampling
from cbq.cli.source import Source
from cbq.cli.tables import write_csv
from cbq.comparison import Comparison, ComparisonRow
from cbq.comparison import compare as put_side_by_side

Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--methods",
        metavar="METHODS",
        show_default="all that suit the problem",
        help=f"Which, with commas between them: {', '.join(words.METHODS)}.",
    ),
]


def compare(
    problem: options.Problem,
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
    level: options.Level = 0.95,
    out: options.Out = None,
    option: options.Options = None,
    debug: options.Debug = False,
) -> None:
    """Put methods side by side on the same samples.

    Prints a table of errors, shares of intervals that hold the truth, their widths, and seconds. Errors are against the
    truth where the problem knows it. Where it does not, thetas are left out in turn, and a method is judged by what it
    says there without their points. With --out, the folder gets comparison.csv and comparison.png.

    \b
    Examples:
      cbq compare butterfly --T 20 --N 50
      cbq compare sir --methods cbq,mobq,lsmc --design sobol --out out/
      cbq compare simulator.py:problem --checkpoint run.sqlite
    """
    options.check(level, out)
    chosen = words.methods(methods)
    source = Source.parse(problem, words.options(option))
    target = source.load()
    samples = Sampling(T, N, seed, design, theta, workers, checkpoint, batch, on_error).collect(target, source)
    with source.blamed():
        comparison = put_side_by_side(samples, chosen, target if target.has_exact else None, level=level)
    typer.echo(str(comparison))
    if out is not None:
        _keep(out, comparison)


def _keep(out: Path, comparison: Comparison) -> None:
    """Write the table and the figure."""
    path = out / "comparison.csv"
    rows = [["" if isinstance(v, float) and isnan(v) else v for v in astuple(row)] for row in comparison.rows]
    write_csv(path, [field.name for field in fields(ComparisonRow)], rows)
    typer.echo(f"Written: {path}, {write_figure(out / 'comparison.png', comparison.plot)}.")
