"""Sensitivity of a Bayesian linear regression to its prior: errors over T, over N and over the dimension."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from cbq.reproduce.cells import Cell
from cbq.reproduce.draw import Panel, by_method, figure
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.grids import CHEAP, OF_PAPER, OURS, POOLED, cell, crossed, judges, large, of_dotted, split, two_rows
from cbq.reproduce.measure import measure
from cbq.reproduce.methods import BASELINES
from cbq.reproduce.table import Table
from cbq.reproduce.verdicts import EARLY, dotted, fitted_slope, score, signed, typical

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIXED = (10, 50, 100)  # of the other size, one panel each
SWEPT = (5, 10, 20, 50, 100)
DIMENSIONS = (2, 4, 6, 8, 10)
NO_LAMBDA = "CBQ.paper, lambda = 0"
METHODS = (*CHEAP, NO_LAMBDA)
QUANTITIES = {"square": "$f = x'x$", "inner": "$f = x'y^*$"}
AT_LARGE = ("LSMC", "KLSMC", "IS")  # the balance heuristic takes minutes there


def cells(quick: bool, *, over: str) -> list[Cell]:
    """Over T at several N, or the other way round, and the baselines with far more points."""
    fixed, swept = ((6,), (5, 10)) if quick else (FIXED, SWEPT)
    pairs = [(a, b) if over == "N" else (b, a) for a in fixed for b in swept]
    found: list[Cell] = []
    for f in ("square",) if quick else QUANTITIES:
        found += [
            *crossed("linear", pairs, METHODS, f=f, thetas=judges(quick)),
            large("linear", AT_LARGE, quick=quick, f=f),
        ]
    return found


def cells_d(quick: bool) -> list[Cell]:
    """Over the dimension."""
    size = 10 if quick else 100
    found = []
    for dim in (2, 3) if quick else DIMENSIONS:
        found.append(cell("linear", size, size, METHODS, dim=dim, thetas=judges(quick)))
        found.append(cell("linear", size, size, ("MOBQ, Nystrom", "Auto"), seeds=10, dim=dim, thetas=judges(quick)))
    return found


def draw(table: Table, *, x: str) -> Figure:
    """For each f, methods of the paper and then ours; a column for each of the other size."""
    other = "N" if x == "T" else "T"
    swept, top = split(table)
    rows = []
    for f in swept.distinct("f") or table.distinct("f"):
        values = swept.distinct(other) or table.distinct(other)
        panels = {f"{QUANTITIES[f]},  ${other} = {value}$": {other: value} for value in values}
        rows += two_rows(swept.where(f=f), top.where(f=f), x, panels)
    return figure(rows, f"linear: error over ${x}$, methods of the paper above, ours below{of_dotted(top)}")


def draw_d(table: Table) -> Figure:
    """Over the dimension."""
    size = table.rows[0]["T"]
    title, label = f"$f = x'x$,  $N = T = {size}$", "dimension $d$"
    panels = [Panel(title, by_method(table, methods), "dim", xlabel=label) for methods in (OF_PAPER, OURS)]
    return figure([panels], "linear: error over the dimension, methods of the paper and ours", shared=False)


def _verdict(table: Table) -> str:
    """Who is best, where, and against the baselines with far more points."""
    swept, top = split(table)
    T, N = max((row["T"], row["N"]) for row in swept.where(method="CBQ.paper", f="square"))
    at = {"T": T, "N": N, "f": "square"}
    mine = swept.middle("rmse", method="CBQ.paper", **at)
    others = typical(swept, "CBQ.paper", [*BASELINES, NO_LAMBDA, "CBQ", *POOLED], **at)
    return (
        f"{_scores(swept, ('f', 'T', 'N'))}; x'x at T = {T}, N = {N}: CBQ.paper {mine:.2g}, in its units "
        f"{others}{dotted(top, f='square')}"
    )


def _scores(table: Table, keys: Sequence[str]) -> str:
    return "; ".join(score(table, name, BASELINES, keys) for name in ("CBQ.paper", NO_LAMBDA))


def verdict_slopes(table: Table, *, x: str) -> str:
    """The verdict, with the slopes over x at the largest of the other size."""
    other, swept = "N" if x == "T" else "T", split(table)[0]
    if not len(swept.where(method="CBQ.paper", f="square")):
        return EARLY
    at = {other: max(swept.distinct(other)), "f": "square"}
    slopes = ", ".join(
        f"{name} {signed(fitted_slope(swept, x, method=name, **at))}" for name in swept.where(**at).distinct("method")
    )
    return f"{_verdict(table)}; slopes in {x} at {other} = {at[other]}: {slopes}"


def verdict_d(table: Table) -> str:
    """In which dimensions the paper's method is best, and how much of its lead is left."""
    ends = [min(table.distinct("dim")), max(table.distinct("dim"))]
    others = [name for name in table.distinct("method") if name != "CBQ.paper"]
    parts = [f"d = {dim}: {typical(table, 'CBQ.paper', others, dim=dim)}" for dim in ends]
    return f"{_scores(table, ('dim',))}; errors in units of that of CBQ.paper, {'; '.join(parts)}"


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "linear-T",
        "linear: error over T at N = 10, 50, 100",
        "CBQ has a smaller error than LSMC, KLSMC and IS at every T, and than theirs at N = T = 1000",
        partial(cells, over="T"),
        measure,
        partial(draw, x="T"),
        partial(verdict_slopes, x="T"),
        twin="linear-N",
    ),
    Experiment(
        "linear-N",
        "linear: error over N at T = 10, 50, 100",
        "the error of CBQ falls faster with N than that of the baselines",
        partial(cells, over="N"),
        measure,
        partial(draw, x="N"),
        partial(verdict_slopes, x="N"),
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
