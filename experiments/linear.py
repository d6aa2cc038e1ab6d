"""Sensitivity of a Bayesian linear regression to its prior: errors over T, over N and over the dimension."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from experiments.analysis import (
    TOO_FEW_RESULTS,
    ResultTable,
    ratios_text,
    slope_of_medians,
    slope_text,
    wins_text,
)
from experiments.experiment import (
    PER_THETA,
    POOLED,
    Cell,
    Experiment,
    large_cell,
    large_errors_text,
    method_cell,
    paired_cells,
    quick_thetas,
    split_large,
)
from experiments.figures import (
    OUR_METHODS,
    PAPER_METHODS,
    Panel,
    figure_of,
    large_title,
    method_curves,
    paper_and_our_panels,
)
from experiments.methods import BASELINES, score_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIXED = (10, 50, 100)  # values of the size that is not swept, one panel each
SWEPT = (5, 10, 20, 50, 100)
DIMENSIONS = (2, 4, 6, 8, 10)
NO_LAMBDA = "CBQ.paper, lambda = 0"
FITTED = (*PER_THETA, NO_LAMBDA)
INTEGRANDS = {"square": "$f = x'x$", "inner": "$f = x'y^*$"}
LARGE_METHODS = ("LSMC", "KLSMC", "IS")  # the balance heuristic takes minutes at this size


def cells(quick: bool, *, over: str) -> list[Cell]:
    """Sweep T at several N, or N at several T, and add the baselines with far more points."""
    fixed, swept = ((6,), (5, 10)) if quick else (FIXED, SWEPT)
    sizes = [(a, b) if over == "N" else (b, a) for a in fixed for b in swept]
    found: list[Cell] = []
    for f in ("square",) if quick else INTEGRANDS:
        found += [
            *paired_cells("linear", sizes, FITTED, f=f, thetas=quick_thetas(quick)),
            large_cell("linear", LARGE_METHODS, quick=quick, f=f),
        ]
    return found


def cells_over_dimension(quick: bool) -> list[Cell]:
    """Sweep the dimension at N = T = 100."""
    size, thetas = 10 if quick else 100, quick_thetas(quick)
    found = []
    for dim in (2, 3) if quick else DIMENSIONS:
        found.append(method_cell("linear", size, size, FITTED, dim=dim, thetas=thetas))
        found.append(method_cell("linear", size, size, ("MOBQ, Nystrom", "Auto"), seeds=10, dim=dim, thetas=thetas))
    return found


def draw(table: ResultTable, *, x: str) -> Figure:
    """For each f, a row with the methods of the paper and one with ours; a column for each fixed size."""
    other = "N" if x == "T" else "T"
    swept, large = split_large(table)
    rows = []
    for f in swept.distinct("f") or table.distinct("f"):
        values = swept.distinct(other) or table.distinct(other)
        panels = {f"{INTEGRANDS[f]},  ${other} = {value}$": {other: value} for value in values}
        rows += paper_and_our_panels(swept.where(f=f), large.where(f=f), x, panels)
    return figure_of(rows, f"linear: error over ${x}$, methods of the paper above, ours below{large_title(large)}")


def draw_over_dimension(table: ResultTable) -> Figure:
    """Errors over the dimension: methods of the paper on the left, ours on the right."""
    size = table.rows[0]["T"]
    title, label = f"$f = x'x$,  $N = T = {size}$", "dimension $d$"
    panels = [
        Panel(title, method_curves(table, methods), "dim", xlabel=label) for methods in (PAPER_METHODS, OUR_METHODS)
    ]
    return figure_of([panels], "linear: error over the dimension, methods of the paper and ours", share=False)


def verdict(table: ResultTable, *, x: str) -> str:
    """Wins, errors at the largest size and of the large baselines, and slopes over x at the largest fixed size."""
    swept, large = split_large(table)
    paper = swept.where(method="CBQ.paper", f="square")
    if not len(paper):
        return TOO_FEW_RESULTS
    T, N = max((row["T"], row["N"]) for row in paper)
    largest = {"T": T, "N": N, "f": "square"}
    error = swept.middle("rmse", method="CBQ.paper", **largest)
    ratios = ratios_text(swept, "CBQ.paper", [*BASELINES, NO_LAMBDA, "CBQ", *POOLED], **largest)
    other = "N" if x == "T" else "T"
    fixed = {other: max(swept.distinct(other)), "f": "square"}
    slopes = ", ".join(
        f"{name} {slope_text(slope_of_medians(swept, x, method=name, **fixed))}"
        for name in swept.where(**fixed).distinct("method")
    )
    return (
        f"{_wins(swept, ('f', 'T', 'N'))}; x'x at T = {T}, N = {N}: CBQ.paper {error:.2g}, in its units "
        f"{ratios}{large_errors_text(large, f='square')}; slopes in {x} at {other} = {fixed[other]}: {slopes}"
    )


def verdict_over_dimension(table: ResultTable) -> str:
    """Wins over dimensions, and the ratios of errors in the smallest and the largest dimension."""
    ends = [min(table.distinct("dim")), max(table.distinct("dim"))]
    others = [name for name in table.distinct("method") if name != "CBQ.paper"]
    parts = [f"d = {dim}: {ratios_text(table, 'CBQ.paper', others, dim=dim)}" for dim in ends]
    return f"{_wins(table, ('dim',))}; errors in units of that of CBQ.paper, {'; '.join(parts)}"


def _wins(table: ResultTable, keys: Sequence[str]) -> str:
    return "; ".join(wins_text(table, name, BASELINES, keys) for name in ("CBQ.paper", NO_LAMBDA))


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "linear-T",
        "linear: error over T at N = 10, 50, 100",
        "CBQ has a smaller error than LSMC, KLSMC and IS at every T, and than theirs at N = T = 1000",
        partial(cells, over="T"),
        score_methods,
        partial(draw, x="T"),
        partial(verdict, x="T"),
        shares_cells_with="linear-N",
    ),
    Experiment(
        "linear-N",
        "linear: error over N at T = 10, 50, 100",
        "the error of CBQ falls faster with N than that of the baselines",
        partial(cells, over="N"),
        score_methods,
        partial(draw, x="N"),
        partial(verdict, x="N"),
        shares_cells_with="linear-T",
    ),
    Experiment(
        "linear-d",
        "linear: error over the dimension at N = T = 100",
        "the lead of CBQ shrinks as the dimension grows, but does not vanish up to d = 10",
        cells_over_dimension,
        score_methods,
        draw_over_dimension,
        verdict_over_dimension,
    ),
)
