"""Embeddings of composite kernels and measures, built from the embeddings of their parts.

Sums and multiples of kernels, mixtures and atoms are linear. A kernel that is a product over independent blocks of
coordinates is embedded block by block. RBF kernels are such products. A radial Matern kernel is not, but it is a
mixture of RBF kernels over their lengthscale. A kernel on transformed points has the embedding of its base under the
measure of these points. The embedding of a Stein kernel is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from cbq.common import Array
from cbq.embeddings.embedding import Delegated, Embedding, NoEmbedding, find, register
from cbq.embeddings.panels import PanelEmbedding
from cbq.kernels import (
    RBF,
    Additive,
    Kernel,
    ProductKernel,
    Radial,
    ScaledKernel,
    Stein,
    SumKernel,
    TensorProduct,
    Warped,
)
from cbq.kernels.warped import Log, Whiten
from cbq.measures import Discrete, Empirical, Exponential, LogNormal, Measure, Mixture, Product, Uniform

NEGLIGIBLE = 1e-17  # relative size of the terms that the sum over g omits
MAX_GRAM_SIZE = 4_000_000  # numbers in the Gram matrices that are held at a time


class Factorised(Embedding):
    """Product of the embeddings of independent blocks of coordinates, for kernels that are products over them."""

    rule = "product over independent coordinates"

    def __init__(self, kernel: Kernel, measure: Measure) -> None:
        super().__init__(kernel, measure)
        factors = measure.factors()
        if len(factors) == 1 and measure.dim > 1:
            raise NoEmbedding(
                f"no closed form for {kernel!r} under {measure!r}: its coordinates are not independent. "
                f"Put the kernel on independent coordinates, Warped(kernel, 'whiten') for a Gaussian or "
                f"Warped(kernel, 'gaussianise') for any measure with a transport, or use method='quadrature'."
            )
        self._blocks = blocks(factors)
        pairs = zip(self._blocks, factors, strict=True)
        self._parts = tuple(find(_restrict(kernel, block), factor) for block, factor in pairs)
        self.is_fast = all(part.is_fast for part in self._parts)

    def _factors(self) -> tuple[Embedding, ...]:
        return self._parts

    def _mean(self, x: Array) -> Array:
        pairs = zip(self._parts, self._blocks, strict=True)
        return reduce(np.multiply, [part._mean(x[..., block]) for part, block in pairs])

    def _variance(self) -> Array:
        return reduce(np.multiply, [part._variance() for part in self._parts])

    def _cross(self, other: Measure) -> Array:
        measures = other.factors()
        if blocks(measures) != self._blocks:
            raise NoEmbedding(
                f"no closed form for cross of {self.kernel!r} between {self.measure!r} and {other!r}: "
                f"they do not split into the same independent blocks; use a kernel that has one, such as RBF."
            )
        pairs = zip(self._parts, measures, strict=True)
        return reduce(np.multiply, [part._cross_any(measure) for part, measure in pairs])


def _restrict(kernel: Kernel, block: slice) -> Kernel:
    """A kernel that is a product over coordinates, on a block of them."""
    if isinstance(kernel, ProductKernel):
        return ProductKernel([_restrict(k, block) for k in kernel.parts])
    assert isinstance(kernel, (RBF, TensorProduct))
    return kernel.restrict(block)


def blocks(measures: Sequence[Measure]) -> list[slice]:
    """The slices of coordinates of consecutive measures."""
    ends = np.cumsum([measure.dim for measure in measures]).tolist()
    return [slice(end - measure.dim, end) for end, measure in zip(ends, measures, strict=True)]


class ScaleMixture(Embedding):
    """Scale mixture of RBF embeddings: k = sum_g w_g exp(-rho^2 / (2 g)), by the rule of the kernel.

    The radial kernel may be multiplied by the kernels in `rest`.
    """

    rule = "scale mixture of RBF formulas, by a rule over the scale"

    def __init__(self, radial: Radial, measure: Measure, rest: Sequence[Kernel] = ()) -> None:
        super().__init__(_times(radial, rest), measure)
        if (rule := radial.scale_rule()) is None:
            raise NoEmbedding(
                f"no closed form for {self.kernel!r} in {measure.dim} dimensions: {type(radial).__name__} has no "
                f"scale_rule. Use TensorProduct({radial!r}), or method='quadrature'."
            )
        self._radial, self._rest, self._rule = radial, rest, rule
        # Raises if the RBF kernels have no embedding.
        self._part(1.0)

    def _mean(self, x: Array) -> Array:
        return self._average(lambda g: self._part(g)._mean(x))

    def _variance(self) -> Array:
        return self._average(lambda g: self._part(g)._variance())

    def _cross(self, other: Measure) -> Array:
        return self._average(lambda g: self._part(g)._cross_any(other))

    def _part(self, g: float) -> Embedding:
        return find(_times(RBF(np.sqrt(g) * self._radial.known_lengthscale), self._rest), self.measure)

    def _average(self, value: Callable[[float], Array]) -> Array:
        """Sum of values at g, from large to small, until the rest is negligible; the values decrease with g."""
        total = np.zeros(())
        for g, weight, left in self._rule:
            term = value(g)
            total = total + weight * term
            if np.all(left * term <= NEGLIGIBLE * total):
                break
        return total


def _times(kernel: Kernel, rest: Sequence[Kernel]) -> Kernel:
    """The product of a kernel and the others, if there are any."""
    return ProductKernel([kernel, *rest]) if rest else kernel


def by_coordinates(kernel: Radial, measure: Measure) -> Embedding:
    """The embedding under a measure of independent coordinates or blocks of them."""
    return Factorised(kernel, measure) if isinstance(kernel, RBF) else ScaleMixture(kernel, measure)


@register(Radial, Uniform, Exponential)
def radial(kernel: Radial, measure: Measure) -> Embedding:
    """Panel rule on the line; scale mixture of RBF formulas in more dimensions."""
    return PanelEmbedding(kernel, measure) if measure.dim == 1 else ScaleMixture(kernel, measure)


@register(Radial, Product)
def product_measure(kernel: Radial, measure: Product) -> Embedding:
    """Product over independent blocks; inside a scale mixture of RBF formulas, unless the kernel is RBF."""
    if len(measure.blocks) == 1:
        return Delegated(kernel, measure, find(kernel, measure.blocks[0]))
    return by_coordinates(kernel, measure)


@register(TensorProduct, Measure)
def tensor_product(kernel: TensorProduct, measure: Measure) -> Embedding:
    """Product over independent coordinates."""
    if measure.dim == 1:
        return Delegated(kernel, measure, find(kernel.parts_for(1)[0], measure))
    # A product of RBF kernels is an RBF kernel, which needs no independence.
    if isinstance(kernel.base, RBF):
        return Delegated(kernel, measure, find(kernel.base, measure))
    return Factorised(kernel, measure)


@register(Radial, LogNormal)
def raw_lognormal(kernel: Radial, measure: LogNormal) -> Embedding:
    """Panel rule on the line, for the kernel on x itself; a formula for the kernel on log x."""
    if measure.dim == 1:
        return PanelEmbedding(kernel, measure)
    if not measure.log.is_diagonal:
        raise NoEmbedding(
            f"no closed form for {kernel!r} on the coordinates of a correlated LogNormal: put the kernel on log x, "
            f"Warped(kernel, 'log'), where there is one."
        )
    return by_coordinates(kernel, measure)


@register(ProductKernel, Measure)
def product(kernel: ProductKernel, measure: Measure) -> Embedding:
    """RBF factors merged and sums multiplied out; then a panel rule on the line, or a product over coordinates."""
    return Delegated(kernel, measure, _embed_simplified(_simplified(kernel), measure))


def _embed_simplified(simple: Kernel, measure: Measure) -> Embedding:
    if not isinstance(simple, ProductKernel):
        return find(simple, measure)
    if measure.dim == 1 and simple.is_stationary:
        return PanelEmbedding(simple, measure)
    radial = [k for k in simple.parts if isinstance(k, Radial) and not isinstance(k, RBF)]
    if not radial and all(isinstance(k, (RBF, TensorProduct)) for k in simple.parts):
        return Factorised(simple, measure)
    if len(radial) == 1:
        rest = [k for k in simple.parts if k is not radial[0]]
        return ScaleMixture(radial[0], measure, rest)
    raise NoEmbedding(
        f"no closed form for {simple!r} in {measure.dim} dimensions: a product may hold one radial kernel "
        f"besides RBF and TensorProduct kernels; use TensorProduct kernels, or method='quadrature'."
    )


def _simplified(kernel: ProductKernel) -> Kernel:
    """An equal kernel: a sum, a multiple, or a product in which all RBF kernels are merged into one."""
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
        self.is_fast = all(part.is_fast for part in self._parts)
        self._factor = kernel.factor if isinstance(kernel, ScaledKernel) else 1.0

    def _mean(self, x: Array) -> Array:
        pairs = zip(self._parts, self.kernel.inputs(x), strict=True)
        return np.asarray(self._factor * sum(part._mean(points) for part, points in pairs))

    def _variance(self) -> Array:
        return np.asarray(self._factor * sum(part._variance() for part in self._parts))

    def _cross(self, other: Measure) -> Array:
        pairs = zip(self._parts, self.kernel.measures(other), strict=True)
        return np.asarray(self._factor * sum(part._cross_any(measure) for part, measure in pairs))


@register(Radial, Mixture)
@register(TensorProduct, Mixture)
@register(ProductKernel, Mixture)
class MixtureEmbedding(Embedding):
    """Weighted sum over the components of the mixture."""

    measure: Mixture
    rule = "weighted sum over the components of the mixture"
    is_fast = False

    def __init__(self, kernel: Kernel, measure: Mixture) -> None:
        super().__init__(kernel, measure)
        self._parts = [find(kernel, component) for component in measure.components]

    def _mean(self, x: Array) -> Array:
        w = self.measure.weights
        return np.asarray(sum(w[..., k, None] * part._mean(x) for k, part in enumerate(self._parts)))

    def _cross(self, other: Measure) -> Array:
        w = self.measure.weights
        return np.asarray(sum(w[..., k] * part._cross_any(other) for k, part in enumerate(self._parts)))


@register(Radial, Empirical)
@register(TensorProduct, Empirical)
@register(ProductKernel, Empirical)
class EmpiricalEmbedding(Embedding):
    """Finite sum over the atoms."""

    measure: Empirical
    rule = "finite sum over the atoms"

    def __init__(self, kernel: Kernel, measure: Empirical) -> None:
        super().__init__(kernel, measure)
        # Draws are many; a discrete family has few atoms, mostly.
        self.is_fast = isinstance(measure, Discrete)

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


class WarpedEmbedding(Delegated):
    """Embedding of the base kernel under the measure of the transformed points."""

    kernel: Warped

    def __init__(self, kernel: Warped, measure: Measure) -> None:
        super().__init__(kernel, measure, find(kernel.base, _image(kernel, measure)))
        self.rule = f"{kernel.warp.name}, then {self.rule}"

    def _mean(self, x: Array) -> Array:
        return self._inner._mean(self.kernel.warp(x))

    def _cross(self, other: Measure) -> Array:
        return self._inner._cross_any(_image(self.kernel, other))

    def _factors(self) -> tuple[Embedding, ...]:
        parts = self._inner._factors()
        # Only Log maps each coordinate on its own.
        if len(parts) == 1 or not isinstance(self.kernel.warp, Log):
            return (self,)
        pairs = zip(parts, self.measure.factors(), strict=True)
        return tuple(find(Warped(part.kernel, self.kernel.warp), factor) for part, factor in pairs)


def _image(kernel: Warped, measure: Measure) -> Measure:
    """The measure of the transformed points."""
    try:
        return kernel.warp.image(measure)
    except TypeError as error:
        raise NoEmbedding(f"no closed form for {kernel!r}: {error} Use method='quadrature'.") from error


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
