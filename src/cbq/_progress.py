"""The progress of long work: a bar, or a function of the user."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

Report = Callable[[int, int], Any]  # the number of points, or of thetas, that are done, and of all
Progress = bool | Report | None


def as_progress(progress: Any) -> Progress:
    """The argument `progress`, checked."""
    if progress is None or isinstance(progress, bool | np.bool_) or callable(progress):
        return bool(progress) if isinstance(progress, np.bool_) else progress
    raise TypeError(
        f"progress must be True, False, None (a bar on a terminal) or a function of two numbers, those of finished "
        f"and of all points or thetas, but it is a {type(progress).__name__}."
    )


@contextmanager
def reporting(progress: Progress, name: str, done: int, total: int) -> Iterator[Report]:
    """The function to call whenever some are finished; `done` of them are finished already."""
    if callable(progress):
        yield progress
    elif progress or (progress is None and sys.stderr.isatty() and importlib.util.find_spec("rich") is not None):
        with _bar(name, done, total, forced=bool(progress)) as report:
            yield report
    else:
        yield lambda done, total: None


@contextmanager
def _bar(name: str, done: int, total: int, *, forced: bool) -> Iterator[Report]:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
        from rich.text import Text
    except ImportError as error:
        raise ImportError("the progress bar needs rich: python -m pip install rich, or pass progress=False.") from error

    class PointsPerSecond(ProgressColumn):
        def render(self, task: Any) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:.3g}/s")

    console = Console(stderr=True, force_terminal=True if forced else None)
    numbers = (MofNCompleteColumn(), PointsPerSecond(), TimeRemainingColumn())
    with Bar(TextColumn("{task.description}"), BarColumn(), *numbers, console=console) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda done, total: bar.update(task, completed=done)
