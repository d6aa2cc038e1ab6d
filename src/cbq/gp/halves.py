"""How far a pooled process can be trusted: by what it says given parts of its values.

Halves of the points calibrate the process: it predicts the variance of the difference between the integral given half
of the points and given all, which is the difference of the two posterior variances. Where f is far smoother than draws
of the prior, or rounding errors dominate, the process is overconfident, and the actual differences show it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cbq._arrays import Array
from cbq.embeddings.many import Integrals
from cbq.gp.choice import CHOICE_POINTS, NOT_LEARNT, KernelChoice, PooledPoints
from cbq.gp.pooled import HALVES, ExactGP, HalvedGP, IntegralPosterior
from cbq.io import Numbers, saved
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.threads import one_blas_thread

MIN_LEFT_OUT = 3  # thetas: with fewer, those that are left say nothing


@saved(
    "SplitHalfCalibration", inflation=Numbers("K", least=0.0, inline=True), common=Numbers("K", least=0.0, inline=True)
)
@dataclass(frozen=True, eq=False)
class SplitHalfCalibration:
    """Corrections of the variances of C outputs, from the differences between fits to halves of the points.

    inflation: (C,), the factor of all variances. common: (C,), a variance that is added at all thetas.
    """

    inflation: Array
    common: Array

    def at_least(self, inflation: Array) -> SplitHalfCalibration:
        """The same with factors of at least `inflation` (C,)."""
        return replace(self, inflation=np.maximum(self.inflation, inflation))

    def widened(self, factors: Array, least: Array) -> SplitHalfCalibration:
        """The same with variances multiplied by factors (C,), and then at least `least` (C,)."""
        return SplitHalfCalibration(self.inflation * factors, np.maximum(self.common * factors, least))

    def variance(self, posterior: Array, c: int) -> Array:
        """The calibrated (co)variances of output c, from those of the process."""
        return np.asarray(self.inflation[c] * posterior + self.common[c])


def split_half_calibration(
    choice: KernelChoice, processes: Sequence[HalvedGP], integrals: Callable[[Kernel], Integrals]
) -> SplitHalfCalibration:
    """Compare the integrals given halves of the points with those given all, and with what the process expects.

    processes: given all points, one for each kernel of the choice.
    The squared error is assumed to fall, from half of the points to all, by the square root of the predicted ratio of
    variances. Where errors are larger than predicted, variances are multiplied by the ratio; where they are smaller, by
    its square root, unless f was not learnt, since halves agree on what neither has learnt. `common` is the median
    squared error over thetas.
    """
    whole: list[IntegralPosterior] = []
    parts: list[list[IntegralPosterior]] = [[] for _ in HALVES]
    for member, process in zip(choice.members, processes, strict=True):
        mine = integrals(member.kernel)
        mu, z = mine.mean(process.nodes), mine.variance()
        whole.append(IntegralPosterior.at(process, mu, z))
        for k, half in enumerate(HALVES):
            part = process.half(k)
            at = mu if part.nodes is process.nodes else mu[:, half]
            # at the amplitude of all points: the ratio of variances must not depend on the luck of a half
            parts[k].append(IntegralPosterior.at(part, at, z, process.amplitude))
    return calibrated(choice, whole, parts)


def calibrated(
    choice: KernelChoice, whole: Sequence[IntegralPosterior], parts: Sequence[Sequence[IntegralPosterior]]
) -> SplitHalfCalibration:
    """The calibration by integrals given halves of the points, with each kernel, from those given all of them."""
    every = IntegralPosterior.averaged(choice.weights, whole)
    error2 = np.zeros_like(every.mean)  # (M, C)
    for found in parts:
        given_half = IntegralPosterior.averaged(choice.weights, found)
        fall = np.sqrt(every.spread / np.maximum(given_half.spread, every.spread)).T
        error2 += (given_half.mean - every.mean) ** 2 * fall / len(parts)
    ratio = np.mean(error2 / every.spread.T, axis=0)
    smaller = 1.0 if choice.error >= NOT_LEARNT else np.sqrt(ratio)
    return SplitHalfCalibration(np.maximum(ratio, smaller), np.median(error2, axis=0))


def left_out_inflation(choice: KernelChoice, points: PooledPoints, jitter: Jitter) -> Array:
    """By how much the squared mean residuals of thetas, given all others, exceed their variances (C,); 0 if unknown.

    Halves of the points have points of all thetas. Where f depends on theta, or thetas are few, they agree on what no
    theta between has shown.
    """
    some = points.thinned(CHOICE_POINTS)
    if some.owners is None or len(np.unique(some.owners)) < MIN_LEFT_OUT:
        return np.zeros(points.f.shape[1])
    with one_blas_thread():
        process = ExactGP(choice.kernel, some.u, some.f, jitter, choice.members[0].noise)
        means, variances = process.leave_groups_out(some.owners)
    known = variances > 0
    amplitude = np.where(process.amplitude > 0, process.amplitude, 1.0)
    ratios = means[known] ** 2 / (amplitude * variances[known, None])
    return np.asarray(np.mean(ratios, axis=0)) if np.any(known) else np.zeros(points.f.shape[1])
