"""The arguments and options that several commands share, and collecting samples with them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from cbq._arrays import between_0_and_1
from cbq.cli.parsing import thetas
from cbq.cli.source import ProblemSource
from cbq.collect.draws import CollectDesign
from cbq.methods.registry import registrations
from cbq.problem import Problem
from cbq.samples import Samples

DEFAULT_T = 15
ESTIMATORS = ", ".join(f"{each.name} ({each.title})" for each in registrations())

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
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        show_default=False,
        help="An option of the problem, such as dim=3; repeatable. A value that is not JSON is a string.",
    ),
]
T = Annotated[
    int | None,
    typer.Option(
        "--T",
        metavar="INTEGER",
        min=1,
        show_default=str(DEFAULT_T),
        help="The number of thetas, drawn from the prior.",
    ),
]
N = Annotated[int, typer.Option("--N", metavar="INTEGER", min=1, help="The number of evaluations of f at each theta.")]
Design = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="How thetas and points are drawn: iid, or sobol for scrambled Sobol points, which are more informative.",
    ),
]
Theta = Annotated[
    list[str] | None,
    typer.Option(
        "--theta",
        metavar="THETA",
        show_default=False,
        help="A theta to evaluate f at, instead of draws from the prior; repeatable. Separate coordinates by commas: "
        "1.0,2.0.",
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="INTEGER", min=0, help="The random seed; the same seed gives the same samples.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="INTEGER",
        min=1,
        show_default="this process",
        help="The number of worker processes that evaluate f.",
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        metavar="FILE",
        show_default=False,
        help="A file that keeps finished evaluations: after an interruption, the same command resumes from it.",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        metavar="INTEGER",
        min=1,
        show_default="100",
        help="The number of points in a batch, which one worker evaluates and the checkpoint saves together.",
    ),
]
OnError = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default="raise", help="If f fails: raise stops, skip leaves that point out."),
]
Method = Annotated[str, typer.Option(metavar="NAME", help=f"The estimator: {ESTIMATORS}.")]
Level = Annotated[float, typer.Option(metavar="NUMBER", help="The level of the intervals, between 0 and 1.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", file_okay=False, show_default=False, help="A folder for the results; created if needed."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def check(level: float, out: Path | None) -> None:
    """Refuse bad options before an expensive run rather than after it, and create the folder of the results."""
    between_0_and_1(level, "--level")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class Sampling:
    """The arguments of `Problem.collect`; None stands for its default."""

    T: int | None
    N: int
    seed: int
    design: str
    theta: list[str] | None = None
    workers: int | None = None
    checkpoint: Path | None = None
    batch: int | None = None
    on_error: str | None = None

    def record(self) -> dict[str, Any]:
        """The arguments as JSON."""
        return {**asdict(self), "checkpoint": None if self.checkpoint is None else str(self.checkpoint)}

    def collect(self, problem: Problem, source: ProblemSource) -> Samples:
        """Collect samples of the problem, and report errors in the user's file with their lines."""
        theta = thetas(self.theta, problem.p)
        T = DEFAULT_T if self.T is None and theta is None else self.T
        optional = {
            "theta": theta,
            "executor": self.workers,
            "checkpoint": self.checkpoint,
            "batch": self.batch,
            "on_error": self.on_error,
        }
        given: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
        try:
            with source.locating_errors():
                return problem.collect(T, self.N, rng=self.seed, design=cast(CollectDesign, self.design), **given)
        except KeyboardInterrupt:
            if self.checkpoint is not None:
                typer.echo(f"stopped: the same command resumes from {self.checkpoint}.", err=True)
            raise
