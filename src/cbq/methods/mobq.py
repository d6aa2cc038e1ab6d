"""Multi-output Bayesian quadrature: one Gaussian process on the points of all thetas, integrated under any measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from cbq._arrays import generator
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.methods.averages import require_samples
from cbq.methods.mobq_fit import MOBQFit, Part
from cbq.methods.options import check_choices, check_jitter, check_kernels
from cbq.methods.registry import Compared, estimator
from cbq.pooled import PooledPoints, candidates, choose, landmarks, pooled_points, split_half_calibration
from cbq.samples import Samples

Automatic = Literal["auto"]
Outputs = Literal["separate", "shared"]
MOST = 10_000  # points of an exact fit: its matrix takes 800 MB, and a minute of two cores
DEFAULT_JITTER = Jitter(start=1e-13)


@estimator("mobq", title="multi-output Bayesian quadrature", order=30, compared=[Compared("MOBQ")])
@dataclass(frozen=True)
class MOBQ:
    """Multi-output Bayesian quadrature. A configuration: `fit` returns the result and changes nothing.

    One Gaussian process explains the values of f at the points of all thetas, n of them, with a kernel of x where f
    does not depend on theta and a product of kernels of x and of theta where it does. Its integral under the measure of x
    at any theta, observed or not, is the answer there: nothing is interpolated between thetas. Every theta learns from
    the points of all, which makes it by far the most accurate method where f can be learnt from few points, at the cost
    of n^3 operations. The samples must carry the family, or only the observed thetas can be asked about.

    Parameters
    ----------
    kernel_x : the kernel of x. "auto" chooses between Matern 3/2, 5/2 and RBF, on x and, where it is positive, on
        log x, of those with an embedding under the measures: lengthscales by the likelihood, smoothness and coordinates by
        leaving one point out. A kernel of the library is taken as it is; lengthscales of it that are None are fitted.
        Kernels that are made from one measure (Stein, gaussianised, whitened) are refused: all thetas share the kernel.
    kernel_theta : the kernel of theta, where f depends on it; likewise.
    ard : a lengthscale for every coordinate rather than one for all of x, and one for all of theta.
    outputs : "separate", outputs of f have kernels of their own where those have several lengthscales, or "shared": one
        factorisation serves all.
    nystrom : the number of landmarks of a low-rank approximation, at the cost of n nystrom^2 operations; None is the
        exact process, for up to 10000 points.
    seed : of the choice of landmarks.
    jitter : what may be added to the diagonal of the Gram matrix.
    """

    kernel_x: Kernel | Automatic = "auto"
    kernel_theta: Kernel | Automatic = "auto"
    ard: bool = True
    outputs: Outputs = "separate"
    nystrom: int | None = None
    seed: int = 0
    jitter: Jitter = DEFAULT_JITTER

    def __post_init__(self) -> None:
        check_kernels(self)
        check_choices(self, {"outputs": Outputs})
        check_jitter(self.jitter)
        if not isinstance(self.ard, bool):
            raise ValueError(f"ard must be True or False, but it is {self.ard!r}.")
        whole = isinstance(self.nystrom, int | np.integer) and not isinstance(self.nystrom, bool)
        if self.nystrom is not None and not (whole and self.nystrom >= 2):
            raise ValueError(f"nystrom must be a number of landmarks, 2 or more, or None, but it is {self.nystrom!r}.")
        if not isinstance(self.seed, int | np.integer) or isinstance(self.seed, bool) or self.seed < 0:
            raise ValueError(f"seed must be a whole number, zero or more, so that fits repeat, not {self.seed!r}.")

    def fit(self, samples: Samples) -> MOBQFit:
        """The distribution of I over theta from samples."""
        require_samples(samples)
        points, warnings = pooled_points(samples)
        _refuse_size(points, self.nystrom)
        kernels = candidates(samples, self.kernel_x, self.kernel_theta)
        parts = [self._part(samples, points, kernels, group) for group in self._groups(samples)]
        return MOBQFit(
            samples,
            parts,
            jitter=self.jitter,
            settings={field.name: repr(getattr(self, field.name)) for field in fields(self)},
            warnings=warnings,
        )

    def _groups(self, samples: Samples) -> list[tuple[int, ...]]:
        """The outputs that share a process."""
        every, C = tuple(range(samples.C or 1)), samples.C or 1
        one_lengthscale = samples.d + samples.p * samples.depends_on_theta == 1
        return [every] if self.outputs == "shared" or one_lengthscale or C == 1 else [(c,) for c in every]

    def _part(self, samples: Samples, points: PooledPoints, kernels: Sequence[Kernel], group: tuple[int, ...]) -> Part:
        mine = points.outputs(group)
        chosen = choose(kernels, mine, self.jitter, ard=self.ard)
        rows = None
        if self.nystrom is not None and self.nystrom < mine.n:
            rows = landmarks(chosen.kernel, mine.u, int(self.nystrom), generator(self.seed))
        return Part(group, chosen, rows, split_half_calibration(chosen, mine, rows, samples, self.jitter))


def _refuse_size(points: PooledPoints, nystrom: int | None) -> None:
    if min(points.n, points.n if nystrom is None else int(nystrom)) > MOST:
        raise ValueError(
            f"there are {points.n} points, and an exact fit takes at most {MOST}: its cost grows with their cube. "
            f"Pass nystrom=1000 for an approximation with so many landmarks, at most {MOST} too, or take cbq.CBQ()."
        )
    if points.n < 3:
        raise ValueError(f"there are {points.n} different points, but a process takes 3 or more: evaluate f at more.")
