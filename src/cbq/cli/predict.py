"""`cbq predict`: predictions of a saved fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cbq.cli import options
from cbq.cli.estimate import estimate
from cbq.cli.source import RECORD, ProblemSource, recorded_source
from cbq.fit.base import Fit, load
from cbq.linalg import engine as use_engine
from cbq.samples.conditional import FamilyNeeded

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


def predict(
    fit: Saved,
    theta: Thetas = None,
    level: options.Level = 0.95,
    engine: options.Engine = "numpy",
    problem: From = None,
    option: options.Options = None,
    debug: options.Debug = False,
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
    given = None if problem is None else ProblemSource.parse(problem, option)
    if given is None and option:
        raise ValueError("--option is for the problem of --problem: pass --problem as well.")
    try:
        _show(partial(load, fit), theta, level, engine)
    except FamilyNeeded as error:
        source = given or recorded_source(fit)
        if source is None:
            raise ValueError(
                f"{fit} needs the measure of x at any theta, which the file does not contain, and there is no {RECORD} "
                f"beside it: pass --problem NAME or --problem path/to/file.py:attribute."
            ) from error
        target = source.load()
        with source.locating_errors():
            _show(partial(load, fit, family=target.family), theta, level, engine)


def _show(load_fit: Callable[[], Fit], theta: list[str] | None, level: float, engine: str) -> None:
    with use_engine(engine):
        fit = load_fit()
        thetas = options.thetas(theta, fit.p)
        table = estimate(fit, fit.theta if thetas is None else thetas, level)
    table.show(all_rows=True)
    lines = [table.note, *(f"Warning: {finding} {finding.remedy}" for finding in fit.findings)]
    if any(lines):
        typer.echo("\n".join(["", *filter(None, lines)]))
