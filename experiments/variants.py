"""What changes if one part of CBQ changes: its two stages, its points, its kernel of theta, its kernel of x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from experiments.analysis import ResultTable, slope, slope_text
from experiments.experiment import (
    FEW_SEEDS,
    POOLED,
    Cell,
    Experiment,
    method_cell,
    pooled_cell,
    quick_thetas,
)
from experiments.figures import DASHED, STYLES, Curve, Panel, figure_of, method_curves
from experiments.methods import BASELINES, score_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# one Gaussian process on all points in place of two stages
SIDES = (10, 20, 30, 40, 50, 70)  # T = N
LARGEST_SIDE = 100  # on linear, where kernels are cheapest, so that the cube of NT dominates
EXACT, KERNEL_GIVEN, NYSTROM = "MOBQ", "MOBQ, kernel given", "MOBQ, Nystrom"
MOBQ_METHODS = ("CBQ.paper", "CBQ", EXACT, NYSTROM, KERNEL_GIVEN)

# Sobol points in place of independent ones
SOBOL_T = {"linear": 32, "sir": 16, "butterfly": 32, "health": 32}
SOBOL_N = (8, 16, 32, 64, 128)
UPPER_METHODS, LOWER_METHODS = ("CBQ.paper", *BASELINES[:3]), ("CBQ", *POOLED)
MAX_POOLED_POINTS = 2500  # with more, MOBQ takes half a minute on health
DESIGNS = {"iid": "independent", "sobol": "Sobol"}

# kernels
RECIPES, SMOOTH_KERNELS = ("CBQ.paper", "CBQ"), ("Matern 3/2", "Gaussian")
THETA_KERNELS = tuple(f"{recipe}, theta {kernel}" for recipe in RECIPES for kernel in SMOOTH_KERNELS)
X_KERNELS = tuple(f"{recipe}, x {kernel}" for recipe in RECIPES for kernel in (*SMOOTH_KERNELS, "Stein"))
THETA_SIZES = {"linear": ((10, 20, 50, 100), 50), "sir": ((8, 15, 25, 35), 40), "butterfly": ((10, 20, 40, 80), 50)}
X_SIZES = {"linear": (50, (10, 20, 50, 100)), "sir": (15, (10, 20, 40, 70)), "butterfly": (20, (10, 20, 50, 100))}


def cells_mobq(quick: bool) -> list[Cell]:
    """Sweep T = N on three problems."""
    found = []
    for name in ("linear",) if quick else ("linear", "butterfly", "health"):
        methods = (EXACT, NYSTROM, KERNEL_GIVEN) if name == "linear" else (EXACT, NYSTROM)
        for side in (3, 6) if quick else (*SIDES, LARGEST_SIDE) if name == "linear" else SIDES:
            found.append(method_cell(name, side, side, ("CBQ.paper", "CBQ"), thetas=quick_thetas(quick)))
            found.append(pooled_cell(name, side, side, methods, thetas=quick_thetas(quick)))
    return found


def draw_mobq(table: ResultTable) -> Figure:
    """Errors above, seconds below, over the number of points."""
    counted = _with_points(table)
    rows = [
        [
            Panel(
                name if y == "rmse" else "",
                method_curves(counted.where(problem=name), MOBQ_METHODS),
                "points",
                y=y,
                xlabel="points $NT$",
                ylabel=label,
            )
            for name in counted.distinct("problem")
        ]
        for y, label in (("rmse", "RMSE"), ("seconds", "seconds of the fit"))
    ]
    title = "Conditional Bayesian quadrature and one Gaussian process on all points, $T = N$"
    return figure_of(rows, title, share=False)


def verdict_mobq(table: ResultTable) -> str:
    """Errors at the largest size, and how seconds grow with the number of points."""
    counted, parts = _with_points(table), []
    for name in counted.distinct("problem"):
        rows = counted.where(problem=name)
        largest = {"points": max(rows.distinct("points"))}
        largest["seed"] = tuple(row["seed"] for row in rows.where(method=EXACT, **largest))  # MOBQ has the fewest seeds
        errors = ", ".join(f"{m} {rows.middle('rmse', method=m, **largest):.2g}" for m in ("CBQ.paper", "CBQ", EXACT))
        parts.append(f"{name} at {largest['points']} points: {errors}")
    linear = counted.where(problem="linear")
    powers = ", ".join(f"{name} {_powers(linear, name)}" for name in MOBQ_METHODS)
    return (
        f"errors on {'; '.join(parts)}; seconds on linear grow with these powers of NT, over all sizes and between the "
        f"last two: {powers}"
    )


def _with_points(table: ResultTable) -> ResultTable:
    """The same rows with the number of points as a column."""
    return ResultTable(tuple({**row, "points": row["T"] * row["N"]} for row in table))


def _powers(table: ResultTable, method: str) -> str:
    """The powers of the number of points that seconds grow with: over all sizes, and between the last two."""
    sizes = table.distinct("points")
    seconds = [table.middle("seconds", method=method, points=n) for n in sizes]
    return f"{slope_text(slope(sizes, seconds))} and {slope_text(slope(sizes[-2:], seconds[-2:]))}"


def cells_sobol(quick: bool) -> list[Cell]:
    """Sweep N over powers of two, for which Sobol points are balanced, in both designs."""
    sizes = [
        (name, 4 if quick else T, N, design)
        for name, T in SOBOL_T.items()
        if not quick or name == "linear"
        for N in ((4, 8) if quick else SOBOL_N)
        for design in DESIGNS
    ]
    return [
        method_cell(name, T, N, methods, seeds=seeds, design=design, thetas=quick_thetas(quick))
        for methods, seeds in (((*UPPER_METHODS, "CBQ"), None), (POOLED, FEW_SEEDS))
        for name, T, N, design in sizes
        if methods != POOLED or T * N <= MAX_POOLED_POINTS
    ]


def draw_sobol(table: ResultTable) -> Figure:
    """A column for each problem, our methods below; Sobol points are dashed, with open markers."""
    problems = [(name, table.where(problem=name)) for name in table.distinct("problem")]
    rows = [
        [Panel(f"{name}, $T = {rows.rows[0]['T']}$", _design_curves(rows, methods), "N") for name, rows in problems]
        for methods in (UPPER_METHODS, LOWER_METHODS)
    ]
    return figure_of(rows, "Independent and Sobol points", share=False)


def _design_curves(table: ResultTable, methods: Sequence[str]) -> list[Curve]:
    """Two curves, one for each design, for each method that has rows."""
    found = []
    for method in methods:
        style = STYLES[method]
        styles = {"iid": replace(style, dash="-"), "sobol": replace(style, dash=DASHED, open=True)}
        for design, name in DESIGNS.items():
            found.append(Curve(f"{method}, {name}", table.where(method=method, design=design), styles[design]))
    return [curve for curve in found if len(curve.rows)]


def verdict_sobol(table: ResultTable) -> str:
    """The error with independent points divided by that with Sobol points, at the largest N."""
    N, parts = max(table.distinct("N")), []
    for name in table.distinct("problem"):
        rows = table.where(problem=name, N=N)
        errors = {d: {m: rows.middle("rmse", method=m, design=d) for m in rows.distinct("method")} for d in DESIGNS}
        gains = {m: value / errors["sobol"][m] for m, value in errors["iid"].items()}
        parts.append(f"{name}: " + ", ".join(f"{m} {gain:.3g}" for m, gain in gains.items() if isfinite(gain)))
    return f"errors with independent points over those with Sobol points at N = {N}: {'; '.join(parts)}"


def cells_theta_kernels(quick: bool) -> list[Cell]:
    """Sweep T with several kernels of theta."""
    sizes = [(name, T, N) for name, (several, N) in THETA_SIZES.items() for T in several]
    if quick:
        sizes = [(name, T, 6) for name in ("linear", "butterfly") for T in (4, 6)]
    return [method_cell(name, T, N, THETA_KERNELS, thetas=quick_thetas(quick)) for name, T, N in sizes]


def cells_x_kernels(quick: bool) -> list[Cell]:
    """Sweep N with several kernels of x."""
    sizes = [(name, T, N) for name, (T, several) in X_SIZES.items() for N in several]
    if quick:
        sizes = [(name, 4, N) for name in ("linear", "butterfly") for N in (5, 8)]
    return [method_cell(name, T, N, X_KERNELS, thetas=quick_thetas(quick)) for name, T, N in sizes]


def draw_kernels(table: ResultTable, methods: Sequence[str], x: str, title: str) -> Figure:
    """Errors over x, a panel for each problem."""
    other, panels = "N" if x == "T" else "T", []
    for name in table.distinct("problem"):
        rows = table.where(problem=name)
        panels.append(Panel(f"{name}, ${other} = {rows.rows[0][other]}$", method_curves(rows, methods), x))
    return figure_of([panels], title, share=False)


def verdict_kernels(table: ResultTable, methods: Sequence[str], x: str) -> str:
    """The errors with all kernels at the largest x."""
    parts = []
    for name in table.distinct("problem"):
        rows = table.where(problem=name)
        largest = {x: max(rows.distinct(x))}
        errors = ", ".join(f"{method} {rows.middle('rmse', method=method, **largest):.2g}" for method in methods)
        parts.append(f"{name} at {x} = {largest[x]}: {errors}")
    return "; ".join(parts)


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "mobq",
        "MOBQ: errors and seconds of CBQ, MOBQ and Nystrom MOBQ on linear, butterfly and health",
        "one Gaussian process on all points costs (NT)^3, where CBQ costs T N^3 + T^3, and gains no accuracy that is "
        "worth it",
        cells_mobq,
        score_methods,
        draw_mobq,
        verdict_mobq,
    ),
    Experiment(
        "qmc",
        "Sobol points: error over N beside independent points",
        "quasi-Monte Carlo points make CBQ more accurate still",
        cells_sobol,
        score_methods,
        draw_sobol,
        verdict_sobol,
    ),
    Experiment(
        "ablation-theta",
        "Kernel of theta: Matern 3/2 and Gaussian, error over T",
        "the choice of the kernel of theta matters little",
        cells_theta_kernels,
        score_methods,
        partial(draw_kernels, methods=THETA_KERNELS, x="T", title="Kernels of theta in stage 2"),
        partial(verdict_kernels, methods=THETA_KERNELS, x="T"),
    ),
    Experiment(
        "ablation-x",
        "Kernel of x: Matern 3/2, Gaussian and Stein, error over N",
        "the smoother the kernel of x may be, the faster the error falls; Stein kernels are somewhat worse",
        cells_x_kernels,
        score_methods,
        partial(
            draw_kernels,
            methods=X_KERNELS,
            x="N",
            title="Kernels of x in stage 1 (Matern and Gaussian of gaussianised x)",
        ),
        partial(verdict_kernels, methods=X_KERNELS, x="N"),
    ),
)
