"""One Gaussian process on all points in place of two stages: errors and seconds over N at the paper's T."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.analysis import ResultTable, is_similar, medians_text, ruling, slope, slope_text
from experiments.experiment import (
    BANDS,
    GREY_LINE,
    Cell,
    Experiment,
    method_cell,
    pooled_cell,
    quick_thetas,
)
from experiments.figures import BASELINES, Panel, best_baseline, figure_of, method_curves
from experiments.methods import POOLED_KERNELS, score_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIXED_T = {"linear": 50, "butterfly": 20, "health": 50}
SWEPT_N = {"linear": (10, 20, 30, 50, 70, 100), "butterfly": (10, 20, 50, 100, 150), "health": (10, 20, 30, 50)}
EXACT, NYSTROM, KERNEL_GIVEN = "MOBQ", "MOBQ, Nystrom", "MOBQ, paper's kernel"
SHOWN = (EXACT, NYSTROM, KERNEL_GIVEN, "CBQ.paper", "CBQ")


def cells(quick: bool) -> list[Cell]:
    """Sweep N on three problems."""
    found = []
    for name in ("linear",) if quick else FIXED_T:
        pooled = (EXACT, NYSTROM, KERNEL_GIVEN) if name in POOLED_KERNELS else (EXACT, NYSTROM)
        baselines = BASELINES[:2] if name == "health" else BASELINES
        for N in (3, 6) if quick else SWEPT_N[name]:
            T = 4 if quick else FIXED_T[name]
            found.append(method_cell(name, T, N, ("CBQ.paper", "CBQ", *baselines), thetas=quick_thetas(quick)))
            found.append(pooled_cell(name, T, N, pooled, thetas=quick_thetas(quick)))
    return found


def draw(table: ResultTable) -> Figure:
    """Errors above, seconds below, over N."""
    upper, lower = [], []
    for name in table.distinct("problem"):
        rows = table.where(problem=name)
        curves = method_curves(rows, SHOWN)
        title = f"{name}, $T = {rows.rows[0]['T']}$"
        upper.append(Panel(title, [*best_baseline(rows, "N"), *curves], "N", ylabel="RMSE of $I$"))
        lower.append(Panel("", curves, "N", y="seconds", ylabel="seconds of the fit"))
    return figure_of([upper, lower], share=False)


def verdict(table: ResultTable) -> str:
    """Errors and seconds at the smallest and the largest N, and how seconds grow with the number of points."""
    lines = []
    for name in table.distinct("problem"):
        rows = table.where(problem=name)
        largest = rows.where(N=max(rows.where(method=EXACT).distinct("N"), default=0))
        errors, seconds = (
            [largest.middle(y, method=m) for m in (KERNEL_GIVEN, "CBQ.paper")] for y in ("rmse", "seconds")
        )
        lines.append(
            ruling(f"{name}, MOBQ with the paper's kernel has errors similar to CBQ.paper's", is_similar(*errors))
        )
        ratio = seconds[0] / seconds[1]
        lines.append(ruling(f"{name}, it costs 10 to 100 times as much", 10 <= ratio <= 100 if ratio > 0 else None))
        T, several = rows.rows[0]["T"], rows.distinct("N")
        for N in several:
            few = tuple(row["seed"] for row in rows.where(method=EXACT, N=N))  # MOBQ has the fewest seeds
            for y, label in (("rmse", "RMSE"), ("seconds", "seconds")):
                lines.append(f"{name}, T = {T}, N = {N}, {label}: {medians_text(rows, SHOWN, y, N=N, seed=few)}")
        powers = [f"{m} {_powers(rows, m)}" for m in SHOWN if len(rows.where(method=m))]
        lines.append(f"{name}, powers of N in the seconds, over all N and between the last two: {', '.join(powers)}")
    return "\n".join(lines)


def _powers(table: ResultTable, method: str) -> str:
    """The powers of N that seconds grow with: over all N, and between the last two."""
    several = table.distinct("N")
    seconds = [table.middle("seconds", method=method, N=N) for N in several]
    return f"{slope_text(slope(several, seconds))} and {slope_text(slope(several[-2:], seconds[-2:]))}"


EXPERIMENT = Experiment(
    "mobq",
    "MOBQ: errors and seconds of CBQ, MOBQ and Nystrom MOBQ over N on linear, butterfly and health",
    "MOBQ has errors similar to those of CBQ at 10 to 100 times its cost, and with Nystrom larger ones",
    cells,
    score_methods,
    draw,
    verdict,
    version=4,
    caption="**One Gaussian process on all points (MOBQ) beside two stages (CBQ).** RMSE of I above, seconds of a fit "
    "on one core below, over N at the T of the paper: 50, 20 and 50. MOBQ searches for its lengthscales; with the "
    "paper's kernel, lengthscale and nugget (linear and butterfly) its time is that of one factorisation; on health "
    "the kernel acts on the whitened inputs of each treatment, and lengthscales are fitted. The Nystrom variant has "
    "500 landmarks. "
    f"{GREY_LINE} {BANDS}",
)
