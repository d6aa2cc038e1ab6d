"""Where further runs would help most, as a fit says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq.common.arrays import Array
from cbq.measures import Measure
from cbq.measures.base import measure_argument
from cbq.report.table import ArrayTable
from cbq.samples.names import Names, by_run, by_theta

N_WANTED = 64  # thetas at which I is wanted


@dataclass(frozen=True, eq=False, repr=False)
class Suggestion(ArrayTable):
    """Where the next runs help most: theta (n, p) and x (n, d), a row for each run, the best first.

    x: None where it does not matter which points a theta has, so long as they are spread over its measure.
    """

    theta: Array
    x: Array | None
    names: Names

    def __len__(self) -> int:
        return len(self.theta)

    def to_columns(self) -> dict[str, Array]:
        """The columns of a table, (n,) each: those of theta and of x, by their names."""
        return by_theta(self.theta, {}, self.names) if self.x is None else by_run(self.theta, self.x, self.names)

    def __repr__(self) -> str:
        if not len(self):
            return "Suggestion(no runs)"
        x = "" if self.x is None else f", {self.names.ranges('x', self.x)}"
        return f"Suggestion({len(self)} runs, {self.names.ranges('theta', self.theta)}{x})"


def thetas_between(observed: Array, prior: Any, n: int, rng: np.random.Generator) -> Array:
    """n thetas (n, p) of the prior, or else of the region of the observed ones (T, p), between random pairs of them."""
    if prior is not None:
        measure: Measure = measure_argument(prior, "prior")
        if measure.dim != observed.shape[1] or measure.batch_shape:
            raise ValueError(f"prior must be one measure in p = {observed.shape[1]} dimensions, but it is {measure!r}.")
        return measure.sample(n, rng)
    pairs = observed[rng.integers(len(observed), size=(2, n))]
    nearness = rng.random((n, 1)) ** 2  # mostly near one of the two, so that they fill the region as the observed do
    return np.asarray(pairs[0] + nearness * (pairs[1] - pairs[0]))
