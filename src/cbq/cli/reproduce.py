"""`cbq reproduce`: the experiments of the paper."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cbq.cli import options
from cbq.cli.tables import show
from cbq.reproduce import EXPERIMENTS, Experiment, chosen, redraw
from cbq.reproduce import reproduce as run
from cbq.reproduce.experiment import QUICK_SEEDS
from cbq.reproduce.run import Report
from cbq.reproduce.store import NAME as RESULTS

SEEDS = 20
FOLDER, QUICK_FOLDER = Path("reproduction"), Path("reproduction-quick")

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME...", show_default=False, help="Experiments that --list names; or pass --all."),
]
All = Annotated[bool, typer.Option("--all", help="Run all experiments.")]
List = Annotated[bool, typer.Option("--list", help="Name the experiments and how long each takes, and stop.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="Tiny sizes, to see that everything works: the numbers mean nothing.")
]
Seeds = Annotated[
    int | None,
    typer.Option(
        metavar="INTEGER",
        min=1,
        show_default=f"{SEEDS}, or {QUICK_SEEDS} with --quick",
        help="How many samples each point of a figure is the median of; cells that take long have fewer, and seeds "
        "that were saved before are shown too.",
    ),
]
Workers = Annotated[
    int, typer.Option(metavar="INTEGER", min=1, help="In how many processes cells are evaluated, with one thread each.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        file_okay=False,
        show_default=f"{FOLDER}, or {QUICK_FOLDER} with --quick",
        help="A folder to write to, in which each experiment gets its own.",
    ),
]
PlotOnly = Annotated[
    bool, typer.Option("--plot-only", help="Draw and summarise saved results again; nothing is evaluated.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Go on from saved results that other code has made; the record names both.")
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
    """Repeat the experiments of the paper, with its methods and ours, and draw its figures.

    Each experiment has a folder with results.csv, summary.csv (medians over seeds, and means of coverage, with the
    ends of a band of one standard error), record.json (what the results depend on), and the figure as PNG and SVG. What
    became of the paper's claim is printed. Finished cells are kept in results.sqlite at once: after an interruption,
    the same command goes on from there, and with more --seeds it adds to them.

    \b
    Examples:
      cbq reproduce --list
      cbq reproduce linear-N sir-N --workers 2
      cbq reproduce --all --quick
      cbq reproduce linear-N --plot-only
    """
    experiments = _chosen(names or [], every or (listed and not names))
    count = seeds or (QUICK_SEEDS if quick else SEEDS)
    if listed:
        _list(experiments, quick, count, workers)
        return
    folder = out or (QUICK_FOLDER if quick else FOLDER)
    failed = 0
    for experiment in experiments:
        if plot_only and every and not (folder / experiment.name / RESULTS).is_file():
            typer.echo(f"{experiment.name}: there are no results yet.")
            continue
        if plot_only:
            verdict = redraw(experiment, folder)
        else:
            with watched(experiment, folder) as report:
                outcome = run(experiment, folder, quick=quick, seeds=count, workers=workers, force=force, report=report)
            verdict, failed = outcome.verdict, failed + outcome.failed
        typer.echo(f"{experiment.name}: {experiment.claim}.\n  {verdict}.")
        typer.echo(f"  Written: {folder / experiment.name / experiment.name}.png and .svg, with tables beside them.")
    if failed:
        raise RuntimeError(f"{failed} evaluations failed: results.csv says how, and the same command tries them again.")


def _chosen(names: list[str], every: bool) -> list[Experiment]:
    if every and names:
        raise ValueError(f"pass names or --all, not both, but {' '.join(names)} came with --all.")
    if not every and not names:
        raise ValueError("name an experiment, as in cbq reproduce linear-N, or pass --all; --list names them.")
    return list(EXPERIMENTS.values()) if every else chosen(names)


def _list(experiments: list[Experiment], quick: bool, seeds: int, workers: int) -> None:
    """Print names, numbers of evaluations and expected minutes."""
    rows, total, seen = [], 0.0, dict[str, set[str]]()
    for each in experiments:
        cells = [cell for cell in each.cells(quick) if cell.key not in seen.get(each.twin or "", ())]
        seen[each.name] = {cell.key for cell in cells}
        minutes = sum(cell.seconds * cell.count(seeds) for cell in cells) / (60 * workers)
        rows.append((each.name, each.title, str(sum(cell.count(seeds) for cell in cells)), f"{minutes:.1f}"))
        total += minutes
    show(("name", "figure", "evaluations", "minutes"), rows, left=2)
    cores = "one core" if workers == 1 else f"{workers} cores"
    typer.echo(f"\n{seeds} seeds: about {total:.0f} minutes in all on {cores}.")


@contextmanager
def watched(experiment: Experiment, folder: Path) -> Iterator[Report]:
    """A function that says how far an experiment is, where somebody watches; and how to go on after Ctrl-C."""
    terminal = sys.stderr.isatty()

    def report(done: int, total: int) -> None:
        if terminal:
            typer.echo(f"\r\033[K{experiment.name}: {done}/{total}" + "\n" * (done == total), err=True, nl=False)

    try:
        yield report
    except KeyboardInterrupt:
        typer.echo(f"stopped: the same command goes on from {folder / experiment.name}.", err=True)
        raise
