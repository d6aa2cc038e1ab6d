"""The program, its list of commands, and the commands `cbq problems` and `cbq reproduce`."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import cbq
from cbq._version import __version__
from cbq.cli import options
from cbq.cli.adaptive import ask, solve, status, tell
from cbq.cli.decisions import ceac, evpi, evppi, evsi, psa
from cbq.cli.messages import CommandInOptions, OneLineErrors
from cbq.cli.run import compare, predict, run, serve
from cbq.cli.sensitivity import sensitivity
from cbq.cli.tables import show
from cbq.problems import names
from cbq.problems.registry import builder

SEEDS, QUICK_SEEDS = 20, 2
FOLDER, QUICK_FOLDER = Path("reproduction"), Path("reproduction-quick")


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"cbq {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=OneLineErrors,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    name="cbq",
    context_settings={"max_content_width": 1000},  # help is as wide as the terminal, whose width is smaller
)


@app.callback(invoke_without_command=True)
def program(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Estimate conditional expectations I(theta) = E f(X, theta), X ~ P_theta, as a function of theta, with honest
    uncertainty, from few evaluations of an expensive f.

    \b
    A first example, a problem whose exact I is known:
      cbq problems
      cbq run sir --T 15 --N 40 --out out/
      cbq predict out/fit.cbq --theta 3.5

    \b
    Your own simulator, in a file that defines `problem = cbq.Problem(...)`:
      cbq run simulator.py:problem --workers 2 --checkpoint run.sqlite --out out/

    \b
    To an accuracy that you state, with 500 runs of f at most:
      cbq solve simulator.py:problem --rtol 0.01 --budget 500 --out out/

    \b
    A simulator in any language: ask for points, and tell the results:
      cbq ask run.sqlite --problem simulator.py:problem --out points.csv
      cbq tell run.sqlite results.csv
      cbq status run.sqlite

    \b
    A table of draws of a decision model:
      cbq evppi psa.csv --out evppi.csv
      cbq psa psa.csv --wtp 0:50000:1000 --out appendix/
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def problems() -> None:
    """List the problems that have a name.

    Set their options with --option, as in `cbq run linear --option dim=3`. Your own problem does not need a name: write
    it to a file and use `cbq run simulator.py:problem`. Packages can add problems by entry points `cbq.problems`.
    """
    rows = []
    for name in names():
        build = builder(name)
        parameters = inspect.signature(build).parameters.values()
        options = " ".join(
            str(parameter.replace(annotation=parameter.empty)).replace(" ", "") for parameter in parameters
        )
        rows.append((name, options or "-", (inspect.getdoc(build) or "-").partition("\n")[0]))
    show(("name", "options", "description"), rows, left=3)


@dataclass(frozen=True)
class Reproducing:
    """The experiments, and how to run them."""

    names: list[str] | None = options.argument(
        "Name experiments that --list shows, or pass --all.", default=None, metavar="NAME..."
    )
    every: bool = options.setting("Run all experiments.", "--all", default=False)
    listed: bool = options.setting(
        "List the experiments with their expected minutes, and stop.", "--list", default=False
    )
    quick: bool = options.setting(
        "Use tiny sizes, to check that everything runs; the numbers are meaningless.", "--quick", default=False
    )
    seeds: int | None = options.whole(
        "Draw this many samples for each point of a figure. Expensive cells use fewer, and seeds that were saved "
        "before are shown too.",
        shown=f"{SEEDS}, or {QUICK_SEEDS} with --quick",
    )
    workers: int = options.whole("Use this many processes, with one thread each.", default=1)
    out: Path | None = options.setting(
        "Write to this folder, in which each experiment has its own.",
        metavar="FOLDER",
        file_okay=False,
        shown=f"{FOLDER}, or {QUICK_FOLDER} with --quick",
    )
    plot_only: bool = options.setting(
        "Draw and summarise saved results again; nothing is evaluated.", "--plot-only", default=False
    )
    force: bool = options.setting(
        "Continue from saved results of other code; the record names both versions.", "--force", default=False
    )


def reproduce(reproducing: Reproducing) -> None:
    """Repeat the experiments of the paper.

    Runs them with the methods of the paper and with ours, and draws its figures.
    The experiments are part of the repository: run the command from its root, or from an editable install.

    Each experiment has a folder with results.csv, summary.csv (medians over seeds, and means of coverage, with the
    ends of a band of one standard error), record.json (all inputs of the results), and the figure as PNG and SVG. The
    verdict on the paper's claim is printed. Finished cells are kept in results.sqlite at once: after an interruption,
    the same command continues from there, and more --seeds are added to them.

    \b
    Examples:
      cbq reproduce --list
      cbq reproduce linear sir-N --workers 2
      cbq reproduce --all --quick
      cbq reproduce linear --plot-only
    """
    root = str(checkout())
    if root not in sys.path:
        sys.path.insert(0, root)
    from experiments import command

    asked, quick = reproducing, reproducing.quick
    chosen = command.choose(asked.names or [], every=asked.every or (asked.listed and not asked.names))
    folder = asked.out or (QUICK_FOLDER if quick else FOLDER)
    sizes: dict[str, Any] = {
        "quick": quick,
        "seeds": asked.seeds or (QUICK_SEEDS if quick else SEEDS),
        "workers": asked.workers,
    }
    if asked.listed:
        command.show_list(chosen, **sizes)
    elif asked.plot_only:
        command.redraw_all(chosen, folder, skip_missing=asked.every)
    else:
        command.run_all(chosen, folder, **sizes, force=asked.force)


def checkout() -> Path:
    """The root of the repository: the folder that holds the sources of this package, or else the current one."""
    for root in (Path(cbq.__file__).resolve().parents[2], Path.cwd()):
        if (root / "experiments" / "command.py").is_file() and (root / "src" / "cbq").is_dir():
            return root
    raise FileNotFoundError(
        "the experiments of the paper are not part of the installed package: get the repository of cbq, and run this "
        "command from its root."
    )


_OF_PROBLEMS = (run, solve, ask, tell, status, compare, predict, serve, sensitivity)
for _command in (*_OF_PROBLEMS, evppi, evsi, psa, ceac, evpi, problems, reproduce):
    app.command(cls=CommandInOptions)(options.command(_command))
