"""Cutting the work into batches, and putting what comes back where it belongs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.collect.integrand import Outcome, Outputs


class Batch(NamedTuple):
    """The points start : stop of theta t."""

    t: int
    start: int
    stop: int

    def __str__(self) -> str:
        return f"points {self.start} to {self.stop - 1} of theta index t = {self.t}"


class Finished(NamedTuple):
    """A batch with its outcome."""

    batch: Batch
    outcome: Outcome


def cut(wanted: Sequence[Booleans], size: int) -> Iterator[Batch]:
    """Batches of at most `size` points that cover the wanted ones of each theta, (N_t,), and no other.

    They end at multiples of `size`, so that what is missing of a run is cut as the whole run was.
    """
    for t, points in enumerate(wanted):
        edges = np.flatnonzero(np.diff(points, prepend=False, append=False)).tolist()
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            for first, last in pairwise([start, *range(start - start % size + size, stop, size), stop]):
                yield Batch(t, first, last)


@dataclass(eq=False)
class Board:
    """What is known so far of a run: points x, T arrays (N_t, d), and what came back of each of them."""

    x: list[Array]
    f: list[Array] = field(default_factory=list)  # (N_t, *outputs), NaN where f failed or is not known yet
    known: list[Booleans] = field(default_factory=list)  # (N_t,): evaluated, if with a failure
    failures: dict[tuple[int, int], str] = field(default_factory=dict)  # by t and the number of the point
    done: int = 0  # points that are known

    def __post_init__(self) -> None:
        self.known = [np.zeros(len(points), dtype=bool) for points in self.x]

    def expect(self, outputs: Outputs) -> None:
        """Make room for values."""
        self.f = [np.full((len(points), *outputs), np.nan) for points in self.x]

    @property
    def total(self) -> int:
        """The number of points that are asked for."""
        return sum(len(points) for points in self.x)

    def put(self, batch: Batch, outcome: Outcome) -> None:
        """Take in a batch; of one that reaches further than the run does, the part that it asks for."""
        stop = min(batch.stop, len(self.x[batch.t]))
        rows = slice(batch.start, stop)
        self.f[batch.t][rows] = outcome.f[: stop - batch.start]
        self.done += (stop - batch.start) - int(np.count_nonzero(self.known[batch.t][rows]))
        self.known[batch.t][rows] = True
        if self.failures:
            for i in range(batch.start, stop):
                self.failures.pop((batch.t, i), None)
        self.failures |= {(batch.t, i): why for i, why in outcome.failures.items() if i < stop}

    def forget_failures(self) -> None:
        """Make points at which f failed unknown again."""
        for t, i in self.failures:
            self.known[t][i] = False
        self.done -= len(self.failures)
        self.failures.clear()
