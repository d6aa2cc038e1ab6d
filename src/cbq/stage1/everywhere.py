"""Kernels at all thetas: results of blocks put together, per theta and per point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache

import numpy as np

from cbq._arrays import Array
from cbq.samples import Samples
from cbq.stage1.blocks import SampleBlock, XCoordinates, blocks
from cbq.stage1.quadrature import KernelEvidence, Result

PER_POINT = ("residuals", "evidence_without", "weights")


class BlockedSamples:
    """The samples in all coordinates that are asked for, each laid out once."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.blocks = cache(self._blocks)

    def _blocks(self, coordinates: XCoordinates) -> list[SampleBlock]:
        return blocks(self.samples, coordinates)

    def evaluate(self, coordinates: XCoordinates, function: Callable[[SampleBlock], Result]) -> Result:
        """`function` of every block, put together: arrays (K, T, ...), and (K, n, ...) of all points in one row."""
        parts = [(block, function(block)) for block in self.blocks(coordinates)]
        kind = type(parts[0][1])
        return kind(**{field.name: self._together(parts, field.name) for field in fields(kind)})

    def _together(self, parts: Sequence[tuple[SampleBlock, KernelEvidence]], name: str) -> Array:
        samples, first = self.samples, getattr(parts[0][1], name)
        if name in PER_POINT:
            out = np.empty((len(first), samples.n_evaluations, *first.shape[3:]))
            for block, result in parts:
                out[:, samples.starts[block.rows][:, None] + np.arange(block.n)] = getattr(result, name)
        else:
            out = np.empty((len(first), samples.T, *first.shape[2:]))
            for block, result in parts:
                out[:, block.rows] = getattr(result, name)
        return out


def stacked(results: Sequence[Result]) -> Result:
    """The results of several batches of kernels as those of one."""
    if len(results) == 1:
        return results[0]
    kind = type(results[0])
    return kind(**{f.name: np.concatenate([getattr(r, f.name) for r in results]) for f in fields(kind)})
