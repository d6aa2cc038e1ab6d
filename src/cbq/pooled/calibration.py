"""How far a pooled process can be trusted, from what it says given half of the points.

The integral given half of the points differs from that given all by a variance that the process knows: the difference
of their own. Where f is far smoother than the prior's draws, its amplitude is an average over many directions of which
f takes few, and the process claims more than it knows; where rounding errors limit it, it does not notice. The real
differences do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers, evenly
from cbq.embeddings.many import Integrals, line_for
from cbq.io import Numbers, saved
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.pooled.hyperparameters import UNKNOWN, KernelChoice
from cbq.pooled.low_rank import NystromGP
from cbq.pooled.pool import PooledPoints
from cbq.pooled.process import ExactGP, PooledGP
from cbq.samples import Samples

CHECKED = 20  # thetas, at most


def process(
    kernel: Kernel, points: PooledPoints, nodes: Array | None, jitter: Jitter, like: PooledGP | None = None
) -> PooledGP:
    """The process given all values of a pool: exact, or through landmarks `nodes`, with the noise of another one."""
    if nodes is None:
        return ExactGP(kernel, points.u, points.f, jitter)
    noise = like.noise if isinstance(like, NystromGP) else None
    return NystromGP(kernel, points.u, points.f, nodes, jitter, noise)


@saved(
    "SplitHalfCalibration",
    inflation=Numbers("K", least=0.0, inline=True),
    common=Numbers("K", least=0.0, inline=True),
)
@dataclass(frozen=True, eq=False)
class SplitHalfCalibration:
    """What the disagreement between halves of the points asks for, of C outputs in the units of the pool.

    inflation: (C,), the factor of all variances. common: (C,), a variance that is added at all thetas.
    """

    inflation: Array
    common: Array


def split_half_calibration(
    chosen: KernelChoice, points: PooledPoints, rows: Integers | None, samples: Samples, jitter: Jitter
) -> SplitHalfCalibration:
    """How far the integrals given halves of the points are from those given all, and how far they should be.

    Errors are taken to fall from half of the points to all by the root of what the process says. Where they are larger
    than it says, its variances are multiplied by the ratio; where they are smaller, by the root of that. Errors that
    thetas have in common are larger than it says at some and smaller at others: half of all are at least `common`.
    What has not been learnt at all, halves agree on: then nothing is made smaller. rows: of the landmarks, if any.
    """
    kernel = chosen.kernel
    nodes = None if rows is None else points.u[rows]
    whole = process(kernel, points, nodes, jitter)
    some = evenly(samples.T, CHECKED)
    measures = [samples.measure(int(t)) for t in some]
    integrals = Integrals(kernel, measures, samples.theta[some], line_for(kernel, measures))
    z, mu = integrals.variance(), integrals.mean(whole.nodes)
    mean, variance = whole.mean(mu), whole.variance(mu, z)
    errors2 = []
    for half in (slice(0, None, 2), slice(1, None, 2)):
        part = process(kernel, points.take(half), nodes, jitter, whole)
        mine = mu[:, half] if nodes is None else mu
        fall = np.sqrt(variance / np.maximum(part.variance(mine, z), variance))
        errors2.append((part.mean(mine) - mean) ** 2 * fall)
    error2 = np.mean(errors2, axis=0)  # (T, C)
    amplitude = np.where(whole.amplitude > 0, whole.amplitude, 1.0)
    ratio = np.mean(error2 / (amplitude * variance), axis=0)
    smaller = 1.0 if chosen.error >= UNKNOWN else np.sqrt(ratio)
    return SplitHalfCalibration(np.maximum(ratio, smaller), np.median(error2, axis=0))
