"""The answer of a report: in words, under sliders, as charts and as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from cbq.common.arrays import Array, evenly
from cbq.common.tables import short
from cbq.fit.answer_grid import AnswerGrid, extremes_in_words
from cbq.fit.answers import TruthFunction, true_values
from cbq.fit.base import Fit
from cbq.fit.naming import expectation_names
from cbq.fit.plot_lines import single_theta_estimates
from cbq.fit.styles import spans_decades
from cbq.fit.theta_grids import round_axis
from cbq.report import charts
from cbq.report.charts import Axis, Lines, Map, Slice, figure, resolved
from cbq.report.parts import Html, joined, paragraph, table

ROWS = 15  # of the table, at the most
MAX_DRAWN = 6  # outputs
READER = "reading"  # the sliders


@dataclass(frozen=True, eq=False)
class AnswerSection:
    """What a fit says on a grid of thetas, compared with the truth, a function of theta, where it is known."""

    fit: Fit
    grid: AnswerGrid
    level: float
    truth: TruthFunction | None

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those of the coordinates of theta, and of what is estimated."""
        return self.fit.names.theta, expectation_names(self.fit)

    def html(self) -> Html:
        """Words, sliders, charts and a table."""
        grid, names = self.grid, self.names
        parts = [paragraph(each) for each in self._in_words()]
        if grid.axes is not None:
            reader = grid.reader(READER, names[0], names[1], self.level)
            parts += [reader.html(), self._figures(grid)]
        parts.append(self._table())
        return joined(parts)

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

    def _figures(self, grid: AnswerGrid) -> Html:
        draw = self._curve if self.fit.p == 1 else self._maps if self.fit.p == 2 else self._slices
        return joined(draw(grid, c) for c in range(min(self.fit.C or 1, MAX_DRAWN)))

    def _curve(self, grid: AnswerGrid, c: int) -> Html:
        """The curve with its band, and below it the half-width, with the error where the truth is known."""
        name, x, of = self.names[1][c], grid.theta[:, 0], self.names[0][0]
        axis, interval = Axis(of, log=grid.is_log), f"{100 * self.level:.4g}% interval"
        zones = [charts.zone("beyond the observed thetas", *ends) for ends in grid.beyond_zones]
        true = self._truth(grid.theta)
        truths = [] if true is None else [charts.line("truth", x, true[:, c], 1, dashed=True)]
        if grid.is_observed:
            series = [charts.dots(f"estimate with {interval}", x, grid.mean[:, c], grid.low[:, c], grid.high[:, c], 0)]
        else:
            known = [charts.band(interval, x, grid.low[:, c], grid.high[:, c])] if grid.has_intervals else []
            series = [*known, *self._nodes(x, c), charts.line("estimate", x, grid.mean[:, c])]
        main = Lines(axis, Axis(name), [*zones, *series, *truths], reader=READER, output=c)
        alt = f"{name} over {of}, with its {interval}; the table below has numbers."
        parts = [figure([(main, alt)], f"{name} over {of}. Point at the curve, or move the slider.")]
        if grid.has_intervals and not grid.is_observed:
            half = charts.line(f"half-width of the {interval}", x, grid.half_width[:, c])
            error = (
                []
                if true is None
                else [charts.line("|estimate - truth|", x, np.abs(grid.mean - true)[:, c], 1, dashed=True)]
            )
            log = spans_decades(grid.half_width[:, c])
            below = Lines(
                axis, Axis("half-width", log=log, zero=not log), [*zones, half, *error], height=190, reader=READER
            )
            note = "How far the interval reaches on either side of the estimate"
            note += ", and the error: where it is below the half-width, the interval holds the truth." if error else "."
            parts.append(figure([(below, f"half-width of the {interval} of {name}")], note))
        return joined(parts)

    def _nodes(self, x: Array, c: int) -> list[dict[str, Any]]:
        """Dots of the estimates from the points of each theta alone."""
        label, mean, std = single_theta_estimates(self.fit)
        node = self.fit.theta[: len(mean), 0]
        inside = (node >= x[0]) & (node <= x[-1])
        if not inside.any():
            return []
        reach, dot = ndtri(0.5 * (1 + self.level)) * std[inside, c], mean[inside, c]
        return [charts.dots(f"{label}, each theta alone", node[inside], dot, dot - reach, dot + reach)]

    def _maps(self, grid: AnswerGrid, c: int) -> Html:
        assert grid.axes is not None
        name, (x, y) = self.names[1][c], (Axis(each) for each in self.names[0])
        shape = (len(grid.axes[0]), len(grid.axes[1]))
        options: dict[str, Any] = {"xs": grid.axes[0], "ys": grid.axes[1], "reader": READER, "dots": self.fit.theta}
        drawn = [(Map(x, y, values=grid.mean[:, c].reshape(shape).T, label="estimate", **options), f"map of {name}")]
        half = grid.half_width[:, c]
        if grid.has_intervals:
            log = bool(np.min(half) > 0) and spans_decades(half)
            values = half.reshape(shape).T
            drawn.append(
                (Map(x, y, values=values, label="half-width", log=log, palette="cividis", **options), "half-width")
            )
        return figure(drawn, f"{name}: estimate, and half-width of its interval. Dots are the observed thetas.")

    def _slices(self, grid: AnswerGrid, c: int) -> Html:
        name = self.names[1][c]
        drawn = [
            (Slice(Axis(label), Axis(name), READER, j, c), f"{name} along {label}")
            for j, label in enumerate(self.names[0])
        ]
        return figure(drawn, f"{name} along each coordinate, the others as the sliders say.")

    def _truth(self, theta: Array) -> Array | None:
        if self.truth is None:
            return None
        return true_values(self.truth, theta, list(range(self.fit.C or 1)), self.fit.names, given=False)

    def _table(self) -> Html:
        """Estimates at some thetas: round ones of the grid for p = 1, otherwise some of the observed ones."""
        grid = self.grid
        if self.fit.p == 1 and not grid.is_observed:
            thetas = round_axis(grid.theta[0, 0], grid.theta[-1, 0], ROWS, log=grid.is_log)[:, None]
        else:
            thetas = np.unique(self.fit.theta, axis=0)
            thetas = thetas[evenly(len(thetas), ROWS)]
        at = AnswerGrid.at(self.fit, thetas, self.level)
        true, several = self._truth(at.theta), self.fit.C is not None
        interval = f"{100 * self.level:.4g}%"
        header = [
            *self.names[0],
            *["output"] * several,
            "estimate",
            "half-width",
            f"lower {interval}",
            f"upper {interval}",
        ]
        header += ["truth"] * (true is not None)
        lines = []
        for i, theta in enumerate(at.theta):
            for c in range(self.fit.C or 1):
                half = float(at.half_width[i, c])
                numbers = [float(at.mean[i, c]), float(at.low[i, c]), float(at.high[i, c])]
                mean, low, high = (resolved(each, half) for each in numbers)
                line = [
                    *(f"{v:.{digits}g}" for v, digits in zip(theta, at.digits, strict=True)),
                    *[self.fit.names.f[c]] * several,
                    mean,
                    short(half, 2),
                    low,
                    high,
                ]
                lines.append([*line, *([] if true is None else [resolved(float(true[i, c]), half)])])
        caption = "The estimate at some thetas; fit.to_frame(theta) and cbq predict give it at any."
        return table(header, [[_blank(cell) for cell in row] for row in lines], caption)


def _blank(cell: str) -> str:
    return "-" if cell == "nan" else cell
