"""The arguments and options that several commands share, and collecting samples with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cbq._arrays import Array
from cbq._checks import between_0_and_1
from cbq.adaptive.goal import DEFAULT_BUDGET, Goal
from cbq.cli.source import ProblemSource
from cbq.linalg import engine as use_engine
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
Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What does the linear algebra: numpy, cuda for a GPU, or torch; see `cbq.engine`.",
    ),
]
Level = Annotated[float, typer.Option(metavar="NUMBER", help="The level of the intervals, between 0 and 1.")]
At = Annotated[
    list[str] | None,
    unset("--at", metavar="THETA", help="A theta to report the estimate at, instead of a grid; repeatable."),
]
Rtol = Annotated[
    float | None,
    unset(metavar="NUMBER", help="The half-width of intervals that is wanted, in units of the spread of I: 0.01."),
]
Tolerance = Annotated[
    str | None,
    unset(
        metavar="NUMBER",
        help="The half-width of intervals that is wanted, in units of I. For several outputs, one number for all, or "
        "one for each, separated by commas.",
    ),
]
Criterion = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default="rms",
        help="What must be small enough: rms, the root mean square of the half-width over the prior, or max, its "
        "largest value over 95% of the prior.",
    ),
]
GoalLevel = Annotated[
    float | None,
    typer.Option("--level", metavar="NUMBER", show_default="0.95", help="The level of the intervals, between 0 and 1."),
]
Budget = Annotated[int | None, count(show_default=str(DEFAULT_BUDGET), help="The most runs to make.")]
Out = Annotated[
    Path | None, unset(metavar="FOLDER", file_okay=False, help="A folder for the results; created if needed.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def check(level: float, out: Path | None, engine: str = "numpy") -> None:
    """Refuse bad options before an expensive run rather than after it, and create the folder of the results."""
    between_0_and_1(level, "--level")
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
    """What is asked for: by the options that are set, and by what is remembered for the others.

    A new accuracy, by either of its options, replaces the one that is remembered.
    """
    others = {"criterion": criterion, "level": level, "budget": budget}
    given: dict[str, Any] = {name: value for name, value in others.items() if value is not None}
    if tolerance is not None or rtol is not None:
        given |= {"tolerance": None if tolerance is None else numbers(tolerance, "--tolerance"), "rtol": rtol}
    return Goal.of(**{**remembered, **given})


def numbers(text: str, name: str) -> list[float]:
    """Numbers that are separated by commas."""
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise ValueError(f"{name} must be a number, or several separated by commas, but it is {text!r}.") from error


def thetas(texts: Sequence[str] | None, p: int) -> Array | None:
    """Thetas (M, p), each text being p numbers separated by commas; None if there is none."""
    rows = []
    for text in texts or ():
        row = numbers(text, "theta")
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
        with resumable(self.checkpoint), source.locating_errors():
            return problem.collect(
                T, self.N, rng=self.seed, theta=theta, executor=self.workers, checkpoint=self.checkpoint, **given
            )


@contextmanager
def resumable(checkpoint: Path | None) -> Iterator[None]:
    """If the run is interrupted, say how to go on with it."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is not None:
            typer.echo(f"stopped: the same command resumes from {checkpoint}.", err=True)
        raise
