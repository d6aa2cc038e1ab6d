from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array
from cbq.io import Numbers, saved
from cbq.measures.base import Measure
from cbq.measures.gaussian import Gaussian
from cbq.measures.univariate import refuse_score


@saved("LogNormal", read=lambda measure: measure.parameters(), mean=Numbers(), cov=Numbers())
class LogNormal(Measure):
    """The measure of x = exp(y) with y ~ N(mean, cov), on the positive orthant of R^d.

    Parameters
    ----------
    mean, cov : mean and covariance of log x, with the shapes that `Gaussian` takes.
    """

    log: Gaussian  # the measure of log x

    def __init__(self, mean: npt.ArrayLike, cov: npt.ArrayLike) -> None:
        self.log = Gaussian(mean, cov)

    @property
    def dim(self) -> int:
        return self.log.dim

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.log.batch_shape

    def parameters(self) -> dict[str, Array]:
        return self.log.parameters()

    def moments(self) -> tuple[Array, Array]:
        mean = np.exp(self.log.mean + 0.5 * np.diagonal(self.log.cov, axis1=-2, axis2=-1))
        return mean, mean[..., :, None] * mean[..., None, :] * np.expm1(self.log.cov)

    @property
    def support(self) -> tuple[Array, Array]:
        shape = (*self.batch_shape, self.dim)
        return np.zeros(shape), np.full(shape, np.inf)

    def factors(self) -> tuple[Measure, ...]:
        blocks = (block.parameters() for block in self.log.factors())
        return tuple(LogNormal(**block) for block in blocks)

    def marginal(self, j: int) -> Measure:
        return LogNormal(**self.log.marginal(j).parameters())

    def conditional(self, head: Array) -> Measure:
        return LogNormal(**self.log.conditional(floored_log(head)).parameters())

    def _logpdf(self, x: Array) -> Array:
        y = floored_log(x)
        inside = np.all(x > 0, axis=-1)
        return np.where(inside, self.log._logpdf(y) - np.sum(y, axis=-1), -np.inf)

    def _score(self, x: Array) -> Array:
        refuse_score(self, np.all(x > 0, axis=-1))
        return (self.log._score(np.log(x)) - 1) / x

    def _from_normal(self, v: Array) -> Array:
        with np.errstate(over="ignore"):  # beyond the largest double the answer is inf
            return np.exp(self.log._from_normal(v))

    def _to_normal(self, x: Array) -> Array:
        if self.dim > 1 and np.any(x <= 0):
            raise ValueError(
                f"LogNormal: x must be positive to be mapped back in {self.dim} dimensions, but its smallest "
                f"value is {np.min(x):g}."
            )
        return np.where(x > 0, self.log._to_normal(floored_log(x)), -np.inf)


def floored_log(x: Array) -> Array:
    """log x, and the log of the smallest double where x <= 0."""
    return np.log(np.maximum(x, np.finfo(float).smallest_subnormal))
