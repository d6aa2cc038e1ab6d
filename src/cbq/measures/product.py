from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Self

import numpy as np

from cbq.common.arrays import Array, broadcast_batch
from cbq.io import Instance, Many, saved
from cbq.measures.base import Measure, measure_list, stack


@saved("Product", read=lambda product: {"measures": product.blocks}, measures=Many(Instance(Measure)))
class Product(Measure):
    """The joint measure of independent blocks of coordinates, with one measure per block.

    Parameters
    ----------
    measures : measures (or frozen scipy.stats distributions) of any dimensions, whose batch shapes broadcast.
        A Product among them is replaced by its blocks.

    Examples
    --------
    >>> measure = cbq.measures.Product([cbq.measures.Gamma(2.0, 1.0), cbq.measures.Gaussian(0.0, cov=1.0)])
    >>> measure.dim, measure.moments()[0]
    (2, array([2., 0.]))
    """

    blocks: tuple[Measure, ...]  # in the order of the coordinates

    def __init__(self, measures: Sequence[Any]) -> None:
        given = measure_list(measures, "Product", "measures")
        self.blocks = tuple(block for m in given for block in (m.blocks if isinstance(m, Product) else (m,)))
        self._parts = self.blocks
        shapes = {f"{i}: {type(m).__name__}": m.batch_shape for i, m in enumerate(self.blocks)}
        self._batch = broadcast_batch(shapes, "Product")
        stops = accumulate(block.dim for block in self.blocks)
        self._slices = [(m, slice(stop - m.dim, stop)) for m, stop in zip(self.blocks, stops, strict=True)]

    @property
    def dim(self) -> int:
        return self._slices[-1][1].stop

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self._batch

    def parameters(self) -> dict[str, Array]:
        """The parameters of every block, under names like "0.mean", with its batch axes."""
        return {f"{i}.{name}": a for i, m in enumerate(self.blocks) for name, a in m.parameters().items()}

    def __getitem__(self, index: Any) -> Product:
        return Product([block._broadcast_getitem(self._batch, index) for block in self.blocks])

    @classmethod
    def _stack(cls, measures: Sequence[Self]) -> Measure | None:
        if len({len(measure.blocks) for measure in measures}) > 1:
            return None
        stacked = [stack(blocks) for blocks in zip(*(measure.blocks for measure in measures), strict=True)]
        return None if any(block is None for block in stacked) else Product(stacked)

    def __repr__(self) -> str:
        return f"Product([{', '.join(map(repr, self.blocks))}])"

    def moments(self) -> tuple[Array, Array]:
        mean, cov = np.zeros((*self._batch, self.dim)), np.zeros((*self._batch, self.dim, self.dim))
        for block, part in self._slices:
            mean[..., part], cov[..., part, part] = block.moments()
        return mean, cov

    @property
    def support(self) -> tuple[Array, Array]:
        ends = np.empty((2, *self._batch, self.dim))
        for block, part in self._slices:
            ends[0, ..., part], ends[1, ..., part] = block.support
        return ends[0], ends[1]

    @property
    def has_smooth_density(self) -> bool:
        return all(block.has_smooth_density for block in self.blocks)

    def factors(self) -> tuple[Measure, ...]:
        factors = (factor for block in self.blocks for factor in block.factors())
        parts = tuple(factor._broadcast_getitem(self._batch, ...) for factor in factors)
        return parts if len(parts) > 1 else (self,)

    def _marginal(self, j: int) -> Measure:
        block, start = self._block_of(j)
        return block.marginal(j - start)._broadcast_getitem(self._batch, ...)

    def conditional(self, head: Array) -> Measure:
        block, start = self._block_of(head.shape[-1])
        return block.conditional(head[..., start:])

    def _block_of(self, j: int) -> tuple[Measure, int]:
        """The block that contains coordinate j, and its first coordinate."""
        return next((block, part.start) for block, part in self._slices if part.start <= j < part.stop)

    def _logpdf(self, x: Array) -> Array:
        terms = [m._logpdf(x[..., part]) for m, part in self._slices]
        return np.asarray(np.sum(np.stack(np.broadcast_arrays(*terms)), axis=0))

    def _score(self, x: Array) -> Array:
        return self._blockwise(lambda m, part: m._score(part), x)

    def _from_normal(self, v: Array) -> Array:
        return self._blockwise(lambda m, part: m._from_normal(part), v)

    def _to_normal(self, x: Array) -> Array:
        return self._blockwise(lambda m, part: m._to_normal(part), x)

    def _from_uniform(self, u: Array) -> Array:
        return self._blockwise(lambda m, part: m._from_uniform(part), u)

    def _to_uniform(self, x: Array) -> Array:
        return self._blockwise(lambda m, part: m._to_uniform(part), x)

    def _blockwise(self, function: Callable[[Measure, Array], Array], x: Array) -> Array:
        """Apply function(block, coordinates of the block) to every block of x (..., n, d), and join the results."""
        parts = [function(m, x[..., part]) for m, part in self._slices]
        lead = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
        return np.concatenate([np.broadcast_to(part, (*lead, part.shape[-1])) for part in parts], axis=-1)
