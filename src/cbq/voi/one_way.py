"""A tornado: by how much the expected incremental net benefit moves with each input alone, from the table of a PSA.

The regression of EVPPI gives E[NB_d - NB_r | input] at a low and at a high value of the input, while all other inputs
vary as in the table. Nothing is held at a base case, and correlated inputs move together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cbq.common import Array, RNGLike, generator, is_number, shown
from cbq.linalg.threads import one_blas_thread
from cbq.nested.decisions import Name, is_list
from cbq.plotting import Drawn, Figure
from cbq.report import digits, in_text
from cbq.samples import ColumnTable
from cbq.voi.analysis import BenefitRegressions, Contrasts, regress
from cbq.voi.cost_effectiveness import decision_position
from cbq.voi.information import in_pool
from cbq.voi.money import PricedTable, in_digits, money
from cbq.voi.outputs import PRICE, read_draws
from cbq.voi.sets import informative, row_order, valued_sets

BETWEEN = (0.025, 0.975)


@dataclass(frozen=True)
class TornadoRow:
    """The expected incremental net benefit at a low and at a high value of one input.

    pars : the name of the input. low, high : its values, quantiles over the draws.
    at_low, at_low_se, at_high, at_high_se : the expected net benefit of the decision less the reference's, given that
        the input has this value, and its standard error.
    best_at_low, best_at_high : the decision with the largest expected net benefit there.
    n : the number of rows (draws). note : remarks on the input, or an empty string.

    Examples
    --------
    >>> risk = np.random.default_rng(0).normal(size=400)
    >>> row = cbq.voi.tornado({"old": 0 * risk, "new": 0.1 + risk}, {"risk": risk}).rows[0]
    >>> row.at_low < 0 < row.at_high, row.best_at_low, row.best_at_high
    (True, 'old', 'new')
    """

    pars: str = field(metadata=in_text())
    willingness_to_pay: float | None = field(metadata=in_text("{:g}".format))
    low: float = field(metadata=in_text(digits(4)))
    at_low: float = field(metadata=in_text(money, "at low"))
    at_low_se: float = field(metadata=in_text(in_digits(2), "its se"))
    high: float = field(metadata=in_text(digits(4)))
    at_high: float = field(metadata=in_text(money, "at high"))
    at_high_se: float = field(metadata=in_text(in_digits(2), "its se"))
    best_at_low: str = field(metadata=in_text(label="best at low"))
    best_at_high: str = field(metadata=in_text(label="best at high"))
    n: int
    note: str = ""

    @property
    def swing(self) -> float:
        """The distance between both ends."""
        return abs(self.at_high - self.at_low)


@dataclass(frozen=True, repr=False, eq=False)
class TornadoTable(PricedTable, Drawn):
    """A tornado, the input that moves the incremental net benefit most on top. Immutable; it prints as a table.

    rows : one for each input. decision, reference : whose net benefits are compared. average : their mean difference.
    between : the shares of draws below the low and the high values. currency : of the values, if it is stated.
    notes : remarks on the tables, without full stops.

    Examples
    --------
    >>> risk, price = np.random.default_rng(0).normal(size=(2, 400))
    >>> table = cbq.voi.tornado({"old": 0 * risk, "new": risk - 3 * price}, {"risk": risk, "price": price})
    >>> [row.pars for row in table.rows]
    ['price', 'risk']
    """

    rows: tuple[TornadoRow, ...]
    decision: str
    reference: str
    average: float
    between: tuple[float, float] = BETWEEN
    notes: tuple[str, ...] = ()
    currency: str = ""

    def _figure(self) -> Figure:
        """A bar for each input from its low to its high value, around the average."""
        from cbq.voi.figures import tornado_figure

        return tornado_figure(self)

    def _legend(self) -> str:
        low, high = (f"{100 * share:g}%" for share in self.between)
        return (
            f"Expected net benefit of {self.decision} less {self.reference}, {money(self.average)} on average, "
            f"with each input at the values that {low} and {high} of {self.rows[0].n} draws are below."
        )


def tornado(
    outputs: Any,
    inputs: Any,
    pars: Any = "all",
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: float | None = None,
    decisions: Sequence[str] | None = None,
    decision: Name | None = None,
    reference: Name | None = None,
    between: tuple[float, float] = BETWEEN,
    rng: RNGLike = 0,
) -> TornadoTable:
    """How far each input alone moves the expected incremental net benefit, and whether it changes the decision.

    Parameters
    ----------
    outputs, inputs, effects, costs : as in `cbq.evppi`. Inputs that are words are left out.
    pars : "all", or a list of inputs.
    willingness_to_pay : one number, if outputs are effects and costs.
    decisions : their names, by default as the columns suggest.
    decision, reference : whose net benefits are compared, by name or position (default: the two with the largest mean
        net benefits, the best one less the next).
    between : the shares of draws below the low and the high value of an input.
    rng : a generator or a seed, for the choice of landmarks.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> response = rng.beta(8, 4, 500)
    >>> net_benefits = {"old": 0 * response, "new": 1000 * (response - 0.6) + rng.normal(0, 50, 500)}
    >>> row = cbq.voi.tornado(net_benefits, {"response": response}, between=(0.1, 0.9)).rows[0]
    >>> round((row.at_high - row.at_low) / (row.high - row.low), -2)
    1000.0
    """
    shares = _shares(between)
    if willingness_to_pay is not None and not is_number(willingness_to_pay):
        raise ValueError(f"{PRICE} must be one number for a tornado, but it is {shown(willingness_to_pay)}.")
    seed = int(generator(rng).integers(2**62))
    pay = {"effects": effects, "costs": costs, PRICE: willingness_to_pay}
    described, table, (values, scaled, unit) = read_draws(outputs, inputs, pay)
    if not (isinstance(pars, str) and pars == "all") and not is_list(pars):
        raise TypeError(f"pars must be 'all' or a list of inputs, but it is {shown(pars)}.")
    sets, notes = valued_sets(pars, described, table)
    numeric = numeric_inputs(table, table.names)
    kept = [each for each in sets if len(each.members) == 1 and each.names[0] in numeric]
    if not kept:
        raise ValueError("none of the inputs is a column of numbers that vary, which a tornado needs.")
    left = [each.label for each in sets if each not in kept]
    notes = (*notes, *[f"Not drawn, because not a single input of numbers that vary: {', '.join(left)}"] * bool(left))
    order = row_order(values, kept, seed)
    contrasts, names = Contrasts.of(values[order], scaled), described.names(decisions)
    means = np.mean(values @ scaled.weights[0].T, axis=0)
    first, second = np.argsort(-means, kind="stable")[:2].tolist()
    d = first if decision is None else decision_position(decision, names, "decision")
    r = (second if d == first else first) if reference is None else decision_position(reference, names, "reference")
    if d == r:
        raise ValueError(f"decision and reference must be different, but both are {names[d]!r}.")

    def row(j: int) -> TornadoRow:
        learned = kept[j].take(order)
        raw = table.matrix([min(learned.members)])[order][:, 0]
        with one_blas_thread():
            found = regress(contrasts, learned.columns, np.random.default_rng(seed))
            ends = _unmoved(raw, means, shares, d, r) if found is None else _ends(found, raw, shares, d, r)
        fields: dict[str, Any] = {}
        for end, (at, value, se, best) in zip(("low", "high"), ends, strict=True):
            fields |= {end: at, f"at_{end}": unit * value, f"at_{end}_se": unit * se, f"best_at_{end}": names[best]}
        return TornadoRow(kept[j].label, willingness_to_pay, n=len(raw), note="; ".join(learned.notes), **fields)

    rows = sorted(in_pool(row, range(len(kept))), key=lambda each: -each.swing)
    average = float(unit * (means[d] - means[r]))
    return TornadoTable(tuple(rows), names[d], names[r], average, shares, (*described.notes, *notes))


def numeric_inputs(inputs: Any, names: Sequence[str]) -> list[str]:
    """Those of the inputs that are numbers and vary, each once."""
    table = inputs if isinstance(inputs, ColumnTable) else ColumnTable.of(inputs, "inputs")
    found = []
    for name in dict.fromkeys(names):
        try:
            column = table.matrix([table.names.index(name)])
        except (ValueError, TypeError):  # words, or gaps
            continue
        found += [name] * bool(informative(column, [name])[0])
    return found


End = tuple[float, float, float, int]  # of a bar: the value of the input, the expectation, its error, the best decision


def _shares(between: Any) -> tuple[float, float]:
    if not is_list(between) or len(between) != 2 or not all(is_number(share, 0.0, 1.0) for share in between):
        raise ValueError(f"between must be two shares from 0 to 1, such as {BETWEEN}, but it is {shown(between)}.")
    low, high = map(float, between)
    if not low < high:
        raise ValueError(f"between must be rising, but it is {shown(between)}.")
    return low, high


def _ends(found: BenefitRegressions, raw: Array, shares: tuple[float, float], d: int, r: int) -> list[End]:
    """Both ends of a bar, at the sites of the regression that are nearest to the quantiles of the input raw (n,)."""
    at = found.sites.means(raw[:, None])[:, 0]
    places = np.array([int(np.argmin(np.abs(at - quantile))) for quantile in np.quantile(raw, shares)])
    offset, B = found.benefits.offset[0], found.benefits.B[0]
    blocks, contrast, moves = [each.at(places) for each in found.posteriors], B[:, d] - B[:, r], 1.0 - found.all_zero
    mean = np.stack([block.mean for block in blocks], axis=1)  # (2, r)
    level = np.array([each.mean_std**2 for each in found.posteriors]) @ contrast**2
    variance = np.stack([np.sum(b.spread**2, axis=1) + b.unseen for b in blocks], axis=1) @ contrast**2
    # With probability all_zero, nothing depends on the input.
    moved = mean @ contrast
    total = level + moves * variance + moves * (1.0 - moves) * moved**2
    value, best = offset[d] - offset[r] + moves * moved, np.argmax(offset + moves * mean @ B, axis=1)
    columns = at[places].tolist(), value.tolist(), np.sqrt(total).tolist(), best.tolist()
    return list(zip(*columns, strict=True))


def _unmoved(raw: Array, means: Array, shares: tuple[float, float], d: int, r: int) -> list[End]:
    """Both ends of a bar if net benefits differ by constants."""
    best = int(np.argmax(means))
    return [(float(at), float(means[d] - means[r]), 0.0, best) for at in np.quantile(raw, shares)]
