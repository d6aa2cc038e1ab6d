"""What changes with the kernel of theta in stage 2, and with the kernel of x in stage 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from experiments.analysis import ResultTable, is_similar, medians_text, ruling
from experiments.experiment import BANDS, GREY_LINE, Cell, Experiment, method_cell, quick_thetas
from experiments.figures import (
    BASELINES,
    BLACK,
    DASHED,
    STYLES,
    Curve,
    Panel,
    Style,
    best_baseline,
    figure_of,
)
from experiments.methods import score_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECIPES = {"CBQ.paper": "-", "CBQ": DASHED}
KERNELS = {"theta": ("Matern 3/2", "Gaussian"), "x": ("Matern 3/2", "Gaussian", "Stein")}
METHODS_OF = {v: tuple(f"{recipe}, {v} {k}" for recipe in RECIPES for k in several) for v, several in KERNELS.items()}
THETA_SIZES = {"linear": ((10, 20, 50, 100), 50), "sir": ((8, 15, 25, 35), 40), "butterfly": ((10, 20, 40, 80), 50)}
X_SIZES = {"linear": (50, (10, 20, 50, 100)), "sir": (15, (10, 20, 40, 70)), "butterfly": (20, (10, 20, 50, 100))}


def cells(quick: bool, variable: str) -> list[Cell]:
    """Sweep T with several kernels of theta, or N with several kernels of x, on three problems."""
    if quick:
        sizes = [("linear", 4, 6), ("linear", 4, 8), ("butterfly", 4, 6)]
    elif variable == "theta":
        sizes = [(name, T, N) for name, (several, N) in THETA_SIZES.items() for T in several]
    else:
        sizes = [(name, T, N) for name, (T, several) in X_SIZES.items() for N in several]
    if quick and variable == "theta":
        sizes = [(name, N, T) for name, T, N in sizes]
    methods = (*METHODS_OF[variable], *BASELINES)
    return [method_cell(name, T, N, methods, thetas=quick_thetas(quick)) for name, T, N in sizes]


def draw(table: ResultTable, variable: str) -> Figure:
    """Errors over T or N, a panel for each problem: a colour for each kernel, and a dash for each recipe."""
    (x, other), panels = ("T", "N") if variable == "theta" else ("N", "T"), []
    for name in table.distinct("problem"):
        rows = table.where(problem=name)
        curves = [*best_baseline(rows, x)]
        for method in METHODS_OF[variable]:
            recipe, kernel = method.split(f", {variable} ")
            label = kernel if recipe == "CBQ.paper" else ""
            curves.append(Curve(label, rows.where(method=method), replace(STYLES[method], dash=RECIPES[recipe])))
        curves += [Curve(name, ResultTable(()), Style(BLACK, "", dash)) for name, dash in RECIPES.items()]
        panels.append(Panel(f"{name}, ${other} = {rows.rows[0][other]}$", curves, x))
    return figure_of([panels], share=False)


def verdict(table: ResultTable, variable: str) -> str:
    """The errors with all kernels at each size."""
    x, lines = "T" if variable == "theta" else "N", [_ruling(table, variable)]
    for name in table.distinct("problem"):
        rows = table.where(problem=name)
        for value in rows.distinct(x):
            errors = medians_text(rows, (*METHODS_OF[variable], *BASELINES), **{x: value})
            lines.append(f"{name}, {x} = {value}: {errors}")
    return "\n".join(lines)


def _ruling(table: ResultTable, variable: str) -> str:
    """The verdict on the paper's claim about linear, at N = 50 or, for kernels of theta, T = 50."""
    rows = table.where(problem="linear", **{"T" if variable == "theta" else "N": 50})
    errors = {k: rows.middle("rmse", method=f"CBQ.paper, {variable} {k}") for k in KERNELS[variable]}
    known = all(error > 0 for error in errors.values())
    if variable == "theta":
        outcome = is_similar(errors["Matern 3/2"], errors["Gaussian"])
        return ruling("the kernel of theta matters little on linear", outcome)
    best = min(errors, key=lambda k: errors[k]) == "Matern 3/2" if known else None
    return ruling("Matern 3/2 is the best kernel of x on linear", best)


def _caption(variable: str, size: str, more: str = "") -> str:
    return (
        f"**Kernels of {variable}.** RMSE of I over {size}; colours are kernels, solid lines the paper's recipe and "
        f"dashed lines ours. {more}{GREY_LINE} {BANDS}"
    )


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "ablation-theta",
        "Kernel of theta: Matern 3/2 and Gaussian, error over T",
        "the choice of the kernel of theta matters little",
        partial(cells, variable="theta"),
        score_methods,
        partial(draw, variable="theta"),
        partial(verdict, variable="theta"),
        version=3,
        caption=_caption("theta", "T"),
    ),
    Experiment(
        "ablation-x",
        "Kernel of x: Matern 3/2, Gaussian and Stein, error over N",
        "Matern 3/2 is the best kernel of x, and the Gaussian and the Stein kernel do well",
        partial(cells, variable="x"),
        score_methods,
        partial(draw, variable="x"),
        partial(verdict, variable="x"),
        version=4,
        caption=_caption(
            "x",
            "N",
            "Matern kernels, our Gaussian one and that on sir act on x transported to a standard normal, the paper's "
            "Gaussian one on x or, on butterfly, on log x. ",
        ),
    ),
)
