"""The result of multi-output Bayesian quadrature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers
from cbq.embeddings.many import Integrals, line_for
from cbq.fit.base import Fit
from cbq.fit.joint import correlation
from cbq.fit.predictive import PredictiveDistribution
from cbq.fit.summary import heading, per_output, warning_lines
from cbq.io import Instance, Integer, Many, Numbers, Optional, Text, Texts, saved
from cbq.linalg import Jitter
from cbq.methods.averages import Averages, averages
from cbq.methods.mobq_saving import build_fit, check_fit, read_fit
from cbq.pooled import (
    UNKNOWN,
    KernelChoice,
    PooledGP,
    SplitHalfCalibration,
    nearest_psd,
    pooled_points,
    process,
    refuse_theta,
    residuals,
)
from cbq.samples import Samples

DEGREES = (
    4.0  # of freedom of the predictive distribution: two halves of the points say little about the size of the errors
)
MEMORY = 2**23  # numbers in the embeddings, and in the masses of measures, of a block of thetas


@saved(
    "Part",
    outputs=Many(Integer(0), "K", least=1),
    chosen=Instance(KernelChoice),
    landmarks=Optional(Numbers("m", int, least=0)),
    calibration=Instance(SplitHalfCalibration),
)
@dataclass(frozen=True, eq=False)
class Part:
    """The process of some outputs.

    outputs: which. chosen: the kernel, with its leave-one-out error. landmarks: rows of the points that stand for all,
    None for an exact process. calibration: of its variances, from halves of the points.
    """

    outputs: tuple[int, ...]
    chosen: KernelChoice
    landmarks: Integers | None
    calibration: SplitHalfCalibration


@saved(
    "MOBQ",
    read=read_fit,
    build=build_fit,
    check=check_fit,
    samples=Instance(Samples),
    parts=Many(Instance(Part), least=1),
    jitter=Instance(Jitter),
    settings=Texts(),
    warnings=Many(Text()),
    embedding=Numbers("T _"),
)
class MOBQFit(Fit):
    """I over theta by multi-output Bayesian quadrature; see `Fit` for what to ask of it.

    The distribution is Student-t around the posterior mean. Its variance is that of the posterior, corrected by how much more,
    or less, the estimates from half of the points differ from those of all than the process expects.

    parts : for each group of outputs the kernel that was chosen.
    settings : how it was made, in words.
    warnings : what a user should know, in plain words.
    """

    def __init__(
        self,
        samples: Samples,
        parts: Sequence[Part],
        *,
        jitter: Jitter,
        settings: Mapping[str, str],
        warnings: Sequence[str] = (),
    ) -> None:
        self.samples, self.parts, self.jitter = samples, tuple(parts), jitter
        self.settings, self.own_warnings = dict(settings), tuple(warnings)
        self.theta, self.C = samples.theta, samples.C
        self._points, _ = pooled_points(samples)
        self._processes = [self._process(part) for part in self.parts]
        self._lines = [line_for(part.chosen.kernel, samples.measures) for part in self.parts]

    def _process(self, part: Part) -> PooledGP:
        points = self._points.outputs(part.outputs)
        nodes = None if part.landmarks is None else points.u[part.landmarks]
        return process(part.chosen.kernel, points, nodes, self.jitter)

    def _integrals(self, theta: Array) -> Iterator[tuple[Part, PooledGP, Integrals]]:
        """The integrals under the measures of x at theta (M, p) that each part needs."""
        measures = self.samples.conditional(theta)
        for part, each, line in zip(self.parts, self._processes, self._lines, strict=True):
            refuse_theta(part.chosen.kernel, theta)
            yield part, each, Integrals(part.chosen.kernel, measures, theta, line)

    def _means(self, theta: Array) -> list[Array]:
        found: dict[int, Array] = {}
        for part, each, integrals in self._integrals(theta):
            mean = each.mean(integrals.mean(each.nodes))
            found |= {c: self._points.shift[c] + self._points.scale[c] * mean[:, j] for j, c in enumerate(part.outputs)}
        return [found[c] for c in self._outputs]

    def _predictives(self, theta: Array, *, joint: bool) -> list[PredictiveDistribution]:
        found = {}
        for part, each, integrals in self._integrals(theta):
            mu = integrals.mean(each.nodes)
            mean = each.mean(mu)
            variance = each.variance(mu, integrals.variance()).T  # (C, M)
            spread = variance
            if joint:
                pairs = zip(each.covariance(mu, integrals.cross()), variance, strict=True)
                spread = np.stack([nearest_psd(*pair) for pair in pairs])
            for j, c in enumerate(part.outputs):
                shift, scale = self._points.shift[c], self._points.scale[c]
                total = each.amplitude[j] * part.calibration.inflation[j] * spread[j] + part.calibration.common[j]
                scales2 = scale**2 * (DEGREES - 2) / DEGREES * total
                found[c] = PredictiveDistribution((shift + scale * mean[:, j])[None], scales2[None], DEGREES)
        return [found[c] for c in self._outputs]

    @property
    def correlation(self) -> Array:
        """How the errors of outputs go together: (C, C), or (1, 1) where f has no axis of outputs."""
        columns: dict[int, Array] = {}
        for part in self.parts:
            found = residuals(part.chosen.kernel, self._points.outputs(part.outputs), self.jitter)
            columns |= dict(zip(part.outputs, found.T, strict=True))
        return correlation(np.stack([columns[c] for c in self._outputs], axis=1))

    @property
    def _at_a_time(self) -> int:
        nodes = [len(each.nodes) for each in self._processes] + [len(line.y) for line in self._lines if line]
        return max(1, MEMORY // max(nodes))

    @property
    def averages(self) -> Averages:
        """The plain averages of f at each theta."""
        return averages(self.samples)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know, in plain words."""
        found = list(self.own_warnings)
        if any(part.chosen.error >= UNKNOWN for part in self.parts):
            found.append(
                "f has not been learnt: its values are predicted hardly better from all others than by their mean. It "
                "may be noise, or vary faster than the points can tell; cbq.CBQ() or cbq.LSMC() may do better."
            )
        if not self.samples.conditional.everywhere:
            found.append("the samples have no family, so only the observed thetas can be asked about.")
        return tuple(found)

    def summary(self) -> str:
        samples = self.samples
        lines = heading(self, "Multi-output Bayesian quadrature", samples.counts, samples.design)
        of = {c: part for part in self.parts for c in part.outputs}
        lines += per_output([_described(of[c], c, self._points.n) for c in self._outputs], self.C)
        lines.append(f"Predictions are Student-t distributions with {DEGREES:g} degrees of freedom.")
        return "\n".join(lines + warning_lines(self.warnings))

    def __repr__(self) -> str:
        return f"MOBQFit(T={len(self.theta)}, p={self.p}, C={self.C})"


def _described(part: Part, c: int, n: int) -> list[str]:
    """Lines about one output."""
    how = "exactly" if part.landmarks is None else f"through {len(part.landmarks)} landmarks"
    size = np.sqrt(part.calibration.inflation[part.outputs.index(c)])
    return [
        f"One Gaussian process on {n} points, {how}: {' '.join(repr(part.chosen.kernel).split())}, the best of "
        f"{part.chosen.tried}.",
        f"  Leaving one point out: an error of {part.chosen.error:.2g} of the standard deviation of f at its theta.",
        f"  Halves of the points: errors are {size:.2g} times what the process claims, and its intervals follow.",
    ]
