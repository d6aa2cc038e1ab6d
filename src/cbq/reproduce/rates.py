"""Measured rates of convergence in N and in T, where the assumptions of the paper's theorem hold exactly.

Theorem: with Matern kernels of smoothness nu_X and nu_Theta, s = nu + d/2, fixed amplitudes and lengthscales,
f(., theta) in the Sobolev space of order s_X, I in that of order s_Theta, measures with densities bounded from below and
above, and lambda of the order T^(1/2), the error of CBQ in L2 is O(N^(-s_X/d + eps) + T^(-1/4)) in probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cbq import embed
from cbq._arrays import Array
from cbq.kernels import Matern
from cbq.linalg import factor_gram
from cbq.measures import Uniform
from cbq.reproduce.cells import Cell, Row, options
from cbq.reproduce.draw import PANEL, Line, draw_line, finish, legend_below, new_figure, share_y
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.looks import BLACK, BLUE, DASHED, GREEN, RED, Look
from cbq.reproduce.measure import SEED, rmse
from cbq.reproduce.methods import METHODS
from cbq.reproduce.rough import build
from cbq.reproduce.table import Table
from cbq.reproduce.verdicts import fitted_slope, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMOOTHNESS = (0.5, 1.5, 2.5)  # nu
LENGTHSCALE = 0.5
OVER_N, MANY_T = (8, 16, 32, 64, 128), 256
OVER_T, MANY_N = (8, 16, 32, 64, 128, 256, 512), 128
LAMBDA = 0.02  # times T^(1/2)
THETAS = 500  # that errors are taken at
RIDGE, INTERPOLATED, DEFAULT = "kernel given, lambda of the theorem", "kernel given, lambda = 0", "CBQ"
BOUND = "worst case of stage 1"
SHOWN = {
    RIDGE: Look(RED, "o"),
    INTERPOLATED: Look(GREEN, "^"),
    DEFAULT: Look(BLUE, "s"),
    BOUND: Look(BLACK, "v", DASHED, open=True),
}
RATE_IN_T = 0.25


def cells(quick: bool) -> list[Cell]:
    """Over N at many thetas, and over T at many points."""
    n, t = ((4, 8), (4, 8)) if quick else (OVER_N, OVER_T)
    T, N = (6, 8) if quick else (MANY_T, MANY_N)
    pairs = [("N", T, each) for each in n] + [("T", each, N) for each in t]
    found = []
    for nu in SMOOTHNESS:
        for sweep, T, N in pairs:
            given, seconds = options({"sweep": sweep, "nu": nu}), 0.1 + 3e-5 * T * N + 3e-3 * T
            found.append(Cell("rough", T, N, (*SHOWN,), given, seconds=seconds, thetas=THETAS))
    return found


def measure(cell: Cell, seed: int) -> list[Row]:
    """Errors with given kernels, with and without the lambda of the theorem, and of the default; and the worst case.

    The swept stage is on the edge of smoothness; the other is as smooth as kernels here can be, so that its error is
    small.
    """
    given = dict(cell.options)
    nu, over_n = given["nu"], given["sweep"] == "N"
    nu_x, nu_theta = (nu, max(SMOOTHNESS)) if over_n else (max(SMOOTHNESS), nu)
    problem = build(nu_x + 0.5, nu_theta + 0.5 if not over_n else 2 * max(SMOOTHNESS))
    samples = problem.collect(cell.T, cell.N, rng=seed, progress=False)
    theta = problem.prior.sample(cell.thetas, SEED)
    truth = problem.exact(theta)
    mean, variance = stage_one(Matern(nu_x, LENGTHSCALE), np.asarray(samples.x), np.asarray(samples.f))
    kernel = Matern(nu_theta, LENGTHSCALE)
    found = {
        RIDGE: stage_two(kernel, samples.theta, mean, variance, LAMBDA * np.sqrt(cell.T), theta),
        INTERPOLATED: stage_two(kernel, samples.theta, mean, variance, 0.0, theta),
        DEFAULT: np.asarray(METHODS["CBQ"]().fit(samples).predict(theta)),
    }
    errors = {name: rmse(each, truth) for name, each in found.items()}
    worst = {BOUND: float(np.sqrt(np.median(variance)))} if over_n else {}
    return [{"method": name, "rmse": error} for name, error in {**errors, **worst}.items()]


def stage_one(kernel: Matern, x: Array, f: Array) -> tuple[Array, Array]:
    """Bayesian quadrature under the uniform measure with zero mean and unit amplitude: I and its variance, (T,) each.

    x: (T, N, 1), f: (T, N). The variance is the square of the worst-case error over functions of unit norm.
    """
    embedding = embed(kernel, Uniform(0.0, 1.0))
    factor = factor_gram(kernel, x)
    mu = np.stack([embedding.mean(points) for points in x])
    w = factor.solve_lower(np.stack([f, mu], axis=-1))
    w_y, w_mu = w[..., 0], w[..., 1]
    variance = float(embedding.variance) - np.sum(w_mu * w_mu, axis=-1)
    return np.sum(w_mu * w_y, axis=-1), np.maximum(variance, 0.0)  # zero up to rounding where N is large


def stage_two(kernel: Matern, theta: Array, mean: Array, variance: Array, noise: float, new: Array) -> Array:
    """k(new, theta) (k(theta, theta) + diag(variance + noise))^-1 mean, with unit amplitude: (M,)."""
    factor = factor_gram(kernel, theta, nugget=variance + noise)
    both = factor.solve_lower(np.column_stack([mean, kernel(theta, new)]))
    return np.asarray(both[:, 1:].T @ both[:, 0])


def exponent(sweep: str, nu: float) -> float:
    """By how much the theorem says that the error falls: N^-s_X or T^-1/4."""
    return nu + 0.5 if sweep == "N" else RATE_IN_T


def draw(table: Table) -> Figure:
    """Sweeps over N above, over T below; dotted lines have the slopes of the theorem."""
    page = new_figure(PANEL[0] * len(SMOOTHNESS), PANEL[1] * 2 + 0.7)
    axes = page.subplots(2, len(SMOOTHNESS), squeeze=False)
    for across, sweep in zip(axes, ("N", "T"), strict=True):
        for ax, nu in zip(across, SMOOTHNESS, strict=True):
            _panel(ax, table.where(sweep=sweep, nu=nu), sweep, nu)
        share_y(list(across))
    legend_below(page, [ax for across in axes for ax in across], 3)
    return page


def _panel(ax: Axes, rows: Table, sweep: str, nu: float) -> None:
    ax.set_visible(len(rows) > 0)
    if not len(rows):
        return
    for name, look in SHOWN.items():
        draw_line(ax, Line(name, rows.where(method=name), look), sweep, "rmse")
    values = rows.distinct(sweep)
    anchor = BOUND if sweep == "N" else RIDGE
    start = rows.middle("rmse", method=anchor, **{sweep: values[0]})
    rate = exponent(sweep, nu)
    line = [1.3 * start * (value / values[0]) ** -rate for value in values]
    ax.plot(values, line, color="0.45", ls=":", lw=1.4, label="slope of the theorem")
    ax.set_xscale("log")
    ax.set_yscale("log")
    power = f"N^{{-{rate:g}}}" if sweep == "N" else "T^{-1/4}"
    fixed = "T" if sweep == "N" else "N"
    stage = "X" if sweep == "N" else r"\Theta"
    ax.set_title(
        rf"$\nu_{{{stage}}} = {int(2 * nu)}/2$,  ${fixed} = {rows.rows[0][fixed]}$:  ${power}$", fontsize="medium"
    )
    ax.set_xlabel(f"${sweep}$")
    ax.set_ylabel("RMSE, or worst case" if sweep == "N" else "RMSE")
    finish(ax, values)


def verdict(table: Table) -> str:
    """Measured slopes beside the exponents."""
    parts = []
    for sweep in ("N", "T"):
        for nu in SMOOTHNESS:
            rows = table.where(sweep=sweep, nu=nu)
            slopes = ", ".join(f"{m} {signed(fitted_slope(rows, sweep, method=m))}" for m in rows.distinct("method"))
            parts.append(f"nu = {nu:g}, in {sweep} (theorem {-exponent(sweep, nu):g}): {slopes}")
    return f"slopes: {'; '.join(parts)}"


EXPERIMENT = Experiment(
    "rates",
    "Rates in N and T for Matern kernels on a uniform domain, beside the theorem's",
    "the error is O(N^(-s_X/d + eps) + T^(-1/4)), so that N matters more than T",
    cells,
    measure,
    draw,
    verdict,
    edition=2,
)
