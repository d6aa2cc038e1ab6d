"""The arguments and options that commands have in common, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cbq._arrays import between_0_and_1
from cbq.cli.words import METHODS

Problem = Annotated[
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
        help="An option of the problem, as dim=3; may be repeated. Values are JSON, or else strings.",
    ),
]
T = Annotated[
    int | None,
    typer.Option(
        "--T", metavar="INTEGER", min=1, show_default="15", help="The number of thetas, drawn from the prior."
    ),
]
N = Annotated[int, typer.Option("--N", metavar="INTEGER", min=1, help="The number of evaluations of f at each theta.")]
Design = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="How thetas and points are drawn: iid, or sobol for scrambled Sobol points, which say more.",
    ),
]
Theta = Annotated[
    list[str] | None,
    typer.Option(
        "--theta",
        metavar="THETA",
        show_default=False,
        help="A theta of your own to evaluate at, in place of draws; may be repeated. Coordinates have commas "
        "between them: 1.0,2.0.",
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="INTEGER", min=0, help="Of all random draws: the same seed gives the same samples.")
]
Workers = Annotated[
    int | None,
    typer.Option(metavar="INTEGER", min=1, show_default="this process", help="Evaluate f in so many worker processes."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        metavar="FILE",
        show_default=False,
        help="A file that keeps finished evaluations: after an interruption, the same command goes on from there.",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        metavar="INTEGER",
        min=1,
        show_default="100",
        help="Evaluations in a batch, which a worker makes and a checkpoint keeps at once.",
    ),
]
OnError = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", show_default="raise", help="Where f fails: raise stops, skip goes on without that point."
    ),
]
Method = Annotated[str, typer.Option(metavar="NAME", help=f"How samples become an answer: {', '.join(METHODS)}.")]
Level = Annotated[float, typer.Option(metavar="NUMBER", help="The probability with which intervals hold the answer.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", file_okay=False, show_default=False, help="A folder to write to; made where there is none."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error arose, not only what it says.")]


def check(level: float, out: Path | None) -> None:
    """Refuse what would be found out after an expensive run only."""
    between_0_and_1(level, "--level")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
