from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cbq._arrays import Array, broadcast_batch
from cbq.io import Instance, Many, saved
from cbq.measures.base import Measure
from cbq.measures.batches import all_equal, join, take
from cbq.measures.from_scipy import as_measure


@saved("Product", read=lambda product: {"measures": product.blocks}, measures=Many(Instance(Measure)))
class Product(Measure):
    """The joint distribution of independent blocks of coordinates, one measure per block.

    Parameters
    ----------
    measures : measures (or frozen scipy.stats distributions) of any dimensions, whose batch shapes broadcast.
        A Product among them is replaced by its blocks.
    """

    blocks: tuple[Measure, ...]

    def __init__(self, measures: Sequence[Any]) -> None:
        if isinstance(measures, Measure):
            raise TypeError(f"Product takes a list of measures, but one {measures!r} arrived: write [measure].")
        given = [as_measure(m) for m in measures]
        if not given:
            raise ValueError("Product needs at least one measure, but the list is empty.")
        self.blocks = tuple(block for m in given for block in (m.blocks if isinstance(m, Product) else (m,)))
        self._batch = broadcast_batch(
            {f"{i}: {type(m).__name__}": m.batch_shape for i, m in enumerate(self.blocks)}, "Product"
        )
        stops = np.cumsum([block.dim for block in self.blocks])
        self._slices = [slice(int(b) - m.dim, int(b)) for b, m in zip(stops, self.blocks, strict=True)]

    @property
    def dim(self) -> int:
        return self._slices[-1].stop

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self._batch

    def parameters(self) -> dict[str, Array]:
        """The parameters of every block, under names like "0.mean"; each with its block's own batch axes."""
        return {f"{i}.{name}": a for i, m in enumerate(self.blocks) for name, a in m.parameters().items()}

    def __getitem__(self, index: Any) -> Product:
        return Product([take(block, self._batch, index) for block in self.blocks])

    def __repr__(self) -> str:
        return f"Product([{', '.join(map(repr, self.blocks))}])"

    def moments(self) -> tuple[Array, Array]:
        cov = np.zeros((*self._batch, self.dim, self.dim))
        mean = np.zeros((*self._batch, self.dim))
        for block, part in zip(self.blocks, self._slices, strict=True):
            mean[..., part], cov[..., part, part] = block.moments()
        return mean, cov

    @property
    def support(self) -> tuple[Array, Array]:
        ends = np.empty((2, *self._batch, self.dim))
        for block, part in zip(self.blocks, self._slices, strict=True):
            ends[0, ..., part], ends[1, ..., part] = block.support
        return ends[0], ends[1]

    def equals(self, other: Measure) -> bool:
        return isinstance(other, Product) and all_equal(self.blocks, other.blocks)

    @property
    def has_smooth_density(self) -> bool:
        return all(block.has_smooth_density for block in self.blocks)

    def factors(self) -> tuple[Measure, ...]:
        parts = tuple(take(factor, self._batch, ...) for block in self.blocks for factor in block.factors())
        return parts if len(parts) > 1 else (self,)

    def marginal(self, j: int) -> Measure:
        block, start = self._block_of(j)
        return take(block.marginal(j - start), self._batch, ...)

    def conditional(self, head: Array) -> Measure:
        block, start = self._block_of(head.shape[-1])
        return block.conditional(head[..., start:])

    def _block_of(self, j: int) -> tuple[Measure, int]:
        """The block that holds coordinate j, and where it starts."""
        pairs = zip(self.blocks, self._slices, strict=True)
        return next((block, part.start) for block, part in pairs if part.start <= j < part.stop)

    def sample(self, n: int, rng: np.random.Generator | int) -> Array:
        draw = super().sample(n, rng)
        return np.broadcast_to(draw, (*self._batch, *draw.shape[-2:]))

    def _logpdf(self, x: Array) -> Array:
        terms = [m._logpdf(x[..., part]) for m, part in zip(self.blocks, self._slices, strict=True)]
        return np.asarray(np.sum(np.stack(np.broadcast_arrays(*terms)), axis=0))

    def _score(self, x: Array) -> Array:
        return self._each(lambda m, part: m._score(part), x)

    def _from_normal(self, v: Array) -> Array:
        return self._each(lambda m, part: m._from_normal(part), v)

    def _to_normal(self, x: Array) -> Array:
        return self._each(lambda m, part: m._to_normal(part), x)

    def _from_uniform(self, u: Array) -> Array:
        return self._each(lambda m, part: m._from_uniform(part), u)

    def _to_uniform(self, x: Array) -> Array:
        return self._each(lambda m, part: m._to_uniform(part), x)

    def _each(self, apply: Callable[[Measure, Array], Array], x: Array) -> Array:
        return join([apply(m, x[..., part]) for m, part in zip(self.blocks, self._slices, strict=True)])
