"""The file of a run of `cbq ask` and `cbq tell`: it keeps the problem, the seed and the goal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from cbq.checkpoint.ledger import StoredLedger, read_ledger
from cbq.cli import options
from cbq.cli.source import ProblemSource
from cbq.common.checks import one_of, run_entropy, shown_seed
from cbq.problems.problem import Problem
from cbq.runs import Session
from cbq.runs.resuming import OnChange
from cbq.runs.session import GOAL_NOTE

PROBLEM_NOTE = "problem"
WAIT = 5.0  # seconds to wait for another process that asks or tells

File = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", show_default=False, dir_okay=False, help="Name the file of the run, such as run.sqlite."
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--problem",
        metavar="PROBLEM",
        show_default="from RUN",
        help="Name the problem, or path/to/file.py:attribute, to begin a run, or if that file has moved. RUN remembers "
        "it.",
    ),
]


@dataclass(frozen=True, eq=False)
class Run:
    """An adaptive run in a file, with its problem and the source of the problem."""

    session: Session
    problem: Problem
    source: ProblemSource


@contextmanager
def opened(
    file: Path,
    problem: str | None,
    option: list[str] | None,
    *,
    begin: bool = False,
    seed: int | None = None,
    goal: dict[str, Any] | None = None,
    on_change: str | None = "raise",
) -> Iterator[Run]:
    """The run in a file, locked against other processes.

    begin: whether to make the file if it does not exist. seed, goal: the options that are set, and None for options
    from the file. on_change: as for `Problem.session`; None to read the run only.
    """
    is_new = not file.exists() or file.stat().st_size == 0  # if the first call was killed
    if is_new and (problem is None or not begin):
        raise ValueError(f"there is no run {file}: cbq ask {file} --problem path/to/file.py:attribute begins one.")
    stored = None if is_new else read_ledger(file, WAIT)
    source = _source(file, stored, problem, option)
    asked_for = options.goal(_remembered_goal(stored), **(goal or {}))
    entropy = _entropy(file, stored, seed)
    target = source.load()
    with source.locating_errors(), target._session(asked_for, entropy, None, None, file, WAIT) as session:
        if on_change is None:
            session._warn_if_changed()
        else:
            session._resume(one_of(on_change, OnChange, "on_change"))
        if problem is not None:
            session.note(PROBLEM_NOTE, source.record)
        yield Run(session, target, source)


def _source(file: Path, stored: StoredLedger | None, problem: str | None, option: list[str] | None) -> ProblemSource:
    """The given problem, or else the problem in the file."""
    if problem is not None:
        return ProblemSource.parse(problem, option)
    if option:
        raise ValueError("--option is for the problem of --problem: pass --problem as well.")
    record = None if stored is None else stored.notes.get(PROBLEM_NOTE)
    if record is None:
        raise ValueError(f"{file} does not name its problem: pass --problem path/to/file.py:attribute.")
    source = ProblemSource.of_record(record)
    if source.file is not None and not source.file.is_file():
        raise ValueError(f"{file} is a run of {source}, which is no longer there: pass --problem with its new place.")
    return source


def _remembered_goal(stored: StoredLedger | None) -> dict[str, Any]:
    return {} if stored is None else stored.notes.get(GOAL_NOTE, {"level": stored.settings["level"]})


def _entropy(file: Path, stored: StoredLedger | None, seed: int | None) -> list[int]:
    """The entropy of the run from its seed (default: 0)."""
    if stored is None:
        return run_entropy(0 if seed is None else seed)
    entropy: list[int] = stored.settings["seed"]
    if seed is not None and run_entropy(seed) != entropy:
        begun = shown_seed(entropy)
        raise ValueError(
            f"{file} began with {begun}, but --seed {seed} is passed: leave it out, or name another file for a new run."
        )
    return entropy
