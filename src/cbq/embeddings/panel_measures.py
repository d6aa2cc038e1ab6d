"""RBF and Matern kernels, and products of them, under measures that have no closed form good to all digits.

The formulas in print for Gamma (1F1, 2F1, Tricomi's U), truncated Gaussian (incomplete moments) and the like
lose digits or overflow for short lengthscales; a panel rule does not.
"""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array
from cbq.embeddings import fixed_panels
from cbq.embeddings.base import Embedding
from cbq.embeddings.errors import NoEmbedding
from cbq.embeddings.fixed_panels import resolved
from cbq.embeddings.panels import Panels, expectation, join, mean_by_panels
from cbq.embeddings.registry import register
from cbq.embeddings.scale_mixture import ScaleMixture
from cbq.embeddings.separable import Factorised
from cbq.kernels import RBF, Kernel, Matern
from cbq.measures import Beta, Gamma, LogMeasure, LogNormal, Measure, StudentT, TruncatedGaussian


@register(RBF, Gamma, Beta, StudentT, TruncatedGaussian, LogMeasure)
@register(Matern, Gamma, Beta, StudentT, TruncatedGaussian, LogMeasure)
class PanelEmbedding(Embedding):
    """Panel rule on the line."""

    rule = "Gauss-Legendre panels between breakpoints of density and kernel"

    def __init__(self, kernel: Kernel, measure: Measure) -> None:
        super().__init__(kernel, measure)
        # about zero where the family allows: nodes near a large location would be rounded on the scale of the measure
        median = measure._from_normal(np.zeros((*measure.batch_shape, 1, 1)))[..., 0]
        moved = measure.translated(-median)
        self._panels = Panels.of(measure if moved is None else moved)
        self._shift = np.zeros_like(median) if moved is None else median

    def _mean(self, x: Array) -> Array:
        return self._centred_mean(x - self._shift[..., None, :])

    def _centred_mean(self, x: Array) -> Array:
        edges = resolved(self._panels.edges, self.kernel)
        if edges is None:
            return mean_by_panels(self.kernel, self._panels, x)
        return fixed_panels.mean(self.kernel, self._panels, edges, x)

    def _variance(self) -> Array:
        return self._double(self._panels)

    def _cross(self, other: Measure) -> Array:
        moved = other.translated(-self._shift)
        if moved is None and np.any(self._shift):
            return expectation(self._mean, Panels.of(other), self.kernel, self.measure)
        return self._double(Panels.of(other if moved is None else moved))

    def _double(self, other: Panels) -> Array:
        """E k(X, Y) for X of the measure about zero, and Y of another in the same coordinates."""
        edges = self._panels.edges if other is self._panels else join(self._panels.edges, other.edges)
        fine = resolved(edges, self.kernel)
        if fine is None:
            return expectation(self._centred_mean, other, self.kernel, self._panels.measure)
        return fixed_panels.double(self.kernel, self._panels, other, fine)


@register(RBF, LogNormal)
@register(Matern, LogNormal)
def raw_lognormal(kernel: RBF | Matern, measure: LogNormal) -> Embedding:
    """Panel rule on the line, for the kernel on x itself; a formula for the kernel on log x."""
    if measure.dim == 1:
        return PanelEmbedding(kernel, measure)
    if not measure.log.is_diagonal:
        raise NoEmbedding(
            f"no closed form for {kernel!r} on the coordinates of a correlated LogNormal: put the kernel on log x, "
            f"Warped(kernel, 'log'), where there is one."
        )
    return Factorised(kernel, measure) if isinstance(kernel, RBF) else ScaleMixture(kernel, measure)
