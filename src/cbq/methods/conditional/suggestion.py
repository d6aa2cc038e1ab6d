"""At which thetas further points help most: at observed ones, or at new ones.

With the posterior covariance c of I between thetas, an estimate of I at one of them with the variance v lowers the
variance of I(theta) by c(theta, .)^2 / (c(., .) + v). The variance of quadrature with N points is taken to fall as
a / N^2. Points that bring an observed theta from N to M are worth an independent estimate with v = a / (M^2 - N^2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cbq._arrays import Array, Integers
from cbq.samples.conditional import find_thetas

if TYPE_CHECKING:
    from cbq.methods.conditional.fit import CBQFit

NEW_THETAS, MAX_OBSERVED = 32, 2000  # candidates; all pairs of them have a covariance
BATCH = 5  # points that a theta has more at a time
RATE, RANDOM_RATE = 2.0, 1.0  # the power of the number of points with which the variance of quadrature falls


def best_thetas(
    n: int,
    fit: CBQFit,
    theta: Array,
    counts: Array | Integers,
    wanted: Array,
    points: int,
    *,
    need: Array | None = None,
    price: Array | None = None,
    rate: float = RATE,
) -> Integers:
    """Which of the thetas (M, p) are to have more points, n times; a theta may come several times.

    counts: (M,), the points that each has. wanted: (G, p), draws of Q, at which I is wanted. points: how many are added
    at a time. need: (C,), how much each output matters. price: (M,), of a point at each theta. By default, all are 1.
    rate: the power of the number of points with which variances fall; 1 where f is random.
    """
    G = len(wanted)
    finite = fit._replaced(unseen=None)  # what no point has seen is unknown everywhere alike
    _, cov = finite.predict(np.concatenate([wanted, theta]), return_cov=True)
    cov = np.moveaxis(np.atleast_3d(cov), -1, 0).copy()  # (C, G + M, G + M)
    unit = np.maximum(np.mean(np.diagonal(cov, axis1=1, axis2=2)[:, :G], axis=1), np.finfo(float).tiny)
    weight = (1.0 if need is None else need) / unit  # (C,)
    cov *= weight[:, None, None]
    of_one = weight[:, None] * _variances_of_one_point(fit, theta, rate)  # (C, M)
    N, chosen, least = counts.astype(np.float64), list[int](), np.finfo(float).tiny  # a constant output has none
    for _ in range(n):
        variance = np.diagonal(cov, axis1=1, axis2=2)[:, G:] + of_one / ((N + points) ** rate - N**rate)
        with np.errstate(over="ignore"):
            gain = np.sum(np.mean(cov[:, :G, G:] ** 2, axis=1) / np.maximum(variance, least), axis=0)
        j = int(np.argmax(gain if price is None else gain / price))
        column = cov[:, :, G + j].copy()
        cov -= column[:, :, None] * column[:, None] / np.maximum(variance[:, j, None, None], least)
        N[j] += points
        chosen.append(j)
    return np.array(chosen, dtype=np.intp)


def _variances_of_one_point(fit: CBQFit, theta: Array, rate: float) -> Array:
    """The variances (C, M) that estimates at thetas (M, p) would have with one point, by how they fall."""
    observed = (fit.stage1.columns["variance"] * fit.counts[:, None] ** rate).T  # (C, T)
    found = np.repeat(np.median(observed, axis=1, keepdims=True), len(theta), axis=1)
    at = find_thetas(theta, fit.theta)
    found[:, at >= 0] = observed[:, at[at >= 0]]
    return np.asarray(found)
