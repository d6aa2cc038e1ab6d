"""Products and sums of one-dimensional kernels, one for each coordinate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, Booleans
from cbq.io import Instance, OneOrMany, saved
from cbq.kernels.base import Kernel, as_points
from cbq.kernels.combinations import (
    PRODUCT,
    SUM,
    Combination,
    join_lengthscales,
    kernel_list,
    parts_to_fit,
    split_lengthscales,
)
from cbq.kernels.radial import Radial
from cbq.linalg.gram import Features
from cbq.measures import Measure, as_measure


class Coordinatewise(Kernel):
    """A combination of one-dimensional kernels, one for each coordinate.

    Parameters
    ----------
    base : one radial kernel for all coordinates (its lengthscale is a number, or (d,) for one per coordinate), or a
        sequence of d one-dimensional kernels of any kind.
    """

    combination: ClassVar[Combination]

    def __init__(self, base: Radial | Sequence[Kernel]) -> None:
        if isinstance(base, Kernel) and not isinstance(base, Radial):
            raise TypeError(
                f"{type(self).__name__} takes one RBF or Matern kernel for all coordinates, or a list with a "
                f"one-dimensional kernel for each, but it was given {base!r}."
            )
        self.base = base if isinstance(base, Radial) else kernel_list(base, type(self).__name__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    def coordinates(self, d: int) -> tuple[Kernel, ...]:
        """The one-dimensional kernels of coordinates 0, ..., d - 1."""
        if isinstance(self.base, Radial):
            self.base.lengthscale_for(d)  # raises if the number of lengthscales is wrong
            return tuple(self.base.coordinate(j) for j in range(d))
        if len(self.base) != d:
            raise ValueError(
                f"{type(self).__name__} has kernels for {len(self.base)} coordinates, but the points have {d}."
            )
        return self.base

    @property
    def smoothness(self) -> float:
        return self.base.smoothness if isinstance(self.base, Radial) else min(k.smoothness for k in self.base)

    @property
    def is_stationary(self) -> bool:
        return isinstance(self.base, Radial) or all(k.is_stationary for k in self.base)

    def on_line(self, r: Array) -> Array:
        return self.coordinates(1)[0].on_line(r)

    def line_lengthscales(self) -> list[Array]:
        return self.coordinates(1)[0].line_lengthscales()

    def rescaled(self, scales: Array) -> Coordinatewise:
        if isinstance(self.base, Radial):
            return type(self)(self.base.rescaled(scales))
        return type(self)([k.rescaled(scales[..., j : j + 1]) for j, k in enumerate(self.base)])

    def check_dim(self, d: int) -> None:
        for k in self.coordinates(d):
            k.check_dim(1)

    def restrict(self, block: slice) -> Coordinatewise:
        """The same combination over a block of consecutive coordinates."""
        base = self.base.restrict(block) if isinstance(self.base, Radial) else self.base[block]
        return type(self)(base)

    @property
    def log_lengthscales(self) -> Array:
        return self.base.log_lengthscales if isinstance(self.base, Radial) else join_lengthscales(self.base)

    def with_log_lengthscales(self, values: npt.ArrayLike) -> Kernel:
        if isinstance(self.base, Radial):
            return type(self)(self.base.with_log_lengthscales(values))
        return type(self)(split_lengthscales(self.base, values))

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        if isinstance(self.base, Radial):
            base, free = self.base.to_fit(x, ard)
            return type(self)(base), free
        kernels, free = parts_to_fit(self.coordinates(x.shape[-1]), _columns(x), ard)
        return type(self)(kernels), free

    @property
    def needs_measure(self) -> bool:
        return not isinstance(self.base, Radial) and any(k.needs_measure for k in self.base)

    def bind(self, measure: Measure) -> Kernel:
        if isinstance(self.base, Radial):
            return self
        measure = as_measure(measure)
        kernels = self.coordinates(measure.dim)
        return type(self)([k.bind(measure.marginal(j)) for j, k in enumerate(kernels)])

    def features(self, x: Array) -> Features:
        kernels = self.coordinates(x.shape[-1])
        return tuple(k.features(column) for k, column in zip(kernels, _columns(x), strict=True))

    def diag(self, x: npt.ArrayLike) -> Array:
        x = as_points(x)
        kernels = self.coordinates(x.shape[-1])
        each = [k.diag(column) for k, column in zip(kernels, _columns(x), strict=True)]
        return reduce(self.combination.operation, each)

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        self.combination.fill(self.coordinates(len(fx)), fx, fy, out)

    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        shared = self._shares(len(fx))
        each = np.empty((len(fx), *out.shape[1:])) if shared else out
        self.combination.fill_derivatives(self.coordinates(len(fx)), fx, fy, each)
        if shared:
            np.sum(each, axis=0, keepdims=True, out=out)

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        each = self.combination.contract(self.coordinates(len(fx)), fx, fy, G)
        return np.sum(each, axis=-1, keepdims=True) if self._shares(len(fx)) else each

    def _shares(self, d: int) -> bool:
        """Whether all d coordinates share one lengthscale, so that their derivatives add up."""
        return isinstance(self.base, Radial) and self.base.n_lengthscales < d


@saved("TensorProduct", base=OneOrMany(Instance(Kernel)))
class TensorProduct(Coordinatewise):
    """k(x, y) = prod_j k_j(x_j, y_j)."""

    combination = PRODUCT


@saved("Additive", base=OneOrMany(Instance(Kernel)))
class Additive(Coordinatewise):
    """k(x, y) = sum_j k_j(x_j, y_j)."""

    combination = SUM


def _columns(x: Array) -> list[Array]:
    """The coordinates of points x (..., N, d) as d sets of points (..., N, 1)."""
    return [x[..., j : j + 1] for j in range(x.shape[-1])]
