from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self

import numpy as np

from cbq._arrays import Array
from cbq.measures.base import Measure
from cbq.measures.differences import central_difference

Function = Callable[[Array], Any]


class Unnormalised(Measure):
    """A measure on R^d known by its score or by its log density up to a constant, for Stein kernels.

    Its density is taken to vanish towards the ends of its support, as Stein kernels need: for positive x with a
    density that does not vanish at zero, give the measure of log x.

    Without `score`, the score comes from fourth-order central differences with step 1e-3 max(1, |x_j|): about
    1e-9 of its size where the log density varies on the scale of that step times a thousand. For measures much
    narrower than that, rescale x or pass the score.

    Parameters
    ----------
    log_density : takes x (..., n, d), returns (..., n); any additive constant will do.
    score : takes x (..., n, d), returns its gradient (..., n, d).
    dim : the dimension d.
    """

    def __init__(self, log_density: Function | None = None, score: Function | None = None, *, dim: int) -> None:
        if log_density is None and score is None:
            raise TypeError("Unnormalised needs a log_density, a score, or both, but neither arrived.")
        for name, function in (("log_density", log_density), ("score", score)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be a function of x, but it is a {type(function).__name__}.")
        if dim != int(dim) or dim < 1:
            raise ValueError(f"dim must be a positive whole number, but it is {dim!r}.")
        self._dim, self._log_density, self._given_score = int(dim), log_density, score

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return ()

    def parameters(self) -> dict[str, Array]:
        """Nothing: functions are no arrays."""
        return {}

    def equals(self, other: Measure) -> bool:
        return self is other  # functions cannot be compared

    def __getitem__(self, index: Any) -> Self:
        measures = np.empty(())[index]  # raises NumPy's own IndexError where the index asks for a batch axis
        if np.ndim(measures):
            raise IndexError(f"Unnormalised is a single measure and cannot grow batch axes (index {index!r}).")
        return self

    def moments(self) -> NoReturn:
        self._refuse("moments")

    def sample(self, n: int, rng: np.random.Generator | int) -> NoReturn:
        self._refuse("sample")

    def _logpdf(self, x: Array) -> Array:
        if self._log_density is None:
            raise TypeError("this Unnormalised measure was given by its score only: pass log_density to have one.")
        return _checked(self._log_density(x), x.shape[:-1], "log_density", allow_zero_density=True)

    def _score(self, x: Array) -> Array:
        if self._given_score is not None:
            return _checked(self._given_score(x), x.shape, "score")
        columns = [self._partial(x, j) for j in range(self._dim)]
        return np.stack(columns, axis=-1)

    def _partial(self, x: Array, j: int) -> Array:
        def along(y: Array) -> Array:
            moved = x.copy()
            moved[..., j] = y
            values = self._logpdf(moved)
            if not np.all(np.isfinite(values)):
                raise ValueError(
                    "score by differences: the log density is -inf within 0.002 max(1, |x|) of some points. "
                    "Keep away from the edge of the support, or pass the score."
                )
            return values

        return central_difference(along, x[..., j], 1e-3 * np.maximum(1, np.abs(x[..., j])))

    def _from_normal(self, v: Array) -> NoReturn:
        self._refuse("transport")

    def _to_normal(self, x: Array) -> NoReturn:
        self._refuse("inverse_transport")

    def _refuse(self, what: str) -> NoReturn:
        raise TypeError(
            f"Unnormalised has no {what}: its normalisation is unknown. Draw points by MCMC and use a Stein "
            f"kernel, which needs the score only."
        )


def _checked(values: Any, shape: tuple[int, ...], name: str, *, allow_zero_density: bool = False) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} returned an array of shape {array.shape}, but {shape} was expected.")
    fine = np.isfinite(array) | (allow_zero_density & np.isneginf(array))
    if not np.all(fine):
        raise ValueError(f"{name} returned NaN or inf at {np.count_nonzero(~fine)} of {array.size} places.")
    return array
