"""Curves through the averages of all thetas: what polynomial and kernel regression share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from cbq.common import LARGEST, Array, Immutable, are_numbers, check_fields, is_number, shown
from cbq.estimators.monte_carlo import Averages
from cbq.fit import (
    Finding,
    Fit,
    PredictiveDistribution,
    chosen_findings,
    few_thetas,
    heading,
    per_output,
    shared_design,
)
from cbq.io import Boolean, Field, Instance, Many, Record, Text, Texts, saved
from cbq.linalg.lapack import correlation
from cbq.samples import Design, Samples

MIN_RESIDUAL_DF = 1.0 - 1e-9  # degrees of freedom that a standard error needs
LEAST_LEVERAGE = 1e-10  # of what an average has on its own residual: with less, the others do not predict it


class Smoother(Immutable, ABC):
    """A linear smoother of T averages y: its curve at theta is W(theta) y, and the weights W do not depend on y.

    residual_df: the degrees of freedom of its residuals, T less the trace of the smoother.
    """

    residual_df: float

    @abstractmethod
    def weights(self, theta: Array) -> Array:
        """W(theta): (M, T) for theta (M, p); every row sums to one."""

    @abstractmethod
    def residuals(self, y: Array) -> Array:
        """y (T,) less the curve at its own thetas."""

    @abstractmethod
    def leave_one_out(self, y: Array) -> Array:
        """y (T,) less the curve through all others, at each theta; infinite where the others do not determine it."""

    @property
    @abstractmethod
    def description(self) -> str:
        """The curve and its hyperparameters, in words."""


class SmoothedFit(Fit, ABC):
    """I over theta by a regression of plain averages; see `Fit` for its answers.

    The mean is W(theta) y, with weights W of the averages y, and its standard error is sigma |W(theta)|, with sigma^2
    the residual sum of squares over the residual degrees of freedom; the predictive distribution is Student-t with as
    many degrees of freedom. It includes the scatter of the averages around the curve, as if all had the same variance,
    but not the bias of the curve: where that is not small, intervals are too narrow. With less than one residual degree
    of freedom there is a mean only, and with two or fewer the standard deviation is infinite, as for such a
    Student-t distribution is.

    averages : the plain averages of f, or of f with the weights of points from a proposal.
    smoothers : for each output what was chosen.
    settings : the options of the estimator, as text.
    """

    method: str

    def __init__(
        self,
        averages: Averages,
        smoothers: Sequence[Smoother],
        *,
        design: Design,
        single: bool,
        settings: Mapping[str, str],
        findings: Sequence[Finding] = (),
    ) -> None:
        self.averages, self.smoothers = averages, tuple(smoothers)
        self.design, self.settings, self.own_findings = design, dict(settings), tuple(findings)
        self.theta = averages.theta
        self.C = None if single else int(averages.mean.shape[1])
        self._centres = np.array([_centre(y) for y in averages.mean.T])
        self._sigmas = np.array([self._sigma(c) for c in self._outputs])

    @property
    def correlation(self) -> Array:
        return correlation(np.stack([self._residuals(c) for c in self._outputs], axis=1))

    def weights(self, theta: npt.ArrayLike) -> Array:
        """The weights W of the averages in the mean at theta: (M, T) or (M, T, C)."""
        thetas = self._thetas(theta)
        return self._shaped([smoother.weights(thetas) for smoother in self.smoothers])

    def _predictive(self, theta: Array, c: int, *, joint: bool) -> PredictiveDistribution:
        W = self.smoothers[c].weights(theta)
        location = self._centres[c] + W @ (self.averages.mean[:, c] - self._centres[c])
        S = self._sigmas[c] * W
        return PredictiveDistribution(
            location[None],
            (S @ S.T if joint else np.sum(S * S, axis=1))[None],
            self.smoothers[c].residual_df,
            self._without_scales(c),
        )

    def _sigma(self, c: int) -> float:
        """The standard deviation of an average around the curve; zero where there is none."""
        smoother = self.smoothers[c]
        if smoother.residual_df < MIN_RESIDUAL_DF:
            return 0.0
        residuals = self._residuals(c)
        return rms(residuals) * float(np.sqrt(len(residuals) / smoother.residual_df))

    def _residuals(self, c: int) -> Array:
        """The averages (T,) less the curve."""
        return self.smoothers[c].residuals(self.averages.mean[:, c] - self._centres[c])

    def _without_scales(self, c: int) -> str | None:
        T, left = len(self.theta), self.smoothers[c].residual_df
        if left >= MIN_RESIDUAL_DF:
            return None
        return (
            f"there is no standard error: {self.smoothers[c].description} takes {T - left:.3g} of {T} degrees of "
            f"freedom, which leaves less than one to estimate it from. Use more thetas, a stiffer curve, or cbq.CBQ."
        )

    def _findings_about(self, samples: Samples) -> tuple[Finding, ...]:
        return (*super()._findings_about(samples), *shared_design(samples), *few_thetas(samples))

    def _findings(self) -> tuple[Finding, ...]:
        return (*chosen_findings(self.design), *self.own_findings, *self.averages.findings())

    def _description(self) -> list[str]:
        lines = heading(self, self.method, self.averages.counts, self.design)
        lines += per_output([self._chosen(c) for c in self._outputs], self)
        errors = "Standard errors include the scatter of the averages around the curve, but not the bias of the curve."
        return [*lines, errors, *self.averages.description()]

    def _chosen(self, c: int) -> list[str]:
        smoother, y = self.smoothers[c], self.averages.mean[:, c] - self._centres[c]
        description, scatter = smoother.description, "no standard error"
        if smoother.residual_df >= MIN_RESIDUAL_DF:
            scatter = f"the averages scatter around it with standard deviation {self._sigmas[c]:.3g}"
        curve = f"{description[0].upper()}{description[1:]}"
        lines = [f"{curve}: {smoother.residual_df:.3g} residual degrees of freedom, {scatter}."]
        error = rms(smoother.leave_one_out(y))
        if np.isfinite(error):
            lines.append(f"Leave-one-theta-out RMSE: {error:.3g}.")
        return lines


Curve = Callable[..., Smoother]  # of theta (T, p) and its hyperparameters
FitClass = TypeVar("FitClass", bound=type[SmoothedFit])


def saved_curves(
    name: str, curve: Curve, check: Callable[..., None], **fields: Field
) -> Callable[[FitClass], FitClass]:
    """Declare that fits whose curves have these hyperparameters can be saved; check(theta, **fields) checks a curve."""

    def read(fit: SmoothedFit) -> dict[str, Any]:
        curves = [{name: getattr(each, name) for name in fields} for each in fit.smoothers]
        return {"single": fit.C is None, "curves": curves, "findings": fit.own_findings}

    def check_all(averages: Averages, curves: Sequence[dict[str, Any]], **_: Any) -> None:
        for each in curves:
            check(averages.theta, **each)

    def build(
        cls: type[SmoothedFit], _: Any, averages: Averages, curves: Sequence[dict[str, Any]], **options: Any
    ) -> Fit:
        return cls(averages, [curve(averages.theta, **each) for each in curves], **options)

    return saved(
        name,
        read=read,
        build=build,
        check=check_all,
        averages=Instance(Averages),
        design=Text(get_args(Design)),
        single=Boolean(only_if=("C", 1)),
        settings=Texts(),
        findings=Many(Instance(Finding)),
        curves=Many(Record(fields), "C"),
    )


def rms(values: Array) -> float:
    """The root mean square of values (T,), which may be far from 1, or infinite."""
    unit = float(np.max(np.abs(values)))
    return unit * float(np.sqrt(np.mean((values / unit) ** 2))) if 0 < unit < np.inf else unit


def validation_errors(left_out: Array) -> Array:
    """The mean squared errors (C,) of leaving one theta out, from leave-one-out residuals (T, C)."""
    with np.errstate(over="ignore"):
        return np.asarray(np.mean(left_out**2, axis=0))


def in_units(mean: Array) -> Array:
    """Averages (T, C) less their mean, in units of the largest of them: numbers near 1, to compare curves with."""
    apart = mean - np.array([_centre(y) for y in mean.T])
    unit = np.max(np.abs(apart), axis=0)
    return np.asarray(apart / np.where(unit > 0, unit, 1.0))


def _centre(y: Array) -> float:
    """The mean of y (T,), exact where all are equal."""
    return float(y[0] + np.mean(y - y[0]))


def check_penalties(estimator: Any) -> None:
    """Raise unless `ridge` is None or a penalty, and `ridges` are some to choose from."""
    if estimator.ridge is not None and not is_number(estimator.ridge, 0, LARGEST):
        raise ValueError(
            f"ridge must be a number, zero or more, or None to choose it, but it is {shown(estimator.ridge)}."
        )
    check_fields(estimator, ("ridges",), "numbers, zero or more, in a tuple", lambda value: are_numbers(value))
