"""`cbq reproduce`: the experiments of the paper, which belong to the repository and are not installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import cbq
from cbq.cli import options

SEEDS, QUICK_SEEDS = 20, 2
FOLDER, QUICK_FOLDER = Path("reproduction"), Path("reproduction-quick")

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME...", show_default=False, help="Name experiments that --list shows, or pass --all."),
]
All = Annotated[bool, typer.Option("--all", help="Run all experiments.")]
List = Annotated[bool, typer.Option("--list", help="List the experiments with their expected minutes, and stop.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="Use tiny sizes, to check that everything runs; the numbers are meaningless.")
]
Seeds = Annotated[
    int | None,
    options.count(
        show_default=f"{SEEDS}, or {QUICK_SEEDS} with --quick",
        help="Draw this many samples for each point of a figure. Expensive cells use fewer, and seeds that were saved "
        "before are shown too.",
    ),
]
Workers = Annotated[int, options.count(help="Use this many processes, with one thread each.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        file_okay=False,
        show_default=f"{FOLDER}, or {QUICK_FOLDER} with --quick",
        help="Write to this folder, in which each experiment has its own.",
    ),
]
PlotOnly = Annotated[
    bool, typer.Option("--plot-only", help="Draw and summarise saved results again; nothing is evaluated.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Continue from saved results of other code; the record names both versions.")
]


def reproduce(
    names: Names = None,
    every: All = False,
    listed: List = False,
    quick: Quick = False,
    seeds: Seeds = None,
    workers: Workers = 1,
    out: Out = None,
    plot_only: PlotOnly = False,
    force: Force = False,
    debug: options.Debug = False,
) -> None:
    """Repeat the experiments of the paper.

    Runs them with the methods of the paper and with ours, and draws its figures.
    The experiments are part of the repository: run the command from its root, or from an editable install.

    Each experiment has a folder with results.csv, summary.csv (medians over seeds, and means of coverage, with the
    ends of a band of one standard error), record.json (what the results depend on), and the figure as PNG and SVG. The
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

    chosen = command.choose(names or [], every=every or (listed and not names))
    count, folder = seeds or (QUICK_SEEDS if quick else SEEDS), out or (QUICK_FOLDER if quick else FOLDER)
    if listed:
        command.show_list(chosen, quick=quick, seeds=count, workers=workers)
    elif plot_only:
        command.redraw_all(chosen, folder, skip_missing=every)
    else:
        command.run_all(chosen, folder, quick=quick, seeds=count, workers=workers, force=force)


def checkout() -> Path:
    """The root of the repository: the folder that holds the sources of this package, or else the current one."""
    for root in (Path(cbq.__file__).resolve().parents[2], Path.cwd()):
        if (root / "experiments" / "command.py").is_file() and (root / "src" / "cbq").is_dir():
            return root
    raise FileNotFoundError(
        "the experiments of the paper are not part of the installed package: get the repository of cbq, and run this "
        "command from its root."
    )
