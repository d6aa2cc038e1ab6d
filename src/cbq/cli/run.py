"""`cbq run`, `cbq compare`, `cbq predict` and `cbq serve`: samples of a problem, estimates and predictions."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from time import perf_counter

import typer

from cbq.cli import options
from cbq.cli.estimate import Report, estimate
from cbq.cli.source import RECORD, write_record
from cbq.cli.tables import command_line, write_columns, write_figure
from cbq.comparison import compare as compare_estimators
from cbq.estimators import create
from cbq.integrands import FitServer
from cbq.linalg import engine as use_engine
from cbq.report import is_unknown


@dataclass(frozen=True)
class Estimating(options.Computing, options.Showing):
    """The estimator of `cbq run`."""

    method: str = options.setting(f"Use this estimator: {options.ESTIMATORS}.", default="auto", metavar="NAME")


@dataclass(frozen=True)
class IidSampling(options.Sampling):
    """Samples of iid points, which standard errors of the baselines assume."""

    design: str = options.setting(options.DESIGN, default="iid", metavar="NAME")


@dataclass(frozen=True)
class Comparing(options.Computing, options.Output):
    """The estimators of `cbq compare`."""

    methods: list[str] | None = options.setting(
        f"Compare these estimators, separated by commas: {options.ESTIMATORS}.",
        "--methods",
        metavar="METHODS",
        shown="all that suit the problem",
    )


@dataclass(frozen=True)
class Predicting(options.Computing):
    """The thetas of `cbq predict`."""

    theta: list[str] | None = options.setting(
        "Predict at this theta. Repeat it for others, and separate coordinates by commas: 1.0,2.0.",
        "--theta",
        metavar="THETA",
        shown="the observed thetas",
    )


@dataclass(frozen=True)
class Serving:
    """Where `cbq serve` listens."""

    port: int = options.setting("Listen at this port; 0 for any free one.", default=4242, metavar="INTEGER", min=0)
    host: str = options.setting(
        "Listen at this address of the machine: 0.0.0.0 for all networks. There is no password.",
        default="127.0.0.1",
        metavar="ADDRESS",
    )


def run(
    context: typer.Context,
    named: options.Named,
    sampling: options.Sampling,
    estimating: Estimating,
    running: options.Running,
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
    out, engine, level, method = estimating.out, estimating.engine, estimating.level, estimating.method
    options.check(level, out, engine)
    source = named.source
    estimator = create(method, source.registered)
    target = source.load()
    at_thetas = options.thetas(estimating.at, target.p, "--at")  # refused before the run rather than after it
    start = perf_counter()
    samples = sampling.collect(target, source, running)
    collected = perf_counter()
    with source.locating_errors(), use_engine(engine):
        fit = estimator.fit(samples)
        seconds = {"collect": collected - start, "fit": perf_counter() - collected}
        if out is not None:  # now, so that a later error does not lose an expensive run
            fit.save(out / "fit.cbq")
            collection = {**asdict(sampling), **asdict(running), "T": samples.T, "evaluations": samples.n_evaluations}
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
        record = {"seed": str(running.seed), "engine": engine, "method": method, "seconds": times}
        written.append(report.write_report(out / "report.html", command_line(context), record))
    typer.echo(f"Written: {', '.join(written)}, {out / 'fit.cbq'}, {out / RECORD}.")


def compare(named: options.Named, sampling: IidSampling, comparing: Comparing, running: options.Running) -> None:
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
    out = comparing.out
    options.check(comparing.level, out, comparing.engine)
    names = [name.strip() for text in comparing.methods or () for name in text.split(",")]
    source = named.source
    estimators = {name: create(name, source.registered) for name in names} or None
    target = source.load()
    samples = sampling.collect(target, source, running)
    truth = target if target.has_exact else None
    with source.locating_errors(), use_engine(comparing.engine):
        comparison = compare_estimators(samples, estimators, truth, level=comparing.level)
    typer.echo(str(comparison))
    if out is None:
        return
    columns = comparison.to_columns().items()
    write_columns(out / "comparison.csv", {n: ["" if is_unknown(each) else each for each in c] for n, c in columns})
    drawn = write_figure(out / "comparison.png", comparison.plot)
    typer.echo(f"Written: {out / 'comparison.csv'}, {drawn}.")


def predict(saved: options.SavedFit, predicting: Predicting) -> None:
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
    options.check(predicting.level, None, predicting.engine)
    with use_engine(predicting.engine), saved.loaded() as fit:
        thetas = options.thetas(predicting.theta, fit.p)
        table = estimate(fit, fit.theta if thetas is None else thetas, predicting.level)
        table.show(all_rows=True)
        lines = [table.note, *(f"Warning: {finding} {finding.remedy}" for finding in fit.findings)]
    if any(lines):
        typer.echo("\n".join(["", *filter(None, lines)]))


def serve(saved: options.SavedFit, serving: Serving) -> None:
    """Serve a saved fit to programs in any language.

    The UM-Bridge protocol has clients for Python, R, Julia, MATLAB, C++ and others. Each request is a theta. The
    models are forward (the mean of I, with derivatives), std, interval (its ends) and beyond (1 where theta is beyond
    the observed ones). Ctrl-C ends it.

    \b
    Examples:
      cbq serve out/fit.cbq
      cbq serve elsewhere.cbq --problem sir --port 8080
    """
    with saved.loaded() as fit:
        server = FitServer(fit, serving.host, serving.port)
        typer.echo(f"Serving {saved.fit} at {server.url} until Ctrl-C.")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            server.serve_forever()
