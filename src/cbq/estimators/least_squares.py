"""Least-squares Monte Carlo: a polynomial in theta, or kernel ridge regression, through the plain averages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from math import comb
from typing import Any

import numpy as np

from cbq.common import Array, Executor, Immutable, are_numbers, check_fields, evenly, is_whole, require_memory, shown
from cbq.estimators.base import Compared, Estimator, estimator, settings
from cbq.estimators.monte_carlo import averages
from cbq.estimators.smoothing import (
    LEAST_LEVERAGE,
    SmoothedFit,
    Smoother,
    check_penalties,
    in_units,
    saved_curves,
    validation_errors,
)
from cbq.fit import Finding, on_one_line
from cbq.gp import KernelFamily, Process, Spectral, ThetaCoordinates, polynomial_basis
from cbq.io import Instance, Integer, Number
from cbq.kernels import RBF, Kernel, Matern
from cbq.linalg import Jitter, factor_gram
from cbq.linalg.lapack import thin_svd
from cbq.samples import Samples


@estimator("lsmc", title="least-squares Monte Carlo", order=40, compared=[Compared("LSMC")])
@dataclass(frozen=True)
class LSMC(Estimator["LSMCFit"]):
    """Least-squares Monte Carlo: a regression of the averages of f at each theta on polynomials in theta.

    The curve has all monomials of the coordinates of theta up to a total degree. It minimises the mean squared
    residual plus ridge |b|^2, with b the coefficients of all monomials but the constant, each monomial in units of its
    spread over the thetas. All averages count equally, whatever their N_t. Those of points
    from a proposal q in place of the measure p are unbiased means of w f, w = p / q.

    Degree and ridge, where they are not given, minimise the squared leave-one-out error over thetas, which is exact and
    needs no refitting: the residual over one less the leverage. Each output chooses for itself.

    Parameters
    ----------
    degree : the total degree; None to choose from 1 to `largest`, of those with fewer monomials than there are
        thetas. Where not even degree 1 has fewer, the curve is a constant.
    ridge : the penalty; None to choose one of `ridges`.
    largest : the largest degree to choose from: higher ones oscillate between the thetas.
    ridges : the penalties to choose from. The stiffest comes first, as it wins where all are equally good.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> cbq.LSMC(degree=2).fit(samples).predict([90.0, 100.0]).shape
    (2,)
    """

    needs_measure = False

    degree: int | None = None
    ridge: float | None = None
    largest: int = 4
    ridges: tuple[float, ...] = (*(10.0**k for k in range(2, -7, -1)), 0.0)

    def __post_init__(self) -> None:
        if self.degree is not None and not is_whole(self.degree, 0):
            raise ValueError(
                f"degree must be a whole number, 0 or more, or None to choose it, but it is {shown(self.degree)}."
            )
        check_penalties(self)
        if not is_whole(self.largest, 1):
            raise ValueError(f"largest must be a degree, 1 or more, but it is {shown(self.largest)}.")

    def _fit(self, samples: Samples, pool: Executor | None) -> LSMCFit:
        found = averages(samples)
        monomials = [Monomials(found.theta, degree) for degree in self._degrees(found.theta)]
        curves = [Polynomial(m, ridge) for m in monomials for ridge in self._ridges(m)]
        y = in_units(found.mean)
        errors = np.stack([validation_errors(curve.leave_one_out(y)) for curve in curves])
        return LSMCFit(
            found,
            [curves[best] for best in np.argmin(errors, axis=0)],
            design=samples.design,
            single=samples.C is None,
            settings=settings(self),
            findings=self._findings(found.theta, monomials[-1].degree),
        )

    def _degrees(self, theta: Array) -> list[int]:
        T, p = theta.shape
        if self.degree is not None:
            if comb(p + self.degree, p) > T:
                raise ValueError(
                    f"a polynomial of degree {self.degree} in p = {p} coordinates has {comb(p + self.degree, p)} "
                    f"monomials, but there are T = {T} thetas: take a lower degree, or more thetas."
                )
            return [int(self.degree)]
        allowed = list(takewhile(lambda k: comb(p + k, p) < T, range(1, self.largest + 1)))
        ranks = [Monomials(theta, k).rank for k in [0, *allowed]]
        return [k for k in allowed if ranks[k] > ranks[k - 1]] or [0]  # equal thetas do not identify higher ones

    def _ridges(self, monomials: Monomials) -> tuple[float, ...]:
        if self.ridge is not None:
            return (float(self.ridge),)
        return self.ridges if monomials.degree > 0 else (0.0,)

    def _findings(self, theta: Array, largest: int) -> list[Finding]:
        if self.degree is not None or largest > 0:
            return []
        T, p = theta.shape
        text = f"{T} theta{'s' * (T > 1)} with p = {p} allow no polynomial but a constant: the mean of all averages."
        return [Finding("few thetas", text)]


class Monomials(Immutable):
    """The monomials of T standardised thetas up to a degree except the constant, centred and in units of their spread.

    U (T, r), s (r,): their left singular vectors and singular values, without those that are zero up to rounding.
    """

    def __init__(self, theta: Array, degree: int) -> None:
        self.degree = degree
        self._coordinates = ThetaCoordinates.standard(theta, np.zeros(theta.shape[1], dtype=bool))
        raw = polynomial_basis(self._coordinates(theta), degree)[:, 1:]
        self._centre = np.mean(raw, axis=0)
        spread = np.std(raw, axis=0)
        self._unit = np.where(spread > 0, spread, 1.0)
        U, s, Vt = thin_svd((raw - self._centre) / self._unit)
        real = s > max(raw.shape) * np.finfo(float).eps * np.max(s, initial=0.0)
        self.U, self.s, self._V = U[:, real], s[real], Vt[real].T

    @property
    def rank(self) -> int:
        """The number of independent curves, besides the constant."""
        return len(self.s)

    def scores(self, theta: Array) -> Array:
        """The monomials at theta (M, p) along the right singular vectors: (M, r)."""
        raw = polynomial_basis(self._coordinates(theta), self.degree)[:, 1:]
        return np.asarray(((raw - self._centre) / self._unit) @ self._V)


class Polynomial(Smoother):
    """A polynomial with a ridge penalty, by the singular values of its monomials."""

    def __init__(self, monomials: Monomials, ridge: float) -> None:
        self.monomials, self.degree, self.ridge = monomials, monomials.degree, float(ridge)
        T = len(monomials.U)
        s2 = monomials.s**2
        self._kept = s2 / (s2 + T * ridge)  # of each singular direction
        self.residual_df = float(T - 1 - monomials.rank + np.sum(T * ridge / (s2 + T * ridge)))

    @classmethod
    def through(cls, theta: Array, degree: int, ridge: float) -> Polynomial:
        """The polynomial through averages at theta (T, p)."""
        return cls(Monomials(theta, degree), ridge)

    def weights(self, theta: Array) -> Array:
        U, s = self.monomials.U, self.monomials.s
        return np.asarray(1.0 / len(U) + (self.monomials.scores(theta) * (self._kept / s)) @ U.T)

    def residuals(self, y: Array) -> Array:
        U, apart = self.monomials.U, y - np.mean(y, axis=0)
        return np.asarray(apart - U @ (self._kept * (U.T @ apart).T).T)

    def leave_one_out(self, y: Array) -> Array:
        U = self.monomials.U
        left = 1.0 - 1.0 / len(U) - (U * U) @ self._kept  # one less the leverage
        known = (left > LEAST_LEVERAGE).reshape(-1, *(1,) * (y.ndim - 1))
        return np.where(known, self.residuals(y) / np.where(known, left.reshape(known.shape), 1.0), np.inf)

    @property
    def description(self) -> str:
        curve = f"a polynomial of degree {self.monomials.degree}" if self.monomials.degree else "a constant"
        return f"{curve} with ridge {self.ridge:.3g}"


def _check_degree(theta: Array, degree: int, **_: Any) -> None:
    """Raise where a saved curve has more monomials than thetas."""
    T, p = theta.shape
    if degree >= T or comb(p + degree, p) > T:
        raise ValueError(f"a polynomial of degree {degree} has too many coefficients for {T} thetas.")


@saved_curves("LSMC", Polynomial.through, _check_degree, degree=Integer(0), ridge=Number(0.0))
class LSMCFit(SmoothedFit):
    """I over theta by a polynomial through plain averages; see `SmoothedFit` for its standard errors.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> low, high = cbq.LSMC().fit(samples).interval([100.0])
    >>> bool(low[0] < high[0])
    True
    """

    method = "Least-squares Monte Carlo"


@estimator("klsmc", title="kernel least-squares Monte Carlo", order=50, compared=[Compared("KLSMC")])
@dataclass(frozen=True)
class KLSMC(Estimator["KLSMCFit"]):
    """Kernel least-squares Monte Carlo: kernel ridge regression of the averages of f at each theta.

    The curve is c + g(theta), with an unknown constant c and g in the space of the kernel; it minimises the sum of
    squared residuals plus ridge |g|^2. In the language of Gaussian processes, ridge is lambda / A, the variance of an
    average over the variance of I: the curve depends on their ratio alone. All averages count equally, whatever their
    N_t. Averages of points from a proposal q in place of the measure p are unbiased means of w f, w = p / q.

    Kernel, lengthscale and ridge, where they are not given, minimise the squared leave-one-out error over thetas, which
    is exact and needs no refitting. Each output chooses for itself.

    Parameters
    ----------
    kernel : a kernel on theta. Lengthscales that are None are chosen, the same factor for all coordinates. None chooses
        between Matern 3/2 and RBF, too.
    ridge : the penalty, in units of the kernel; None to choose it. Zero interpolates, up to 1e-10 of the mean of
        k(theta, theta): with less, equal thetas would leave nothing but rounding errors.
    lengthscales : factors to choose from, of sqrt(p) standard deviations of the thetas. The stiffest comes first, as it
        wins where all are equally good.
    ridges : penalties to choose from, in units of the mean of k(theta, theta), the stiffest first.
    thetas : with more of them, so many decide on the kernel and the ridge.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> cbq.KLSMC().fit(samples).predict([90.0, 100.0]).shape
    (2,)
    """

    needs_measure = False

    kernel: Kernel | None = None
    ridge: float | None = None
    lengthscales: tuple[float, ...] = tuple(10.0 ** (k / 4) for k in range(4, -5, -1))
    ridges: tuple[float, ...] = tuple(10.0**k for k in range(2, -9, -1))
    thetas: int = 500

    def __post_init__(self) -> None:
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            raise TypeError(
                f"kernel must be a kernel such as cbq.kernels.RBF(), or None, but it is {shown(self.kernel)}."
            )
        check_penalties(self)
        lengthscales = "numbers above 0 in a tuple"
        check_fields(self, ("lengthscales",), lengthscales, lambda value: are_numbers(value, math.ulp(0.0)))
        check_fields(self, ("thetas",), "a whole number, 2 or more", lambda value: is_whole(value, 2))

    def _fit(self, samples: Samples, pool: Executor | None) -> KLSMCFit:
        _require_memory(samples.T, 1)
        found = averages(samples)
        some = evenly(samples.T, self.thetas)
        kernels = list(self._kernels(found.theta))
        y, theta = in_units(found.mean)[some], found.theta[some]
        ridges = [self._ridges(kernel, theta) for kernel in kernels]
        errors = np.stack([_errors(kernel, theta, y, each) for kernel, each in zip(kernels, ridges, strict=True)])
        best = np.argmin(errors.reshape(-1, y.shape[1]), axis=0)
        chosen = [(k, ridges[k][i]) for k, i in zip(*np.unravel_index(best, errors.shape[:2]), strict=True)]
        _require_memory(samples.T, len(set(chosen)))
        curves = {each: KernelCurve(found.theta, kernels[each[0]], each[1]) for each in set(chosen)}
        return KLSMCFit(
            found,
            [curves[each] for each in chosen],
            design=samples.design,
            single=samples.C is None,
            settings=settings(self),
        )

    def _kernels(self, theta: Array) -> Iterator[Kernel]:
        """The kernels to choose from, with all their lengthscales."""
        for given in (Matern(1.5), RBF()) if self.kernel is None else (self.kernel,):
            guess, free = given.to_fit(theta, ard=True)
            if guess.needs_measure or guess.log_lengthscales.ndim > 1:
                raise ValueError(
                    f"kernel = {given!r} cannot act on theta: it needs a measure, or is a batch of kernels. Pass a "
                    f"single kernel such as cbq.kernels.Matern(1.5)."
                )
            guess.check_dim(theta.shape[1])
            yield from KernelFamily(guess, free, self.lengthscales).members()

    def _ridges(self, kernel: Kernel, theta: Array) -> tuple[float, ...]:
        if self.ridge is not None:
            return (float(self.ridge),)
        size = float(np.mean(kernel.diag(theta)))
        return tuple(size * ridge for ridge in self.ridges)


def _require_memory(T: int, curves: int) -> None:
    """Raise where the matrices (T, T) of so many curves do not fit into memory."""
    require_memory(
        curves * T**2,
        f"kernel ridge regression on {T} thetas",
        "fit some of the thetas, as in samples.select(slice(None, None, 10)), or use cbq.LSMC()",
    )


def _errors(kernel: Kernel, theta: Array, y: Array, ridges: tuple[float, ...]) -> Array:
    """The mean squared leave-one-out errors (len(ridges), C) over thetas."""
    gram = kernel.gram(theta)
    process = Process(Spectral.of(gram, np.array([_nugget(kernel, theta, ridge) for ridge in ridges])), y)
    return np.stack([validation_errors(each) for each in _leave_one_out(process, process.a)])


def _nugget(kernel: Kernel, theta: Array, ridge: float, least: float = 1e-10) -> float:
    """The ridge, or the least part of the mean of k(theta, theta), with which equal thetas leave more than rounding."""
    return max(ridge, least * float(np.mean(kernel.diag(theta))))


def _leave_one_out(process: Process, a: Array) -> Array:
    """The leave-one-out residuals (..., T, C) for a = P y (..., T, C); infinite where P_tt is zero up to rounding."""
    known = process.precision > LEAST_LEVERAGE * process.inverse_diagonal
    return np.where(known[..., None], a / process.precision[..., None], np.inf)


class KernelCurve(Smoother):
    """Kernel ridge regression with an unpenalised constant: the mean of a process with one noise variance, the ridge.

    The residuals of y are ridge P y.
    """

    def __init__(self, theta: Array, kernel: Kernel, ridge: float) -> None:
        self.theta, self.kernel, self.ridge = theta, kernel, float(ridge)
        nugget = _nugget(kernel, theta, self.ridge)
        factor = factor_gram(kernel, theta, nugget=nugget, jitter=Jitter(start=0.0))
        self._process = Process(factor, np.empty((len(theta), 0)))  # weights do not depend on values
        self._noise = nugget + float(factor.jitter)
        self.residual_df = self._noise * float(np.sum(self._process.precision))

    def weights(self, theta: Array) -> Array:
        return self._process.functionals(self.kernel.gram(theta, self.theta)).weights

    def residuals(self, y: Array) -> Array:
        return np.asarray(self._noise * self._process.apply(y[:, None])[:, 0])

    def leave_one_out(self, y: Array) -> Array:
        return _leave_one_out(self._process, self._process.apply(y[:, None]))[:, 0]

    @property
    def description(self) -> str:
        return f"{on_one_line(repr(self.kernel))} with ridge {self.ridge:.3g}"


def _check_kernel(theta: Array, kernel: Kernel, **_: Any) -> None:
    """Raise unless the kernel of a saved curve acts on theta (T, p)."""
    kernel.check_dim(theta.shape[1])


@saved_curves("KLSMC", KernelCurve, _check_kernel, kernel=Instance(Kernel), ridge=Number(0.0))
class KLSMCFit(SmoothedFit):
    """I over theta by kernel ridge regression of plain averages; see `SmoothedFit` for its standard errors.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> low, high = cbq.KLSMC().fit(samples).interval([100.0])
    >>> bool(low[0] < high[0])
    True
    """

    method = "Kernel least-squares Monte Carlo"
