from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from cbq._arrays import Array
from cbq.io import Instance, saved
from cbq.measures.base import Measure
from cbq.measures.from_scipy import as_measure

# Below exp(FLOOR) a measure with a density near zero is continued as a power law, above exp(CEILING) held.
FLOOR, CEILING = -650.0, 700.0


@saved("LogMeasure", measure=Instance(Measure))
class LogMeasure(Measure):
    """The image of a measure under the logarithm: the measure of y = log x for x ~ `measure`.

    Parameters
    ----------
    measure : a one-dimensional measure on (0, inf), or a frozen scipy.stats distribution.
    """

    measure: Measure  # the measure of x = exp(y)

    def __init__(self, measure: Any) -> None:
        self.measure = as_measure(measure)
        if self.measure.dim != 1:
            raise ValueError(f"LogMeasure takes one-dimensional measures, but {self.measure!r} arrived.")
        lower = self.measure.support[0]
        if np.any(lower < 0):
            raise ValueError(
                f"LogMeasure takes measures of positive x, but the support of {self.measure!r} begins at {np.min(lower):g}."
            )

    @property
    def dim(self) -> int:
        return 1

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.measure.batch_shape

    def parameters(self) -> dict[str, Array]:
        """The parameters of the measure of x."""
        return self.measure.parameters()

    def __getitem__(self, index: Any) -> LogMeasure:
        return LogMeasure(self.measure[index])

    def __repr__(self) -> str:
        return f"LogMeasure({self.measure!r})"

    def moments(self) -> tuple[Array, Array]:
        # over the normal coordinate, where log quantiles are smooth; panels reach where the weight is 1e-19
        nodes, weights = np.polynomial.legendre.leggauss(40)
        v = (np.arange(-9, 9, 1.5)[:, None] + 0.75 * (1 + nodes)).ravel()
        w = np.tile(0.75 * weights, 12) * np.exp(-0.5 * v * v)
        w = w / np.sum(w)
        y = self._from_normal(v[:, None])[..., 0]
        mean = np.sum(w * y, axis=-1, keepdims=True)
        return mean, np.sum(w * (y - mean) ** 2, axis=-1)[..., None, None]

    @property
    def support(self) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            lower, upper = (np.log(end) for end in self.measure.support)
        return lower, upper

    def equals(self, other: Measure) -> bool:
        return isinstance(other, LogMeasure) and self.measure.equals(other.measure)

    @property
    def has_smooth_density(self) -> bool:
        return self.measure.has_smooth_density

    def conditional(self, head: Array) -> Measure:
        return LogMeasure(self.measure.conditional(head))

    def _logpdf(self, y: Array) -> Array:
        inside = np.clip(y, FLOOR, CEILING)
        bulk = self.measure._logpdf(np.exp(inside)) + inside[..., 0]
        return np.where(y[..., 0] < FLOOR, bulk + self._power() * (y - FLOOR)[..., 0], bulk)

    def _score(self, y: Array) -> Array:
        x = np.exp(np.clip(y, FLOOR, CEILING))
        power = self._power()[..., None]
        return np.where(y < FLOOR, power, self.measure._score(x) * x + 1)

    def _from_normal(self, v: Array) -> Array:
        x = self.measure._from_normal(v)
        with np.errstate(divide="ignore"):  # the lower end of the support
            y = np.log(x)
        power = self._power()[..., None]
        below = x < np.exp(FLOOR)
        if not np.any(below & (power > 0)):
            return y
        with np.errstate(divide="ignore", invalid="ignore"):
            far = FLOOR + (log_ndtr(v) - self._log_floor()) / power
        return np.where(below & (power > 0), far, y)

    def _to_normal(self, y: Array) -> Array:
        bulk = self.measure._to_normal(np.exp(np.clip(y, FLOOR, CEILING)))
        if not np.any(y < FLOOR):
            return bulk
        with np.errstate(invalid="ignore"):
            far = self._log_floor() + self._power()[..., None] * (y - FLOOR)
        return np.where(y < FLOOR, ndtri_exp(np.where(np.isnan(far), -np.inf, far)), bulk)

    def _log_floor(self) -> Array:
        """log P(y < FLOOR): shape (*batch_shape, 1, 1)."""
        return np.asarray(log_ndtr(self.measure._to_normal(np.full((1, 1), np.exp(FLOOR)))))

    def _power(self) -> Array:
        """The exponent a of P(X < x) ~ x^a at zero, as x p(x) / P(X < x) at exp(FLOOR): (*batch_shape, 1)."""
        log_p = self.measure._logpdf(np.full((1, 1), np.exp(FLOOR)))
        log_floor = self._log_floor()[..., 0]
        known = np.isfinite(log_floor)
        ratio = np.exp(np.where(known, log_p + FLOOR, -np.inf) - np.where(known, log_floor, 0.0))
        return np.asarray(ratio)
