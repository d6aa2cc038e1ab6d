from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincc, betainccinv, betaincinv

from cbq._arrays import Array, finite, positive
from cbq.io import Numbers, saved
from cbq.measures.base import Measure
from cbq.measures.gamma import stirling
from cbq.measures.univariate import Univariate, columns


@saved("StudentT", df=Numbers(), loc=Numbers(), scale=Numbers())
class StudentT(Univariate):
    """Student's t measure on the line: loc + scale t, where t has `df` degrees of freedom.

    Parameters
    ----------
    df, loc, scale : (...) or (..., 1), or scalars; df and scale are positive.
    """

    df: Array  # (*batch_shape, 1)
    loc: Array  # (*batch_shape, 1)
    scale: Array  # (*batch_shape, 1)

    def __init__(self, df: npt.ArrayLike, loc: npt.ArrayLike, scale: npt.ArrayLike) -> None:
        self.df, self.loc, self.scale = columns(
            "StudentT", df=positive(df, "df"), loc=finite(loc, "loc"), scale=positive(scale, "scale")
        )

    def translated(self, shift: Array) -> Measure:
        return StudentT(self.df, self.loc + shift, self.scale)

    def _mean_and_variance(self) -> tuple[Array, Array]:
        smallest = np.min(self.df, initial=np.inf)
        if smallest <= 2:
            missing = "mean and no covariance: they need df > 1 and" if smallest <= 1 else "covariance: it needs"
            raise ValueError(
                f"StudentT with df = {smallest:g} has no {missing} df > 2. "
                f"Use its median `loc` and its quantiles (`transport`) instead."
            )
        return self.loc, self.scale**2 * (self.df / (self.df - 2))

    def _log_density(self, y: Array) -> Array:
        r = np.abs(self._ratio(y))
        small, large = np.minimum(r, 1), np.maximum(r, 1)
        # log(1 + r^2), without overflow for large r and without loss of digits for small r
        log_base = np.where(r < 1, np.log1p(small * small), 2 * np.log(large) + np.log1p((1 / large) ** 2))
        return np.asarray(-(self.df + 1) / 2 * log_base + self._log_peak())

    def _log_peak(self) -> Array:
        # log Gamma(a + 1/2) - log Gamma(a) with a = df / 2; `stirling` avoids the cancellation for large a
        a = self.df / 2
        ratio = a * np.log1p(0.5 / a) + 0.5 * np.log(a + 0.5) - 0.5 - stirling(a + 0.5) + stirling(a)
        return np.asarray(ratio - 0.5 * np.log(np.pi * self.df) - np.log(self.scale))

    def _slope(self, y: Array) -> Array:
        r = self._ratio(y)
        large = np.where(np.abs(r) > 1, r, 1)
        bend = np.where(np.abs(r) > 1, 1 / (large + 1 / large), r / (1 + np.minimum(np.abs(r), 1) ** 2))
        return np.asarray(-(self.df + 1) / np.sqrt(self.df) / self.scale * bend)

    def _cdf(self, y: Array) -> Array:
        return self._below(self._ratio(y))

    def _sf(self, y: Array) -> Array:
        return self._below(-self._ratio(y))

    def _ppf(self, q: Array) -> Array:
        return self.loc + self.scale * np.sqrt(self.df) * self._quantile(q)

    def _isf(self, q: Array) -> Array:
        return self.loc - self.scale * np.sqrt(self.df) * self._quantile(q)

    def _ratio(self, y: Array) -> Array:
        """t / sqrt(df), in terms of which the tail probabilities are incomplete beta functions."""
        return np.asarray((y - self.loc) / self.scale / np.sqrt(self.df))

    def _below(self, r: Array) -> Array:
        """P(t / sqrt(df) < r), from an incomplete beta function of r^2 / (1 + r^2), or of its complement."""
        large = np.maximum(np.abs(r), 1)
        small = np.minimum(np.abs(r), 1) ** 2
        with np.errstate(under="ignore", over="ignore"):
            far = betainc(self.df / 2, 0.5, 1 / (1 + large * large))
        near = betaincc(0.5, self.df / 2, small / (1 + small))
        tail = 0.5 * np.where(np.abs(r) > 1, far, near)
        return np.asarray(np.where(r < 0, tail, 1 - tail))

    def _quantile(self, q: Array) -> Array:
        """The r with P(t / sqrt(df) < r) = q."""
        tail = 2 * np.minimum(q, 1 - q)
        near = np.asarray(betainccinv(0.5, self.df / 2, tail))
        far = np.asarray(betaincinv(self.df / 2, 0.5, tail))
        with np.errstate(divide="ignore", over="ignore"):  # the quantiles at q = 0 and q = 1 are infinite
            squared = np.where(near < 0.5, near / (1 - np.minimum(near, 0.5)), 1 / far - 1)
        return np.where(q < 0.5, -1.0, 1.0) * np.sqrt(np.maximum(squared, 0))
