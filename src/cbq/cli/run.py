"""`cbq run`: collect samples of a problem and estimate I."""

from __future__ import annotations

from dataclasses import asdict
from time import perf_counter

import typer

from cbq.cli import options
from cbq.cli.estimate import Report
from cbq.cli.source import RECORD, ProblemSource, write_record
from cbq.estimators.base import create
from cbq.linalg import engine as use_engine


def run(
    problem: options.ProblemName,
    T: options.T = None,
    N: options.N = 40,
    method: options.Method = "auto",
    engine: options.Engine = "numpy",
    design: options.Design = "sobol",
    theta: options.Theta = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    checkpoint: options.Checkpoint = None,
    batch: options.Batch = None,
    on_error: options.OnError = None,
    on_change: options.OnChange = None,
    timeout: options.Timeout = None,
    level: options.Level = 0.95,
    at: options.At = None,
    out: options.Out = None,
    option: options.Options = None,
    debug: options.Debug = False,
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
    source = ProblemSource.parse(problem, option)
    estimator = create(method, source.registered)
    sampling = options.Sampling(T, N, seed, design, theta, workers, checkpoint, batch, on_error, on_change, timeout)
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
        report = Report(target, samples, fit, level, at_thetas, own_thetas=theta is not None)
        report.show()
        if out is None:
            return
        written = report.write(out)
        record = {"seed": str(seed), "engine": engine, "method": method, "seconds": times}
        written.append(report.write_report(out / "report.html", record))
    typer.echo(f"Written: {', '.join(written)}, {out / 'fit.cbq'}, {out / RECORD}.")
