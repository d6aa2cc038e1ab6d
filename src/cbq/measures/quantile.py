from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array
from cbq.io import Many, Numbers, Text, saved
from cbq.measures.base import Measure
from cbq.measures.differences import central_difference
from cbq.measures.univariate import Univariate, columns


def _read(measure: Quantile) -> dict[str, Any]:
    """What is saved: the name of a distribution of scipy's own, and its parameters."""
    if not is_scipys_own(measure._dist):
        raise ValueError(f"{measure!r} is made of code of your own, and a file holds no code.")
    *shapes, loc, scale = measure._args
    return {"dist": measure._dist.name, "shapes": shapes, "loc": loc, "scale": scale}


def _build(cls: type[Quantile], _: Any, dist: str, shapes: tuple[Array, ...], loc: Array, scale: Array) -> Quantile:
    from scipy import stats  # slow to import

    found = getattr(stats, dist, None)
    if not isinstance(found, stats.rv_continuous) or not is_scipys_own(found):
        raise ValueError(f"scipy.stats has no continuous distribution {dist!r}.")
    return cls(found, *shapes, loc=loc, scale=scale)


@saved(
    "Quantile",
    read=_read,
    build=_build,
    dist=Text(),
    shapes=Many(Numbers(infinite=True)),
    loc=Numbers(),
    scale=Numbers(),
)
class Quantile(Univariate):
    """A measure on the line known by the functions of a continuous scipy.stats distribution; see `from_scipy`.

    The score is a fourth-order central difference of the log density, good to about 1e-9 of its size where
    the density is smooth. Far tails are as accurate as the distribution's own cdf, sf, ppf and isf.

    Parameters
    ----------
    dist : a continuous distribution of scipy.stats, not frozen.
    shapes, loc, scale : its parameters, each (...) or (..., 1), or a scalar.
    """

    def __init__(self, dist: Any, *shapes: npt.ArrayLike, loc: npt.ArrayLike, scale: npt.ArrayLike) -> None:
        names = [f"shape_{i}" for i in range(len(shapes))] + ["loc", "scale"]
        given = (np.asarray(a, dtype=np.float64) for a in (*shapes, loc, scale))
        values = columns(f"Quantile({dist.name})", **dict(zip(names, given, strict=True)))
        self._dist, self._parameters = dist, dict(zip(names, values, strict=True))
        if not np.all(dist._argcheck(*values[:-2]) & (values[-1] > 0)):
            raise ValueError(
                f"scipy.stats.{dist.name} refuses its parameters, "
                f"shapes {[np.ravel(a) for a in values[:-2]]} and scale {np.ravel(values[-1])}."
            )

    def parameters(self) -> dict[str, Array]:
        return self._parameters

    def equals(self, other: Measure) -> bool:
        if self is other or not isinstance(other, Quantile):
            return self is other
        # freezing copies the distribution; one of scipy's own classes is known by its type, others may hold data
        same = type(self._dist) is type(other._dist) and is_scipys_own(self._dist)
        return same and super().equals(other)

    @property
    def has_smooth_density(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"Quantile({self._dist.name}, batch_shape={self.batch_shape})"

    @property
    def support(self) -> tuple[Array, Array]:
        lower, upper = self._dist.support(*self._args)
        shape = (*self.batch_shape, 1)
        return np.broadcast_to(lower, shape), np.broadcast_to(upper, shape)

    @property
    def _args(self) -> tuple[Array, ...]:
        return tuple(self._parameters.values())

    def _rebuild(self, parameters: dict[str, Array]) -> Self:
        *shapes, loc, scale = parameters.values()
        return type(self)(self._dist, *shapes, loc=loc, scale=scale)

    def _mean_and_variance(self) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            mean, variance = (np.asarray(a, dtype=float) for a in self._dist.stats(*self._args, moments="mv"))
        if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(variance))):
            raise ValueError(f"scipy.stats.{self._dist.name} has no finite mean and variance at its parameters.")
        return mean, variance

    def _log_density(self, y: Array) -> Array:
        return self._call("logpdf", y)

    def _slope(self, y: Array) -> Array:
        lower, upper = self.support
        median, spread = self._ppf(np.full(1, 0.5)), self._isf(np.full(1, 0.25)) - self._ppf(np.full(1, 0.25))
        scale = np.minimum(np.maximum(spread, np.abs(y - median)), np.minimum(y - lower, upper - y))
        return central_difference(self._log_density, y, 1e-3 * scale)

    def _cdf(self, y: Array) -> Array:
        return self._call("cdf", y)

    def _sf(self, y: Array) -> Array:
        return self._call("sf", y)

    def _ppf(self, q: Array) -> Array:
        return self._polish(self._call("ppf", q), q, "cdf", -1.0)

    def _isf(self, q: Array) -> Array:
        return self._polish(self._call("isf", q), q, "sf", 1.0)

    def _call(self, name: str, argument: Array) -> Array:
        with np.errstate(all="ignore"):  # many scipy formulas pass through log(0) on their way
            return np.asarray(getattr(self._dist, name)(argument, *self._args), dtype=np.float64)

    def _polish(self, y: Array, q: Array, tail: str, sign: float) -> Array:
        """Newton steps on the logarithm of the tail: generic scipy quantiles stop at 1e-8 or lose a tail."""
        for _ in range(2):
            reached, p = self._call(tail, y), np.exp(self._call("logpdf", y))
            with np.errstate(all="ignore"):
                better = y + sign * np.log(reached / q) * reached / p
            fine = np.isfinite(better) & (np.abs(better - y) < 1e-3 * np.abs(y))
            y = np.where(fine, better, y)
        return y


def is_scipys_own(dist: Any) -> bool:
    """Whether dist is one of scipy's, rather than a user's with the same name."""
    return type(dist).__module__ == "scipy.stats._continuous_distns"
