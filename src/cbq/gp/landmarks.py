"""Landmarks of a sparse process: how many points represent all of them, and which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq.common import Array, Integers, are_numbers, check_fields, evenly, generator, is_number, is_whole
from cbq.gp.pooled import PooledGP, pooled_gp
from cbq.gp.selection import PooledPoints
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.gram import take
from cbq.linalg.threads import one_blas_thread


@dataclass(frozen=True)
class LandmarkSelection:
    """The number of landmarks that represent many points, and their choice.

    fewest : the number to begin with. It doubles until the error is small enough.
    nearly : the error is small enough at `nearly` times the error of an exact process.
    many, most : the largest number, where the error is at most `fine`, and elsewhere; the cost is n m^2.
    fine : an error, in units of the spread of f, at which `many` landmarks are enough in any case.
    points : the number of points on which landmarks are compared with an exact process, at most; its cost is n^3.
    held_out : in this comparison, one in `held_out` points is kept from the processes, and shows their errors.
    shorter : factors by which lengthscales may be shorter than the lengthscales of an exact process.
    candidates : the number of points to choose landmarks from, at most.
    noisy : the number of landmarks where f is random: noise hides the error of few landmarks.
    draws : the number of values of a random f beyond which landmarks are used.

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


LANDMARKS = LandmarkSelection()  # the default


def enough_landmarks(
    kernel: Kernel, points: PooledPoints, jitter: Jitter, seed: int, options: LandmarkSelection
) -> Integers:
    """Landmarks, rows of the points, that predict f nearly as well as an exact process does on a part of the points.

    Their number doubles, and new landmarks go where the present ones predict f badly, such as to a kink.
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
    """The kernel with the lengthscales that predict held-out values of f best through few landmarks.

    With long lengthscales an exact process extrapolates well. Landmarks, however, soon represent such a kernel up to
    rounding, and the fit takes the rest of f for noise. So shorter lengthscales are tried, too.
    """
    shorter = [kernel.with_log_lengthscales(kernel.log_lengthscales - np.log(factor)) for factor in options.shorter]

    def error(kernel: Kernel) -> float:
        trial = _Trial.of(kernel, points, jitter, options)
        rows = choose_landmarks(kernel, trial.known.u, options.fewest, generator(seed))
        return trial.error(trial.process(trial.known.u[rows]))

    return min(shorter, key=error)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A test of processes: known points, and held-out points at which the values are predicted."""

    kernel: Kernel
    known: PooledPoints
    held_out: PooledPoints
    jitter: Jitter

    @classmethod
    def of(cls, kernel: Kernel, points: PooledPoints, jitter: Jitter, options: LandmarkSelection) -> _Trial:
        subset, every = points.thinned(options.points), options.held_out
        is_held_out = np.arange(subset.n) % every == every - 1
        known, held_out = (subset.take(np.flatnonzero(rows)) for rows in (~is_held_out, is_held_out))
        return cls(kernel, known, held_out, jitter)

    def process(self, landmarks: Array | None) -> PooledGP:
        """The process given the known values, through landmarks, or exact if these are None."""
        return pooled_gp(self.kernel, self.known.u, self.known.f, landmarks, self.jitter)

    def residuals(self, process: PooledGP, points: PooledPoints) -> Array:
        """The errors (n, C) of a process at points, in units of the spread of f."""
        return (process.mean(self.kernel(points.u, process.nodes)) - points.f) / points.spread

    def error(self, process: PooledGP) -> float:
        """The root-mean-square error of a process at the held-out points."""
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

    Each landmark is drawn with a probability proportional to its variance given the landmarks before it, and so goes
    where f is most uncertain. The cost is n m^2 operations and n m kernel values.

    first: landmarks chosen already. weights: (n,), factors of the probabilities.
    """
    # Products of matrices and vectors gain nothing from more threads.
    with one_blas_thread():
        return _pivots(kernel, u, m, rng, first, np.ones(len(u)) if weights is None else weights)


def _pivots(
    kernel: Kernel, u: Array, m: int, rng: np.random.Generator, first: Sequence[int] | Integers, weights: Array
) -> Integers:
    left = kernel.diag(u).copy()  # the variance at every point given the landmarks
    least = np.finfo(float).eps * len(u) * float(np.max(left))  # smaller variances are rounding errors
    columns = np.empty((m, len(u)))  # of the factor, one for each landmark
    features, row = kernel.features(u), np.empty((1, len(u)))
    chosen: list[int] = []
    while len(chosen) < m and np.any(left > least):
        k, odds = len(chosen), left * weights
        i = int(first[k]) if k < len(first) else int(rng.choice(len(u), p=odds / np.sum(odds)))
        # The next column of the Cholesky factor, with its pivot at point i.
        kernel.fill(take(features, slice(i, i + 1)), features, row)
        columns[k] = (row[0] - columns[:k, i] @ columns[:k]) / np.sqrt(left[i])
        left = np.maximum(left - columns[k] ** 2, 0.0)
        left[left <= least] = 0.0
        left[i] = 0.0
        chosen.append(i)
    return np.array(chosen, dtype=np.intp)
