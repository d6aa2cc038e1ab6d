"""The fit of multi-output Bayesian quadrature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cbq._arrays import Array, Integers, evenly
from cbq.embeddings.many import Integrals, LineRule, line_for, together
from cbq.fit.base import Fit
from cbq.fit.findings import Finding
from cbq.fit.of_samples import few_points_together, few_thetas, tails
from cbq.fit.predictive import PredictiveDistribution
from cbq.fit.suggestion import N_WANTED, Suggestion, thetas_between
from cbq.fit.summary import heading, on_one_line, per_output, saving_lines
from cbq.gp.choice import NOT_LEARNT, KernelChoice, SplitHalfCalibration, leave_one_out, processes_of
from cbq.gp.constant_mean import FLAT, explain
from cbq.gp.pooled import IntegralPosterior, PooledGP
from cbq.io import Instance, Integer, Many, Numbers, Optional, Texts, saved
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.dense import correlation
from cbq.linalg.threads import blas_threads
from cbq.measures import Measure
from cbq.methods.baselines.averages import Averages, averages
from cbq.methods.multioutput.candidates import pooled_points, refuse_theta
from cbq.methods.multioutput.saving import build_fit, check_fit, read_fit
from cbq.methods.multioutput.suggestion import N_CANDIDATES, Wanted, choose_points, with_tails
from cbq.methods.multioutput.unreached import unreached
from cbq.samples import Samples
from cbq.samples.runs import Runs

ROUNDING_THETAS = 5  # of the observed ones, at which rounding errors are compared with standard deviations
PREDICTIVE_DF = 4.0  # degrees of freedom: two halves of the points say little about the size of the errors
PREDICTIVE_SHARES = np.array([0.1, 1.9])  # of the variance, of two equally likely sizes of the errors
IN_ONE_THREAD = 3000  # points: fewer need seconds, and numbers must not depend on the number of BLAS threads
UNREACHED = 0.2  # the standard deviation of f where no point has been, in units of that over all points
MAX_NUMBERS = 2**23  # in the embeddings, and in the masses of measures, of a block of thetas


@saved(
    "OutputGroup",
    outputs=Many(Integer(0), "K", least=1),
    chosen=Instance(KernelChoice),
    landmarks=Optional(Numbers("m", int, least=0)),
    calibration=Instance(SplitHalfCalibration),
)
@dataclass(frozen=True, eq=False)
class OutputGroup:
    """Outputs that share a process.

    outputs: which. chosen: the kernels that are averaged, with their leave-one-out errors. landmarks: rows of the
    points that stand for all, None for an exact process. calibration: of its variances, from halves of the points.
    """

    outputs: tuple[int, ...]
    chosen: KernelChoice
    landmarks: Integers | None
    calibration: SplitHalfCalibration

    @property
    def is_learnt(self) -> bool:
        """Whether the process predicts f better than its mean does."""
        return self.chosen.error < NOT_LEARNT


@dataclass(frozen=True, eq=False)
class _Part:
    """One of the processes that are averaged, and the rule for the measures on a line that it may need."""

    kernel: Kernel
    process: PooledGP
    line: LineRule | None

    @property
    def nodes(self) -> list[Array]:
        """The nodes at which measures and embeddings are needed."""
        return [self.process.nodes] if self.line is None else [self.process.nodes, self.line.y]


@saved(
    "MOBQ",
    read=read_fit,
    build=build_fit,
    check=check_fit,
    samples=Instance(Samples),
    groups=Many(Instance(OutputGroup), least=1),
    jitter=Instance(Jitter),
    settings=Texts(),
    findings=Many(Instance(Finding)),
    embedding=Numbers("T _"),
)
class MOBQFit(Fit):
    """I over theta by multi-output Bayesian quadrature; see `Fit` for what it answers.

    The predictive distribution is the mixture of two Student-t distributions around the posterior mean, averaged over
    kernels. Its variance is that of the posterior, with what the kernels disagree on, corrected by how much more, or
    less, the estimates from half of the points, and without each theta, differ from those of all than the process
    expects. It grows where much of the measure of x lies beyond the points of all thetas. One of the two is wide and
    one narrow, because the data tell the size of the errors within a factor of about four only.

    groups : the outputs that share their processes, and the kernels that were chosen for each group.
    settings : the options of the estimator, as text.
    """

    conditional_on = "f going on there as it does at the points where it succeeded"

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
        self._points, _ = pooled_points(samples)
        with self._threads():
            measures = together(samples.measures)
            if processes is None:
                processes = [
                    processes_of(group.chosen, self._points.outputs(group.outputs), group.landmarks, jitter)
                    for group in groups
                ]
            self._parts = [
                [
                    _Part(member.kernel, process, line_for(member.kernel, measures))
                    for member, process in zip(group.chosen.members, each, strict=True)
                ]
                for group, each in zip(groups, processes, strict=True)
            ]

    def _integrals(
        self, theta: Array, measures: Sequence[Measure]
    ) -> Iterator[tuple[OutputGroup, list[tuple[PooledGP, Integrals]]]]:
        """The processes of each group, and the integrals that they need under the M measures of x at theta (M, p)."""
        measures = together(measures)
        for group, parts in zip(self.groups, self._parts, strict=True):
            for part in parts:
                refuse_theta(part.kernel, theta)
            yield group, [(part.process, Integrals(part.kernel, measures, theta, part.line)) for part in parts]

    def _means(self, theta: Array) -> list[Array]:
        found: dict[int, Array] = {}
        shift, scale = self._points.shift, self._points.scale
        with self._threads():
            for group, parts in self._integrals(theta, self.samples.conditional(theta)):
                means = [process.mean(integrals.mean(process.nodes)) for process, integrals in parts]
                mean = np.tensordot(group.chosen.weights, means, 1)  # (M, C)
                found |= {c: shift[c] + scale[c] * mean[:, j] for j, c in enumerate(group.outputs)}
        return [found[c] for c in self._outputs]

    def _predictives(self, theta: Array, *, joint: bool) -> list[PredictiveDistribution]:
        found: dict[int, PredictiveDistribution] = {}
        with self._threads():
            measures = self.samples.conditional(theta)
            beyond = UNREACHED * unreached(measures, self.samples.all_points)  # (M,)
            beyond2 = np.multiply.outer(beyond, beyond) if joint else beyond**2
            spread2 = np.var(self._points.f, axis=0)
            for group, parts in self._integrals(theta, measures):
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

    def _threads(self) -> AbstractContextManager[None]:
        return blas_threads(self._points.n, IN_ONE_THREAD)

    def _widened(self, factors: Array, least: Array) -> MOBQFit:
        """The same fit with variances multiplied by factors (C,), if these are above 1, and at least `least` (C,)."""
        groups, scale2 = [], self._points.scale**2
        for group in self.groups:
            c = list(group.outputs)
            calibration = group.calibration.widened(np.maximum(factors[c], 1.0), least[c] / scale2[c])
            groups.append(replace(group, calibration=calibration))
        return self._replaced(groups=tuple(groups))

    def _with_findings(self, findings: Sequence[Finding]) -> MOBQFit:
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
        columns: dict[int, Array] = {}
        for group in self.groups:
            found = leave_one_out(group.chosen, self._points.outputs(group.outputs), self.jitter)
            columns |= dict(zip(group.outputs, found.T, strict=True))
        return correlation(np.stack([columns[c] for c in self._outputs], axis=1))

    def squared_residuals(self) -> tuple[Array, Array]:
        """The points (n, D), and their squared leave-one-out residuals (n,) in units of the expected variances.

        By the heaviest kernels, averaged over outputs.
        """
        squares = np.zeros(self._points.n)
        for group, parts in zip(self.groups, self._parts, strict=True):
            member, data = group.chosen.members[0], self._points.outputs(group.outputs).data
            found = explain(member.kernel, data, FLAT, self.jitter, [member.noise])
            amplitude = np.where(parts[0].process.amplitude > 0, parts[0].process.amplitude, 1.0)
            expected = amplitude / found.precision[0, 0][:, None]  # (n, K)
            squares += np.sum(found.residuals[0, 0] ** 2 / expected, axis=1) / len(self._outputs)
        return self._points.u, squares

    def _suggest(self, n: int, prior: Any, rng: np.random.Generator) -> Suggestion:
        family, samples = self.samples.conditional, self.samples
        if not family.everywhere:
            raise ValueError("the samples have no family, so the measure of x at other thetas is not known: pass one.")
        wanted = thetas_between(samples.theta, prior, N_WANTED, rng)
        M = max(N_CANDIDATES, 2 * n)  # a candidate is chosen once
        theta = thetas_between(samples.theta, prior, M, rng)
        candidates = Runs.at(theta, family.one, with_tails(rng.random((M, samples.d))))
        known = Runs(samples.theta[samples.owners], samples.all_points)
        if samples.stochastic:
            candidates += known  # a further draw where there is one may be worth more than one elsewhere
        of_theta = samples.depends_on_theta
        rows = choose_points(n, candidates, Wanted.at(wanted, family.one), known, self, of_theta=of_theta)
        return Suggestion(candidates.theta[rows], candidates.x[rows])

    @property
    def _block_size(self) -> int:
        parts = [part for each in self._parts for part in each]
        return max(1, MAX_NUMBERS // max(len(nodes) for part in parts for nodes in part.nodes))

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
        if not self.samples.conditional.everywhere:
            text = "the samples have no family, so this fit predicts at the observed thetas only."
            found.append(Finding("design", text))
        return tuple(found)

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
        of = {c: group for group in self.groups for c in group.outputs}
        each = {c: _described(of[c], c, self._points.n) for c in self._outputs}
        if samples.stochastic:
            for c, std in zip(self._outputs, self.noise_std, strict=True):
                each[c].append(f"  Values of f are draws: the standard deviation of their noise is {std:.3g}.")
        lines += per_output(list(each.values()), self.C)
        lines.append(
            f"Predictive distribution: two Student-t distributions with {PREDICTIVE_DF:g} degrees of freedom, a narrow "
            f"and a wide one."
        )
        return lines + saving_lines(samples)


def _described(group: OutputGroup, c: int, n: int) -> list[str]:
    """Lines about one output."""
    how = "exact" if group.landmarks is None else f"{len(group.landmarks)} landmarks"
    size = np.sqrt(group.calibration.inflation[group.outputs.index(c)])
    members, tried = group.chosen.members, group.chosen.tried
    if len(members) == 1:
        kernel = on_one_line(repr(members[0].kernel))
        lines = [f"One Gaussian process on {n} points ({how}): {kernel}, the best of {tried} kernels."]
    else:
        lines = [
            f"The average of {len(members)} Gaussian processes on {n} points ({how}), the best of {tried} kernels:"
        ]
        lines += [f"  {member.weight:.0%} {on_one_line(repr(member.kernel))}" for member in members]
    return [
        *lines,
        f"  Leave-one-out residuals: {group.chosen.error:.2g} times the standard deviation of f at the same theta.",
        f"  Fits to halves of the points, and without each theta, differ {size:.2g} times as much as predicted; "
        f"intervals are scaled to match.",
    ]
