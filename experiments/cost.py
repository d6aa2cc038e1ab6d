"""What simulations of an epidemic cost beside one fit of conditional Bayesian quadrature."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

import cbq
from experiments.analysis import TOO_FEW_RESULTS, ResultTable, Row
from experiments.experiment import FEW_SEEDS, Cell, Experiment, as_options
from experiments.figures import (
    BLACK,
    GREY,
    STYLES,
    Curve,
    Style,
    draw_curve,
    format_axes,
    legend_below,
    new_figure,
)
from experiments.methods import collect_cell, method_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005)  # days
PAPER_STEP = 0.1
SIZE = (15, 40)  # T, N
TIMED = ("CBQ.paper", "CBQ", "MOBQ", "KLSMC")
ONE_SIMULATION, ALL_SIMULATIONS = "one simulation", "all simulations"


def cells(quick: bool) -> list[Cell]:
    """Two cells for each time step, one simulation and all together, and one for the fits."""
    T, N = (4, 6) if quick else SIZE
    steps = (0.25, 0.2) if quick else STEPS
    found = [
        Cell("sir", T, N, (method,), as_options({"step": h}), seconds=seconds / h, seeds=seeds)
        for method, seconds, seeds in ((ONE_SIMULATION, 0.01, None), (ALL_SIMULATIONS, 0.065, FEW_SEEDS))
        for h in steps
    ]
    return [*found, Cell("sir", T, N, TIMED, as_options({"step": steps[0]}), seconds=1.0)]


def run(cell: Cell, seed: int) -> list[Row]:
    """The seconds of one simulation at a random infection rate, of all simulations, or of fits to them."""
    if cell.methods == (ONE_SIMULATION,):
        return [{"method": ONE_SIMULATION, "seconds": _seconds_of_one(cell, seed)}]
    start = perf_counter()
    samples = collect_cell(cell, seed)
    if cell.methods == (ALL_SIMULATIONS,):
        return [{"method": ALL_SIMULATIONS, "seconds": perf_counter() - start}]
    method_for("CBQ", "sir").fit(samples)  # loads what is imported on first use
    found = []
    for method in cell.methods:
        start = perf_counter()
        method_for(method, "sir").fit(samples)
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


def draw(table: ResultTable) -> Figure:
    """Seconds over the time step, with those of fits as horizontal lines that carry their names."""
    figure = new_figure(4.8, 3.6)
    ax = figure.subplots()
    one, every = table.where(method=ONE_SIMULATION), table.where(method=ALL_SIMULATIONS)
    T, N, full = table.rows[0]["T"], table.rows[0]["N"], len(table.distinct("seed"))
    draw_curve(ax, Curve(ONE_SIMULATION, one, Style(BLACK, "o")), "step", "seconds", full)
    draw_curve(ax, Curve(f"all {T * N} simulations, as arrays", every, Style(GREY, "s")), "step", "seconds", full)
    for k, method in enumerate(TIMED):
        summary, colour = table.summary("seconds", method=method), STYLES[method].colour
        if summary is not None:
            dash = (3 * k, (6, 3))  # shifted, so that two lines at the same height remain visible
            ax.axhline(summary.middle, color=colour, ls=dash, lw=1.5, label=f"one fit of {method}")
            ax.axhspan(summary.low, summary.high, color=colour, alpha=0.2, lw=0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("time step of the simulation (days); smaller steps are more accurate")
    ax.set_ylabel("seconds on one core")
    format_axes(ax, one.distinct("step") or every.distinct("step"))
    legend_below(figure, [ax], 2)
    return figure


def verdict(table: ResultTable) -> str:
    """The seconds of fits, of one simulation and of all; and the paper's inequality at its step of 0.1 days."""
    steps = table.where(method=ALL_SIMULATIONS).distinct("step")
    if not steps:
        return TOO_FEW_RESULTS
    T, N = table.rows[0]["T"], table.rows[0]["N"]
    fits = ", ".join(f"{m} {table.middle('seconds', method=m):.3g} s" for m in TIMED)
    fit, lines = table.middle("seconds", method="CBQ.paper"), [f"one fit with T = {T}, N = {N}: {fits}"]
    for h in sorted(steps, reverse=True):
        one, every = (table.middle("seconds", method=m, step=h) for m in (ONE_SIMULATION, ALL_SIMULATIONS))
        lines.append(
            f"step {h:g}: one simulation {one:.3g} s, {one / fit:.2g} times one fit of CBQ.paper; all {T * N}, as "
            f"arrays, {every:.3g} s, {every / fit:.2g} times one fit"
        )
    one = table.middle("seconds", method=ONE_SIMULATION, step=PAPER_STEP)
    holds = "holds" if one > fit else "does not hold"
    if one == one:
        lines.append(
            f"the paper's inequality at step {PAPER_STEP:g}, one simulation (there 3 s) takes longer than the whole "
            f"fit (there 1 s), {holds} here: {one:.3g} s and {fit:.3g} s"
        )
    return "\n".join(lines)


EXPERIMENT = Experiment(
    "sir-cost",
    "sir: seconds of a simulation over its step, beside one fit",
    "one accurate simulation takes longer than a whole fit of CBQ",
    cells,
    run,
    draw,
    verdict,
    version=3,
    caption="**sir, T = 15, N = 40.** Seconds on one core: one simulation of the epidemic, and all 600 as arrays, over "
    "the time step, which grows to the right; dashed horizontal lines are one fit to the 600 values. Medians over "
    "{seeds} seeds with bands of one standard error; white markers: {few} seeds.",
)
