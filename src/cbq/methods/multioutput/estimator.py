"""Multi-output Bayesian quadrature: the estimator and its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from cbq._arrays import Integers, evenly
from cbq._checks import flag, generator, is_whole, shown
from cbq._memory import require_memory
from cbq.embeddings.many import Integrals, line_for, together
from cbq.gp.choice import PooledPoints, choose_kernel, left_out_inflation, processes_of, split_half_calibration
from cbq.gp.landmarks import choose_landmarks, enough_landmarks
from cbq.gp.noisy import choose_noisy_kernel
from cbq.gp.pooled import PooledGP
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.jitter import check_jitter
from cbq.linalg.threads import blas_threads
from cbq.methods.multioutput.candidates import candidate_kernels, pooled_points
from cbq.methods.multioutput.fit import IN_ONE_THREAD, MOBQFit, OutputGroup
from cbq.methods.options import (
    check_choices,
    check_kernels,
    is_auto,
    require_samples,
    settings,
)
from cbq.methods.registry import Compared, estimator
from cbq.samples import Samples

Automatic = Literal["auto"]
Outputs = Literal["separate", "shared"]
MAX_EXACT_POINTS = 10_000  # whose Gram matrix takes 800 MB, and a minute of two cores
EXACT_POINTS = 5000  # up to which nystrom="auto" is exact
MAX_EXACT_DRAWS, NOISY_LANDMARKS = 3000, 500  # values of a random f, beyond which landmarks serve
CALIBRATION_THETAS = 20
POOLED_JITTER = Jitter(start=1e-13)


@estimator("mobq", title="multi-output Bayesian quadrature", order=30, compared=[Compared("MOBQ")])
@dataclass(frozen=True)
class MOBQ:
    """Multi-output Bayesian quadrature. A configuration: `fit` returns a fit and changes nothing.

    One Gaussian process explains the values of f at the n points of all thetas, with a kernel of x where f does not
    depend on theta and a product of kernels of x and of theta where it does. Its integral under the measure of x at any
    theta, observed or not, is the answer there: nothing is interpolated between thetas. Every theta learns from the
    points of all, which makes it by far the most accurate estimator where f can be learnt from few points, at the cost
    of n^3 operations. The samples must carry the family, otherwise the fit predicts at the observed thetas only.

    Parameters
    ----------
    kernel_x : the kernel of x. "auto" averages over Matern 3/2, 5/2 and RBF, on x and, where it is positive, on
        log x, of those with an embedding under the measures: lengthscales by the evidence, weights by leave-one-out
        errors and by the standard deviations that the kernels promise. With more than 2000 points, or with landmarks,
        the heaviest kernel serves alone. A kernel is used as it is; its lengthscales that are None are fitted. Kernels
        made from one measure (Stein, gaussianised, whitened) are refused: all thetas share the kernel.
    kernel_theta : the kernel of theta, where f depends on it; likewise.
    ard : a lengthscale for every coordinate rather than one for all of x, and one for all of theta.
    outputs : "separate", outputs of f have kernels of their own where those have several lengthscales, or "shared": one
        factorisation serves all.
    nystrom : the number m of landmarks of a low-rank approximation, at the cost of n m^2 operations. None is the exact
        process, for up to 10000 points. "auto" is exact for up to 5000; for more, it takes as many landmarks, from 250
        to 2000, as predict held-out values of f nearly as well as an exact process on 4000 points does. Where f is
        random and has more than 3000 values, both take 500.
    seed : of the choice of landmarks.
    jitter : what may be added to the diagonal of the Gram matrix.
    """

    kernel_x: Kernel | Automatic = "auto"
    kernel_theta: Kernel | Automatic = "auto"
    ard: bool = True
    outputs: Outputs = "separate"
    nystrom: int | Automatic | None = None
    seed: int = 0
    jitter: Jitter = POOLED_JITTER

    def __post_init__(self) -> None:
        check_kernels(self)
        check_choices(self, {"outputs": Outputs})
        check_jitter(self.jitter)
        flag(self.ard, "ard")
        if self.nystrom is not None and not is_auto(self.nystrom) and not is_whole(self.nystrom, 2):
            raise ValueError(
                f"nystrom must be a number of landmarks, 2 or more, 'auto' or None, but it is {shown(self.nystrom)}."
            )
        if not is_whole(self.seed, 0):
            raise ValueError(
                f"seed must be a whole number, zero or more, so that fits repeat, but it is {shown(self.seed)}."
            )

    def fit(self, samples: Samples) -> MOBQFit:
        """Estimate I over theta from samples."""
        require_samples(samples)
        points, findings = pooled_points(samples)
        _refuse_size(points, self._landmarks(samples, points.n), len(self._groups(samples)))
        kernels = candidate_kernels(samples, self.kernel_x, self.kernel_theta)
        with blas_threads(points.n, IN_ONE_THREAD):
            found = [self._group(samples, points, kernels, outputs) for outputs in self._groups(samples)]
        groups, processes = zip(*found, strict=True)
        return MOBQFit(
            samples, groups, jitter=self.jitter, settings=settings(self), findings=findings, processes=processes
        )

    def _landmarks(self, samples: Samples, n: int) -> int | Automatic | None:
        """The number of landmarks for n points, None for an exact process.

        Many draws need few, since the noise hides what they miss.
        """
        if is_whole(self.nystrom):
            return int(self.nystrom) if self.nystrom < n else None
        if samples.stochastic and n > MAX_EXACT_DRAWS:
            return NOISY_LANDMARKS
        return None if self.nystrom is None or n <= EXACT_POINTS else "auto"

    def _groups(self, samples: Samples) -> list[tuple[int, ...]]:
        """The outputs that share a process."""
        every, C = tuple(range(samples.C or 1)), samples.C or 1
        one_lengthscale = samples.d + samples.p * samples.depends_on_theta == 1
        together = not samples.stochastic and (self.outputs == "shared" or one_lengthscale)  # noise is of one output
        return [every] if together or C == 1 else [(c,) for c in every]

    def _group(
        self, samples: Samples, points: PooledPoints, kernels: Sequence[Kernel], outputs: tuple[int, ...]
    ) -> tuple[OutputGroup, list[PooledGP]]:
        """The kernel of some outputs, its landmarks, and its calibration; and the processes."""
        mine = points.outputs(outputs)
        integrals = at_some_thetas(samples)
        if samples.stochastic:
            chosen = choose_noisy_kernel(kernels, mine, ard=self.ard)
        else:
            chosen = choose_kernel(kernels, mine, self.jitter, ard=self.ard, integrals=integrals)
        m = self._landmarks(samples, mine.n)
        chosen = chosen if m is None else chosen.heaviest()
        rows = self._rows(m, chosen.kernel, mine)
        processes = processes_of(chosen, mine, rows, self.jitter)
        calibration = split_half_calibration(chosen, processes, integrals)
        left_out = left_out_inflation(chosen, mine, self.jitter)
        return OutputGroup(outputs, chosen, rows, calibration.at_least(left_out)), processes

    def _rows(self, m: int | Automatic | None, kernel: Kernel, points: PooledPoints) -> Integers | None:
        """The rows of the points that are landmarks, as many as there should be."""
        if m == "auto":
            return enough_landmarks(kernel, points, self.jitter, self.seed)
        return None if m is None else choose_landmarks(kernel, points.u, m, generator(self.seed))


def at_some_thetas(samples: Samples) -> Callable[[Kernel], Integrals]:
    """The integrals of a kernel at some of the observed thetas."""
    some = evenly(samples.T, CALIBRATION_THETAS)
    measures = together([samples.measure(int(t)) for t in some])

    @cache
    def integrals(kernel: Kernel) -> Integrals:
        return Integrals(kernel, measures, samples.theta[some], line_for(kernel, measures, coarse=True))

    return integrals


def _refuse_size(points: PooledPoints, landmarks: int | Automatic | None, groups: int) -> None:
    """Raise where there are too many points for an exact fit, too many landmarks, or too few points."""
    factored = points.n if landmarks is None else 0 if landmarks == "auto" else landmarks
    if factored > MAX_EXACT_POINTS:
        raise ValueError(
            f"there are {points.n} points, but an exact fit takes at most {MAX_EXACT_POINTS}: its cost grows with the "
            f"cube. Pass nystrom='auto' for an approximation with as many landmarks as it needs, or their number (at "
            f"most {MAX_EXACT_POINTS}), or use cbq.CBQ()."
        )
    if points.n < 3:
        raise ValueError(f"there are {points.n} different points, but a process takes 3 or more: evaluate f at more.")
    if landmarks is None:
        require_memory(
            (groups + 0.5) * points.n**2,  # a process for each group; and for its calibration those of two halves
            f"an exact fit to {points.n} points{f' with {groups} processes' * (groups > 1)}",
            "pass nystrom=1000 for an approximation with 1000 landmarks, or use cbq.CBQ()",
        )
    elif landmarks != "auto":
        require_memory(
            points.n * landmarks,  # to choose them
            f"a fit to {points.n} points through {landmarks} landmarks",
            "pass nystrom='auto' or a smaller number, or use cbq.CBQ()",
        )
