"""Which kernels a process on many points has: one way to propose, judge and keep them.

Proposed are all kernels of a list. The evidence finds the ratios of their lengthscales, which leave-one-out errors
cannot resolve; a grid holds their common factor, about which the evidence is wrong wherever f is smoother than draws of
the process, or has a kink.

Judged are kernels by the geometric mean of three errors in units of f: the leave-one-out error of single values, the
error of the average over the points of a theta, given all others, and how far integrals at observed thetas move when
the points of a theta are left out. Single values are predicted well wherever points are dense, and averages wherever
errors cancel; a move ignores errors that integrals do not depend on.
Evidence and leave-one-out log density choose far worse: where f is analytic at most points, they prefer the kernel that
is right about the many.

The best kernel is the estimate. Others that cannot be told apart from it, among them itself with shorter and longer
lengthscales, disagree with it where data decide little: the weighted squares of their differences add to the variance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from cbq.common import Array, Booleans, Integers, check_fields, evenly, is_number, is_whole
from cbq.gp.calibration import useful_groups
from cbq.gp.families import KernelFamily, fit_lengthscales
from cbq.gp.pooled import ExactGP, PointsGP, pooled_gp
from cbq.gp.process import FLAT
from cbq.gp.quadrature import GPData
from cbq.gp.search import descend
from cbq.gp.sparse import noisy_kernels
from cbq.io import Instance, Integer, Many, Number, saved
from cbq.kernels import Kernel, Warped
from cbq.kernels.warped import Log
from cbq.linalg import Jitter, NotPositiveDefinite, at_most
from cbq.linalg.engines import current_engine
from cbq.linalg.threads import for_each, one_blas_thread

LEAST_ERROR = np.finfo(float).eps  # of f in units near 1: less is rounding
EVALUATIONS = 20  # factorisations that refining a kernel takes, approximately
NOT_LEARNT = 0.5  # a leave-one-out error, in units of the spread of f, of an f that was not learnt


@dataclass(frozen=True)
class Selection:
    """How kernels are proposed, judged and kept.

    within : kernels with up to so many times the smallest error cannot be told apart from the best. With 3,
        and one kernel more, intervals are 13% wider, and 95% intervals cover 0.957 in place of 0.946.
    most : kernels that are kept, at most; each takes a factorisation.
    screened, judged : the largest numbers of points on which kernels are compared, first all and then the best.
    refined : kernels that are compared a second time, at most.
    promising : errors in the first comparison, in units of the smallest, that are worth a second.
    shaped : the largest number of points to which ratios of lengthscales are fitted.
    step : the resolution of the logarithm of lengthscales.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> fit = cbq.MOBQ(selection=cbq.Selection(most=1)).fit(samples)  # no kernel but the best
    >>> len(fit.groups[0].chosen.members)
    1
    """

    within: float = 2.0
    most: int = 3
    screened: int = 120
    judged: int = 1000
    refined: int = 4
    promising: float = 10.0
    shaped: int = 500
    step: float = 0.5

    def __post_init__(self) -> None:
        check_fields(
            self, ("within", "promising"), "a ratio of errors, 1 or more", lambda value: is_number(value, 1.0, 1e6)
        )
        whole = ("most", "screened", "judged", "refined", "shaped")
        check_fields(self, whole, "a whole number, 1 or more", lambda value: is_whole(value, 1))
        check_fields(self, ("step",), "a number from 0.01 to 1", lambda value: is_number(value, 0.01, 1.0))


@dataclass(frozen=True, eq=False)
class PooledPoints:
    """n points of all thetas together, C outputs.

    u: (n, D), x alone, or x and its theta where f depends on both. f: (n, C), in units near 1. spread: (n, C), the
    standard deviation of f at the theta of each point, or the least that counts. shift, scale: (C,), f was
    shift + scale f. owners: (n,), the theta of each point, if they have any. places: (n,), the place of each point in
    a design that all thetas share, if they do. share: (n,), of the measures that each point stands for, where points
    were chosen and crowd where f is hard; None where they were drawn. integrals: the embeddings (M, n) of a kernel at
    nodes (n, D), of integrals that kernels are judged by, too, if there are any.
    """

    u: Array
    f: Array
    spread: Array
    shift: Array
    scale: Array
    owners: Integers | None = None
    share: Array | None = None
    places: Integers | None = None
    integrals: Callable[[Kernel, Array], Array] | None = None

    @property
    def n(self) -> int:
        """The number of points."""
        return len(self.u)

    @property
    def variance(self) -> Array:
        """The variances (C,) of the values."""
        return np.asarray(np.var(self.f, axis=0))

    @property
    def data(self) -> GPData:
        """The points as a single process."""
        return GPData(self.u[None], self.f[None])

    def take(self, rows: Integers | Booleans | slice) -> PooledPoints:
        """Some of the points."""
        owners, places = (None if each is None else each[rows] for each in (self.owners, self.places))
        share = None if self.share is None else self.share[rows]
        some = replace(self, owners=owners, share=share, places=places)
        return replace(some, u=self.u[rows], f=self.f[rows], spread=self.spread[rows])

    def outputs(self, which: Sequence[int]) -> PooledPoints:
        """Some of the outputs."""
        columns = list(which)
        return replace(
            self,
            f=self.f[:, columns],
            spread=self.spread[:, columns],
            shift=self.shift[columns],
            scale=self.scale[columns],
        )

    def thinned(self, n: int) -> PooledPoints:
        """At most n points, evenly spaced in the order of the thetas."""
        return self if self.n <= n else self.take(evenly(self.n, n))


@saved("KernelMember", kernel=Instance(Kernel), error=Number(0.0), residual=Number(0.0), noise=Number(0.0))
@dataclass(frozen=True, eq=False)
class KernelMember:
    """A kernel with all its lengthscales, and how well it explains f.

    error: the geometric mean of leave-one-out errors, see `judge`. residual: the first of them, relative to the
    standard deviation of f at the theta of each point, without what the noise explains. noise: the noise variance of
    the values, in units of the amplitude.
    """

    kernel: Kernel
    error: float
    residual: float
    noise: float = 0.0


@saved("KernelChoice", members=Many(Instance(KernelMember), least=1), tried=Integer(1))
@dataclass(frozen=True, eq=False)
class KernelChoice:
    """The best kernel, the others that cannot be told apart from it, and how many were tried."""

    members: tuple[KernelMember, ...]
    tried: int

    def best(self) -> KernelChoice:
        """The choice of the best kernel alone."""
        return replace(self, members=self.members[:1])

    def with_kernel(self, kernel: Kernel) -> KernelChoice:
        """The choice of the best kernel alone, with other lengthscales."""
        return replace(self, members=(replace(self.members[0], kernel=kernel),))

    @property
    def kernel(self) -> Kernel:
        """The best kernel."""
        return self.members[0].kernel

    @property
    def noise(self) -> float:
        """The noise variance with the best kernel, in units of the amplitude."""
        return self.members[0].noise

    @property
    def residual(self) -> float:
        """The root-mean-square leave-one-out residual with the best kernel, in units of the spread of f."""
        return self.members[0].residual

    @property
    def weights(self) -> Array:
        """The weights of the members, which sum to one: inverse squares of their errors."""
        errors = np.maximum([member.error for member in self.members], LEAST_ERROR)
        weights = (errors[0] / errors) ** 2
        return np.asarray(weights / np.sum(weights))


def choose_kernel(
    kernels: Sequence[Kernel],
    points: PooledPoints,
    jitter: Jitter,
    *,
    ard: bool = True,
    noisy: bool = False,
    options: Selection | None = None,
) -> KernelChoice:
    """The best of kernels given from rough to smooth, with their lengthscales; with their noise if f is `noisy`."""
    options = Selection() if options is None else options
    second = points.thinned(options.judged)
    ard = ard and points.u.shape[1] > 1
    with one_blas_thread():  # many matrices of a size at which threads gain little, and on a busy machine lose all
        if noisy:
            tried = [judge(kernel, second, jitter, noise) for kernel, noise in noisy_kernels(kernels, second, ard)]
        else:
            tried = _refined(_promising(_families(kernels, points, ard, options), points, jitter, options), second)
    return keep(tried, len(kernels), options)


def keep(tried: Sequence[KernelMember], number: int, options: Selection) -> KernelChoice:
    """The best of the kernels that were tried, and those that cannot be told apart from it; number: of all kernels."""
    ordered = sorted(tried, key=lambda each: each.error)
    if not takes_log_theta(ordered[0].kernel):  # a fit answers at all thetas that its best kernel takes
        ordered = [each for each in ordered if not takes_log_theta(each.kernel)]
    most = options.within * max(ordered[0].error, LEAST_ERROR)
    return KernelChoice(tuple(each for each in ordered[: options.most] if each.error <= most), number)


def takes_log_theta(kernel: Kernel) -> bool:
    """Whether a kernel takes the logarithms of thetas, so that these must be positive."""
    on_theta = kernel.on_theta
    return isinstance(on_theta, Warped) and isinstance(on_theta.warp, Log)


def judge(kernel: Kernel, points: PooledPoints, jitter: Jitter, noise: float = 0.0) -> KernelMember:
    """The kernel with the geometric mean of its leave-one-out errors: of single values, averages and integrals.

    Values are in units of the spread of f at their theta, averages over the points of a theta in units of f. The third
    error is the root of the sum of squares of the moves of an integral, each by leaving out one theta: single values
    would not do where f depends on theta, as others at the same theta hide how badly a kernel knows what lies between
    thetas. Where points have no thetas, fewer than three, or each its own, there is no second error, and the third is
    of single values.
    """
    try:
        process = ExactGP(kernel, points.u, points.f, jitter, noise).process
    except NotPositiveDefinite:
        return KernelMember(kernel, np.inf, np.inf, noise)
    share, squares, left_out = np.ones(points.n) if points.share is None else points.share, [], []
    if (owners := useful_groups(points.owners, points.n)) is not None:  # first: single values then need no other L^-1
        left_out = process.leave_groups_out(owners)
        shares = np.array([np.sum(share[each.rows]) for each in left_out])
        squares.append(_mean_square(np.stack([np.mean(each.residuals, axis=0) for each in left_out]), shares))
    single = _mean_square(process.residuals / points.spread, share)
    explained = _mean_square(np.sqrt(noise * process.amplitude) / points.spread, share)
    residual = float(np.sqrt(max(single - explained, 0.0)))
    squares.append(single)
    if points.integrals is not None:
        weights = process.functionals(points.integrals(kernel, points.u)).weights
        moves2 = [each.move(weights)[0] ** 2 for each in left_out] or [weights**2 @ process.residuals**2]
        squares.append(float(np.mean(np.sum(moves2, axis=0))))
    error = float(np.prod(np.power(squares, 0.5 / len(squares))))
    return KernelMember(kernel, error, residual, noise)


def processes_of(
    choice: KernelChoice, points: PooledPoints, landmarks: Integers | None, jitter: Jitter
) -> list[PointsGP]:
    """The processes of the kernels given all points: exact, or through landmarks, which are rows of the points."""
    nodes = None if landmarks is None else points.u[landmarks]
    return [pooled_gp(each.kernel, points.u, points.f, nodes, jitter, noise=each.noise) for each in choice.members]


def left_out_residuals(choice: KernelChoice, points: PooledPoints, jitter: Jitter, n: int) -> Array:
    """The leave-one-out residuals (m, C) at up to n of the points, in units of the spread of f at the theta of each."""
    some = points.thinned(n)
    with one_blas_thread():
        return ExactGP(choice.kernel, some.u, some.f, jitter, choice.noise).process.residuals / some.spread


_Refine = Callable[[PooledPoints], list[KernelMember]]


def _promising(
    families: Sequence[KernelFamily], points: PooledPoints, jitter: Jitter, options: Selection
) -> list[_Refine]:
    """For each family that is worth a second comparison, the function that makes it."""
    first = replace(points.thinned(options.screened), integrals=None)  # many embeddings take long
    grids = [[judge(kernel, first, jitter).error for kernel in family.members()] for family in families]
    errors = [min(grid) for grid in grids]
    best = [i for i in np.argsort(errors, kind="stable") if errors[i] <= options.promising * min(errors)]

    def refine(i: int) -> _Refine:
        family, start = families[i], float(np.log(families[i].factors[int(np.argmin(grids[i]))]))

        def at(some: PooledPoints) -> list[KernelMember]:
            judged: dict[float, KernelMember] = {}

            def score(factor: float) -> float:
                judged[factor] = judge(family.at(factor), some, jitter)
                return judged[factor].error

            if family.has_free:
                descend(score, start, options.step)
            else:
                score(0.0)
            return list(judged.values())

        return at

    return [refine(int(i)) for i in best[: options.refined]]


def _refined(refine: Sequence[_Refine], points: PooledPoints) -> list[KernelMember]:
    """The kernels on the way uphill from those of the first comparison, on more points."""
    found: list[list[KernelMember]] = [[]] * len(refine)

    def one(k: int) -> None:
        found[k] = refine[k](points)

    with nullcontext() if current_engine().threaded else at_most(1):
        for_each(one, len(refine), points.n, EVALUATIONS * points.n**3)
    return [member for members in found for member in members]


def _families(kernels: Sequence[Kernel], points: PooledPoints, ard: bool, options: Selection) -> list[KernelFamily]:
    """Each kernel with a first guess of its free lengthscales; kernels with equally many share ratios of them."""
    some = points.thinned(options.shaped)
    found = [KernelFamily.of(kernel, points.u, ard) for kernel in kernels]
    if np.count_nonzero(found[-1].free) < 2 or some.n * some.f.shape[1] <= 2 * points.u.shape[1]:
        return found  # which differ by a common factor of lengthscales in units of the coordinates
    alike: dict[int, list[int]] = {}
    for i, each in enumerate(found):
        alike.setdefault(len(each.free), []).append(i)
    for rows in alike.values():
        for i, family in zip(rows, _shaped([found[i] for i in rows], some), strict=True):
            found[i] = family
    return found


def _shaped(families: Sequence[KernelFamily], points: PooledPoints) -> list[KernelFamily]:
    """Families from rough to smooth, with the likeliest ratios of lengthscales: of the smoothest, or of a rough one."""
    smooth = rough = _change(families[-1], points)
    # where f has a kink, the smoothest sees nothing but the kink; the roughest has no derivatives, and no ratios
    with_kink = [each for each in families if not (each.kernel.on_x.is_analytic or each.kernel.is_roughest)]
    if with_kink:
        rough = _change(with_kink[0], points)

    def shaped(family: KernelFamily) -> Kernel:
        change = smooth if family.kernel.on_x.is_analytic else rough
        return family.kernel.with_log_lengthscales(family.kernel.log_lengthscales + change * family.free)

    return [replace(each, kernel=shaped(each)) for each in families]


def _change(family: KernelFamily, points: PooledPoints) -> Array:
    """What fitting its lengthscales one by one adds to their logarithms; zeros where none is free."""
    if not family.has_free:
        return np.zeros(len(family.free))
    fitted = fit_lengthscales(family.kernel, family.free, [points.data], FLAT)
    return np.asarray(fitted.log_lengthscales - family.kernel.log_lengthscales)


def _mean_square(values: Array, shares: Array) -> float:
    """The mean square of values (m, C) whose rows have shares (m,)."""
    return float(np.mean(shares @ values**2) / np.sum(shares))
