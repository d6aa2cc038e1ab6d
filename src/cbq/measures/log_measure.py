from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from cbq.common import Array
from cbq.io import Instance, saved
from cbq.measures.base import Measure, measure_argument

# Between these limits exp(y) is a normal float64. Below MIN_LOG_X, P(X < x) is continued as a power x^a. Above
# MAX_LOG_X, the density is evaluated at MAX_LOG_X.
MIN_LOG_X, MAX_LOG_X = -650.0, 700.0


@saved("LogMeasure", measure=Instance(Measure))
class LogMeasure(Measure):
    """The measure of y = log x, for x ~ `measure`.

    Parameters
    ----------
    measure : a one-dimensional measure on (0, inf), or a frozen scipy.stats distribution.

    Examples
    --------
    >>> of_log = cbq.measures.LogMeasure(cbq.measures.Gamma(2.0, 1.0))
    >>> bool(of_log.moments()[0][0] < np.log(2.0))  # E log x < log E x
    True
    """

    measure: Measure  # of x = exp(y)

    # A density that falls like a power of x falls exponentially in log x.
    has_heavy_tails = False

    def __init__(self, measure: Any) -> None:
        self.measure = measure_argument(measure, "measure")
        self._parts = (self.measure,)
        if self.measure.has_atoms:
            raise TypeError(
                f"the measure of LogMeasure must be continuous, but {self.measure!r} has atoms: pass their logarithms."
            )
        if self.measure.dim != 1:
            raise ValueError(f"the measure of LogMeasure must be one-dimensional, but it is {self.measure!r}.")
        lower = self.measure.support[0]
        if np.any(lower < 0):
            start = f"the support of {self.measure!r} begins at {np.min(lower):g}"
            raise ValueError(f"the measure of LogMeasure must be of positive x, but {start}: pass another measure.")

    @property
    def dim(self) -> int:
        return 1

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.measure.batch_shape

    def parameters(self) -> dict[str, Array]:
        return self.measure.parameters()

    def __getitem__(self, index: Any) -> LogMeasure:
        return LogMeasure(self.measure[index])

    def __repr__(self) -> str:
        return f"LogMeasure({self.measure!r})"

    def moments(self) -> tuple[Array, Array]:
        # Integrate over the normal coordinate, in which y is smooth; the panels end where its density is 1e-18.
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

    @property
    def has_smooth_density(self) -> bool:
        return self.measure.has_smooth_density

    def _logpdf(self, y: Array) -> Array:
        inside = np.clip(y, MIN_LOG_X, MAX_LOG_X)
        bulk = self.measure._logpdf(np.exp(inside)) + inside[..., 0]
        if not np.any(y < MIN_LOG_X):
            return bulk
        return np.where(y[..., 0] < MIN_LOG_X, bulk + self._power() * (y - MIN_LOG_X)[..., 0], bulk)

    def _score(self, y: Array) -> Array:
        x = np.exp(np.clip(y, MIN_LOG_X, MAX_LOG_X))
        power = self._power()[..., None]
        return np.where(y < MIN_LOG_X, power, self.measure._score(x) * x + 1)

    def _from_normal(self, v: Array) -> Array:
        x = self.measure._from_normal(v)
        with np.errstate(divide="ignore"):  # at the lower end of the support
            y = np.log(x)
        power = self._power()[..., None]
        below = x < np.exp(MIN_LOG_X)
        if not np.any(below & (power > 0)):
            return y
        with np.errstate(divide="ignore", invalid="ignore"):
            far = MIN_LOG_X + (log_ndtr(v) - self._log_mass_below()) / power
        return np.where(below & (power > 0), far, y)

    def _to_normal(self, y: Array) -> Array:
        bulk = self.measure._to_normal(np.exp(np.clip(y, MIN_LOG_X, MAX_LOG_X)))
        if not np.any(y < MIN_LOG_X):
            return bulk
        with np.errstate(invalid="ignore"):
            far = self._log_mass_below() + self._power()[..., None] * (y - MIN_LOG_X)
        return np.where(y < MIN_LOG_X, ndtri_exp(np.where(np.isnan(far), -np.inf, far)), bulk)

    def _log_mass_below(self) -> Array:
        """log P(y < MIN_LOG_X): shape (*batch_shape, 1, 1)."""
        return np.asarray(log_ndtr(self.measure._to_normal(np.full((1, 1), np.exp(MIN_LOG_X)))))

    def _power(self) -> Array:
        """The exponent a of P(X < x) ~ x^a near 0, from x p(x) / P(X < x) at exp(MIN_LOG_X): (*batch_shape, 1)."""
        log_p = self.measure._logpdf(np.full((1, 1), np.exp(MIN_LOG_X)))
        log_below = self._log_mass_below()[..., 0]
        known = np.isfinite(log_below)
        return np.asarray(np.exp(np.where(known, log_p + MIN_LOG_X, -np.inf) - np.where(known, log_below, 0.0)))
