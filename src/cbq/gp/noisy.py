"""The kernels of a pooled process whose values are draws: lengthscales and noise by the evidence.

With noise the evidence is a good judge of kernels too: what a kernel is wrong about at a few points is small against
the noise. Lengthscales are fitted through landmarks (see `sparse`), at a cost that is linear in the number of points.
Then the eigenvalues of one Gram matrix give the evidence of every noise variance, in units of the amplitude, at O(n)
each (see `solvers.Spectral`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import softmax

from cbq.gp.choice import (
    CHOICE_POINTS,
    MAX_AVERAGED_POINTS,
    MAX_MEMBERS,
    MAX_TIED,
    NEGLIGIBLE,
    KernelChoice,
    KernelMember,
    PooledPoints,
)
from cbq.gp.families import LONGEST, SHORTEST, KernelFamily
from cbq.gp.pooled import NOISES
from cbq.gp.process import Process
from cbq.gp.search import quasi_newton
from cbq.gp.solvers import Spectral
from cbq.gp.sparse import Bound, Targets
from cbq.kernels import Kernel
from cbq.linalg.threads import one_blas_thread

ROWS, LANDMARKS = 1000, 100  # at most, of the points, for lengthscales
LOG_RATIO_BOUNDS = (-20.0, 20.0)  # of the amplitude over the noise variance
STARTS = tuple((gamma, shift) for gamma in (0.0, 4.0) for shift in (-1.0, 0.0, 1.0))  # log ratio, log-lengthscales
MAX_ITERATIONS = 40


def choose_noisy_kernel(kernels: Sequence[Kernel], points: PooledPoints, *, ard: bool = True) -> KernelChoice:
    """The likeliest kernels for the draws of one output, with their lengthscales and noise."""
    with one_blas_thread():
        ard = ard and points.u.shape[1] > 1
        some, fewer = points.thinned(ROWS), points.thinned(CHOICE_POINTS)
        fitted = [_fitted(KernelFamily.of(kernel, points.u, ard), some) for kernel in kernels]
        least = sorted(fitted, key=lambda pair: pair[1])[:MAX_TIED]
        found, evidence = zip(*(_likeliest_noise(kernel, fewer) for kernel, _ in least), strict=True)
    weights = softmax(evidence)
    heaviest = np.argsort(-weights, kind="stable")[: MAX_MEMBERS if points.n <= MAX_AVERAGED_POINTS else 1]
    kept = heaviest[weights[heaviest] >= NEGLIGIBLE * weights[heaviest[0]]]
    weights = weights / np.sum(weights[kept])
    return KernelChoice(tuple(replace(found[k], weight=float(weights[k])) for k in kept), len(kernels))


def _fitted(family: KernelFamily, points: PooledPoints) -> tuple[Kernel, float]:
    """The kernel with its likeliest free lengthscales, and minus a bound of its evidence."""
    y = points.f[:, 0] - np.mean(points.f[:, 0])
    bound = Bound(family.kernel, points.u, Targets.of(y), points.thinned(LANDMARKS).u)
    guess, low, high = family.kernel.log_lengthscales, np.log(SHORTEST), np.log(LONGEST)
    starts = [np.array([gamma, *(guess + shift * family.free)]) for gamma, shift in STARTS]
    limits = [LOG_RATIO_BOUNDS, *((g + low * f, g + high * f) for g, f in zip(guess, family.free, strict=True))]
    best, value = quasi_newton(bound, min(starts, key=bound.value), limits, options={"maxiter": MAX_ITERATIONS})
    return bound.kernel_at(best), value


def _likeliest_noise(kernel: Kernel, points: PooledPoints) -> tuple[KernelMember, float]:
    """A kernel with its likeliest noise in units of the amplitude and its leave-one-out error, and its evidence.

    The error is the part that the noise does not explain.
    """
    solver, f = Spectral.of(kernel(points.u), NOISES), points.f[:, :1]
    evidence = Process(solver, f).evidence[:, 0]
    best = int(np.argmax(evidence))
    process = Process(solver[best : best + 1], f)
    unexplained = process.residuals[0] ** 2 - process.amplitude[0] * NOISES[best]
    error2 = max(float(np.mean(unexplained[:, 0] / points.spread[:, 0] ** 2)), 0.0)
    return KernelMember(kernel, 1.0, float(np.sqrt(error2)), float(NOISES[best])), float(evidence[best])
