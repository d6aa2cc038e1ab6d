"""The figure of an adaptive run: the half-width against the number of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cbq.plotting import Axis, Figure, Line, Panel, plain, series

if TYPE_CHECKING:
    from cbq.runs.answer import History


def history_figure(history: History, most: int | None = None) -> Figure:
    """The half-width at each round, a line for each output (at most so many), and the target."""
    marks, C = [], history.half_width.shape[1]
    for c, (half, target) in enumerate(zip(history.half_width.T[:most], history.target.T, strict=False)):
        colour, of = series(c)["colour"], "" if C == 1 else f" of {plain(history.names.output(c))}"
        marks.append(Line(history.runs, half, f"half-width{of}", colour, marker="o"))
        if np.any(np.isfinite(target)):
            marks.append(Line(history.runs, target, f"asked for{of}", colour, "dashed", width=1.2))
    ticks = np.unique(np.round(np.geomspace(history.runs[0], history.runs[-1], 6)))
    y = Axis("half-width of the interval", log=True)
    return Figure([[Panel(marks, Axis("runs", log=True, ticks=ticks.tolist()), y)]])
