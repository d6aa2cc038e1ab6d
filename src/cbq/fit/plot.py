"""Figures of I over theta: a line with bands for p = 1, maps for p = 2, slices for more coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cbq.common.arrays import Array
from cbq.common.checks import between_0_and_1, flag, is_whole, shown
from cbq.fit.answers import Truth, true_values
from cbq.fit.base import Fit
from cbq.fit.labels import Labels
from cbq.fit.plot_lines import Curve, draw_into, lines_figure, slices_figure
from cbq.fit.plot_maps import maps_figure
from cbq.fit.styles import require_axes
from cbq.fit.theta_grids import regular_grid, theta_prior, theta_range
from cbq.measures import Measure
from cbq.samples.names import named_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_OUTPUTS, MAX_SLICES = 12, 12  # panels of a figure; others are counted below it


def plot_fit(
    fit: Fit,
    theta: npt.ArrayLike | None = None,
    *,
    prior: Any = None,
    output: int | None = None,
    level: float = 0.95,
    truth: Truth | None = None,
    half_width: bool | None = None,
    at: npt.ArrayLike | None = None,
    ax: Axes | None = None,
    points: int | None = None,
    band: bool = False,
    xlabel: str | None = None,
    ylabel: str | None = None,
    title: str | None = None,
) -> Figure:
    """A figure of the predictive distribution of I over theta.

    For p = 1 the mean is a line, with bands of intervals at `level` and at 50%. Where the band is thinner than the
    line, a second panel shows the half-width of the interval, and the error, if the truth is known. Dots with error
    bars are estimates from the points of each theta alone: those of stage 1, or plain averages for fits without a
    stage 1. For p = 2 there are maps of the mean and of the half-width, with dots at the observed thetas. For more
    coordinates there is a slice along each of them, through the point `at`. Where f failed at more than a few points,
    the background is hatched, and dots of maps are orange; where thetas are beyond the observed ones, the background is
    hatched with crosses, and maps have orange ones. No window opens and no setting of matplotlib changes: use
    `figure.savefig(path)`, or draw into axes of your own with `ax`.

    Parameters
    ----------
    theta : where to draw, (M, p), or (M,) for p = 1; by default a regular grid over the range of the prior, if it is
        given, and of the observed thetas. For p = 2, thetas that do not form a grid are drawn as single squares.
    prior : the distribution of theta: the figure covers its central range, of 99%.
    output : the index of the output to draw; None draws all, a panel for each.
    level : the level of the intervals of the wide band, of the half-width and of the error bars.
    truth : the true I, to compare with: a function of theta (M, p), or values at `theta`. For p = 1 it is a dashed
        line, for p = 2 a map of the error.
    half_width : for p = 1, whether to draw the panel of the half-width; by default, where the band cannot be seen.
    at : for p > 2, the theta (p,) that all slices pass through; by default the median of the observed ones.
    ax : axes to draw into, for p = 1 and one output.
    points : the number of grid points along each coordinate (default: 200 for lines, 80 for maps).
    band : for p = 1, whether to draw the ends of the simultaneous band at `level`, `fit.band`, as dotted lines.
    xlabel, ylabel, title : texts of your own in place of names.
    """
    labels, outputs, level = Labels.of(xlabel=xlabel, ylabel=ylabel, title=title), _outputs(fit, output), _level(level)
    panel = None if half_width is None else flag(half_width, "half_width")
    _check_request(fit, outputs, ax, band=flag(band, "band"), at=at, theta=theta, panel=panel)
    measure = None if prior is None else theta_prior(prior, fit.p)
    shown_outputs, rest = outputs[:MAX_OUTPUTS], outputs[MAX_OUTPUTS:]
    note = f"{len(rest)} more outputs are not drawn: choose one by output={rest[0]}" if rest else ""
    if fit.p > 2:
        curves = _slices(fit, _centre(fit, at), measure, 200 if points is None else points, truth, outputs, level)
        left = f"{fit.p - len(curves)} more coordinates are not drawn" * (fit.p > len(curves))
        return slices_figure(curves, shown_outputs, labels, [note, left])
    usual = 80 if fit.p == 2 else 200
    thetas = (
        regular_grid(fit.theta, measure, usual if points is None else points) if theta is None else fit._thetas(theta)
    )
    true = None if truth is None else true_values(truth, thetas, outputs, fit.names, given=theta is not None)
    if fit.p == 2:
        return maps_figure(fit, thetas, shown_outputs, true, level, labels, [note])
    curve = Curve(fit, thetas, 0, true, level, band=band)
    if ax is not None:
        return draw_into(ax, curve, outputs[0], labels)
    return lines_figure(curve, shown_outputs, labels, panel, [note])


def _check_request(
    fit: Fit, outputs: list[int], ax: Any, *, band: bool, at: Any, theta: Any, panel: bool | None
) -> None:
    """Raise if what is asked for does not fit together."""
    if fit.p > 2 and theta is not None:
        raise ValueError(
            f"theta is for one or two coordinates, but this fit has p = {fit.p}: omit theta for slices along each of "
            f"them, through the point that at=... names, or draw the columns of fit.to_frame(theta)."
        )
    if at is not None and fit.p <= 2:
        raise ValueError(f"at is for slices, for p > 2, but this fit has p = {fit.p}: omit at.")
    if ax is not None and (fit.p > 1 or len(outputs) > 1):
        remedy = f"omit ax for p = {fit.p}" if fit.p > 1 else f"choose one of {len(outputs)} outputs, as with output=0"
        raise ValueError(f"ax takes a single panel, for p = 1 and one output: {remedy}.")
    if band and fit.p > 1:
        raise ValueError(f"band=True draws lines, for p = 1, but this fit has p = {fit.p}: use fit.band(theta).")
    if panel and (fit.p > 1 or ax is not None):
        raise ValueError("half_width=True adds a panel to a figure of its own, for p = 1: omit half_width, or ax.")
    if ax is not None:
        require_axes(ax)


def _centre(fit: Fit, at: Any) -> Array:
    """The theta (p,) that slices pass through."""
    if at is None:
        return np.asarray(np.median(fit.theta, axis=0))
    row = fit.names.ordered("theta", named_row(at), "at")
    found = row if np.ndim(row) == 2 else [row]
    if np.ndim(found) != 2 or len(found) != 1:
        raise ValueError(f"at must be one theta of p = {fit.p} coordinates, but it is {shown(at)}.")
    return np.asarray(fit._thetas(found)[0])


def _slices(
    fit: Fit,
    centre: Array,
    prior: Measure | None,
    points: int,
    truth: Truth | None,
    outputs: list[int],
    level: float,
) -> list[Curve]:
    """A curve along each coordinate through the centre (p,)."""
    ends = theta_range(fit.theta, prior)
    found = []
    for j in range(min(fit.p, MAX_SLICES)):
        axis = regular_grid(ends[:, [j]], None, points)[:, 0]
        axis = axis[(axis >= ends[0, j]) & (axis <= ends[1, j])]
        thetas = np.tile(centre, (len(axis), 1))
        thetas[:, j] = axis
        true = None if truth is None else true_values(truth, thetas, outputs, fit.names, given=False)
        found.append(Curve(fit, thetas, j, true, level))
    return found


def _level(level: Any) -> float:
    return between_0_and_1(level, "level")


def _outputs(fit: Fit, output: int | None) -> list[int]:
    """The indices of the outputs to draw."""
    known = range(fit.C or 1)
    if output is None:
        return list(known)
    if not is_whole(output, 0, len(known) - 1):
        choices = "0" if len(known) == 1 else f"one of 0 to {len(known) - 1}"
        raise ValueError(f"output must be {choices}, or None for all, but it is {shown(output)}.")
    return [int(output)]
