"""The tables of sensitivity indices, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cbq.indices.figures import indices_figure
from cbq.plotting import Drawn, Figure
from cbq.report import Column, RowTable, in_text, is_unknown


@dataclass(frozen=True)
class SensitivityRow:
    """The indices of an input, or of a group of inputs, for one output; each with the ends of its interval.

    input, output : their names. theta : (p,), where x alone is random; () otherwise.
    first : the share of Var f that the input explains alone, Var E[f | input] / Var f.
    total : the share that is lost without it, E Var[f | all others] / Var f. shapley : its Shapley effect, or None.
    at_low, at_high : E[f | input] at the quantiles of 5% and 95% of the input, by the emulator; None for groups, for
        tables, and where the measure of x depends on theta.

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 500))
    >>> row = cbq.sensitivity(2 * x + y, inputs={"x": x, "y": y}).rows[0]
    >>> row.input, bool(0.7 < row.first < 0.9)
    ('x', True)
    """

    input: str = field(metadata=in_text())
    output: str = field(metadata=in_text())
    theta: tuple[float, ...] = field(metadata={"column": False})
    first: float = field(metadata=in_text("{:.3f}".format))
    first_low: float = field(metadata=in_text("{:.3f}".format, "low"))
    first_high: float = field(metadata=in_text("{:.3f}".format, "high"))
    total: float = field(metadata=in_text("{:.3f}".format))
    total_low: float = field(metadata=in_text("{:.3f}".format, "low"))
    total_high: float = field(metadata=in_text("{:.3f}".format, "high"))
    shapley: float | None = field(default=None, metadata=in_text("{:.3f}".format))
    shapley_low: float | None = field(default=None, metadata=in_text("{:.3f}".format, "low"))
    shapley_high: float | None = field(default=None, metadata=in_text("{:.3f}".format, "high"))
    at_low: float | None = None
    at_high: float | None = None
    note: str = field(default="", metadata={"column": False})


@dataclass(frozen=True)
class SecondOrderRow:
    """The second-order index of a pair: the share that both explain together, beyond the first-order indices.

    input, other, output : their names. theta : as in `SensitivityRow`. second : with the ends of its interval.

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 500))
    >>> row = cbq.sensitivity(x * y, inputs={"x": x, "y": y}, second_order=True).second_order.rows[0]
    >>> bool(row.second > 0.8)
    True
    """

    input: str = field(metadata=in_text())
    other: str = field(metadata=in_text())
    output: str = field(metadata=in_text())
    theta: tuple[float, ...] = field(metadata={"column": False})
    second: float = field(metadata=in_text("{:.3f}".format))
    second_low: float = field(metadata=in_text("{:.3f}".format, "low"))
    second_high: float = field(metadata=in_text("{:.3f}".format, "high"))
    note: str = field(default="", metadata={"column": False})


@dataclass(frozen=True, eq=False, repr=False)
class _IndexTable(RowTable):
    """Indices with intervals; columns have thetas if there are several, and outputs likewise in texts."""

    rows: tuple[Any, ...]
    level: float = 0.95
    names: tuple[str, ...] = ()  # of the coordinates of theta
    notes: tuple[str, ...] = ()

    def _columns(self) -> Iterator[Column]:
        several = len({row.output for row in self.rows}) > 1
        thetas = np.array([row.theta for row in self.rows])
        for name, column in zip(self.names, thetas.T, strict=False):
            yield Column(name, column.tolist(), "{:.4g}".format)
        for each in super()._columns():
            if each.name == "output" and not several:
                each = replace(each, text=None)
            optional = each.name.startswith(("shapley", "at_"))
            if not optional or not all(map(is_unknown, each.values)):
                yield each

    def _legend(self) -> str:
        return f"Shares of the variance, with intervals of {100 * self.level:.4g}%."


@dataclass(frozen=True, eq=False, repr=False)
class SecondOrder(_IndexTable):
    """The second-order indices of all pairs. Immutable; it prints as a table.

    rows : one for each theta, output and pair. level : of the intervals. names : of the coordinates of theta.

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 500))
    >>> found = cbq.sensitivity(x * y, inputs={"x": x, "y": y}, second_order=True)
    >>> len(found.second_order.to_frame())
    1
    """

    rows: tuple[SecondOrderRow, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(_IndexTable, Drawn):
    """The sensitivity indices of all inputs. Immutable; it prints as a table, and `plot()` draws it.

    rows : one for each theta, output and input. level : of the intervals. names : of the coordinates of theta.
    second_order : a table of the second-order indices, if they were asked for. notes : remarks, without full stops.

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 500))
    >>> found = cbq.sensitivity(2 * x + y, inputs={"x": x, "y": y})
    >>> list(found.to_frame().columns[:4])
    ['input', 'output', 'first', 'first_low']
    """

    _title = "Which inputs matter"

    rows: tuple[SensitivityRow, ...]
    second_order: SecondOrder | None = None

    def _figure(self) -> Figure:
        return indices_figure(self)
