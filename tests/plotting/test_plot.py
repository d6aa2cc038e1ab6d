"""Figures of fits: the drawn values are those of the fit, at every size, without a window or global state."""

from __future__ import annotations

import io
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.figure import Figure
from scipy.special import ndtri

import cbq
from cbq.fit.base import Fit
from cbq.fit.predictive import PredictiveDistribution
from refusals import refusals


class Known(Fit):
    """A fit without a stage 1 whose output c has mean (c + 1) (theta_0 + theta_1 + ...)."""

    def __init__(self, theta, C=None):
        self.theta, self.C = np.array(theta, dtype=float), C

    def _predictives(self, theta, *, joint):
        assert not joint
        mean, variance = np.sum(theta, axis=1)[None], 0.01 * (1 + theta[:, 0] ** 2)[None]
        return [PredictiveDistribution((c + 1) * mean, variance, np.inf) for c in range(self.C or 1)]

    def _description(self):
        return ["known"]


LINE = Known([[1.0], [2.0], [4.0]])
PAIR = Known([[1.0], [2.0], [4.0]], C=2)
PLANE = Known([[1.0, 0.0], [2.0, 5.0], [3.0, 1.0]])
SPACE = Known(np.ones((4, 3)))


@pytest.fixture(scope="module")
def butterfly():
    problem = cbq.problems.get("butterfly")
    return cbq.CBQ().fit(problem.collect(8, 10, rng=0)), problem


def png(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    assert len(file.getvalue()) > 2000
    return file.getvalue()


def drawn(ax, label):
    """The x and y of the line with that label."""
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return line.get_data()


def band(ax, label):
    """The x and the two edges of the band with that label."""
    (found,) = [each for each in ax.collections if isinstance(each, PolyCollection) and each.get_label() == label]
    vertices = found.get_paths()[0].vertices
    x = np.unique(vertices[:, 0])
    low, high = (np.array([f(vertices[vertices[:, 0] == each, 1]) for each in x]) for f in (np.min, np.max))
    return x, low, high


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# p = 1


def test_the_line_and_the_bands_show_the_fit(butterfly):
    fit, problem = butterfly
    theta = np.linspace(fit.theta.min(), fit.theta.max(), 40)
    figure = fit.plot(theta, level=0.9, truth=problem.exact)
    assert isinstance(figure, Figure)
    (ax,) = figure.axes
    np.testing.assert_array_equal(drawn(ax, "mean"), [theta, fit.predict(theta)])
    np.testing.assert_array_equal(drawn(ax, "truth"), [theta, problem.exact(theta[:, None])])
    for level, label in ((0.9, "90% interval"), (0.5, "50% interval")):
        np.testing.assert_array_equal(band(ax, label), [theta, *fit.interval(theta, level)])
    assert labels(ax) == ["mean", "90% interval", "50% interval", "stage 1", "truth"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == (r"$\theta$", r"$I(\theta)$")
    png(figure)


def test_dots_and_bars_show_stage_1(butterfly):
    fit, _ = butterfly
    (ax,) = fit.plot(level=0.8).axes
    dots, _, (bars,) = ax.containers[0]
    np.testing.assert_array_equal(dots.get_data(), [fit.theta[:, 0], fit.stage1.mean])
    half = np.array([np.diff(segment[:, 1])[0] for segment in bars.get_segments()]) / 2
    np.testing.assert_allclose(half, ndtri(0.9) * fit.stage1.std, rtol=1e-10)


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
def test_dots_outside_the_drawn_thetas_are_left_out(butterfly):
    fit, _ = butterfly
    (ax,) = fit.plot(np.linspace(90, 110, 5)).axes
    x = ax.containers[0][0].get_xdata()
    assert 0 < len(x) < len(fit.theta)
    assert ax.get_xlim() == (90, 110)
    outside = np.linspace(1000, 1100, 5)
    assert labels(fit.plot(outside).axes[0]) == ["mean", "95% interval", "50% interval", "beyond the observed thetas"]


def test_the_grid_covers_the_observed_thetas():
    x, _ = drawn(LINE.plot(points=30).axes[0], "mean")
    assert x[0] < 1
    assert x[-1] > 4
    assert {1.0, 2.0, 4.0} <= set(x)
    assert 30 <= len(x) <= 33


@pytest.mark.parametrize("theta", [[0.01, 1.0, 9.0], [5.0], [1e-300, 1e-299]])
def test_the_grid_is_positive_if_the_thetas_are(theta):
    x, _ = drawn(Known(np.array(theta)[:, None]).plot().axes[0], "mean")
    assert 0 < x[0] < theta[0]
    assert x[-1] > theta[-1]


@pytest.mark.parametrize("theta", [[0.0], [-3.0, 2.0], [-1.0], [0.0, 1.0]])
def test_the_grid_reaches_beyond_other_thetas_on_both_sides(theta):
    x, _ = drawn(Known(np.array(theta)[:, None]).plot().axes[0], "mean")
    assert x[0] < theta[0]
    assert x[-1] > theta[-1]


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_a_fit_on_log_theta_can_be_drawn_near_zero():
    rng = np.random.default_rng(0)
    samples = cbq.Samples(
        [0.01, 1.0, 5.0, 9.0], rng.normal(size=(4, 6)), rng.normal(size=(4, 6)), cbq.measures.Gaussian(0, 1)
    )
    png(cbq.CBQ(log_theta=True).fit(samples).plot())


def test_thetas_are_drawn_in_order_and_their_truth_with_them():
    theta = np.array([3.0, 1.0, 2.0])
    (ax,) = LINE.plot(theta, truth=10 * theta).axes
    np.testing.assert_array_equal(drawn(ax, "mean"), [[1, 2, 3], [1, 2, 3]])
    np.testing.assert_array_equal(drawn(ax, "truth"), [[1, 2, 3], [10, 20, 30]])


def test_a_fit_without_single_theta_estimates_has_no_dots():
    (ax,) = LINE.plot().axes
    assert labels(ax) == ["mean", "95% interval", "50% interval"]
    assert not ax.containers


def test_there_is_one_band_up_to_level_one_half():
    assert labels(LINE.plot(level=0.5).axes[0]) == ["mean", "50% interval"]
    assert labels(LINE.plot(level=0.3).axes[0]) == ["mean", "30% interval"]


def test_every_output_has_a_row():
    figure = PAIR.plot(truth=lambda theta: np.hstack([theta, -theta]))
    assert [ax.get_ylabel() for ax in figure.axes] == [r"$I_{0}(\theta)$", r"$I_{1}(\theta)$"]
    for c, ax in enumerate(figure.axes):
        x, y = drawn(ax, "mean")
        np.testing.assert_array_equal(y, (c + 1) * x)
        np.testing.assert_array_equal(drawn(ax, "truth")[1], [x, -x][c])
    assert figure.axes[1].get_legend() is None
    png(figure)


@pytest.mark.parametrize("truth", [lambda theta: -theta[:, 0], lambda theta: np.hstack([theta, -theta])])
def test_an_output_can_be_chosen(truth):
    (ax,) = PAIR.plot(output=1, truth=truth).axes
    x, y = drawn(ax, "mean")
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(drawn(ax, "truth")[1], -x)
    assert LINE.plot(output=0).axes[0].get_ylabel() == r"$I(\theta)$"


def test_bands_and_dots_are_within_the_limits_and_long_bars_are_cut_off(butterfly):
    fit, _ = butterfly

    class Stage:
        mean, std = fit.stage1.mean, np.where(np.arange(len(fit.theta)) == 3, 1e9, fit.stage1.std)

    class Far(Known):
        stage1 = Stage

        def _predictives(self, theta, *, joint):
            return fit._predictives(theta, joint=joint)

    (ax,) = Far(fit.theta).plot().axes
    low, high = ax.get_ylim()
    _, lower, upper = band(ax, "95% interval")
    inside = [*lower, *upper, *Stage.mean]
    assert low < min(inside)
    assert max(inside) < high
    assert high - low < 2.5 * np.ptp(inside)


def test_the_legend_hides_nothing(butterfly):
    fit, problem = butterfly
    figure = fit.plot(truth=problem.exact)
    figure.draw_without_rendering()
    (ax,) = figure.axes
    extent = ax.get_legend().get_window_extent()
    assert extent.y0 >= ax.bbox.y1
    assert figure.bbox.x0 <= extent.x0
    assert extent.x1 <= figure.bbox.x1
    assert not ax.get_legend().get_frame_on()


def test_many_dots_are_drawn_below_the_line():
    crowd = Known(np.linspace(1, 2, 100)[:, None])
    object.__setattr__(crowd, "stage1", type("Stage", (), {"mean": np.ones(100), "std": np.ones(100)}))
    (ax,) = crowd.plot().axes
    (line,) = [line for line in ax.lines if line.get_label() == "mean"]
    assert ax.containers[0][0].get_zorder() < line.get_zorder()


# bands that are too thin to be seen


class Sharp(Known):
    """A fit whose intervals are far narrower than a line, the narrower the larger theta is."""

    def _predictives(self, theta, *, joint):
        variance = 1e-8 * np.exp(-4 * theta[:, 0])[None]
        return [PredictiveDistribution((c + 1) * theta.T, variance, np.inf) for c in range(self.C or 1)]


def test_a_thin_band_has_a_panel_of_its_half_width():
    fit = Sharp([[1.0], [2.0], [4.0]])
    panels = fit.plot(level=0.9).axes
    assert [ax.get_ylabel() for ax in panels] == [r"$I(\theta)$", "half-width"]
    x, y = drawn(panels[1], "half-width of 90% interval")
    low, high = fit.interval(x, 0.9)
    np.testing.assert_allclose(y, 0.5 * (high - low), rtol=1e-12)
    assert panels[1].get_yscale() == "log"
    assert panels[1].get_ylim()[0] < y.min()
    assert y.max() < panels[1].get_ylim()[1]
    assert panels[1].get_xlabel() == r"$\theta$"


def test_the_error_is_beside_the_half_width_where_the_truth_is_known():
    fit = Sharp([[1.0], [2.0], [4.0]])
    _, panel = fit.plot(truth=lambda theta: theta[:, 0] + 1e-9).axes
    _, y = drawn(panel, "|mean - truth|")
    np.testing.assert_allclose(y, 1e-9, rtol=1e-6)
    assert panel.get_legend() is not None
    png(fit.plot(truth=lambda theta: theta[:, 0]))  # without any error


def test_a_visible_band_has_no_panel_unless_it_is_asked_for():
    assert len(LINE.plot().axes) == 1
    _, panel = LINE.plot(half_width=True).axes
    assert panel.get_yscale() == "linear"
    assert panel.get_ylim()[0] == 0
    assert len(Sharp([[1.0], [2.0]]).plot(half_width=False).axes) == 1
    assert len(Sharp([[1.0], [2.0]]).plot(ax=Figure().subplots()).axes) == 1


@pytest.mark.parametrize("C", [2, 4, 5])
def test_every_output_has_a_panel_and_a_label_below(C):
    figure = Sharp([[1.0], [2.0], [4.0]], C=C).plot()
    visible = [ax for ax in figure.axes if ax.get_visible()]
    assert len(visible) == 2 * C
    assert sum(ax.get_ylabel() == "half-width" for ax in visible) == C
    assert sum(bool(ax.get_xlabel()) for ax in visible) == (1 if C < 4 else 2)
    png(figure)


def test_outputs_that_are_not_drawn_are_counted():
    figure = Known([[1.0], [2.0]], C=15).plot(points=5)
    assert sum(ax.get_visible() for ax in figure.axes) == 12
    assert "3 more outputs are not drawn: choose one by output=12" in figure.get_supxlabel()


# the range of the prior, names and labels


def test_the_prior_extends_the_range_of_the_figure():
    x, _ = drawn(LINE.plot(prior=cbq.measures.Uniform(0.0, 10.0)).axes[0], "mean")
    np.testing.assert_allclose([x[0], x[-1]], [0.05, 9.95], rtol=1e-12)
    x, _ = drawn(LINE.plot(prior=cbq.measures.Uniform(1.5, 2.0)).axes[0], "mean")
    np.testing.assert_allclose([x[0], x[-1]], [1.0, 4.0], rtol=1e-12)  # the observed thetas
    both = cbq.measures.Gaussian([0.0, 1.0], cov=[1.0, 4.0])
    ax = PLANE.plot(prior=both, points=5).axes[0]
    assert ax.get_xlim()[0] < -2
    assert ax.get_ylim()[1] >= 5


def named(observed, C=None, **names):
    """A fit whose coordinates and outputs have names."""
    return type("Named", (Known,), {"names": cbq.Names(**names)})(observed, C)


def test_axes_carry_names():
    (ax,) = named([[1.0], [2.0]], theta=("stock",), f=("profit in $",)).plot().axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("stock", r"E[profit in \$]")
    figure = named([[1.0, 2.0], [2.0, 1.0]], 2, theta=("rate", "age"), f=("effect", "cost")).plot(points=4)
    maps = [ax for ax in figure.axes if ax.get_title()]
    assert [maps[0].get_ylabel(), maps[2].get_xlabel()] == ["age", "rate"]
    assert [ax.get_title() for ax in maps[::2]] == ["mean of E[effect]", "mean of E[cost]"]


def test_labels_of_the_users_own_replace_names():
    words = {"xlabel": "rate", "ylabel": "loss", "title": "A title"}
    figure = LINE.plot(**words)
    ax = figure.axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel(), figure.get_suptitle()) == ("rate", "loss", "A title")
    ax = Figure().subplots()
    LINE.plot(ax=ax, **words)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("rate", "loss", "A title")
    figure = PLANE.plot(points=4, **words)
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("rate", "loss")


# p > 2


def test_slices_go_through_the_median_of_the_other_coordinates():
    space = Known(np.array([[1.0, 0.0, 5.0], [2.0, 1.0, 6.0], [6.0, 3.0, 9.0]]))
    figure = space.plot(points=9, truth=lambda theta: -theta[:, 2])
    panels = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_xlabel() for ax in panels] == [rf"$\theta_{j}$" for j in range(3)]
    for j, ax in enumerate(panels):
        x, y = drawn(ax, "mean")
        theta = np.tile([2.0, 1.0, 6.0], (len(x), 1))
        theta[:, j] = x
        np.testing.assert_array_equal(y, space.predict(theta))
        np.testing.assert_array_equal(drawn(ax, "truth")[1], -theta[:, 2])
        assert x[0] <= space.theta[:, j].min() < space.theta[:, j].max() <= x[-1]
    png(figure)


def test_slices_go_through_a_point_of_the_users_own_and_cover_the_prior():
    prior = cbq.measures.Uniform(np.zeros(4), np.full(4, 10.0))
    figure = Known(np.eye(4), C=2).plot(at=[1.0, 2.0, 3.0, 4.0], prior=prior, points=5)
    panels = [ax for ax in figure.axes if ax.get_visible()]
    assert len(panels) == 8
    x, y = drawn(panels[4], "mean")  # the first coordinate of the second output
    np.testing.assert_allclose(y, 2 * (x + 9), rtol=1e-12)
    assert x[-1] > 9
    assert len({ax.get_ylim() for ax in panels[:4]}) == 1


# given axes


def test_figures_can_be_drawn_into_given_axes():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    left.plot([1, 4], [0, 0], label="mine")
    left.set_xlabel("rate")
    limits = right.get_xlim()
    assert PAIR.plot(ax=left, output=1) is figure
    assert (left.get_xlabel(), left.get_ylabel()) == ("rate", r"$I_{1}(\theta)$")
    assert labels(left) == ["mean", "95% interval", "50% interval", "mine"]
    assert right.get_xlim() == limits
    assert not right.lines
    png(figure)


def test_the_legend_does_not_depend_on_the_labels_of_other_artists():
    ax = Figure().subplots()
    ax.plot([1, 4], [0, 0], label="90% interval")
    LINE.plot(ax=ax)
    assert labels(ax) == ["mean", "95% interval", "50% interval", "90% interval"]
    LINE.plot(ax=ax)
    assert labels(ax) == ["mean", "95% interval", "50% interval", "90% interval"]


def test_the_figure_of_a_subfigure_is_the_whole():
    figure = Figure()
    assert LINE.plot(ax=figure.subfigures(1, 2)[0].subplots()) is figure


# p = 2


def meshes(ax):
    return [each for each in ax.collections if isinstance(each, QuadMesh)]


def test_maps_of_the_mean_and_the_half_width():
    figure = PLANE.plot(points=20)
    maps = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in maps] == [
        r"mean of $I(\theta)$",
        r"half-width of the 95% interval of $I(\theta)$",
    ]

    def half_width(theta):
        low, high = PLANE.interval(theta)
        return 0.5 * (high - low)

    for ax, values in zip(maps, (PLANE.predict, half_width), strict=True):
        (mesh,) = meshes(ax)
        cells = mesh.get_array()
        assert cells.shape == (20, 20)
        corners = mesh.get_coordinates()
        centres = 0.25 * (corners[1:, 1:] + corners[:-1, 1:] + corners[1:, :-1] + corners[:-1, :-1])
        expected = values(centres.reshape(-1, 2))
        np.testing.assert_allclose(np.ravel(cells), expected, rtol=1e-10)
        assert ax.get_xlabel() == r"$\theta_0$"
        np.testing.assert_array_equal(ax.lines[0].get_xydata(), PLANE.theta)
        for low, high, observed in zip(*zip(ax.get_xlim(), ax.get_ylim(), strict=True), PLANE.theta.T, strict=True):
            assert low < observed.min()
            assert observed.max() < high
    assert maps[0].get_ylabel() == r"$\theta_1$"
    assert len(figure.axes) == 4  # and two colour bars
    png(figure)


def test_a_truth_adds_a_map_of_the_error():
    figure = PLANE.plot(points=5, truth=lambda theta: np.sum(theta, axis=1) - theta[:, 0])
    (ax,) = [ax for ax in figure.axes if ax.get_title() == r"error of the mean of $I(\theta)$"]
    (mesh,) = meshes(ax)
    theta_0 = np.linspace(1 - 0.08, 3 + 0.08, 5)
    np.testing.assert_allclose(mesh.get_array(), np.tile(theta_0, (5, 1)), rtol=1e-12)
    low, high = mesh.get_clim()
    assert -low == high >= 3
    png(figure)


def test_an_exact_fit_has_a_map_of_no_error():
    png(PLANE.plot(points=5, truth=lambda theta: np.sum(theta, axis=1)))


@pytest.mark.parametrize("shuffled", [False, True])
def test_thetas_on_a_grid_are_filled_cells_in_any_order(shuffled):
    x, y = np.meshgrid([1.0, 2.0, 4.0], [0.0, 0.5])
    theta = np.column_stack([x.ravel(), y.ravel()])
    order = np.random.default_rng(0).permutation(6) if shuffled else np.arange(6)
    (mesh,) = meshes(PLANE.plot(theta[order]).axes[0])
    np.testing.assert_allclose(mesh.get_array(), x + y, rtol=1e-15)


@pytest.mark.parametrize("theta", [[[1.0, 2.0], [2.0, 4.0], [3.0, 0.0]], [[1.0, 2.0]], [[1.0, 2.0], [1.0, 3.0]]])
def test_other_thetas_are_drawn_one_by_one(theta):
    figure = PLANE.plot(theta)
    squares = figure.axes[0].collections[0]
    np.testing.assert_array_equal(squares.get_offsets(), theta)
    np.testing.assert_array_equal(squares.get_array(), np.sum(theta, axis=1))
    png(figure)


def test_outputs_of_two_coordinates_have_a_row_each():
    both = Known(PLANE.theta, C=2)
    figure = both.plot(points=4)
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    kinds = ("mean", "half-width of the 95% interval")
    assert titles == [f"{what} of $I_{{{c}}}(\\theta)$" for c in range(2) for what in kinds]
    assert len([ax for ax in both.plot(points=4, output=1).axes if ax.get_title()]) == 2


# all figures


@pytest.mark.filterwarnings("ignore:few points:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
@pytest.mark.parametrize(
    ("name", "T"), [("butterfly", 1), ("butterfly", 2), ("sir", 1), ("linear", 1), ("linear", 2), ("health", 3)]
)
def test_every_problem_can_be_drawn(name, T):
    problem = cbq.problems.get(name)
    fit = cbq.CBQ().fit(problem.collect(T, 5, rng=1))
    png(fit.plot(points=12, truth=problem.exact))


def test_figures_are_reproducible():
    assert png(LINE.plot()) == png(LINE.plot())


def test_no_setting_of_matplotlib_changes():
    before = dict(matplotlib.rcParams)
    PLANE.plot(points=5).draw_without_rendering()
    PAIR.plot().draw_without_rendering()
    assert dict(matplotlib.rcParams) == before


def test_pyplot_is_not_imported():
    code = """
import sys, cbq
samples = cbq.problems.get("butterfly").collect(6, 4, rng=0)
fit = cbq.CBQ().fit(samples)
assert "matplotlib" not in sys.modules
fit.plot().savefig(sys.stdout.buffer)
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"\x89PNG")


def test_a_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"plot needs matplotlib: python -m pip install matplotlib"):
        LINE.plot()


AX = Figure().subplots()

test_bad_requests_are_refused = refusals(
    {
        "thetas of three coordinates": (
            lambda: SPACE.plot(SPACE.theta),
            r"theta is for one or two coordinates, but this fit has p = 3: omit theta for slices .* fit.to_frame",
        ),
        "at of a line": (lambda: LINE.plot(at=[1.0]), "at is for slices, for p > 2, but this fit has p = 1"),
        "at of another length": (lambda: SPACE.plot(at=[1.0]), r"theta has shape .*this fit has p = 3"),
        "several at": (lambda: SPACE.plot(at=np.ones((2, 3))), "at must be one theta of p = 3 coordinates"),
        "prior of two coordinates": (
            lambda: LINE.plot(prior=cbq.measures.Uniform([0.0, 0.0], [1.0, 1.0])),
            "prior must be one measure of theta, in p = 1 dimensions",
        ),
        "panel in given axes": (lambda: LINE.plot(half_width=True, ax=AX), "a panel below the axes, for p = 1"),
        "panel below maps": (lambda: PLANE.plot(half_width=True), "half_width=True adds a panel"),
        "a long title": (lambda: LINE.plot(title="a" * 2000), "title must have 1000 characters at the most"),
        "output": (lambda: PAIR.plot(output=2), "output must be one of 0 to 1, or None for all, but it is 2"),
        "negative output": (lambda: PAIR.plot(output=-1), "but it is -1"),
        "output of none": (lambda: LINE.plot(output=1), "output must be 0, or None for all, but it is 1"),
        "output text": (lambda: LINE.plot(output="cost"), "but it is 'cost'"),
        "ax of two outputs": (lambda: PAIR.plot(ax=AX), "choose one of 2 outputs, as with output=0"),
        "ax of maps": (lambda: PLANE.plot(ax=AX), "ax takes a single panel.* omit ax for p = 2"),
        "level": (lambda: LINE.plot(level=95), "level must lie between 0 and 1, as 0.95 does, but it is 95"),
        "points": (
            lambda: LINE.plot(points=1),
            "points must be the number of grid points, an integer of 2 or more, but it is 1",
        ),
        "half points": (lambda: LINE.plot(points=2.5), "but it is 2.5"),
        "one theta": (lambda: LINE.plot([1.0]), "a line over two thetas or more, but there is one: use fit.interval"),
        "theta": (
            lambda: LINE.plot(np.ones((4, 2))),
            r"theta has shape \(4, 2\).*this fit has p = 1",
        ),
        "theta nan": (lambda: LINE.plot([1.0, np.nan]), "theta must be finite"),
        "truth without theta": (lambda: LINE.plot(truth=np.ones(200)), "truth is an array: pass the thetas"),
        "truth shape": (
            lambda: LINE.plot([1, 2], truth=np.ones(3)),
            r"shape \(3,\), but for 2 thetas it must have shape \(2,\)",
        ),
        "truth of one": (
            lambda: PAIR.plot([1, 2], truth=[1, 2]),
            r"shape \(2,\), but for 2 thetas it must have shape \(2, 2\)\.",
        ),
        "truth nan": (lambda: LINE.plot(truth=lambda theta: theta * np.nan), "truth must be finite"),
    },
    ValueError,
)
