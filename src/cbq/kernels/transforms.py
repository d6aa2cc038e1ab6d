"""Changes of coordinates x -> w(x) under a warped kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq._arrays import Array, finite
from cbq.linalg.small import cholesky, solve_lower

if TYPE_CHECKING:
    from cbq.measures import Measure


class Transform(ABC):
    """A map of points (..., N, d) to points (..., N, d')."""

    name: str

    @abstractmethod
    def __call__(self, x: Array) -> Array:
        """The images of the points."""

    def bind(self, measure: Measure) -> Transform:
        """The map with what it takes from a measure filled in; itself if nothing, or if it has one already."""
        return self


class Log(Transform):
    """w(x) = log x, coordinate by coordinate."""

    name = "log"

    def __call__(self, x: Array) -> Array:
        if np.any(x <= 0):
            raise ValueError(f"a kernel on log x needs positive x, but the smallest is {np.min(x):g}.")
        return np.log(x)


class MeasureTransform(Transform):
    """A map that is defined by the law of x."""

    def __init__(self, measure: Measure | None = None) -> None:
        self._measure = measure

    @property
    def is_bound(self) -> bool:
        """Whether the law is known."""
        return self._measure is not None

    @property
    def measure(self) -> Measure:
        """The law of x, or an error if it is not known yet."""
        if self._measure is None:
            raise ValueError(
                f"a kernel warped by {self.name!r} depends on the law of x: call kernel.bind(measure) first, "
                f"or pass the kernel to cbq.embed, whose result has it bound as `.kernel`."
            )
        return self._measure

    def bind(self, measure: Measure) -> Transform:
        return self if self.is_bound else type(self)(measure)


class Whiten(MeasureTransform):
    """w(x) = L^-1 (x - m), with the mean m and the covariance L L' of the law of x."""

    name = "whiten"

    def __call__(self, x: Array) -> Array:
        mean, cov = self.measure.moments()
        return solve_lower(cholesky(cov)[..., None, :, :], x - mean[..., None, :])


class Gaussianise(MeasureTransform):
    """w(x) = the standard normal point that `transport` maps to x."""

    name = "gaussianise"

    def __call__(self, x: Array) -> Array:
        v = self.measure.inverse_transport(x, base="normal")
        if not np.all(np.isfinite(v)):
            raise ValueError(
                "a gaussianised kernel needs points inside the support of their law, but "
                f"{np.count_nonzero(~np.isfinite(v))} coordinates lie on its edge or outside."
            )
        return v


class UserTransform(Transform):
    """A function given by the user, from points (..., N, d) to points (..., N, d')."""

    def __init__(self, function: Callable[[Array], Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def __call__(self, x: Array) -> Array:
        w = finite(self.function(x), f"the output of the warp {self.name}")
        if w.ndim != x.ndim or w.shape[:-1] != x.shape[:-1]:
            raise ValueError(
                f"the warp {self.name} turned points of shape {x.shape} into {w.shape}: it must map "
                f"(..., N, d) to (..., N, d'), keeping all axes but the last."
            )
        return w


NAMED: dict[str, Callable[[], Transform]] = {t.name: t for t in (Log, Whiten, Gaussianise)}
