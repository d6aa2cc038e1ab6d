"""A kernel at all thetas: results of blocks put together, per theta and per point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache

import numpy as np

from cbq._arrays import Array
from cbq.samples import Samples
from cbq.stage1.blocks import Block, Coordinates, blocks
from cbq.stage1.quadrature import Explained, Result

PER_POINT = ("residuals", "evidence_without", "weights")


class Everywhere:
    """The samples in all coordinates that are asked for, each laid out once."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.blocks = cache(self._blocks)

    def _blocks(self, coordinates: Coordinates) -> list[Block]:
        return blocks(self.samples, coordinates)

    def evaluate(self, coordinates: Coordinates, function: Callable[[Block], Result]) -> Result:
        """`function` of every block, put together: arrays (T, ...), and (n, ...) of all points in one row."""
        parts = [(block, function(block)) for block in self.blocks(coordinates)]
        kind = type(parts[0][1])
        return kind(**{field.name: self._together(parts, field.name) for field in fields(kind)})

    def _together(self, parts: Sequence[tuple[Block, Explained]], name: str) -> Array:
        s = self.samples
        first = getattr(parts[0][1], name)
        if name not in PER_POINT:
            out = np.empty((s.T, *first.shape[1:]))
            for block, result in parts:
                out[block.rows] = getattr(result, name)
            return out
        out = np.empty((s.n_evaluations, *first.shape[2:]))
        for block, result in parts:
            places = s.starts[block.rows][:, None] + np.arange(block.n)
            out[places] = getattr(result, name)
        return out
