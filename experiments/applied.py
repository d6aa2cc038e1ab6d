"""The three applied problems of the paper: errors over N, and what simulations of an epidemic cost beside a fit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

import cbq
from experiments.analysis import (
    TOO_FEW_RESULTS,
    ResultTable,
    Row,
    ratios_text,
    slope_of_medians,
    slope_text,
    wins_text,
)
from experiments.experiment import (
    FEW_SEEDS,
    PER_THETA,
    POOLED,
    Cell,
    Experiment,
    as_options,
    large_cell,
    large_errors_text,
    paired_cells,
    quick_thetas,
    split_large,
)
from experiments.figures import (
    BLACK,
    GREY,
    PANEL_SIZE,
    STYLES,
    Curve,
    Style,
    draw_curve,
    figure_of,
    format_axes,
    large_title,
    legend_below,
    new_figure,
    paper_and_our_panels,
)
from experiments.methods import BASELINES, METHODS, collect_cell, score_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWEPT_N = {"sir": (10, 20, 40, 70), "butterfly": (10, 20, 50, 100), "health": (10, 20, 50, 100)}
FIXED_T = {"sir": (15, 25, 35), "butterfly": (10, 20, 30), "health": (10, 30, 50)}
FITTED = {
    "sir": PER_THETA,
    "butterfly": ("CBQ.paper", "CBQ.paper, Stein", *PER_THETA[1:]),
    "health": ("CBQ.paper", "LSMC", "KLSMC", "CBQ"),  # f depends on theta, which importance sampling refuses
}
LARGE_METHODS = {"sir": (), "butterfly": ("LSMC", "KLSMC", "IS"), "health": ("LSMC", "KLSMC")}

STEPS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005)  # days
COST_SIZE = (15, 40)  # T, N
TIMED = ("CBQ.paper", "CBQ", "MOBQ", "KLSMC")
ONE_SIMULATION, ALL_SIMULATIONS = "one simulation", "all simulations"


def cells(name: str, quick: bool) -> list[Cell]:
    """Sweep N at several T, and add the baselines with far more points."""
    sizes = [(5, N) for N in (4, 8)] if quick else [(T, N) for T in FIXED_T[name] for N in SWEPT_N[name]]
    found = paired_cells(name, sizes, FITTED[name], thetas=quick_thetas(quick))
    large = LARGE_METHODS[name]
    return [*found, large_cell(name, large, quick=quick)] if large else found


def draw(table: ResultTable) -> Figure:
    """Errors over N, a panel for each T."""
    swept, large = split_large(table)
    name = table.distinct("problem")[0]
    panels = {f"$T = {T}$": {"T": T} for T in swept.distinct("T") or table.distinct("T")}
    title = f"{name}: error over $N$, methods of the paper above, ours below{large_title(large)}"
    return figure_of(paper_and_our_panels(swept, large, "N", panels), title)


def verdict(table: ResultTable) -> str:
    """Wins, ratios of errors and coverage at the largest size, slopes in N, and errors of the large baselines."""
    swept, large = split_large(table)
    if not len(swept.where(method="CBQ.paper")):
        return TOO_FEW_RESULTS
    T, N = max((row["T"], row["N"]) for row in swept.where(method="CBQ.paper"))
    methods = swept.distinct("method")
    wins = [wins_text(swept, m, BASELINES, ("T", "N")) for m in ("CBQ.paper", "CBQ.paper, Stein") if m in methods]
    others = [*BASELINES, "CBQ.paper, Stein", "CBQ", *POOLED]
    error = swept.middle("rmse", method="CBQ.paper", T=T, N=N)
    ratios = ratios_text(swept, "CBQ.paper", others, T=T, N=N)
    coverage = swept.middle("coverage", method="CBQ", T=T, N=N)
    slopes = ", ".join(
        f"{name} {slope_text(slope_of_medians(swept, 'N', method=name, T=T))}"
        for name in ("CBQ.paper", "CBQ.paper, Stein", "CBQ", "LSMC", "KLSMC")
        if name in methods
    )
    return (
        f"{'; '.join(wins)}; at T = {T}, N = {N} the error of CBQ.paper is {error:.3g}, in its units {ratios}; "
        f"coverage of 95% intervals of CBQ() there {coverage:.2f}; slopes in N at T = {T}: "
        f"{slopes}{large_errors_text(large)}"
    )


def cells_of_cost(quick: bool) -> list[Cell]:
    """Two cells for each time step, one simulation and all together, and one for the fits."""
    T, N = (4, 6) if quick else COST_SIZE
    steps = (0.25, 0.2) if quick else STEPS
    found = [
        Cell("sir", T, N, (method,), as_options({"step": h}), seconds=seconds / h, seeds=seeds)
        for method, seconds, seeds in ((ONE_SIMULATION, 0.01, None), (ALL_SIMULATIONS, 0.065, FEW_SEEDS))
        for h in steps
    ]
    return [*found, Cell("sir", T, N, TIMED, as_options({"step": steps[0]}), seconds=1.0)]


def time_cell(cell: Cell, seed: int) -> list[Row]:
    """The seconds of one simulation at a random infection rate, of all simulations, or of fits to them."""
    if cell.methods == (ONE_SIMULATION,):
        return [{"method": ONE_SIMULATION, "seconds": _seconds_of_one(cell, seed)}]
    start = perf_counter()
    samples = collect_cell(cell, seed)
    if cell.methods == (ALL_SIMULATIONS,):
        return [{"method": ALL_SIMULATIONS, "seconds": perf_counter() - start}]
    METHODS["CBQ"]().fit(samples)  # loads what is imported on first use
    found = []
    for method in cell.methods:
        start = perf_counter()
        METHODS[method]().fit(samples)
        found.append({"method": method, "seconds": perf_counter() - start})
    return found


def _seconds_of_one(cell: Cell, seed: int) -> float:
    problem = cbq.problems.get(cell.problem, **dict(cell.options))
    rng = np.random.default_rng(seed)
    theta = problem.prior.sample(1, rng)[0]
    x = problem.family(theta).sample(1, rng)
    problem.evaluate(theta, x)  # loads what is imported on first use
    start = perf_counter()
    problem.evaluate(theta, x)
    return perf_counter() - start


def draw_cost(table: ResultTable) -> Figure:
    """Seconds over the time step, with those of fits as horizontal lines."""
    figure = new_figure(PANEL_SIZE[0] * 1.7, PANEL_SIZE[1] * 1.35)
    ax = figure.subplots()
    one, every = table.where(method=ONE_SIMULATION), table.where(method=ALL_SIMULATIONS)
    T, N = table.rows[0]["T"], table.rows[0]["N"]
    draw_curve(ax, Curve(ONE_SIMULATION, one, Style(BLACK, "o")), "step", "seconds")
    draw_curve(ax, Curve(f"all {T * N}, as arrays", every, Style(GREY, "s")), "step", "seconds")
    for k, method in enumerate(TIMED):
        summary, colour = table.summary("seconds", method=method), STYLES[method].colour
        if summary is not None:
            dash = (5 * (k % 2), (5, 5))  # shifted, so that two lines at the same height remain visible
            ax.axhline(summary.middle, color=colour, ls=dash, lw=1.5, label=f"a fit of {method}")
            ax.axhspan(summary.low, summary.high, color=colour, alpha=0.2, lw=0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.invert_xaxis()
    ax.set_xlabel("time step (days)")
    ax.set_ylabel("seconds on one core")
    ax.set_title(f"sir, $T = {T}$, $N = {N}$: simulations and one fit", fontsize="medium")
    format_axes(ax, one.distinct("step"))
    legend_below(figure, [ax], 3)
    return figure


def verdict_on_cost(table: ResultTable) -> str:
    """The seconds of fits, of one simulation and of all, at the largest and the smallest step."""
    steps = table.where(method=ALL_SIMULATIONS).distinct("step")
    if not steps:
        return TOO_FEW_RESULTS
    T, N = table.rows[0]["T"], table.rows[0]["N"]
    fits = ", ".join(f"{m} {table.middle('seconds', method=m):.3g} s" for m in TIMED)
    fit, parts = table.middle("seconds", method="CBQ.paper"), []
    for h in (max(steps), min(steps)):
        one, every = (table.middle("seconds", method=m, step=h) for m in (ONE_SIMULATION, ALL_SIMULATIONS))
        parts.append(f"step {h:g}: one simulation {one:.3g} s, all {T * N} as arrays {every:.3g} s ({fit / every:.2%})")
    return (
        f"one fit with T = {T}, N = {N}: {fits}; in brackets a fit of CBQ.paper in units of all simulations; "
        f"{'; '.join(parts)}"
    )


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "sir-N",
        "sir: error over N at T = 15, 25, 35",
        "CBQ needs far fewer simulations of an epidemic than the baselines for the same error",
        partial(cells, "sir"),
        score_methods,
        draw,
        verdict,
    ),
    Experiment(
        "sir-cost",
        "sir: seconds of a simulation over its step, beside one fit",
        "the cost of CBQ itself is negligible beside that of an accurate simulator",
        cells_of_cost,
        time_cell,
        draw_cost,
        verdict_on_cost,
        version=2,
    ),
    Experiment(
        "butterfly-N",
        "butterfly: error over N at T = 10, 20, 30, log-Gaussian and Stein kernels",
        "CBQ has a smaller error than the baselines with either kernel, and the Stein kernel costs some accuracy",
        partial(cells, "butterfly"),
        score_methods,
        draw,
        verdict,
    ),
    Experiment(
        "health-N",
        "health: error over N at T = 10, 30, 50",
        "CBQ has a smaller error than LSMC and KLSMC for the expected benefits of treatments",
        partial(cells, "health"),
        score_methods,
        draw,
        verdict,
    ),
)
