"""`cbq run`, `cbq compare` and `cbq predict`: samples of a problem, and what estimators make of them."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass, fields
from functools import partial
from math import isnan
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from cbq.cli import options
from cbq.cli.estimate import Report, estimate
from cbq.cli.source import RECORD, ProblemSource, recorded_source, write_record
from cbq.cli.tables import command_line, write_csv, write_figure
from cbq.comparison import ComparisonRow
from cbq.comparison import compare as compare_estimators
from cbq.estimators.base import create
from cbq.fit.base import load
from cbq.linalg import engine as use_engine
from cbq.samples.conditional import Family, FamilyNeeded

Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--methods",
        metavar="METHODS",
        show_default="all that suit the problem",
        help=f"Compare these estimators, separated by commas: {options.ESTIMATORS}.",
    ),
]
Saved = Annotated[
    Path, typer.Argument(metavar="FIT", show_default=False, help="Name a file that `cbq run` or fit.save wrote.")
]
Thetas = Annotated[
    list[str] | None,
    typer.Option(
        "--theta",
        metavar="THETA",
        show_default="the observed thetas",
        help="Predict at this theta. Repeat it for others, and separate coordinates by commas: 1.0,2.0.",
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--problem",
        metavar="PROBLEM",
        show_default="from run.json beside FIT",
        help="Name the problem of the fit, or path/to/file.py:attribute, for fits that need the measure of x.",
    ),
]


def run(
    context: typer.Context,
    named: options.Named,
    sampling: options.Sampling,
    method: options.Method = "auto",
    engine: options.Engine = "numpy",
    level: options.Level = 0.95,
    at: options.At = None,
    out: options.Out = None,
) -> None:
    """Estimate I(theta) from few evaluations of f.

    Evaluates f at T thetas, N times each, and estimates I(theta) = E f(X, theta) as a function of theta. Prints a
    summary of the fit and a table: theta, the mean of I, its standard deviation, the ends of its interval, and the
    truth if it is known. With --out, writes to the folder

    \b
      estimate.csv  the table, on a finer grid
      figure.png    the estimate over theta
      report.html   a self-contained report: the answer, the choices, checks, warnings
      fit.cbq       the fit, for `cbq predict` and `cbq.load`
      run.json      versions, seed, options, timings

    \b
    Examples:
      cbq run sir --T 15 --N 40 --out out/
      cbq run linear --option dim=2 --option f=inner --method cbq
      cbq run simulator.py:problem --workers 2 --checkpoint run.sqlite --out out/
      cbq run simulator.py:build --option days=30 --theta 0.5 --theta 1.0
    """
    options.check(level, out, engine)
    source = named.source
    estimator = create(method, source.registered)
    target = source.load()
    at_thetas = options.thetas(at, target.p, "--at")  # refused before the run rather than after it
    start = perf_counter()
    samples = sampling.collect(target, source)
    collected = perf_counter()
    with source.locating_errors(), use_engine(engine):
        fit = estimator.fit(samples)
        seconds = {"collect": collected - start, "fit": perf_counter() - collected}
        if out is not None:  # now, so that a later error does not lose an expensive run
            fit.save(out / "fit.cbq")
            collection = {**asdict(sampling), "T": samples.T, "evaluations": samples.n_evaluations}
            result = {"seconds": seconds, "choice": fit.choice, "fit": type(fit).__name__, "warnings": fit.warnings}
            write_record(
                out, source, target.name, sampling=collection, method=method, engine=engine, level=level, **result
            )
        times = f"collected in {seconds['collect']:.1f} s, fitted in {seconds['fit']:.1f} s"
        typer.echo(f"{target.name}: {samples.n_evaluations} evaluations, {times}.\n\n{fit.summary()}\n")
        report = Report(target, samples, fit, level, at_thetas, own_thetas=sampling.theta is not None)
        report.show()
        if out is None:
            return
        written = report.write(out)
        record = {"seed": str(sampling.seed), "engine": engine, "method": method, "seconds": times}
        written.append(report.write_report(out / "report.html", command_line(context), record))
    typer.echo(f"Written: {', '.join(written)}, {out / 'fit.cbq'}, {out / RECORD}.")


@dataclass(frozen=True)
class IidSampling(options.Sampling):
    """Samples of iid points, which standard errors of the baselines assume."""

    design: options.Design = "iid"


def compare(
    named: options.Named,
    sampling: IidSampling,
    methods: Methods = None,
    engine: options.Engine = "numpy",
    level: options.Level = 0.95,
    out: options.Out = None,
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
    source = named.source
    estimators = {name: create(name, source.registered) for name in names} or None
    target = source.load()
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


def predict(
    fit: Saved,
    theta: Thetas = None,
    level: options.Level = 0.95,
    engine: options.Engine = "numpy",
    problem: From = None,
    option: options.Options = None,
) -> None:
    """Predict I at new thetas from a saved fit.

    Prints the mean of I(theta), its standard deviation and the ends of its interval. Fits of some estimators, such as
    mobq, need the measure of x at a new theta, which the file does not contain. It comes from the problem, named by
    --problem or by run.json beside the fit. If the problem is in a file of yours, that file is run.

    \b
    Examples:
      cbq predict out/fit.cbq --theta 3.5 --theta 4.0
      cbq predict out/fit.cbq --theta 1.0,2.0 --level 0.8
      cbq predict elsewhere.cbq --theta 3.5 --problem sir
    """
    options.check(level, None, engine)
    given = ProblemSource.optional(problem, option)
    show = partial(_show_predictions, fit, theta, level, engine)
    try:
        show()
    except FamilyNeeded as error:
        source = given or recorded_source(fit)
        if source is None:
            raise ValueError(
                f"{fit} needs the measure of x at any theta, which the file does not contain, and there is no {RECORD} "
                f"beside it: pass --problem NAME or --problem path/to/file.py:attribute."
            ) from error
        target = source.load()
        with source.locating_errors():
            show(family=target.family)


def _show_predictions(
    path: Path, theta: list[str] | None, level: float, engine: str, family: Family | None = None
) -> None:
    with use_engine(engine):
        fit = load(path, family=family)
        thetas = options.thetas(theta, fit.p)
        table = estimate(fit, fit.theta if thetas is None else thetas, level)
    table.show(all_rows=True)
    lines = [table.note, *(f"Warning: {finding} {finding.remedy}" for finding in fit.findings)]
    if any(lines):
        typer.echo("\n".join(["", *filter(None, lines)]))
