"""Samples as regular arrays: thetas with equally many points, in the coordinates that a kernel is to act on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cbq._arrays import Array, Integers
from cbq.kernels.transforms import Log
from cbq.measures import Gaussian, Measure
from cbq.samples import Samples

Coordinates = Literal["raw", "log", "gaussianised"]
_FARTHEST = 9.0  # a standard normal point beyond it has a mass of 1e-19: on the edge of the support, to rounding


@dataclass(frozen=True, eq=False)
class Block:
    """B thetas with N points each.

    rows: (B,) their places among the T thetas.
    x: (B, N, d), f: (B, N, C).
    law: the law of x in these coordinates, with batch shape (B,) or ().
    """

    rows: Integers
    x: Array
    f: Array
    law: Measure

    @property
    def n(self) -> int:
        """The number of points of each theta."""
        return int(self.x.shape[1])

    def __getitem__(self, index: Any) -> Block:
        """Some of the thetas: a slice or an array of their numbers."""
        law = self.law[index] if self.law.batch_shape else self.law
        return Block(self.rows[index], self.x[index], self.f[index], law)


def blocks(samples: Samples, coordinates: Coordinates) -> list[Block]:
    """The samples as blocks, in the given coordinates."""
    if coordinates == "gaussianised":
        whole = standard_normal(samples.d)
        return [Block(rows, _gaussianised(part), _values(part), whole) for rows, part in _by_count(samples)]
    found = []
    for rows, part in _by_count(samples):
        law = part.batched_measure()
        pieces = [(rows, part, law)] if law is not None else _one_by_one(rows, part)
        for places, piece, law in pieces:
            if coordinates == "log":
                found.append(Block(places, np.log(_points(piece)), _values(piece), Log().image(law)))
            else:
                found.append(Block(places, _points(piece), _values(piece), law))
    return found


def standard_normal(d: int) -> Gaussian:
    """The law of gaussianised points."""
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
    return ((rows[t : t + 1], part.select(t), part.law(t)) for t in range(part.T))


def _points(part: Samples) -> Array:
    return np.asarray(part.x)


def _values(part: Samples) -> Array:
    f = np.asarray(part.f)
    return f[..., None] if part.C is None else f


def _gaussianised(part: Samples) -> Array:
    law = part.batched_measure()
    if law is not None:
        u = law.inverse_transport(_points(part), base="normal")
    else:
        u = np.stack([part.law(t).inverse_transport(part.points(t), base="normal") for t in range(part.T)])
    return np.clip(u, -_FARTHEST, _FARTHEST)
