"""I under a family of measures with a further parameter: what if this parameter had another value?"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq.common import Array, between_0_and_1, digits_apart, evenly, finite, shown, text
from cbq.fit.base import Fit
from cbq.fit.findings import FitWarning
from cbq.fit.naming import expectation_labels, expectation_names, theta_labels
from cbq.fit.theta_grids import observed_range, round_axis
from cbq.plotting import Axis, Band, Drawn, Figure, Line, Mark, Panel, plain, series
from cbq.report import ArrayTable, Fragment, Reader, Section, figure_html, joined, paragraph
from cbq.samples import Names, by_theta

POINTS = 41  # along theta, for p = 1
MAX_THETAS = 12  # observed ones, for p > 1
MAX_VALUES, MOST_THETAS = 200, 2000  # of the parameter, and of theta in a table
MAX_DRAWN, MAX_CURVES = 4, 5  # outputs, and curves of one panel
REACHED = 0.85  # of the mass: below, a reading comes with a remark


@dataclass(frozen=True, eq=False, repr=False)
class Varied(ArrayTable, Drawn):
    """I at M thetas under V members of a family, which differ in one parameter. Made by `fit.vary`.

    parameter : its name. values : (V,). theta : (M, p). level : of the intervals.
    mean, low, high : of I, (V, M), or (V, M, C) with C outputs.
    unreached : (V, M), the share of the mass where the runs do not reach.

    It is a table with a row for each value and theta, `plot()` draws it, and `fit.report(path, more=[varied])` has
    sliders for the parameter and for theta.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> fit = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0))
    >>> varied = fit.vary(lambda theta, sd: cbq.measures.LogNormal(np.log(theta), std=sd), [0.1, 0.2], [100.0])
    >>> varied.parameter, varied.mean.shape
    ('sd', (2, 1))
    """

    _title = "Under other input distributions"

    fit: Fit
    parameter: str
    values: Array
    theta: Array
    level: float
    mean: Array
    low: Array
    high: Array
    unreached: Array

    @classmethod
    def of_fit(
        cls, fit: Fit, family: Any, values: npt.ArrayLike, theta: Any, *, parameter: str | None, level: float
    ) -> Varied:
        """From the arguments of `fit.vary`."""
        if not callable(family):
            raise TypeError(f"family must be a function of theta and of a parameter, but it is {shown(family)}.")
        at = finite(values, "values")
        if at.ndim != 1 or not 1 <= len(np.unique(at)) == len(at) <= MAX_VALUES:
            raise ValueError(
                f"values must be 1 to {MAX_VALUES} different numbers of the parameter, (V,), but it is {shown(values)}."
            )
        name, level = (
            _name(family) if parameter is None else text(parameter, "parameter"),
            between_0_and_1(level, "level"),
        )
        taken = {*fit.names.theta, "mean", "lower", "upper", "unreached"}
        if name in taken:
            raise ValueError(f"parameter must differ from {', '.join(sorted(taken))}, but it is {name!r}.")
        thetas = _thetas(fit) if theta is None else fit._thetas(theta)
        if len(thetas) > MOST_THETAS:
            raise ValueError(
                f"theta must have {MOST_THETAS} rows at most, as each is asked for all values, not {len(thetas)}."
            )
        found = []
        for value in np.sort(at).tolist():
            try:
                found.append(_answers(fit, family, value, thetas, level))
            except ValueError as error:
                raise ValueError(f"values cannot include {name} = {value:g}: {error}") from error
        return cls(fit, name, np.sort(at), thetas, level, *(np.stack(each) for each in zip(*found, strict=True)))

    @property
    def _names(self) -> Names:
        """The names of the columns: the parameter goes before theta."""
        return Names((self.parameter, *self.fit.names.theta), (), self.fit.names.f)

    def to_columns(self) -> dict[str, Any]:
        """The columns of the table: the parameter, theta, and the mean and the ends of the interval of each output."""
        V, M = self.mean.shape[:2]
        places = np.column_stack([np.repeat(self.values, M), np.tile(self.theta, (V, 1))])
        quantities = {"mean": self.mean, "lower": self.low, "upper": self.high}
        flat = {name: each.reshape(V * M, -1) for name, each in quantities.items()}
        return by_theta(places, flat, self._names) | {"unreached": self.unreached.ravel()}

    def _figure(self) -> Figure:
        return Figure([[self._curves(c)] for c in range(self._drawn)], size=(6.4, 3.6 * self._drawn))

    def _curves(self, c: int) -> Panel:
        """Output c over theta at some values of the parameter, or, for p > 1, over the parameter at some thetas."""
        mean, low, high = self._of(c)
        label = plain(self.parameter)
        x, curves = self.values, self._places
        if self.fit.p == 1 and len(self.theta) > 1:
            order = np.argsort(self.theta[:, 0], kind="stable")
            x = self.theta[order, 0]
            mean, low, high = mean[:, order].T, low[:, order].T, high[:, order].T
            label, curves = theta_labels(self.fit)[0], [f"{label} = {value}" for value in self._in_words]
        marks: list[Mark] = []
        for k, j in enumerate(evenly(len(curves), MAX_CURVES).tolist()):
            look = series(k)
            marks += [
                Line(x, mean[:, j], curves[j], look["colour"], look["dash"]),
                Band(x, low[:, j], high[:, j], colour=look["colour"], opacity=0.15),
            ]
        return Panel(marks, Axis(label), Axis(expectation_labels(self.fit)[c]))

    @property
    def _section(self) -> Section:
        key, ordered, (V, M) = f"varied-{plain(self.parameter)}", self.fit.p == 1, self.mean.shape[:2]
        axes = [self.values, self.theta[:, 0] if ordered else np.arange(1.0, M + 1)]
        texts = [self._in_words, [f"{v:.6g}" for v in axes[1]] if ordered else self._places]
        quantities = []
        for c, name in enumerate(expectation_names(self.fit)):
            mean, low, high = self._of(c)
            quantities.append((name, mean.ravel(), low.ravel(), high.ravel()))
        reader = Reader(
            key,
            [self.parameter, self.fit.names.theta[0] if ordered else "theta"],
            axes,
            quantities,
            self.level,
            [V // 2, M // 2],
            marked=self.unreached.ravel() > 1 - REACHED,
            remark="Much of this measure is where the runs do not reach: the interval rests on the prior of f.",
            texts=texts,
        )
        what = "The same runs, integrated under measures of x with another value of a parameter."
        return Section(
            f"What if {self.parameter} were another one?",
            joined([paragraph(what), reader.html(), *(self._charts(key, axes, c) for c in range(self._drawn))]),
        )

    def _charts(self, key: str, axes: Sequence[Array], c: int) -> Fragment:
        """Output c along each slider, with curves from the reader."""
        _, low, high = self._of(c)
        y = Axis(
            expectation_labels(self.fit)[c],
            limits=Panel([Band([], low.ravel(), high.ravel())], Axis(), Axis()).limits[1],
        )
        labels = [plain(self.parameter), *theta_labels(self.fit)][: 2 if self.fit.p == 1 else 1]
        interval = f"{100 * self.level:.4g}% interval"
        panels = [
            Panel([Line(at, at, "mean", width=1.8), Band(at, at, at, interval)], Axis(label), y)
            for at, label in zip(axes, labels, strict=False)
        ]
        caption = f"{expectation_names(self.fit)[c]} along each slider, the other as it is."
        return figure_html(panels, caption, height=250, reader=key, output=c, slice=True)

    @property
    def _drawn(self) -> int:
        """The number of outputs in figures."""
        return min(self.fit.C or 1, MAX_DRAWN)

    @property
    def _in_words(self) -> list[str]:
        """The values of the parameter."""
        return [f"{value:.{digits_apart(self.values)}g}" for value in self.values]

    @property
    def _places(self) -> list[str]:
        """The thetas in words."""
        return [plain(self.fit.names.at("theta", theta)) for theta in self.theta]

    def _of(self, c: int) -> tuple[Array, Array, Array]:
        """Mean, low and high (V, M) of output c."""
        mean, low, high = (each.reshape(*each.shape[:2], -1)[..., c] for each in (self.mean, self.low, self.high))
        return mean, low, high

    def __repr__(self) -> str:
        ends = f"{self.values[0]:.4g} to {self.values[-1]:.4g}"
        return f"Varied({self.parameter} = {ends}: {len(self.values)} values at {len(self.theta)} thetas)"


def _name(family: Callable[..., Any]) -> str:
    """The name of the second argument of a family."""
    try:
        arguments = list(inspect.signature(family).parameters)
    except (TypeError, ValueError):
        arguments = []
    if len(arguments) != 2:
        raise ValueError(
            "family must be a function of two arguments, theta and a parameter. If it is one, but its signature does "
            "not show so, pass the name of the second as parameter=."
        )
    return arguments[1]


def _thetas(fit: Fit) -> Array:
    """Thetas to vary the family at: round ones over the observed range for p = 1, otherwise some observed ones."""
    if fit.p == 1:
        low, high = observed_range(fit.theta)[:, 0].tolist()
        return round_axis(low, high, POINTS)[:, None]
    every = np.unique(fit.theta, axis=0)
    return every[evenly(len(every), MAX_THETAS)]


def _answers(fit: Fit, family: Any, value: float, theta: Array, level: float) -> tuple[Array, Array, Array, Array]:
    """Mean, low, high and the share beyond the reach of the runs, with one value of the parameter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # the share is in the table
        other = fit._under(lambda at: family(at, value))._quiet
        return (np.asarray(other.predict(theta)), *other.interval(theta, level), other._unreached(theta))
