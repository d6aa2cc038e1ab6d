"""Kernels on transformed points, and Stein kernels."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array
from cbq.embeddings.embedding import Delegated, Embedding, NoEmbedding, find, register
from cbq.kernels import Stein, Warped
from cbq.kernels.warped import Log, Whiten
from cbq.measures import Empirical, Measure, Mixture


class WarpedEmbedding(Embedding):
    """Embedding of the base kernel under the measure of the transformed points."""

    kernel: Warped

    def __init__(self, kernel: Warped, measure: Measure) -> None:
        super().__init__(kernel, measure)
        self._inner = find(kernel.base, self._image(measure))
        self.rule, self.uses_panels = f"{kernel.warp.name}, then {self._inner.rule}", self._inner.uses_panels

    def _mean(self, x: Array) -> Array:
        return self._inner._mean(self.kernel.warp(x))

    def _variance(self) -> Array:
        return self._inner._variance()

    def _cross(self, other: Measure) -> Array:
        return self._inner._cross_any(self._image(other))

    def _factors(self) -> tuple[Embedding, ...]:
        parts = self._inner._factors()
        if len(parts) == 1 or not isinstance(self.kernel.warp, Log):  # which maps each coordinate on its own
            return (self,)
        pairs = zip(parts, self.measure.factors(), strict=True)
        return tuple(find(Warped(part.kernel, self.kernel.warp), factor) for part, factor in pairs)

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
        self._refuse_other(measure)
        if measure.has_atoms:
            raise NoEmbedding(
                f"a Stein kernel needs a score, and {measure!r} is discrete: use an RBF or Matern kernel."
            )
        if not _vanishes_at_ends(measure):
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
        self._refuse_other(other)
        return np.zeros(other.batch_shape)

    def _refuse_other(self, measure: Measure) -> None:
        if not measure.equals(self.kernel.measure):
            raise NoEmbedding(
                f"a Stein kernel bound to {self.kernel.measure!r} has a closed form under that measure only, not "
                f"under {measure!r}: pass an unbound Stein kernel, or use method='quadrature'."
            )


def _vanishes_at_ends(measure: Measure) -> bool:
    """Whether the density at every finite end of the support is below 1e-15 times its value at the median."""
    if isinstance(measure, Empirical):
        return False
    if isinstance(measure, Mixture):
        return all(_vanishes_at_ends(component) for component in measure.components)
    if len(measure.factors()) > 1:
        return all(_vanishes_at_ends(factor) for factor in measure.factors())
    lower, upper = measure.support
    if not np.any(np.isfinite([lower, upper])):
        return True
    median = measure._from_normal(np.zeros((*measure.batch_shape, 1, measure.dim)))
    for end in (lower, upper):
        at_end = measure._logpdf(np.where(np.isfinite(end)[..., None, :], end[..., None, :], median))
        if np.any(np.isfinite(end) & (at_end - measure._logpdf(median) > -35)):
            return False
    return True
