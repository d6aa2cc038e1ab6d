"""The arguments and options that several commands share, and collecting samples with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cbq._arrays import Array
from cbq._checks import between_0_and_1
from cbq.cli.source import ProblemSource
from cbq.methods.registry import registrations
from cbq.problem import Problem
from cbq.samples import Samples

DEFAULT_T = 15
ESTIMATORS = ", ".join(f"{each.name} ({each.title})" for each in registrations())

# The kinds of options: a number of things, and one that need not be set.
count = partial(typer.Option, metavar="INTEGER", min=1)
unset = partial(typer.Option, show_default=False)

ProblemName = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        show_default=False,
        help="A name that `cbq problems` lists, or path/to/file.py:attribute, where the attribute is a cbq.Problem or "
        "a function that returns one.",
    ),
]
Options = Annotated[
    list[str] | None,
    unset(
        "--option",
        metavar="KEY=VALUE",
        help="An option of the problem, such as dim=3; repeatable. A value that is not JSON is a string.",
    ),
]
T = Annotated[int | None, count("--T", show_default=str(DEFAULT_T), help="The number of thetas, drawn from the prior.")]
N = Annotated[int, count("--N", help="The number of evaluations of f at each theta.")]
Design = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="How thetas and points are drawn: iid, or sobol for scrambled Sobol points, which are more informative.",
    ),
]
Theta = Annotated[
    list[str] | None,
    unset(
        "--theta",
        metavar="THETA",
        help="A theta to evaluate f at, instead of draws from the prior; repeatable. Separate coordinates by commas: "
        "1.0,2.0.",
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="INTEGER", min=0, help="The random seed; the same seed gives the same samples.")
]
Workers = Annotated[
    int | None, count(show_default="this process", help="The number of worker processes that evaluate f.")
]
Checkpoint = Annotated[
    Path | None,
    unset(
        metavar="FILE",
        dir_okay=False,
        help="A file that keeps finished evaluations: after an interruption, the same command resumes from it.",
    ),
]
Batch = Annotated[
    int | None,
    count(
        show_default="100",
        help="The number of points in a batch, which one worker evaluates and the checkpoint saves together.",
    ),
]
OnError = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default="raise", help="If f fails: raise stops, skip leaves that point out."),
]
OnChange = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default="raise",
        help="If f no longer gives the values of the checkpoint: raise stops, reuse keeps them and does not look.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", show_default="no limit", help="The time for each point, with --workers."),
]
Method = Annotated[str, typer.Option(metavar="NAME", help=f"The estimator: {ESTIMATORS}.")]
Level = Annotated[float, typer.Option(metavar="NUMBER", help="The level of the intervals, between 0 and 1.")]
Out = Annotated[
    Path | None, unset(metavar="FOLDER", file_okay=False, help="A folder for the results; created if needed.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def check(level: float, out: Path | None) -> None:
    """Refuse bad options before an expensive run rather than after it, and create the folder of the results."""
    between_0_and_1(level, "--level")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)


def thetas(texts: Sequence[str] | None, p: int) -> Array | None:
    """Thetas (M, p), each text being p numbers separated by commas; None if there is none."""
    rows = []
    for text in texts or ():
        try:
            row = [float(number) for number in text.split(",")]
        except ValueError as error:
            raise ValueError(f"theta must be a number, or several separated by commas, but it is {text!r}.") from error
        if not np.all(np.isfinite(row)):
            raise ValueError(f"theta must be finite, but it is {text!r}.")
        if len(row) != p:
            remedy = "repeat the option for each theta" if p == 1 else f"write it as {','.join(['1.5'] * p)}"
            raise ValueError(f"theta {text} has {len(row)} coordinates, but p = {p}: {remedy}.")
        rows.append(row)
    return np.array(rows) if rows else None


@dataclass(frozen=True)
class Sampling:
    """The arguments of `Problem.collect`; None stands for its default."""

    T: int | None
    N: int
    seed: int
    design: str
    theta: list[str] | None
    workers: int | None
    checkpoint: Path | None
    batch: int | None
    on_error: str | None
    on_change: str | None
    timeout: float | None

    def collect(self, problem: Problem, source: ProblemSource) -> Samples:
        """Collect samples of the problem, and report errors in the user's file with their lines."""
        theta = thetas(self.theta, problem.p)
        T = DEFAULT_T if self.T is None and theta is None else self.T
        names = ("design", "batch", "on_error", "on_change", "timeout")
        given: dict[str, Any] = {name: value for name in names if (value := getattr(self, name)) is not None}
        try:
            with source.locating_errors():
                return problem.collect(
                    T, self.N, rng=self.seed, theta=theta, executor=self.workers, checkpoint=self.checkpoint, **given
                )
        except KeyboardInterrupt:
            if self.checkpoint is not None:
                typer.echo(f"stopped: the same command resumes from {self.checkpoint}.", err=True)
            raise
