"""RBF and Matern kernels, and products of them, under laws that have no closed form good to all digits.

The formulas in print for Gamma (1F1, 2F1, Tricomi's U), truncated Gaussian (incomplete moments) and the like
lose digits or overflow for short lengthscales; a panel rule does not, at some 600 values of the density a point.
"""

from __future__ import annotations

from cbq._arrays import Array
from cbq.embeddings.base import Embedding
from cbq.embeddings.errors import NoEmbedding
from cbq.embeddings.panels import mean_by_panels
from cbq.embeddings.registry import register
from cbq.embeddings.scale_mixture import ScaleMixture
from cbq.embeddings.separable import Factorised
from cbq.kernels import RBF, Matern
from cbq.measures import Beta, Gamma, LogLaw, LogNormal, StudentT, TruncatedGaussian


@register(RBF, Gamma, Beta, StudentT, TruncatedGaussian, LogLaw)
@register(Matern, Gamma, Beta, StudentT, TruncatedGaussian, LogLaw)
class PanelEmbedding(Embedding):
    """Panel rule on the line."""

    rule = "Gauss-Legendre panels between breakpoints of density and kernel"

    def _mean(self, x: Array) -> Array:
        return mean_by_panels(self.kernel, self.measure, x)


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
