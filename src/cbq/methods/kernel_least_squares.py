"""Kernel least-squares Monte Carlo: kernel ridge regression of the plain averages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from cbq._arrays import Array, evenly
from cbq.io import Instance, Many, Number, Record, saved
from cbq.kernels import RBF, Kernel, Matern
from cbq.linalg import Jitter, factor
from cbq.methods.averages import Averages, averages, require_samples
from cbq.methods.least_squares import NO_LEVERAGE_LEFT, check_ridge
from cbq.methods.smoothing import SAVED_FIELDS, SmoothedFit, Smoother, in_units, validation_errors
from cbq.samples import Samples

# the stiffest first, which wins where all are as good
LENGTHSCALES = tuple(10.0 ** (k / 4) for k in range(4, -5, -1))  # in units of the spread of the thetas
RIDGES = tuple(10.0**k for k in range(2, -9, -1))  # in units of the mean of k(theta, theta)
MOST = 500  # thetas that lengthscale and ridge are chosen with
SMALLEST = 1e-10  # ridge in the same units: with less, equal thetas would leave nothing but rounding errors
ONLY_IF_NEEDED = Jitter(start=0.0)


@dataclass(frozen=True)
class KLSMC:
    """Kernel least-squares Monte Carlo: kernel ridge regression of the averages of f at each theta.

    The curve is c + g(theta), with an unknown constant c and g in the space of the kernel; it minimises the sum of
    squared residuals plus ridge |g|^2. In the language of Gaussian processes, ridge is lambda / A, the variance of an
    average over that of I: the curve depends on their ratio alone. All averages count alike, whatever their N_t.

    Kernel, lengthscale and ridge, where they are not given, minimise the squared error of leaving one theta out, which
    is exact and costs no refitting (with more than 500 thetas, 500 of them choose). Each output chooses for itself.

    Parameters
    ----------
    kernel : a kernel on theta. Lengthscales that are None are chosen from 0.1 to 10 times sqrt(p) standard deviations
        of the thetas, the same factor for all coordinates. None chooses between Matern 3/2 and RBF, too.
    ridge : the penalty, in units of the kernel; None to choose from 1e-8 to 100 times the mean of k(theta, theta). Zero
        interpolates, up to 1e-10 of that mean.
    """

    kernel: Kernel | None = None
    ridge: float | None = None

    def __post_init__(self) -> None:
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel must be a kernel such as cbq.kernels.RBF(), or None, but it is {self.kernel!r}.")
        check_ridge(self.ridge)

    def fit(self, samples: Samples) -> KLSMCFit:
        """The curve through the averages."""
        require_samples(samples)
        found = averages(samples)
        some = evenly(samples.T, MOST)
        kernels = list(self._kernels(found.theta))
        y, theta = in_units(found.mean)[some], found.theta[some]
        ridges = [self._ridges(kernel, theta) for kernel in kernels]
        errors = np.stack([_errors(kernel, theta, y, each) for kernel, each in zip(kernels, ridges, strict=True)])
        best = np.argmin(errors.reshape(-1, y.shape[1]), axis=0)
        chosen = [(k, ridges[k][i]) for k, i in zip(*np.unravel_index(best, errors.shape[:2]), strict=True)]
        curves = {each: KernelCurve(found.theta, kernels[each[0]], each[1]) for each in set(chosen)}
        return KLSMCFit(
            found,
            [curves[each] for each in chosen],
            design=samples.design,
            single=samples.C is None,
            settings={field.name: " ".join(repr(getattr(self, field.name)).split()) for field in fields(self)},
        )

    def _kernels(self, theta: Array) -> Iterator[Kernel]:
        """The kernels to choose from, with all their lengthscales."""
        for given in (Matern(1.5), RBF()) if self.kernel is None else (self.kernel,):
            guess, free = given.to_fit(theta, ard=True)
            if guess.needs_measure or guess.log_lengthscales.ndim > 1:
                raise ValueError(
                    f"kernel = {given!r} cannot serve over theta: it needs a measure, or is a batch of kernels. Pass one "
                    f"such as cbq.kernels.Matern(1.5)."
                )
            guess.check_dim(theta.shape[1])
            for factor_ in LENGTHSCALES if np.any(free) else ():
                yield guess.with_log_lengthscales(guess.log_lengthscales + np.where(free, np.log(factor_), 0.0))
            if not np.any(free):
                yield guess

    def _ridges(self, kernel: Kernel, theta: Array) -> tuple[float, ...]:
        if self.ridge is not None:
            return (float(self.ridge),)
        size = float(np.mean(kernel.diag(theta)))
        return tuple(size * ridge for ridge in RIDGES)


def _read(fit: KLSMCFit) -> dict[str, Any]:
    """The fields of a saved fit that are not its attributes."""
    chosen = [smoother for smoother in fit.smoothers if isinstance(smoother, KernelCurve)]
    curves = [{"kernel": each.kernel, "ridge": each.ridge} for each in chosen]
    return {"single": fit.C is None, "curves": curves}


def _check_saved(averages: Averages, curves: Sequence[dict[str, Any]], **_: Any) -> None:
    """Raise unless the kernels of a saved fit are kernels over its thetas."""
    for curve in curves:
        curve["kernel"].check_dim(averages.theta.shape[1])


def _build(
    cls: type[KLSMCFit], _: Any, averages: Averages, curves: Sequence[dict[str, Any]], **options: Any
) -> KLSMCFit:
    return cls(averages, [KernelCurve(averages.theta, **each) for each in curves], **options)


@saved(
    "KLSMC",
    read=_read,
    build=_build,
    check=_check_saved,
    **SAVED_FIELDS,
    curves=Many(Record({"kernel": Instance(Kernel), "ridge": Number(0.0)}), "C"),
)
class KLSMCFit(SmoothedFit):
    """I over theta by kernel ridge regression of plain averages; see `SmoothedFit` for its standard errors."""

    method = "Kernel least-squares Monte Carlo"


class KernelCurve(Smoother):
    """Kernel ridge regression with an unpenalised constant.

    With Q = (K + ridge I)^-1 and P = Q - Q 1 1' Q / (1' Q 1), the residuals of averages y are ridge P y, those of
    leaving one theta out (P y)_t / P_tt.
    """

    def __init__(self, theta: Array, kernel: Kernel, ridge: float) -> None:
        self.theta, self.kernel, self.ridge = theta, kernel, float(ridge)
        nugget = max(self.ridge, SMALLEST * float(np.mean(kernel.diag(theta))))
        self._factor = factor(kernel.gram(theta), nugget=nugget, jitter=ONLY_IF_NEEDED, overwrite=True)
        self._noise = nugget + float(self._factor.jitter)
        self._Q1 = self._factor.solve(np.ones((len(theta), 1)))[:, 0]
        self._constant = self._Q1 / np.sum(self._Q1)  # the weights of the averages in c
        self._Q_diagonal = self._factor.inverse_diagonal()
        self._P_diagonal = self._Q_diagonal - self._Q1 * self._constant
        self.residual_df = self._noise * float(np.sum(self._P_diagonal))

    def weights(self, theta: Array) -> Array:
        weights = self._factor.solve(self.kernel.gram(self.theta, theta)).T
        return np.asarray(weights + (1.0 - np.sum(weights, axis=1))[:, None] * self._constant)

    def residuals(self, y: Array) -> Array:
        return self._noise * self._P(y)

    def left_out(self, y: Array) -> Array:
        return _left_out(self._P(y), self._P_diagonal, self._Q_diagonal)

    def _P(self, y: Array) -> Array:
        return np.asarray(self._factor.solve((y - self._constant @ y)[:, None])[:, 0])

    @property
    def words(self) -> str:
        return f"{' '.join(repr(self.kernel).split())} with ridge {self.ridge:.3g}"


def _errors(kernel: Kernel, theta: Array, y: Array, ridges: tuple[float, ...]) -> Array:
    """The mean squared errors (len(ridges), C) of leaving one theta out, from one factorisation for all ridges."""
    values, V = np.linalg.eigh(kernel.gram(theta))
    ones, along = np.sum(V, axis=0), V.T @ y
    found = []
    for ridge in ridges:
        q = 1.0 / (np.maximum(values, 0.0) + max(ridge, SMALLEST * float(np.mean(values))))
        Q1 = V @ (q * ones)
        constant = Q1 / np.sum(q * ones**2)
        Py = V @ (q[:, None] * along) - constant[:, None] * ((q * ones) @ along)
        Q_diagonal = V**2 @ q
        found.append(validation_errors(_left_out(Py, Q_diagonal - Q1 * constant, Q_diagonal)))
    return np.stack(found)


def _left_out(Py: Array, P_diagonal: Array, Q_diagonal: Array) -> Array:
    """(P y)_t / P_tt for P y (T,) or (T, C); infinite where P_tt is zero but for rounding."""
    known = P_diagonal > NO_LEVERAGE_LEFT * Q_diagonal
    rows = known.reshape(-1, *(1,) * (Py.ndim - 1))
    return np.where(rows, Py / np.where(known, P_diagonal, 1.0).reshape(rows.shape), np.inf)
