"""What one simulation of an epidemic costs as its time step shrinks, beside a fit to all of them."""

from __future__ import annotations

from math import nan
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from cbq import problems
from cbq.reproduce.cells import Cell, Row, options
from cbq.reproduce.draw import PANEL, Line, draw_line, finish, legend_below, new_figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.grids import EARLY
from cbq.reproduce.methods import BLACK, GREY, LOOKS, METHODS, Look
from cbq.reproduce.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005)  # days
SIZE = (15, 40)
FITTED = ("CBQ.paper", "CBQ", "MOBQ", "KLSMC")
SIMULATION = "one simulation"
ALL = "simulations"


def cells(quick: bool) -> list[Cell]:
    """One for each step, and one for the fits, which do not depend on it."""
    T, N = (4, 6) if quick else SIZE
    steps = (0.25, 0.2) if quick else STEPS
    found = [Cell("sir", T, N, (SIMULATION,), options({"step": h}), seconds=0.02 / h) for h in steps]
    return [*found, Cell("sir", T, N, FITTED, options({"step": steps[0]}), seconds=1.0)]


def measure(cell: Cell, seed: int) -> list[Row]:
    """The seconds of one simulation alone at a random infection rate, or those of fits to all simulations."""
    problem = problems.get(cell.problem, **dict(cell.options))
    if cell.methods == (SIMULATION,):
        rng = np.random.default_rng(seed)
        theta = problem.prior.sample(1, rng)[0]
        x = problem.family(theta).sample(1, rng)
        problem.evaluate(theta, x)  # what is loaded upon first use is no cost of a simulation
        start = perf_counter()
        problem.evaluate(theta, x)
        return [{"method": SIMULATION, "seconds": perf_counter() - start}]
    samples = problem.collect(cell.T, cell.N, rng=seed, batch=10_000, progress=False)
    METHODS["CBQ"]().fit(samples)
    found = []
    for method in cell.methods:
        start = perf_counter()
        METHODS[method]().fit(samples)
        found.append({"method": method, "seconds": perf_counter() - start})
    return found


def draw(table: Table) -> Figure:
    """Seconds over the step, with those of fits as horizontal lines."""
    page = new_figure(PANEL[0] * 1.7, PANEL[1] * 1.35)
    ax = page.subplots()
    one = table.where(method=SIMULATION)
    T, N = table.rows[0]["T"], table.rows[0]["N"]
    every = Table(tuple({**row, "seconds": row["seconds"] * T * N} for row in one))
    draw_line(ax, Line(SIMULATION, one, Look(BLACK, "o")), "step", "seconds")
    draw_line(ax, Line(f"all {T * N} {ALL}, one by one", every, Look(GREY, "s")), "step", "seconds")
    for method in FITTED:
        point = table.point("seconds", method=method)
        if point is not None:
            ax.axhline(point.median, color=LOOKS[method].colour, ls="--", lw=1.5, label=f"a fit of {method}")
            ax.axhspan(point.low, point.high, color=LOOKS[method].colour, alpha=0.2, lw=0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.invert_xaxis()
    ax.set_xlabel("time step (days)")
    ax.set_ylabel("seconds on one core")
    ax.set_title(f"sir, $T = {T}$, $N = {N}$: simulations and one fit", fontsize="medium")
    finish(ax, one.distinct("step"))
    legend_below(page, [ax], 3)
    return page


def verdict(table: Table) -> str:
    """From which step on all simulations take longer than a fit of the paper's method."""
    one = table.where(method=SIMULATION)
    if not len(one):
        return EARLY
    T, N = one.rows[0]["T"], one.rows[0]["N"]
    steps = one.distinct("step")
    cost = {h: one.median("seconds", step=h) for h in steps}
    fits = ", ".join(f"{m} {table.median('seconds', method=m):.3g} s" for m in FITTED)
    share = {h: table.median("seconds", method="CBQ.paper") / (T * N * cost[h]) for h in steps}
    ends = ", ".join(f"step {h:g}: {cost.get(h, nan):.3g} s" for h in (max(steps), min(steps)))
    return (
        f"one simulation takes {ends}; one fit with T = {T}, N = {N}: {fits}; a fit of CBQ.paper takes "
        f"{share[max(steps)]:.2%} to {share[min(steps)]:.2%} of the time of all simulations"
    )


EXPERIMENT = Experiment(
    "sir-cost",
    "sir: seconds of a simulation over its step, beside one fit",
    "the cost of CBQ itself is negligible beside that of an accurate simulator",
    cells,
    measure,
    draw,
    verdict,
)
