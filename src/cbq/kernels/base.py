"""What a kernel is, and the sums, products and multiples of kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from math import prod
from numbers import Real
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, Booleans, broadcast_batch, checked_out, finite, positive
from cbq._immutable import Immutable
from cbq.io import Instance, Many, Number, saved
from cbq.kernels.combine import (
    PRODUCT,
    SUM,
    Combination,
    join_lengthscales,
    parts_to_fit,
    split_lengthscales,
)
from cbq.linalg.blocks import spans, stacked
from cbq.linalg.cholesky import as_float64
from cbq.linalg.features import Features, flat_features, leading_shape, take
from cbq.linalg.gram import contract_gram, inner
from cbq.measures import Measure


class Kernel(Immutable, ABC):
    """A positive definite kernel k(x, y), without an amplitude to fit.

    A Gram matrix is made in two steps: `features(x)` does on the host all that is linear in the number of
    points, for the whole batch; `fill(fx, fy, out)` then writes some matrices (or blocks of them) from the
    features of their rows and columns. Everything else here is built on those two and their derivatives.
    """

    def __call__(self, x: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Array:
        """Same as `gram`."""
        return self.gram(x, y)

    def gram(self, x: npt.ArrayLike, y: npt.ArrayLike | None = None, *, out: Array | None = None) -> Array:
        """Gram matrices k(x, y) for x (..., N, d), y (..., M, d): shape (..., N, M), written into `out` if given.

        Without y it is k(x, x). In one dimension x and y may be arrays (N,) and (M,).
        """
        fx, fy, shape = self._pair(x, y)
        out = np.empty(shape) if out is None else checked_out(out, shape)
        filled = out if out.flags.c_contiguous else np.empty(shape)
        matrices = stacked(filled)
        for span in spans(len(matrices), prod(shape[-2:])):
            self.fill(take(fx, span), take(fy, span), matrices[span])
        if filled is not out:
            out[...] = filled
        return out

    def derivatives(self, x: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Array:
        """Derivatives of `gram` with respect to `log_lengthscales`: shape (..., P, N, M)."""
        fx, fy, (*batch, n, m) = self._pair(x, y)
        out = np.empty((prod(batch), self.n_lengthscales, n, m))
        for span in spans(len(out), n * m):
            self.fill_derivatives(take(fx, span), take(fy, span), out[span].swapaxes(0, 1))
        return out.reshape(*batch, *out.shape[1:])

    def contract(self, x: npt.ArrayLike, G: npt.ArrayLike) -> Array:
        """sum_ij G_ij dK_ij / d log_lengthscales for x (..., N, d) and symmetric G (..., N, N): shape (..., P).

        This is the chain rule for a function of K = k(x, x) with the gradient G. Unlike `derivatives` it needs
        little memory.
        """
        features, G = self.features(as_points(x)), as_float64(G, "G")
        *batch_x, n = leading_shape(features)
        if G.ndim < 2 or G.shape[-2:] != (n, n):
            raise ValueError(f"G has shape {G.shape}, but {n} points need weights (..., {n}, {n}), one for each pair.")
        batch = broadcast_batch({"x": tuple(batch_x), "G": G.shape[:-2]}, "contract")
        weights = stacked(np.broadcast_to(G, (*batch, n, n)))
        sums = contract_gram(self, flat_features(features, batch), weights, self.n_lengthscales)
        return sums.reshape(*batch, self.n_lengthscales)

    @abstractmethod
    def diag(self, x: npt.ArrayLike) -> Array:
        """The values k(x_i, x_i) for x (..., N, d): shape (..., N)."""

    @property
    @abstractmethod
    def log_lengthscales(self) -> Array:
        """Logarithms of all lengthscales, in the order of the kernel's parts: (P,)."""

    @abstractmethod
    def with_log_lengthscales(self, values: npt.ArrayLike) -> Kernel:
        """The same kernel with other lengthscales, given as `log_lengthscales` gives them."""

    @property
    def n_lengthscales(self) -> int:
        """Number P of lengthscales."""
        return int(self.log_lengthscales.shape[-1])

    def to_fit(self, x: npt.ArrayLike, ard: bool) -> tuple[Self, Booleans]:
        """The kernel to begin a fit with, and which of its `log_lengthscales` are free: (P,).

        Each lengthscale that is None becomes a first guess from the points x (..., N, d): one per coordinate with
        `ard`, otherwise one number. Those are free, and the others stay as they are.
        """
        kernel, free = self._to_fit(as_points(x), ard)
        return (kernel if free.any() else self), free

    @abstractmethod
    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        """The same for points that have been checked; the kernel may be a copy even if nothing is free."""

    @property
    def is_stationary(self) -> bool:
        """Whether k(x, y) depends on x - y alone, through lengthscales: then the next three are known."""
        return False

    @property
    def has_kink(self) -> bool:
        """Whether a stationary kernel fails to be analytic where x = y."""
        return True

    def on_line(self, r: Array) -> Array:
        """k as a function of the distance r (..., N, m) on the line; batched lengthscales go with the axes (...)."""
        raise TypeError(f"{self!r} is not a function of the distance.")

    def line_lengthscales(self) -> list[Array]:
        """The lengthscales of all parts on the line, each with its batch shape; none if it is not stationary."""
        return []

    def rescaled(self, scales: Array) -> Kernel:
        """The kernel k(x / scales, y / scales) of x and y, for scales (..., d) of the coordinates."""
        raise TypeError(f"{self!r} has no lengthscales to rescale.")

    @abstractmethod
    def check_dim(self, d: int) -> None:
        """Refuse points in d dimensions if the kernel is made for another number of them."""

    @property
    def needs_measure(self) -> bool:
        """Whether the kernel takes something from a measure (a score, a transport) that `bind` has yet to give."""
        return False

    def bind(self, measure: Measure) -> Kernel:
        """The kernel with what it takes from a measure filled in; itself if it needs nothing."""
        return self

    @abstractmethod
    def features(self, x: Array) -> Features:
        """What `fill` needs of the points x (..., N, d): arrays with leading axes (..., N), maybe nested."""

    @abstractmethod
    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        """Write k (..., n, m) into the C-ordered `out` from features (..., n, k) and (..., m, k) of n and m points.

        The leading axes of all of them are the same; they hold several matrices only if those are small.
        """

    @abstractmethod
    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        """Write dk / d log_lengthscales (P, ..., n, m) into `out`, from features as for `fill`."""

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        """sum_ij G_ij dk_ij / d log_lengthscales (..., P), from features as for `fill` and G (..., n, m)."""
        derivatives = np.empty((self.n_lengthscales, *G.shape))
        self.fill_derivatives(fx, fy, derivatives)
        return np.moveaxis(inner(derivatives, G), 0, -1)

    __array_ufunc__ = None  # so that NumPy leaves `array * kernel` to us

    def __add__(self, other: Kernel) -> Kernel:
        return SumKernel([self, other]) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: int) -> Kernel:
        return self if other == 0 else NotImplemented  # the start of sum([k1, k2, ...])

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return ProductKernel([self, other])
        if isinstance(other, Real):
            return ScaledKernel(float(other), self)
        return NotImplemented

    __rmul__ = __mul__

    def _pair(self, x: npt.ArrayLike, y: npt.ArrayLike | None) -> tuple[Features, Features, tuple[int, ...]]:
        """Flat features (B, N, k) of rows and (B, M, k) of columns, and the shape (..., N, M) of the matrices."""
        x = as_points(x)
        fx = fy = self.features(x)
        if y is not None:
            y = as_points(y, "y")
            if y.shape[-1] != x.shape[-1]:
                raise ValueError(
                    f"x has points in {x.shape[-1]} dimensions and y in {y.shape[-1]}: their last axes must agree."
                )
            fy = self.features(y)
        *batch_x, n = leading_shape(fx)
        *batch_y, m = leading_shape(fy)
        batch = broadcast_batch({"x": tuple(batch_x), "y": tuple(batch_y)}, "Gram matrix")
        return flat_features(fx, batch), flat_features(fy, batch), (*batch, n, m)


class Composite(Kernel):
    """A kernel made of others, acting on the same points."""

    combination: ClassVar[Combination]
    parts: tuple[Kernel, ...]

    def __init__(self, parts: Sequence[Kernel]) -> None:
        parts = kernel_list(parts, type(self).__name__)
        self.parts = tuple(inner for k in parts for inner in (k.parts if isinstance(k, type(self)) else (k,)))

    @property
    def log_lengthscales(self) -> Array:
        return join_lengthscales(self.parts)

    def with_log_lengthscales(self, values: npt.ArrayLike) -> Kernel:
        return type(self)(split_lengthscales(self.parts, values))

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        kernels, free = parts_to_fit(self.parts, [x] * len(self.parts), ard)
        return type(self)(kernels), free

    @property
    def is_stationary(self) -> bool:
        return all(k.is_stationary for k in self.parts)

    @property
    def has_kink(self) -> bool:
        return any(k.has_kink for k in self.parts)

    def line_lengthscales(self) -> list[Array]:
        return [s for k in self.parts for s in k.line_lengthscales()]

    def rescaled(self, scales: Array) -> Kernel:
        return type(self)([k.rescaled(scales) for k in self.parts])

    def check_dim(self, d: int) -> None:
        for k in self.parts:
            k.check_dim(d)

    @property
    def needs_measure(self) -> bool:
        return any(k.needs_measure for k in self.parts)

    def bind(self, measure: Measure) -> Kernel:
        return type(self)([k.bind(measure) for k in self.parts])

    def diag(self, x: npt.ArrayLike) -> Array:
        return reduce(self.combination.operation, [k.diag(x) for k in self.parts])

    def on_line(self, r: Array) -> Array:
        return reduce(self.combination.operation, [k.on_line(r) for k in self.parts])

    def features(self, x: Array) -> Features:
        return tuple(k.features(x) for k in self.parts)

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
        return " * ".join(f"({k!r})" if isinstance(k, SumKernel) else repr(k) for k in self.parts)


@saved("ScaledKernel", factor=Number(), kernel=Instance(Kernel))
class ScaledKernel(Kernel):
    """c k, for a positive number c."""

    def __init__(self, factor: float, kernel: Kernel) -> None:
        if np.ndim(factor) > 0 or not isinstance(kernel, Kernel):
            raise TypeError(
                f"the factor of a kernel must be a number and multiply a kernel, not {factor!r} and {kernel!r}."
            )
        self.factor = float(positive(factor, "the factor of a kernel"))
        self.kernel = kernel

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, SumKernel) else repr(self.kernel)
        return f"{self.factor:g} * {inner}"

    @property
    def log_lengthscales(self) -> Array:
        return self.kernel.log_lengthscales

    def with_log_lengthscales(self, values: npt.ArrayLike) -> Kernel:
        return ScaledKernel(self.factor, self.kernel.with_log_lengthscales(values))

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        kernel, free = self.kernel.to_fit(x, ard)
        return type(self)(self.factor, kernel), free

    @property
    def is_stationary(self) -> bool:
        return self.kernel.is_stationary

    @property
    def has_kink(self) -> bool:
        return self.kernel.has_kink

    def on_line(self, r: Array) -> Array:
        return self.factor * self.kernel.on_line(r)

    def line_lengthscales(self) -> list[Array]:
        return self.kernel.line_lengthscales()

    def rescaled(self, scales: Array) -> Kernel:
        return ScaledKernel(self.factor, self.kernel.rescaled(scales))

    def check_dim(self, d: int) -> None:
        self.kernel.check_dim(d)

    @property
    def needs_measure(self) -> bool:
        return self.kernel.needs_measure

    def bind(self, measure: Measure) -> Kernel:
        return ScaledKernel(self.factor, self.kernel.bind(measure))

    def features(self, x: Array) -> Features:
        return self.kernel.features(x)

    def diag(self, x: npt.ArrayLike) -> Array:
        return self.factor * self.kernel.diag(x)

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        self.kernel.fill(fx, fy, out)
        out *= self.factor

    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        self.kernel.fill_derivatives(fx, fy, out)
        out *= self.factor

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        return self.factor * self.kernel.contract_features(fx, fy, G)


def known_measure(measure: Measure | None, why: str) -> Measure:
    """The measure a kernel was bound to, or an error that begins with why it needs one."""
    if measure is None:
        raise ValueError(
            f"{why}: call kernel.bind(measure) first, or pass the kernel to cbq.embed, whose result has it bound as "
            f"`.kernel`."
        )
    return measure


def kernel_list(kernels: Sequence[Kernel], owner: str) -> tuple[Kernel, ...]:
    """One or more kernels as a tuple, or an error in the name of their owner."""
    if not isinstance(kernels, (list, tuple)) or not kernels or not all(isinstance(k, Kernel) for k in kernels):
        raise TypeError(f"{owner} takes a list of one or more kernels, but it was given {kernels!r}.")
    return tuple(kernels)


def as_points(x: npt.ArrayLike, name: str = "x") -> Array:
    """Points (..., N, d); a scalar or 1-D array means d = 1."""
    array = finite(x, name)
    return array.reshape(-1, 1) if array.ndim < 2 else array
