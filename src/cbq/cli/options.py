"""Arguments and options that several commands share, and groups of them, whose fields become parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

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
ThetaCount = Annotated[
    int | None, count("--T", show_default=str(DEFAULT_T), help="Draw this many thetas from the prior.")
]
PointCount = Annotated[int, count("--N", help="Evaluate f this many times at each theta.")]
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


def command(function: Callable[..., None]) -> Callable[..., None]:
    """The command for typer: the fields of groups, which are dataclasses, become parameters, and --debug is added."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters = []
    for parameter in signature(function).parameters.values():
        kind = groups.get(parameter.name)
        if kind is None:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY))
        else:
            types = get_type_hints(kind, include_extras=True)
            parameters += [
                Parameter(
                    field.name,
                    Parameter.KEYWORD_ONLY,
                    default=Parameter.empty if field.default is MISSING else field.default,
                    annotation=types[field.name],
                )
                for field in fields(kind)
            ]
    parameters.append(Parameter("debug", Parameter.KEYWORD_ONLY, default=False, annotation=Debug))

    def run(*, debug: bool, **values: Any) -> None:  # `OneLineErrors` finds --debug among the arguments
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        function(**values)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@dataclass(frozen=True)
class Named:
    """A problem that the user names, with options of the function that builds it."""

    problem: ProblemName
    option: Options = None

    @property
    def source(self) -> ProblemSource:
        """The source of the problem."""
        return ProblemSource.parse(self.problem, self.option)


@dataclass(frozen=True)
class Sampling:
    """The arguments of `Problem.collect`; None stands for its default."""

    T: ThetaCount = None
    N: PointCount = 40
    seed: Seed = 0
    design: Design = "sobol"
    theta: Theta = None
    workers: Workers = None
    checkpoint: Checkpoint = None
    batch: Batch = None
    on_error: OnError = None
    on_change: OnChange = None
    timeout: Timeout = None

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


@dataclass(frozen=True)
class Accuracy:
    """The accuracy that the user states, and the budget; None stands for a remembered or a default value."""

    rtol: Rtol = None
    tolerance: Tolerance = None
    criterion: Criterion = None
    level: GoalLevel = None
    budget: Budget = None

    def goal(self, remembered: Mapping[str, Any]) -> Goal:
        """The goal; a new --rtol or --tolerance replaces both remembered ones."""
        others = {"criterion": self.criterion, "level": self.level, "budget": self.budget}
        given: dict[str, Any] = {name: value for name, value in others.items() if value is not None}
        if self.tolerance is not None or self.rtol is not None:
            tolerance = None if self.tolerance is None else numbers(self.tolerance, "--tolerance")
            given |= {"tolerance": tolerance, "rtol": self.rtol}
        return Goal.of(**{**remembered, **given})


@contextmanager
def resumable(checkpoint: Path | None) -> Iterator[None]:
    """If the run is interrupted, print how to resume it."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is not None:
            typer.echo(f"stopped: the same command resumes from {checkpoint}.", err=True)
        raise
