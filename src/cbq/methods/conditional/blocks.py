"""Samples as regular arrays: blocks of thetas with equally many points, in the coordinates that a kernel acts on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Literal

import numpy as np

from cbq._arrays import Array, Integers
from cbq.gp.quadrature import GPData, Result
from cbq.kernels.warped import Log
from cbq.linalg import engine
from cbq.linalg.threads import at_most, one_blas_thread
from cbq.measures import Gaussian, Measure
from cbq.samples import Samples
from cbq.workers import Workers, call_each

XCoordinates = Literal["raw", "log", "gaussianised"]
PER_POINT = ("residuals", "precision", "evidence_without", "weights")  # results that have an axis of points


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleBlock(GPData):
    """B thetas with N points each, x and its measure in some coordinates. rows: (B,), their places among the thetas."""

    rows: Integers


class BlockedSamples:
    """Samples as blocks, laid out once in each of the coordinates that are asked for."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.blocks = cache(self._blocks)

    def _blocks(self, coordinates: XCoordinates) -> list[SampleBlock]:
        return sample_blocks(self.samples, coordinates)

    def evaluate(
        self, coordinates: XCoordinates, function: Callable[[SampleBlock], Result], executor: Executor | None = None
    ) -> Result:
        """`function` of every block, put together: arrays (K, T, ...), and (K, n, ...) of all points in one row.

        executor: whose workers share the thetas; thetas do not depend on each other, so the result is the same.
        """
        blocks = self.blocks(coordinates)
        if executor is not None:
            blocks = [shard for block in blocks for shard in _shards(block, Workers(executor).count)]
            function = partial(_on_one_thread, function)
        results = call_each(function, blocks, executor, "the measures and kernels of x", "Use those of cbq")
        parts = list(zip(blocks, results, strict=True))
        kind = type(parts[0][1])
        return kind(**{field.name: self._assembled(parts, field.name) for field in fields(kind)})

    def _assembled(self, parts: Sequence[tuple[SampleBlock, Result]], name: str) -> Array:
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


def _shards(block: SampleBlock, workers: int) -> Iterator[SampleBlock]:
    """A block as shards of some thetas each, several for each worker."""
    B = len(block.x)
    # Four for each worker, so that a slow one does not leave the others idle; and of up to 2^20 numbers, as larger
    # messages are slow, and clusters warn of them.
    step = max(1, min(-(-B // (4 * workers)), 2**20 // block.x[0].size))
    return (block[i : i + step] for i in range(0, B, step))


def _on_one_thread(function: Callable[[SampleBlock], Result], shard: SampleBlock) -> Result:
    """`function` of a shard in a worker, which leaves the other cores to others, and a GPU to the process that has it.

    A forked process would inherit the engine, and cannot use the GPU of its parent.
    """
    with at_most(1), one_blas_thread(), engine("numpy"):
        return function(shard)


def concatenated(results: Sequence[Result]) -> Result:
    """The results of several batches of kernels as those of one."""
    if len(results) == 1:
        return results[0]
    kind = type(results[0])
    return kind(**{f.name: np.concatenate([getattr(r, f.name) for r in results]) for f in fields(kind)})


def sample_blocks(samples: Samples, coordinates: XCoordinates) -> list[SampleBlock]:
    """The samples as blocks, in the given coordinates."""
    if coordinates == "gaussianised":
        normal = Gaussian(np.zeros(samples.d), np.ones(samples.d))
        return [SampleBlock(_gaussianised(part), _values(part), normal, rows=rows) for rows, part in _by_count(samples)]
    found = []
    for rows, part in _by_count(samples):
        whole = part.batched_measure()
        pieces = [(rows, part, whole)] if whole is not None else _one_by_one(rows, part)
        for places, piece, measure in pieces:
            x = np.asarray(piece.x)
            if coordinates == "log":
                found.append(SampleBlock(np.log(x), _values(piece), Log().image(measure), rows=places))
            else:
                found.append(SampleBlock(x, _values(piece), measure, rows=places))
    return found


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


def _values(part: Samples) -> Array:
    f = np.asarray(part.f)
    return f[..., None] if part.C is None else f


def _gaussianised(part: Samples) -> Array:
    whole = part.batched_measure()
    if whole is not None:
        u = whole.inverse_transport(np.asarray(part.x), base="normal")
    else:
        u = np.stack([part.measure(t).inverse_transport(part.points(t), base="normal") for t in range(part.T)])
    # A standard normal point beyond 9 has a mass of 1e-19: it is on the edge of the support, up to rounding.
    return np.clip(u, -9.0, 9.0)
