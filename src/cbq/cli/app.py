"""The program: its commands, and how it ends when something is wrong."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cbq import __version__
from cbq.cli.compare import compare
from cbq.cli.errors import one_line
from cbq.cli.evppi import evppi
from cbq.cli.listing import problems
from cbq.cli.predict import predict
from cbq.cli.reproduce import reproduce
from cbq.cli.run import run

INTERRUPTED = 130  # as shells report it


class OneLineErrors(TyperGroup):
    """Commands that report an error in one line, without a traceback unless --debug asks for it."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **extra: Any) -> Any:
        words = sys.argv[1:] if args is None else list(args)
        extra["standalone_mode"] = False  # errors come here
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                code = super().main(words, "cbq", *rest, **extra)
        except (typer.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except Exception as error:
            if "--debug" in words:
                raise
            code = _report(error)
        sys.exit(code if isinstance(code, int) else 0)


def _report(error: Exception) -> int:
    """Say what is wrong, and return the exit status: 2 where the command line itself cannot be read."""
    message = getattr(error, "format_message", None)  # of typer's own errors
    text = one_line(error) if message is None else " ".join(message().split())
    typer.echo(f"cbq: error: {text}", err=True)
    return int(getattr(error, "exit_code", 1))


def _warn(message: Warning | str, *where: Any, **more: Any) -> None:
    """Say what a warning says, in one line."""
    typer.echo(f"cbq: warning: {' '.join(str(message).split())}", err=True)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"cbq {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=OneLineErrors, rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False, name="cbq"
)


@app.callback(invoke_without_command=True)
def cbq(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Conditional expectations I(theta) = E f(X, theta), X ~ P_theta, as a function of theta, with honest
    uncertainty, from few evaluations of an expensive f.

    \b
    A first look, at a problem whose answer is known:
      cbq problems
      cbq run sir --T 15 --N 40 --design sobol --out out/
      cbq predict out/fit.cbq --theta 3.5

    \b
    Your own simulator, in a file that defines `problem = cbq.Problem(...)`:
      cbq run simulator.py:problem --workers 2 --checkpoint run.sqlite --out out/

    \b
    A table of draws of a decision model:
      cbq evppi psa.csv --outputs nb1,nb2 --pars "p1;p2;p1,p2" --out evppi.csv

    \b
    The experiments of the paper:
      cbq reproduce --list

    Every command has a --help of its own.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _command in (run, compare, predict, evppi, problems, reproduce):
    app.command()(_command)
