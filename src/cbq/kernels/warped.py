from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, Booleans
from cbq.io import Instance, saved
from cbq.kernels.base import Kernel, as_points
from cbq.kernels.transforms import NAMED, Transform, UserTransform
from cbq.linalg.features import Features
from cbq.measures import Measure, as_measure


@saved("Warped", base=Instance(Kernel), warp=Instance(Transform))
class Warped(Kernel):
    """k(x, y) = base(w(x), w(y)): a kernel on transformed points.

    Parameters
    ----------
    base : the kernel on the transformed points.
    warp : "log" (logarithm of each coordinate), "whiten" (zero mean and unit covariance under the measure of x),
        "gaussianise" (standard normal under the measure of x), or a function from points (..., N, d) to (..., N, d').
        "whiten" and "gaussianise" take the measure from `bind`.
    """

    def __init__(self, base: Kernel, warp: str | Transform | Callable[[Array], Any]) -> None:
        if not isinstance(base, Kernel):
            raise TypeError(f"Warped takes a kernel first, but it was given {base!r}.")
        self.base = base
        if isinstance(warp, Transform):
            self.warp = warp
        elif isinstance(warp, str) and warp in NAMED:
            self.warp = NAMED[warp]()
        elif callable(warp):
            self.warp = UserTransform(warp)
        else:
            raise ValueError(f"warp must be one of {sorted(NAMED)} or a function, but it is {warp!r}.")

    def __repr__(self) -> str:
        return f"Warped({self.base!r}, {self.warp.name!r})"

    @property
    def log_lengthscales(self) -> Array:
        return self.base.log_lengthscales

    def with_log_lengthscales(self, values: npt.ArrayLike) -> Kernel:
        return Warped(self.base.with_log_lengthscales(values), self.warp)

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        base, free = self.base.to_fit(_standardised(x) if self.warp.needs_measure else self.warp(x), ard)
        return type(self)(base, self.warp), free

    @property
    def needs_measure(self) -> bool:
        return self.warp.needs_measure or self.base.needs_measure

    def check_dim(self, d: int) -> None:
        if not isinstance(self.warp, UserTransform):  # which may change the dimension
            self.base.check_dim(d)

    def bind(self, measure: Measure) -> Warped:
        measure = as_measure(measure)
        warp = self.warp.bind(measure)
        base = self.base.bind(warp.image(measure)) if self.base.needs_measure else self.base
        return Warped(base, warp)

    def diag(self, x: npt.ArrayLike) -> Array:
        return self.base.diag(self.warp(as_points(x)))

    def features(self, x: Array) -> Features:
        return self.base.features(self.warp(x))

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        self.base.fill(fx, fy, out)

    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        self.base.fill_derivatives(fx, fy, out)

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        return self.base.contract_features(fx, fy, G)


def _standardised(x: Array) -> Array:
    """Points of unit spread, such as a measure of its own would be warped to."""
    each = x.reshape(-1, x.shape[-1])
    spread = np.std(each, axis=0)
    return np.asarray((each - np.mean(each, axis=0)) / np.where(spread > 0, spread, 1.0))
