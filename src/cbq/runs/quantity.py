"""The quantity that an adaptive run estimates."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cbq.checkpoint import describe_measure, from_bytes, pack_measures
from cbq.common import Array, Booleans
from cbq.measures import Measure
from cbq.samples import Failures, Family, Names, Runs, Samples, equal_rows, measures_at


@dataclass(frozen=True, eq=False)
class Quantity:
    """The conditional expectation I(theta) of a problem, without its integrand.

    start: samples that the run starts from, or None. names: of the problem.
    """

    name: str
    family: Family
    prior: Measure
    depends_on_theta: bool
    stochastic: bool
    bounds: Array | None
    start: Samples | None
    names: Names

    @cached_property
    def d(self) -> int:
        """The dimension of x."""
        return measures_at(self.family, self.prior.transport(np.full((1, self.prior.dim), 0.5)))[0].dim

    @property
    def inputs(self) -> int:
        """The number of coordinates that f depends on."""
        return self.d + self.prior.dim * self.depends_on_theta

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that identify a run."""
        return {
            "problem": self.name,
            "depends_on_theta": self.depends_on_theta,
            "stochastic": self.stochastic,
            "bounds": None if self.bounds is None else [[str(end) for end in ends] for ends in self.bounds.tolist()],
            "p": self.prior.dim,
            "d": self.d,
            "design": "adaptive",
            "proposal": False,
            "scramble": None,
            "prior": _described(self.prior),
            "start": None if self.start is None else _digest(self.start),
            "names": self.names.record,
        }

    @property
    def started(self) -> Runs:
        """The points of `start` as runs."""
        if self.start is None:
            return Runs(np.empty((0, self.prior.dim)), np.empty((0, self.d)))
        return Runs(self.start.theta[self.start.owners], self.start.all_points)

    def samples(self, runs: Runs, values: Array, failed: Booleans) -> Samples | None:
        """The samples of runs with values (n, *outputs), NaN where they failed (n,), joined with `start`.

        Runs with equal theta belong together. None if no run has a value.
        """
        if np.all(failed):
            return self.start
        first, group = equal_rows(runs.theta)
        rows = [np.flatnonzero((group == g) & ~failed) for g in range(len(first))]
        with_values = [g for g, group_rows in enumerate(rows) if len(group_rows)]
        samples = Samples(
            runs.theta[first[with_values]],
            [runs.x[rows[g]] for g in with_values],
            [values[rows[g]] for g in with_values],
            self.family,
            depends_on_theta=self.depends_on_theta,
            design="adaptive",
            stochastic=self.stochastic,
            bounds=self.bounds,
            names=self.names,
        )
        if np.any(failed):
            missing = [runs.x[(group == g) & failed] for g in range(len(first))]
            known = [runs.x[group_rows] for group_rows in rows]
            samples = samples._with_failures(Failures.of(runs.theta[first], missing, known))
        return samples if self.start is None else self.start + samples


def _described(measure: Measure) -> str:
    """The first numbers of a measure for messages, and a hash of all of them, up to rounding."""
    packed = pack_measures([measure])[0]
    numbers = ",".join(f"{number:.9g}" for number in from_bytes(packed[1], (-1,)))
    return f"{describe_measure(packed)} [{hashlib.sha256(numbers.encode()).hexdigest()[:8]}]"


def _digest(samples: Samples) -> str:
    """A hash of thetas, points and values."""
    parts = (samples.theta, samples.counts, samples.all_points, samples.table)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()
