"""An experiment: which claim of the paper it tests, what is evaluated, and how the results are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cbq.reproduce.cells import Cell, Row
from cbq.reproduce.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUICK_SEEDS = 2


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper, as data. Functions are those of modules, so that other processes find them.

    claim : of the paper, in one line.
    cells : the grid, from whether it is to be quick: tiny sizes that show that everything works.
    measure : a cell and a seed to rows of results; the same arguments give the same numbers, but for seconds.
    draw : saved results to a figure.
    verdict : saved results to a line on the claim, with numbers.
    edition : goes up when `measure` changes, so that results from before are told apart.
    labels : columns of rows that say what a number is of, besides the method, and are no numbers to average.
    twin : an experiment of the same measure and edition that has some of the same cells: they are evaluated once.
    """

    name: str
    title: str
    claim: str
    cells: Callable[[bool], Sequence[Cell]]
    measure: Callable[[Cell, int], list[Row]]
    draw: Callable[[Table], Figure]
    verdict: Callable[[Table], str]
    edition: int = 1
    labels: tuple[str, ...] = ()
    twin: str | None = None
