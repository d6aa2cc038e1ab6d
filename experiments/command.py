"""All experiments by name, and what the command `cbq reproduce` does with them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from cbq.cli.tables import show
from experiments import applied, calibration, cost, illustration, joint, kernels, linear, mobq, nystrom, rates, sobol
from experiments.experiment import Experiment
from experiments.results import FILE_NAME
from experiments.runner import Progress, redraw, reproduce

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *linear.EXPERIMENTS,
        calibration.EXPERIMENT,
        *applied.EXPERIMENTS,
        cost.EXPERIMENT,
        mobq.EXPERIMENT,
        nystrom.EXPERIMENT,
        sobol.EXPERIMENT,
        *kernels.EXPERIMENTS,
        illustration.EXPERIMENT,
        joint.EXPERIMENT,
        rates.EXPERIMENT,
    )
}


def choose(names: Sequence[str], *, every: bool) -> list[Experiment]:
    """The experiments with these names, each once, or all of them."""
    if every and names:
        raise ValueError(f"pass names or --all, not both, but {' '.join(names)} came with --all.")
    if not every and not names:
        raise ValueError("name an experiment, as in cbq reproduce linear, or pass --all; --list names them.")
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise ValueError(
            f"there is no experiment {', '.join(map(repr, unknown))}: the experiments are {', '.join(EXPERIMENTS)}."
        )
    return [EXPERIMENTS[name] for name in dict.fromkeys(names or EXPERIMENTS)]


def show_list(experiments: Sequence[Experiment], *, quick: bool, seeds: int, workers: int) -> None:
    """Print names, titles, numbers of evaluations and expected minutes."""
    rows, total = [], 0.0
    for experiment in experiments:
        cells = experiment.cells(quick)
        evaluations = sum(cell.n_seeds(seeds) for cell in cells)
        minutes = sum(cell.seconds * cell.n_seeds(seeds) for cell in cells) / (60 * workers)
        rows.append((experiment.name, experiment.title, str(evaluations), f"{minutes:.1f}"))
        total += minutes
    show(("name", "figure", "evaluations", "minutes"), rows, left=2)
    cores = "one core" if workers == 1 else f"{workers} cores"
    typer.echo(f"\n{seeds} seeds: about {total:.0f} minutes in all on {cores}.")


def run_all(
    experiments: Sequence[Experiment], folder: Path, *, quick: bool, seeds: int, workers: int, force: bool
) -> None:
    """Run experiments one after the other; raise in the end if an evaluation failed."""
    failed = 0
    for experiment in experiments:
        with _watched(experiment, folder) as progress:
            summary = reproduce(
                experiment, folder, quick=quick, seeds=seeds, workers=workers, force=force, progress=progress
            )
        failed += summary.failed
        _show_verdict(experiment, folder, summary.verdict)
    if failed:
        raise RuntimeError(f"{failed} evaluations failed: results.csv says how, and the same command tries them again.")


def redraw_all(experiments: Sequence[Experiment], folder: Path, *, skip_missing: bool) -> None:
    """Draw and summarise saved results again; `skip_missing` passes over experiments that have none."""
    for experiment in experiments:
        if skip_missing and not (folder / experiment.name / FILE_NAME).is_file():
            typer.echo(f"{experiment.name}: there are no results yet.")
        else:
            _show_verdict(experiment, folder, redraw(experiment, folder))


def _show_verdict(experiment: Experiment, folder: Path, verdict: str) -> None:
    typer.echo(f"{experiment.name}: {experiment.claim}.")
    for line in verdict.splitlines():
        typer.echo(f"  {line}.")
    typer.echo(f"  Written: {folder / experiment.name / experiment.name}.png and .svg, with caption and tables beside.")


@contextmanager
def _watched(experiment: Experiment, folder: Path) -> Iterator[Progress]:
    """A function that shows progress on a terminal; after Ctrl-C, say how to continue."""
    terminal = sys.stderr.isatty()

    def progress(done: int, total: int) -> None:
        if terminal:
            typer.echo(f"\r\033[K{experiment.name}: {done}/{total}" + "\n" * (done == total), err=True, nl=False)

    try:
        yield progress
    except KeyboardInterrupt:
        typer.echo(f"stopped: the same command continues from {folder / experiment.name}.", err=True)
        raise
