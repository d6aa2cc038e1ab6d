"""What the fits of multi-output Bayesian quadrature share: one process on the values of all thetas, and its answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from cbq._arrays import Array, evenly
from cbq.embeddings.many import together
from cbq.fit.base import Fit
from cbq.fit.diagnostics import Diagnostic
from cbq.fit.findings import Finding
from cbq.fit.of_samples import few_points_together, few_thetas, tails
from cbq.fit.predictive import PredictiveDistribution
from cbq.fit.summary import heading, on_one_line, per_output, saving_lines
from cbq.gp.choice import NOT_LEARNT, KernelChoice, PooledPoints
from cbq.gp.halves import SplitHalfCalibration
from cbq.gp.kronecker import GridPoints
from cbq.gp.pooled import Embedded, IntegralPosterior, PooledGP
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.dense import correlation
from cbq.measures import Measure
from cbq.methods.baselines.averages import Averages, averages
from cbq.methods.multioutput.candidates import refuse_theta
from cbq.methods.multioutput.unreached import unreached
from cbq.samples import Samples

ROUNDING_THETAS = 5  # of the observed ones, at which rounding errors are compared with standard deviations
BADLY_PREDICTED = 3.0  # differences between parts of the data, relative to those predicted, that look wrong
PREDICTIVE_DF = 4.0  # degrees of freedom: two halves of the points say little about the size of the errors
PREDICTIVE_SHARES = np.array([0.1, 1.9])  # of the variance, of two equally likely sizes of the errors
IN_ONE_THREAD = 3000  # points: fewer need seconds, and numbers must not depend on the number of BLAS threads
UNREACHED = 0.2  # the standard deviation of f where no point has been, in units of that over all points


@dataclass(frozen=True, eq=False)
class OutputGroup:
    """Outputs that share a process.

    outputs: which. chosen: the kernels that are averaged, with their leave-one-out errors. calibration: of the
    variances, from halves of the points.
    """

    outputs: tuple[int, ...]
    chosen: KernelChoice
    calibration: SplitHalfCalibration

    @property
    def is_learnt(self) -> bool:
        """Whether the process predicts f better than its mean does."""
        return self.chosen.error < NOT_LEARNT


class Part(Protocol):
    """One of the processes that are averaged."""

    @property
    def kernel(self) -> Kernel:
        """Its kernel."""

    @property
    def process(self) -> PooledGP:
        """The process."""

    def integrals(self, theta: Array, measures: Sequence[Measure]) -> Embedded:
        """The integrals that it needs at thetas (M, p), with M measures of x."""


class PooledFit(Fit):
    """I over theta by one Gaussian process on the values of all thetas.

    groups : the outputs that share their processes, and the kernels that were chosen for each group.
    settings : the options of the estimator, as text.
    """

    conditional_on = "f going on there as it does at the points where it succeeded"
    _points: PooledPoints | GridPoints
    _parts: list[list[Part]]  # of each group

    def __init__(
        self,
        samples: Samples,
        groups: Sequence[OutputGroup],
        *,
        jitter: Jitter,
        settings: Mapping[str, str],
        findings: Sequence[Finding] = (),
        processes: Sequence[Sequence[PooledGP]] | None = None,
    ) -> None:
        self.samples, self.groups, self.jitter = samples, tuple(groups), jitter
        self.settings, self.own_findings = dict(settings), tuple(findings)
        self.theta, self.C = samples.theta, samples.C
        self._set_processes(processes)

    @abstractmethod
    def _set_processes(self, made: Sequence[Sequence[PooledGP]] | None) -> None:
        """Set the points and the processes on them, of each group, unless they were made already."""

    @abstractmethod
    def _measures(self, theta: Array) -> Sequence[Measure]:
        """The measures of the points at thetas (M, p), or the one that all share."""

    @property
    @abstractmethod
    def _reached(self) -> Array:
        """The points (n, d) whose measures these are."""

    @abstractmethod
    def _left_out(self, group: OutputGroup) -> Array:
        """Leave-one-out residuals (m, K) of the outputs of a group at m points."""

    @abstractmethod
    def _structure(self, g: int) -> str:
        """How the processes of group g are made, in a few words."""

    @abstractmethod
    def _inflation(self, g: int) -> Array:
        """The factors (K,) by which the outputs of group g differ more between parts of the data than predicted."""

    @abstractmethod
    def _threads(self) -> AbstractContextManager[None]:
        """The BLAS threads to work with."""

    def _integrals(
        self, theta: Array, measures: Sequence[Measure]
    ) -> Iterator[tuple[OutputGroup, list[tuple[PooledGP, Embedded]]]]:
        """The processes of each group, and the integrals that they need under the M measures of x at theta (M, p)."""
        for group, parts in zip(self.groups, self._parts, strict=True):
            for part in parts:
                refuse_theta(part.kernel, theta)
            yield group, [(part.process, part.integrals(theta, measures)) for part in parts]

    def _means(self, theta: Array) -> list[Array]:
        found: dict[int, Array] = {}
        shift, scale = self._points.shift, self._points.scale
        with self._threads():
            for group, parts in self._integrals(theta, together(self._measures(theta))):
                means = [process.mean(integrals.mean(process.nodes)) for process, integrals in parts]
                mean = np.tensordot(group.chosen.weights, means, 1)  # (M, C)
                found |= {c: shift[c] + scale[c] * mean[:, j] for j, c in enumerate(group.outputs)}
        return [found[c] for c in self._outputs]

    def _predictives(self, theta: Array, *, joint: bool) -> list[PredictiveDistribution]:
        found: dict[int, PredictiveDistribution] = {}
        with self._threads():
            measures = self._measures(theta)
            beyond = UNREACHED * np.broadcast_to(unreached(measures, self._reached), len(theta))
            beyond2 = np.multiply.outer(beyond, beyond) if joint else beyond**2
            spread2 = self._points.variance
            for group, parts in self._integrals(theta, together(measures)):
                each = [IntegralPosterior.of(*part, joint=joint) for part in parts]
                posterior = IntegralPosterior.averaged(group.chosen.weights, each)
                for j, c in enumerate(group.outputs):
                    shift, scale = self._points.shift[c], self._points.scale[c]
                    total = group.calibration.variance(posterior.spread[j], j) + spread2[c] * beyond2
                    scales2 = scale**2 * (PREDICTIVE_DF - 2) / PREDICTIVE_DF * total
                    location = shift + scale * posterior.mean[:, j]
                    found[c] = PredictiveDistribution(
                        np.tile(location, (len(PREDICTIVE_SHARES), 1)),
                        np.multiply.outer(PREDICTIVE_SHARES, scales2),
                        PREDICTIVE_DF,
                    )
        return [found[c] for c in self._outputs]

    def _widened(self, factors: Array, least: Array) -> Self:
        """The same fit with variances multiplied by factors (C,), if these are above 1, and at least `least` (C,)."""
        groups, scale2 = [], self._points.scale**2
        for group in self.groups:
            c = list(group.outputs)
            calibration = group.calibration.widened(np.maximum(factors[c], 1.0), least[c] / scale2[c])
            groups.append(replace(group, calibration=calibration))
        return self._replaced(groups=tuple(groups))

    def _with_findings(self, findings: Sequence[Finding]) -> Self:
        """The same fit with more findings."""
        return self._replaced(own_findings=(*self.own_findings, *findings))

    @property
    def noise_std(self) -> Array:
        """The standard deviations (C,) of the noise of the values; zero where f is not random."""
        found = np.zeros(self.C or 1)
        if self.samples.stochastic:
            for group, parts in zip(self.groups, self._parts, strict=True):
                variances = [part.process.amplitude * part.process.noise for part in parts]
                found[list(group.outputs)] = np.sqrt(group.chosen.weights @ np.array(variances))
        return np.asarray(self._points.scale * found)

    @property
    def correlation(self) -> Array:
        if len(self._outputs) == 1:
            return super().correlation  # residuals take a factorisation, and there is nothing to compare
        columns: dict[int, Array] = {}
        for group in self.groups:
            columns |= dict(zip(group.outputs, self._left_out(group).T, strict=True))
        return correlation(np.stack([columns[c] for c in self._outputs], axis=1))

    @property
    def averages(self) -> Averages | None:
        """The plain averages of f at each theta; None where points were chosen by a rule, not drawn."""
        return None if self.samples.design == "adaptive" else averages(self.samples)

    def _findings_about(self, samples: Samples) -> tuple[Finding, ...]:
        between = few_thetas(samples) if samples.depends_on_theta else ()
        return (*super()._findings_about(samples), *tails(samples), *between, *few_points_together(samples))

    def _findings(self) -> tuple[Finding, ...]:
        found = list(self.own_findings)
        if not all(group.is_learnt for group in self.groups):
            text = (
                "f has not been learnt: predicting a value from all others is hardly better than using their mean. f "
                "may be noise, or vary too fast for these points."
            )
            found.append(Finding("not learnt", text))
        return tuple(found)

    def _remarks(self) -> tuple[Finding, ...]:
        found = []
        if self._is_rounded():
            text = (
                "rounding errors may move the estimates by a standard deviation, for example on another machine: one "
                "kernel for all points is too smooth for them."
            )
            found.append(Finding("rounding", text))
        return tuple(found)

    def _diagnostics(self) -> tuple[Diagnostic, ...]:
        errors = ", ".join(_residuals(group.chosen, self.samples) for group in self.groups)
        learnt = all(group.is_learnt for group in self.groups)
        factors = np.sqrt(np.concatenate([self._inflation(g) for g in range(len(self.groups))]))
        predicted = bool(np.max(factors) <= BADLY_PREDICTED)
        return (
            Diagnostic(
                "Leave-one-out residuals of f",
                "Each value of f is predicted from all others. In units of the spread of f at its theta, residuals far "
                "below 1 say that f is learnt; with 1, a prediction would be no better than an average.",
                f"Residuals are {errors}. "
                f"{'This looks right.' if learnt else 'f is not learnt: the estimate is little better than averages.'}",
                learnt,
            ),
            Diagnostic(
                "Fits to parts of the points",
                "The estimate is made again from halves of the points, and without each theta. The differences, in "
                "units of those predicted, say how far the intervals can be trusted; they are scaled by this number.",
                f"Differences are {', '.join(f'{factor:.2g}' for factor in factors)} times as large as predicted. "
                f"{'This looks right.' if predicted else 'They are far larger than predicted: take more points.'}",
                predicted,
            ),
        )

    def _is_rounded(self) -> bool:
        """Whether rounding errors may move the estimate of an output by its standard deviation at observed thetas."""
        some = self.theta[evenly(len(self.theta), ROUNDING_THETAS)]
        std = np.median(self.predict(some, return_std=True)[1].reshape(len(some), -1), axis=0)
        least = np.finfo(float).eps * np.max(np.abs(self.samples.table), axis=0)  # f itself is rounded
        rounding = np.empty_like(std)
        for group, parts in zip(self.groups, self._parts, strict=True):
            rounding[list(group.outputs)] = group.chosen.weights @ [part.process.rounding for part in parts]
        return bool(np.any(self._points.scale * rounding > np.maximum(std, least)))

    def _description(self) -> list[str]:
        samples = self.samples
        lines = heading(self, "Multi-output Bayesian quadrature", samples.counts, samples.design)
        each: dict[int, list[str]] = {}
        for g, group in enumerate(self.groups):
            for c, inflation in zip(group.outputs, self._inflation(g), strict=True):
                each[c] = _described(group.chosen, self._points.n, self._structure(g), np.sqrt(inflation), samples)
        if samples.stochastic:
            for c, std in zip(self._outputs, self.noise_std, strict=True):
                each[c].append(f"  Values of f are draws: the standard deviation of their noise is {std:.3g}.")
        lines += per_output([each[c] for c in self._outputs], self)
        lines.append(
            f"Predictive distribution: two Student-t distributions with {PREDICTIVE_DF:g} degrees of freedom, a narrow "
            f"and a wide one."
        )
        return lines + saving_lines(samples)


def _residuals(chosen: KernelChoice, samples: Samples) -> str:
    """How large leave-one-out residuals of f are, besides the noise of a random f, in a few words."""
    size = f"{chosen.error:.2g} times the standard deviation of f at the same theta"
    if not samples.stochastic:
        return size
    return f"{size}, besides the noise of f" if chosen.error > 0 else "no larger than the noise of f"


def _described(chosen: KernelChoice, n: int, how: str, size: float, samples: Samples) -> list[str]:
    """Lines about one output."""
    if len(chosen.members) == 1:
        kernel = on_one_line(repr(chosen.kernel))
        lines = [f"One Gaussian process on {n} points ({how}): {kernel}, the best of {chosen.tried} kernels."]
    else:
        count = len(chosen.members)
        lines = [
            f"The average of {count} Gaussian processes on {n} points ({how}), the best of {chosen.tried} kernels:"
        ]
        lines += [f"  {member.weight:.0%} {on_one_line(repr(member.kernel))}" for member in chosen.members]
    return [
        *lines,
        f"  Leave-one-out residuals: {_residuals(chosen, samples)}.",
        f"  Fits to halves of the points, and without each theta, differ {size:.2g} times as much as predicted; "
        f"intervals are scaled to match.",
    ]
