"""Arguments and options that several commands share, and the collection of samples with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cbq.cli.source import ProblemSource
from cbq.common.arrays import Array
from cbq.common.checks import between_0_and_1
from cbq.estimators.base import registrations
from cbq.linalg import engine as use_engine
from cbq.problems.problem import Problem
from cbq.runs.goal import DEFAULT_BUDGET, Goal
from cbq.samples import Samples

DEFAULT_T = 15
ESTIMATORS = ", ".join(f"{registration.name} ({registration.title})" for registration in registrations())

# Kinds of options: a positive integer, and an option without a default.
count = partial(typer.Option, metavar="INTEGER", min=1)
unset = partial(typer.Option, show_default=False)

ProblemName = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        show_default=False,
        help="Name a problem that `cbq problems` lists, or path/to/file.py:attribute, where the attribute is a "
        "cbq.Problem or a function that returns one.",
    ),
]
Options = Annotated[
    list[str] | None,
    unset(
        "--option",
        metavar="KEY=VALUE",
        help="Set an option of the problem, such as dim=3. Repeat it for others. A value that is not JSON is a string.",
    ),
]
T = Annotated[int | None, count("--T", show_default=str(DEFAULT_T), help="Draw this many thetas from the prior.")]
N = Annotated[int, count("--N", help="Evaluate f this many times at each theta.")]
Design = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Draw thetas and points as sobol (scrambled Sobol points, more accurate) or iid (independently).",
    ),
]
Theta = Annotated[
    list[str] | None,
    unset(
        "--theta",
        metavar="THETA",
        help="Evaluate f at this theta, instead of draws from the prior. Repeat it for others, and separate "
        "coordinates by commas: 1.0,2.0.",
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="INTEGER", min=0, help="Use this random seed: the same seed gives the same numbers.")
]
Workers = Annotated[int | None, count(show_default="this process", help="Evaluate f in this many worker processes.")]
Checkpoint = Annotated[
    Path | None,
    unset(
        metavar="FILE",
        dir_okay=False,
        help="Keep finished evaluations in this file: after an interruption, the same command resumes from it.",
    ),
]
Batch = Annotated[
    int | None,
    count(
        show_default="100",
        help="Points per batch; a batch is evaluated and saved as a unit.",
    ),
]
OnError = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default="raise", help="If f fails, stop (raise) or leave that point out (skip)."),
]
OnChange = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default="raise",
        help="If f has changed since the stored values, stop (raise), or keep them without a check (reuse).",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", show_default="no limit", help="Give up a point after this time; needs --workers."),
]
Method = Annotated[str, typer.Option(metavar="NAME", help=f"Use this estimator: {ESTIMATORS}.")]
Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Do the linear algebra with numpy, with torch, or on a GPU (cuda).",
    ),
]
Level = Annotated[float, typer.Option(metavar="NUMBER", help="Give intervals of this level, between 0 and 1.")]
At = Annotated[
    list[str] | None,
    unset(
        "--at", metavar="THETA", help="Report the estimate at this theta, instead of on a grid. Repeat it for others."
    ),
]
Rtol = Annotated[
    float | None,
    unset(metavar="NUMBER", help="Stop at intervals of this half-width, in units of the spread of I: 0.01."),
]
Tolerance = Annotated[
    str | None,
    unset(
        metavar="NUMBER",
        help="Stop at intervals of this half-width, in units of I. Several outputs have one number for all, or one for "
        "each, separated by commas.",
    ),
]
Criterion = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default="rms",
        help="Compare with the goal the root mean square of the half-width over the prior (rms), or its largest value "
        "over 95% of the prior (max).",
    ),
]
GoalLevel = Annotated[
    float | None,
    typer.Option(
        "--level", metavar="NUMBER", show_default="0.95", help="Give intervals of this level, between 0 and 1."
    ),
]
Budget = Annotated[int | None, count(show_default=str(DEFAULT_BUDGET), help="Make at most this many runs.")]
Out = Annotated[
    Path | None,
    unset(metavar="FOLDER", file_okay=False, help="Write the results to this folder, which is created if needed."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error arose, with its traceback.")]


def check(level: float, out: Path | None, engine: str = "numpy") -> None:
    """Refuse bad options before an expensive run rather than after it, and create the folder of the results."""
    between_0_and_1(level, "level")
    with use_engine(engine):
        pass
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)


def goal(
    remembered: Mapping[str, Any],
    *,
    tolerance: str | None = None,
    rtol: float | None = None,
    criterion: str | None = None,
    level: float | None = None,
    budget: int | None = None,
) -> Goal:
    """The goal: from the options that are set, and otherwise from the remembered goal.

    A new --rtol or --tolerance replaces both remembered ones.
    """
    others = {"criterion": criterion, "level": level, "budget": budget}
    given: dict[str, Any] = {name: value for name, value in others.items() if value is not None}
    if tolerance is not None or rtol is not None:
        given |= {"tolerance": None if tolerance is None else numbers(tolerance, "--tolerance"), "rtol": rtol}
    return Goal.of(**{**remembered, **given})


def numbers(text: str, name: str) -> list[float]:
    """Comma-separated numbers."""
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise ValueError(f"{name} must be a number, or several separated by commas, but it is {text!r}.") from error


def thetas(texts: Sequence[str] | None, p: int, option: str = "--theta") -> Array | None:
    """Thetas (M, p), each text being p numbers separated by commas; None if there is none."""
    rows = []
    for text in texts or ():
        row = numbers(text, option)
        if not np.all(np.isfinite(row)):
            raise ValueError(f"{option} must be finite, but it is {text!r}.")
        if len(row) != p:
            remedy = f"repeat {option} for each theta" if p == 1 else f"write {option} {','.join(['1.5'] * p)}"
            raise ValueError(
                f"{option} {text} has {len(row)} coordinate{'s' * (len(row) != 1)}, but theta has {p}: {remedy}."
            )
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
        with resumable(self.checkpoint), source.locating_errors():
            return problem.collect(
                T, self.N, rng=self.seed, theta=theta, executor=self.workers, checkpoint=self.checkpoint, **given
            )


@contextmanager
def resumable(checkpoint: Path | None) -> Iterator[None]:
    """If the run is interrupted, print how to resume it."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is not None:
            typer.echo(f"stopped: the same command resumes from {checkpoint}.", err=True)
        raise
