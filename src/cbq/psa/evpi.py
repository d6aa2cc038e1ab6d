"""The expected value of perfect information, straight from the draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq._arrays import Array, between_0_and_1
from cbq.nested.decisions import Decisions, Name, make_decisions
from cbq.psa.tables import ColumnTable
from cbq.psa.units import in_units
from cbq.samples import Samples


@dataclass(frozen=True, eq=False)
class Evpi:
    """E max_d NB_d - max_d E NB_d with its standard error: numbers, or (K,) for a vector of willingness to pay.

    Immutable: arrays are read-only.
    """

    estimate: float | Array
    std: float | Array
    willingness_to_pay: float | Array | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if isinstance(given := getattr(self, field.name), np.ndarray):
                own = given.copy()
                own.setflags(write=False)
                object.__setattr__(self, field.name, own)

    def interval(self, level: float = 0.95) -> tuple[float | Array, float | Array]:
        """The ends of a normal interval of this level, none of them below 0."""
        z = float(ndtri(0.5 * (1.0 + between_0_and_1(level, "level"))))
        low, high = np.maximum(self.estimate - z * self.std, 0.0), self.estimate + z * self.std
        return (low, high) if np.ndim(high) else (float(low), float(high))


def evpi(
    outputs: Any,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
) -> Evpi:
    """The expected value of knowing everything before deciding.

    Parameters
    ----------
    outputs : the net benefit of each decision, one row per draw: a pandas DataFrame, a mapping from names to columns,
        an array (n, D); or cbq.Samples with C outputs, whose thetas are the independent draws.
    effects, costs, willingness_to_pay : where outputs hold effects and costs instead, the columns of both for each
        decision, and what a unit of effect is worth, a number or a vector.
    """
    options = {"effects": effects, "costs": costs, "willingness_to_pay": willingness_to_pay}
    if isinstance(outputs, Samples):
        values, groups = outputs.table.reshape(int(np.sum(outputs.counts)), -1), np.asarray(outputs.counts)
        decisions = make_decisions(values.shape[1], **options)  # type: ignore[arg-type]
    else:
        decisions, values = read_outputs(ColumnTable.of(outputs, "outputs"), options)
        groups = np.ones(len(values), dtype=np.intp)
    if len(groups) < 2:
        raise ValueError("a standard error of EVPI needs at least 2 independent draws, but there is 1.")
    values, decisions, unit = in_units(values, decisions)
    estimate, std = (unit * found for found in perfect_information(values, decisions, groups))
    prices = decisions.willingness_to_pay
    if decisions.several:
        return Evpi(estimate, std, prices)
    return Evpi(float(estimate[0]), float(std[0]), None if prices is None else float(prices))


def read_outputs(table: ColumnTable, options: dict[str, Any]) -> tuple[Decisions, Array]:
    """The decisions that a table of outputs describes, and its values (n, C), 0 in columns that no decision needs."""
    decisions = make_decisions(len(table.names), table.names, **options)
    used = np.flatnonzero(np.any(decisions.weights != 0, axis=(0, 1)) | (decisions.willingness_to_pay is None))
    values = np.zeros((table.n, len(table.names)))
    values[:, used] = table.matrix([int(i) for i in used])
    return decisions, values


def perfect_information(values: Array, decisions: Decisions, groups: npt.NDArray[np.intp]) -> tuple[Array, Array]:
    """EVPI and its standard error, (K,) each, from outputs (rows, C) in independent groups of these sizes.

    Each group counts the same, whatever its size.
    """
    starts = np.concatenate([[0], np.cumsum(groups)[:-1]])
    found = []
    for weights in decisions.weights:
        benefits = values @ (weights - weights[:1]).T  # less that of the first decision, which changes nothing
        means = np.mean(np.add.reduceat(benefits, starts) / groups[:, None], axis=0)
        gain = np.max(benefits, axis=1) - benefits[:, int(np.argmax(means))]
        each = np.add.reduceat(gain, starts) / groups
        found.append((np.mean(each), np.std(each, ddof=1) / np.sqrt(len(groups))))
    estimate, std = np.array(found).T
    return estimate, std
