"""Two stages against one process on all points: errors and seconds as the number of points grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cbq.reproduce.cells import Cell
from cbq.reproduce.draw import Panel, by_method, figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.grids import cell, fitted_slope, judges, signed
from cbq.reproduce.measure import measure
from cbq.reproduce.table import Table, slope

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("linear", "butterfly", "health")
SIDES = (10, 20, 30, 40, 50, 70)  # T = N
FEW_SEEDS = {50: 10, 70: 4}  # where an exact process takes many seconds
EXACT, GIVEN, LOW_RANK = "MOBQ", "MOBQ, kernel given", "MOBQ, Nystrom"
METHODS = ("CBQ.paper", "CBQ", EXACT, LOW_RANK, GIVEN)
FROM = 1600  # points: with fewer, the search for a kernel takes longer than the factorisation


def cells(quick: bool) -> list[Cell]:
    """Squares, T = N."""
    found = []
    for name in NAMES[:1] if quick else NAMES:
        for side in (3, 6) if quick else SIDES:
            found.append(cell(name, side, side, ("CBQ.paper", "CBQ"), thetas=judges(quick)))
            pooled = (EXACT, LOW_RANK, GIVEN) if name == "linear" else (EXACT, LOW_RANK)
            found.append(cell(name, side, side, pooled, seeds=FEW_SEEDS.get(side), thetas=judges(quick)))
    return found


def _counted(table: Table) -> Table:
    return Table(tuple({**row, "points": row["T"] * row["N"]} for row in table))


def draw(table: Table) -> Figure:
    """Errors above, seconds below."""
    counted = _counted(table)
    rows = []
    for y, label in (("rmse", "RMSE"), ("seconds", "seconds of the fit")):
        rows.append(
            [
                Panel(
                    name if y == "rmse" else "",
                    by_method(counted.where(problem=name), METHODS),
                    "points",
                    y=y,
                    xlabel="points $NT$",
                    ylabel=label,
                )
                for name in counted.distinct("problem")
            ]
        )
    return figure(rows, "Conditional Bayesian quadrature and one process on all points, $T = N$")


def verdict(table: Table) -> str:
    """Errors in units of each other at the largest size, and how seconds grow."""
    counted, parts = _counted(table), []
    n = max(counted.distinct("points"))
    for name in counted.distinct("problem"):
        at = {"problem": name, "points": n}
        paper, ours, exact = (counted.median("rmse", method=m, **at) for m in ("CBQ.paper", "CBQ", EXACT))
        parts.append(f"{name}: CBQ.paper {paper:.2g}, CBQ {ours:.2g}, MOBQ {exact:.2g}")
    linear = counted.where(problem="linear")
    sizes = [value for value in linear.distinct("points") if value >= FROM] or linear.distinct("points")
    late = {m: slope(sizes, [linear.median("seconds", method=m, points=v) for v in sizes]) for m in METHODS}
    whole = signed(fitted_slope(linear, "points", "seconds", method=EXACT))
    return (
        f"errors at {n} points: {'; '.join(parts)}; seconds on linear grow from {sizes[0]} points on with the power "
        f"{signed(late[EXACT])} of NT for MOBQ ({signed(late[GIVEN])} where its kernel is given, {whole} over all "
        f"sizes), {signed(late[LOW_RANK])} with {LOW_RANK}, {signed(late['CBQ.paper'])} for CBQ.paper"
    )


EXPERIMENT = Experiment(
    "mobq",
    "MOBQ: errors and seconds of CBQ, MOBQ and Nystrom MOBQ on linear, butterfly and health",
    "one process on all points costs (NT)^3, where CBQ costs T N^3 + T^3, and gains no accuracy that is worth it",
    cells,
    measure,
    draw,
    verdict,
)
