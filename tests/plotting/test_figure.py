"""Descriptions of figures: matplotlib and pages draw every kind of mark, within the same limits."""

from __future__ import annotations

import io
import json
import re
from importlib.resources import files

import numpy as np
import pytest
from matplotlib.figure import Figure as MatplotlibFigure

from cbq.plotting import Axis, Band, Bars, Dots, Figure, Heat, Label, Line, Panel, Rule, Zone, draw, plain
from cbq.plotting.figure import Mark
from cbq.report.charts import figure_html

X = np.array([1.0, 2.0, 4.0])
GRID = np.arange(6.0).reshape(2, 3)
PANELS = {
    "curves": Panel([Line(X, X**2, "a"), Band(X, X, 3 * X, "b"), Rule(3.0, "y", "c")], Axis("x"), Axis("y")),
    "marked": Panel([Line(X, X**2, "a", marker="D"), Rule(2.0, "slope")], Axis("x", log=True), Axis("y", log=True)),
    "dots": Panel([Dots(X, X, X - 1, X + 1, "a"), Label(2.0, 2.0, "two", 1, -1), Rule(2.0)], Axis("x"), Axis("y")),
    "zones": Panel([Line(X, X), *Zone.where(X, X > 1.5, "late", "xxx")], Axis("x"), Axis("y")),
    "bars": Panel([Bars(X, X - 0.5, X + 0.5, accent=1)], Axis("x", zero=True), Axis(names=["a", "b", "c"])),
    "cells": Panel([Heat(X, X[:2], GRID, "h", log=False)], Axis("x"), Axis("y")),
    "places": Panel([Heat(X, X, X, "h", palette="PuOr", centred=True)], Axis("x"), Axis("y")),
    "edge": Panel([Line(X, X), Dots(X, np.full(3, -np.inf)), Label(-np.inf, -np.inf, "edge")], Axis("x"), Axis("y")),
    "infinite": Panel([Line(X, X), Band(X, np.full(3, -np.inf), np.full(3, np.inf))], Axis("x"), Axis("y")),
    "nothing": Panel([Line([], []), Dots([], [])], Axis("x", log=True), Axis("y")),
}


def on_page(panel):
    """The data of a panel in a page."""
    text = re.search(r'<script type="application/json">(.*?)</script>', figure_html(panel, "caption").html)[1]
    return json.loads(text)


def test_every_kind_of_mark_is_drawn_somewhere_here_and_by_the_script_of_pages():
    kinds = {type(mark) for panel in PANELS.values() for mark in panel.marks}
    assert kinds == set(Mark.__subclasses__())
    script = (files("cbq.report") / "page.js").read_text(encoding="utf-8")
    drawn = script.partition("const MARKS = {")[2].partition("\n  };")[0]
    assert set(re.findall(r"^    (\w+)\(svg", drawn, re.MULTILINE)) == {kind.__name__.lower() for kind in kinds}


@pytest.mark.parametrize("name", PANELS)
def test_matplotlib_and_pages_have_the_same_limits(name):
    panel = PANELS[name]
    figure = draw(Figure([[panel]]), title="A title")
    figure.savefig(io.BytesIO(), format="png", dpi=40)
    ax, data = figure.axes[0], on_page(panel)
    for along, found in (("x", ax.get_xlim()), ("y", ax.get_ylim())):
        np.testing.assert_allclose(sorted(found), data[along]["ends"], rtol=1e-9)
    assert [mark["type"] for mark in data["marks"]] == [type(mark).__name__.lower() for mark in panel.marks]


def test_curves_fill_a_panel_and_infinite_ends_leave_it():
    assert PANELS["curves"].limits[0] == (1.0, 4.0)
    (_, band) = on_page(PANELS["infinite"])["marks"]
    low, high = PANELS["infinite"].limits[1]
    assert max(band["low"]) < low < high < min(band["high"])


def test_the_title_does_not_cover_the_legend_of_a_figure():
    figure = draw(Figure([[PANELS["curves"], PANELS["dots"]]]), title="A title")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert not legend.get_window_extent().overlaps(figure._suptitle.get_window_extent())


def test_axes_of_the_user_keep_their_labels_and_limits():
    ax = MatplotlibFigure().subplots()
    ax.plot([0, 9], [0, 9])
    ax.set(xlabel="mine", xlim=(-1, 10))
    draw(Figure([[PANELS["curves"]]]), ax, ylabel="ours")
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xlim()) == ("mine", "ours", (-1, 10))
    with pytest.raises(TypeError, match="ax must be axes of matplotlib"):
        draw(Figure([[PANELS["curves"]]]), "ax")


def test_pages_write_mathematics_as_letters_and_names_as_they_are():
    marks = [Line(X, X, r"mean of $I_{0}(\theta)$"), Line(X, X, plain("profit in $"))]
    data = on_page(Panel(marks, Axis(r"$\theta_1$"), Axis(plain("a_1 $ b"))))
    assert [mark["label"] for mark in data["marks"]] == ["mean of I₀(θ)", "profit in $"]
    assert (data["x"]["label"], data["y"]["label"]) == ("θ₁", "a_1 $ b")
