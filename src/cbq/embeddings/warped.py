"""Kernels on transformed points, and Stein kernels."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array
from cbq.embeddings.base import Delegated, Embedding
from cbq.embeddings.errors import NoEmbedding
from cbq.embeddings.registry import find, register
from cbq.kernels import Stein, Warped
from cbq.kernels.transforms import Whiten
from cbq.measures import Empirical, Measure, Mixture


class WarpedEmbedding(Embedding):
    """Embedding of the base kernel under the measure of the transformed points."""

    kernel: Warped

    def __init__(self, kernel: Warped, measure: Measure) -> None:
        super().__init__(kernel, measure)
        self._inner = find(kernel.base, self._image(measure))
        self.rule = f"{kernel.warp.name}, then {self._inner.rule}"

    def _mean(self, x: Array) -> Array:
        return self._inner._mean(self.kernel.warp(x))

    def _variance(self) -> Array:
        return self._inner._variance()

    def _cross(self, other: Measure) -> Array:
        return self._inner._cross_any(self._image(other))

    def _image(self, measure: Measure) -> Measure:
        try:
            return self.kernel.warp.image(measure)
        except TypeError as error:
            raise NoEmbedding(f"no closed form for {self.kernel!r}: {error} Use method='quadrature'.") from error


@register(Warped, Measure)
def warped(kernel: Warped, measure: Measure) -> Embedding:
    """Embedding of the base kernel under the measure of the transformed points."""
    if isinstance(kernel.warp, Whiten) and kernel.base.is_stationary:
        scales = kernel.warp.scales()
        if scales is not None:
            return Delegated(kernel, measure, find(kernel.base.rescaled(scales), measure))
    return WarpedEmbedding(kernel, measure)


@register(Stein, Measure)
class SteinEmbedding(Embedding):
    """Zero, by Stein's identity, for a density that vanishes at the ends of its support."""

    kernel: Stein
    rule = "zero, by Stein's identity"

    def __init__(self, kernel: Stein, measure: Measure) -> None:
        super().__init__(kernel, measure)
        self._check_same(measure)
        if not vanishes_at_ends(measure):
            raise NoEmbedding(
                f"a Stein kernel does not integrate to zero under {measure!r}, whose density does not vanish at "
                f"the ends of its support: use coordinates without ends, Warped(Stein(base), 'log') for positive "
                f"x or Warped(base, 'gaussianise')."
            )

    def _mean(self, x: Array) -> Array:
        return np.zeros(x.shape[:-1])

    def _variance(self) -> Array:
        return np.zeros(self.measure.batch_shape)

    def _cross(self, other: Measure) -> Array:
        self._check_same(other)
        return np.zeros(other.batch_shape)

    def _check_same(self, measure: Measure) -> None:
        if not measure.equals(self.kernel.measure):
            raise NoEmbedding(
                f"a Stein kernel made for {self.kernel.measure!r} has a closed form under that measure alone, not "
                f"under {measure!r}: pass an unbound Stein kernel, or use method='quadrature'."
            )


def vanishes_at_ends(measure: Measure) -> bool:
    """Whether the density is zero (below 1e-15 of that at the median) at every finite end of the support."""
    if isinstance(measure, Empirical):
        return False
    if isinstance(measure, Mixture):
        return all(vanishes_at_ends(component) for component in measure.components)
    if len(measure.factors()) > 1:
        return all(vanishes_at_ends(factor) for factor in measure.factors())
    lower, upper = measure.support
    if not np.any(np.isfinite([lower, upper])):
        return True
    median = measure._from_normal(np.zeros((*measure.batch_shape, 1, measure.dim)))
    for end in (lower, upper):
        at_end = measure._logpdf(np.where(np.isfinite(end)[..., None, :], end[..., None, :], median))
        if np.any(np.isfinite(end) & (at_end - measure._logpdf(median) > -35)):
            return False
    return True
