"""What simulations of an epidemic cost as their time step shrinks, beside a fit to all of them."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from cbq import problems
from cbq.reproduce.cells import Cell, Row, options
from cbq.reproduce.draw import PANEL, Line, draw_line, finish, legend_below, new_figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.grids import FEW_SEEDS
from cbq.reproduce.looks import BLACK, GREY, LOOKS, Look
from cbq.reproduce.methods import METHODS
from cbq.reproduce.table import Table
from cbq.reproduce.verdicts import EARLY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005)  # days
SIZE = (15, 40)
FITTED = ("CBQ.paper", "CBQ", "MOBQ", "KLSMC")
SIMULATION, TOGETHER = "one simulation", "all simulations"


def cells(quick: bool) -> list[Cell]:
    """Two for each step, one simulation and all together, and one for the fits, which do not depend on it."""
    T, N = (4, 6) if quick else SIZE
    steps = (0.25, 0.2) if quick else STEPS
    found = [
        Cell("sir", T, N, (method,), options({"step": h}), seconds=seconds / h, seeds=seeds)
        for method, seconds, seeds in ((SIMULATION, 0.01, None), (TOGETHER, 0.065, FEW_SEEDS))
        for h in steps
    ]
    return [*found, Cell("sir", T, N, FITTED, options({"step": steps[0]}), seconds=1.0)]


def measure(cell: Cell, seed: int) -> list[Row]:
    """The seconds of one simulation at a random infection rate, of all that are fitted, or of fits to these."""
    problem = problems.get(cell.problem, **dict(cell.options))
    if cell.methods == (SIMULATION,):
        rng = np.random.default_rng(seed)
        theta = problem.prior.sample(1, rng)[0]
        x = problem.family(theta).sample(1, rng)
        problem.evaluate(theta, x)  # what is loaded upon first use is no cost of a simulation
        start = perf_counter()
        problem.evaluate(theta, x)
        return [{"method": SIMULATION, "seconds": perf_counter() - start}]
    start = perf_counter()
    samples = problem.collect(cell.T, cell.N, rng=seed, batch=10_000, progress=False)
    if cell.methods == (TOGETHER,):
        return [{"method": TOGETHER, "seconds": perf_counter() - start}]
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
    one, every = table.where(method=SIMULATION), table.where(method=TOGETHER)
    T, N = table.rows[0]["T"], table.rows[0]["N"]
    draw_line(ax, Line(SIMULATION, one, Look(BLACK, "o")), "step", "seconds")
    draw_line(ax, Line(f"all {T * N}, as arrays", every, Look(GREY, "s")), "step", "seconds")
    for shift, method in enumerate(FITTED):  # dashes of two lines that lie on each other are seen side by side
        point, colour = table.point("seconds", method=method), LOOKS[method].colour
        if point is not None:
            ax.axhline(point.middle, color=colour, ls=(5 * (shift % 2), (5, 5)), lw=1.5, label=f"a fit of {method}")
            ax.axhspan(point.low, point.high, color=colour, alpha=0.2, lw=0)
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
    """Seconds of fits, of one simulation and of all, at both ends of the steps."""
    steps = table.where(method=TOGETHER).distinct("step")
    if not steps:
        return EARLY
    T, N = table.rows[0]["T"], table.rows[0]["N"]
    fits = ", ".join(f"{m} {table.middle('seconds', method=m):.3g} s" for m in FITTED)
    fit, parts = table.middle("seconds", method="CBQ.paper"), []
    for h in (max(steps), min(steps)):
        one, every = (table.middle("seconds", method=m, step=h) for m in (SIMULATION, TOGETHER))
        parts.append(f"step {h:g}: one simulation {one:.3g} s, all {T * N} as arrays {every:.3g} s ({fit / every:.2%})")
    return f"one fit with T = {T}, N = {N}: {fits}; in brackets a fit of CBQ.paper in units of all; {'; '.join(parts)}"


EXPERIMENT = Experiment(
    "sir-cost",
    "sir: seconds of a simulation over its step, beside one fit",
    "the cost of CBQ itself is negligible beside that of an accurate simulator",
    cells,
    measure,
    draw,
    verdict,
    edition=2,
)
