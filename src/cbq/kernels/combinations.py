"""Sums, products and multiples of kernels, over all coordinates, over (x, theta), or one kernel per coordinate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Booleans, finite, positive, shown, whole
from cbq.io import Instance, Integer, Many, Number, OneOrMany, saved
from cbq.kernels.base import Kernel, as_kernel, as_points
from cbq.kernels.radial import Radial
from cbq.linalg.gram import Features, empty, namespace
from cbq.measures import Measure
from cbq.measures.base import measure_argument

SMALLEST_FACTOR = 1e-300  # bounds a factor and its inverse: amplitudes are squares of f


class Composite(Kernel):
    """A kernel that combines others; each of its `parts` acts on all coordinates or on some."""

    operation: ClassVar[np.ufunc]  # np.add or np.multiply, of the values of the parts
    parts: tuple[Kernel, ...]

    def __init__(self, parts: Sequence[Kernel]) -> None:
        parts = kernel_list(parts, type(self).__name__, "parts")
        self.parts = tuple(inner for k in parts for inner in (k.parts if isinstance(k, type(self)) else (k,)))

    def parts_for(self, d: int) -> tuple[Kernel, ...]:
        """The kernels that are combined on points in d dimensions."""
        return self.parts

    def inputs(self, x: Array) -> Sequence[Array]:
        """The coordinates of points x (..., N, d) for each part."""
        return [x] * len(self.parts)

    def measures(self, measure: Measure) -> Sequence[Measure]:
        """The measure of the coordinates of X ~ measure for each part."""
        return [measure] * len(self.parts)

    def _with_parts(self, parts: Sequence[Kernel]) -> Self:
        return type(self)(parts)

    @property
    def log_lengthscales(self) -> Array:
        logs = [k.log_lengthscales for k in self.parts]
        batch = np.broadcast_shapes(*(v.shape[:-1] for v in logs))
        return np.concatenate([np.broadcast_to(v, (*batch, v.shape[-1])) for v in logs], axis=-1)

    def with_log_lengthscales(self, values: npt.ArrayLike) -> Self:
        counts = [k.n_lengthscales for k in self.parts]
        v = finite(values, "log_lengthscales")
        if v.ndim == 0 or v.shape[-1] != sum(counts):
            raise ValueError(f"log_lengthscales has shape {v.shape}, but {sum(counts)} values are expected.")
        pieces = np.split(v, np.cumsum(counts)[:-1], axis=-1)
        return self._with_parts([k.with_log_lengthscales(piece) for k, piece in zip(self.parts, pieces, strict=True)])

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        pairs = zip(self.parts_for(x.shape[-1]), self.inputs(x), strict=True)
        kernels, free = zip(*(k.to_fit(part, ard) for k, part in pairs), strict=True)
        return self._with_parts(kernels), np.concatenate(free)

    @property
    def smoothness(self) -> float:
        return min(k.smoothness for k in self.parts)

    def rougher(self) -> Self:
        return self._with_parts([k.rougher() for k in self.parts])

    @property
    def is_roughest(self) -> bool:
        return any(k.is_roughest for k in self.parts)

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
        return self._with_parts([k.rescaled(part) for k, part in zip(self.parts, self.inputs(scales), strict=True)])

    def check_dim(self, d: int) -> None:
        for k in self.parts:
            k.check_dim(d)

    @property
    def needs_measure(self) -> bool:
        return any(k.needs_measure for k in self.parts)

    def bind(self, measure: Measure) -> Self:
        if not self.needs_measure:
            return self
        measure = measure_argument(measure, "measure")
        pairs = zip(self.parts_for(measure.dim), self.measures(measure), strict=True)
        return self._with_parts([k.bind(part) for k, part in pairs])

    def diag(self, x: npt.ArrayLike) -> Array:
        x = as_points(x)
        pairs = zip(self.parts_for(x.shape[-1]), self.inputs(x), strict=True)
        return reduce(self.operation, [k.diag(part) for k, part in pairs])

    def on_line(self, r: Array) -> Array:
        return reduce(self.operation, [k.on_line(r) for k in self.parts])

    def features(self, x: Array) -> Features:
        return tuple(k.features(part) for k, part in zip(self.parts_for(x.shape[-1]), self.inputs(x), strict=True))

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        parts, xp = self.parts_for(len(fx)), namespace(out)
        operation = getattr(xp, self.operation.__name__)
        parts[0].fill(fx[0], fy[0], out)
        block = xp.empty_like(out)
        for i, k in enumerate(parts[1:], start=1):
            k.fill(fx[i], fy[i], block)
            operation(out, block, out=out)

    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        parts = self.parts_for(len(fx))
        stops = np.cumsum([k.n_lengthscales for k in parts])
        starts = [0, *stops[:-1]]
        for i, k in enumerate(parts):
            k.fill_derivatives(fx[i], fy[i], out[starts[i] : stops[i]])
        if self.operation is np.multiply:
            factor = empty(out.shape[1:], out)
            for i, k in enumerate(parts):
                k.fill(fx[i], fy[i], factor)
                out[: starts[i]] *= factor
                out[stops[i] :] *= factor

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        parts, weights = self.parts_for(len(fx)), [G] * len(fx)
        if self.operation is np.multiply:
            factors = empty((len(parts), *G.shape), G)
            for i, k in enumerate(parts):
                k.fill(fx[i], fy[i], factors[i])
            others = [[factors[j] for j in range(len(parts)) if j != i] for i in range(len(parts))]
            weights = [reduce(mul, rest) * G if rest else G for rest in others]
        sums = [k.contract_features(fx[i], fy[i], weights[i]) for i, k in enumerate(parts)]
        return namespace(G).concatenate(sums, -1)  # type: ignore[no-any-return]


@saved("SumKernel", parts=Many(Instance(Kernel)))
class SumKernel(Composite):
    """k1 + k2 + ...

    Examples
    --------
    >>> (cbq.kernels.RBF(1.0) + cbq.kernels.RBF(2.0))([0.0])
    array([[2.]])
    """

    operation = np.add

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


@saved("ProductKernel", parts=Many(Instance(Kernel)))
class ProductKernel(Composite):
    """k1 * k2 * ...

    Examples
    --------
    >>> (cbq.kernels.RBF(1.0) * cbq.kernels.RBF(2.0))([0.0])
    array([[1.]])
    """

    operation = np.multiply

    def __repr__(self) -> str:
        return " * ".join(_as_factor(k) for k in self.parts)


@saved("ScaledKernel", factor=Number(), kernel=Instance(Kernel))
class ScaledKernel(Composite):
    """c k, for a positive number c.

    Examples
    --------
    >>> (3.0 * cbq.kernels.RBF(1.0))([0.0])
    array([[3.]])
    """

    operation = np.add  # of a single part

    def __init__(self, factor: float, kernel: Kernel) -> None:
        given = positive(factor, "the factor of a kernel")
        if given.ndim:
            raise TypeError(f"the factor of a kernel must be one number, but its shape is {given.shape}.")
        if not SMALLEST_FACTOR <= given <= 1 / SMALLEST_FACTOR:
            ends = f"{SMALLEST_FACTOR:g} to {1 / SMALLEST_FACTOR:g}"
            raise ValueError(f"the factor of a kernel must be from {ends}, but it is {given:g}: rescale f.")
        self.factor = float(given)
        self.parts = (as_kernel(kernel, "kernel"),)

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


@saved(
    "XThetaKernel",
    read=lambda kernel: {"kernel_x": kernel.on_x, "kernel_theta": kernel.on_theta},
    kernel_x=Instance(Kernel),
    kernel_theta=Instance(Kernel),
    d=Integer(1),
)
class XThetaKernel(Composite):
    """k_X(x, x') k_Theta(theta, theta') on points (x, theta) (..., N, d + p), whose first d coordinates are x.

    Neither kernel may depend on a measure, since all thetas share them.

    Examples
    --------
    >>> kernel = cbq.kernels.XThetaKernel(cbq.kernels.RBF(1.0), cbq.kernels.Matern(2.5, lengthscale=1.0), 1)
    >>> kernel([[0.5, 2.0]])  # at x = 0.5, theta = 2
    array([[1.]])
    """

    operation = np.multiply

    def __init__(self, kernel_x: Kernel, kernel_theta: Kernel, d: int) -> None:
        self.parts = (as_kernel(kernel_x, "kernel_x"), as_kernel(kernel_theta, "kernel_theta"))
        self.d = whole(d, "d")

    def __repr__(self) -> str:
        return f"{self.on_x!r} of x times {self.on_theta!r} of theta"

    @property
    def on_x(self) -> Kernel:
        return self.parts[0]

    @property
    def on_theta(self) -> Kernel:
        return self.parts[1]

    def _with_parts(self, parts: Sequence[Kernel]) -> Self:
        return type(self)(parts[0], parts[1], self.d)

    def inputs(self, x: Array) -> tuple[Array, Array]:
        return x[..., : self.d], x[..., self.d :]

    def check_dim(self, d: int) -> None:
        self.on_x.check_dim(self.d)
        self.on_theta.check_dim(d - self.d)


class Coordinatewise(Composite):
    """A combination of one-dimensional kernels, one for each coordinate.

    Parameters
    ----------
    base : one radial kernel for all coordinates (its lengthscale is a number, or (d,) for one per coordinate), or a
        sequence of d one-dimensional kernels of any kind.
    """

    # Each coordinate has its own embedding on the line.
    has_slow_embedding = False
    # Products of RBF kernels have none, but True is safe, only slower.
    has_kink = True

    def __init__(self, base: Kernel | Sequence[Kernel]) -> None:
        if isinstance(base, Kernel) and not isinstance(base, Radial):
            raise TypeError(
                f"{type(self).__name__} takes one radial kernel, such as RBF, for all coordinates, or a list with a "
                f"one-dimensional kernel for each, but it was given {base!r} as base."
            )
        self.base = base if isinstance(base, Radial) else kernel_list(base, type(self).__name__, "base")
        self.parts = (self.base,) if isinstance(self.base, Radial) else self.base

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    def parts_for(self, d: int) -> tuple[Kernel, ...]:
        """The one-dimensional kernels of coordinates 0, ..., d - 1."""
        if d == 0:
            raise ValueError(
                f"{type(self).__name__} combines kernels of coordinates, but x (or y) has none: pass points."
            )
        if isinstance(self.base, Radial):
            # Raises if the number of lengthscales is wrong.
            self.base.lengthscale_for(d)
            return tuple(self.base.restrict(slice(j, j + 1)) for j in range(d))
        if len(self.base) != d:
            raise ValueError(
                f"{type(self).__name__} has kernels for {len(self.base)} coordinates, but the points have {d}."
            )
        return self.base

    def inputs(self, x: Array) -> list[Array]:
        return [x[..., j : j + 1] for j in range(x.shape[-1])]

    def measures(self, measure: Measure) -> list[Measure]:
        return [measure.marginal(j) for j in range(measure.dim)]

    def _with_parts(self, parts: Sequence[Kernel]) -> Self:
        return type(self)(parts[0] if isinstance(self.base, Radial) else list(parts))

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        if not isinstance(self.base, Radial):
            return super()._to_fit(x, ard)
        base, free = self.base.to_fit(x, ard)
        return type(self)(base), free

    def rescaled(self, scales: Array) -> Self:
        return type(self)(self.base.rescaled(scales)) if isinstance(self.base, Radial) else super().rescaled(scales)

    def check_dim(self, d: int) -> None:
        for k in self.parts_for(d):
            k.check_dim(1)

    def restrict(self, block: slice) -> Self:
        """The same combination over a block of consecutive coordinates."""
        return type(self)(self.base.restrict(block) if isinstance(self.base, Radial) else self.base[block])

    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        shared = self._shares(len(fx))
        separate = empty((len(fx), *out.shape[1:]), out) if shared else out
        super().fill_derivatives(fx, fy, separate)
        if shared:
            out[0] = separate.sum(0)

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        separate = super().contract_features(fx, fy, G)
        return separate.sum(-1)[..., None] if self._shares(len(fx)) else separate

    def _shares(self, d: int) -> bool:
        """Whether all d coordinates share one lengthscale, so that their derivatives add up."""
        return isinstance(self.base, Radial) and self.base.n_lengthscales < d


@saved("TensorProduct", base=OneOrMany(Instance(Kernel)))
class TensorProduct(Coordinatewise):
    """k(x, y) = prod_j k_j(x_j, y_j).

    Examples
    --------
    >>> kernel = cbq.kernels.TensorProduct(cbq.kernels.Matern(0.5, lengthscale=[1.0, 2.0]))
    >>> kernel([[0.0, 0.0]], [[1.0, 2.0]]).round(4)  # exp(-1) exp(-1)
    array([[0.1353]])
    """

    operation = np.multiply


@saved("Additive", base=OneOrMany(Instance(Kernel)))
class Additive(Coordinatewise):
    """k(x, y) = sum_j k_j(x_j, y_j).

    Examples
    --------
    >>> kernel = cbq.kernels.Additive(cbq.kernels.RBF(lengthscale=[1.0, 1.0]))
    >>> kernel([[0.0, 0.0]])
    array([[2.]])
    """

    operation = np.add


def _as_factor(kernel: Kernel) -> str:
    """The text of a kernel in a product, with sums in parentheses."""
    return f"({kernel!r})" if isinstance(kernel, SumKernel) else repr(kernel)


def kernel_list(kernels: Sequence[Kernel], owner: str, name: str) -> tuple[Kernel, ...]:
    """One or more kernels, the argument `name` of the constructor of `owner`, as a tuple."""
    if not isinstance(kernels, (list, tuple)) or not kernels or not all(isinstance(k, Kernel) for k in kernels):
        raise TypeError(f"{owner} takes a list of one or more kernels, but it was given {shown(kernels)} as {name}.")
    return tuple(kernels)
