"""Two stages against one process on all points: errors and seconds as the number of points grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cbq.reproduce.cells import Cell
from cbq.reproduce.draw import Panel, by_method, figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.grids import cell, judges, pooled
from cbq.reproduce.measure import measure
from cbq.reproduce.table import Table, slope
from cbq.reproduce.verdicts import signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("linear", "butterfly", "health")
SIDES = (10, 20, 30, 40, 50, 70)  # T = N
LAST = 100  # on linear, where a kernel takes the least time: the cube of NT shows at last
EXACT, GIVEN, LOW_RANK = "MOBQ", "MOBQ, kernel given", "MOBQ, Nystrom"
METHODS = ("CBQ.paper", "CBQ", EXACT, LOW_RANK, GIVEN)


def cells(quick: bool) -> list[Cell]:
    """Squares, T = N."""
    found = []
    for name in NAMES[:1] if quick else NAMES:
        several = (EXACT, LOW_RANK, GIVEN) if name == "linear" else (EXACT, LOW_RANK)
        for side in (3, 6) if quick else (*SIDES, LAST) if name == "linear" else SIDES:
            found.append(cell(name, side, side, ("CBQ.paper", "CBQ"), thetas=judges(quick)))
            found.append(pooled(name, side, side, several, thetas=judges(quick)))
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
    return figure(rows, "Conditional Bayesian quadrature and one process on all points, $T = N$", shared=False)


def verdict(table: Table) -> str:
    """Errors in units of each other at the largest size, and how seconds grow."""
    counted, parts = _counted(table), []
    for name in counted.distinct("problem"):
        mine = counted.where(problem=name)
        at = {"points": max(mine.distinct("points"))}
        at["seed"] = tuple(row["seed"] for row in mine.where(method=EXACT, **at))  # which has the fewest
        errors = ", ".join(f"{m} {mine.middle('rmse', method=m, **at):.2g}" for m in ("CBQ.paper", "CBQ", EXACT))
        parts.append(f"{name} at {at['points']} points: {errors}")
    linear = counted.where(problem="linear")
    powers = ", ".join(f"{name} {_powers(linear, name)}" for name in METHODS)
    return (
        f"errors on {'; '.join(parts)}; seconds on linear grow with these powers of NT, over all sizes and between the "
        f"last two: {powers}"
    )


def _powers(table: Table, method: str) -> str:
    """How seconds grow with the number of points: over all sizes, and between the last two."""
    sizes = table.distinct("points")
    seconds = [table.middle("seconds", method=method, points=n) for n in sizes]
    return f"{signed(slope(sizes, seconds))} and {signed(slope(sizes[-2:], seconds[-2:]))}"


EXPERIMENT = Experiment(
    "mobq",
    "MOBQ: errors and seconds of CBQ, MOBQ and Nystrom MOBQ on linear, butterfly and health",
    "one process on all points costs (NT)^3, where CBQ costs T N^3 + T^3, and gains no accuracy that is worth it",
    cells,
    measure,
    draw,
    verdict,
)
