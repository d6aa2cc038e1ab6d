"""Multi-output Bayesian quadrature: the estimator and its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from cbq.common import Executor, Integers, flag, generator, is_whole, require_memory, shown
from cbq.estimators.base import (
    Compared,
    Estimator,
    check_choices,
    check_kernels,
    estimator,
    is_auto,
    settings,
)
from cbq.estimators.multioutput.base import IN_ONE_THREAD
from cbq.estimators.multioutput.candidates import Candidates, candidate_kernels, kernels_of_theta, pooled_points
from cbq.estimators.multioutput.fit import MOBQFit, PointsGroup
from cbq.estimators.multioutput.kronecker import GridGroup, KroneckerFit, design_of_grid, grid_kernels_of_x, grid_points
from cbq.gp import (
    LANDMARKS,
    Calibration,
    GridPoints,
    LandmarkSelection,
    PointsGP,
    PooledPoints,
    Selection,
    choose_grid_kernel,
    choose_kernel,
    choose_landmarks,
    enough_landmarks,
    kernel_for_landmarks,
    processes_of,
)
from cbq.kernels import Kernel, standard_kernels
from cbq.linalg import Jitter
from cbq.linalg.engines import current_engine, require_matrices
from cbq.linalg.jitter import SMALL_JITTER, check_jitter
from cbq.linalg.threads import blas_threads
from cbq.samples import Samples

Automatic = Literal["auto"]
Outputs = Literal["separate", "shared"]
Structure = Literal["auto", "dense", "kronecker"]


@estimator("mobq", title="multi-output Bayesian quadrature", order=30, compared=[Compared("MOBQ")])
@dataclass(frozen=True)
class MOBQ(Estimator["MOBQFit | KroneckerFit"]):
    """Multi-output Bayesian quadrature. A configuration: `fit` returns a fit and changes nothing.

    One Gaussian process explains the values of f at the n points of all thetas, with a kernel of x where f does not
    depend on theta and a product of kernels of x and of theta where it does. Its integral under the measure of x at any
    theta, observed or not, is the answer there: nothing is interpolated between thetas. Every theta learns from the
    points of all, which makes it by far the most accurate estimator where f can be learnt from few points, at the cost
    of n^3 operations. The samples must carry the family, otherwise the fit predicts at the observed thetas only.

    Parameters
    ----------
    kernel_x : the kernel of x, or a list of kernels to choose from. "auto" lists Matern 1/2 (for an f that jumps; not
        if it is random or has more than six inputs), 3/2, 5/2, RBF and, with more than two inputs, RBF + Additive(RBF)
        (for sums of functions of one input each), on x and, where it is positive, on log x: all that have an embedding
        under the measures. The smallest leave-one-out errors of single values and of averages over thetas decide, and
        kernels that are nearly as good widen the intervals where they disagree (up to 2000 points). Lengthscales that
        are None are fitted. Kernels made from one measure (Stein, gaussianised, whitened) are refused: all thetas share
        the kernel.
    kernel_theta : the kernel of theta, where f depends on it; likewise.
    ard : a lengthscale for every coordinate rather than one for all of x, and one for all of theta.
    outputs : "separate", outputs of f have kernels of their own where those have several lengthscales, or "shared": one
        factorisation serves all.
    nystrom : the number m of landmarks of a low-rank approximation, at the cost of n m^2 operations. None is the exact
        process, for up to 10000 points (with `cbq.engine("cuda")`, as many as the memory of the GPU can hold). "auto"
        is exact for up to half of that; for more, it takes as many landmarks, from 250 to 2000, as predict held-out
        values of f nearly as well as an exact process on 4000 points does. Where f is random and has more than 3000
        values, both take 500.
    seed : of the choice of landmarks.
    jitter : what may be added to the diagonal of the Gram matrix.
    structure : "kronecker" is the exact process where all T thetas share a design of N points, as those of
        `collect(design="sobol", scramble="common")` do, at the cost of T^3 + N^3 + T N (T + N) operations. Its kernels
        act on theta and on the coordinates in which the points are shared: normal scores of x under the measure of
        theta, or x itself where all thetas have the same measure and points. Outputs have kernels of their own. "dense"
        is any other process. "auto" is "kronecker" where an exact process is wanted, the design is shared and there are
        more than 10000 points, otherwise "dense", which is more accurate where f does not depend on theta.
    selection : how kernels are proposed, judged and kept.
    calibration : how variances follow from what leaving out points and thetas moves.
    landmarks : how many landmarks there are where `nystrom` leaves it open, and which.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> fit = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0, design="sobol"))
    >>> bool(abs(fit.predict([100.0])[0] - problem.exact([100.0])[0]) < 0.05)
    True
    """

    kernel_x: Candidates = "auto"
    kernel_theta: Candidates = "auto"
    ard: bool = True
    outputs: Outputs = "separate"
    nystrom: int | Automatic | None = None
    seed: int = 0
    jitter: Jitter = SMALL_JITTER
    structure: Structure = "auto"
    selection: Selection = field(default_factory=Selection)
    calibration: Calibration = field(default_factory=Calibration)
    landmarks: LandmarkSelection = LANDMARKS

    def __post_init__(self) -> None:
        check_kernels(self, lists=True)
        for name in ("kernel_x", "kernel_theta"):
            if isinstance(given := getattr(self, name), list):
                object.__setattr__(self, name, tuple(given))  # which nobody changes
        check_choices(self, {"outputs": Outputs, "structure": Structure})
        check_jitter(self.jitter)
        flag(self.ard, "ard")
        kinds = {"selection": Selection, "calibration": Calibration, "landmarks": LandmarkSelection}
        for name, kind in kinds.items():
            if not isinstance(value := getattr(self, name), kind):
                raise TypeError(f"{name} must be a cbq.{kind.__name__}, but it is {shown(value)}.")
        if self.nystrom is not None and not is_auto(self.nystrom) and not is_whole(self.nystrom, 2):
            raise ValueError(
                f"nystrom must be a number of landmarks, 2 or more, 'auto' or None, but it is {shown(self.nystrom)}."
            )
        if self.nystrom is not None and self.structure == "kronecker":
            raise ValueError("structure='kronecker' is exact and takes no landmarks: pass it or nystrom, not both.")
        if not is_whole(self.seed, 0):
            raise ValueError(
                f"seed must be a whole number, zero or more, so that fits repeat, but it is {shown(self.seed)}."
            )

    def _fit(self, samples: Samples, pool: Executor | None) -> MOBQFit | KroneckerFit:
        return self._fit_grid(samples) if self._uses_grid(samples) else self._fit_points(samples)

    def _uses_grid(self, samples: Samples) -> bool:
        """Whether the process stands on a design that all thetas share."""
        if self.structure != "auto":
            return self.structure == "kronecker"
        too_many = (
            samples.n_evaluations > current_engine().largest_exact and self.nystrom is None and not samples.stochastic
        )
        return too_many and design_of_grid(samples) is not None

    def _fit_grid(self, samples: Samples) -> KroneckerFit:
        if samples.stochastic:
            raise ValueError(
                "structure='kronecker' is for values without noise, but these samples are stochastic=True: pass "
                "structure='dense'."
            )
        points = grid_points(samples)
        T, N = points.f.shape[1:]
        numbers = 4 * T * N + T**2 + N**2  # the values in four forms: given, in units, detrended, solved
        require_memory(numbers, f"a fit to {T} x {N} points", "collect fewer, or use cbq.CBQ()")
        on_x = grid_kernels_of_x(samples, points, self.kernel_x)
        on_theta = kernels_of_theta(points.theta, self.kernel_theta, standard_kernels())
        with blas_threads(max(T, N), IN_ONE_THREAD):
            groups = [self._grid_group(points, on_x, on_theta, c) for c in range(len(points.f))]
        return KroneckerFit(
            samples, groups, jitter=self.jitter, calibrated_by=self.calibration, settings=settings(self)
        )

    def _grid_group(self, points: GridPoints, on_x: Sequence[Kernel], on_theta: Sequence[Kernel], c: int) -> GridGroup:
        """The kernels of output c on a grid."""
        mine = points.outputs((c,))
        options = self.selection
        return GridGroup((c,), choose_grid_kernel(on_x, on_theta, mine, self.jitter, ard=self.ard, options=options))

    def _fit_points(self, samples: Samples) -> MOBQFit:
        points, findings = pooled_points(samples)
        _refuse_size(points, self._landmarks(samples, points.n), len(self._groups(samples)))
        kernels = candidate_kernels(samples, self.kernel_x, self.kernel_theta)
        with blas_threads(points.n, IN_ONE_THREAD):
            found = [self._group(samples, points, kernels, outputs) for outputs in self._groups(samples)]
        groups, processes = zip(*found, strict=True)
        return MOBQFit(
            samples,
            groups,
            jitter=self.jitter,
            calibrated_by=self.calibration,
            settings=settings(self),
            findings=findings,
            made=(points, processes),
        )

    def _with_kernels(self, samples: Samples, groups: Sequence[PointsGroup]) -> MOBQFit:
        """The fit to samples with the kernels of an earlier one, for callers that fit a little more data each time."""
        fit = MOBQFit(
            samples,
            groups,
            jitter=self.jitter,
            calibrated_by=self.calibration,
            settings=settings(self),
            findings=pooled_points(samples)[1],
        )
        return fit._with_samples(samples)._with_findings_about(samples)

    def _landmarks(self, samples: Samples, n: int) -> int | Automatic | None:
        """The number of landmarks for n points, None for an exact process.

        Many draws need few, since the noise hides what they miss.
        """
        if is_whole(self.nystrom):
            return int(self.nystrom) if self.nystrom < n else None
        if samples.stochastic and n > self.landmarks.draws:
            return self.landmarks.noisy
        return None if self.nystrom is None or n <= exact_points() else "auto"

    def _groups(self, samples: Samples) -> list[tuple[int, ...]]:
        """The outputs that share a process."""
        every, C = tuple(range(samples.C or 1)), samples.C or 1
        one_lengthscale = samples.d + samples.p * samples.depends_on_theta == 1
        together = not samples.stochastic and (self.outputs == "shared" or one_lengthscale)  # noise is of one output
        return [every] if together or C == 1 else [(c,) for c in every]

    def _group(
        self,
        samples: Samples,
        points: PooledPoints,
        kernels: Sequence[Kernel],
        outputs: tuple[int, ...],
        *,
        several: int = 2000,
    ) -> tuple[PointsGroup, list[PointsGP]]:
        """The kernels of some outputs and the landmarks; and the processes.

        several: points up to which there are processes with other kernels than the best; with more, one is expensive.
        """
        mine, m = points.outputs(outputs), self._landmarks(samples, points.n)
        chosen = choose_kernel(
            kernels, mine, self.jitter, ard=self.ard, noisy=samples.stochastic, options=self.selection
        )
        chosen = chosen if m is None and mine.n <= several else chosen.best()
        if m is not None and is_auto(self.kernel_x) and not samples.stochastic:
            chosen = chosen.with_kernel(
                kernel_for_landmarks(chosen.kernel, mine, self.jitter, self.seed, self.landmarks)
            )
        rows = self._rows(m, chosen.kernel, mine)
        return PointsGroup(outputs, chosen, rows), processes_of(chosen, mine, rows, self.jitter)

    def _rows(self, m: int | Automatic | None, kernel: Kernel, points: PooledPoints) -> Integers | None:
        """The rows of the points that are landmarks, as many as there should be."""
        if m == "auto":
            return enough_landmarks(kernel, points, self.jitter, self.seed, self.landmarks)
        return None if m is None else choose_landmarks(kernel, points.u, m, generator(self.seed))


def exact_points() -> int:
    """The number of points up to which nystrom="auto" is exact, with the engine in use."""
    return current_engine().largest_exact // 2


def _refuse_size(points: PooledPoints, landmarks: int | Automatic | None, groups: int) -> None:
    """Raise where there are too many points for an exact fit, too many landmarks, or too few points."""
    most = current_engine().largest_exact
    if (points.n if landmarks is None else 0 if landmarks == "auto" else landmarks) > most:
        raise ValueError(
            f"there are {points.n} points, but an exact fit takes at most {most}: its cost grows with the cube. Pass "
            f"nystrom='auto' for as many landmarks as it needs, or their number (at most {most}), use cbq.CBQ(), or "
            f"collect with design='sobol', scramble='common', whose process is exact for any number."
        )
    if points.n < 3:
        raise ValueError(f"there are {points.n} different points, but a process takes 3 or more: evaluate f at more.")
    if landmarks is None:
        require_matrices(
            (groups + 0.5) * points.n**2,  # a process for each group, and room to condition one of them
            f"an exact fit to {points.n} points{f' with {groups} processes' * (groups > 1)}",
            "pass nystrom='auto' for an approximation through landmarks, or use cbq.CBQ()",
        )
    elif landmarks != "auto":
        require_memory(
            points.n * landmarks,  # to choose them
            f"a fit to {points.n} points through {landmarks} landmarks",
            "pass nystrom='auto' or a smaller number, or use cbq.CBQ()",
        )
