"""The value of information for estimation: how much of the variance of an output learning inputs would remove.

The expected reduction of Var Y by learning a set is Var E[Y | set], which is Var Y less E Var[Y | set].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from cbq.common import Array, RNGLike, autocorrelation_times, between_0_and_1, generator
from cbq.gp.regression import Regressions, WhiteOutputs, regressions, site_blocks
from cbq.linalg.threads import one_blas_thread
from cbq.plotting import Drawn, Figure
from cbq.report import Column, RowTable, in_text
from cbq.samples import ColumnTable, check_same_rows
from cbq.voi.information import NOTE_MISFIT, in_pool
from cbq.voi.outputs import not_inputs, scale_columns
from cbq.voi.sets import ColumnSet, column_sets, monotone_estimates, row_order
from cbq.voi.uncertainty import NetBenefits, Slopes, sandwich

MAX_EXPONENT = 500  # of two: squares of larger or smaller outputs are not in float64


@dataclass(frozen=True)
class VarianceRow:
    """The expected reduction of the variance of an output by learning a set of inputs.

    pars, output : the names of the inputs and of the output.
    reduction, se, lower, upper : Var E[output | set], its standard error, and the ends of its interval.
    variance : of the output. share : reduction / variance, the sensitivity index of the set.
    n : the number of draws. note : remarks on the estimate, or an empty string.

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 400))
    >>> row = cbq.voi.evppi_variance(x + y, {"x": x, "y": y}, ["x"]).rows[0]
    >>> bool(0.4 < row.share < 0.6)
    True
    """

    pars: str = field(metadata=in_text())
    output: str = field(metadata=in_text())
    reduction: float = field(metadata=in_text(4))
    se: float = field(metadata=in_text(2))
    lower: float = field(metadata=in_text(4))
    upper: float = field(metadata=in_text(4))
    variance: float = field(metadata=in_text(4))
    share: float = field(metadata=in_text("{:.1%}".format))
    n: int
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class VarianceTable(RowTable, Drawn):
    """The expected reductions of variance of all outputs and sets. Immutable; it prints as a table.

    rows : one for each output and set, in this order. level : of the intervals.
    notes : remarks on the tables of outputs and inputs, without full stops.

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 400))
    >>> len(cbq.voi.evppi_variance(x + y, {"x": x, "y": y}).to_frame())
    2
    """

    rows: tuple[VarianceRow, ...]
    level: float = 0.95
    notes: tuple[str, ...] = ()

    def _figure(self) -> Figure:
        """A bar for each set, with the variance of the output as a line; for the first output."""
        from cbq.voi.figures import reductions_figure

        return reductions_figure(self)

    def _columns(self) -> Iterator[Column]:
        """The columns; the output is in texts only if there are several."""
        several = len({row.output for row in self.rows}) > 1
        for each in super()._columns():
            yield each if several or each.name != "output" else replace(each, text=None)

    def _legend(self) -> str:
        return f"Intervals of {100 * self.level:.4g}%; {self.rows[0].n} rows."


@dataclass(frozen=True)
class _Reduction:
    """Var E[Y | set], in units of Var Y, with its variance and remarks."""

    value: float = 0.0
    variance: float = 0.0
    note: str = ""


def evppi_variance(
    outputs: Any,
    inputs: Any,
    pars: Any = "all",
    *,
    level: float = 0.95,
    rng: RNGLike = 0,
) -> VarianceTable:
    """The expected reduction of the variance of outputs by learning inputs, for models that estimate, not decide.

    It is Var E[output | set]: the part of the variance of the output that is due to the set. The output is regressed
    on the columns of the set as in `cbq.evppi`, and the posterior expectation of the variance of the regression
    function is taken. Estimates are made monotone over the sets, as there.

    Parameters
    ----------
    outputs : one or several outputs of a model, one row per draw: an array (n,) or (n, C), a pandas object, or a
        mapping from names to columns. Each is a question of its own.
    inputs, pars, level, rng : as in `cbq.evppi`.

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 500))
    >>> found = cbq.voi.evppi_variance({"sum": 2 * x + y}, {"x": x, "y": y}, ["x", ["x", "y"]])
    >>> [round(row.share, 1) for row in found.rows]
    [0.8, 1.0]
    """
    level, seed = between_0_and_1(level, "level"), int(generator(rng).integers(2**62))
    input_table, table = ColumnTable.of(inputs, "inputs"), ColumnTable.of(outputs, "outputs")
    check_same_rows(table, input_table)
    sets, notes = column_sets(pars, input_table, not_inputs(table, input_table, table.names))
    values = table.matrix(range(len(table.names)))
    order = row_order(values, sets, seed)
    values, sets = values[order], [each.take(order) for each in sets]
    scaled, C, J = scale_columns(values)[0], values.shape[1], len(sets)

    each_output = [WhiteOutputs.of(scaled[:, [c]]) for c in range(C)]

    def reduction(i: int) -> _Reduction:
        c, columns = i // J, sets[i % J].columns
        given = columns.shape[1] > 0
        return _reduction(each_output[c], columns, np.random.default_rng(seed)) if given else _Reduction()

    found = in_pool(reduction, range(C * J))
    rows = [
        row
        for c, name in enumerate(table.names)
        for row in _rows(name, values[:, c], sets, found[c * J : (c + 1) * J], level)
    ]
    return VarianceTable(tuple(rows), level, notes)


def _reduction(y: WhiteOutputs, columns: Array, rng: np.random.Generator) -> _Reduction:
    """Var E[y | columns] for one output y and columns (n, p), none of them constant."""
    with one_blas_thread():
        found = regressions(y, columns, rng)
        if found is None:  # y is constant
            return _Reduction()
        moments = _Moments.of(found)
        slopes = Slopes(np.zeros((1, 1)), [2.0 * moments.slope[:, None]], np.zeros((1, 1, 1)))
        residual, assumed, _, _ = sandwich(found.posteriors, found.outputs, _ONE_OUTPUT, slopes)
        time = float(np.max(found.dependence.times))
        variance = moments.regression + time * float(np.maximum(residual - assumed, 0.0)[0]) + moments.sampling(found)
        zero, misfit = found.all_zero, found.misfit()
    value = (1.0 - zero) * moments.value
    note = f"the regression missed structure (misfit {misfit:.2g})" if misfit > NOTE_MISFIT else ""
    return _Reduction(value, (1.0 - zero) * variance + zero * (1.0 - zero) * moments.value**2, note)


ITSELF = np.array(
    [[[0.0, 1.0]]]
)  # (1, 1, 2): a decision with net benefit 0, and one with the output as its net benefit
_ONE_OUTPUT = NetBenefits(np.zeros((1, 2)), ITSELF)


@dataclass(frozen=True, eq=False)
class _Moments:
    """The mean over rows of g^2, for the posterior of a regression function g of mean 0 over the rows.

    With g = mean + spread xi at the sites, g^2 has the linear term 2 mean spread xi and the quadratic (spread xi)^2.

    value : the posterior expectation of the mean of g^2. squares : (s,), the expectations of g^2 at the sites.
    slope : (m,), the mean over rows of mean * spread. scatter : (m, m), the mean of spread' spread.
    """

    value: float
    squares: Array
    slope: Array
    scatter: Array

    @classmethod
    def of(cls, found: Regressions) -> _Moments:
        (posterior,), counts = found.posteriors, found.outputs.counts
        share = counts / np.sum(counts)
        squares, slope = np.empty(len(counts)), np.zeros(posterior.m)
        scatter = np.zeros((posterior.m, posterior.m))
        for (block,) in site_blocks([posterior]):
            weights = share[block.sites]
            squares[block.sites] = block.mean**2 + np.sum(block.spread**2, axis=1) + block.unseen
            slope += (weights * block.mean) @ block.spread
            scatter += (weights[:, None] * block.spread).T @ block.spread
        return cls(float(share @ squares), squares, slope, scatter)

    @property
    def regression(self) -> float:
        """The posterior variance of the mean of g^2: of the linear and of the quadratic term, for normal xi."""
        return 4.0 * float(self.slope @ self.slope) + 2.0 * float(np.sum(self.scatter**2))

    def sampling(self, found: Regressions) -> float:
        """The variance that is due to the rows being a sample."""
        counts, place = found.outputs.counts, found.dependence.place
        n = float(np.sum(counts))
        time = 1.0 if place is None else float(autocorrelation_times(self.squares[place][:, None])[0])
        return time * float(counts @ (self.squares - self.value) ** 2) / n / max(n - 1.0, 1.0)


def _rows(
    name: str, y: Array, sets: Sequence[ColumnSet], found: Sequence[_Reduction], level: float
) -> list[VarianceRow]:
    """The rows of one output (n,), with reductions that are monotone over the sets."""
    exponent = int(np.frexp(np.max(np.abs(y)))[1])
    if abs(exponent) > MAX_EXPONENT:
        raise ValueError(
            f"the variance of the output {name!r} would leave float64, because its values are of size 2^{exponent}: "
            f"multiply it by a constant."
        )
    variance = float(np.var(y))
    raw, se = np.array([each.value for each in found]), np.sqrt([each.variance for each in found])
    shares = monotone_estimates(raw, se, [each.members for each in sets], 1.0) if variance > 0 else 0.0 * raw
    reach = float(ndtri(0.5 * (1.0 + level))) * se
    return [
        VarianceRow(
            pars=each.label,
            output=name,
            reduction=float(share * variance),
            se=float(error * variance),
            lower=float(max(share - half, 0.0) * variance),
            upper=float((share + half) * variance),
            variance=variance,
            share=float(share),
            n=len(y),
            note="; ".join([*each.notes, *filter(None, [value.note])]),
        )
        for each, value, share, error, half in zip(sets, found, shares, se, reach, strict=True)
    ]
