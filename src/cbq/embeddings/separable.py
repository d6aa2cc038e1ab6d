"""Kernels that are products over coordinates, under measures with independent coordinates."""

from __future__ import annotations

from functools import reduce

import numpy as np

from cbq._arrays import Array
from cbq.embeddings.base import Delegated, Embedding
from cbq.embeddings.errors import NoEmbedding
from cbq.embeddings.registry import find, register
from cbq.embeddings.scale_mixture import ScaleMixture
from cbq.kernels import RBF, Kernel, Matern, ProductKernel, TensorProduct
from cbq.measures import Measure, Product

Separable = RBF | TensorProduct | ProductKernel


class Factorised(Embedding):
    """Product of the embeddings of independent blocks of coordinates."""

    rule = "product over independent coordinates"

    def __init__(self, kernel: Separable, measure: Measure) -> None:
        super().__init__(kernel, measure)
        factors = measure.factors()
        if len(factors) == 1 and measure.dim > 1:
            raise NoEmbedding(
                f"no closed form for {kernel!r} under {measure!r}: its coordinates are not independent. "
                f"Put the kernel on independent coordinates, Warped(kernel, 'whiten') for a Gaussian or "
                f"Warped(kernel, 'gaussianise') for any measure with a transport, or use method='quadrature'."
            )
        self._blocks = _blocks(factors)
        self._parts = [
            find(restrict(kernel, block), factor) for block, factor in zip(self._blocks, factors, strict=True)
        ]

    def _mean(self, x: Array) -> Array:
        means = [part._mean(x[..., b]) for part, b in zip(self._parts, self._blocks, strict=True)]
        return reduce(np.multiply, means)

    def _variance(self) -> Array:
        return reduce(np.multiply, [part._variance() for part in self._parts])

    def _cross(self, other: Measure) -> Array:
        measures = other.factors()
        if _blocks(measures) != self._blocks:
            raise NoEmbedding(
                f"no closed form for cross of {self.kernel!r} between {self.measure!r} and {other!r}: "
                f"they do not split into the same independent blocks; use a kernel that has one, such as RBF."
            )
        return reduce(
            np.multiply, [part._cross_any(measure) for part, measure in zip(self._parts, measures, strict=True)]
        )


def restrict(kernel: Kernel, block: slice) -> Kernel:
    """A separable kernel on a block of its coordinates."""
    if isinstance(kernel, ProductKernel):
        return ProductKernel([restrict(k, block) for k in kernel.parts])
    assert isinstance(kernel, (RBF, TensorProduct))
    return kernel.restrict(block)


def _blocks(measures: tuple[Measure, ...]) -> list[slice]:
    ends = np.cumsum([measure.dim for measure in measures]).tolist()
    return [slice(end - measure.dim, end) for end, measure in zip(ends, measures, strict=True)]


@register(RBF, Product)
def rbf_product(kernel: RBF, measure: Product) -> Embedding:
    """Product over independent blocks."""
    return single_block(kernel, measure) or Factorised(kernel, measure)


@register(Matern, Product)
def matern_product(kernel: Matern, measure: Product) -> Embedding:
    """Scale mixture of RBF formulas, each a product over independent blocks."""
    return single_block(kernel, measure) or ScaleMixture(kernel, measure)


def single_block(kernel: Kernel, measure: Product) -> Embedding | None:
    """The embedding under the only block of a product measure, None if there are several."""
    if len(measure.blocks) > 1:
        return None
    return Delegated(kernel, measure, find(kernel, measure.blocks[0]))


@register(TensorProduct, Measure)
def tensor_product(kernel: TensorProduct, measure: Measure) -> Embedding:
    """Product over independent coordinates."""
    if measure.dim == 1:
        return Delegated(kernel, measure, find(kernel.coordinates(1)[0], measure))
    if isinstance(kernel.base, RBF):  # a product of RBF kernels is one, whatever the correlations
        return Delegated(kernel, measure, find(kernel.base, measure))
    return Factorised(kernel, measure)
