"""The measure whose density is known up to a constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self

import numpy as np

from cbq.common import Array, RNGLike, called, indexed, is_whole, real, shown
from cbq.measures.base import SingleMeasure
from cbq.measures.univariate import central_difference

Function = Callable[[Array], Any]


class Unnormalised(SingleMeasure):
    """A measure on R^d given by its score, or by its log density up to a constant, for Stein kernels.

    Stein kernels need a density that vanishes at the ends of its support. Where the density of a positive x does not
    vanish at zero, pass the measure of log x. Without `score`, the score is a central difference of fourth order with
    step 1e-3 max(1, |x_j|). Its relative error is about 1e-9 if the log density varies on the scale max(1, |x_j|). For
    much narrower measures, rescale x or pass the score.

    Parameters
    ----------
    log_density : a function from x (..., n, d) to (..., n), up to an additive constant.
    score : a function from x (..., n, d) to the gradient of the log density, (..., n, d).
    dim : the dimension d.

    Examples
    --------
    >>> measure = cbq.measures.Unnormalised(score=lambda x: -(x**3), dim=1)  # density proportional to exp(-x^4 / 4)
    >>> measure.score([2.0])
    array([[-8.]])
    """

    def __init__(self, log_density: Function | None = None, score: Function | None = None, *, dim: int) -> None:
        if log_density is None and score is None:
            raise TypeError("Unnormalised needs a log_density, a score, or both, but neither was given.")
        for name, function in (("log_density", log_density), ("score", score)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be a function of x, but it is a {type(function).__name__}.")
        if not is_whole(dim, 1):
            raise ValueError(f"dim must be a positive integer, but it is {shown(dim)}.")
        self._dim, self._log_density, self._given_score = int(dim), log_density, score

    @property
    def dim(self) -> int:
        return self._dim

    def __getitem__(self, index: Any) -> Self:
        if indexed(np.empty(()), index).ndim:
            raise IndexError(f"Unnormalised is a single measure and cannot have batch axes (index {shown(index)}).")
        return self

    def moments(self) -> NoReturn:
        self._refuse("moments")

    def sample(self, n: int, rng: RNGLike) -> NoReturn:
        self._refuse("sample")

    def _logpdf(self, x: Array) -> Array:
        if self._log_density is None:
            raise TypeError("this Unnormalised measure has a score only: pass log_density to evaluate logpdf.")
        return _evaluated(self._log_density, x, x.shape[:-1], "log_density", allow_zero_density=True)

    def _score(self, x: Array) -> Array:
        if self._given_score is not None:
            return _evaluated(self._given_score, x, x.shape, "score")
        return np.stack([self._partial_derivative(x, j) for j in range(self._dim)], axis=-1)

    def _partial_derivative(self, x: Array, j: int) -> Array:
        def along_coordinate(y: Array) -> Array:
            moved = x.copy()
            moved[..., j] = y
            values = self._logpdf(moved)
            if not np.all(np.isfinite(values)):
                raise ValueError(
                    "the score by central differences needs a finite log density within 0.002 max(1, |x|) of x, but it "
                    "is -inf near some points: keep x away from the edge of the support, or pass the score."
                )
            return values

        return central_difference(along_coordinate, x[..., j], 1e-3 * np.maximum(1, np.abs(x[..., j])))

    def _from_normal(self, v: Array) -> NoReturn:
        self._refuse("transport")

    def _to_normal(self, x: Array) -> NoReturn:
        self._refuse("inverse_transport")

    def _refuse(self, what: str) -> NoReturn:
        reason = "its normalisation is unknown. Draw points by MCMC and use a Stein kernel, which needs only the score"
        raise TypeError(f"Unnormalised has no {what}: {reason}.")


def _evaluated(
    function: Function, x: Array, shape: tuple[int, ...], name: str, *, allow_zero_density: bool = False
) -> Array:
    """The values of a user's function at x, which must be finite and of this shape."""
    array = real(called(function, name, x), f"the value of {name}")
    if array.shape != shape:
        raise ValueError(f"{name} returned an array of shape {array.shape}, but {shape} was expected.")
    valid = np.isfinite(array) | (allow_zero_density & np.isneginf(array))
    if not np.all(valid):
        raise ValueError(f"{name} returned NaN or inf in {np.count_nonzero(~valid)} of its {array.size} values.")
    return array
