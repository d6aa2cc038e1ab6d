"""Sensitivity of a Bayesian linear regression to its prior: errors over T, over N and over the dimension."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.analysis import (
    SIMILAR,
    TOO_FEW_RESULTS,
    ResultTable,
    best_of,
    medians_text,
    ratios_text,
    ruling,
    slope_of_medians,
    slope_text,
    smaller_error,
    wins_text,
)
from experiments.experiment import (
    BANDS,
    GREY_LINE,
    LARGE_LINES,
    PAPER_ALONE,
    PER_THETA,
    POOLED,
    Cell,
    Experiment,
    large_cell,
    large_errors_text,
    method_cell,
    pooled_cell,
    quick_thetas,
    split_large,
)
from experiments.figures import (
    BASELINES,
    DASHED,
    LEGEND_ROW_HEIGHT,
    OUR_METHODS,
    PANEL_SIZE,
    PAPER_METHODS,
    RED,
    Curve,
    Panel,
    Style,
    best_baseline,
    draw_panels,
    figure_of,
    legend_below,
    method_curves,
    new_figure,
)
from experiments.methods import REDRAWN, score_methods

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SWEPT = (5, 10, 20, 50, 100)  # T, and N at the middle T
FIXED_N, MIDDLE = (10, 50, 100), 50
DIMENSIONS = (2, 4, 6, 8, 10)
INTEGRANDS = {"square": "$f = x'x$", "inner": "$f = x'y^*$"}
LARGE_METHODS = ("LSMC", "KLSMC", "IS")  # the balance heuristic takes minutes at this size
REDRAWN_LABEL, REDRAWN_STYLE = "CBQ.paper, data redrawn", Style(RED, "o", DASHED, size=3.0, width=1.1)
RATIO_METHODS = ("CBQ.paper", "CBQ")
COLOURS_REACH = 2.0  # decades of the ratios whose colours differ


def sizes(quick: bool) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(T, N) of the grid whose wins are counted, and of the two sweeps through its middle."""
    swept, fixed, middle = ((5, 8), (8,), 8) if quick else (SWEPT, FIXED_N, MIDDLE)
    cross = [*((T, middle) for T in swept), *((middle, N) for N in swept)]
    return [(T, N) for T in swept for N in fixed], list(dict.fromkeys(cross))


def cells(quick: bool) -> list[Cell]:
    """The grid and the sweeps for both f, the sweeps with redrawn data, and the baselines with far more points."""
    (grid, cross), thetas, found = sizes(quick), quick_thetas(quick), list[Cell]()
    for f in ("square",) if quick else INTEGRANDS:
        found += [method_cell("linear", T, N, PER_THETA, f=f, thetas=thetas) for T, N in dict.fromkeys([*grid, *cross])]
        found += [pooled_cell("linear", T, N, f=f, thetas=thetas) for T, N in cross]
        found += [method_cell("linear", T, N, PER_THETA, f=f, data=REDRAWN, thetas=thetas) for T, N in cross]
        found.append(large_cell("linear", LARGE_METHODS, quick=quick, f=f))
    return found


def cells_over_dimension(quick: bool) -> list[Cell]:
    """Sweep the dimension at N = T = 100."""
    size, thetas = 10 if quick else 100, quick_thetas(quick)
    found = []
    for dim in (2, 3) if quick else DIMENSIONS:
        found.append(method_cell("linear", size, size, PER_THETA, dim=dim, thetas=thetas))
        found.append(method_cell("linear", size, size, ("MOBQ, Nystrom",), seeds=5, dim=dim, thetas=thetas))
    return found


def cells_of_appendix(quick: bool) -> list[Cell]:
    """The paper's methods alone, over T at three N and over N at three T, for both f."""
    swept, fixed = ((5, 8), (8,)) if quick else (SWEPT, FIXED_N)
    pairs = dict.fromkeys([*((T, N) for N in fixed for T in swept), *((T, N) for T in fixed for N in swept)])
    return [
        method_cell("linear", T, N, PAPER_ALONE, f=f, thetas=quick_thetas(quick)) for f in INTEGRANDS for T, N in pairs
    ]


def draw_appendix(table: ResultTable) -> Figure:
    """A row over T and a row over N for each f, with a panel for each fixed size."""
    rows = []
    for f in table.distinct("f"):
        for x, other in (("T", "N"), ("N", "T")):
            own = table.where(f=f)
            fixed = [v for v in own.distinct(other) if len(own.where(**{other: v}).distinct(x)) > 2] or own.distinct(
                other
            )
            fixed = [v for v in fixed if v in FIXED_N] or fixed[:1]
            rows.append(
                [
                    Panel(
                        f"{INTEGRANDS[f]}, ${other} = {v}$",
                        method_curves(own.where(**{other: v}), PAPER_ALONE),
                        x,
                        ylabel="RMSE of $I$",
                    )
                    for v in fixed
                ]
            )
    return figure_of(rows)


def verdict_of_appendix(table: ResultTable) -> str:
    """Wins of CBQ.paper over the paper's baselines, for each f."""
    lines = []
    for f in table.distinct("f"):
        rows = table.where(f=f)
        claim = f"CBQ has a smaller error than LSMC, KLSMC and IS at every T and N, f {f}"
        lines.append(ruling(claim, smaller_error(rows, "CBQ.paper", PAPER_ALONE[1:], ("T", "N"))))
        lines.append(f"f {f}: {wins_text(rows, 'CBQ.paper', PAPER_ALONE[1:], ('T', 'N'))}")
    return "\n".join(lines)


def _split(table: ResultTable) -> tuple[ResultTable, ResultTable, ResultTable]:
    """The rows with fixed data, those with redrawn data, and those of the large cells."""
    swept, large = split_large(table)
    fixed = ResultTable(tuple(row for row in swept if row.get("data") != REDRAWN))
    return fixed, swept.where(data=REDRAWN), large


def draw(table: ResultTable) -> Figure:
    """Sweeps of T and N with the paper's methods and with ours, and below the ratios of errors on the whole grid."""
    fixed, redrawn, large = _split(table)
    integrands = table.distinct("f")
    columns = 2 * len(integrands)
    figure = new_figure(PANEL_SIZE[0] * columns, PANEL_SIZE[1] * 2.75 + 2 * LEGEND_ROW_HEIGHT)
    axes = figure.subplots(3, columns, squeeze=False, height_ratios=(1, 1, 0.62))
    pairs = [pair for f in integrands for pair in _sweeps(fixed.where(f=f), redrawn.where(f=f), large.where(f=f), f)]
    draw_panels(axes[:2], [list(row) for row in zip(*pairs, strict=True)])
    for k, f in enumerate(integrands):
        for ax, method in zip(axes[2, 2 * k :], RATIO_METHODS, strict=False):
            _draw_ratios(ax, _grid(fixed.where(f=f)), method) if len(fixed.where(f=f)) else ax.set_visible(False)
    legend_below(figure, list(axes[:2].ravel()), 5)
    return figure


def _middle(table: ResultTable) -> int:
    """The T of the sweep over N, which is also the N of the sweep over T."""
    return max((int(T) for T in table.distinct("T")), key=lambda T: len(table.where(T=T).distinct("N")))


def _grid(table: ResultTable) -> ResultTable:
    """The rows of the grid: the sweep over N has some more."""
    middle = _middle(table)
    return table.where(N=tuple({row["N"] for row in table if row["T"] != middle} or {row["N"] for row in table}))


def _sweeps(fixed: ResultTable, redrawn: ResultTable, large: ResultTable, f: str) -> list[tuple[Panel, Panel]]:
    """Panels of the paper's methods and of ours, over T and over N, at the size that both sweeps have in common."""
    every = fixed if len(fixed) else redrawn if len(redrawn) else large
    middle, found = _middle(every), []
    for x, other in (("T", "N"), ("N", "T")):
        rows, again = (part.where(**{other: middle}) for part in (fixed, redrawn))
        theirs = method_curves(rows, PAPER_METHODS)
        if len(again):
            theirs.append(Curve(REDRAWN_LABEL, again.where(method="CBQ.paper"), REDRAWN_STYLE))
        levels = method_curves(large, PAPER_METHODS)
        title = f"{INTEGRANDS[f]}, ${other} = {middle}$"
        ours = [*best_baseline(rows, x), *method_curves(rows, OUR_METHODS)]
        upper = Panel(title, theirs, x, levels=levels, ylabel="RMSE, paper's methods")
        found.append((upper, Panel("", ours, x, ylabel="RMSE, our methods")))
    return found


def _draw_ratios(ax: Axes, table: ResultTable, method: str) -> None:
    """A field for each (T, N) with the error of the best baseline in units of that of the method."""
    several_t, several_n = table.distinct("T"), table.distinct("N")
    ratios = np.array([[_ratio(table.where(T=T, N=N), method) for T in several_t] for N in several_n])
    ax.imshow(np.log10(ratios), cmap="RdBu", vmin=-COLOURS_REACH, vmax=COLOURS_REACH, origin="lower", aspect="auto")
    for i, row in enumerate(ratios):
        for j, ratio in enumerate(row):
            if np.isfinite(ratio):
                dark = abs(np.log10(ratio)) > 0.65 * COLOURS_REACH
                ax.text(j, i, _short(ratio), ha="center", va="center", fontsize=8, color="white" if dark else "black")
    ax.set_xticks(range(len(several_t)), [str(T) for T in several_t])
    ax.set_yticks(range(len(several_n)), [str(N) for N in several_n])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="$T$", ylabel="$N$")
    ax.set_title(f"best baseline / {method}")


def _short(ratio: float) -> str:
    """A ratio in at most four characters: 0.34, 3.6, 120, 2k."""
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}" if ratio < 1000 else f"{ratio / 1000:.0f}k"


def _ratio(rows: ResultTable, method: str) -> float:
    best = best_of(rows, BASELINES, "N", "rmse")
    return best.middle("rmse") / rows.middle("rmse", method=method) if len(best) else float("nan")


def draw_over_dimension(table: ResultTable) -> Figure:
    """Errors over the dimension: methods of the paper on the left, ours on the right."""
    more: dict[str, Any] = {"x": "dim", "xlabel": "dimension $d$"}
    theirs = Panel("the paper's methods", method_curves(table, PAPER_METHODS), **more)
    ours = Panel("our methods", [*best_baseline(table, "dim"), *method_curves(table, OUR_METHODS)], **more)
    return figure_of([[theirs, ours]])


def verdict(table: ResultTable) -> str:
    """Wins over the grid, errors at the middle with fixed and redrawn data, large baselines, and slopes."""
    fixed, redrawn, large = _split(table)
    if not len(fixed.where(method="CBQ.paper", f="square")):
        return TOO_FEW_RESULTS
    grid, middle, methods = _grid(fixed), _middle(fixed), [*PER_THETA, *POOLED]
    T, N = max((row["T"], row["N"]) for row in grid)
    theirs = PAPER_ALONE[1:]
    lines = [
        ruling(f"a smaller error than {', '.join(theirs)}", smaller_error(grid, "CBQ.paper", theirs, ("f", "T", "N")))
    ]
    best = fixed.where(f="square").middle("rmse", method="CBQ.paper", T=middle, N=middle)
    for name in LARGE_METHODS:
        theirs_large = large.middle("rmse", method=name, f="square")
        outcome = best <= SIMILAR * theirs_large if best > 0 and theirs_large > 0 else None
        lines.append(ruling(f"comparable with {name} at N = T = 1000, with far fewer points", outcome))
    lines.append(
        ruling("it falls faster, and at first more in N than in T", _falls_faster(fixed.where(f="square"), middle))
    )
    lines += [wins_text(grid, method, BASELINES, ("f", "T", "N")) for method in RATIO_METHODS]
    lines.append(f"data redrawn: {wins_text(redrawn, 'CBQ.paper', BASELINES, ('f', 'T', 'N'))}")
    for name, rows in (("fixed", fixed), ("redrawn", redrawn)):
        for f in rows.distinct("f"):
            errors = medians_text(rows, methods, T=middle, N=middle, f=f)
            lines.append(f"median RMSE, T = N = {middle}, f {f}, data {name}: {errors}")
    lines += [f"f {f}, {large_errors_text(large, f=f)}" for f in large.distinct("f")]
    errors = medians_text(fixed, methods, T=T, N=N, f="square")
    lines.append(f"median RMSE, T = {T}, N = {N}, f square, data fixed: {errors}")
    for x, other in (("T", "N"), ("N", "T")):
        rows = fixed.where(**{other: middle, "f": "square"})
        slopes = ", ".join(f"{m} {slope_text(slope_of_medians(rows, x, method=m))}" for m in methods)
        lines.append(f"slopes in {x} at {other} = {middle}, f square: {slopes}")
    return "\n".join(lines)


def _falls_faster(rows: ResultTable, middle: int) -> bool | None:
    """Whether the slope in N is the steepest, and a fourfold N divides the error by more than a fourfold T."""
    slopes = {m: slope_of_medians(rows.where(T=middle), "N", method=m) for m in PAPER_ALONE}
    ends = (min(rows.distinct("T")), 4 * min(rows.distinct("T")))
    in_n, in_t = (
        [rows.middle("rmse", method="CBQ.paper", **{x: v, other: middle}) for v in ends]
        for x, other in (("N", "T"), ("T", "N"))
    )
    if any(isnan(v) for v in (*slopes.values(), *in_n, *in_t)):
        return None
    return min(slopes, key=lambda m: slopes[m]) == "CBQ.paper" and in_n[0] / in_n[1] > in_t[0] / in_t[1]


def verdict_over_dimension(table: ResultTable) -> str:
    """Wins over dimensions, and the ratios of errors in the smallest and the largest dimension."""
    ends = [min(table.distinct("dim")), max(table.distinct("dim"))]
    others = [name for name in table.distinct("method") if name != "CBQ.paper"]
    parts = [f"errors in units of CBQ.paper's, d = {d}: {ratios_text(table, 'CBQ.paper', others, dim=d)}" for d in ends]
    ratios = [[table.middle("rmse", method=m, dim=d) for m in PAPER_ALONE] for d in ends]
    leads = [[other / own[0] for other in own[1:]] for own in ratios]
    known = ends[0] < ends[1] and all(lead > 0 for each in leads for lead in each)
    shrinks = all(last < first for first, last in zip(*leads, strict=True)) if known else None
    first = ruling("the lead of CBQ over the baselines shrinks as the dimension grows", shrinks)
    return "\n".join([first, wins_text(table, "CBQ.paper", BASELINES, ("dim",)), *parts])


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "linear",
        "linear: errors over T and N, and 30 settings against the best baseline",
        "CBQ has a smaller error than LSMC, KLSMC and IS at every T and N, comparable with theirs at N = T = 1000 or "
        "smaller, and at first it falls much faster in N than in T",
        cells,
        score_methods,
        draw,
        verdict,
        caption="**linear, d = 2.** RMSE of I at 200 test thetas from Q, over T (first and third column) and over N "
        f"(second and fourth), for two f. Upper row: the paper's methods. {LARGE_LINES} The dashed line has data that "
        f"are drawn anew with each seed; all other lines have the same data at all seeds. Middle row: our methods. "
        f"{GREY_LINE} Lower row: the median RMSE of the best baseline divided by that of CBQ.paper and by that of CBQ, "
        f"at each T and N (blue: above 1; k: thousands). {BANDS}",
    ),
    Experiment(
        "linear-all",
        "linear: all twelve panels of the paper's appendix, with its methods alone",
        "CBQ has a smaller error than LSMC, KLSMC and IS at every T and N",
        cells_of_appendix,
        score_methods,
        draw_appendix,
        verdict_of_appendix,
        caption="**linear, d = 2, the paper's methods alone.** RMSE of I at 200 test thetas from Q for two f: over T "
        f"at three N, and over N at three T. {BANDS}",
    ),
    Experiment(
        "linear-d",
        "linear: error over the dimension at N = T = 100",
        "the baselines gradually catch up with CBQ as the dimension grows",
        cells_over_dimension,
        score_methods,
        draw_over_dimension,
        verdict_over_dimension,
        caption="**linear, f = x'x, N = T = 100.** RMSE of I at 200 test thetas over the dimension of x and theta: the "
        f"paper's methods on the left, ours on the right, on the same axis. {GREY_LINE} {BANDS}",
    ),
)
