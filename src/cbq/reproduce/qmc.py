"""Sobol points in place of independent ones, of theta and of x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

from cbq.reproduce.cells import Cell
from cbq.reproduce.draw import Line, Panel, figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.grids import FEW_SEEDS, POOLED, cell, judges
from cbq.reproduce.looks import DASHED, LOOKS
from cbq.reproduce.measure import measure
from cbq.reproduce.methods import BASELINES
from cbq.reproduce.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THETAS = {"linear": 32, "sir": 16, "butterfly": 32, "health": 32}
SWEPT = (8, 16, 32, 64, 128)
ABOVE, BELOW = ("CBQ.paper", *BASELINES[:3]), ("CBQ", *POOLED)
AT_MOST = 2500  # points: with more, one process takes half a minute on health
WORDS = {"iid": "independent", "sobol": "Sobol"}


def cells(quick: bool) -> list[Cell]:
    """Powers of two, for which Sobol points are balanced."""
    sizes = [
        (name, 4 if quick else T, N, design)
        for name, T in THETAS.items()
        if not quick or name == "linear"
        for N in ((4, 8) if quick else SWEPT)
        for design in WORDS
    ]
    return [
        cell(name, T, N, methods, seeds=seeds, design=design, thetas=judges(quick))
        for methods, seeds in (((*ABOVE, "CBQ"), None), (POOLED, FEW_SEEDS))
        for name, T, N, design in sizes
        if methods != POOLED or T * N <= AT_MOST
    ]


def draw(table: Table) -> Figure:
    """A column for each problem, ours below; Sobol points are dashed, with open markers."""
    problems = [(name, table.where(problem=name)) for name in table.distinct("problem")]
    rows = [
        [Panel(f"{name}, $T = {mine.rows[0]['T']}$", _lines(mine, methods), "N") for name, mine in problems]
        for methods in (ABOVE, BELOW)
    ]
    return figure(rows, "Independent and Sobol points", shared=False)


def _lines(table: Table, methods: Sequence[str]) -> list[Line]:
    """Two for each method that takes the problem."""
    found = []
    for method in methods:
        look = LOOKS[method]
        looks = {"iid": replace(look, dash="-"), "sobol": replace(look, dash=DASHED, open=True)}
        for design, word in WORDS.items():
            found.append(Line(f"{method}, {word}", table.where(method=method, design=design), looks[design]))
    return [line for line in found if len(line.rows)]


def verdict(table: Table) -> str:
    """The error with independent points over that with Sobol points, at the largest N."""
    N, parts = max(table.distinct("N")), []
    for name in table.distinct("problem"):
        mine = table.where(problem=name, N=N)
        errors = {d: {m: mine.middle("rmse", method=m, design=d) for m in mine.distinct("method")} for d in WORDS}
        gains = {m: value / errors["sobol"][m] for m, value in errors["iid"].items()}
        parts.append(f"{name}: " + ", ".join(f"{m} {gain:.3g}" for m, gain in gains.items() if isfinite(gain)))
    return f"errors with independent points over those with Sobol points at N = {N}: {'; '.join(parts)}"


EXPERIMENT = Experiment(
    "qmc",
    "Sobol points: error over N beside independent points",
    "quasi-Monte Carlo points make CBQ more accurate still",
    cells,
    measure,
    draw,
    verdict,
)
