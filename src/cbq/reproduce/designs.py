"""Sobol points in place of independent ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cbq.reproduce.cells import Cell
from cbq.reproduce.draw import Line, Panel, figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.grids import cell, judges
from cbq.reproduce.measure import measure
from cbq.reproduce.methods import DASHED, LOOKS, Look
from cbq.reproduce.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THETAS = {"linear": 32, "sir": 16, "butterfly": 32, "health": 32}
SWEPT = (8, 16, 32, 64, 128)
METHODS = ("CBQ.paper", "CBQ", "KLSMC")
WORDS = {"iid": "independent", "sobol": "Sobol"}


def cells(quick: bool) -> list[Cell]:
    """Powers of two, for which Sobol points are balanced."""
    return [
        cell(name, 4 if quick else T, N, METHODS, design=design, thetas=judges(quick))
        for name, T in THETAS.items()
        if not quick or name in ("linear", "butterfly")
        for N in ((4, 8) if quick else SWEPT)
        for design in WORDS
    ]


def draw(table: Table) -> Figure:
    """A panel for each problem; Sobol points are dashed, with open markers."""
    panels = []
    for name in table.distinct("problem"):
        mine = table.where(problem=name)
        lines = []
        for method in METHODS:
            look = LOOKS[method]
            for design, word in WORDS.items():
                sobol = Look(look.colour, look.marker, DASHED, open=True)
                rows = mine.where(method=method, design=design)
                lines.append(Line(f"{method}, {word}", rows, sobol if design == "sobol" else look))
        panels.append(Panel(f"{name}, $T = {mine.rows[0]['T']}$", lines, "N"))
    return figure([row for row in (panels[:2], panels[2:]) if row], "Independent and Sobol points")


def verdict(table: Table) -> str:
    """The error with independent points over that with Sobol points, at the largest N."""
    N, parts = max(table.distinct("N")), []
    for name in table.distinct("problem"):
        mine = table.where(problem=name, N=N)
        gains = {m: mine.median("rmse", method=m, design="iid") for m in METHODS}
        gains = {m: value / mine.median("rmse", method=m, design="sobol") for m, value in gains.items()}
        parts.append(f"{name}: " + ", ".join(f"{m} {gain:.3g}" for m, gain in gains.items()))
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
