"""Sensitivity of a Bayesian linear regression to its prior: errors over T, over N and over the dimension."""

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
    cell,
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
from cbq.reproduce.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIXED = (10, 50, 100)  # of the other size, one panel each
SWEPT = (5, 10, 20, 50, 100)
DIMENSIONS = (2, 4, 6, 8, 10)
METHODS = (*CHEAP, "CBQ.paper, lambda = 0")
QUANTITIES = {"square": "$f = x'x$", "inner": "$f = x'y^*$"}
AT_LARGE = ("LSMC", "KLSMC", "IS")  # the balance heuristic takes minutes there


def _cells(quick: bool, *, over: str) -> list[Cell]:
    fixed, swept = ((6,), (5, 10)) if quick else (FIXED, SWEPT)
    pairs = [(a, b) if over == "N" else (b, a) for a in fixed for b in swept]
    found: list[Cell] = []
    for f in ("square",) if quick else QUANTITIES:
        found += [
            *crossed("linear", pairs, METHODS, f=f, thetas=judges(quick)),
            large("linear", AT_LARGE, quick=quick, f=f),
        ]
    return found


def cells_T(quick: bool) -> list[Cell]:
    """Over T, at several N."""
    return _cells(quick, over="T")


def cells_N(quick: bool) -> list[Cell]:
    """Over N, at several T."""
    return _cells(quick, over="N")


def cells_d(quick: bool) -> list[Cell]:
    """Over the dimension."""
    size = 10 if quick else 100
    found = []
    for dim in (2, 3) if quick else DIMENSIONS:
        found.append(cell("linear", size, size, METHODS, dim=dim, thetas=judges(quick)))
        found.append(cell("linear", size, size, ("MOBQ, Nystrom", "Auto"), seeds=10, dim=dim, thetas=judges(quick)))
    return found


def _draw(table: Table, x: str) -> Figure:
    other = "N" if x == "T" else "T"
    swept, top = split(table)
    rows = []
    for f in swept.distinct("f") or table.distinct("f"):
        levels = by_method(top.where(f=f), BASELINES)
        rows.append(
            [
                Panel(
                    f"{QUANTITIES[f]},  ${other} = {value}$",
                    by_method(swept.where(f=f, **{other: value}), ORDER),
                    x,
                    levels=levels,
                )
                for value in swept.distinct(other) or table.distinct(other)
            ]
        )
    return figure(rows, f"linear: error over ${x}${of_dotted(top)}")


def draw_T(table: Table) -> Figure:
    """Over T."""
    return _draw(table, "T")


def draw_N(table: Table) -> Figure:
    """Over N."""
    return _draw(table, "N")


def draw_d(table: Table) -> Figure:
    """Over the dimension."""
    size = table.rows[0]["T"]
    panel = Panel(f"$f = x'x$,  $N = T = {size}$", by_method(table, ORDER), "dim", xlabel="dimension $d$")
    return figure([[panel]], "linear: error over the dimension")


def verdict(table: Table) -> str:
    """Who is best, where, and against the baselines with far more points."""
    swept, top = split(table)
    if not len(swept):
        return EARLY
    T, N = (max(swept.distinct(name)) for name in "TN")
    won, total, worst = beats(swept, "CBQ.paper", BASELINES, ("f", "T", "N"))
    at = {"T": T, "N": N, "f": "square"}
    mine = swept.median("rmse", method="CBQ.paper", **at)
    others = typical(swept, "CBQ.paper", [*BASELINES, "CBQ"], **at)
    return (
        f"CBQ.paper has a smaller error than every baseline in {won} of {total} settings (closest: {worst}); x'x at "
        f"T = {T}, N = {N}: CBQ.paper {mine:.2g}, in its units {others}{dotted(top, f='square')}"
    )


def verdict_slopes(table: Table, x: str) -> str:
    """The verdict, with the slopes over x at the largest of the other size."""
    other, swept = "N" if x == "T" else "T", split(table)[0]
    if not len(swept):
        return EARLY
    at = {other: max(swept.distinct(other)), "f": "square"}
    slopes = ", ".join(
        f"{name} {signed(fitted_slope(swept, x, method=name, **at))}" for name in ("CBQ.paper", "CBQ", "LSMC", "KLSMC")
    )
    return f"{verdict(table)}; slopes in {x} at {other} = {at[other]}: {slopes}"


def verdict_T(table: Table) -> str:
    """Of linear-T."""
    return verdict_slopes(table, "T")


def verdict_N(table: Table) -> str:
    """Of linear-N."""
    return verdict_slopes(table, "N")


def verdict_d(table: Table) -> str:
    """In which dimensions the paper's method is best, and how much of its lead is left."""
    won, total, worst = beats(table, "CBQ.paper", BASELINES, ("dim",))
    ends = [min(table.distinct("dim")), max(table.distinct("dim"))]
    parts = [f"d = {dim}: {typical(table, 'CBQ.paper', [*BASELINES, 'CBQ'], dim=dim)}" for dim in ends]
    return (
        f"CBQ.paper has a smaller error than every baseline in {won} of {total} dimensions (closest: {worst}); errors "
        f"in its units, {'; '.join(parts)}"
    )


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "linear-T",
        "linear: error over T at N = 10, 50, 100",
        "CBQ has a smaller error than LSMC, KLSMC and IS at every T, and than theirs at N = T = 1000",
        cells_T,
        measure,
        draw_T,
        verdict_T,
    ),
    Experiment(
        "linear-N",
        "linear: error over N at T = 10, 50, 100",
        "the error of CBQ falls faster with N than that of the baselines",
        cells_N,
        measure,
        draw_N,
        verdict_N,
        twin="linear-T",
    ),
    Experiment(
        "linear-d",
        "linear: error over the dimension at N = T = 100",
        "the lead of CBQ shrinks as the dimension grows, but does not vanish up to d = 10",
        cells_d,
        measure,
        draw_d,
        verdict_d,
    ),
)
