"""Figures of sensitivity indices: bars with intervals, a tornado, and indices over theta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cbq.plotting import BLUE, Axis, Band, Bars, Figure, Line, Mark, Panel, plain, series

if TYPE_CHECKING:
    from cbq.indices.table import Sensitivity, SensitivityRow

TITLES = {"first": "first-order index", "total": "total index", "shapley": "Shapley effect"}
MOST, MOST_OUTPUTS, MOST_LINES = 20, 4, 8  # inputs, outputs and lines that are drawn
WIDTH, FRAME, BAR = 3.4, 1.1, 0.36  # in inches


def indices_figure(table: Sensitivity) -> Figure:
    """A row of panels for each output: the indices of all inputs, the largest total on top, and a tornado.

    With several thetas in one dimension, indices are lines over theta. A tornado has a bar for each input, between the
    expectations of f where the input is at its quantiles of 5% and 95%.
    """
    outputs = list(dict.fromkeys(row.output for row in table.rows))
    drawn, rows = outputs[:MOST_OUTPUTS], []
    over_theta = len(table.names) == 1
    for output in drawn:
        mine = [row for row in table.rows if row.output == output]
        if over_theta:
            rows.append(_over_theta(mine, table.names[0]))
        else:
            first = [row for row in mine if row.theta == mine[0].theta]
            rows.append(_bars(sorted(first, key=lambda row: -row.total)))
    if len(outputs) > 1:
        rows = [[_titled(panel, output) for panel in row] for row, output in zip(rows, drawn, strict=True)]
    notes = [f"{len(outputs) - len(drawn)} more outputs are not drawn."] * (len(outputs) > len(drawn))
    if len(table.names) > 1:
        notes.append("Indices at the first of the thetas; the table has all of them.")
    inputs = min(len({row.input for row in table.rows}), MOST)
    height = 3.4 if over_theta else FRAME + BAR * inputs
    return Figure(rows, (WIDTH * len(rows[0]), height * len(rows)), notes=notes)


def _bars(rows: Sequence[SensitivityRow]) -> list[Panel]:
    """A panel for each kind of index, and the tornado."""
    shown, rest = rows[:MOST], len(rows) - MOST
    y = Axis(names=[plain(row.input) for row in shown])
    more = f"\n{rest} more inputs, with smaller totals, are not drawn" if rest > 0 else ""
    panels = []
    for name, title in _kinds(rows).items():
        low, value, high = (np.array([getattr(row, name + end) for row in shown]) for end in ("_low", "", "_high"))
        panels.append(Panel([Bars(value, low, high)], Axis(title + more, zero=True), y))
    swings: list[Mark] = [
        Line([row.at_low, row.at_high], [float(k)] * 2, colour=BLUE, marker="o", width=6.0, opacity=0.8)
        for k, row in enumerate(shown)
        if row.at_low is not None
    ]
    if swings:
        panels.append(Panel(swings, Axis("E[f | input], from its 5% to its 95% quantile"), y))
    return panels


def _over_theta(rows: Sequence[SensitivityRow], name: str) -> list[Panel]:
    """A panel for each kind of index, with a line for each of the inputs with the largest totals."""
    sizes = {row.input: 0.0 for row in rows}
    for row in rows:
        sizes[row.input] = max(sizes[row.input], row.total)
    inputs, panels = sorted(sizes, key=lambda each: -sizes[each])[:MOST_LINES], []
    for kind, title in _kinds(rows).items():
        marks: list[Mark] = []
        for i, each in enumerate(inputs):
            mine = sorted((row for row in rows if row.input == each), key=lambda row: row.theta)
            theta = [row.theta[0] for row in mine]
            low, value, high = ([getattr(row, kind + end) for row in mine] for end in ("_low", "", "_high"))
            style = series(i)
            marks += [
                Line(theta, value, plain(each), style["colour"], style["dash"]),
                Band(theta, low, high, colour=style["colour"], opacity=0.15),
            ]
        panels.append(Panel(marks, Axis(plain(name)), Axis(title, zero=True)))
    return panels


def _kinds(rows: Sequence[SensitivityRow]) -> dict[str, str]:
    """The kinds of indices that the rows have."""
    return {name: title for name, title in TITLES.items() if getattr(rows[0], name) is not None}


def _titled(panel: Panel, output: str) -> Panel:
    return Panel(panel.marks, panel.x, panel.y, plain(output))
