"""Measured rates of convergence in N and in T, on problems that just meet the assumptions of the paper's theorem.

Theorem: with Matern kernels of smoothness nu_X and nu_Theta, s = nu + d/2, fixed amplitudes and lengthscales,
f(., theta) in the Sobolev space of order s_X, I in that of order s_Theta, measures with densities bounded from below
and above, and lambda of the order T^(1/2), the error of CBQ in L2 is O(N^(-s_X/d + eps) + T^(-1/4)) in probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cbq import Problem, embed
from cbq.kernels import Matern
from cbq.linalg import factor_gram
from cbq.measures import Uniform
from experiments.analysis import ResultTable, Row, slope_of_medians, slope_text
from experiments.common import TEST_SEED, Array, rmse
from experiments.experiment import Cell, Experiment, as_options
from experiments.figures import (
    BLACK,
    BLUE,
    DASHED,
    GREEN,
    PANEL_SIZE,
    RED,
    Curve,
    Style,
    draw_curve,
    format_axes,
    legend_below,
    new_figure,
    share_y,
)
from experiments.methods import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BASE, TERMS = 1.5, 24  # frequencies pi BASE^k; the last has 5600 periods on (0, 1), far more than there are points
MARGIN = 0.05  # smoothness by which a function lies inside its Sobolev space
PHASE_SEED = 7

SMOOTHNESS = (0.5, 1.5, 2.5)  # nu
LENGTHSCALE = 0.5
SWEPT_N, FIXED_T = (8, 16, 32, 64, 128), 256
SWEPT_T, FIXED_N = (8, 16, 32, 64, 128, 256, 512), 128
LAMBDA = 0.02  # in units of T^(1/2)
TEST_THETAS = 500
RIDGE, INTERPOLATED, DEFAULT = "kernel given, lambda of the theorem", "kernel given, lambda = 0", "CBQ"
WORST_CASE = "worst case of stage 1"
RATE_STYLES = {
    RIDGE: Style(RED, "o"),
    INTERPOLATED: Style(GREEN, "^"),
    DEFAULT: Style(BLUE, "s"),
    WORST_CASE: Style(BLACK, "v", DASHED, open=True),
}
RATE_IN_T = 0.25


@dataclass(frozen=True, eq=False)
class Weierstrass:
    """g(x) = sum_k b^(-k r) cos(w_k x + phase_k), w_k = pi b^k, r = s + 0.05: in H^s(0, 1), and not in H^(s + 0.05)."""

    s: float
    phase: Array  # (TERMS,)

    @property
    def _frequency(self) -> Array:
        return np.asarray(np.pi * BASE ** np.arange(TERMS, dtype=np.float64))

    @property
    def _weight(self) -> Array:
        return np.asarray(BASE ** (-(self.s + MARGIN) * np.arange(TERMS, dtype=np.float64)))

    def __call__(self, x: Array) -> Array:
        """The values g(x) (n,) at x (n,)."""
        return np.asarray(np.cos(x[:, None] * self._frequency + self.phase) @ self._weight)

    @property
    def integral(self) -> float:
        """The integral of g over (0, 1)."""
        parts = (np.sin(self._frequency + self.phase) - np.sin(self.phase)) / self._frequency
        return float(parts @ self._weight)


@dataclass(frozen=True, eq=False)
class RoughModel:
    """f(x, theta) = g(x) + h(theta), with X uniform on (0, 1) at every theta: I(theta) = E g(X) + h(theta)."""

    g: Weierstrass
    h: Weierstrass

    def integrand(self, x: Array, theta: Array) -> Array:
        """The values f(x, theta) (n,) at x (n, 1) and theta (1,)."""
        return self.g(x[:, 0]) + self.h(theta)

    def family(self, theta: Array) -> Uniform:
        """The measure of x, whose density is bounded from below and above."""
        return Uniform(0.0, 1.0)

    def exact(self, theta: Array) -> Array:
        """The truth I(theta) (M,) at theta (M, 1)."""
        return self.g.integral + self.h(theta[:, 0])


def rough_problem(s_x: float, s_theta: float) -> Problem:
    """f(., theta) at the edge of the Sobolev space of order s_x, and I at that of order s_theta, both on (0, 1)."""
    rng = np.random.default_rng(PHASE_SEED)
    phases = rng.uniform(0, 2 * np.pi, (2, TERMS))
    model = RoughModel(Weierstrass(s_x, phases[0]), Weierstrass(s_theta, phases[1]))
    prior = Uniform(0.0, 1.0)
    return Problem(model.integrand, model.family, prior, exact=model.exact, name=f"rough-{s_x:g}-{s_theta:g}")


def cells(quick: bool) -> list[Cell]:
    """Sweep N at many thetas, and T with many points at each, for each smoothness."""
    swept_n, swept_t = ((4, 8), (4, 8)) if quick else (SWEPT_N, SWEPT_T)
    fixed_t, fixed_n = (6, 8) if quick else (FIXED_T, FIXED_N)
    sizes = [("N", fixed_t, N) for N in swept_n] + [("T", T, fixed_n) for T in swept_t]
    found = []
    for nu in SMOOTHNESS:
        for sweep, T, N in sizes:
            options, seconds = as_options({"sweep": sweep, "nu": nu}), 0.1 + 3e-5 * T * N + 3e-3 * T
            found.append(Cell("rough", T, N, (*RATE_STYLES,), options, seconds=seconds, thetas=TEST_THETAS))
    return found


def run(cell: Cell, seed: int) -> list[Row]:
    """Errors with given kernels, with and without the lambda of the theorem, and of the default; and the worst case.

    The stage that is swept is at the edge of smoothness. The other one is as smooth as the kernels here can be, so
    that its error is small.
    """
    options = dict(cell.options)
    nu, over_n = options["nu"], options["sweep"] == "N"
    nu_x, nu_theta = (nu, max(SMOOTHNESS)) if over_n else (max(SMOOTHNESS), nu)
    problem = rough_problem(nu_x + 0.5, nu_theta + 0.5 if not over_n else 2 * max(SMOOTHNESS))
    samples = problem.collect(cell.T, cell.N, rng=seed, progress=False)
    theta = problem.prior.sample(cell.thetas, TEST_SEED)
    truth = problem.exact(theta)
    mean, variance = stage_one(Matern(nu_x, LENGTHSCALE), np.asarray(samples.x), np.asarray(samples.f))
    kernel = Matern(nu_theta, LENGTHSCALE)
    estimates = {
        RIDGE: stage_two(kernel, samples.theta, mean, variance, LAMBDA * np.sqrt(cell.T), theta),
        INTERPOLATED: stage_two(kernel, samples.theta, mean, variance, 0.0, theta),
        DEFAULT: np.asarray(METHODS["CBQ"]().fit(samples).predict(theta)),
    }
    errors = {name: rmse(estimate, truth) for name, estimate in estimates.items()}
    worst = {WORST_CASE: float(np.sqrt(np.median(variance)))} if over_n else {}
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
    return np.sum(w_mu * w_y, axis=-1), np.maximum(variance, 0.0)  # rounding can make it negative for large N


def stage_two(kernel: Matern, theta: Array, mean: Array, variance: Array, noise: float, new: Array) -> Array:
    """k(new, theta) (k(theta, theta) + diag(variance + noise))^-1 mean, with unit amplitude: (M,)."""
    factor = factor_gram(kernel, theta, nugget=variance + noise)
    both = factor.solve_lower(np.column_stack([mean, kernel(theta, new)]))
    return np.asarray(both[:, 1:].T @ both[:, 0])


def exponent(sweep: str, nu: float) -> float:
    """The exponent of the theorem: the error falls as N^-s_X or as T^-1/4."""
    return nu + 0.5 if sweep == "N" else RATE_IN_T


def draw(table: ResultTable) -> Figure:
    """Sweeps over N above and over T below; dotted lines have the slopes of the theorem."""
    figure = new_figure(PANEL_SIZE[0] * len(SMOOTHNESS), PANEL_SIZE[1] * 2 + 0.7)
    axes = figure.subplots(2, len(SMOOTHNESS), squeeze=False)
    for across, sweep in zip(axes, ("N", "T"), strict=True):
        for ax, nu in zip(across, SMOOTHNESS, strict=True):
            _draw_sweep(ax, table.where(sweep=sweep, nu=nu), sweep, nu)
        share_y(list(across))
    legend_below(figure, [ax for across in axes for ax in across], 3)
    return figure


def _draw_sweep(ax: Axes, rows: ResultTable, sweep: str, nu: float) -> None:
    ax.set_visible(len(rows) > 0)
    if not len(rows):
        return
    for name, style in RATE_STYLES.items():
        draw_curve(ax, Curve(name, rows.where(method=name), style), sweep, "rmse")
    values = rows.distinct(sweep)
    anchor = WORST_CASE if sweep == "N" else RIDGE
    start = rows.middle("rmse", method=anchor, **{sweep: values[0]})
    rate = exponent(sweep, nu)
    line = [1.3 * start * (value / values[0]) ** -rate for value in values]
    ax.plot(values, line, color="0.45", ls=":", lw=1.4, label="slope of the theorem")
    ax.set_xscale("log")
    ax.set_yscale("log")
    power = f"N^{{-{rate:g}}}" if sweep == "N" else "T^{-1/4}"
    fixed = "T" if sweep == "N" else "N"
    stage = "X" if sweep == "N" else r"\Theta"
    title = rf"$\nu_{{{stage}}} = {int(2 * nu)}/2$,  ${fixed} = {rows.rows[0][fixed]}$:  ${power}$"
    ax.set_title(title, fontsize="medium")
    ax.set_xlabel(f"${sweep}$")
    ax.set_ylabel("RMSE, or worst case" if sweep == "N" else "RMSE")
    format_axes(ax, values)


def verdict(table: ResultTable) -> str:
    """Measured slopes beside the exponents of the theorem."""
    parts = []
    for sweep in ("N", "T"):
        for nu in SMOOTHNESS:
            rows = table.where(sweep=sweep, nu=nu)
            slopes = ", ".join(
                f"{m} {slope_text(slope_of_medians(rows, sweep, method=m))}" for m in rows.distinct("method")
            )
            parts.append(f"nu = {nu:g}, in {sweep} (theorem {-exponent(sweep, nu):g}): {slopes}")
    return f"slopes: {'; '.join(parts)}"


EXPERIMENT = Experiment(
    "rates",
    "Rates in N and T for Matern kernels on a uniform domain, beside the theorem's",
    "the error is O(N^(-s_X/d + eps) + T^(-1/4)), so that N matters more than T",
    cells,
    run,
    draw,
    verdict,
    version=2,
)
