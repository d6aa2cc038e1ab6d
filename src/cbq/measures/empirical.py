from __future__ import annotations

import math
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from cbq._arrays import Array, broadcast_batch, finite
from cbq.io import Numbers, saved
from cbq.measures.base import Measure
from cbq.measures.weights import checked_weights


@saved("Empirical", points=Numbers(), weights=Numbers())
class Empirical(Measure):
    """Atoms with weights: the measure of a table of draws.

    It has no density. Its transport orders the atoms by their first coordinate (ties by the next ones) and
    picks one by the first coordinate of u; in one dimension this is the quantile function.

    Parameters
    ----------
    points : (..., n, d), or (n,) for d = 1.
    weights : (..., n), non-negative, summing to one; None for equal weights.
    """

    points: Array  # (*batch_shape, n, d)
    weights: Array  # (*batch_shape, n)

    def __init__(self, points: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        x = finite(points, "points")
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim < 2 or 0 in x.shape[-2:]:
            raise ValueError(
                f"points have shape {x.shape}, but they must be (..., n, d), or (n,) for d = 1, with n > 0."
            )
        n = x.shape[-2]
        w = np.full(n, 1 / n) if weights is None else finite(weights, "weights")
        w = checked_weights(w, n, "point")
        batch = broadcast_batch({"points": x.shape[:-2], "weights": w.shape[:-1]}, "Empirical")
        self.points = np.broadcast_to(x, (*batch, *x.shape[-2:]))
        self.weights = np.broadcast_to(w, (*batch, n))

    @property
    def dim(self) -> int:
        return int(self.points.shape[-1])

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.points.shape[:-2]

    def parameters(self) -> dict[str, Array]:
        return {"points": self.points, "weights": self.weights}

    def moments(self) -> tuple[Array, Array]:
        mean = np.sum(self.weights[..., None] * self.points, axis=-2)
        shift = self.points - mean[..., None, :]
        return mean, np.swapaxes(shift * self.weights[..., None], -1, -2) @ shift

    @property
    def support(self) -> tuple[Array, Array]:
        used = self.weights[..., None] > 0
        return (
            np.min(np.where(used, self.points, np.inf), axis=-2),
            np.max(np.where(used, self.points, -np.inf), axis=-2),
        )

    def marginal(self, j: int) -> Measure:
        return Empirical(self.points[..., j : j + 1], self.weights)

    def conditional(self, head: Array) -> NoReturn:
        raise TypeError("Empirical has no density, so its coordinates have no conditional densities either.")

    def _logpdf(self, x: Array) -> NoReturn:
        raise TypeError(
            "Empirical has no density: it is a finite set of atoms. If a density is needed, fit a Gaussian "
            "or a Mixture to the points."
        )

    def _score(self, x: Array) -> NoReturn:
        raise TypeError("Empirical has no density and so no score: it is a finite set of atoms.")

    def _from_normal(self, v: Array) -> Array:
        return self._from_uniform(np.asarray(ndtr(v)))

    def _to_normal(self, x: Array) -> Array:
        return np.asarray(ndtri(self._to_uniform(x)))

    def _from_uniform(self, u: Array) -> Array:
        measures, lead = self._measures(u)
        rows = np.broadcast_to(u[..., 0], (*lead, u.shape[-2])).reshape(len(measures), u.shape[-2])
        picked = [_pick(*measure, row) for measure, row in zip(measures, rows, strict=True)]
        return np.reshape(picked, (*lead, u.shape[-2], self.dim))

    def _to_uniform(self, x: Array) -> Array:
        measures, lead = self._measures(x)
        rows = np.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(len(measures), *x.shape[-2:])
        u = np.full((*lead, *x.shape[-2:]), 0.5)
        cells = [_cell(*measure, row) for measure, row in zip(measures, rows, strict=True)]
        u[..., 0] = np.reshape(cells, (*lead, x.shape[-2]))
        return u

    def _measures(self, x: Array) -> tuple[list[tuple[Array, Array]], tuple[int, ...]]:
        """Points (n, d) and weights (n,) of the measure for each leading index of x; and the leading shape."""
        batch = self.batch_shape
        lead = np.broadcast_shapes(x.shape[:-2], batch)
        order = np.broadcast_to(np.arange(math.prod(batch)).reshape(batch), lead).ravel()
        points = self.points.reshape(math.prod(batch), *self.points.shape[-2:])
        weights = self.weights.reshape(math.prod(batch), self.weights.shape[-1])
        return [(points[i], weights[i]) for i in order], lead


def _pick(points: Array, weights: Array, u: Array) -> Array:
    """The atoms (n', d) whose cells of cumulative weight hold u (n',)."""
    order = np.lexsort(points.T[::-1])
    order = order[weights[order] > 0]
    edges = np.cumsum(weights[order])[:-1]
    return points[order[np.searchsorted(edges, u, side="right")]]


def _cell(points: Array, weights: Array, x: Array) -> Array:
    """The middle of the weight cell of each x (n', d), equal atoms sharing one cell."""
    n = len(points)
    kinds, which = np.unique(np.concatenate([points, x]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    mass = np.bincount(which[:n], weights, minlength=len(kinds))
    absent = mass[which[n:]] == 0
    if np.any(absent):
        raise ValueError(
            f"{np.count_nonzero(absent)} of {len(x)} points are not atoms of this Empirical measure (the first "
            f"is {x[np.argmax(absent)]}): only its own points can be mapped back."
        )
    return np.asarray((np.cumsum(mass) - 0.5 * mass)[which[n:]])
