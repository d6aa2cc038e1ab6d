"""Kernels that are products over coordinates, under laws with independent coordinates."""

from __future__ import annotations

from functools import reduce

import numpy as np

from cbq._arrays import Array
from cbq.embeddings.base import Delegated, Embedding
from cbq.embeddings.errors import NoEmbedding
from cbq.embeddings.registry import find, register
from cbq.embeddings.scale_mixture import ScaleMixture
from cbq.kernels import RBF, Kernel, Matern, Product, TensorProduct
from cbq.measures import Measure
from cbq.measures import Product as ProductLaw

Separable = RBF | TensorProduct | Product


class Factorised(Embedding):
    """Product of the embeddings of independent blocks of coordinates."""

    rule = "product over independent coordinates"

    def __init__(self, kernel: Separable, measure: Measure) -> None:
        super().__init__(kernel, measure)
        laws = measure.factors()
        if len(laws) == 1 and measure.dim > 1:
            raise NoEmbedding(
                f"no closed form for {kernel!r} under {measure!r}: its coordinates are not independent. "
                f"Put the kernel on independent coordinates, Warped(kernel, 'whiten') for a Gaussian or "
                f"Warped(kernel, 'gaussianise') for any law with a transport, or use method='quadrature'."
            )
        self._blocks = _blocks(laws)
        self._parts = [find(restrict(kernel, block), law) for block, law in zip(self._blocks, laws, strict=True)]

    def _mean(self, x: Array) -> Array:
        means = [part._mean(x[..., b]) for part, b in zip(self._parts, self._blocks, strict=True)]
        return reduce(np.multiply, means)

    def _variance(self) -> Array:
        return reduce(np.multiply, [part._variance() for part in self._parts])

    def _cross(self, other: Measure) -> Array:
        laws = other.factors()
        if _blocks(laws) != self._blocks:
            raise NoEmbedding(
                f"no closed form for cross of {self.kernel!r} between {self.measure!r} and {other!r}: "
                f"they do not split into the same independent blocks; use a kernel that has one, such as RBF."
            )
        return reduce(np.multiply, [part._cross_any(law) for part, law in zip(self._parts, laws, strict=True)])


def restrict(kernel: Kernel, block: slice) -> Kernel:
    """A separable kernel on a block of its coordinates."""
    if isinstance(kernel, Product):
        return Product([restrict(k, block) for k in kernel.parts])
    assert isinstance(kernel, (RBF, TensorProduct))
    return kernel.restrict(block)


def _blocks(laws: tuple[Measure, ...]) -> list[slice]:
    ends = np.cumsum([law.dim for law in laws]).tolist()
    return [slice(end - law.dim, end) for end, law in zip(ends, laws, strict=True)]


@register(RBF, ProductLaw)
def rbf_product(kernel: RBF, measure: ProductLaw) -> Embedding:
    """Product over independent blocks."""
    return single_block(kernel, measure) or Factorised(kernel, measure)


@register(Matern, ProductLaw)
def matern_product(kernel: Matern, measure: ProductLaw) -> Embedding:
    """Scale mixture of RBF formulas, each a product over independent blocks."""
    return single_block(kernel, measure) or ScaleMixture(kernel, measure)


def single_block(kernel: Kernel, measure: ProductLaw) -> Embedding | None:
    """The embedding under the only block of a product law, None if there are several."""
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
