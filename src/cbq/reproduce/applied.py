"""The three applied problems of the paper: errors over N."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cbq.reproduce.cells import Cell
from cbq.reproduce.draw import Panel, by_method, figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.grids import (
    CHEAP,
    EARLY,
    ORDER,
    beats,
    crossed,
    dotted,
    fitted_slope,
    judges,
    large,
    of_dotted,
    signed,
    split,
    typical,
)
from cbq.reproduce.measure import measure
from cbq.reproduce.methods import BASELINES
from cbq.reproduce.sir_cost import EXPERIMENT as SIR_COST
from cbq.reproduce.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWEPT = {"sir": (10, 20, 40, 70), "butterfly": (10, 20, 50, 100), "health": (10, 20, 50, 100)}
FIXED = {"sir": (15, 25, 35), "butterfly": (10, 20, 30), "health": (10, 30, 50)}  # T
CHEAP_ON = {
    "sir": CHEAP,
    "butterfly": ("CBQ.paper", "CBQ.paper, Stein", *CHEAP[1:]),
    "health": ("CBQ.paper", "LSMC", "KLSMC", "CBQ"),  # f depends on theta, which importance sampling refuses
}
AT_LARGE = {"sir": (), "butterfly": ("LSMC", "KLSMC", "IS"), "health": ("LSMC", "KLSMC")}


def _cells(name: str, quick: bool) -> list[Cell]:
    pairs = [(T, N) for T in FIXED[name] for N in SWEPT[name]]
    if quick:
        pairs = [(5, N) for N in (4, 8)]
    found = crossed(name, pairs, CHEAP_ON[name], thetas=judges(quick))
    return [*found, *([large(name, AT_LARGE[name], quick=quick)] if AT_LARGE[name] else [])]


def cells_sir(quick: bool) -> list[Cell]:
    """The epidemic."""
    return _cells("sir", quick)


def cells_butterfly(quick: bool) -> list[Cell]:
    """The option."""
    return _cells("butterfly", quick)


def cells_health(quick: bool) -> list[Cell]:
    """The treatments."""
    return _cells("health", quick)


def draw(table: Table) -> Figure:
    """Over N, a panel for each T."""
    swept, top = split(table)
    name = table.distinct("problem")[0]
    panels = [
        Panel(f"$T = {T}$", by_method(swept.where(T=T), ORDER), "N", levels=by_method(top, BASELINES))
        for T in swept.distinct("T") or table.distinct("T")
    ]
    return figure([panels], f"{name}: error over $N${of_dotted(top)}")


def verdict(table: Table) -> str:
    """Who is best, where, and how errors fall."""
    swept, top = split(table)
    if not len(swept):
        return EARLY
    T, N = (max(swept.distinct(name)) for name in "TN")
    won, total, worst = beats(swept, "CBQ.paper", BASELINES, ("T", "N"))
    others = [*BASELINES, "CBQ.paper, Stein", "CBQ", "MOBQ", "Auto"]
    mine = swept.median("rmse", method="CBQ.paper", T=T, N=N)
    units = typical(swept, "CBQ.paper", others, T=T, N=N)
    coverage = swept.median("coverage", method="CBQ", T=T, N=N)
    slopes = ", ".join(
        f"{name} {signed(fitted_slope(swept, 'N', method=name, T=T))}"
        for name in ("CBQ.paper", "CBQ.paper, Stein", "CBQ", "LSMC", "KLSMC")
        if len(swept.where(method=name))
    )
    return (
        f"CBQ.paper has a smaller error than every baseline in {won} of {total} settings (closest: {worst}); at "
        f"T = {T}, N = {N} its error is {mine:.3g}, in its units {units}; coverage of 95% "
        f"intervals of CBQ() there {coverage:.2f}; slopes in N at T = {T}: {slopes}{dotted(top)}"
    )


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "sir-N",
        "sir: error over N at T = 15, 25, 35",
        "CBQ needs far fewer simulations of an epidemic than the baselines for the same error",
        cells_sir,
        measure,
        draw,
        verdict,
    ),
    SIR_COST,
    Experiment(
        "butterfly-N",
        "butterfly: error over N at T = 10, 20, 30, log-Gaussian and Stein kernels",
        "CBQ has a smaller error than the baselines with either kernel, and the Stein kernel costs some accuracy",
        cells_butterfly,
        measure,
        draw,
        verdict,
    ),
    Experiment(
        "health-N",
        "health: error over N at T = 10, 30, 50",
        "CBQ has a smaller error than LSMC and KLSMC for the expected benefits of treatments",
        cells_health,
        measure,
        draw,
        verdict,
    ),
)
