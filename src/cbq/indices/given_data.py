"""The shares of the variance of outputs that sets of columns explain, from a table of draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from cbq.common import Array
from cbq.indices.plan import Plan, Subset
from cbq.voi import evppi_variance


@dataclass(frozen=True, eq=False)
class RegressedShares:
    """The shares v(S) of K sets by regressions, with their standard errors: (K,) each. notes : remarks on them."""

    estimate: Array
    se: Array
    notes: tuple[str, ...]

    def read(self, plan: Plan, level: float) -> dict[str, tuple[Array, Array, Array]]:
        """The estimate and the ends of an interval of each index, (rows,) each; errors of sets count as independent."""
        reach, found = float(ndtri(0.5 * (1 + level))), {}
        for name, matrix in plan.indices.items():
            middle, se = matrix @ self.estimate, np.sqrt(matrix**2 @ self.se**2)
            if name == "shapley":
                se = np.hypot(se, plan.error_of_orders(self.estimate)[: len(matrix)])
            found[name] = middle, middle - reach * se, middle + reach * se
        return found


def regressed_shares(
    outputs: Any,
    inputs: Any,
    subsets: Sequence[Subset],
    columns: Sequence[Sequence[str]],
    rng: np.random.Generator,
) -> dict[str, RegressedShares]:
    """The shares of each output, by its name. columns : the names of those that members of subsets stand for."""
    sets = [[name for i in sorted(each) for name in columns[i]] for each in subsets]
    table, found = evppi_variance(outputs, inputs, sets, rng=rng), {}
    reach = float(ndtri(0.5 * (1 + table.level)))
    for name in dict.fromkeys(row.output for row in table.rows):
        rows = [row for row in table.rows if row.output == name]
        notes = dict.fromkeys(note for row in rows for note in row.note.split("; ") if note)
        se = np.array([(row.upper / row.variance - row.share) / reach if row.variance > 0 else 0.0 for row in rows])
        found[name] = RegressedShares(np.array([row.share for row in rows]), se, (*notes, *table.notes))
    return found
