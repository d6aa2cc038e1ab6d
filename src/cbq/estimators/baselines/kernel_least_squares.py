"""Kernel least-squares Monte Carlo: kernel ridge regression of the plain averages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq.common import Array, Executor, are_numbers, check_fields, evenly, is_whole, require_memory, shown
from cbq.estimators.base import Compared, Estimator, estimator, settings
from cbq.estimators.baselines.averages import averages
from cbq.estimators.baselines.smoothing import (
    LEAST_LEVERAGE,
    SmoothedFit,
    Smoother,
    check_penalties,
    in_units,
    saved_curves,
    validation_errors,
)
from cbq.fit import on_one_line
from cbq.gp import KernelFamily, Process, Spectral
from cbq.io import Instance, Number
from cbq.kernels import RBF, Kernel, Matern
from cbq.linalg import Jitter, factor_gram
from cbq.samples import Samples


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


def _check_saved(theta: Array, kernel: Kernel, **_: Any) -> None:
    """Raise unless the kernel of a saved curve acts on theta (T, p)."""
    kernel.check_dim(theta.shape[1])


@saved_curves("KLSMC", KernelCurve, _check_saved, kernel=Instance(Kernel), ridge=Number(0.0))
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
