"""The fit of multi-output Bayesian quadrature, and what must hold in a saved one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from cbq.common import Array, Booleans, Integers
from cbq.embeddings.many import Integrals, SharedRule, line_for, together
from cbq.estimators.base import variances_near
from cbq.estimators.multioutput.base import (
    IN_ONE_THREAD,
    Made,
    OutputGroup,
    Part,
    PooledFit,
    under_other_family,
    unreached,
)
from cbq.estimators.multioutput.candidates import pooled_points, refuse_theta
from cbq.estimators.multioutput.suggestion import EXPLORATION, Wanted, between_steepest, choose_points, with_tails
from cbq.fit import N_WANTED, CorrelatedValues, Emulator, Finding, PredictiveDistribution, Suggestion, thetas_between
from cbq.gp import (
    Calibration,
    Embedded,
    ExactGP,
    KernelChoice,
    LocalAmplitude,
    NystromGP,
    PointsGP,
    PointValues,
    PooledPoints,
    Reach,
    SubsetGP,
    disagreement,
    left_out_residuals,
    processes_of,
)
from cbq.io import Instance, Integer, Many, Numbers, Optional, Texts, saved
from cbq.kernels import Kernel, XThetaKernel
from cbq.linalg import Jitter
from cbq.linalg.threads import blas_threads
from cbq.measures import Measure
from cbq.measures.base import measure_argument
from cbq.samples import TOLERANCE, Runs, Samples, other_measures

MAX_NUMBERS = 2**20  # in the embeddings, and in the masses of measures, of a block of thetas: more leave the cache


def read_fit(fit: MOBQFit) -> dict[str, Any]:
    """The fields of a saved fit that are not its attributes."""
    return {"findings": fit.own_findings, "embedding": _embedding(fit.groups[0].chosen.kernel, fit.samples)}


def check_fit(samples: Samples, groups: Sequence[PointsGroup], **_: Any) -> None:
    """Raise unless the groups go with the samples."""
    n = pooled_points(samples)[0].n
    check_groups(groups, samples.C or 1)
    for group in groups:
        for member in group.chosen.members:
            check_kernel(member.kernel, samples.d, samples.p if samples.depends_on_theta else None)
        if len(group.chosen.members) > 1 and group.landmarks is not None:
            raise ValueError("a group with landmarks must have one kernel.")
        rows = group.landmarks
        if rows is not None and (np.max(rows) >= n or len(np.unique(rows)) < len(rows)):
            raise ValueError(f"the landmarks of a group must be different numbers below {n}, the number of points.")


def check_groups(groups: Sequence[OutputGroup], C: int) -> None:
    """Raise unless each output is in one group."""
    if sorted(c for group in groups for c in group.outputs) != list(range(C)):
        raise ValueError(f"the outputs of all groups must be the numbers below {C}, each of them once.")


def build_fit(
    cls: type[MOBQFit], _: Any, samples: Samples, groups: Sequence[PointsGroup], embedding: Array, **options: Any
) -> MOBQFit:
    """The fit, if the measures of the samples have the integrals that they had in it."""
    found = _embedding(groups[0].chosen.kernel, samples)
    if found.shape != embedding.shape:
        raise ValueError(f"embedding must have the shape {found.shape}, but it has {embedding.shape}.")
    other = np.any(np.abs(found - embedding) > TOLERANCE * np.max(np.abs(embedding)), axis=1)
    if np.any(other):
        why = f"at theta = {samples.theta[np.argmax(other)]} its measure has other integrals."
        raise other_measures(samples.family, why)
    return cls(samples, groups, **options)


def check_kernel(kernel: Kernel, d: int, p: int | None) -> None:
    """Raise unless it is a kernel on x in d dimensions, or on x and theta in p dimensions."""
    parts = [kernel.on_x] if kernel.on_theta is None else [kernel.on_x, kernel.on_theta]
    if (len(parts) == 2) != (p is not None):
        what = "x" if p is None else "x and theta"
        raise ValueError(f"the kernel must be one of {what}, but it is {kernel!r}.")
    if isinstance(kernel, XThetaKernel) and kernel.d != d:
        raise ValueError(f"the kernel is for x in {kernel.d} dimensions, but x has {d}.")
    for part, dimension in zip(parts, (d, p or 0), strict=False):
        part.check_dim(dimension)
        if part.log_lengthscales.ndim > 1:
            raise ValueError("the kernel has the lengthscales of several kernels.")


def _embedding(kernel: Kernel, samples: Samples, m: int = 5) -> Array:
    """The embeddings (T, m) of the measures of all thetas at m of the points, by which measures are recognised."""
    points = pooled_points(samples)[0].thinned(m)
    return Integrals(kernel, samples.measures, samples.theta).mean(points.u)


@saved(
    "OutputGroup",
    outputs=Many(Integer(0), "K", least=1),
    chosen=Instance(KernelChoice),
    landmarks=Optional(Numbers("m", int, least=0)),
)
@dataclass(frozen=True, eq=False)
class PointsGroup(OutputGroup):
    """Outputs that share a process on points.

    landmarks: rows of the points that stand for all, None for an exact process.
    """

    landmarks: Integers | None


@dataclass(frozen=True, eq=False)
class _Part:
    """The process of one kernel, and the rule for the measures on lines that it may need."""

    kernel: Kernel
    process: PointsGP
    line: SharedRule | None

    @classmethod
    def under(cls, kernel: Kernel, process: PointsGP, measures: Sequence[Measure]) -> _Part:
        """With the rule for these measures, given as `together` returns them."""
        try:
            return cls(kernel, process, line_for(kernel, measures, x=process.nodes[:, : measures[0].dim]))
        except (TypeError, ValueError) as error:  # no embedding, or no logarithm of x
            raise ValueError(
                f"the kernel of x of this fit, {kernel.on_x!r}, has no embedding under {measures[0]!r}: fit again with "
                f"another one, such as cbq.MOBQ(kernel_x=cbq.kernels.RBF()). {error}"
            ) from error

    def integrals(self, theta: Array, measures: Sequence[Measure]) -> Integrals:
        return Integrals(self.kernel, measures, theta, self.line)

    def embeddings(self, nodes: Array, integrals: Embedded, theta: Array) -> Array:
        return integrals.mean(nodes)

    @property
    def n_nodes(self) -> int:
        """The number of nodes at which measures or embeddings are needed."""
        return max(len(self.process.nodes), 0 if self.line is None else self.line.n_nodes)


@saved(
    "MOBQ",
    read=read_fit,
    build=build_fit,
    check=check_fit,
    samples=Instance(Samples),
    groups=Many(Instance(PointsGroup), least=1),
    jitter=Instance(Jitter),
    calibrated_by=Instance(Calibration),
    settings=Texts(),
    findings=Many(Instance(Finding)),
    embedding=Numbers("T _"),
)
class MOBQFit(PooledFit):
    """I over theta by multi-output Bayesian quadrature; see `Fit` for its answers.

    The predictive distribution is a mixture of three Gaussians around the posterior mean of the best kernel. Their
    scale is the standard deviation of the posterior, with an amplitude at each theta that follows from how much the
    integral there moves when the points of a theta are left out, and with the disagreement of other kernels that
    explain f nearly as well; it is known within a factor (`cbq.Calibration`).

    groups : the outputs that share their processes, and the kernels that were chosen for each group.
    calibrated_by : how intervals were calibrated.
    settings : the options of the estimator, as text.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> fit = cbq.MOBQ().fit(samples)
    >>> fit.suggest(3).theta.shape  # where further runs would help most
    (3, 1)
    """

    groups: tuple[PointsGroup, ...]
    _points: PooledPoints
    _parts: list[list[_Part]]  # type: ignore[assignment]

    def _set_processes(self, made: Made | None) -> None:
        self._points = pooled_points(self.samples)[0] if made is None else made[0]
        with self._threads():
            measures = together(self.samples.measures)
            processes = (
                [
                    processes_of(each.chosen, self._points.outputs(each.outputs), each.landmarks, self.jitter)
                    for each in self.groups
                ]
                if made is None
                else made[1]
            )
            self._parts = [
                [
                    _Part.under(member.kernel, process, measures)
                    for member, process in zip(group.chosen.members, each, strict=True)
                ]
                for group, each in zip(self.groups, processes, strict=True)
            ]
            pairs = zip(self.groups, processes, strict=True)
            self._amplitudes = [self._amplitude(group, best) for group, (best, *_) in pairs]

    def _amplitude(self, group: PointsGroup, process: PointsGP) -> LocalAmplitude:
        """The amplitudes of integrals by the best process given all points, or some of them."""
        points, chosen = self._points.outputs(group.outputs), group.chosen
        some = points.thinned(self.calibrated_by.points)
        owners = None if self.samples.design == "adaptive" else some.owners  # of chosen points, thetas are labels
        if isinstance(process, NystromGP):
            subset = SubsetGP(process, chosen.kernel, some.u, some.f, self.jitter)
            return LocalAmplitude(subset, owners, some.places)
        if some.n < points.n or not isinstance(process, ExactGP):
            process = ExactGP(chosen.kernel, some.u, some.f, self.jitter, chosen.noise)
        return LocalAmplitude(process, owners, some.places)

    @property
    def emulator(self) -> Emulator:
        return Emulator(self, self.samples, FitValues(self), self.noise_std, self.calibrated_by.ratios2)

    def _under(self, family: Any) -> Self:
        samples = self.samples._under(family)
        measures = together(samples.measures)
        parts = [[_Part.under(each.kernel, each.process, measures) for each in parts] for parts in self._parts]
        return under_other_family(self._replaced(samples=samples, _parts=parts), self)

    def _unreached(self, theta: Array) -> Array:
        return unreached(self.samples, self._reaches, theta)

    @cached_property
    def _reaches(self) -> list[Reach]:
        """How far the runs reach, by the best kernel of each group."""
        found = []
        for group in self.groups:
            some, best = self._points.thinned(self.calibrated_by.points), group.chosen.members[0]
            found.append(Reach.of(best.kernel, some.u, self.jitter, best.noise))
        return found

    def _measures(self, theta: Array) -> Sequence[Measure]:
        return self.samples.conditional(theta)

    def _observed(self, rows: Integers) -> Sequence[Measure]:
        return [self.samples.measures[t] for t in rows]

    def _left_out(self, group: OutputGroup) -> Array:
        points = self._points.outputs(group.outputs)
        return left_out_residuals(group.chosen, points, self.jitter, self.calibrated_by.points)

    def _structure(self, g: int) -> str:
        landmarks = self.groups[g].landmarks
        return "exact" if landmarks is None else f"{len(landmarks)} landmarks"

    def _threads(self) -> AbstractContextManager[None]:
        return blas_threads(self._points.n, IN_ONE_THREAD)

    def _remarks(self) -> tuple[Finding, ...]:
        if self.samples.conditional.everywhere:
            return super()._remarks()
        text = "the samples have no family, so this fit predicts at the observed thetas only."
        return (*super()._remarks(), Finding("design", text))

    def squared_residuals(self) -> tuple[Array, Array]:
        """The points (n, D), and their squared leave-one-out residuals (n,) in units of the expected variances.

        By the best kernels, averaged over outputs.
        """
        squares = np.zeros(self._points.n)
        for group in self.groups:
            points, chosen = self._points.outputs(group.outputs), group.chosen
            process = ExactGP(chosen.kernel, points.u, points.f, self.jitter, chosen.noise).process
            amplitude = np.where(process.amplitude > 0, process.amplitude, 1.0)
            expected = amplitude / process.precision[:, None]  # (n, K)
            squares += np.sum(process.residuals**2 / expected, axis=1) / len(self._outputs)
        return self._points.u, squares

    def _noise(self, theta: Array, *, most: int = 1000) -> Array:
        found = np.zeros((len(theta), len(self._outputs)))
        for group in self.groups:
            points, chosen = self._points.outputs(group.outputs).thinned(most), group.chosen
            process = ExactGP(chosen.kernel, points.u, points.f, self.jitter, chosen.noise).process
            # The ratio of a squared residual to its expectation is 1 on average where the noise is the common one.
            amplitude = np.maximum(process.amplitude, np.finfo(float).tiny)
            ratios = process.residuals**2 * process.precision[:, None] / amplitude
            local = variances_near(theta, self.samples.theta[points.owners], ratios)
            found[:, list(group.outputs)] = np.sqrt(local) * self.noise_std[list(group.outputs)]
        return found

    def _prior_std(self, g: int, k: int, need: Array | None = None) -> float:
        """The standard deviation of f under the prior of process k of group g, for the output needed most."""
        outputs, amplitude = list(self.groups[g].outputs), self._parts[g][k].process.amplitude
        j = 0 if need is None else int(np.argmax(need[outputs]))
        return float(self._points.scale[outputs[j]] * np.sqrt(amplitude[j]))

    def _spread(self, need: Array | None = None) -> float:
        """The standard deviation of the values of the output of f that is needed most, by `need` (C,)."""
        c = 0 if need is None else int(np.argmax(need))
        return float(np.std(self.samples.table[:, c]))

    @property
    def jumping(self) -> list[int]:
        """The outputs of f that seem to jump: not constant, and the roughest kernel is the best."""
        groups = [each for each in self.groups if each.chosen.kernel.is_roughest]
        return [c for group in groups for c in group.outputs if self._points.variance[c] > 0]

    def _disagreements(self, u: Array) -> Array:
        """How far, squared, the means of f at u (M, D) are from those by kernels a step rougher, (M,).

        In units of the variances that the rougher ones expect, averaged over kernels and outputs. A kernel that none is
        rougher than counts where f seems to jump: elsewhere it would say no more than that f is steep.
        """
        squares = np.zeros(len(u))
        for group in self.groups:
            points, members = self._points.outputs(group.outputs), group.chosen.members
            if not members[0].kernel.is_roughest:
                members = tuple(each for each in members if not each.kernel.is_roughest)
            chosen = replace(group.chosen, members=members)
            for weight, member in zip(chosen.weights, members, strict=True):
                found = disagreement(member.kernel, points.u, points.f, u, self.jitter, member.noise)
                squares += weight * np.sum(found, axis=1) / len(self._outputs)
        return squares

    def _suggest(self, n: int, prior: Any, rng: np.random.Generator) -> Suggestion:
        if n > (most := EXPLORATION.most):
            raise ValueError(
                f"n must be at most {most} runs, which MOBQ chooses jointly, but it is {n}: make some of them "
                f"first, and fit again, as their values show where others help."
            )
        family, samples = self.samples.conditional, self.samples
        if not family.everywhere:
            raise ValueError("the samples have no family, so the measure of x at other thetas is not known: pass one.")
        wanted = thetas_between(samples.theta, prior, N_WANTED, rng)
        M = max(EXPLORATION.candidates, 2 * n)  # a candidate is chosen once
        theta = thetas_between(samples.theta, prior, M, rng)
        candidates = Runs.at(theta, family.one, with_tails(rng.random((M, samples.d))))
        known = Runs(samples.theta[samples.owners], samples.all_points)
        if self.jumping:
            candidates += between_steepest(self, None if prior is None else measure_argument(prior, "prior"), rng)
        if samples.stochastic:
            candidates += known  # a further draw where there is one may be worth more than one elsewhere
        of_theta = samples.depends_on_theta
        rows = choose_points(n, candidates, Wanted.at(wanted, family.one), known, self, of_theta=of_theta)
        return Suggestion(candidates.theta[rows], candidates.x[rows], self.names)

    @property
    def _block_size(self) -> int:
        return max(1, MAX_NUMBERS // max(part.n_nodes for each in self._parts for part in each))


@dataclass(frozen=True, eq=False)
class ValuesAt:
    """The values of f at points u (n, D), which are x, or x and theta."""

    u: Array

    def of(self, part: Part) -> Embedded:
        return PointValues(part.kernel, self.u)

    def embeddings(self, part: Part, functionals: Embedded, nodes: Array) -> Array:
        return functionals.mean(nodes)


@dataclass(frozen=True, eq=False)
class FitValues:
    """The process of f for an `Emulator`: a `ValueProcess`."""

    fit: MOBQFit

    def distributions(self, x: Array, theta: Array | None, *, joint: bool) -> list[PredictiveDistribution]:
        """The distribution of each output of f at points x (n, d) and thetas (n, p)."""
        nothing = [np.zeros(len(group.outputs)) for group in self.fit.groups]  # values have no error in common
        with self.fit._threads():
            return self.fit._distributions(ValuesAt(self._inputs(x, theta)), nothing, joint=joint)

    def means(self, x: Array, theta: Array | None) -> Array:
        """The means (n, C) of f, without variances."""
        u, found = self._inputs(x, theta), dict[int, Array]()
        with self.fit._threads():
            for group, (best, *_) in zip(self.fit.groups, self.fit._parts, strict=True):
                mean = best.process.mean(best.kernel(u, best.process.nodes))
                found |= self.fit._columns(group, mean)
        return np.stack([found[c] for c in self.fit._outputs], axis=1)

    def correlated(self, x: Array, theta: Array | None) -> list[CorrelatedValues]:
        """Each output of f, with its covariances."""
        u, found = self._inputs(x, theta), dict[int, CorrelatedValues]()
        with self.fit._threads():
            for g, (group, (best, *_)) in enumerate(zip(self.fit.groups, self.fit._parts, strict=True)):
                mu, mean, amplitude, errors = self.fit._terms(g, ValuesAt(u), PointValues(best.kernel, u))
                known, unknown = best.process.covariance_roots(mu)
                for j, (c, location) in enumerate(self.fit._columns(group, mean).items()):
                    scale = self.fit._points.scale[c]
                    apart = scale * np.stack([error[j] for error in errors], axis=1)
                    std = scale * np.sqrt(amplitude[j])
                    found[c] = CorrelatedValues(location, best.kernel, u, std, known, unknown[j], apart)
        return [found[c] for c in self.fit._outputs]

    def misses(self, x: Array, theta: Array | None) -> Booleans:
        """Whether each of the points is where the runs do not reach, for each output, (n, C)."""
        u, found = self._inputs(x, theta), np.empty((len(x), len(self.fit._outputs)), dtype=bool)
        for group, reach in zip(self.fit.groups, self.fit._reaches, strict=True):
            found[:, list(group.outputs)] = reach.misses(u)[:, None]
        return found

    def _inputs(self, x: Array, theta: Array | None) -> Array:
        """The inputs (n, D) of the processes at points x (n, d) and thetas (n, p)."""
        if not self.fit.samples.depends_on_theta:
            return x
        if theta is None:
            raise ValueError("theta is missing: f depends on it. Pass one theta (p,), or one for each point, (n, p).")
        for best, *_ in self.fit._parts:
            refuse_theta(best.kernel, theta)
        return np.column_stack([x, theta])
