"""Changes of coordinates x -> w(x) under a warped kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from cbq._arrays import Array, finite
from cbq.io import saved
from cbq.kernels.base import known_measure
from cbq.linalg.small import cholesky, solve_lower
from cbq.measures import Empirical, Gaussian, LogMeasure, LogNormal, Measure, Mixture, Product, as_measure


class Transform(ABC):
    """A map of points (..., N, d) to points (..., N, d')."""

    name: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def __call__(self, x: Array) -> Array:
        """The images of the points."""

    @property
    def needs_measure(self) -> bool:
        """Whether the map is defined by a measure of x that `bind` has yet to give."""
        return False

    def bind(self, measure: Measure) -> Transform:
        """The map with the measure of x that it needs; itself if it needs none."""
        return self

    @abstractmethod
    def image(self, measure: Measure) -> Measure:
        """The measure of w(X) for X ~ measure, or a TypeError if it is not known."""


@saved("Log")
class Log(Transform):
    """w(x) = log x, coordinate by coordinate."""

    name = "log"

    def __call__(self, x: Array) -> Array:
        if np.any(x <= 0):
            raise ValueError(f"a kernel on log x needs positive x, but the smallest is {np.min(x):g}.")
        return np.log(x)

    def image(self, measure: Measure) -> Measure:
        if isinstance(measure, LogNormal):
            return measure.log
        if isinstance(measure, Empirical):
            return Empirical(self(measure.points), measure.weights)
        if isinstance(measure, Mixture):
            return Mixture(measure.weights, [self.image(m) for m in measure.components])
        if measure.dim == 1:
            return LogMeasure(measure)
        if len(measure.factors()) > 1:
            return Product([self.image(m) for m in measure.factors()])
        raise TypeError(f"the measure of log x is not known for {measure!r}.")


class MeasureTransform(Transform):
    """A map that is defined by the measure of x."""

    def __init__(self, measure: Any = None) -> None:
        self._measure = None if measure is None else as_measure(measure)

    @property
    def needs_measure(self) -> bool:
        return self._measure is None

    @property
    def measure(self) -> Measure:
        """The measure of x, or an error if it is not known yet."""
        return known_measure(self._measure, f"a kernel warped by {self.name!r} depends on the measure of x")

    def bind(self, measure: Measure) -> Transform:
        return type(self)(measure) if self.needs_measure else self


class Whiten(MeasureTransform):
    """w(x) = L^-1 (x - m), with the mean m and the covariance L L' of the measure of x."""

    name = "whiten"

    def __call__(self, x: Array) -> Array:
        mean, L = self._centre_and_scale()
        return solve_lower(L[..., None, :, :], x - mean[..., None, :])

    def image(self, measure: Measure) -> Measure:
        if isinstance(measure, Empirical):
            return Empirical(self(measure.points), measure.weights)
        if isinstance(measure, Mixture):
            return Mixture(measure.weights, [self.image(m) for m in measure.components])
        if not isinstance(measure, Gaussian):
            raise TypeError(
                f"the measure of whitened x is known for Gaussian distributions and their mixtures, not {measure!r}."
            )
        if measure.equals(self.measure):
            return Gaussian(np.zeros(measure.mean.shape), np.broadcast_to(np.eye(measure.dim), measure.cov.shape))
        mean, L = self._centre_and_scale()
        half = solve_lower(L[..., None, :, :], np.swapaxes(measure.cholesky, -1, -2))  # rows: columns of L^-1 L'
        return Gaussian(solve_lower(L, measure.mean - mean), np.swapaxes(half, -1, -2) @ half)

    def scales(self) -> Array | None:
        """Standard deviations (..., d) if the coordinates are merely centred and scaled, None if they are mixed."""
        L = self._centre_and_scale()[1]
        diagonal = np.diagonal(L, axis1=-2, axis2=-1)
        return np.array(diagonal) if np.count_nonzero(L) == np.count_nonzero(diagonal) else None

    def _centre_and_scale(self) -> tuple[Array, Array]:
        mean, cov = self.measure.moments()
        return mean, cholesky(cov)


class Gaussianise(MeasureTransform):
    """w(x) = the standard normal point that `transport` maps to x."""

    name = "gaussianise"

    def __call__(self, x: Array) -> Array:
        v = self.measure.inverse_transport(x, base="normal")
        if not np.all(np.isfinite(v)):
            raise ValueError(
                "a gaussianised kernel needs points inside the support of their measure, but "
                f"{np.count_nonzero(~np.isfinite(v))} coordinates lie on its edge or outside."
            )
        return v

    def image(self, measure: Measure) -> Measure:
        if not measure.equals(self.measure):
            raise TypeError(f"x gaussianised under {self.measure!r} has no known measure under another, {measure!r}.")
        if isinstance(measure, Empirical):
            return Empirical(self(measure.points), measure.weights)
        if isinstance(measure, Product) and any(isinstance(block, Empirical) for block in measure.blocks):
            return Product([Gaussianise(block).image(block) for block in measure.blocks])
        shape = (*measure.batch_shape, measure.dim)
        return Gaussian(np.zeros(shape), np.ones((*shape, 1)) * np.eye(measure.dim))


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

    def image(self, measure: Measure) -> Measure:
        if isinstance(measure, Empirical):
            return Empirical(self(measure.points), measure.weights)
        raise TypeError(f"the measure of x warped by {self.name} is not known, except for empirical measures.")


NAMED: dict[str, Callable[[], Transform]] = {t.name: t for t in (Log, Whiten, Gaussianise)}
