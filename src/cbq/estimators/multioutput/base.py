"""What the fits of multi-output Bayesian quadrature share: one process on the values of all thetas, and its answers.

The process can be integrated under another family of measures; `unreached` is how much of it no run reaches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self, TypeVar

import numpy as np

from cbq.common import Array, Integers, evenly
from cbq.embeddings.many import together
from cbq.estimators.monte_carlo import Averages, averages
from cbq.estimators.multioutput.candidates import refuse_theta
from cbq.fit import (
    Diagnostic,
    Finding,
    Fit,
    PredictiveDistribution,
    few_points_together,
    few_thetas,
    heading,
    on_one_line,
    per_output,
    points_of,
    saving_lines,
    sobol_blocks,
    tails,
    unlearnt_over_theta,
)
from cbq.gp import (
    NOT_LEARNT,
    Calibration,
    Embedded,
    GridPoints,
    KernelChoice,
    LocalAmplitude,
    PointsGP,
    PooledGP,
    PooledPoints,
    Reach,
)
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.lapack import correlation, nearest_psd
from cbq.measures import Measure
from cbq.samples import Samples

BADLY_PREDICTED = 10.0  # moves of integrals when values are left out, relative to the predicted, that look wrong
SOME_THETAS = 20  # of the observed ones, over which scales are averaged
UNREACHED_POINTS = 256  # of a measure: shares beyond the reach of the runs are then known to about 2%
REACH_THETAS = 12  # of the observed ones, at which these shares are compared
MUCH_MORE = 0.1  # of the mass than under the family of the samples, from which on a fit warns
AnyFit = TypeVar("AnyFit", bound=Fit)
# The points and the processes of each group, where the estimator has made them.
Made = tuple[PooledPoints, Sequence[Sequence[PointsGP]]]
IN_ONE_THREAD = 3000  # points: fewer need seconds, and numbers must not depend on the number of BLAS threads


@dataclass(frozen=True, eq=False)
class OutputGroup:
    """Outputs that share a process.

    outputs: which. chosen: the best kernel, and others that cannot be told apart from it.
    """

    outputs: tuple[int, ...]
    chosen: KernelChoice


class Part(Protocol):
    """The process of one kernel."""

    @property
    def kernel(self) -> Kernel:
        """Its kernel."""

    @property
    def process(self) -> PooledGP:
        """The process."""

    def integrals(self, theta: Array, measures: Sequence[Measure]) -> Embedded:
        """The integrals that it needs at thetas (M, p), with M measures of x."""

    def embeddings(self, nodes: Array, integrals: Embedded, theta: Array) -> Array:
        """The embeddings (M, n) of its integrals at thetas (M, p) at the nodes (n, D) of another process."""


class LinearFunctionals(Protocol):
    """Linear functionals of f, for each of several processes."""

    def of(self, part: Part) -> Embedded:
        """The functionals, as a process needs them."""

    def embeddings(self, part: Part, functionals: Embedded, nodes: Array) -> Array:
        """Their embeddings (M, n) at the nodes (n, D) of another process with the same kernel."""


@dataclass(frozen=True, eq=False)
class IntegralsAt:
    """The integrals of f at thetas (M, p), under M measures of x."""

    theta: Array
    measures: Sequence[Measure]

    def of(self, part: Part) -> Embedded:
        refuse_theta(part.kernel, self.theta)
        return part.integrals(self.theta, self.measures)

    def embeddings(self, part: Part, functionals: Embedded, nodes: Array) -> Array:
        return part.embeddings(nodes, functionals, self.theta)


class PooledFit(Fit):
    """I over theta by one Gaussian process on the values of all thetas.

    groups : the outputs that share their processes, and the kernels that were chosen for each group.
    calibrated_by : how variances follow from what leaving out points and thetas moves.
    settings : the options of the estimator, as text.
    """

    conditional_on = "f going on there as it does at the points where it succeeded"
    _points: PooledPoints | GridPoints
    _parts: list[list[Part]]  # of each group, the best kernel first
    _amplitudes: list[LocalAmplitude]  # of each group

    def __init__(
        self,
        samples: Samples,
        groups: Sequence[OutputGroup],
        *,
        jitter: Jitter,
        calibrated_by: Calibration,
        settings: Mapping[str, str],
        findings: Sequence[Finding] = (),
        made: Made | None = None,
    ) -> None:
        self.samples, self.groups, self.jitter, self.calibrated_by = samples, tuple(groups), jitter, calibrated_by
        self.settings, self.own_findings = dict(settings), tuple(findings)
        self.theta, self.C = samples.theta, samples.C
        self._set_processes(made)

    @abstractmethod
    def _set_processes(self, made: Made | None) -> None:
        """Set the points, the processes on them and their amplitudes, of each group."""

    @abstractmethod
    def _measures(self, theta: Array) -> Sequence[Measure]:
        """The measures of the points at thetas (M, p), or the one that all share."""

    @abstractmethod
    def _observed(self, rows: Integers) -> Sequence[Measure]:
        """The measures of the points at some of the observed thetas: the family need not be asked again."""

    @abstractmethod
    def _left_out(self, group: OutputGroup) -> Array:
        """Leave-one-out residuals (m, K) of the outputs of a group at m points."""

    @abstractmethod
    def _structure(self, g: int) -> str:
        """How the processes of group g are made, in a few words."""

    @abstractmethod
    def _threads(self) -> AbstractContextManager[None]:
        """The BLAS threads to work with."""

    def _means(self, theta: Array) -> list[Array]:
        found: dict[int, Array] = {}
        with self._threads():
            measures = together(self._measures(theta))
            for group, parts in zip(self.groups, self._parts, strict=True):
                refuse_theta(parts[0].kernel, theta)
                mean = parts[0].process.mean(parts[0].integrals(theta, measures).mean(parts[0].process.nodes))
                found |= self._columns(group, mean)
        return [found[c] for c in self._outputs]

    def _predictives(self, theta: Array, *, joint: bool) -> list[PredictiveDistribution]:
        with self._threads():
            wanted = IntegralsAt(theta, together(self._measures(theta)))
            return self._distributions(wanted, self._average_scales, joint=joint)

    def _distributions(
        self, wanted: LinearFunctionals, common: Sequence[Array], *, joint: bool
    ) -> list[PredictiveDistribution]:
        """The distribution of each output of M functionals; common: the scales (K,) of an error of each group."""
        found: dict[int, PredictiveDistribution] = {}
        ratios2 = self.calibrated_by.ratios2
        for g, group in enumerate(self.groups):
            mean, scales2 = self._posterior(g, wanted, joint=joint)
            shared = (self.calibrated_by.common * common[g]) ** 2
            for j, (c, location) in enumerate(self._columns(group, mean).items()):
                mine = self._points.scale[c] ** 2 * (scales2[j] + shared[j])
                locations = np.broadcast_to(location, (len(ratios2), *location.shape))
                found[c] = PredictiveDistribution(locations, np.multiply.outer(ratios2, mine), np.inf)
        return [found[c] for c in self._outputs]

    def _posterior(self, g: int, wanted: LinearFunctionals, *, joint: bool) -> tuple[Array, Array]:
        """The means (M, K) of functionals of the K outputs of group g, and squared scales (K, M), or (K, M, M).

        The variance of the best kernel has the local amplitude. Other kernels add the squares of what they disagree on,
        and rounding the squares of its errors, which the functionals have in common.
        """
        process, functionals = self._parts[g][0].process, wanted.of(self._parts[g][0])
        mu, mean, amplitude, errors = self._terms(g, wanted, functionals)
        spread = process.variance(mu, functionals.variance()).T
        if not joint:
            return mean, amplitude * spread + sum(error**2 for error in errors)
        pairs = zip(process.covariance(mu, functionals.cross()), spread, strict=True)
        unit = np.stack([nearest_psd(covariance, variance) for covariance, variance in pairs])
        root = np.sqrt(amplitude)
        apart = sum(error[:, :, None] * error[:, None] for error in errors)
        return mean, root[:, :, None] * unit * root[:, None] + apart

    def _terms(
        self, g: int, wanted: LinearFunctionals, functionals: Embedded
    ) -> tuple[Array, Array, Array, list[Array]]:
        """Of functionals of group g: embeddings (M, m), means (M, K), amplitudes (K, M), and errors (K, M) beside."""
        best, *others = self._parts[g]
        process, amplitudes = best.process, self._amplitudes[g]
        mu = functionals.mean(process.nodes)
        mean = process.mean(mu)
        to_nodes = mu if amplitudes.nodes is process.nodes else wanted.embeddings(best, functionals, amplitudes.nodes)
        amplitude = np.maximum(amplitudes(to_nodes), np.finfo(float).tiny).T
        errors = [np.broadcast_to(process.rounding, mean.shape).T]
        for weight, part in zip(self.groups[g].chosen.weights[1:], others, strict=True):
            other = part.process.mean(wanted.of(part).mean(part.process.nodes))
            errors.append(np.sqrt(weight) * (other - mean).T)
        return mu, mean, amplitude, errors

    def _columns(self, group: OutputGroup, mean: Array) -> dict[int, Array]:
        """Means (M, K) of a group as those (M,) of each of its outputs, in units of f."""
        shift, scale = self._points.shift, self._points.scale
        return {c: shift[c] + scale[c] * mean[:, j] for j, c in enumerate(group.outputs)}

    @cached_property
    def _average_scales(self) -> list[Array]:
        """For each group, the average scales (K,) at some of the observed thetas."""
        rows = evenly(len(self.theta), SOME_THETAS)
        some = IntegralsAt(self.theta[rows], together(self._observed(rows)))
        each = (self._posterior(g, some, joint=False)[1] for g in range(len(self.groups)))
        return [np.mean(np.sqrt(scales2), axis=1) for scales2 in each]

    @cached_property
    def _moved(self) -> list[Array]:
        """For each group, how much more than predicted by one amplitude leaving out values moves its integrals: (K,).

        At some of the observed thetas, as a ratio of standard deviations.
        """
        rows = evenly(len(self.theta), SOME_THETAS)
        some, found = self.theta[rows], []
        with self._threads():
            measures = together(self._observed(rows))
            for (best, *_), amplitudes in zip(self._parts, self._amplitudes, strict=True):
                to_nodes = best.embeddings(amplitudes.nodes, best.integrals(some, measures), some)
                one = np.maximum(best.process.amplitude, np.finfo(float).tiny)
                found.append(np.sqrt(np.median(amplitudes(to_nodes), axis=0) / one))
        return found

    def _with_findings(self, findings: Sequence[Finding]) -> Self:
        """The same fit with more findings."""
        return self._replaced(own_findings=(*self.own_findings, *findings))

    @property
    def is_learnt(self) -> bool:
        """Whether the processes predict f better than its mean does."""
        return all(group.chosen.residual < NOT_LEARNT for group in self.groups)

    @property
    def learns_over_theta(self) -> bool:
        """Whether the averages at each theta are predicted from all other thetas better than by their mean.

        It is taken for granted where f does not depend on theta, is not learnt at all, or has noise, which no other
        theta predicts.
        """
        if not self.samples.depends_on_theta or self.samples.stochastic or not self.is_learnt:
            return True
        return all(np.all(amplitudes.group_errors < NOT_LEARNT) for amplitudes in self._amplitudes)

    @property
    def noise_std(self) -> Array:
        """The standard deviations (C,) of the noise of the values; zero where f is not random."""
        found = np.zeros(self.C or 1)
        if self.samples.stochastic:
            for group, parts in zip(self.groups, self._parts, strict=True):
                found[list(group.outputs)] = np.sqrt(parts[0].process.amplitude * parts[0].process.noise)
        return np.asarray(self._points.scale * found)

    def _noise(self, theta: Array) -> Array:
        return np.broadcast_to(self.noise_std, (len(theta), len(self._outputs)))

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
        between = between or unlearnt_over_theta(self.learns_over_theta)
        return (*super()._findings_about(samples), *tails(samples), *between, *few_points_together(samples))

    def _findings(self) -> tuple[Finding, ...]:
        found = list(self.own_findings)
        if not self.is_learnt:
            text = (
                "f has not been learnt: predicting a value from all others is hardly better than using their mean. f "
                "may be noise, or vary too fast for these points."
            )
            found.append(Finding("not learnt", text))
        return tuple(found)

    def _diagnostics(self) -> tuple[Diagnostic, ...]:
        errors = ", ".join(_residuals(group.chosen, self.samples) for group in self.groups)
        factors = np.concatenate(self._moved)
        predicted = bool(np.max(factors) <= BADLY_PREDICTED)
        return (
            Diagnostic(
                "Leave-one-out residuals of f",
                "Each value of f is predicted from all others. Residuals are in units of the spread of f at the theta: "
                "far below 1, f is learnt; at 1, a prediction would be no better than an average.",
                f"Residuals are {errors}. "
                f"{'This looks right.' if self.is_learnt else 'f is not learnt: averages would be as good.'}",
                self.is_learnt,
            ),
            Diagnostic(
                "Points and thetas left out",
                "Leaving out a point, or all points of a theta, moves the estimate. The size of the moves, in units of "
                "the size predicted for a function that is equally rough everywhere, scales the intervals.",
                f"Moves are {', '.join(f'{factor:.2g}' for factor in factors)} times as large as predicted. "
                f"{'This looks right.' if predicted else 'They are far larger than predicted: take more points.'}",
                predicted,
            ),
        )

    def _description(self) -> list[str]:
        samples = self.samples
        lines = heading(self, "Multi-output Bayesian quadrature", samples.counts, samples.design)
        each: dict[int, list[str]] = {}
        for g, group in enumerate(self.groups):
            for c, moved in zip(group.outputs, self._moved[g], strict=True):
                each[c] = _described(group.chosen, self._points.n, self._structure(g), moved, samples)
        if samples.stochastic:
            for c, std in zip(self._outputs, self.noise_std, strict=True):
                each[c].append(f"  Values of f are draws: the standard deviation of their noise is {std:.3g}.")
        lines += per_output([each[c] for c in self._outputs], self)
        lines.append(
            f"Predictive distribution: normal, with a scale that is known within a factor of "
            f"{self.calibrated_by.factor:g}."
        )
        if self._has_other_family:
            return [*lines, "Under another family than the one of its samples, whose points count as chosen."]
        return lines + _of_events(samples) + saving_lines(samples)


def _of_events(samples: Samples) -> list[str]:
    """A line for values that are 0 or 1, or counts, which no Gaussian process has."""
    values = samples.table
    if np.any((values < 0) | (values != np.round(values))) or np.all(np.ptp(values, axis=0) == 0):
        return []
    what = "0 or 1" if np.all(values <= 1) else "counts"
    return [f"All values of f are {what}: cbq.LatentBQ() has a model of them, whose intervals stay where I can be."]


def _residuals(chosen: KernelChoice, samples: Samples) -> str:
    """How large leave-one-out residuals of f are, besides the noise of a random f, in a few words."""
    size = f"{chosen.residual:.2g} times the standard deviation of f at the same theta"
    if not samples.stochastic:
        return size
    return f"{size}, besides the noise of f" if chosen.residual > 0 else "no larger than the noise of f"


def _described(chosen: KernelChoice, n: int, how: str, moved: float, samples: Samples) -> list[str]:
    """Lines about one output."""
    kernel = on_one_line(repr(chosen.kernel))
    others = [on_one_line(repr(member.kernel)) for member in chosen.members[1:]]
    return [
        f"One Gaussian process on {n} points ({how}): {kernel}, the best of {chosen.tried} kernels.",
        *(f"  Nearly as good: {kernel}." for kernel in others),
        f"  Leave-one-out residuals: {_residuals(chosen, samples)}.",
        f"  Leaving out points and thetas moves the estimate {moved:.2g} times as much as predicted; intervals are "
        f"scaled to match.",
    ]


def unreached(samples: Samples, reaches: Sequence[Reach], theta: Array) -> Array:
    """The share (M,) of the measures at thetas (M, p) that the runs do not reach, by the process that misses most."""
    found, u = np.zeros(len(theta)), sobol_blocks(samples.d, UNREACHED_POINTS, 1, np.random.default_rng(0))
    for m, measure in enumerate(samples.conditional(theta)):
        x, weights, _ = points_of(measure, u, 1)
        inputs = np.column_stack([x, np.tile(theta[m], (len(x), 1))]) if samples.depends_on_theta else x
        found[m] = max(float(weights @ reach.misses(inputs)) for reach in reaches)
    return found


def under_other_family(new: AnyFit, old: Fit) -> AnyFit:
    """The new fit, with a finding where the runs miss much more of its measures than of the measures of the old one."""
    theta = old.theta[evenly(len(old.theta), REACH_THETAS)]
    after, before = new._unreached(theta), old._unreached(theta)
    worst, findings = int(np.argmax(after - before)), [each for each in old.about_samples if each.kind != "reach"]
    if after[worst] - before[worst] > MUCH_MORE:
        text = (
            f"under this family, {np.mean(after):.0%} of the mass is where the runs do not reach, and "
            f"{after[worst]:.0%} at {old.names.at('theta', theta[worst])}; under the family of the samples it is "
            f"{np.mean(before):.0%}. There, f is less certain than at 95% of the runs, each predicted from all others."
        )
        findings.append(Finding("reach", text))
    return new._replaced(about_samples=tuple(findings), _has_other_family=True)
