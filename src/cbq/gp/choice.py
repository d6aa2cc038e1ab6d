"""The kernels of a pooled process.

The evidence chooses lengthscales, but not smoothness and coordinates: where f is analytic at most points and has a kink
at a few, it prefers the kernel that is right about the many. Leave-one-out residuals judge these. They are small where
points are dense, whatever the kernel, while kernels differ in gaps and beyond the outermost points: there a longer
lengthscale does less harm, and kernels with nearly the same leave-one-out error are averaged, those that promise a
smaller error of the integrals counting more. Where the kernels disagree, the variance says so.

Where f jumps, as the indicator of an event does, smooth kernels ring. The roughest one (Matern 1/2) does not, but the
jump makes its likeliest lengthscales far too short, and misleads the others about which inputs matter: leave-one-out
residuals choose its lengthscales, from far longer ones, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cbq._arrays import Array, Booleans, Integers, evenly
from cbq.embeddings.many import Integrals
from cbq.gp.families import MAX_LOG_LENGTHSCALE, KernelFamily, fit_lengthscales
from cbq.gp.pooled import Embedded, ExactGP, HalvedGP, IntegralPosterior, PooledGP, pooled_gp
from cbq.gp.process import FLAT
from cbq.gp.quadrature import GPData, KernelEvidence, explain, explain_likeliest
from cbq.gp.search import climb
from cbq.io import Instance, Integer, Many, Number, saved
from cbq.kernels import Kernel
from cbq.linalg import Jitter, at_most
from cbq.linalg.engines import current_engine
from cbq.linalg.threads import for_each, one_blas_thread

SCREENING_POINTS, CHOICE_POINTS = 250, 1000  # for a first comparison of the kernels, and for the choice
LENGTHSCALE_POINTS = 500  # for lengthscales of several coordinates
MAX_REFINED, MAX_ROUGHEST = 8, 2  # kernels that are compared twice, and the roughest of those that are compared first
VALUES_PER_LENGTHSCALE = 2  # needed to fit them one by one: leave-one-out errors judge the kernels afterwards
SCREENING_FACTOR = 3.0  # errors in the first comparison, in units of the smallest, that are worth a second
SMOOTH_ENOUGH = 0.1  # an error up to which f is explained without jumps
LEAST_SHARE = 0.1  # of the measures, in units of the average, of points that shape the roughest kernels
TIE_FACTOR = 3.0  # errors up to this factor apart are nearly the same
SLOW_EMBEDDING_PENALTY = 4.0  # the factor of the errors of kernels with slow embeddings, before they are compared
LEAST_ERROR = np.finfo(float).eps  # of f in units near 1: less is rounding
MAX_TIED = 4  # kernels whose integrals are looked at
NEGLIGIBLE, MAX_MEMBERS = 0.05, 3  # a weight that is not worth its process, and the most processes
MAX_AVERAGED_POINTS = 2000  # with more points one process is expensive enough
MAX_LOG_FACTOR = 4.0  # of lengthscales in units of the first guess: beyond, jitter acts as noise
STRETCHES = (1.5, 2.0, 3.0, 5.0, 8.0)  # longer lengthscales to try
ROUGHEST_STRETCHES = (*STRETCHES, 16.0, 32.0, 64.0, 128.0, 256.0)  # a jump makes the likeliest ones far too short
MISSED = 1e-3  # of the spread of f, by which a process that takes values for noise may miss them
STRETCH_LOSS, STRETCH_END = 1.1, 2.0  # the ratios of errors up to which a longer one is taken, and still longer tried
NOT_LEARNT = 0.5  # a leave-one-out error, in units of the spread of f, of an f that was not learnt
REFINEMENTS = 20  # factorisations that a kernel takes, approximately
STEPS = (1.0, 0.5, 0.25, 0.12)  # in the logarithm of the lengthscales


@dataclass(frozen=True, eq=False)
class PooledPoints:
    """n points of all thetas together, C outputs.

    u: (n, D), x alone, or x and its theta where f depends on both. f: (n, C), in units near 1. spread: (n, C), the
    standard deviation of f at the theta of each point, or the least that counts. shift, scale: (C,), f was
    shift + scale f. owners: (n,), the theta of each point, if they have any. share: (n,), of the measures that each
    point stands for, where points were chosen and crowd where f is hard; None where they were drawn.
    """

    u: Array
    f: Array
    spread: Array
    shift: Array
    scale: Array
    owners: Integers | None = None
    share: Array | None = None

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
        owners = None if self.owners is None else self.owners[rows]
        share = None if self.share is None else self.share[rows]
        return replace(self, u=self.u[rows], f=self.f[rows], spread=self.spread[rows], owners=owners, share=share)

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


@saved("KernelMember", kernel=Instance(Kernel), weight=Number(0.0), error=Number(0.0), noise=Number(0.0))
@dataclass(frozen=True, eq=False)
class KernelMember:
    """A kernel with all its lengthscales, its weight in an average, and its root-mean-square leave-one-out error.

    The error is relative to the standard deviation of f at the theta of each point, without what the noise explains.
    noise: the noise variance of the values, in units of the amplitude.
    """

    kernel: Kernel
    weight: float
    error: float
    noise: float = 0.0


@saved("KernelChoice", members=Many(Instance(KernelMember), least=1), tried=Integer(1))
@dataclass(frozen=True, eq=False)
class KernelChoice:
    """The kernels whose processes are averaged, the heaviest first, and how many were tried."""

    members: tuple[KernelMember, ...]
    tried: int

    @classmethod
    def of(cls, kernel: Kernel, error: float = 0.0) -> KernelChoice:
        """The choice of a single kernel."""
        return cls((KernelMember(kernel, 1.0, error),), 1)

    def heaviest(self) -> KernelChoice:
        """The choice of the heaviest kernel alone."""
        return replace(self, members=(replace(self.members[0], weight=1.0),))

    @property
    def kernel(self) -> Kernel:
        """The heaviest kernel."""
        return self.members[0].kernel

    @property
    def weights(self) -> Array:
        """The weights of the members, which sum to one."""
        return np.array([member.weight for member in self.members])

    @property
    def error(self) -> float:
        """The root-mean-square leave-one-out error, averaged over the members."""
        return float(np.sqrt(self.weights @ [member.error**2 for member in self.members]))


def choose_kernel(
    kernels: Sequence[Kernel],
    points: PooledPoints,
    jitter: Jitter,
    *,
    ard: bool = True,
    integrals: Callable[[Kernel], Integrals] | None = None,
) -> KernelChoice:
    """The best of kernels given from rough to smooth, with their lengthscales.

    integrals: those of a kernel whose errors matter; without them, only leave-one-out errors make the weights.
    """
    with one_blas_thread():  # many matrices of a size at which threads gain little, and on a busy machine lose all
        families = _families(kernels, points, ard)
        first, second = points.thinned(SCREENING_POINTS), points.thinned(CHOICE_POINTS)
        screened = [_screen(each, first, jitter) for each in families]
        if min(error for _, error in screened) > SMOOTH_ENOUGH:
            best = sorted(_roughest(kernels), key=lambda i: screened[i][1])[:MAX_ROUGHEST]
            for i, family in _shaped_by_themselves([(i, families[i]) for i in best], points):
                found = _least_error(family, first, jitter)
                if found[1] < screened[i][1]:
                    families[i], screened[i] = family, found
        promising = _promising(kernels, [error for _, error in screened])
        refined = [_Tried(kernels[i], np.inf, 0.0) for i in promising]

        def refine(k: int) -> None:
            i = promising[k]
            refined[k] = _refined(families[i], screened[i][0], second, jitter)

        with nullcontext() if current_engine().threaded else at_most(1):
            for_each(refine, len(promising), second.n, REFINEMENTS * second.n**3)

        def promise(kernel: Kernel) -> float:
            assert integrals is not None
            return promised(ExactGP(kernel, second.u, second.f, jitter), integrals(kernel))

        members = weighed(_interpolating(refined), None if integrals is None else promise)
    chosen = KernelChoice(members, len(kernels))
    return chosen if points.n <= MAX_AVERAGED_POINTS else chosen.heaviest()


def processes_of(
    choice: KernelChoice, points: PooledPoints, landmarks: Integers | None, jitter: Jitter
) -> list[HalvedGP]:
    """The processes of the kernels given all points: exact, or through landmarks, which are rows of the points."""
    nodes = None if landmarks is None else points.u[landmarks]
    return [pooled_gp(each.kernel, points.u, points.f, nodes, jitter, noise=each.noise) for each in choice.members]


def leave_one_out(choice: KernelChoice, points: PooledPoints, jitter: Jitter) -> Array:
    """The leave-one-out residuals (m, C) at m of the points, in units of the spread of f at the theta of each."""
    some = points.thinned(CHOICE_POINTS)
    with one_blas_thread():
        found = [explain(m.kernel, some.data, FLAT, jitter, [m.noise]) for m in choice.members]
    return np.asarray(np.tensordot(choice.weights, [_residuals(each, 0, some) for each in found], 1))


class _Tried(NamedTuple):
    """A kernel, its leave-one-out error, and by how much its process misses the values, in units of the spread of f."""

    kernel: Kernel
    error: float
    missed: float

    @classmethod
    def on(cls, kernel: Kernel, points: PooledPoints, jitter: Jitter) -> _Tried:
        found = explain(kernel, points.data, FLAT, jitter)
        added = found.jitter[0, 0] * np.mean(kernel.diag(points.u))
        missed = added * found.precision[0, 0][:, None] * found.residuals[0, 0] / points.spread
        return cls(kernel, _rms(_residuals(found, 0, points)), _rms(missed))


def _promising(kernels: Sequence[Kernel], errors: Sequence[float]) -> list[int]:
    """Which kernels are worth a second comparison: those with nearly the smallest errors, and one of the roughest.

    With lengthscales that are far too short, as they are likeliest where f jumps, the roughest look bad.
    """
    found = sorted(_at_most(SCREENING_FACTOR, errors), key=errors.__getitem__)[:MAX_REFINED]
    return sorted({*found, *sorted(_roughest(kernels), key=errors.__getitem__)[:1]})


def _roughest(kernels: Sequence[Kernel]) -> list[int]:
    """Which of the kernels are the roughest."""
    return [i for i, kernel in enumerate(kernels) if kernel.is_roughest]


def _interpolating(tried: Sequence[_Tried]) -> list[tuple[Kernel, float]]:
    """The kernels, with their errors, whose processes go through the values; all if that of the best does not.

    Jitter lets a kernel whose lengthscales are far too long take values for noise about a polynomial, and promise small
    errors of integrals as if it were.
    """
    strict = min(tried, key=lambda each: each.error).missed <= MISSED
    return [(each.kernel, each.error) for each in tried if each.missed <= MISSED or not strict]


def _refined(family: KernelFamily, log_factor: float, points: PooledPoints, jitter: Jitter) -> _Tried:
    """The likeliest kernel of a family, or one with longer lengthscales, and how it does.

    Lengthscales grow as long as the error does not. The evidence takes the jitter for noise, and so finds those of a
    smooth kernel too short; and beyond the outermost points a process with short lengthscales soon returns to its mean.
    """
    likeliest = _likeliest(family, log_factor, points, jitter)
    tried = [_Tried.on(likeliest, points, jitter)]
    least = tried[0].error
    stretches = ROUGHEST_STRETCHES if family.kernel.is_roughest else STRETCHES
    for factor in stretches if family.has_free else ():
        ells = likeliest.log_lengthscales + np.log(factor) * family.free
        longer = family.kernel.with_log_lengthscales(ells)
        tried.append(_Tried.on(longer, points, jitter))
        if tried[-1].error > STRETCH_END * least:
            break
        least = min(least, tried[-1].error)
    return next(each for each in reversed(tried) if each.error <= STRETCH_LOSS * least)


def weighed(
    refined: Sequence[tuple[Kernel, float]], promise: Callable[[Kernel], float] | None
) -> tuple[KernelMember, ...]:
    """Those of kernels, given with their errors, that have nearly the smallest error, with weights, the heaviest first.

    A weight falls with the square of the error times the standard deviation that the kernel promises of integrals.
    """
    slow = [kernel.on_x.has_slow_embedding for kernel, _ in refined]
    errors = [e * (SLOW_EMBEDDING_PENALTY if s else 1.0) for (_, e), s in zip(refined, slow, strict=True)]
    best_is_slow = slow[int(np.argmin(errors))]
    tied = [i for i in _at_most(TIE_FACTOR, errors) if slow[i] <= best_is_slow]
    tied = sorted(tied, key=errors.__getitem__)[:MAX_TIED]
    harm = np.maximum([errors[i] for i in tied], LEAST_ERROR)
    if promise is not None and len(tied) > 1:
        harm *= [promise(refined[i][0]) for i in tied]
    weights = (np.min(harm) / harm) ** 2
    heaviest = np.argsort(-weights, kind="stable")[:MAX_MEMBERS]
    kept = heaviest[weights[heaviest] >= NEGLIGIBLE]
    weights /= np.sum(weights[kept])
    return tuple(KernelMember(refined[tied[k]][0], float(weights[k]), refined[tied[k]][1]) for k in kept)


def promised(process: PooledGP, integrals: Embedded) -> float:
    """The root-mean-square standard deviation of integrals, averaged over outputs in logarithms."""
    variance = IntegralPosterior.of(process, integrals).spread  # (C, M)
    return float(np.exp(0.5 * np.mean(np.log(np.maximum(np.mean(variance, axis=1), LEAST_ERROR**2)))))


def _at_most(factor: float, errors: Sequence[float]) -> list[int]:
    """Which errors are at most so many times the smallest."""
    least = min(errors)
    return [i for i, error in enumerate(errors) if error <= factor * least]


def _families(kernels: Sequence[Kernel], points: PooledPoints, ard: bool) -> list[KernelFamily]:
    """Each kernel with a first guess of its free lengthscales; where there are several, the smoothest shapes all."""
    some = points.thinned(LENGTHSCALE_POINTS)
    dimension = points.u.shape[1]
    enough = some.n * some.f.shape[1] > VALUES_PER_LENGTHSCALE * dimension
    found = [KernelFamily.of(kernel, points.u, ard and dimension > 1) for kernel in kernels]
    if np.count_nonzero(found[-1].free) < 2 or some.n < 3 or not enough:
        return found  # which differ by a common factor of lengthscales in units of the coordinates
    change = _change(found[-1], some)
    smooth, rough = change, change
    if np.min(change[found[-1].free]) > MAX_LOG_LENGTHSCALE:  # a kink, which the roughest with derivatives sees best
        rough = _change(next((each for each in found if not each.kernel.is_roughest), found[0]), some)
    changes = [smooth if np.isinf(each.kernel.on_x.smoothness) else rough for each in found]
    return [_shaped(each, by) if len(by) == len(each.free) else each for each, by in zip(found, changes, strict=True)]


def _shaped_by_themselves(
    roughest: list[tuple[int, KernelFamily]], points: PooledPoints
) -> list[tuple[int, KernelFamily]]:
    """Families of the roughest kernels with their numbers, as they are and shaped by the first of them.

    A jump misleads all others, and points that crowd at it say no more than that lengthscales are short.
    """
    some = points if points.share is None else points.take(points.share >= LEAST_SHARE / points.n)
    some = some.thinned(LENGTHSCALE_POINTS)
    if not roughest or some.n < 3 or np.count_nonzero(roughest[0][1].free) < 2:
        return roughest
    change = _change(roughest[0][1], some)
    shaped = [(i, _shaped(each, change)) for i, each in roughest if len(change) == len(each.free)]
    return [*roughest, *shaped]


def _change(family: KernelFamily, points: PooledPoints) -> Array:
    """What fitting its lengthscales one by one adds to their logarithms."""
    fitted = fit_lengthscales(family.kernel, family.free, [points.data], FLAT)
    return np.asarray(fitted.log_lengthscales - family.kernel.log_lengthscales)


def _shaped(family: KernelFamily, change: Array) -> KernelFamily:
    return replace(family, kernel=family.kernel.with_log_lengthscales(family.kernel.log_lengthscales + change))


def _screen(family: KernelFamily, points: PooledPoints, jitter: Jitter) -> tuple[float, float]:
    """The logarithm of the likeliest factor of the lengthscales, and the leave-one-out error there."""
    best, explained = explain_likeliest(family.batched(), points.data, FLAT, jitter)
    return float(np.log(family.factors[best])), _rms(_residuals(explained, 0, points))


def _least_error(family: KernelFamily, points: PooledPoints, jitter: Jitter) -> tuple[float, float]:
    """The logarithm of the factor of the lengthscales with the least leave-one-out error, and the error."""
    found = explain(family.batched(), points.data, FLAT, jitter)
    errors = [_rms(_residuals(found, k, points)) for k in range(len(family.factors))]
    best = int(np.argmin(errors))
    return float(np.log(family.factors[best])), errors[best]


def _likeliest(family: KernelFamily, log_factor: float, points: PooledPoints, jitter: Jitter) -> Kernel:
    """The kernel with the likeliest factor of its free lengthscales, uphill from a first one."""
    if not family.has_free:
        return family.kernel

    def evidence(log_factor: float) -> float:
        return ExactGP(family.at(log_factor), points.u, points.f, jitter).evidence

    return family.at(climb(evidence, log_factor, STEPS, MAX_LOG_FACTOR))


def _residuals(result: KernelEvidence, k: int, points: PooledPoints) -> Array:
    """Residuals (n, C), weighted such that their mean square is an average over the measures."""
    weight = 1.0 if points.share is None else np.sqrt(points.share / np.mean(points.share))[:, None]
    return np.asarray(weight * result.residuals[k, 0] / points.spread)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))
