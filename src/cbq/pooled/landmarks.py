"""Landmarks of a low-rank approximation: points that stand for all."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array, Integers
from cbq.kernels import Kernel
from cbq.linalg.threads import one_blas_thread


def landmarks(kernel: Kernel, u: Array, m: int, rng: np.random.Generator) -> Integers:
    """At most m of the points u (n, D), by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber 2025).

    Each is drawn with a probability proportional to its variance given those before, so that they go where the kernel
    does not yet know f. It costs n m^2 and n m kernel values.
    """
    with one_blas_thread():  # which is all that matrices times vectors can use
        return _pivots(kernel, u, m, rng)


def _pivots(kernel: Kernel, u: Array, m: int, rng: np.random.Generator) -> Integers:
    left = kernel.diag(u).copy()
    least = np.finfo(float).eps * len(u) * float(np.max(left))
    columns = np.empty((m, len(u)))  # of the factor, one for each landmark
    chosen: list[int] = []
    while len(chosen) < m and np.any(left > least):
        i = int(rng.choice(len(u), p=left / np.sum(left)))
        k = len(chosen)
        column = kernel(u[i : i + 1], u)[0] - columns[:k, i] @ columns[:k]
        columns[k] = column / np.sqrt(left[i])
        left = np.maximum(left - columns[k] ** 2, 0.0)
        left[left <= least] = 0.0
        left[i] = 0.0
        chosen.append(i)
    return np.array(chosen, dtype=np.intp)
