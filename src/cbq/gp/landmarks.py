"""Landmarks: which points stand for all of them, and how many are enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq.common.arrays import Array, Integers, evenly
from cbq.common.checks import are_numbers, check_fields, generator, is_number, is_whole
from cbq.gp.pooled import PooledGP, pooled_gp
from cbq.gp.selection import PooledPoints
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.gram import take
from cbq.linalg.threads import one_blas_thread


@dataclass(frozen=True)
class LandmarkSelection:
    """How many landmarks stand for many points, and which.

    fewest : landmarks to begin with; their number doubles as long as it helps.
    many, most : the largest numbers, where errors are at most `fine`, and where f is rougher: the cost is n m^2.
    nearly : as many are enough as have an error of so many times that of an exact process.
    fine : an error, in units of the spread of f, with which `many` are enough in any case.
    points : on so many points, at most, landmarks are compared with an exact process, whose cost grows with n^3.
    held_out : of these, one in so many is not seen by a process, and shows its error.
    shorter : factors by which lengthscales may be shorter than those of an exact process.
    candidates : points among which landmarks are chosen, at most.
    noisy : where f is random, so many landmarks, as the noise hides what they miss,
    draws : and they serve beyond so many values.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> more = cbq.LandmarkSelection(most=4000)  # for an f with narrow features at very many points
    >>> cbq.MOBQ(nystrom="auto", landmarks=more).fit(samples).groups[0].landmarks is None  # 240 points need none
    True
    """

    fewest: int = 250
    many: int = 1000
    most: int = 2000
    nearly: float = 1.25
    fine: float = 0.01
    points: int = 4800
    held_out: int = 6
    shorter: tuple[float, ...] = (1.0, 4.0, 16.0, 64.0, 256.0)
    candidates: int = 20_000
    noisy: int = 500
    draws: int = 3000

    def __post_init__(self) -> None:
        whole = ("fewest", "many", "most", "points", "held_out", "candidates", "noisy", "draws")
        check_fields(self, whole, "a whole number, 2 or more", lambda value: is_whole(value, 2))
        check_fields(self, ("nearly",), "a ratio of errors, 1 or more", lambda value: is_number(value, 1.0))
        check_fields(self, ("fine",), "an error, zero or more", lambda value: is_number(value, 0.0))
        check_fields(self, ("shorter",), "factors, 1 or more, in a tuple", lambda value: are_numbers(value, 1.0))


LANDMARKS = LandmarkSelection()  # unless others are given


def enough_landmarks(
    kernel: Kernel, points: PooledPoints, jitter: Jitter, seed: int, options: LandmarkSelection
) -> Integers:
    """As many landmarks, rows of the points, as predict f nearly as well as an exact process on some of the points.

    Their number doubles, and those that are added lie where those before predict f badly, such as at a kink.
    """
    trial = _Trial.of(kernel, points, jitter, options)
    goal, rng = options.nearly * trial.error(trial.process(None)), generator(seed)
    rows = evenly(points.n, options.candidates)
    candidates = points.take(rows)
    m, chosen = options.fewest, choose_landmarks(kernel, candidates.u, options.fewest, rng)
    while True:
        process = trial.process(candidates.u[chosen])
        error = trial.error(process)
        if error <= goal or len(chosen) < m or 2 * m > (options.many if error <= options.fine else options.most):
            return rows[chosen]
        residuals2 = np.mean(trial.residuals(process, candidates) ** 2, axis=1)
        m *= 2
        chosen = choose_landmarks(kernel, candidates.u, m, rng, chosen, residuals2 + np.mean(residuals2))


def kernel_for_landmarks(
    kernel: Kernel, points: PooledPoints, jitter: Jitter, seed: int, options: LandmarkSelection
) -> Kernel:
    """The kernel, or one with shorter lengthscales, that predicts held-out values of f best through few landmarks.

    With long lengthscales an exact process extrapolates well, but landmarks soon represent the kernel up to rounding,
    and take the rest of f for noise.
    """
    shorter = [kernel.with_log_lengthscales(kernel.log_lengthscales - np.log(factor)) for factor in options.shorter]

    def error(kernel: Kernel) -> float:
        trial = _Trial.of(kernel, points, jitter, options)
        rows = choose_landmarks(kernel, trial.known.u, options.fewest, generator(seed))
        return trial.error(trial.process(trial.known.u[rows]))

    return min(shorter, key=error)


@dataclass(frozen=True, eq=False)
class _Trial:
    """Points whose values are predicted from those of others."""

    kernel: Kernel
    known: PooledPoints
    held_out: PooledPoints
    jitter: Jitter

    @classmethod
    def of(cls, kernel: Kernel, points: PooledPoints, jitter: Jitter, options: LandmarkSelection) -> _Trial:
        some, every = points.thinned(options.points), options.held_out
        is_held_out = np.arange(some.n) % every == every - 1
        known, held_out = (some.take(np.flatnonzero(each)) for each in (~is_held_out, is_held_out))
        return cls(kernel, known, held_out, jitter)

    def process(self, landmarks: Array | None) -> PooledGP:
        """The process given the known values, through landmarks or exact."""
        return pooled_gp(self.kernel, self.known.u, self.known.f, landmarks, self.jitter)

    def residuals(self, process: PooledGP, points: PooledPoints) -> Array:
        """Its errors (n, C) at points, in units of the spread of f."""
        return (process.mean(self.kernel(points.u, process.nodes)) - points.f) / points.spread

    def error(self, process: PooledGP) -> float:
        """Its root-mean-square error at the points that are held out."""
        return float(np.sqrt(np.mean(self.residuals(process, self.held_out) ** 2)))


def choose_landmarks(
    kernel: Kernel,
    u: Array,
    m: int,
    rng: np.random.Generator,
    first: Sequence[int] | Integers = (),
    weights: Array | None = None,
) -> Integers:
    """At most m of the points u (n, D), by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber 2025).

    Each is drawn with a probability proportional to its variance given those before, so that they go where the kernel
    does not yet know f. It costs n m^2 operations and n m kernel values.

    first: landmarks that are chosen already. weights: (n,), factors of the probabilities.
    """
    with one_blas_thread():  # products of matrices and vectors gain nothing from more
        return _pivots(kernel, u, m, rng, first, np.ones(len(u)) if weights is None else weights)


def _pivots(
    kernel: Kernel, u: Array, m: int, rng: np.random.Generator, first: Sequence[int] | Integers, weights: Array
) -> Integers:
    left = kernel.diag(u).copy()
    least = np.finfo(float).eps * len(u) * float(np.max(left))
    columns = np.empty((m, len(u)))  # of the factor, one for each landmark
    features, row = kernel.features(u), np.empty((1, len(u)))
    chosen: list[int] = []
    while len(chosen) < m and np.any(left > least):
        k, odds = len(chosen), left * weights
        i = int(first[k]) if k < len(first) else int(rng.choice(len(u), p=odds / np.sum(odds)))
        kernel.fill(take(features, slice(i, i + 1)), features, row)
        columns[k] = (row[0] - columns[:k, i] @ columns[:k]) / np.sqrt(left[i])
        left = np.maximum(left - columns[k] ** 2, 0.0)
        left[left <= least] = 0.0
        left[i] = 0.0
        chosen.append(i)
    return np.array(chosen, dtype=np.intp)
