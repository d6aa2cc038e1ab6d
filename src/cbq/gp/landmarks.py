"""Landmarks: which points stand for all of them, and how many are enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers, evenly
from cbq._checks import generator
from cbq.gp.pooled import PooledGP, pooled_gp
from cbq.gp.selection import PooledPoints
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.gram import take
from cbq.linalg.threads import one_blas_thread

FEWEST, MANY, MOST = 250, 1000, 2000  # landmarks to begin with, at most, and at most where f is rough
NEARLY = 1.25  # times the error of an exact process: then landmarks are enough
FINE = 0.01  # an error in units of the spread of f with which `MANY` are enough in any case
TRIAL_POINTS, HELD_OUT = 4800, 6  # points on which processes are compared, at most; one in so many is held out
SHORTER = (1.0, 4.0, 16.0, 64.0, 256.0)  # factors by which lengthscales may be shorter
CANDIDATES = 20_000  # points among which landmarks are chosen, at most


def enough_landmarks(kernel: Kernel, points: PooledPoints, jitter: Jitter, seed: int) -> Integers:
    """As many landmarks, rows of the points, as predict f nearly as well as an exact process on some of the points.

    Their number doubles, and those that are added lie where those before predict f badly, such as at a kink.
    """
    trial = _Trial.of(kernel, points.thinned(TRIAL_POINTS), jitter)
    goal, rng = NEARLY * trial.error(trial.process(None)), generator(seed)
    rows = evenly(points.n, CANDIDATES)
    candidates = points.take(rows)
    m, chosen = FEWEST, choose_landmarks(kernel, candidates.u, FEWEST, rng)
    while True:
        process = trial.process(candidates.u[chosen])
        error = trial.error(process)
        if error <= goal or len(chosen) < m or 2 * m > (MANY if error <= FINE else MOST):
            return rows[chosen]
        residuals2 = np.mean(trial.residuals(process, candidates) ** 2, axis=1)
        m *= 2
        chosen = choose_landmarks(kernel, candidates.u, m, rng, chosen, residuals2 + np.mean(residuals2))


def kernel_for_landmarks(kernel: Kernel, points: PooledPoints, jitter: Jitter, seed: int) -> Kernel:
    """The kernel, or one with shorter lengthscales, that predicts held-out values of f best through few landmarks.

    With long lengthscales an exact process extrapolates well, but landmarks soon represent the kernel up to rounding,
    and take the rest of f for noise.
    """
    shorter = [kernel.with_log_lengthscales(kernel.log_lengthscales - np.log(factor)) for factor in SHORTER]

    def error(kernel: Kernel) -> float:
        trial = _Trial.of(kernel, points.thinned(TRIAL_POINTS), jitter)
        rows = choose_landmarks(kernel, trial.known.u, FEWEST, generator(seed))
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
    def of(cls, kernel: Kernel, points: PooledPoints, jitter: Jitter) -> _Trial:
        is_held_out = np.arange(points.n) % HELD_OUT == HELD_OUT - 1
        known, held_out = (points.take(np.flatnonzero(each)) for each in (~is_held_out, is_held_out))
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
