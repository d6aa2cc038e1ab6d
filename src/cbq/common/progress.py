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
SILENT = 60.0  # seconds before the first line of a log: a short run needs none
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


class Course:
    """Where the course of a run is shown: by default, nowhere."""

    def report(self, done: int, total: int) -> Any:
        """Show the numbers of finished and of all points, or thetas."""

    def doing(self, words: str) -> None:
        """Show what the run is doing, in a few words."""

    def line(self, text: str) -> None:
        """Add a line to a log."""


@contextmanager
def reporting(progress: Progress, name: str, done: int, total: int) -> Iterator[Report]:
    """A function to call with the finished and total numbers; `done` are finished at the start."""
    with course(progress, name, done, total) as shown:
        yield shown.report


@contextmanager
def course(progress: Progress, name: str, done: int, total: int) -> Iterator[Course]:
    """Where the course of a run is shown: a bar, a function of the user, or lines on the error stream."""
    if callable(progress):
        yield _Told(progress)
    elif progress or (progress is None and (in_notebook() or sys.stderr.isatty())):
        with _bar(name, done, total) as bar:
            yield bar
    else:
        yield Course() if progress is False else Lines()


class _Told(Course):
    """A function of the user."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def report(self, done: int, total: int) -> None:
        self._report(done, total)


class Lines(Course):
    """Lines on the error stream, which batch systems keep, once a run has lasted some seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._began = clock, clock()

    def line(self, text: str) -> None:
        if self._clock() - self._began >= SILENT:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


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
    doing: str = ""

    @property
    def _counts(self) -> str:
        speed = (self.done - self.before) / self.seconds if self.seconds > 0 else 0.0
        left = f", {speed:.3g}/s, {(self.total - self.done) / speed:.0f} s left" if speed > 0 else ""
        return f"{self.done}/{self.total}{f', {self.doing}' if self.doing else left}"

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
def _bar(name: str, done: int, total: int) -> Iterator[Drawing]:
    """A bar for this environment: in a notebook, or in plain text."""
    if in_notebook():
        from IPython.display import display

        handle = display(Bar(name, done, total, done), display_id=True)  # type: ignore[no-untyped-call]
        yield Drawing(Bar(name, done, total, done), handle.update)
    else:
        stream: TextIO = sys.stderr
        try:
            yield Drawing(Bar(name, done, total, done), lambda bar: stream.write(f"\r{bar!r:<79}") and stream.flush())
        finally:
            stream.write("\n")


class Drawing(Course):
    """A bar that is drawn at most every `EVERY` seconds, at the end, and when the run does something else."""

    def __init__(self, bar: Bar, draw: Callable[[Bar], Any], clock: Callable[[], float] = monotonic) -> None:
        self._bar, self._draw, self._clock, self._began, self._drawn = bar, draw, clock, clock(), -EVERY

    def report(self, done: int, total: int) -> None:
        self._show(replace(self._bar, done=done, total=total, doing=""), at_once=done >= total)

    def doing(self, words: str) -> None:
        self._show(replace(self._bar, doing=words), at_once=True)

    def _show(self, bar: Bar, *, at_once: bool) -> None:
        now = self._clock() - self._began
        self._bar = replace(bar, seconds=now)
        if at_once or now - self._drawn >= EVERY:
            self._drawn = now
            self._draw(self._bar)
