"""The values of f at the points of a run, filled in batch by batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from cbq.common import Array, Booleans, require_memory

Outputs = tuple[int, ...]  # the shape of f at one point: () for a number, (C,) for C outputs
MAX_OUTPUTS = 2**20  # each has a name and an estimate of its own
COPIES = 2  # of the values of a run: here and in its samples


def require_outputs(C: int, n: int = 1) -> None:
    """Raise MemoryError if f has too many outputs for a run, or for n points in memory."""
    if C > MAX_OUTPUTS:
        raise MemoryError(
            f"{C} values at each point, but f has at most {MAX_OUTPUTS} outputs: return the quantities whose "
            f"expectations are wanted, such as maxima or averages."
        )
    require_memory(COPIES * C * n, f"f with {C} outputs at {n} points", "ask for fewer points, or return fewer values")


class Batch(NamedTuple):
    """The points start : stop of theta t, which are evaluated together."""

    t: int
    start: int
    stop: int

    def __str__(self) -> str:
        return f"points {self.start} to {self.stop - 1} of theta index t = {self.t}"


class BatchResult(NamedTuple):
    """The values f (n, *outputs) at the points of a batch, NaN where f failed.

    failures: the reasons, by the index of the point at its theta. seconds: the time of the batch, or None.
    """

    batch: Batch
    f: Array
    failures: dict[int, str]
    seconds: float | None = None

    def cut_around(self, points: Collection[tuple[int, int]]) -> list[BatchResult]:
        """Pieces of which each has one of these points (t, i) and no other, or none of them."""
        t, start, stop = self.batch
        inside = [i for theta, i in points if theta == t and start <= i < stop]
        edges = sorted({start, stop, *inside, *(i + 1 for i in inside)})
        return [self._part(a, b) for a, b in pairwise(edges)]

    def _part(self, start: int, stop: int) -> BatchResult:
        t, first, last = self.batch
        failures = {i: reason for i, reason in self.failures.items() if start <= i < stop}
        seconds = None if self.seconds is None else self.seconds * (stop - start) / (last - first)
        return BatchResult(Batch(t, start, stop), self.f[start - first : stop - first], failures, seconds)


def joined(results: Iterable[BatchResult]) -> list[BatchResult]:
    """The same results, with neighbouring points of a theta in one."""
    groups: list[list[BatchResult]] = []
    for result in results:
        t, start, _ = result.batch
        if groups and (last := groups[-1][-1].batch).t == t and last.stop == start:
            groups[-1].append(result)
        else:
            groups.append([result])
    return [_concatenated(group) if len(group) > 1 else group[0] for group in groups]


def _concatenated(results: Sequence[BatchResult]) -> BatchResult:
    batch = results[0].batch._replace(stop=results[-1].batch.stop)
    failures = {i: reason for result in results for i, reason in result.failures.items()}
    seconds = None if any(result.seconds is None for result in results) else sum(r.seconds or 0.0 for r in results)
    return BatchResult(batch, np.concatenate([result.f for result in results]), failures, seconds)


class Evaluations:
    """The points x of a run, T arrays (N_t, d), and the values of f that are known so far.

    Attributes
    ----------
    f : T arrays (N_t, *outputs), NaN where f failed or is not known yet; empty before `allocate`.
    known : T arrays (N_t,), whether f was evaluated, successfully or not.
    failures : the reasons, by (t, i), i the index of the point at theta t.
    n_done, n_total : the number of points at which f is known, and of all points.
    """

    def __init__(self, x: list[Array]) -> None:
        self.x = x
        self.f: list[Array] = []
        self.known: list[Booleans] = [np.zeros(len(points), dtype=bool) for points in x]
        self.failures: dict[tuple[int, int], str] = {}
        self.n_done, self.n_total = 0, sum(len(points) for points in x)

    @property
    def outputs(self) -> Outputs:
        """The shape of f at one point, after `allocate`."""
        return self.f[0].shape[1:]

    @property
    def has_values(self) -> bool:
        """Whether f is known to have a value at some point."""
        return self.n_done > len(self.failures)

    def allocate(self, outputs: Outputs) -> None:
        require_outputs(prod(outputs), self.n_total)
        self.f = [np.full((len(points), *outputs), np.nan) for points in self.x]

    def add(self, result: BatchResult, x: Array | None = None) -> None:
        """Take in a batch, or the part of it that lies within the run; a later result replaces an earlier one.

        x: (n, d), the points at which the batch was evaluated, which replace the points of the run.
        """
        t, start, stop = result.batch
        stop = min(stop, len(self.x[t]))
        if start >= stop:
            return
        self.f[t][start:stop] = result.f[: stop - start]
        if x is not None:
            self.x[t][start:stop] = x[: stop - start]
        self.n_done += (stop - start) - int(np.count_nonzero(self.known[t][start:stop]))
        self.known[t][start:stop] = True
        if self.failures:
            for i in range(start, stop):
                self.failures.pop((t, i), None)
        self.failures |= {(t, i): reason for i, reason in result.failures.items() if i < stop}

    def forget_failures(self) -> None:
        """Count points at which f failed as not evaluated."""
        for t, i in self.failures:
            self.known[t][i] = False
        self.n_done -= len(self.failures)
        self.failures.clear()

    def successes(self) -> dict[int, Booleans]:
        """Which points have a value, (N_t,), by theta index t; thetas without any value are left out."""
        good = [known.copy() for known in self.known]
        for t, i in self.failures:
            good[t][i] = False
        return {t: rows for t, rows in enumerate(good) if np.any(rows)}

    def failed_points(self) -> list[Array]:
        """The points at which f failed, T arrays (F_t, d)."""
        rows: list[list[int]] = [[] for _ in self.x]
        for t, i in sorted(self.failures):
            rows[t].append(i)
        return [x[each] for x, each in zip(self.x, rows, strict=True)]

    def missing_batches(self, size: int) -> Iterator[Batch]:
        """Batches of at most `size` points that cover exactly the points at which f is not known.

        They end at multiples of `size`, so that the rest of a run is divided as the whole run was.
        """
        for t, known in enumerate(self.known):
            edges = np.flatnonzero(np.diff(~known, prepend=False, append=False)).tolist()
            for start, stop in zip(edges[::2], edges[1::2], strict=True):
                for first, last in pairwise([start, *range(start - start % size + size, stop, size), stop]):
                    yield Batch(t, first, last)
