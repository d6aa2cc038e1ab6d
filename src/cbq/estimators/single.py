"""Bayesian quadrature of one integral."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from cbq.common import Array, between_0_and_1, finite, flag
from cbq.estimators.base import check_choices, check_kernels
from cbq.estimators.conditional.estimator import CHOICES, Automatic, Mean
from cbq.estimators.conditional.stage_one import StageOneOptions, fit_stage_one
from cbq.estimators.conditional.stage_one_data import KernelShare
from cbq.fit import Finding, all_equal, warn_of
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.jitter import DEFAULT_JITTER, check_jitter
from cbq.measures.base import measure_argument
from cbq.samples import Samples

LEAST_DF = 3.0  # the degrees of freedom with which stage 1 computes variances of few values


@dataclass(frozen=True)
class BQ:
    """Bayesian quadrature of a single integral E f(X): the first stage of `cbq.CBQ`, without a theta.

    A configuration: `fit` returns an `Integral` and changes nothing.

    Parameters
    ----------
    kernel : the kernel of x. "auto" tries several and averages over those that explain f best, as `cbq.CBQ` does; a
        kernel is used as it is, and its lengthscales that are None are fitted.
    mean : the mean of f: an unknown "constant", or "zero".
    ard : a lengthscale for every coordinate of x rather than one for all (where there are enough values).
    jitter : what may be added to the diagonal of the Gram matrix.

    Examples
    --------
    >>> x = np.linspace(-3.0, 3.0, 13)
    >>> found = cbq.BQ(cbq.kernels.RBF()).fit(x, np.cos(x), cbq.measures.Gaussian(0.0, std=1.0))
    >>> bool(abs(found.mean - np.exp(-0.5)) < 1e-3)
    True
    """

    kernel: Kernel | Automatic = "auto"
    mean: Mean = "constant"
    ard: bool = True
    jitter: Jitter = DEFAULT_JITTER

    def __post_init__(self) -> None:
        check_kernels(self, names=("kernel",))
        check_choices(self, {"mean": CHOICES["mean"]})
        flag(self.ard, "ard")
        check_jitter(self.jitter)

    def fit(self, x: npt.ArrayLike, f: npt.ArrayLike, measure: Any) -> Integral:
        """The integral of f under a measure, from its values at points, which may be anywhere in the support.

        x : points (N, d), or (N,) on the line. f : values (N,), or (N, C) of C functions.
        measure : a measure, or a frozen scipy.stats distribution.
        """
        points, values = finite(x, "x"), finite(f, "f")
        points = points[:, None] if points.ndim == 1 else points
        if points.ndim != 2 or values.ndim not in (1, 2) or len(points) != len(values) or len(points) < 2:
            raise ValueError(
                f"x has shape {np.shape(x)} and f {np.shape(f)}, but they must be (N, d), or (N,), and (N,), or "
                f"(N, C), with a value of f for each of two points or more."
            )
        # Points of a quadrature may be chosen by a rule, so that nothing is concluded from where they lie.
        samples = Samples([[0.0]], points[None], values[None], measure_argument(measure, "measure"), design="adaptive")
        options = StageOneOptions(kernel=self.kernel, mean=self.mean, ard=self.ard, jitter=self.jitter, drawn=False)
        stage1 = fit_stage_one(samples, options)
        # Of several thetas alone: here all points have one amplitude.
        std, findings = stage1.std[0], tuple(each for each in stage1.findings if each.kind != "design")
        if all_equal(samples) and self.mean == "constant":
            std = np.full_like(std, np.inf)
            text = "all values of f are equal, which do not show how f varies elsewhere: intervals are infinite."
            findings = (*findings, Finding("equal values", text))
        warn_of(each for each in findings if not each.is_remark)
        df = max(len(points) - (self.mean == "constant"), LEAST_DF)
        return Integral(stage1.mean[0], std, stage1.weights[0], float(df), stage1.hyperparameters, findings)


@dataclass(frozen=True, eq=False)
class Integral:
    """The integral of f as a Student-t variable, whose amplitude is integrated out.

    mean, std : numbers, or (C,). weights : (N,), or (N, C): the mean is their sum against f.
    df : the degrees of freedom.
    kernels : for each output, the kernels that were used, by their share of the weight.
    findings : what a user should know.

    Examples
    --------
    >>> x = np.linspace(-3.0, 3.0, 13)
    >>> found = cbq.BQ().fit(x, np.cos(x), cbq.measures.Gaussian(0.0, std=1.0))
    >>> low, high = found.interval(0.95)
    >>> bool(low < np.exp(-0.5) < high), bool(np.isclose(found.weights @ np.cos(x), found.mean))
    (True, True)
    """

    mean: Any
    std: Any
    weights: Array
    df: float
    kernels: tuple[tuple[KernelShare, ...], ...] = field(repr=False)
    findings: tuple[Finding, ...] = ()

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """The ends of the central interval that holds the integral with probability `level`, numbers or (C,)."""
        reach = float(stdtrit(self.df, 0.5 * (1 + between_0_and_1(level, "level")))) * np.sqrt(1 - 2 / self.df)
        return self.mean - reach * self.std, self.mean + reach * self.std
