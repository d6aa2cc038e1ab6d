"""Which kernel: of theta in stage 2, and of x in stage 1, with the paper's recipe and with ours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from cbq.reproduce.cells import Cell
from cbq.reproduce.draw import Panel, by_method, figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.grids import cell, judges
from cbq.reproduce.measure import measure
from cbq.reproduce.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECIPES, SMOOTH = ("CBQ.paper", "CBQ"), ("Matern 3/2", "Gaussian")
OF_THETA = tuple(f"{recipe}, theta {kernel}" for recipe in RECIPES for kernel in SMOOTH)
OF_X = tuple(f"{recipe}, x {kernel}" for recipe in RECIPES for kernel in (*SMOOTH, "Stein"))
THETA_SIZES = {"linear": ((10, 20, 50, 100), 50), "sir": ((8, 15, 25, 35), 40), "butterfly": ((10, 20, 40, 80), 50)}
X_SIZES = {"linear": (50, (10, 20, 50, 100)), "sir": (15, (10, 20, 40, 70)), "butterfly": (20, (10, 20, 50, 100))}


def cells_theta(quick: bool) -> list[Cell]:
    """Over T."""
    sizes = [(name, T, N) for name, (several, N) in THETA_SIZES.items() for T in several]
    if quick:
        sizes = [(name, T, 6) for name in ("linear", "butterfly") for T in (4, 6)]
    return [cell(name, T, N, OF_THETA, thetas=judges(quick)) for name, T, N in sizes]


def cells_x(quick: bool) -> list[Cell]:
    """Over N."""
    sizes = [(name, T, N) for name, (T, several) in X_SIZES.items() for N in several]
    if quick:
        sizes = [(name, 4, N) for name in ("linear", "butterfly") for N in (5, 8)]
    return [cell(name, T, N, OF_X, thetas=judges(quick)) for name, T, N in sizes]


def _panels(table: Table, methods: Sequence[str], x: str) -> list[Panel]:
    other = "N" if x == "T" else "T"
    found = []
    for name in table.distinct("problem"):
        mine = table.where(problem=name)
        found.append(Panel(f"{name}, ${other} = {mine.rows[0][other]}$", by_method(mine, methods), x))
    return found


def draw(table: Table, methods: Sequence[str], x: str, title: str) -> Figure:
    """A panel for each problem."""
    return figure([_panels(table, methods, x)], title, shared=False)


def verdict(table: Table, methods: Sequence[str], x: str) -> str:
    """Errors with all kernels at the largest size."""
    parts = []
    for name in table.distinct("problem"):
        mine = table.where(problem=name)
        at = {x: max(mine.distinct(x))}
        errors = ", ".join(f"{method} {mine.middle('rmse', method=method, **at):.2g}" for method in methods)
        parts.append(f"{name} at {x} = {at[x]}: {errors}")
    return "; ".join(parts)


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "ablation-theta",
        "Kernel of theta: Matern 3/2 and Gaussian, error over T",
        "the choice of the kernel of theta matters little",
        cells_theta,
        measure,
        partial(draw, methods=OF_THETA, x="T", title="Which kernel of theta in stage 2"),
        partial(verdict, methods=OF_THETA, x="T"),
    ),
    Experiment(
        "ablation-x",
        "Kernel of x: Matern 3/2, Gaussian and Stein, error over N",
        "the smoother the kernel of x may be, the faster the error falls; Stein kernels are somewhat worse",
        cells_x,
        measure,
        partial(
            draw, methods=OF_X, x="N", title="Which kernel of x in stage 1 (Matern and Gaussian of gaussianised x)"
        ),
        partial(verdict, methods=OF_X, x="N"),
    ),
)
