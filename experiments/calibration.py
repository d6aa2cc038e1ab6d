"""Whether intervals hold what they promise: coverage over the nominal level, on all four problems at several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan, sqrt
from statistics import stdev
from typing import TYPE_CHECKING, Any

from cbq.estimators.base import REFUSALS, reason
from experiments.analysis import SHARE_PREFIX, ResultTable, Row, ruling
from experiments.common import coverage, problem_with_truth
from experiments.experiment import Cell, Experiment, method_cell, pooled_cell
from experiments.figures import legend_below, new_figure
from experiments.methods import collect_cell, method_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PROBLEMS = ("linear", "sir", "butterfly", "health")
SIDES = (10, 20, 50, 100)  # N = T
MAX_POOLED_SIDE = {"linear": 50, "sir": 50, "butterfly": 50, "health": 20}  # MOBQ takes long beyond
COLOURS = ("#FDBF6F", "#F1732F", "#A3195B", "#2D0B45")  # from light to dark as N = T grows
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
TEST_THETAS = 100
SECOND_KERNELS = {"butterfly": ("CBQ.paper, Stein",), "sir": ("CBQ.paper, Stein of log x",)}
STANDARD_ERRORS = 2.0  # by which a coverage differs from its level
SHOWN = ("CBQ.paper", "CBQ", "Auto")


def cells(quick: bool) -> list[Cell]:
    """A cell for each problem and N = T, and another one for Auto, which takes longer."""
    found = []
    for name in PROBLEMS:
        for side in SIDES if not quick else (5, 6) if name == "linear" else (5,):
            thetas = 10 if quick else TEST_THETAS
            methods = ["CBQ.paper", *SECOND_KERNELS.get(name, ()), "CBQ"]
            found.append(method_cell(name, side, side, methods, thetas=thetas))
            if name == "linear" if quick else side <= MAX_POOLED_SIDE[name]:
                found.append(pooled_cell(name, side, side, ("Auto",), thetas=thetas))
    return found


def run(cell: Cell, seed: int) -> list[Row]:
    """For each method, the coverage of its intervals at all levels."""
    samples = collect_cell(cell, seed)
    _, theta, truth = problem_with_truth(cell.problem, cell.thetas, cell.options)
    found: list[Row] = []
    for method in cell.methods:
        try:
            fit = method_for(method, cell.problem).fit(samples)
            shares = {_column(level): coverage(fit, theta, truth, level) for level in LEVELS}
            found.append({"method": method, **shares})
        except REFUSALS as error:
            found.append({"method": method, "note": reason(error)})
    return found


def _column(level: float) -> str:
    return f"{SHARE_PREFIX}_{level:g}"


def draw(table: ResultTable) -> Figure:
    """Coverage over level, on the diagonal if intervals are right: a column for each problem, a row for each method."""
    names, methods = table.distinct("problem"), [m for m in SHOWN if len(table.where(method=m))]
    figure = new_figure(2.3 * len(names), 2.25 * len(methods) + 0.5)
    axes = figure.subplots(len(methods), len(names), squeeze=False, sharex=True, sharey=True)
    sides = table.distinct("T")
    for across, method in zip(axes, methods, strict=True):
        for ax, name in zip(across, names, strict=True):
            _draw_panel(ax, table.where(problem=name), method, sides)
        across[0].set_ylabel(f"{method}\nshare of truths inside")
    for ax, name in zip(axes[0], names, strict=True):
        ax.set_title(name)
    for ax in axes[-1]:
        ax.set_xlabel("level of intervals")
    legend_below(figure, list(axes.ravel()), len(sides) + 2)
    return figure


def _draw_panel(ax: Axes, table: ResultTable, method: str, sides: Sequence[int]) -> None:
    ax.plot([0, 1], [0, 1], color="0.5", lw=1, ls=":", label="nominal")
    for side, colour in zip(sides, COLOURS, strict=False):
        _draw_coverage(ax, table.where(method=method, T=side), {"color": colour, "label": f"$N = T = {side}$"})
        if method == "CBQ.paper":
            second = tuple(name for names in SECOND_KERNELS.values() for name in names)
            _draw_coverage(ax, table.where(method=second, T=side), {"color": colour, "ls": "--"})
    ax.set(xlim=(0, 1), ylim=(0, 1.02), aspect="equal", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    ax.grid(True, color="0.9", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_coverage(ax: Axes, rows: ResultTable, style: dict[str, Any]) -> None:
    found = {level: summary for level in LEVELS if (summary := rows.summary(_column(level))) is not None}
    if found:
        summaries = found.values()
        low, high = [s.low for s in summaries], [s.high for s in summaries]
        ax.fill_between([*found], low, high, color=style["color"], alpha=0.15, lw=0)
        ax.plot([*found], [s.middle for s in summaries], lw=1.4, **style)


def verdict(table: ResultTable) -> str:
    """Verdicts with standard errors over seeds, and the mean coverage of 95% and 50% intervals."""
    lines = []
    for name in table.distinct("problem"):
        rows = table.where(problem=name, method="CBQ.paper")
        sides = rows.distinct("T")
        if sides:
            small, large = rows.where(T=sides[0]), rows.where(T=sides[-1])
            first = ruling(f"{name}, over-confident at N = T = {sides[0]}", _differs(small, (0.95,), -1))
            last = ruling(f"{name}, under-confident at N = T = {sides[-1]}", _differs(large, (0.95, 0.5), 1))
            lines += [first, last]
    for name in table.distinct("problem"):
        for method in table.where(problem=name).distinct("method"):
            rows, shares = table.where(problem=name, method=method), []
            for side in rows.distinct("T"):
                high, half = (rows.middle(_column(level), T=side) for level in (0.95, 0.5))
                if isfinite(high):
                    errors = [_error(rows.where(T=side), level) for level in (0.95, 0.5)]
                    shares.append(f"{side}: {high:.3f} +- {errors[0]:.3f} and {half:.3f} +- {errors[1]:.3f}")
            lines.append(f"{name}, {method}, coverage of 95% and 50% intervals by N = T: {', '.join(shares)}")
    return "\n".join(lines)


def _error(rows: ResultTable, level: float) -> float:
    """The standard error over seeds of the mean coverage of intervals of a level."""
    values = [v for v in rows.values(_column(level)) if isfinite(v)]
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else nan


def _differs(rows: ResultTable, levels: Sequence[float], sign: int) -> str | bool | None:
    """Whether the coverage of all levels is below (sign -1) or above the level, by two standard errors."""
    gaps = [(sign * (rows.middle(_column(level)) - level), _error(rows, level)) for level in levels]
    if any(not isfinite(error) for _, error in gaps):
        return None
    if all(gap > STANDARD_ERRORS * error for gap, error in gaps):
        return True
    return "no, or less than two standard errors" if all(gap > 0 for gap, _ in gaps) else False


EXPERIMENT = Experiment(
    "calibration",
    "Coverage of intervals over their level, on all four problems at N = T = 10, 20, 50, 100",
    "CBQ is over-confident at N = T = 10 and under-confident when N and T are larger",
    cells,
    run,
    draw,
    verdict,
    version=3,
    caption="**Coverage over the level of intervals**, for four sizes N = T on the four problems. Curves above the "
    "diagonal are under-confident, those below over-confident. Shares of 100 test thetas, as means over {seeds} seeds "
    "({few} for Auto with many points), with bands of one standard error. Upper row: the paper's recipe; dashed, on "
    "butterfly: with its Stein kernel, on sir: with a Stein kernel of log x. Lower rows: ours; Auto is left out where "
    "MOBQ would take minutes.",
)
