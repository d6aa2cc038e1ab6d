"""Products and sums of one-dimensional kernels, one for each coordinate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from cbq.common.arrays import Array, Booleans
from cbq.io import Instance, OneOrMany, saved
from cbq.kernels.base import Kernel
from cbq.kernels.combinations import Composite, kernel_list
from cbq.kernels.radial import Radial
from cbq.linalg.resident import Features, empty
from cbq.measures import Measure


class Coordinatewise(Composite):
    """A combination of one-dimensional kernels, one for each coordinate.

    Parameters
    ----------
    base : one radial kernel for all coordinates (its lengthscale is a number, or (d,) for one per coordinate), or a
        sequence of d one-dimensional kernels of any kind.
    """

    has_slow_embedding = False  # each coordinate has a fast one
    has_kink = True  # RBF kernels have none, but True is safe, only slower

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
            self.base.lengthscale_for(d)  # raises if the number of lengthscales is wrong
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
