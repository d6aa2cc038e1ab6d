"""Measured rates of convergence in N and in T, on problems that just meet the assumptions of the paper's theorem.

Theorem: with Matern kernels of smoothness nu_X and nu_Theta, s = nu + d/2, fixed amplitudes and lengthscales,
f(., theta) in the Sobolev space of order s_X, f and the densities in that of order s_Theta as functions of theta,
measures with densities bounded from below and above, and lambda = c T^(1/2) with a constant c that is above 5.55 for
kernels of unit amplitude, the error of CBQ in L2 is O(N^(-s_X/d + eps) + T^(-1/4)) in probability.
"""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq import Samples
from cbq.estimators import PaperCBQ
from cbq.kernels import Matern
from experiments.analysis import ResultTable, Row, ruling, slope_of_medians, slope_text
from experiments.common import TEST_SEED, rmse
from experiments.experiment import BANDS, Cell, Experiment, as_options
from experiments.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PANEL_SIZE,
    RED,
    Curve,
    Style,
    draw_curve,
    format_axes,
    new_figure,
    share_y,
)
from experiments.rough import rough_problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMOOTHNESS = (0.5, 1.5, 2.5)  # nu
LENGTHSCALE = 0.5
SWEPT_N, FIXED_T = (8, 16, 32, 64, 128), 256
SWEPT_T, FIXED_N = (8, 16, 32, 64, 128, 256, 512), 128
LAMBDAS = {"lambda = 6 T^(1/2)": 6.0, "lambda = 0.02 T^(1/2)": 0.02, "lambda = 0": 0.0}  # in units of T^(1/2)
OF_THEOREM, RIDGE, INTERPOLATED = LAMBDAS
WORST_CASE = "worst case of stage 1"
TEST_THETAS = 500
RATE_STYLES = {OF_THEOREM: Style(BLACK, "s"), RIDGE: Style(RED, "o"), INTERPOLATED: Style(GREEN, "^")}
LABELS = {
    OF_THEOREM: r"$\lambda = 6\, T^{1/2}$ (as the theorem asks)",
    RIDGE: r"$\lambda = 0.02\, T^{1/2}$ (its order, not its constant)",
    INTERPOLATED: r"$\lambda = 0$",
}
WORST_STYLES = dict(zip(SMOOTHNESS, (Style(ORANGE, "v"), Style(BLUE, "D"), Style("#CC79A7", "P")), strict=True))
WORST_LABELS = {nu: rf"worst case, $\nu_X = {int(2 * nu)}/2$" for nu in SMOOTHNESS}
RATE_IN_T = 0.25
SLOPE = "slope of the theorem"


def cells(quick: bool) -> list[Cell]:
    """Sweep N at many thetas, and T with many points at each, for each smoothness."""
    swept_n, swept_t = ((4, 8), (4, 8)) if quick else (SWEPT_N, SWEPT_T)
    fixed_t, fixed_n = (6, 8) if quick else (FIXED_T, FIXED_N)
    sizes = [("N", fixed_t, N) for N in swept_n] + [("T", T, fixed_n) for T in swept_t]
    found = []
    for nu in SMOOTHNESS:
        for sweep, T, N in sizes:
            options, seconds = as_options({"sweep": sweep, "nu": nu}), 0.05 + 1.2e-5 * T * N
            found.append(Cell("rough", T, N, (*LAMBDAS, WORST_CASE), options, seconds=seconds, thetas=TEST_THETAS))
    return found


def run(cell: Cell, seed: int) -> list[Row]:
    """Errors with given kernels and several lambda, and the worst-case error of stage 1.

    The stage that is swept is at the edge of smoothness. The other one is as smooth as the kernels here can be, so
    that its error is small.
    """
    options = dict(cell.options)
    nu, over_n = options["nu"], options["sweep"] == "N"
    nu_x, nu_theta = (nu, max(SMOOTHNESS)) if over_n else (max(SMOOTHNESS), nu)
    problem = rough_problem(nu_x + 0.5, nu_theta + 0.5 if not over_n else 2 * max(SMOOTHNESS))
    drawn = problem.collect(cell.T, cell.N, rng=seed, batch=10_000, progress=False)
    # One batch of measures, since stage 1 takes a list of mixtures one by one.
    samples = Samples(drawn.theta, drawn.x, drawn.f, problem.family(drawn.theta))
    theta = problem.prior.sample(cell.thetas, TEST_SEED)
    truth = problem.exact(theta)
    fits = {name: recipe(nu_x, nu_theta, c * np.sqrt(cell.T)).fit(samples) for name, c in LAMBDAS.items()}
    rows: list[Row] = [
        {"method": name, "rmse": rmse(np.asarray(fit.predict(theta)), truth)} for name, fit in fits.items()
    ]
    # with unit amplitude, a standard deviation of stage 1 is the worst error over functions of unit norm
    return [*rows, {"method": WORST_CASE, "worst_case": float(np.median(fits[INTERPOLATED].stage1.std))}]


def recipe(nu_x: float, nu_theta: float, noise: float) -> PaperCBQ:
    """The paper's recipe in the setting of its theorem: given kernels, unit amplitudes, zero means, no nugget."""
    return PaperCBQ(
        Matern(nu_x, LENGTHSCALE),
        Matern(nu_theta, LENGTHSCALE),
        amplitudes=(1.0,),
        lambdas=(float(noise),),
        nugget=0.0,
        standardise=False,
    )


def exponent(sweep: str, nu: float) -> float:
    """The exponent of the theorem: the error falls as N^-s_X or as T^-1/4."""
    return nu + 0.5 if sweep == "N" else RATE_IN_T


def draw(table: ResultTable) -> Figure:
    """Worst cases of stage 1 and errors over N above, errors over T below; dotted lines have the theorem's slopes."""
    columns = len(SMOOTHNESS) + 1
    figure = new_figure(PANEL_SIZE[0] * columns, PANEL_SIZE[1] * 2)
    axes = figure.subplots(2, columns)
    _draw_worst_cases(axes[0, 0], table.where(sweep="N", method=WORST_CASE))
    for across, sweep in zip(axes, ("N", "T"), strict=True):
        for ax, nu in zip(across[1:], SMOOTHNESS, strict=True):
            _draw_sweep(ax, table.where(sweep=sweep, nu=nu), sweep, nu)
        share_y([ax for ax in across[1:] if ax.get_visible()])
    handles = {label: h for ax in axes.ravel() for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    axes[1, 0].axis("off")
    order = sorted(handles, key=lambda label: (label == SLOPE, label in WORST_LABELS.values()))
    axes[1, 0].legend([handles[k] for k in order], order, loc="center", frameon=False, handlelength=2.0)
    return figure


def _draw_worst_cases(ax: Axes, rows: ResultTable) -> None:
    """The worst-case error of stage 1 over N, a curve for each smoothness."""
    full = len(rows.distinct("seed"))
    for nu in rows.distinct("nu"):
        some = rows.where(nu=nu)
        draw_curve(ax, Curve(WORST_LABELS[nu], some, WORST_STYLES[nu]), "N", "worst_case", full)
        _draw_slope(ax, some, "N", "worst_case", nu)
    _finish(ax, rows.distinct("N"), "N", "worst-case error of stage 1", f"$T = {_fixed(rows, 'T')}$")


def _draw_sweep(ax: Axes, rows: ResultTable, sweep: str, nu: float) -> None:
    full = len(rows.distinct("seed"))
    for name, style in RATE_STYLES.items():
        draw_curve(ax, Curve(LABELS[name], rows.where(method=name), style), sweep, "rmse", full)
    _draw_slope(ax, rows.where(method=INTERPOLATED if sweep == "N" else OF_THEOREM), sweep, "rmse", nu)
    (stage, other) = ("X", "T") if sweep == "N" else (r"\Theta", "N")
    title = rf"$\nu_{{{stage}}} = {int(2 * nu)}/2$, ${other} = {_fixed(rows, other)}$"
    _finish(ax, rows.distinct(sweep), sweep, f"RMSE of $I$ over ${sweep}$", title)


def _fixed(rows: ResultTable, name: str) -> Any:
    return rows.rows[0][name] if len(rows) else "?"


def _draw_slope(ax: Axes, rows: ResultTable, sweep: str, y: str, nu: float) -> None:
    """A dotted line with the slope of the theorem, from a little above the first median."""
    values = rows.distinct(sweep)
    if values:
        start = rows.middle(y, **{sweep: values[0]})
        line = [1.4 * start * (value / values[0]) ** -exponent(sweep, nu) for value in values]
        ax.plot(values, line, color="0.45", ls=":", lw=1.3, label=SLOPE)


def _finish(ax: Axes, values: list[Any], sweep: str, ylabel: str, title: str) -> None:
    ax.set_visible(len(values) > 0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_title(title)
    ax.set_xlabel(f"${sweep}$")
    ax.set_ylabel(ylabel)
    format_axes(ax, values)


def verdict(table: ResultTable) -> str:
    """Measured slopes beside the exponents of the theorem."""
    lines = [
        *(
            ruling(f"the worst case falls in N as the theorem says, up to a tenth, nu = {nu:g}", _in_n(table, nu))
            for nu in table.where(sweep="N").distinct("nu")
        ),
        ruling("with lambda = 6 T^(1/2) the slopes in T are -0.15 to -0.35", _in_t(table)),
    ]
    for sweep in ("N", "T"):
        for nu in table.where(sweep=sweep).distinct("nu"):
            rows = table.where(sweep=sweep, nu=nu)
            slopes = [f"{m} {slope_text(slope_of_medians(rows, sweep, method=m))}" for m in LAMBDAS]
            if sweep == "N":
                slopes.append(
                    f"{WORST_CASE} {slope_text(slope_of_medians(rows, sweep, 'worst_case', method=WORST_CASE))}"
                )
            lines.append(f"slopes in {sweep}, nu = {nu:g} (theorem {-exponent(sweep, nu):g}): {', '.join(slopes)}")
    return "\n".join(lines)


def _in_n(table: ResultTable, nu: float) -> bool | None:
    found = slope_of_medians(table.where(sweep="N", nu=nu), "N", "worst_case", method=WORST_CASE)
    return None if isnan(found) else found <= -0.9 * exponent("N", nu)


def _in_t(table: ResultTable) -> bool | None:
    rows = table.where(sweep="T", method=OF_THEOREM)
    found = [slope_of_medians(rows.where(nu=nu), "T") for nu in rows.distinct("nu")]
    return None if not found or any(map(isnan, found)) else all(abs(each + RATE_IN_T) <= 0.1 for each in found)


EXPERIMENT = Experiment(
    "rates",
    "Rates in N and T for Matern kernels where f and the measure of x vary with theta, beside the theorem's",
    "the error is O(N^(-s_X/d + eps) + T^(-1/4))",
    cells,
    run,
    draw,
    verdict,
    version=5,
    caption="**Rates of convergence with given Matern kernels of unit amplitude**, where f = g(x) (2 + h(theta)) and "
    "the measure of x, a mixture of two uniform ones, both vary with theta, and the swept variable has just the "
    "smoothness that its kernel assumes. Upper row: the worst-case error of stage 1 over N, then the RMSE of I over N "
    "for three smoothnesses in x. Lower row: the RMSE of I over T for three smoothnesses in theta. Dotted: the slopes "
    "of the theorem, -(nu_X + 1/2) in N, beside the error without lambda, and -1/4 in T, beside the lambda that it "
    "asks for. "
    f"{BANDS}",
)
