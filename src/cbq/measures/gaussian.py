"""The Gaussian measure, and the measure of the exponential of a Gaussian."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from cbq.common import Array, broadcast_batch, require_memory
from cbq.io import Numbers, saved
from cbq.linalg.lapack import cholesky, solve_lower, solve_upper
from cbq.measures.base import Measure, in_brief, parameter, positive_parameter, require_coordinates


@saved("Gaussian", mean=Numbers(), cov=Numbers())
class Gaussian(Measure):
    """The Gaussian measure N(mean, cov) on R^d; `Normal` is another name for it.

    `Gaussian(0.0, std=2.0)` is the same as `Gaussian(0.0, cov=4.0)`. A bare second argument is `cov`, and deprecated
    where it could be mistaken for a standard deviation.

    Parameters
    ----------
    mean : (..., d), or a scalar for d = 1.
    cov : full covariance (..., d, d), diagonal (..., d), or a scalar variance.
    std : instead of cov, the standard deviations (..., d) of independent coordinates, or a scalar.

    Examples
    --------
    >>> measure = cbq.measures.Gaussian([0.0, 1.0], cov=[[1.0, 0.6], [0.6, 2.0]])
    >>> measure.dim, measure.is_diagonal
    (2, False)
    """

    _spellings = ("bare", "std")
    mean: Array  # (*batch_shape, d)
    cov: Array  # (*batch_shape, d, d)
    cholesky: Array  # (*batch_shape, d, d), lower triangular: x = mean + cholesky v for standard normal v
    is_diagonal: bool

    def __init__(
        self,
        mean: npt.ArrayLike,
        *bare: npt.ArrayLike,
        cov: npt.ArrayLike | None = None,
        std: npt.ArrayLike | None = None,
    ) -> None:
        mean = np.atleast_1d(parameter(mean, "mean"))
        require_coordinates(mean, "mean")
        full = _full_covariance(_covariance(type(self).__name__, mean, bare, cov, std), mean)
        d = mean.shape[-1]
        batch = broadcast_batch({"mean": mean.shape[:-1], "cov": full.shape[:-2]}, "Gaussian")
        self.mean = np.broadcast_to(mean, (*batch, d))
        self.cov = np.broadcast_to(full, (*batch, d, d))
        self.cholesky = np.broadcast_to(cholesky(full), (*batch, d, d))
        self.is_diagonal = bool(np.all(full[..., ~np.eye(d, dtype=bool)] == 0))

    def moments(self) -> tuple[Array, Array]:
        return self.mean, self.cov

    def translated(self, shift: Array) -> Measure:
        return Gaussian(self.mean + shift, cov=self.cov)

    def factors(self) -> tuple[Measure, ...]:
        if self.dim == 1 or not self.is_diagonal:
            return (self,)
        return tuple(self._marginal(j) for j in range(self.dim))

    def _marginal(self, j: int) -> Measure:
        return Gaussian(self.mean[..., j : j + 1], cov=self.cov[..., j : j + 1, j : j + 1])

    def conditional(self, head: Array) -> Measure:
        # x_j | x_<j = mean_j + L_j,<j v_<j + L_jj v_j, with v_<j = L_<j^-1 (x_<j - mean_<j)
        j = head.shape[-1]
        L = self.cholesky[..., None, :, :]
        v = solve_lower(L[..., :j, :j], head - self.mean[..., None, :j])
        mean = self.mean[..., None, j] + np.sum(L[..., j, :j] * v, axis=-1)
        return Gaussian(mean[..., None], cov=L[..., j, j, None, None] ** 2)

    def _marginals(self, which: list[int]) -> Measure:
        return Gaussian(self.mean[..., which], cov=self.cov[..., which, :][..., which])

    def _given(self, which: list[int], x: Array) -> Measure:
        # With L L' = S_aa and H = S_ba L^-T: x_b | x_a ~ N(m_b + H L^-1 (x_a - m_a), S_bb - H H')
        rest = [j for j in range(self.dim) if j not in which]
        L = cholesky(self.cov[..., which, :][..., which])[..., None, :, :]
        H = solve_lower(L, self.cov[..., rest, :][..., which])
        v = solve_lower(L[..., 0, :, :], x - self.mean[..., which])
        mean = self.mean[..., rest] + np.sum(H * v[..., None, :], axis=-1)
        cov = self.cov[..., rest, :][..., rest] - H @ np.swapaxes(H, -1, -2)
        return Gaussian(mean, cov=cov[(None,) * (mean.ndim + 1 - cov.ndim)])

    def _logpdf(self, x: Array) -> Array:
        v = self._to_normal(x)
        log_det = np.sum(np.log(np.diagonal(self.cholesky, axis1=-2, axis2=-1)), axis=-1)
        log_norm = log_det[..., None] + 0.5 * self.dim * np.log(2 * np.pi)
        # The result is -inf where the density is too small for float64.
        with np.errstate(over="ignore"):
            return np.asarray(-0.5 * np.sum(v * v, axis=-1) - log_norm)

    def _score(self, x: Array) -> Array:
        return -solve_upper(self.cholesky[..., None, :, :], self._to_normal(x))

    def _from_normal(self, v: Array) -> Array:
        if self.dim > 1:
            self._require_interior(v)
        return self.mean[..., None, :] + v @ np.swapaxes(self.cholesky, -1, -2)

    def _to_normal(self, x: Array) -> Array:
        return solve_lower(self.cholesky[..., None, :, :], x - self.mean[..., None, :])


@saved("LogNormal", read=lambda measure: measure.parameters(), mean=Numbers(), cov=Numbers())
class LogNormal(Measure):
    """The measure of x = exp(y) with y ~ N(mean, cov), on the positive orthant of R^d.

    The parameters describe log x, not x: the median of x is exp(mean), and its mean exp(mean + std^2 / 2).

    Parameters
    ----------
    mean : the mean of log x, (..., d), or a scalar for d = 1.
    cov, std : the covariance of log x or, instead, its standard deviations, with shapes as for `Gaussian`.

    Examples
    --------
    >>> measure = cbq.measures.LogNormal(np.log(3.0), cov=0.04)  # median 3, known to about 20%
    >>> measure.transport([0.5]).round(6)
    array([[3.]])
    """

    _ends = (0.0, np.inf)
    log: Gaussian  # the measure of log x

    def __init__(
        self,
        mean: npt.ArrayLike,
        *bare: npt.ArrayLike,
        cov: npt.ArrayLike | None = None,
        std: npt.ArrayLike | None = None,
    ) -> None:
        mean = np.atleast_1d(parameter(mean, "mean"))
        require_coordinates(mean, "mean")
        self.log = Gaussian(mean, cov=_covariance(type(self).__name__, mean, bare, cov, std))

    def parameters(self) -> dict[str, Array]:
        return self.log.parameters()

    def moments(self) -> tuple[Array, Array]:
        mean = np.exp(self.log.mean + 0.5 * np.diagonal(self.log.cov, axis1=-2, axis2=-1))
        return mean, mean[..., :, None] * mean[..., None, :] * np.expm1(self.log.cov)

    def factors(self) -> tuple[Measure, ...]:
        return tuple(LogNormal(**block.parameters()) for block in self.log.factors())

    def _marginal(self, j: int) -> Measure:
        return LogNormal(**self.log._marginal(j).parameters())

    def conditional(self, head: Array) -> Measure:
        return LogNormal(**self.log.conditional(_floored_log(head)).parameters())

    def _marginals(self, which: list[int]) -> Measure:
        return LogNormal(**self.log._marginals(which).parameters())

    def _given(self, which: list[int], x: Array) -> Measure:
        return LogNormal(**self.log._given(which, _floored_log(x)).parameters())

    def _logpdf(self, x: Array) -> Array:
        y = _floored_log(x)
        inside = np.all(x > 0, axis=-1)
        return np.where(inside, self.log._logpdf(y) - np.sum(y, axis=-1), -np.inf)

    def _score(self, x: Array) -> Array:
        self._require_density(np.all(x > 0, axis=-1))
        with np.errstate(over="ignore"):
            return np.asarray((self.log._score(np.log(x)) - 1) / x)

    def _from_normal(self, v: Array) -> Array:
        # The result is inf where x exceeds the largest float64.
        with np.errstate(over="ignore"):
            return np.exp(self.log._from_normal(v))

    def _to_normal(self, x: Array) -> Array:
        if self.dim > 1 and np.any(x <= 0):
            raise ValueError(
                f"inverse_transport of a LogNormal: x must be positive, but its smallest value is {np.min(x):g}."
            )
        return np.where(x > 0, self.log._to_normal(_floored_log(x)), -np.inf)


def _covariance(
    owner: str,
    mean: Array,
    bare: tuple[npt.ArrayLike, ...],
    cov: npt.ArrayLike | None,
    std: npt.ArrayLike | None,
) -> Array:
    """The covariance from the constructor arguments of `owner`: cov, std or a bare second argument."""
    given = {"cov": cov, "std": std} | {f"positional argument {i}": value for i, value in enumerate(bare, start=2)}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        arrived = " and ".join(names) if names else "none"
        wanted = f"{owner}(mean, std=...) or {owner}(mean, cov=...)"
        raise TypeError(f"{owner} takes one of cov and std, but it was given {arrived}: write {wanted}.")
    if std is not None:
        return _variances(positive_parameter(std, "std"), mean)
    if cov is not None:
        return parameter(cov, "cov")
    bare_cov = parameter(bare[0], "cov")
    # Errors of the covariance come before the warning.
    d, full = mean.shape[-1], _full_covariance(bare_cov, mean)
    is_matrix = bare_cov.ndim >= 2 and bare_cov.shape[-2:] == (d, d)
    if not is_matrix and np.any(bare_cov != 1) and np.all(np.diagonal(full, axis1=-2, axis2=-1) > 0):
        _warn_of_bare(owner, bare_cov)
    return bare_cov


def _variances(std: Array, mean: Array) -> Array:
    """The cov for standard deviations (..., d), or a scalar; in a batch, full matrices, so that it is not ambiguous."""
    d = mean.shape[-1]
    if std.ndim and std.shape[-1] != d:
        wanted = f"a scalar or an array (..., {d}), with one for each coordinate"
        raise ValueError(f"std has shape {std.shape}, but for a mean of shape {mean.shape} it must be {wanted}.")
    if std.ndim < 2:
        return np.asarray(std**2)
    require_memory(std.size * d, f"the covariances for a std of shape {std.shape}", "pass a mean of fewer dimensions")
    full = (std**2)[..., None] * np.eye(d)
    return np.asarray(full[(None,) * max(mean.ndim - std.ndim, 0)])


def _warn_of_bare(owner: str, cov: Array) -> None:
    """Warn, at the line that called the constructor, that its second argument may be meant as a standard deviation."""
    value, root = in_brief(cov, 0), in_brief(np.sqrt(cov), 0)
    if cov.ndim > 1 or cov.size > 4:
        value, root = "c", "numpy.sqrt(c)"
    warnings.warn(
        f"{owner}(mean, {value}) takes its second argument as a variance, not as a standard deviation, and will "
        f"not be accepted without a name: write {owner}(mean, cov={value}) or {owner}(mean, std={root}), which are the "
        f"same, or std={value} if that is meant.",
        DeprecationWarning,
        stacklevel=4,
    )


def _full_covariance(cov: Array, mean: Array) -> Array:
    """The covariance (..., d, d) for a `cov` given as a scalar, diagonal or full, with a mean (..., d)."""
    d = mean.shape[-1]
    require_memory(d * max(cov.size, d), f"the covariance for a mean in {d} dimensions", "pass a mean of fewer")
    if cov.ndim == 0:
        full = cov * np.eye(d)
    elif cov.ndim >= 2 and cov.shape[-2:] == (d, d):
        if d > 1 and cov.ndim == mean.ndim:
            raise ValueError(
                f"cov of shape {cov.shape} is ambiguous for a batch of {d} means in {d} dimensions: pass cov[None] for "
                f"one full matrix shared by all means, or one matrix per mean, of shape ({d}, {d}, {d})."
            )
        full = cov
    elif cov.shape[-1] == d:
        full = cov[..., None] * np.eye(d)
    else:
        wanted = f"a scalar variance, a diagonal (..., {d}) or a full matrix (..., {d}, {d})"
        raise ValueError(f"cov has shape {cov.shape}, but for a mean of shape {mean.shape} it must be {wanted}.")
    scale = np.max(np.abs(full), axis=(-2, -1), keepdims=True)
    if np.any(np.abs(full - np.swapaxes(full, -1, -2)) > 1e-10 * scale):
        raise ValueError("cov must be symmetric, but it differs from its transpose: pass (cov + cov.T) / 2.")
    return 0.5 * (full + np.swapaxes(full, -1, -2))


def _floored_log(x: Array) -> Array:
    """log x, with x <= 0 replaced by the smallest positive float64."""
    return np.log(np.maximum(x, np.finfo(float).smallest_subnormal))
