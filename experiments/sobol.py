"""Randomised Sobol points in place of independent ones: of x alone, as in the paper, or of theta too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

from experiments.analysis import ResultTable, best_of, ruling
from experiments.experiment import BANDS, FEW_SEEDS, Cell, Experiment, method_cell, quick_thetas
from experiments.figures import (
    BASELINES,
    BEST_BASELINE,
    BEST_STYLE,
    BLACK,
    DASHED,
    STYLES,
    Curve,
    Panel,
    Style,
    figure_of,
)
from experiments.methods import SOBOL_OF_X, score_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IID, OF_BOTH = "iid", "sobol"
PANELS = (("linear", SOBOL_OF_X), ("linear", OF_BOTH), ("butterfly", SOBOL_OF_X), ("health", SOBOL_OF_X))
RANDOMISED = {SOBOL_OF_X: "Sobol of $x$", OF_BOTH: r"Sobol of $x$ and $\theta$"}
T = 32
SWEPT_N = (8, 16, 32, 64, 128)
MAX_POOLED_N = {"linear": 64, "butterfly": 64, "health": 16}  # with more, MOBQ takes long
THEIRS, OURS = ("CBQ.paper", "LSMC", "KLSMC", "IS"), ("CBQ", "MOBQ")
LINE_NAMES = {"independent points": Style(BLACK, "", "-"), "Sobol points": Style(BLACK, "", DASHED)}


def cells(quick: bool) -> list[Cell]:
    """Sweep N over powers of two, for which Sobol points are balanced, in all designs."""
    panels = PANELS[:2] if quick else PANELS
    designs = dict.fromkeys([*((name, IID) for name, _ in panels), *panels])
    found = []
    for name, design in designs:
        methods = [m for m in (*THEIRS, "CBQ") if name != "health" or m != "IS"]
        for N in (4, 8) if quick else SWEPT_N:
            several, thetas = 4 if quick else T, quick_thetas(quick)
            found.append(method_cell(name, several, N, methods, design=design, thetas=thetas))
            if MAX_POOLED_N[name] >= N:
                more = {"seeds": FEW_SEEDS, "design": design, "thetas": thetas}
                found.append(method_cell(name, several, N, ("MOBQ",), **more))
    return found


def draw(table: ResultTable) -> Figure:
    """A column for each problem and design, our methods below; Sobol points are dashed."""
    rows: list[list[Panel]] = [[], []]
    for name, design in PANELS:
        problem = table.where(problem=name)
        if not len(problem.where(design=design)):
            continue
        title = f"{name}, {RANDOMISED[design]}"
        rows[0].append(Panel(title, _curves(problem, design, THEIRS), "N", ylabel=f"RMSE ({name})"))
        best = Curve(BEST_BASELINE, best_of(problem.where(design=IID), BASELINES, "N", "rmse"), BEST_STYLE)
        curves = [best, *_curves(problem, design, OURS)]
        rows[1].append(Panel("", curves, "N", ylabel=f"RMSE ({name})"))
    if not rows[0]:
        rows = [[Panel(table.rows[0]["problem"], _curves(table, SOBOL_OF_X, (*THEIRS, *OURS)), "N")]]
    for line, style in LINE_NAMES.items():
        rows[0][0] = replace(rows[0][0], curves=[*rows[0][0].curves, Curve(line, ResultTable(()), style)])
    return figure_of(rows)


def _curves(table: ResultTable, design: str, methods: Sequence[str]) -> list[Curve]:
    """Two curves for each method, of independent points and of this design; the second has no entry in the legend."""
    found = []
    for method in methods:
        style = replace(STYLES[method], dash="-", size=4.0, width=1.4)
        found.append(Curve(method, table.where(method=method, design=IID), style))
        found.append(Curve("", table.where(method=method, design=design), replace(style, dash=DASHED)))
    return [curve for curve in found if len(curve.rows)]


def verdict(table: ResultTable) -> str:
    """The error with independent points divided by that with Sobol points, at each N."""
    lines = _rulings(table)
    for name, design in PANELS:
        for N in table.where(problem=name, design=design).distinct("N"):
            rows = table.where(problem=name, N=N)
            errors = {m: [rows.middle("rmse", method=m, design=d) for d in (IID, design)] for m in (*THEIRS, *OURS)}
            gains = [f"{m} {iid / sobol:.3g}" for m, (iid, sobol) in errors.items() if isfinite(iid / sobol)]
            what = "x" if design == SOBOL_OF_X else "x and theta"
            lines.append(
                f"{name}, N = {N}, error with independent points over that with Sobol {what}: {', '.join(gains)}"
            )
    return "\n".join(lines)


def _rulings(table: ResultTable) -> list[str]:
    """Whether Sobol points of x gain more than a factor of 2 for LSMC and KLSMC on linear, and less for CBQ."""
    rows = table.where(problem="linear")
    rows = rows.where(N=max(rows.distinct("N"), default=0))
    gains = {}
    for m in ("CBQ.paper", "LSMC", "KLSMC"):
        iid, other = (rows.middle("rmse", method=m, design=d) for d in (IID, SOBOL_OF_X))
        gains[m] = iid / other
    known = all(isfinite(gain) for gain in gains.values())
    helped = gains["LSMC"] > 2 and gains["KLSMC"] > 2 and 1 < gains["CBQ.paper"] < 2
    passed = [
        f"{m} from N = {N}"
        for m in THEIRS[1:]
        for N in table.where(problem="linear", design=SOBOL_OF_X).distinct("N")
        if _passes(table.where(problem="linear", design=SOBOL_OF_X, N=N), m)
    ]
    crossing = "; ".join({text.split(" from")[0]: text for text in reversed(passed)}.values()) or "none"
    return [
        ruling("Sobol points help LSMC and KLSMC a lot and CBQ a little, on linear", helped if known else None),
        f"with Sobol points of x on linear, baselines with a smaller error than CBQ.paper: {crossing}",
    ]


def _passes(rows: ResultTable, method: str) -> bool:
    return rows.middle("rmse", method=method) < rows.middle("rmse", method="CBQ.paper")


EXPERIMENT = Experiment(
    "qmc",
    "Sobol points: error over N beside independent points",
    "quasi-Monte Carlo points help LSMC and KLSMC a lot, and CBQ a little",
    cells,
    score_methods,
    draw,
    verdict,
    version=2,
    caption="**Randomised Sobol points (dashed) beside independent points (solid).** RMSE of I over N at T = 32. First "
    "column: Sobol points for x, and the thetas are independent draws, as in the paper; second: Sobol points for x and "
    "for theta; the other columns are two further problems with Sobol points for x. The paper's methods above, ours "
    f"below. Grey: the best of the baselines with independent points. {BANDS}",
)
