"""`cbq predict`: what a saved fit says at new thetas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cbq.cli import options, record, words
from cbq.cli.estimate import estimate
from cbq.cli.source import Source
from cbq.fit.base import Fit, load
from cbq.samples.saving import FamilyNeeded

Saved = Annotated[
    Path, typer.Argument(metavar="FIT", show_default=False, help="A file that `cbq run` or fit.save wrote.")
]
Thetas = Annotated[
    list[str] | None,
    typer.Option(
        "--theta",
        metavar="THETA",
        show_default="those of the fit",
        help="Where to ask; may be repeated. Coordinates have commas between them: 1.0,2.0.",
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--problem",
        metavar="PROBLEM",
        show_default="that of run.json beside FIT",
        help="The problem of the fit, by name or as path/to/file.py:attribute, for fits that need the measure of x.",
    ),
]


def predict(
    fit: Saved,
    theta: Thetas = None,
    level: options.Level = 0.95,
    problem: From = None,
    option: options.Options = None,
    debug: options.Debug = False,
) -> None:
    """Ask a saved fit about thetas.

    Prints the mean of I(theta), its standard deviation and the ends of its interval. Some fits (of auto, mobq and
    importance-sampling) need the measure of x at a new theta, which no file holds. It comes from the problem: that of
    --problem, or else the one which run.json beside the fit names. If that is a file of yours, it is run.

    \b
    Examples:
      cbq predict out/fit.cbq --theta 3.5 --theta 4.0
      cbq predict out/fit.cbq --theta 1.0,2.0 --level 0.8
      cbq predict elsewhere.cbq --theta 3.5 --problem sir
    """
    options.check(level, None)
    given = None if problem is None else Source.parse(problem, words.options(option))
    if given is None and option:
        raise ValueError("--option is for the problem of --problem, which is not given.")
    try:
        loaded = load(fit)
    except FamilyNeeded as error:
        source = given or record.source_beside(fit)
        if source is None:
            raise ValueError(
                f"{fit} needs the measure of x at any theta, which no file holds, and there is no {record.NAME} beside "
                f"it: pass --problem NAME or --problem path/to/file.py:attribute."
            ) from error
        target = source.load()
        with source.blamed():
            show(load(fit, family=target.family), theta, level)
        return
    show(loaded, theta, level)


def show(fit: Fit, theta: list[str] | None, level: float) -> None:
    """Print the table of a fit."""
    places = words.thetas(theta, fit.p)
    table = estimate(fit, fit.theta if places is None else places, level)
    table.show(everything=True)
    if table.note:
        typer.echo(table.note)
