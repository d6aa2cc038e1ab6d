"""The expected value of partial perfect information, from a table of a probabilistic sensitivity analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq._arrays import Array, between_0_and_1, generator
from cbq.linalg.threads import run_in_pool, workers
from cbq.nested.decisions import Decisions, Name
from cbq.psa.analysis import Analysis, Contrasts, analyse
from cbq.psa.copies import remark
from cbq.psa.evpi import perfect_information, read_outputs
from cbq.psa.order import ROUNDING, in_order
from cbq.psa.result import EvppiRow, EvppiTable
from cbq.psa.sets import ColumnSet, column_sets
from cbq.psa.tables import ColumnTable, refuse_other_rows
from cbq.psa.units import in_units

MOVED = 0.01  # standard errors by which the order of sets has moved an estimate, from which on it is said
ROUGH = 0.1  # standard errors that the landmarks do not see, from which on it is said


def evppi_table(
    outputs: Any,
    inputs: Any,
    pars: Sequence[Any],
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    level: float = 0.95,
    rng: np.random.Generator | int = 0,
) -> Any:
    """The value of learning sets of uncertain inputs before deciding, as a pandas table.

    For each set the net benefits are regressed on its columns by a Gaussian process, and EVPPI is the posterior
    expectation of E max_d NB_d(set) - max_d E NB_d. Estimates are moved, as little as possible in units of their
    standard errors, to where none is below 0, above EVPI, or above that of a set that holds it.

    Parameters
    ----------
    outputs : the net benefit of each decision, one row per draw: a pandas DataFrame, a mapping from names to columns, a
        structured array, or an array (n, D), whose columns are called "0", "1", ...
    inputs : the uncertain inputs in the same rows: where both are of pandas, with the same row labels.
    pars : the sets, each a list of columns of `inputs` or a single one, by name, or by position (0, 1, ...) where no
        column of `inputs` is called by a whole number.
    effects, costs, willingness_to_pay : where outputs hold effects and costs instead, the columns of both for each
        decision, and what a unit of effect is worth, a number or a vector. Net benefits are then
        willingness_to_pay * effect - cost.
    level : of the intervals.
    rng : a generator or a seed, for the choice of landmarks and for draws of the posterior.

    Returns
    -------
    A row for each set and willingness to pay, with the columns pars, willingness_to_pay (where given), evppi, se,
    lower, upper, plug_in, evpi, n, landmarks, approximation and note; see `cbq.psa.Row`.
    """
    table = values_of_information(
        outputs,
        inputs,
        pars,
        effects=effects,
        costs=costs,
        willingness_to_pay=willingness_to_pay,
        level=level,
        rng=rng,
    )
    return table.to_frame()


def values_of_information(
    outputs: Any,
    inputs: Any,
    pars: Sequence[Any],
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    level: float = 0.95,
    rng: np.random.Generator | int = 0,
) -> EvppiTable:
    """The same as `evppi_table`, as an immutable result that prints, plots, and needs no pandas."""
    level, seed = between_0_and_1(level, "level"), int(generator(rng).integers(2**62))
    known, draws = ColumnTable.of(outputs, "outputs"), ColumnTable.of(inputs, "inputs")
    refuse_other_rows(known, draws)
    options = {"effects": effects, "costs": costs, "willingness_to_pay": willingness_to_pay}
    decisions, values = read_outputs(known, options)
    values, decisions, unit = in_units(values, decisions)
    sets = column_sets(pars, draws)
    contrasts = Contrasts.of(values, decisions)
    found: dict[int, Analysis] = {}

    def one(j: int) -> None:
        # the same seed for all sets: what is said about one must not depend on which others are asked about
        found[j] = analyse(contrasts, sets[j].columns, np.random.default_rng(seed))

    run_in_pool(one, len(sets), min(workers(), len(sets)))
    perfect = unit * perfect_information(values, decisions, np.ones(len(values), dtype=np.intp))[0]
    remarks = [remark(np.column_stack([values, each.columns])) for each in sets]
    estimates = _Estimates.of([found[j] for j in range(len(sets))], unit, perfect)
    return EvppiTable(_rows(sets, estimates, remarks, decisions, level), level)


@dataclass(frozen=True, eq=False)
class _Estimates:
    """What was found about J sets at K willingnesses to pay, (J, K) each, with EVPI (K,) and landmarks (J,)."""

    raw: Array
    se: Array
    plug_in: Array
    unseen: Array
    evpi: Array
    landmarks: list[int]

    @classmethod
    def of(cls, found: Sequence[Analysis], unit: float, evpi: Array) -> _Estimates:
        """From analyses in a unit of net benefits."""
        raw, se, plug_in, unseen = (
            unit * np.stack([getattr(each.value, name) for each in found])
            for name in ("evppi", "se", "plug_in", "unseen")
        )
        se = np.where(se > ROUNDING * evpi, se, 0.0)
        return cls(raw, se, plug_in, unseen, evpi, [each.landmarks for each in found])


def _rows(
    sets: Sequence[ColumnSet], found: _Estimates, remarks: Sequence[str], decisions: Decisions, level: float
) -> tuple[EvppiRow, ...]:
    """A row for each set and willingness to pay."""
    raw, se, perfect = found.raw, found.se, found.evpi
    members = [each.members for each in sets]
    ordered = np.stack([in_order(raw[:, k], se[:, k], members, float(perfect[k])) for k in range(len(perfect))], axis=1)
    prices = [None] if decisions.willingness_to_pay is None else np.ravel(decisions.willingness_to_pay).tolist()
    z = float(ndtri(0.5 * (1.0 + level)))
    return tuple(
        EvppiRow(
            pars=sets[j].label,
            willingness_to_pay=price,
            evppi=float(ordered[j, k]),
            se=float(se[j, k]),
            lower=max(float(ordered[j, k] - z * se[j, k]), 0.0),
            upper=float(ordered[j, k] + z * se[j, k]),
            plug_in=float(found.plug_in[j, k]),
            evpi=float(perfect[k]),
            n=len(sets[j].columns),
            landmarks=found.landmarks[j],
            approximation=float(found.unseen[j, k]),
            note=_note(raw[j, k], ordered[j, k], se[j, k], found.unseen[j, k], remarks[j]),
        )
        for j in range(len(sets))
        for k, price in enumerate(prices)
    )


def _note(raw: float, ordered: float, se: float, unseen: float, about_rows: str) -> str:
    """What is to be said about an estimate, and about the rows it is from."""
    parts = []
    if abs(ordered - raw) > MOVED * se > 0:
        parts.append(f"{raw:.4g} before it was brought into the order of sets")
    if unseen > ROUGH * se:
        parts.append(f"the landmarks do not see {unseen:.2g} of it: the net benefits are rough in so many columns")
    if about_rows:
        parts.append(about_rows)
    return "; ".join(parts)
