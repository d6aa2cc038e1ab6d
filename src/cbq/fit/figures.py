"""Figures of I over theta: a curve with bands for p = 1, maps for p = 2, slices for more coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq.common import Array, between_0_and_1, flag, is_whole, shown
from cbq.fit.answer_grid import AnswerGrid, as_columns
from cbq.fit.answers import Truth, true_values
from cbq.fit.base import FEW, Fit
from cbq.fit.naming import expectation_labels, slope_names, theta_labels
from cbq.fit.theta_grids import mesh, regular_grid, theta_range
from cbq.fit.thetas import theta_prior
from cbq.measures import Measure
from cbq.plotting import (
    INK,
    ORANGE,
    Axis,
    Band,
    Dots,
    Figure,
    Heat,
    Label,
    Line,
    Panel,
    Rule,
    Zone,
    draw,
    plain,
    spans_decades,
)
from cbq.samples import named_row

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

MAX_OUTPUTS, MAX_SLICES = 12, 12  # panels of a figure; others are counted below it
LINE_SIZE, MAP_SIZE, SLICE_SIZE = (6.4, 4.0), (4.6, 3.7), (3.1, 2.5)  # of a panel, inches
MANY_OUTPUTS, SLICE_COLUMNS = 3, 3  # more outputs have two columns of panels
ROW_HEIGHT, PANEL_HEIGHT = 0.65, 0.38  # of a row among several, and of a panel of the half-width
MANY_THETAS = 60  # above this number, their points are smaller
MEAN_WIDTH = 1.8  # of the line, in points
VISIBLE = 2.0  # line widths that a band must have to be seen behind the line
HIDDEN_SHARE = 0.2  # of the thetas, at which the band cannot be seen, from which on there is a second panel
FLOOR = 0.02  # errors below this part of the smallest half-width run out of a logarithmic panel


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
    upcoming: npt.ArrayLike | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    title: str | None = None,
    gradient: bool = False,
) -> matplotlib.figure.Figure:
    """A figure of the predictive distribution of I over theta.

    For p = 1 the mean is a line, with bands of intervals at `level` and at 50%. Where the band is thinner than the
    line, a second panel shows the half-width of the interval, and the error, if the truth is known. Dots with error
    bars are estimates from the points of each theta alone: from stage 1, or plain averages for fits without a stage 1.
    For p = 2 there are maps of the mean and of the half-width, with dots at the observed thetas. For more coordinates
    there is a slice along each of them, through the point `at`. Where f failed at more than a few points, the
    background is hatched, and dots of maps are orange; where thetas are beyond the observed ones, the background is
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
    upcoming : for p = 1 and 2, thetas (n, p) of the next runs, to mark: along the lower edge, or on the maps.
    xlabel, ylabel, title : texts of your own in place of names.
    gradient : whether to draw slopes dI/dtheta instead: each along its own coordinate, through the point `at`.
    """
    every, level = _outputs(fit, output), between_0_and_1(level, "level")
    panel = None if half_width is None else flag(half_width, "half_width")
    _check_request(
        fit, every, ax, band=flag(band, "band"), at=at, theta=theta, panel=panel, gradient=flag(gradient, "gradient")
    )
    measure = None if prior is None else theta_prior(prior, fit.p)
    outputs, rest = every[:MAX_OUTPUTS], every[MAX_OUTPUTS:]
    notes = [_failed_line(fit)]
    notes += [f"{len(rest)} more outputs are not drawn: choose one by output={rest[0]}"] if rest else []
    following = np.empty((0, fit.p)) if upcoming is None else _upcoming(fit, upcoming)
    if fit.p > 2 or gradient:
        centre, fine = _centre(fit, at), 200 if points is None else points
        figure = (
            _sliced(fit, slope_panels(fit, measure, level, fine, centre, outputs), "", notes)
            if gradient
            else _slices(fit, centre, measure, fine, truth, outputs, level, notes)
        )
        return draw(figure, title=title, xlabel=xlabel, ylabel=ylabel)
    usual = 80 if fit.p == 2 else 200
    thetas = (
        regular_grid(fit.theta, measure, usual if points is None else points) if theta is None else fit._thetas(theta)
    )
    true = None if truth is None else true_values(truth, thetas, outputs, fit.names, given=theta is not None)
    if fit.p == 2:
        figure = _maps(AnswerGrid.at(fit, thetas, level, bare=False), outputs, true, following, notes)
        return draw(figure, title=title, xlabel=xlabel, ylabel=ylabel)
    if len(thetas) < 2:
        raise ValueError(
            "plot draws a line over two thetas or more, but there is one: use fit.interval for that theta."
        )
    order = np.argsort(thetas[:, 0], kind="stable")
    answers = AnswerGrid.at(fit, thetas[order], level, bare=False)
    panel = False if ax is not None else panel
    figure = _curves(answers, outputs, None if true is None else true[order], panel, following, notes, band=band)
    return draw(figure, ax, title=title, xlabel=xlabel, ylabel=ylabel)


# Panels, which reports draw as well


def curve_panel(
    answers: AnswerGrid, c: int, true: Array | None = None, *, j: int = 0, x: Axis | None = None, band: bool = False
) -> Panel:
    """Output c along coordinate j of thetas that rise in it: the mean, intervals, and estimates at the nodes."""
    fit, level, theta = answers.fit, answers.level, answers.theta[:, j]
    interval, ends = f"{100 * level:.4g}% interval", (answers.low[:, c], answers.high[:, c])
    marks: list[Any] = []
    if answers.is_observed:
        marks.append(Dots(theta, answers.mean[:, c], *ends, f"mean with {interval}"))
    else:
        marks.append(Line(theta, answers.mean[:, c], "mean", width=MEAN_WIDTH))
        known = not np.any(np.isnan(answers.low))
        if known:
            marks.append(Band(theta, *ends, interval))
        if known and level > 0.5:
            low, high = (as_columns(end)[:, c] for end in fit.interval(answers.theta, 0.5))
            marks.append(Band(theta, low, high, "50% interval", opacity=0.28))
        band_ends = [as_columns(end)[:, c] for end in fit.band(answers.theta, level)] if band else []
        label = f"{100 * level:.4g}% band"
        marks += [Line(theta, end, label, dash="dotted", width=1.0) for end in band_ends]
        marks += _zones(answers, theta)
        marks += _nodes(fit, c, theta, level)
    if true is not None:
        marks.append(Line(theta, true[:, c], "truth", ORANGE, "dashed", width=1.5))
    return Panel(marks, x or Axis(theta_labels(fit)[j]), Axis(expectation_labels(fit)[c]))


def half_width_panel(answers: AnswerGrid, c: int, true: Array | None = None, *, x: Axis | None = None) -> Panel:
    """The half-width of the intervals of output c and, given the truth, the size of the error."""
    theta, width = answers.theta[:, 0], answers.half_width[:, c]
    marks: list[Any] = [Line(theta, width, f"half-width of {100 * answers.level:.4g}% interval", width=1.4)]
    marks.append(Band(theta, np.zeros_like(width), width))
    log, top = spans_decades(width), float(np.max(width))
    bottom = float(np.min(width[width > 0])) if log else 0.0
    if true is not None:
        error = np.abs(answers.mean - true)[:, c]
        marks.append(Line(theta, error, "|mean - truth|", ORANGE, "dashed", width=1.3))
        top, bottom = max(top, float(np.max(error))), bottom * FLOOR ** bool(np.min(error) < bottom)
    ends = (bottom / 1.5, top * 1.5) if log else (0.0, 1.08 * top or 1.0)
    limits = ends if np.all(np.isfinite(ends)) else None
    return Panel(marks, x or Axis(theta_labels(answers.fit)[0]), Axis("half-width", log, limits=limits, own=False))


def slope_panel(fit: Fit, theta: Array, c: int, j: int, level: float) -> Panel:
    """The slope of output c along coordinate j of thetas (M, p) that rise in it, with intervals."""
    x = theta[:, j]
    mean, low, high = (as_columns(each[:, j])[:, c] for each in fit.gradient(theta, level=level))
    marks = [
        Line(x, mean, "slope", width=MEAN_WIDTH),
        Band(x, low, high, f"{100 * level:.4g}% interval"),
        Rule(0.0, "y"),
    ]
    return Panel(marks, Axis(theta_labels(fit)[j]), Axis(plain(slope_names(fit)[j][c])))


def slope_panels(
    fit: Fit,
    prior: Measure | None,
    level: float,
    points: int,
    centre: Array | None = None,
    outputs: Sequence[int] | None = None,
) -> list[list[Panel]]:
    """For each output a panel for the slope along each coordinate, through the centre (p,)."""
    lines = _lines_through(fit, _centre(fit, None) if centre is None else centre, prior, points)
    every = range(min(fit.C or 1, MAX_OUTPUTS)) if outputs is None else outputs
    return [[slope_panel(fit, thetas, c, j, level) for j, thetas in enumerate(lines)] for c in every]


def map_panels(answers: AnswerGrid, c: int, true: Array | None = None) -> list[Panel]:
    """Maps of the mean of output c, of the half-width of its interval and, given the truth, of its error."""
    fit, name, width = answers.fit, expectation_labels(answers.fit)[c], answers.half_width[:, c]
    maps = [(f"mean of {name}", _heat(answers.theta, answers.mean[:, c]))]
    if answers.has_intervals:
        log = bool(np.min(width) > 0) and spans_decades(width)
        heat = _heat(answers.theta, width, palette="cividis", log=log)
        maps.append((f"half-width of the {100 * answers.level:.4g}% interval of {name}", heat))
    if true is not None:
        error = answers.mean[:, c] - true[:, c]
        maps.append((f"error of the mean of {name}", _heat(answers.theta, error, palette="PuOr", centred=True)))
    far: Any = answers.theta[answers.beyond].T
    small = len(fit.theta) > MANY_THETAS
    failed = fit._marks(fit.theta).get("failed", np.zeros(len(fit.theta))) > FEW
    dots: list[Any] = [Dots(far[0], far[1], colour=ORANGE, marker="x", size=3.5, opacity=0.5)] if far.size else []
    kinds: Any = ((fit.theta[~failed], INK, "white"), (fit.theta[failed], ORANGE, "solid"))
    for place, colour, fill in kinds:
        if len(place):
            dots.append(Dots(place[:, 0], place[:, 1], colour=colour, size=2.5 if small else 4.0, fill=fill))
    x, y = (Axis(label) for label in theta_labels(fit))
    return [Panel([heat, *dots], x, y, title) for title, heat in maps]


def _heat(theta: Array, values: Array, **options: Any) -> Heat:
    """Values (M,) at thetas (M, 2): cells if the thetas form a grid, single places otherwise."""
    x, y = np.unique(theta[:, 0]), np.unique(theta[:, 1])
    order = np.lexsort(theta.T)  # by theta_1, then by theta_0
    grid = len(theta) == len(x) * len(y) and np.array_equal(theta[order], mesh(x, y))
    if grid and min(len(x), len(y)) > 1:
        return Heat(x, y, values[order].reshape(len(y), len(x)), **options)
    return Heat(theta[:, 0], theta[:, 1], values, **options)


def _zones(answers: AnswerGrid, x: Array) -> list[Zone]:
    failed = answers.fit._marks(answers.theta).get("failed", np.zeros(len(x))) > FEW
    beyond = Zone.where(x, answers.beyond, "beyond the observed thetas", "xxx")
    return [*Zone.where(x, failed, f"f failed at more than {FEW:.0%}", "///"), *beyond]


def _nodes(fit: Fit, c: int, x: Array, level: float) -> list[Dots]:
    """Estimates from the points of each theta alone, within the range of the curve; none on slices."""
    label, mean, std = _single_theta_estimates(fit)
    node = fit.theta[: len(mean), 0]
    inside = (node >= x[0]) & (node <= x[-1]) & (fit.p == 1)
    if not np.any(inside):
        return []
    reach, dot = ndtri(0.5 * (1 + level)) * std[inside, c], mean[inside, c]
    many = np.sum(inside) > MANY_THETAS
    style: dict[str, Any] = {"size": 2.0, "opacity": 0.5} if many else {"size": 3.6}
    return [Dots(node[inside], dot, dot - reach, dot + reach, label, **style)]


def _single_theta_estimates(fit: Fit) -> tuple[str, Array, Array]:
    """A label, estimates from the points of each observed theta alone, and their standard errors, (T, C) each.

    The arrays are (0, C) for fits that do not keep such estimates.
    """
    stage1, averages = (getattr(fit, name, None) for name in ("stage1", "averages"))
    if stage1 is not None:
        return "stage 1", as_columns(stage1.mean), as_columns(stage1.std)
    if averages is not None:
        return "averages", averages.mean, np.sqrt(averages.variance)
    none = np.empty((0, fit.C or 1))
    return "", none, none


# Figures


def _curves(
    answers: AnswerGrid,
    outputs: Sequence[int],
    true: Array | None,
    wide: bool | None,
    upcoming: Array,
    notes: list[str],
    *,
    band: bool,
) -> Figure:
    """For p = 1: a panel for each output, and one below it for its half-width, if `wide`, or where it is needed."""
    columns = 1 if len(outputs) <= MANY_OUTPUTS else 2
    height = LINE_SIZE[1] * (1.0 if len(outputs) <= columns else ROW_HEIGHT)
    panels = [curve_panel(answers, c, true, band=band) for c in outputs]
    if wide is None:
        wide = any(_hides_band(answers, c, panel, 0.8 * height) for c, panel in zip(outputs, panels, strict=True))
    lower = [half_width_panel(answers, c, true) for c in outputs] if wide else panels
    lower[-columns:] = [_with_runs(panel, upcoming) for panel in lower[-columns:]]
    rows = _in_rows(panels, columns)
    if wide:
        rows = [row for pair in zip(rows, _in_rows(lower, columns), strict=True) for row in pair]
    heights = [1.0, PANEL_HEIGHT] * (len(rows) // 2) if wide else [1.0] * len(rows)
    size = (LINE_SIZE[0] * (1.0 if columns == 1 else 1.5), height * sum(heights))
    return Figure(rows, size, heights, "x", notes)


def _hides_band(answers: AnswerGrid, c: int, panel: Panel, height: float) -> bool:
    """Whether the band of output c is too thin to be seen at many thetas, in a panel of this height in inches."""
    low, high = panel.limits[1]
    points = 2 * answers.half_width[:, c] / (high - low) * 72 * height
    return bool(np.mean(points < VISIBLE * MEAN_WIDTH) > HIDDEN_SHARE)


def _with_runs(panel: Panel, upcoming: Array) -> Panel:
    """A panel with the thetas (n, 1) of upcoming runs along its lower edge."""
    if not len(upcoming):
        return panel
    (low, high), x = panel.limits[0], upcoming[:, 0]
    x = x[(x >= low) & (x <= high)]
    points = Dots(x, np.full(len(x), -np.inf), marker="^", size=5, colour=ORANGE)
    return replace(panel, marks=[*panel.marks, points, Label(-np.inf, -np.inf, "\u25b2 next runs", 1, 1, ORANGE)])


def _maps(answers: AnswerGrid, outputs: Sequence[int], true: Array | None, upcoming: Array, notes: list[str]) -> Figure:
    """Maps with a row for each output."""
    rows = [map_panels(answers, c, true) for c in outputs]
    runs = [Dots(upcoming[:, 0], upcoming[:, 1], marker="^", size=4, colour=ORANGE)] if len(upcoming) else []
    rows = [[replace(panel, marks=[*panel.marks, *runs]) for panel in row] for row in rows]
    crosses = ["orange crosses: thetas beyond the observed ones"] if np.any(answers.beyond) else []
    crosses += ["orange triangles: next runs"] if runs else []
    size = (MAP_SIZE[0] * len(rows[0]), MAP_SIZE[1] * len(rows))
    return Figure(rows, size, None, "xy", [*notes, *crosses])


def _slices(
    fit: Fit,
    centre: Array,
    prior: Measure | None,
    points: int,
    truth: Truth | None,
    outputs: list[int],
    level: float,
    notes: list[str],
) -> Figure:
    """For p > 2: for each output a panel along each coordinate through the centre (p,), on one scale."""
    slices = []
    for thetas in _lines_through(fit, centre, prior, points):
        true = None if truth is None else true_values(truth, thetas, outputs, fit.names, given=False)
        slices.append((AnswerGrid.at(fit, thetas, level, bare=False), true))
    rows = []
    for c in outputs:
        panels = [curve_panel(answers, c, true, j=j) for j, (answers, true) in enumerate(slices)]
        lows, highs = zip(*(panel.limits[1] for panel in panels), strict=True)
        y = replace(panels[0].y, limits=(min(lows), max(highs)))
        rows.append([replace(panel, y=y) for panel in panels])
    return _sliced(fit, rows, "y", notes)


def _lines_through(fit: Fit, centre: Array, prior: Measure | None, points: int) -> list[Array]:
    """Thetas (m, p) along each of the first coordinates, within the range of figures, through the centre (p,)."""
    ends, found = theta_range(fit.theta, prior), []
    for j in range(min(fit.p, MAX_SLICES)):
        axis = regular_grid(ends[:, [j]], None, points)[:, 0]
        axis = axis[(axis >= ends[0, j]) & (axis <= ends[1, j])]
        thetas = np.tile(centre, (len(axis), 1))
        thetas[:, j] = axis
        found.append(thetas)
    return found


def _sliced(fit: Fit, rows: list[list[Panel]], share: Any, notes: list[str]) -> Figure:
    """A figure of panels along the coordinates, a row for each output, or several rows if there are many."""
    drawn = len(rows[0])
    columns, size = min(drawn, SLICE_COLUMNS), SLICE_SIZE if fit.p > 1 else LINE_SIZE
    broken = [each for row in rows for each in _in_rows(row, columns)]
    left = [f"{fit.p - drawn} more coordinates are not drawn"] if fit.p > drawn else []
    return Figure(broken, (size[0] * columns, size[1] * len(broken)), None, share, [*notes, *left])


def _in_rows(panels: Sequence[Panel], columns: int) -> list[list[Panel | None]]:
    filled = [*panels, *[None] * (-len(panels) % columns)]
    return [filled[i : i + columns] for i in range(0, len(filled), columns)]


def _failed_line(fit: Fit) -> str:
    """A line about the points at which f failed, if it did."""
    if fit.failures is None:
        return ""
    return f"f failed at {fit.failures.share:.1%} of the points: I is conditional on {fit.conditional_on}"


# Requests


def _check_request(
    fit: Fit, outputs: list[int], ax: Any, *, band: bool, at: Any, theta: Any, panel: bool | None, gradient: bool
) -> None:
    """Raise if arguments do not fit together."""
    if gradient and (theta is not None or ax is not None or band or panel):
        raise ValueError("gradient=True draws slopes through the point `at`: omit theta, ax, band and half_width.")
    if fit.p > 2 and theta is not None:
        raise ValueError(
            f"theta is for one or two coordinates, but this fit has p = {fit.p}: omit theta for slices along each of "
            f"them, through the point that at=... names, or draw the columns of fit.to_frame(theta)."
        )
    if at is not None and fit.p <= 2 and not gradient:
        raise ValueError(f"at is for slices, for p > 2, but this fit has p = {fit.p}: omit at.")
    if ax is not None and (fit.p > 1 or len(outputs) > 1):
        remedy = f"omit ax for p = {fit.p}" if fit.p > 1 else f"choose one of {len(outputs)} outputs, as with output=0"
        raise ValueError(f"ax takes a single panel, for p = 1 and one output: {remedy}.")
    if band and fit.p > 1:
        raise ValueError(f"band=True draws lines, for p = 1, but this fit has p = {fit.p}: use fit.band(theta).")
    if panel and (fit.p > 1 or ax is not None):
        raise ValueError("half_width=True adds a panel below the axes, for p = 1: omit half_width, or ax.")


def _upcoming(fit: Fit, upcoming: Any) -> Array:
    """The thetas (n, p) of further runs."""
    try:
        return fit._thetas(upcoming)
    except (TypeError, ValueError, MemoryError) as error:
        raise type(error)(f"upcoming must be thetas of further runs: {error}") from error


def _centre(fit: Fit, at: Any) -> Array:
    """The theta (p,) that slices pass through."""
    if at is None:
        return np.asarray(np.median(fit.theta, axis=0))
    row = fit.names.ordered("theta", named_row(at), "at")
    found = row if np.ndim(row) == 2 else [row]
    if np.ndim(found) != 2 or len(found) != 1:
        raise ValueError(f"at must be one theta of p = {fit.p} coordinates, but it is {shown(at)}.")
    return np.asarray(fit._thetas(found)[0])


def _outputs(fit: Fit, output: int | None) -> list[int]:
    """The indices of the outputs to draw."""
    known = range(fit.C or 1)
    if output is None:
        return list(known)
    if not is_whole(output, 0, len(known) - 1):
        choices = "0" if len(known) == 1 else f"one of 0 to {len(known) - 1}"
        raise ValueError(f"output must be {choices}, or None for all, but it is {shown(output)}.")
    return [int(output)]
