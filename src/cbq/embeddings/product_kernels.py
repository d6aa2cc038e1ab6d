"""Products of kernels on the same points."""

from __future__ import annotations

import numpy as np

from cbq.embeddings.base import Delegated, Embedding
from cbq.embeddings.errors import NoEmbedding
from cbq.embeddings.panel_measures import PanelEmbedding
from cbq.embeddings.registry import find, register
from cbq.embeddings.scale_mixture import ScaleMixture
from cbq.embeddings.separable import Factorised
from cbq.kernels import RBF, Kernel, Matern, ProductKernel, ScaledKernel, SumKernel, TensorProduct
from cbq.measures import Measure


@register(ProductKernel, Measure)
def product(kernel: ProductKernel, measure: Measure) -> Embedding:
    """RBF factors merged and sums multiplied out; then a panel rule on the line, or a product over coordinates."""
    simple = simplify(kernel)
    return Delegated(kernel, measure, embed_simple(simple, measure))


def embed_simple(simple: Kernel, measure: Measure) -> Embedding:
    """The embedding of a simplified product of kernels."""
    if not isinstance(simple, ProductKernel):
        return find(simple, measure)
    if measure.dim == 1 and simple.is_stationary:
        return PanelEmbedding(simple, measure)
    radial = [k for k in simple.parts if isinstance(k, Matern)]
    if not radial and all(isinstance(k, (RBF, TensorProduct)) for k in simple.parts):
        return Factorised(simple, measure)
    if len(radial) == 1:
        rest = [k for k in simple.parts if k is not radial[0]]
        return ScaleMixture(radial[0], measure, rest)
    raise NoEmbedding(
        f"no closed form for {simple!r} in {measure.dim} dimensions: a product may hold one radial Matern kernel "
        f"beside RBF and TensorProduct ones; use TensorProduct kernels, or method='quadrature'."
    )


def simplify(kernel: ProductKernel) -> Kernel:
    """An equal kernel: a sum, a multiple or a product in which all RBF kernels are merged into one."""
    for i, k in enumerate(kernel.parts):
        rest = [*kernel.parts[:i], *kernel.parts[i + 1 :]]
        if isinstance(k, SumKernel):
            return SumKernel([ProductKernel([term, *rest]) for term in k.parts])
        if isinstance(k, ScaledKernel):
            return ScaledKernel(k.factor, ProductKernel([k.kernel, *rest]))
    rbf = [k for k in kernel.parts if isinstance(k, RBF)]
    others = [k for k in kernel.parts if not isinstance(k, RBF)]
    if rbf:
        precision = sum(k.known_lengthscale**-2.0 for k in rbf)
        others.append(RBF(1 / np.sqrt(precision)))
    return others[0] if len(others) == 1 else ProductKernel(others)
