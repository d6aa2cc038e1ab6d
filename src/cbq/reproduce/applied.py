"""The three applied problems of the paper: errors over N."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from cbq.reproduce.cells import Cell
from cbq.reproduce.draw import figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.grids import CHEAP, POOLED, crossed, judges, large, of_dotted, split, two_rows
from cbq.reproduce.measure import measure
from cbq.reproduce.methods import BASELINES
from cbq.reproduce.sir_cost import EXPERIMENT as SIR_COST
from cbq.reproduce.table import Table
from cbq.reproduce.verdicts import EARLY, dotted, fitted_slope, score, signed, typical

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


def cells(name: str, quick: bool) -> list[Cell]:
    """Over N, at several T, and the baselines with far more points."""
    pairs = [(T, N) for T in FIXED[name] for N in SWEPT[name]]
    if quick:
        pairs = [(5, N) for N in (4, 8)]
    found = crossed(name, pairs, CHEAP_ON[name], thetas=judges(quick))
    return [*found, *([large(name, AT_LARGE[name], quick=quick)] if AT_LARGE[name] else [])]


def draw(table: Table) -> Figure:
    """Over N, a panel for each T."""
    swept, top = split(table)
    name = table.distinct("problem")[0]
    panels = {f"$T = {T}$": {"T": T} for T in swept.distinct("T") or table.distinct("T")}
    title = f"{name}: error over $N$, methods of the paper above, ours below{of_dotted(top)}"
    return figure(two_rows(swept, top, "N", panels), title)


def verdict(table: Table) -> str:
    """Who is best, where, and how errors fall."""
    swept, top = split(table)
    if not len(swept.where(method="CBQ.paper")):
        return EARLY
    T, N = max((row["T"], row["N"]) for row in swept.where(method="CBQ.paper"))
    methods = swept.distinct("method")
    scores = [score(swept, m, BASELINES, ("T", "N")) for m in ("CBQ.paper", "CBQ.paper, Stein") if m in methods]
    others = [*BASELINES, "CBQ.paper, Stein", "CBQ", *POOLED]
    mine = swept.middle("rmse", method="CBQ.paper", T=T, N=N)
    units = typical(swept, "CBQ.paper", others, T=T, N=N)
    coverage = swept.middle("coverage", method="CBQ", T=T, N=N)
    slopes = ", ".join(
        f"{name} {signed(fitted_slope(swept, 'N', method=name, T=T))}"
        for name in ("CBQ.paper", "CBQ.paper, Stein", "CBQ", "LSMC", "KLSMC")
        if name in methods
    )
    return (
        f"{'; '.join(scores)}; at T = {T}, N = {N} the error of CBQ.paper is {mine:.3g}, in its units {units}; "
        f"coverage of 95% intervals of CBQ() there {coverage:.2f}; slopes in N at T = {T}: {slopes}{dotted(top)}"
    )


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "sir-N",
        "sir: error over N at T = 15, 25, 35",
        "CBQ needs far fewer simulations of an epidemic than the baselines for the same error",
        partial(cells, "sir"),
        measure,
        draw,
        verdict,
    ),
    SIR_COST,
    Experiment(
        "butterfly-N",
        "butterfly: error over N at T = 10, 20, 30, log-Gaussian and Stein kernels",
        "CBQ has a smaller error than the baselines with either kernel, and the Stein kernel costs some accuracy",
        partial(cells, "butterfly"),
        measure,
        draw,
        verdict,
    ),
    Experiment(
        "health-N",
        "health: error over N at T = 10, 30, 50",
        "CBQ has a smaller error than LSMC and KLSMC for the expected benefits of treatments",
        partial(cells, "health"),
        measure,
        draw,
        verdict,
    ),
)
