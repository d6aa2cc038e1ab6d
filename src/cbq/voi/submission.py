"""What the appendix of a submission has: ICERs, the plane, acceptability, EVPI and EVPPI, and a page of it all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq.common.checks import file_name, generator, text
from cbq.nested.decisions import Name
from cbq.voi.acceptability import Acceptability, ceac
from cbq.voi.icer_table import IcerTable, icers
from cbq.voi.information import Evpi, evpi, values_of_information
from cbq.voi.plane import CePlane, ce_plane, slope_of_line
from cbq.voi.result import EvppiTable


@dataclass(frozen=True, eq=False, repr=False)
class Appendix:
    """The results of a probabilistic sensitivity analysis. Immutable; it prints as its parts, one below the other.

    icers, plane : None if the outputs are net benefits, which do not tell effects from costs.
    ceac, evpi : at each willingness to pay.
    evppi : None if there are no inputs to value.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=300)
    >>> effects, costs = {"old": 0 * risk, "new": 1 + risk}, {"old": 0 * risk, "new": 20_000 + 0 * risk}
    >>> found = cbq.voi.appendix((effects, costs), {"risk": risk}, willingness_to_pay=[10_000, 20_000, 30_000])
    >>> found.icers.frontier, len(found.evppi.rows)
    (('old', 'new'), 3)
    """

    icers: IcerTable | None
    plane: CePlane | None
    ceac: Acceptability
    evpi: Evpi
    evppi: EvppiTable | None = None

    def report(self, path: str | PathLike[str], *, title: str | None = None, repeat: str | None = None) -> None:
        """Write a page to hand on, one HTML file that loads nothing: tables and charts of all parts.

        title : of the page. repeat : code or a command that makes these results.
        """
        from cbq.voi.appendix_page import appendix_page

        name = file_name(path, "path")
        for value, argument in ((title, "title"), (repeat, "repeat")):
            if value is not None:
                text(value, argument)
        appendix_page(self, title, repeat).write(name)

    def __str__(self) -> str:
        """The tables of all parts under their names."""
        parts = {
            "Costs and effects": self.icers,
            "Probability of being best (CEAC)": self.ceac,
            "Expected value of perfect information (EVPI)": self.evpi,
            "Expected value of partial perfect information (EVPPI)": self._some_evppi(),
        }
        return "\n\n".join(f"{name}\n{part}" for name, part in parts.items() if part is not None)

    __repr__ = __str__

    def _some_evppi(self) -> EvppiTable | None:
        """EVPPI at the willingness to pay that is nearest to the line in the plane."""
        if self.evppi is None or self.plane is None or self.plane.willingness_to_pay is None:
            return self.evppi
        line, prices = self.plane.willingness_to_pay, {row.willingness_to_pay for row in self.evppi.rows}
        nearest = min((each for each in prices if each is not None), key=lambda price: abs(price - line))
        rows = tuple(row for row in self.evppi.rows if row.willingness_to_pay == nearest)
        notes = [f"{len(prices) - 1} more values of the willingness to pay are not shown"] * (len(prices) > 1)
        return replace(self.evppi, rows=rows, notes=(*notes, *self.evppi.notes))


def appendix(
    outputs: Any,
    inputs: Any = None,
    pars: Any = "all",
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    decisions: Sequence[str] | None = None,
    reference: Name | None = None,
    line: float | None = None,
    level: float = 0.95,
    rng: np.random.Generator | int = 0,
) -> Appendix:
    """All parts of the appendix of a submission, from one table of draws.

    Parameters
    ----------
    outputs, effects, costs, willingness_to_pay : as in `cbq.evpi`.
    inputs, pars, rng : as in `cbq.evppi_table`; without inputs there is no EVPPI.
    decisions : their names, by default those that the columns tell.
    reference : the decision that the plane compares with, as in `cbq.voi.ce_plane`.
    line : the willingness to pay of the line in the plane (default: the middle one).
    level : of all intervals.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = cbq.voi.appendix({"old": np.zeros(100), "new": rng.normal(0.5, 1, 100)})
    >>> found.icers is None, found.ceac.decisions
    (True, ('old', 'new'))
    """
    at = None if line is None else slope_of_line(line, "line")
    if inputs is None and not (isinstance(pars, str) and pars == "all"):
        raise ValueError("pars are columns of inputs=, which are missing: pass them, too.")
    seed = generator(rng)
    given = {"effects": effects, "costs": costs}
    priced = given | {"willingness_to_pay": willingness_to_pay}
    accepted = ceac(outputs, **priced, decisions=decisions, level=level)  # type: ignore[arg-type]
    if accepted.willingness_to_pay is None and (reference is not None or at is not None):
        raise ValueError(
            "reference= and line= are for the plane of effects and costs, but the outputs are net "
            "benefits: leave them out."
        )
    table, plane = None, None
    if accepted.willingness_to_pay is not None:
        prices = np.sort(accepted.willingness_to_pay)
        at = float(prices[len(prices) // 2]) if at is None else at
        table = icers(outputs, **given, decisions=decisions, level=level)
        plane = ce_plane(outputs, **given, decisions=decisions, willingness_to_pay=at, reference=reference, level=level)
    perfect = evpi(outputs, **priced)  # type: ignore[arg-type]
    partial = None
    if inputs is not None:
        partial = values_of_information(outputs, inputs, pars, **priced, level=level, rng=seed)  # type: ignore[arg-type]
    return Appendix(table, plane, accepted, perfect, partial)
