"""The progress of long work: a bar in a notebook or on a terminal, or a function of the user.

The bar is ours, as it must work where no package is installed; a second one by rich would show the same numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from time import monotonic
from typing import Any, TextIO

import numpy as np

Report = Callable[[int, int], Any]  # takes the numbers of finished and of all points, or thetas
Progress = bool | Report | None
EVERY = 0.1  # seconds between two drawings of a bar
WIDTH = 30  # characters of a bar in plain text


def as_progress(progress: Any) -> Progress:
    """The argument `progress`, checked."""
    if progress is None or isinstance(progress, bool | np.bool_):
        return None if progress is None else bool(progress)
    if callable(progress) and not isinstance(progress, type):  # calling a class would only make an object
        report: Report = progress
        return report
    kind = f"the class {progress.__name__}" if isinstance(progress, type) else f"a {type(progress).__name__}"
    raise TypeError(
        f"progress must be True, False, None (a bar in a notebook or on a terminal) or a function of the numbers of "
        f"finished and of all points or thetas, but it is {kind}."
    )


@contextmanager
def reporting(progress: Progress, name: str, done: int, total: int) -> Iterator[Report]:
    """A function to call with the finished and total numbers; `done` are finished at the start."""
    if callable(progress):
        yield progress
    elif progress or (progress is None and (in_notebook() or sys.stderr.isatty())):
        with _bar(name, done, total) as report:
            yield report
    else:
        yield lambda done, total: None


def in_notebook() -> bool:
    """Whether this runs in a kernel of Jupyter, which shows HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@dataclass(frozen=True)
class Bar:
    """A progress bar: HTML in a notebook, a line of text elsewhere."""

    name: str
    done: int
    total: int
    before: int  # done at the start
    seconds: float = 0.0

    @property
    def _counts(self) -> str:
        speed = (self.done - self.before) / self.seconds if self.seconds > 0 else 0.0
        left = f", {speed:.3g}/s, {(self.total - self.done) / speed:.0f} s left" if speed > 0 else ""
        return f"{self.done}/{self.total}{left}"

    def __repr__(self) -> str:
        full = WIDTH * self.done // max(self.total, 1)
        return f"{self.name} [{'#' * full}{'.' * (WIDTH - full)}] {self._counts}"

    def _repr_html_(self) -> str:
        if self.done >= self.total:
            return ""  # a finished bar disappears: a notebook that is read later shows results alone
        style = "width: 20em; vertical-align: middle"
        drawn = f'<progress value="{self.done}" max="{self.total}" style="{style}"></progress>'
        return f"<div>{escape(self.name)} {drawn} {self._counts}</div>"


@contextmanager
def _bar(name: str, done: int, total: int) -> Iterator[Report]:
    """A bar for this environment: in a notebook, or in plain text."""
    if in_notebook():
        from IPython.display import display

        handle = display(Bar(name, done, total, done), display_id=True)  # type: ignore[no-untyped-call]
        yield drawing(Bar(name, done, total, done), handle.update)
    else:
        stream: TextIO = sys.stderr
        try:
            yield drawing(Bar(name, done, total, done), lambda bar: stream.write(f"\r{bar!r:<79}") and stream.flush())
        finally:
            stream.write("\n")


def drawing(bar: Bar, draw: Callable[[Bar], Any], clock: Callable[[], float] = monotonic) -> Report:
    """A report that draws the bar at most every `EVERY` seconds, and at the end."""
    began, drawn = clock(), -EVERY

    def report(done: int, total: int) -> None:
        nonlocal drawn
        now = clock() - began
        if now - drawn >= EVERY or done >= total:
            drawn = now
            draw(replace(bar, done=done, total=total, seconds=now))

    return report
