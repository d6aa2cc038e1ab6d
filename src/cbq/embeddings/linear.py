"""Embeddings that are linear in the kernel or the measure: sums and multiples of kernels, mixtures, atoms."""

from __future__ import annotations

import math

import numpy as np

from cbq._arrays import Array
from cbq.embeddings.embedding import Embedding, find, register
from cbq.kernels import RBF, Additive, Kernel, Matern, ProductKernel, ScaledKernel, SumKernel, TensorProduct
from cbq.measures import Empirical, Measure, Mixture

MAX_GRAM_SIZE = 4_000_000  # numbers in the Gram matrices that are held at a time


@register(SumKernel, Measure)
@register(ScaledKernel, Measure)
@register(Additive, Measure)
class SumEmbedding(Embedding):
    """Sum, or multiple, of the parts of the kernel, each under the measure of the coordinates that it acts on."""

    kernel: SumKernel | ScaledKernel | Additive
    rule = "sum over the parts of the kernel"

    def __init__(self, kernel: SumKernel | ScaledKernel | Additive, measure: Measure) -> None:
        super().__init__(kernel, measure)
        pairs = zip(kernel.parts_for(measure.dim), kernel.measures(measure), strict=True)
        self._parts = [find(k, part) for k, part in pairs]
        self._factor = kernel.factor if isinstance(kernel, ScaledKernel) else 1.0

    def _mean(self, x: Array) -> Array:
        pairs = zip(self._parts, self.kernel.inputs(x), strict=True)
        return np.asarray(self._factor * sum(part._mean(points) for part, points in pairs))

    def _variance(self) -> Array:
        return np.asarray(self._factor * sum(part._variance() for part in self._parts))

    def _cross(self, other: Measure) -> Array:
        pairs = zip(self._parts, self.kernel.measures(other), strict=True)
        return np.asarray(self._factor * sum(part._cross_any(measure) for part, measure in pairs))


@register(RBF, Mixture)
@register(Matern, Mixture)
@register(TensorProduct, Mixture)
@register(ProductKernel, Mixture)
class MixtureEmbedding(Embedding):
    """Weighted sum over the components of the mixture."""

    measure: Mixture
    rule = "weighted sum over the components of the mixture"

    def __init__(self, kernel: Kernel, measure: Mixture) -> None:
        super().__init__(kernel, measure)
        self._parts = [find(kernel, component) for component in measure.components]

    def _mean(self, x: Array) -> Array:
        w = self.measure.weights
        return np.asarray(sum(w[..., k, None] * part._mean(x) for k, part in enumerate(self._parts)))

    def _cross(self, other: Measure) -> Array:
        w = self.measure.weights
        return np.asarray(sum(w[..., k] * part._cross_any(other) for k, part in enumerate(self._parts)))


@register(RBF, Empirical)
@register(Matern, Empirical)
@register(TensorProduct, Empirical)
@register(ProductKernel, Empirical)
class EmpiricalEmbedding(Embedding):
    """Finite sum over the atoms."""

    measure: Empirical
    rule = "finite sum over the atoms"

    def _mean(self, x: Array) -> Array:
        batch = np.broadcast_shapes(x.shape[:-2], self.measure.batch_shape)
        step = max(1, MAX_GRAM_SIZE // max(1, math.prod(batch) * x.shape[-2]))
        total = np.zeros(())
        for i in range(0, self.measure.points.shape[-2], step):
            gram = self.kernel.gram(x, self.measure.points[..., i : i + step, :])
            total = total + (gram @ self.measure.weights[..., i : i + step, None])[..., 0]
        return total

    def _cross(self, other: Measure) -> Array:
        inner = find(self.kernel, other)
        return np.asarray(np.sum(self.measure.weights * inner._mean(self.measure.points), axis=-1))
