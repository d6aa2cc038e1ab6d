"""The answer of a report: in words, under sliders, as charts and as a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq.common import Array, evenly, short
from cbq.fit.answer_grid import AnswerGrid, extremes_in_words
from cbq.fit.answers import TruthFunction, true_values
from cbq.fit.base import Fit
from cbq.fit.figures import curve_panel, half_width_panel, map_panels
from cbq.fit.naming import expectation_labels, expectation_names, theta_labels
from cbq.fit.theta_grids import round_axis
from cbq.plotting import Axis, Band, Line, Panel
from cbq.report import Fragment, figure_html, html_table, joined, paragraph, resolved

ROWS = 15  # of the table, at the most
MAX_DRAWN = 6  # outputs
READER = "reading"  # the sliders


@dataclass(frozen=True, eq=False)
class AnswerSection:
    """The predictions of a fit on a grid of thetas, compared with the truth, a function of theta, where it is known."""

    fit: Fit
    grid: AnswerGrid
    level: float
    truth: TruthFunction | None

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of the coordinates of theta, and of the expectations."""
        return self.fit.names.theta, expectation_names(self.fit)

    def html(self) -> Fragment:
        """Words, sliders, charts and a table."""
        parts = [paragraph(each) for each in self._in_words()]
        if self.grid.axes is not None:
            draw = self._curve if self.fit.p == 1 else self._maps if self.fit.p == 2 else self._slices
            parts.append(self.grid.reader(READER, *self.names).html())
            parts += [draw(c) for c in range(min(self.fit.C or 1, MAX_DRAWN))]
        return joined([*parts, self._table()])

    def _in_words(self) -> list[str]:
        found = []
        grid, names = self.grid, self.names
        for c, name in enumerate(names[1][:MAX_DRAWN]):
            found.append(extremes_in_words(grid, c, name, names[0]))
            if grid.has_intervals:
                half = grid.half_width[:, c]
                widths = dict.fromkeys(short(float(end), 2) for end in (half.min(), half.max()))  # one if they agree
                found[-1] += f" The half-width of its {100 * self.level:.4g}% interval is {' to '.join(widths)}."
        if not grid.full:
            found.insert(0, "Along each coordinate, with all others near their median:")
        more = len(names[1]) - MAX_DRAWN
        return [*found, f"{more} more outputs are in the table and under the sliders."] if more > 0 else found

    def _curve(self, c: int) -> Fragment:
        """The curve with its bands, and below it the half-width, with the error where the truth is known."""
        grid, true = self.grid, self._truth(self.grid.theta)
        x = Axis(theta_labels(self.fit)[0], log=grid.is_log)
        caption = f"{self.names[1][c]} over {self.names[0][0]}. Point at the curve, or move the slider."
        parts = [figure_html(curve_panel(grid, c, true, x=x), caption, reader=READER, output=c)]
        if grid.has_intervals and not grid.is_observed:
            note = "How far the interval reaches on either side of the estimate"
            note += "." if true is None else ", and the error: below the half-width, the interval contains the truth."
            parts.append(figure_html(half_width_panel(grid, c, true, x=x), note, height=190, reader=READER))
        return joined(parts)

    def _maps(self, c: int) -> Fragment:
        """Maps with the observed thetas as dots."""
        caption = f"{self.names[1][c]}: estimate, and half-width of its interval. Dots are the observed thetas."
        return figure_html(map_panels(self.grid, c, self._truth(self.grid.theta)), caption, reader=READER)

    def _slices(self, c: int) -> Fragment:
        """A chart along each coordinate, on one scale, with curves from the reader."""
        assert self.grid.axes is not None
        every = Panel([Band([], self.grid.low[:, c], self.grid.high[:, c])], Axis(), Axis())
        y = Axis(expectation_labels(self.fit)[c], limits=every.limits[1])
        interval = f"{100 * self.level:.4g}% interval"
        panels = [
            Panel([Line(axis, axis, "mean", width=1.8), Band(axis, axis, axis, interval)], Axis(label), y)
            for axis, label in zip(self.grid.axes, theta_labels(self.fit), strict=True)
        ]
        caption = f"{self.names[1][c]} along each coordinate, the others as the sliders are."
        return figure_html(panels, caption, height=230, reader=READER, output=c, slice=True)

    def _truth(self, theta: Array) -> Array | None:
        if self.truth is None:
            return None
        return true_values(self.truth, theta, list(range(self.fit.C or 1)), self.fit.names, given=False)

    def _table(self) -> Fragment:
        """Estimates at some thetas: round ones of the grid for p = 1, otherwise some of the observed ones."""
        grid = self.grid
        if self.fit.p == 1 and not grid.is_observed:
            thetas = round_axis(grid.theta[0, 0], grid.theta[-1, 0], ROWS, log=grid.is_log)[:, None]
        else:
            thetas = np.unique(self.fit.theta, axis=0)
            thetas = thetas[evenly(len(thetas), ROWS)]
        at = AnswerGrid.at(self.fit, thetas, self.level)
        true, several, interval = self._truth(thetas), self.fit.C is not None, f"{100 * self.level:.4g}%"
        header = [*self.names[0], *["output"] * several, "estimate", "half-width"]
        header += [f"lower {interval}", f"upper {interval}", *["truth"] * (true is not None)]
        lines = []
        for i, theta in enumerate(thetas):
            place = [f"{v:.{digits}g}" for v, digits in zip(theta, at.digits, strict=True)]
            for c in range(self.fit.C or 1):
                half = float(at.half_width[i, c])
                known = (at.mean, at.low, at.high, *([] if true is None else [true]))
                mean, *ends = (resolved(float(each[i, c]), half) for each in known)
                width = short(half, 2) if np.isfinite(half) else "-"
                lines.append([*place, *[self.fit.names.f[c]] * several, mean, width, *ends])
        caption = "The estimate at some thetas; fit.to_frame(theta) and cbq predict give it at any."
        return html_table(header, lines, caption)
