"""Sums, products and multiples of kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, Booleans, finite, positive
from cbq.io import Instance, Many, Number, saved
from cbq.kernels.base import Kernel, as_points
from cbq.linalg.gram import Features
from cbq.measures import Measure


class Combination(NamedTuple):
    """How kernels are combined: their values, Gram blocks, derivatives and weighted sums of derivatives."""

    operation: np.ufunc
    fill: Callable[[Sequence[Kernel], Features, Features, Array], None]
    fill_derivatives: Callable[[Sequence[Kernel], Features, Features, Array], None]
    contract: Callable[[Sequence[Kernel], Features, Features, Array], Array]


def _fill_sum(parts: Sequence[Kernel], fx: Features, fy: Features, out: Array) -> None:
    """Write the sum of the Gram blocks (..., n, m) of `parts`, each with its own features, into `out`."""
    parts[0].fill(fx[0], fy[0], out)
    term = np.empty_like(out)
    for i, k in enumerate(parts[1:], start=1):
        k.fill(fx[i], fy[i], term)
        out += term


def _fill_sum_derivatives(parts: Sequence[Kernel], fx: Features, fy: Features, out: Array) -> None:
    """Write the derivatives (P, ..., n, m) of the sum of `parts` into `out`."""
    start = 0
    for i, k in enumerate(parts):
        stop = start + k.n_lengthscales
        k.fill_derivatives(fx[i], fy[i], out[start:stop])
        start = stop


def _contract_sum(parts: Sequence[Kernel], fx: Features, fy: Features, G: Array) -> Array:
    """sum_ij G_ij times the derivatives of the sum of `parts`: (..., P)."""
    return np.concatenate([k.contract_features(fx[i], fy[i], G) for i, k in enumerate(parts)], axis=-1)


def _fill_product(parts: Sequence[Kernel], fx: Features, fy: Features, out: Array) -> None:
    """Write the product of the Gram blocks (..., n, m) of `parts`, each with its own features, into `out`."""
    parts[0].fill(fx[0], fy[0], out)
    factor = np.empty_like(out)
    for i, k in enumerate(parts[1:], start=1):
        k.fill(fx[i], fy[i], factor)
        out *= factor


def _fill_product_derivatives(parts: Sequence[Kernel], fx: Features, fy: Features, out: Array) -> None:
    """Write the derivatives (P, ..., n, m) of the product of `parts` into `out`."""
    _fill_sum_derivatives(parts, fx, fy, out)
    factor = np.empty(out.shape[1:])
    owner = np.repeat(np.arange(len(parts)), [k.n_lengthscales for k in parts])
    for i, k in enumerate(parts):
        k.fill(fx[i], fy[i], factor)
        out[owner != i] *= factor


def _contract_product(parts: Sequence[Kernel], fx: Features, fy: Features, G: Array) -> Array:
    """sum_ij G_ij times the derivatives of the product of `parts`: (..., P)."""
    factors = np.empty((len(parts), *G.shape))
    for i, k in enumerate(parts):
        k.fill(fx[i], fy[i], factors[i])
    each = []
    for i, k in enumerate(parts):
        others = np.prod(np.delete(factors, i, axis=0), axis=0)
        each.append(k.contract_features(fx[i], fy[i], np.multiply(others, G, out=others)))
    return np.concatenate(each, axis=-1)


SUM = Combination(np.add, _fill_sum, _fill_sum_derivatives, _contract_sum)
PRODUCT = Combination(np.multiply, _fill_product, _fill_product_derivatives, _contract_product)


class Composite(Kernel):
    """A kernel that combines others; each of its `parts` acts on all of the coordinates or on some."""

    combination: ClassVar[Combination]
    parts: tuple[Kernel, ...]

    def __init__(self, parts: Sequence[Kernel]) -> None:
        parts = kernel_list(parts, type(self).__name__)
        self.parts = tuple(inner for k in parts for inner in (k.parts if isinstance(k, type(self)) else (k,)))

    def _with_parts(self, parts: Sequence[Kernel]) -> Self:
        return type(self)(parts)

    def _inputs(self, x: Array) -> Sequence[Array]:
        """What each part sees of the points x (..., N, d)."""
        return [x] * len(self.parts)

    @property
    def log_lengthscales(self) -> Array:
        return join_lengthscales(self.parts)

    def with_log_lengthscales(self, values: npt.ArrayLike) -> Self:
        return self._with_parts(split_lengthscales(self.parts, values))

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        kernels, free = parts_to_fit(self.parts, self._inputs(x), ard)
        return self._with_parts(kernels), free

    @property
    def smoothness(self) -> float:
        return min(k.smoothness for k in self.parts)

    @property
    def has_slow_embedding(self) -> bool:
        return any(k.has_slow_embedding for k in self.parts)

    @property
    def is_stationary(self) -> bool:
        return all(k.is_stationary for k in self.parts)

    @property
    def has_kink(self) -> bool:
        return any(k.has_kink for k in self.parts)

    def line_lengthscales(self) -> list[Array]:
        return [s for k in self.parts for s in k.line_lengthscales()]

    def rescaled(self, scales: Array) -> Self:
        return self._with_parts([k.rescaled(part) for k, part in zip(self.parts, self._inputs(scales), strict=True)])

    def check_dim(self, d: int) -> None:
        for k in self.parts:
            k.check_dim(d)

    @property
    def needs_measure(self) -> bool:
        return any(k.needs_measure for k in self.parts)

    def bind(self, measure: Measure) -> Kernel:
        return self._with_parts([k.bind(measure) for k in self.parts])

    def diag(self, x: npt.ArrayLike) -> Array:
        each = [k.diag(part) for k, part in zip(self.parts, self._inputs(as_points(x)), strict=True)]
        return reduce(self.combination.operation, each)

    def on_line(self, r: Array) -> Array:
        return reduce(self.combination.operation, [k.on_line(r) for k in self.parts])

    def features(self, x: Array) -> Features:
        return tuple(k.features(part) for k, part in zip(self.parts, self._inputs(x), strict=True))

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        self.combination.fill(self.parts, fx, fy, out)

    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        self.combination.fill_derivatives(self.parts, fx, fy, out)

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        return self.combination.contract(self.parts, fx, fy, G)


@saved("SumKernel", parts=Many(Instance(Kernel)))
class SumKernel(Composite):
    """k1 + k2 + ..."""

    combination = SUM

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


@saved("ProductKernel", parts=Many(Instance(Kernel)))
class ProductKernel(Composite):
    """k1 * k2 * ..."""

    combination = PRODUCT

    def __repr__(self) -> str:
        return " * ".join(_as_factor(k) for k in self.parts)


@saved("ScaledKernel", factor=Number(), kernel=Instance(Kernel))
class ScaledKernel(Composite):
    """c k, for a positive number c."""

    combination = SUM  # of a single part

    def __init__(self, factor: float, kernel: Kernel) -> None:
        if np.ndim(factor) > 0 or not isinstance(kernel, Kernel):
            raise TypeError(
                f"ScaledKernel takes the factor of a kernel, one number, and a kernel, not {factor!r} and {kernel!r}."
            )
        self.factor = float(positive(factor, "the factor of a kernel"))
        self.parts = (kernel,)

    def __repr__(self) -> str:
        return f"{self.factor:g} * {_as_factor(self.kernel)}"

    @property
    def kernel(self) -> Kernel:
        """The kernel k that is multiplied."""
        return self.parts[0]

    def _with_parts(self, parts: Sequence[Kernel]) -> Self:
        return type(self)(self.factor, parts[0])

    def on_line(self, r: Array) -> Array:
        return self.factor * super().on_line(r)

    def diag(self, x: npt.ArrayLike) -> Array:
        return self.factor * super().diag(x)

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        super().fill(fx, fy, out)
        out *= self.factor

    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        super().fill_derivatives(fx, fy, out)
        out *= self.factor

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        return self.factor * super().contract_features(fx, fy, G)


def _as_factor(kernel: Kernel) -> str:
    """The kernel as it is written in a product: sums in parentheses."""
    return f"({kernel!r})" if isinstance(kernel, SumKernel) else repr(kernel)


def kernel_list(kernels: Sequence[Kernel], owner: str) -> tuple[Kernel, ...]:
    """One or more kernels as a tuple, or an error in the name of their owner."""
    if not isinstance(kernels, (list, tuple)) or not kernels or not all(isinstance(k, Kernel) for k in kernels):
        raise TypeError(f"{owner} takes a list of one or more kernels, but it was given {kernels!r}.")
    return tuple(kernels)


def join_lengthscales(parts: Sequence[Kernel]) -> Array:
    """Log-lengthscales of all `parts`, one after the other: (..., P)."""
    each = [k.log_lengthscales for k in parts]
    batch = np.broadcast_shapes(*(v.shape[:-1] for v in each))
    return np.concatenate([np.broadcast_to(v, (*batch, v.shape[-1])) for v in each], axis=-1)


def split_lengthscales(parts: Sequence[Kernel], values: npt.ArrayLike) -> list[Kernel]:
    """The `parts` with new log-lengthscales (..., P), in the order of `join_lengthscales`."""
    counts = [k.n_lengthscales for k in parts]
    v = finite(values, "log_lengthscales")
    if v.ndim == 0 or v.shape[-1] != sum(counts):
        raise ValueError(f"log_lengthscales has shape {v.shape}, but {sum(counts)} values are expected.")
    pieces = np.split(v, np.cumsum(counts)[:-1], axis=-1)
    return [k.with_log_lengthscales(piece) for k, piece in zip(parts, pieces, strict=True)]


def parts_to_fit(parts: Sequence[Kernel], points: Iterable[Array], ard: bool) -> tuple[list[Kernel], Booleans]:
    """`Kernel.to_fit` of each of the `parts`, from its own points: the kernels, and which lengthscales are free."""
    kernels, free = zip(*(k.to_fit(x, ard) for k, x in zip(parts, points, strict=True)), strict=True)
    return list(kernels), np.concatenate(free)
