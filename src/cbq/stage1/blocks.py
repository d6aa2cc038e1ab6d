"""Samples as regular arrays: thetas with equally many points, in the coordinates that a kernel is to act on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cbq._arrays import Array, Integers
from cbq.kernels.warped import Log
from cbq.measures import Gaussian, Measure
from cbq.samples import Samples

XCoordinates = Literal["raw", "log", "gaussianised"]
_FARTHEST = 9.0  # a standard normal point beyond it has a mass of 1e-19: on the edge of the support, to rounding


@dataclass(frozen=True, eq=False)
class SampleBlock:
    """B thetas with N points each.

    rows: (B,) their places among the T thetas.
    x: (B, N, d), f: (B, N, C).
    measure: the measure of x in these coordinates, with batch shape (B,) or ().
    """

    rows: Integers
    x: Array
    f: Array
    measure: Measure

    @property
    def n(self) -> int:
        """The number of points of each theta."""
        return int(self.x.shape[1])

    def __getitem__(self, index: Any) -> SampleBlock:
        """Some of the thetas: a slice or an array of their numbers."""
        measure = self.measure[index] if self.measure.batch_shape else self.measure
        return SampleBlock(self.rows[index], self.x[index], self.f[index], measure)


def blocks(samples: Samples, coordinates: XCoordinates) -> list[SampleBlock]:
    """The samples as blocks, in the given coordinates."""
    if coordinates == "gaussianised":
        whole = standard_normal(samples.d)
        return [SampleBlock(rows, _gaussianised(part), _values(part), whole) for rows, part in _by_count(samples)]
    found = []
    for rows, part in _by_count(samples):
        measure = part.batched_measure()
        pieces = [(rows, part, measure)] if measure is not None else _one_by_one(rows, part)
        for places, piece, measure in pieces:
            if coordinates == "log":
                found.append(SampleBlock(places, np.log(_points(piece)), _values(piece), Log().image(measure)))
            else:
                found.append(SampleBlock(places, _points(piece), _values(piece), measure))
    return found


def standard_normal(d: int) -> Gaussian:
    """The measure of gaussianised points."""
    return Gaussian(np.zeros(d), np.ones(d))


def _by_count(samples: Samples) -> Iterator[tuple[Integers, Samples]]:
    """The samples of thetas with equally many points, and their places."""
    if not samples.is_ragged:
        yield np.arange(samples.T), samples
        return
    for n in np.unique(samples.counts):
        rows = np.flatnonzero(samples.counts == n)
        yield rows, samples.select(rows)


def _one_by_one(rows: Integers, part: Samples) -> Iterator[tuple[Integers, Samples, Measure]]:
    return ((rows[t : t + 1], part.select(t), part.measure(t)) for t in range(part.T))


def _points(part: Samples) -> Array:
    return np.asarray(part.x)


def _values(part: Samples) -> Array:
    f = np.asarray(part.f)
    return f[..., None] if part.C is None else f


def _gaussianised(part: Samples) -> Array:
    measure = part.batched_measure()
    if measure is not None:
        u = measure.inverse_transport(_points(part), base="normal")
    else:
        u = np.stack([part.measure(t).inverse_transport(part.points(t), base="normal") for t in range(part.T)])
    return np.clip(u, -_FARTHEST, _FARTHEST)
