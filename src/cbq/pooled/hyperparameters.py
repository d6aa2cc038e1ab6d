"""The kernel of a pooled process: lengthscales by the restricted likelihood, smoothness by leaving one point out.

As in stage 1, the likelihood is the judge of lengthscales but not of smoothness and coordinates: where f is analytic at
most points and has a kink at few, it prefers the kernel that is right about the many. Of kernels whose leave-one-out
errors are nearly the same the roughest is taken, which is wrong by less where it is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cbq._arrays import Array
from cbq.io import Instance, Integer, Number, saved
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.threads import one_blas_thread
from cbq.pooled.pool import PooledPoints
from cbq.pooled.process import ExactGP
from cbq.stage1.blocks import SampleBlock, standard_normal
from cbq.stage1.candidates import GRID, KernelFamily, family
from cbq.stage1.fit import MAX_LOG_LENGTHSCALE, PER_LENGTHSCALE
from cbq.stage1.quadrature import KernelEvidence, explain
from cbq.stage1.shape import fit_shape

FLAT = 0.0  # the prior precision of the mean of f, see `stage1.quadrature`
FEW, MANY = 250, 1000  # points for a first look, and for the choice
SHAPE = 500  # points for lengthscales of several coordinates
PROMISING = 3.0  # errors at the first look, in units of the smallest, that are worth a second
TIE = 2.0  # errors up to this factor apart are nearly the same
WORTH = 0.25  # a kernel with a slow embedding must have an error of less than this share of any other's
FARTHEST = 4.0  # the logarithm of lengthscales in units of the first guess: beyond, jitter takes the place of noise
LONGER, BETTER = (1.5, 2.0, 3.0), 0.8  # factors of the likeliest lengthscales, and the errors that make them worth it
UNKNOWN = 0.5  # a leave-one-out error, in units of the spread of f, of what has not been learnt
STEPS = (1.0, 0.5, 0.25, 0.12)  # in the logarithm of the lengthscales


@saved("KernelChoice", kernel=Instance(Kernel), error=Number(0.0), tried=Integer(1))
@dataclass(frozen=True, eq=False)
class KernelChoice:
    """A kernel with all its lengthscales, and its root-mean-square leave-one-out error.

    The error is relative to the standard deviation of f at the theta of each point. tried: how many kernels.
    """

    kernel: Kernel
    error: float
    tried: int


def choose(kernels: Sequence[Kernel], points: PooledPoints, jitter: Jitter, *, ard: bool = True) -> KernelChoice:
    """The kernel, of those given from rough to smooth, and its lengthscales for a pool of points."""
    with one_blas_thread():  # many matrices of a size at which threads gain little, and on a busy machine lose all
        families = _families(kernels, points, ard)
        first, second = points.thinned(FEW), points.thinned(MANY)
        looks = [_first_look(each, first, jitter) for each in families]
        promising = _at_most(PROMISING, [error for _, error in looks])
        refined = [_likeliest(families[i], looks[i][0], second, jitter) for i in promising]
        errors = [_error(kernel, second, jitter) for kernel in refined]
        slow = [kernel.on_x.has_slow_embedding for kernel in refined]
        best = _at_most(TIE, [e / WORTH if s else e for s, e in zip(slow, errors, strict=True)])[0]
        kernel, error = _stretched(refined[best], families[promising[best]], second, jitter)
    return KernelChoice(kernel, error, len(kernels))


def _stretched(kernel: Kernel, mine: KernelFamily, points: PooledPoints, jitter: Jitter) -> tuple[Kernel, float]:
    """The kernel with its free lengthscales as they are or longer, by the smallest leave-one-out error, and that error.

    The likelihood takes the jitter for noise, and so the lengthscales of a smooth kernel for shorter than they are.
    """
    error, ells = _error(kernel, points, jitter), kernel.log_lengthscales
    for factor in LONGER if np.any(mine.free) else ():
        longer = mine.kernel.with_log_lengthscales(ells + np.log(factor) * mine.free)
        trial = _error(longer, points, jitter)
        if trial < BETTER * error:
            kernel, error = longer, trial
    return kernel, error


def _at_most(factor: float, errors: Sequence[float]) -> list[int]:
    """Which errors are at most so many times the smallest."""
    least = min(errors)
    return [i for i, error in enumerate(errors) if error <= factor * least]


def _families(kernels: Sequence[Kernel], points: PooledPoints, ard: bool) -> list[KernelFamily]:
    """Each kernel with a first guess of its free lengthscales; where there are several, the smoothest shapes all."""
    some = points.thinned(SHAPE)
    dimension = points.u.shape[1]
    ard = ard and dimension > 1 and some.n * some.f.shape[1] > PER_LENGTHSCALE * dimension
    found = [replace(family(kernel, "raw", points.u, ard), factors=GRID) for kernel in kernels]
    if np.count_nonzero(found[-1].free) < 2 or some.n < 3:
        return found
    block = _block(some)
    change = _change(found[-1], block)
    smooth, rough = change, change
    if np.min(change[found[-1].free]) > MAX_LOG_LENGTHSCALE:  # a kink, which the roughest sees best
        rough = _change(found[0], block)
    changes = [smooth if each.kernel.on_x.smoothness == np.inf else rough for each in found]
    return [_shaped(each, by) if len(by) == len(each.free) else each for each, by in zip(found, changes, strict=True)]


def _change(mine: KernelFamily, block: SampleBlock) -> Array:
    """What fitting its lengthscales one by one adds to their logarithms."""
    return np.asarray(fit_shape(mine.kernel, mine.free, [block], FLAT).log_lengthscales - mine.kernel.log_lengthscales)


def _shaped(mine: KernelFamily, change: Array) -> KernelFamily:
    return replace(mine, kernel=mine.kernel.with_log_lengthscales(mine.kernel.log_lengthscales + change))


def _first_look(mine: KernelFamily, points: PooledPoints, jitter: Jitter) -> tuple[float, float]:
    """The logarithm of the likeliest factor of the lengthscales, and the leave-one-out error there."""
    result = explain(mine.all(), _block(points), FLAT, jitter)
    best = int(np.argmax(np.sum(result.evidence, axis=(1, 2))))
    return float(np.log(mine.factors[best])), _rms(_residuals(result, best, points))


def _likeliest(mine: KernelFamily, log_factor: float, points: PooledPoints, jitter: Jitter) -> Kernel:
    """The kernel with the likeliest factor of its free lengthscales, uphill from a first one."""
    if not np.any(mine.free):
        return mine.kernel

    def at(value: float) -> Kernel:
        return mine.kernel.with_log_lengthscales(mine.kernel.log_lengthscales + value * mine.free)

    def likelihood(value: float) -> float:
        return evidence(at(value), points, jitter)

    best = likelihood(log_factor)
    for step in STEPS:
        for move in (step, -step):
            while abs(log_factor + move) <= FARTHEST and (trial := likelihood(log_factor + move)) > best:
                log_factor, best = log_factor + move, trial
    return at(log_factor)


def evidence(kernel: Kernel, points: PooledPoints, jitter: Jitter) -> float:
    """The restricted log-likelihood of all outputs, but for a constant."""
    process = ExactGP(kernel, points.u, points.f, jitter)
    logdet = float(process.factor.logdet) + np.log(process.S)
    amplitude = np.maximum(process.amplitude, np.finfo(float).eps ** 2)
    return float(-0.5 * np.sum((points.n - 1) * np.log(amplitude) + logdet))


def residuals(kernel: Kernel, points: PooledPoints, jitter: Jitter) -> Array:
    """The leave-one-out errors (m, C) at m of the points, in units of the spread of f at the theta of each."""
    some = points.thinned(MANY)
    with one_blas_thread():
        return _residuals(explain(kernel, _block(some), FLAT, jitter), 0, some)


def _error(kernel: Kernel, points: PooledPoints, jitter: Jitter) -> float:
    """The root-mean-square leave-one-out error."""
    return _rms(_residuals(explain(kernel, _block(points), FLAT, jitter), 0, points))


def _residuals(result: KernelEvidence, k: int, points: PooledPoints) -> Array:
    return np.asarray(result.residuals[k, 0] / points.spread)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _block(points: PooledPoints) -> SampleBlock:
    """The points as those of one theta; the measure is there for kernels that would need one, and none does."""
    return SampleBlock(np.zeros(1, dtype=np.intp), points.u[None], points.f[None], standard_normal(points.u.shape[1]))
