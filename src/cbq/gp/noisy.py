"""Kernels of a process whose values are draws: lengthscales and noise by the evidence.

Lengthscales are fitted through landmarks (see `sparse`), at a cost that is linear in the number of points. Then the
eigenvalues of one Gram matrix give the evidence of every noise variance, in units of the amplitude, at O(n) each (see
`solvers.Spectral`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from cbq._arrays import Array, evenly
from cbq.gp.families import LONGEST, SHORTEST, KernelFamily
from cbq.gp.pooled import NOISES
from cbq.gp.process import Process
from cbq.gp.search import quasi_newton
from cbq.gp.solvers import Spectral
from cbq.gp.sparse import Bound, Targets
from cbq.kernels import Kernel


class Values(Protocol):
    """Points u (n, D), and the values f (n, 1) of one output there."""

    @property
    def u(self) -> Array: ...
    @property
    def f(self) -> Array: ...


def noisy_kernels(kernels: Sequence[Kernel], points: Values, ard: bool) -> list[tuple[Kernel, float]]:
    """The kernels with their likeliest lengthscales for the draws of one output, each with its likeliest noise."""
    fitted = [_likeliest(KernelFamily.of(kernel, points.u, ard), points) for kernel in kernels]
    return [(kernel, likeliest_noise(kernel, points)) for kernel in fitted]


def _likeliest(
    family: KernelFamily,
    points: Values,
    *,
    landmarks: int = 100,
    ratios: tuple[float, float] = (-20.0, 20.0),
    first_ratios: tuple[float, ...] = (0.0, 4.0),
    shifts: tuple[float, ...] = (-1.0, 0.0, 1.0),
    steps: int = 40,
) -> Kernel:
    """The kernel with its likeliest free lengthscales.

    landmarks: of the points, at most: noise hides what more of them would show of f. ratios: the ends of the log of the
    amplitude over the noise variance, where one of both is nothing. first_ratios, shifts: of that log and of all
    log-lengthscales, the best pair of which starts the search: the likelihood may have a maximum where all is noise.
    steps: of the search, at most; the last ones change little.
    """
    y = points.f[:, 0] - np.mean(points.f[:, 0])
    bound = Bound(family.kernel, points.u, Targets.of(y), points.u[evenly(len(y), landmarks)])
    guess, low, high = family.kernel.log_lengthscales, np.log(SHORTEST), np.log(LONGEST)
    starts = [np.array([gamma, *(guess + shift * family.free)]) for gamma in first_ratios for shift in shifts]
    limits = [ratios, *((g + low * f, g + high * f) for g, f in zip(guess, family.free, strict=True))]
    best, _ = quasi_newton(bound, min(starts, key=bound.value), limits, options={"maxiter": steps})
    return bound.kernel_at(best)


def likeliest_noise(kernel: Kernel, points: Values) -> float:
    """The noise variance, in units of the amplitude, with the largest evidence."""
    return float(NOISES[np.argmax(Process(Spectral.of(kernel(points.u), NOISES), points.f).evidence[:, 0])])
