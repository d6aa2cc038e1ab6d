"""How far a pooled process can be trusted, from what it says given half of the points.

The integral given half of the points differs from that given all by a variance that the process knows: the difference
of their own. Where f is far smoother than draws of the prior, the amplitude is an average over many directions of which
f takes few, and the process claims more than it knows; where rounding errors limit it, it does not notice. The actual
differences do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cbq._arrays import Array
from cbq.gp.choice import NOT_LEARNT, KernelChoice, PooledPoints
from cbq.gp.pooled import pooled_gp
from cbq.io import Numbers, saved
from cbq.linalg import Jitter


class IntegralOperator(Protocol):
    """The integrals of a kernel against M measures."""

    def mean(self, u: Array) -> Array:
        """The embeddings (M, n) at points u (n, D)."""

    def variance(self) -> Array:
        """The initial errors (M,)."""


@saved(
    "SplitHalfCalibration",
    inflation=Numbers("K", least=0.0, inline=True),
    common=Numbers("K", least=0.0, inline=True),
)
@dataclass(frozen=True, eq=False)
class SplitHalfCalibration:
    """What the disagreement between halves of the points asks for, of C outputs in the units of the points.

    inflation: (C,), the factor of all variances. common: (C,), a variance that is added at all thetas.
    """

    inflation: Array
    common: Array

    def variance(self, posterior: Array, amplitude: Array, c: int) -> Array:
        """The calibrated (co)variances of output c, from those of the process at unit amplitude."""
        return np.asarray(amplitude[c] * self.inflation[c] * posterior + self.common[c])


def split_half_calibration(
    choice: KernelChoice, points: PooledPoints, landmarks: Array | None, integrals: IntegralOperator, jitter: Jitter
) -> SplitHalfCalibration:
    """Compare the integrals given halves of the points with those given all, and with what the process expects.

    Errors are taken to fall from half of the points to all by the root of what the process says. Where they are larger
    than it says, its variances are multiplied by the ratio; where they are smaller, by the root of that. Errors that
    thetas have in common are larger than it says at some and smaller at others: half of all are at least `common`.
    Halves agree on what was not learnt at all: then nothing is made smaller.
    """
    whole = pooled_gp(choice.kernel, points.u, points.f, landmarks, jitter)
    z, mu = integrals.variance(), integrals.mean(whole.nodes)
    mean, variance = whole.mean(mu), whole.variance(mu, z)
    errors2 = []
    for half in (slice(0, None, 2), slice(1, None, 2)):
        part = pooled_gp(choice.kernel, points.u[half], points.f[half], landmarks, jitter, whole)
        mine = mu[:, half] if landmarks is None else mu
        fall = np.sqrt(variance / np.maximum(part.variance(mine, z), variance))
        errors2.append((part.mean(mine) - mean) ** 2 * fall)
    error2 = np.mean(errors2, axis=0)  # (M, C)
    amplitude = np.where(whole.amplitude > 0, whole.amplitude, 1.0)
    ratio = np.mean(error2 / (amplitude * variance), axis=0)
    smaller = 1.0 if choice.error >= NOT_LEARNT else np.sqrt(ratio)
    return SplitHalfCalibration(np.maximum(ratio, smaller), np.median(error2, axis=0))
