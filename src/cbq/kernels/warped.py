"""Kernels on transformed points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from cbq.common import Array, Booleans, Integers, called, finite, is_whole, shown
from cbq.io import Instance, Numbers, saved
from cbq.kernels.base import Kernel, as_points, known_measure
from cbq.linalg.gram import Features
from cbq.linalg.lapack import cholesky, solve_lower
from cbq.measures import Empirical, Gaussian, LogMeasure, LogNormal, Measure, Mixture, Product, Uniform
from cbq.measures.base import measure_argument, remembered


class Transform(ABC):
    """A map w from points (..., N, d) to points (..., N, d')."""

    name: str
    needs_measure = False  # whether the map depends on the measure of x and `bind` has not supplied it yet
    deviation = 1.0  # of each coordinate of w(X), where the map depends on the measure of x

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def __call__(self, x: Array) -> Array:
        """The images w(x) of the points."""

    def bind(self, measure: Measure) -> Transform:
        """The map with the measure it depends on; the map itself if it depends on none."""
        return self

    def image(self, measure: Measure) -> Measure:
        """The measure of w(X) for X ~ measure; TypeError if it is unknown."""
        if isinstance(measure, Empirical):
            return Empirical(self(measure.points), measure.weights)
        if isinstance(measure, Mixture):
            return Mixture(measure.weights, [self.image(component) for component in measure.components])
        return self._image(measure)

    @abstractmethod
    def _image(self, measure: Measure) -> Measure:
        """`image` for measures without atoms or components."""


@saved("Log")
class Log(Transform):
    """w(x) = log x in each coordinate."""

    name = "log"

    def __call__(self, x: Array) -> Array:
        if np.any(x <= 0):
            raise ValueError(f"a kernel on log x needs positive x, but the smallest is {np.min(x):g} (of x or y).")
        return np.log(x)

    def _image(self, measure: Measure) -> Measure:
        if isinstance(measure, LogNormal):
            return measure.log
        if measure.dim == 1:
            return remembered(measure, LogMeasure)
        if len(measure.factors()) > 1:
            return Product([self.image(m) for m in measure.factors()])
        raise TypeError(f"the measure of log x is not known for {measure!r}.")


@saved("NormalCdf")
class NormalCdf(Transform):
    """w(v) is the distribution function of a standard normal variable at each coordinate of v."""

    name = "normal cdf"

    def __call__(self, x: Array) -> Array:
        return np.asarray(ndtr(x))

    def _image(self, measure: Measure) -> Measure:
        standard = Gaussian(np.zeros(measure.dim), np.ones(measure.dim))
        if not measure.equals(standard):
            raise TypeError(f"the measure of Phi(x) is known for a standard normal x only, not {measure!r}.")
        return Uniform(np.zeros(measure.dim), np.ones(measure.dim))


@saved("Columns", columns=Numbers("k", int, least=0, inline=True))
class Columns(Transform):
    """w(x) selects coordinates of x by their numbers."""

    def __init__(self, columns: Sequence[int] | Integers) -> None:
        given = list(columns) if isinstance(columns, list | tuple | range | np.ndarray) else []
        if not given or not all(is_whole(j) for j in given) or len({*given}) < len(given):
            raise ValueError(
                f"columns must be distinct numbers of coordinates, counted from 0, but it is {shown(columns)}."
            )
        self.columns = np.array(given, dtype=np.intp)
        self.name = f"Columns({[int(j) for j in given]})"

    def __repr__(self) -> str:
        return self.name

    def __call__(self, x: Array) -> Array:
        if np.max(self.columns) >= x.shape[-1]:
            raise ValueError(f"there is no coordinate {np.max(self.columns)} of x, which has {x.shape[-1]} of them.")
        return np.ascontiguousarray(x[..., self.columns])

    def _image(self, measure: Measure) -> Measure:
        if not isinstance(measure, Gaussian):
            raise TypeError(
                f"the measure of some coordinates is known for Gaussian and Empirical measures, not {measure!r}."
            )
        mean = self(measure.mean)
        return Gaussian(mean, cov=measure.cov[..., self.columns[:, None], self.columns])


class MeasureTransform(Transform):
    """A map that depends on the measure of x."""

    def __init__(self, measure: Any = None) -> None:
        self._measure = None if measure is None else measure_argument(measure, "measure")
        self.needs_measure = measure is None

    @property
    def measure(self) -> Measure:
        """The measure of x, or an error if the map is not bound to one."""
        return known_measure(self._measure, f"a kernel warped by {self.name!r} depends on the measure of x")

    def bind(self, measure: Measure) -> Transform:
        return type(self)(measure) if self.needs_measure else self


class Whiten(MeasureTransform):
    """w(x) = L^-1 (x - m), where m is the mean and L L' the covariance of the measure of x."""

    name = "whiten"

    def __call__(self, x: Array) -> Array:
        mean, L = self._mean_and_factor()
        return solve_lower(L[..., None, :, :], x - mean[..., None, :])

    def _image(self, measure: Measure) -> Measure:
        if not isinstance(measure, Gaussian):
            raise TypeError(
                f"the measure of whitened x is known for Gaussian, Mixture and Empirical measures, not {measure!r}."
            )
        if measure.equals(self.measure):
            return Gaussian(np.zeros(measure.mean.shape), cov=np.broadcast_to(np.eye(measure.dim), measure.cov.shape))
        mean, L = self._mean_and_factor()
        # The rows are the columns of L^-1 L'.
        half = solve_lower(L[..., None, :, :], np.swapaxes(measure.cholesky, -1, -2))
        return Gaussian(solve_lower(L, measure.mean - mean), cov=np.swapaxes(half, -1, -2) @ half)

    def scales(self) -> Array | None:
        """The standard deviations (..., d) if coordinates are uncorrelated, so that w only rescales; otherwise None."""
        L = self._mean_and_factor()[1]
        diagonal = np.diagonal(L, axis1=-2, axis2=-1)
        return np.array(diagonal) if np.count_nonzero(L) == np.count_nonzero(diagonal) else None

    def _mean_and_factor(self) -> tuple[Array, Array]:
        """m (..., d) and L (..., d, d)."""
        mean, cov = self.measure.moments()
        return mean, cholesky(cov)


class Transported(MeasureTransform):
    """A map w that inverts the transport from a base measure to the measure of x."""

    base: ClassVar[Literal["uniform", "normal"]]
    past: ClassVar[str]  # the participle in messages, such as warped

    @staticmethod
    @abstractmethod
    def base_measure(shape: tuple[int, ...]) -> Measure:
        """The base measure, of independent coordinates, for measures of this shape (*batch_shape, d)."""

    def __call__(self, x: Array) -> Array:
        v = self.measure.inverse_transport(x, base=self.base)
        if not np.all(np.isfinite(v)):
            raise ValueError(
                "a gaussianised kernel needs points inside the support of their measure, but "
                f"{np.count_nonzero(~np.isfinite(v))} coordinates lie on its boundary or outside: move x inside."
            )
        return v

    def image(self, measure: Measure) -> Measure:
        if not measure.equals(self.measure):
            raise TypeError(f"x {self.past} under {self.measure!r} has no known measure if x follows {measure!r}.")
        # Scores under a mixture have the base measure, whatever its components.
        return self._image(measure) if isinstance(measure, Mixture) else super().image(measure)

    def _image(self, measure: Measure) -> Measure:
        if isinstance(measure, Product) and any(isinstance(block, Empirical) for block in measure.blocks):
            return Product([type(self)(block).image(block) for block in measure.blocks])
        if measure.has_atoms:
            raise TypeError(f"the measure of x {self.past} is not known for {measure!r}, which has atoms.")
        return self.base_measure((*measure.batch_shape, measure.dim))


class Gaussianise(Transported):
    """w(x) is the standard normal point that the measure's transport maps to x."""

    name = "gaussianise"
    base, past = "normal", "gaussianised"

    @staticmethod
    def base_measure(shape: tuple[int, ...]) -> Measure:
        return Gaussian(np.zeros(shape), cov=np.ones((*shape, 1)) * np.eye(shape[-1]))


class ToUniform(Transported):
    """w(x) is the point of the unit cube that the measure's transport maps to x: on the line, F(x)."""

    name = "uniform"
    base, past = "uniform", "mapped to the unit cube"
    deviation = 12**-0.5

    @staticmethod
    def base_measure(shape: tuple[int, ...]) -> Measure:
        return Uniform(np.zeros(shape), np.ones(shape))


class UserTransform(Transform):
    """A user's function from points (..., N, d) to points (..., N, d')."""

    def __init__(self, function: Callable[[Array], Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def __call__(self, x: Array) -> Array:
        w = finite(called(self.function, f"{self.name}, the warp of x,", x), f"the output of the warp {self.name}")
        if w.ndim != x.ndim or w.shape[:-1] != x.shape[:-1]:
            raise ValueError(
                f"the warp {self.name} mapped points of shape {x.shape} to {w.shape}: it must map (..., N, d) to "
                f"(..., N, d'), keeping all axes but the last."
            )
        return w

    def _image(self, measure: Measure) -> Measure:
        raise TypeError(
            f"the measure of x warped by {self.name} is known for Empirical measures only, not {measure!r}."
        )


WARPS: dict[str, Callable[[], Transform]] = {t.name: t for t in (Log, Whiten, Gaussianise, ToUniform)}


@saved("Warped", base=Instance(Kernel), warp=Instance(Transform))
class Warped(Kernel):
    """k(x, y) = base(w(x), w(y)): a kernel on transformed points.

    Parameters
    ----------
    base : the kernel on the transformed points.
    warp : "log" (the logarithm of each coordinate), "whiten" (zero mean and unit covariance under the measure of x),
        "gaussianise" (standard normal under the measure of x), "uniform" (uniform on the unit cube under the measure of
        x: F(x) on the line), or a function from points (..., N, d) to (..., N, d'). "whiten", "gaussianise" and
        "uniform" take the measure from `bind`.

    Examples
    --------
    >>> kernel = cbq.kernels.Warped(cbq.kernels.RBF(1.0), "log")
    >>> kernel([1.0], [np.e]).round(4)  # exp(-1/2)
    array([[0.6065]])
    """

    def __init__(self, base: Kernel, warp: str | Transform | Callable[[Array], Any]) -> None:
        if not isinstance(base, Kernel):
            raise TypeError(f"Warped takes a kernel first, but it was given {shown(base)} as base.")
        self.base = base
        if isinstance(warp, Transform):
            self.warp = warp
        elif isinstance(warp, str) and warp in WARPS:
            self.warp = WARPS[warp]()
        elif callable(warp):
            self.warp = UserTransform(warp)
        else:
            raise ValueError(f"warp must be one of {sorted(WARPS)} or a function, but it is {shown(warp)}.")

    def __repr__(self) -> str:
        warp = self.warp if isinstance(self.warp, Columns) else self.warp.name
        return f"Warped({self.base!r}, {warp!r})"

    @property
    def log_lengthscales(self) -> Array:
        return self.base.log_lengthscales

    def with_log_lengthscales(self, values: npt.ArrayLike) -> Kernel:
        return Warped(self.base.with_log_lengthscales(values), self.warp)

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        images = self.warp.deviation * _standardised(x) if self.warp.needs_measure else self.warp(x)
        base, free = self.base.to_fit(images, ard)
        return type(self)(base, self.warp), free

    @property
    def needs_measure(self) -> bool:
        return self.warp.needs_measure or self.base.needs_measure

    @property
    def smoothness(self) -> float:
        return self.base.smoothness

    def rougher(self) -> Warped:
        return Warped(self.base.rougher(), self.warp)

    @property
    def is_roughest(self) -> bool:
        return self.base.is_roughest

    @property
    def has_slow_embedding(self) -> bool:
        return self.base.has_slow_embedding

    def check_dim(self, d: int) -> None:
        # User functions and Columns may change the dimension.
        if not isinstance(self.warp, UserTransform | Columns):
            self.base.check_dim(d)

    def bind(self, measure: Measure) -> Warped:
        measure = measure_argument(measure, "measure")
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
    """Points (n, d) with zero mean and unit deviation, a stand-in for whitened or gaussianised ones."""
    rows = x.reshape(-1, x.shape[-1])
    deviations = np.std(rows, axis=0)
    return np.asarray((rows - np.mean(rows, axis=0)) / np.where(deviations > 0, deviations, 1.0))
