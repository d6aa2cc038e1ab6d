"""Slopes of I over theta: the distribution of dI/dtheta, from the joint distribution of I at thetas close together.

A derivative is linear in I. With K = 7 thetas at distances h along coordinate j and the differentiation matrix D of the
polynomial through them (Berrut and Trefethen 2004, section 9.3),

    dI/dtheta_j (theta_i) = sum_k D_ik I(theta_k) / h + O(h^6),

so slopes are a linear image of I, whose joint distribution every fit has: one rule for all estimators and families of
measures. For a sine whose period is 10 gaps between the observed thetas, h = 0.1 gaps leaves an error of 4e-10 of the
slope; rounding of I grows by 1 / h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from scipy.special import binom

from cbq.common import Array
from cbq.fit.naming import slope_names
from cbq.fit.predictive import PredictiveDistribution
from cbq.fit.thetas import more_symmetric_logs

if TYPE_CHECKING:
    from cbq.fit.base import Fit

Answer = TypeVar("Answer")

K = 7  # thetas of a stencil
STEP = 0.1  # between them, in gaps between observed thetas
BLOCK = 256  # thetas whose joint distribution is made at a time


def _differentiation(K: int) -> Array:
    """D (K, K): row i has the weights of the derivative at node i of the polynomial through values at 0, ..., K - 1."""
    node = np.arange(float(K))
    barycentric = (-1.0) ** node * binom(K - 1, node)
    apart = node[:, None] - node + np.eye(K)
    D = barycentric / barycentric[:, None] / apart
    np.fill_diagonal(D, 0.0)
    np.fill_diagonal(D, -np.sum(D, axis=1))
    return np.asarray(D)


D = _differentiation(K)


@dataclass(frozen=True, eq=False)
class Stencils:
    """The thetas around each of M thetas that slopes come from, and their weights.

    nodes: (M, p, K, p), for each theta and coordinate. weights: (M, p, K).
    """

    nodes: Array
    weights: Array

    @classmethod
    def around(cls, theta: Array, observed: Array, *, inside: bool = False) -> Stencils:
        """Around thetas (M, p), with steps in units of the gaps between the observed ones (T, p).

        inside : whether nodes must lie between each theta and the observed ones, as there may be no measure beyond.
        """
        h = STEP * _gaps(theta, observed)  # (M, p)
        i = np.full(h.shape, K // 2)
        if inside:
            i[theta - h * (K // 2) < np.min(observed, axis=0)] = 0
            i[theta + h * (K // 2) > np.max(observed, axis=0)] = K - 1
        offsets = h[..., None] * (np.arange(K) - i[..., None])  # (M, p, K)
        nodes = theta[:, None, None, :] + offsets[..., None] * np.eye(theta.shape[1])[:, None, :]
        return cls(nodes, D[i] / h[..., None])

    @property
    def theta(self) -> Array:
        """All nodes, (M p K, p)."""
        return self.nodes.reshape(-1, self.nodes.shape[-1])

    @property
    def matrix(self) -> Array:
        """The slopes, M p of them, of I at all nodes: (M p, M p K)."""
        rows = self.weights.reshape(-1, K)
        out = np.zeros((len(rows), len(rows), K))
        out[np.arange(len(rows)), np.arange(len(rows))] = rows
        return out.reshape(len(rows), -1)


def _gaps(theta: Array, observed: Array) -> Array:
    """The distance between observed thetas (T, p) near each of thetas (M, p), if they were evenly spread: (M, p).

    Even in logarithms, in coordinates where these are more symmetric.
    """
    T, p = len(np.unique(observed, axis=0)), observed.shape[1]
    low, high = np.min(observed, axis=0), np.max(observed, axis=0)
    even = np.broadcast_to((high - low) / T ** (1 / p), theta.shape)
    logs = more_symmetric_logs(observed)
    ratio = np.log(np.where(logs, high, 1.0) / np.where(logs, low, 1.0)) / T ** (1 / p)
    gaps = np.where(logs, np.minimum(even, np.maximum(theta, low) * ratio), even)
    size = np.abs(theta)
    return np.where(gaps > 0, gaps, np.where(size > 0, size, 1.0))


def _near(fit: Fit, theta: Array, evaluate: Callable[[Array], Answer]) -> tuple[Stencils, Answer]:
    """Stencils around thetas (M, p), and answers at their nodes, within the observed range if there are none beyond."""
    try:
        stencils = Stencils.around(theta, fit.theta)
        return stencils, evaluate(stencils.theta)
    except Exception as error:  # the family is the user's, and may raise anything
        stencils = Stencils.around(theta, fit.theta, inside=True)
        try:
            return stencils, evaluate(stencils.theta)
        except Exception:
            raise ValueError(f"gradient needs I around each of theta, where it is not known: {error}") from error


def mean_slopes(fit: Fit, theta: Array) -> Array:
    """The mean of the slopes at thetas (M, p): (M, p) or (M, p, C)."""
    stencils, values = _near(fit, theta, lambda nodes: fit._in_blocks(nodes, fit._means))
    values = values.reshape(*stencils.weights.shape, *values.shape[1:])
    return np.asarray(np.einsum("mpk,mpk...->mp...", stencils.weights, values))


def read_slopes(fit: Fit, theta: Array, ask: Callable[[PredictiveDistribution], Sequence[Array]]) -> Array:
    """Evaluate `ask`, k answers (m p,) for m thetas, on the slopes at thetas (M, p): (k, M, p) or (k, M, p, C)."""
    size, found = max(1, BLOCK // (K * fit.p)), []
    for start in range(0, len(theta), size):
        block = theta[start : start + size]
        stencils, values = _near(fit, block, lambda nodes: fit._calibrated_predictives(nodes, joint=True))
        found.append(np.stack([ask(each.mapped(stencils.matrix)) for each in values], axis=-1))
    whole = np.concatenate(found, axis=1)
    whole = whole.reshape(len(whole), *theta.shape, whole.shape[-1])
    return np.asarray(whole[..., 0] if fit.C is None else whole)


def covariances(p: int) -> Callable[[PredictiveDistribution], Sequence[Array]]:
    """Ask for the covariances with the slope along each of p coordinates at the same theta."""

    def ask(slopes: PredictiveDistribution) -> Sequence[Array]:
        m = len(slopes.mean) // p
        cov = slopes.cov.reshape(m, p, m, p)[np.arange(m), :, np.arange(m)]  # (m, p, p)
        return list(np.moveaxis(cov, -1, 0).reshape(p, -1))

    return ask


def with_slopes(fit: Fit, theta: Array) -> Sequence[PredictiveDistribution]:
    """The joint distribution of I at thetas (M, p), and then of its slopes there, of each output: (M + M p,)."""
    stencils, predictives = _near(
        fit, theta, lambda nodes: fit._calibrated_predictives(np.concatenate([theta, nodes]), joint=True)
    )
    M, slopes = len(theta), stencils.matrix
    matrix = np.zeros((M + len(slopes), M + slopes.shape[1]))
    matrix[:M, :M], matrix[M:, M:] = np.eye(M), slopes
    return [each.mapped(matrix) for each in predictives]


def slope_columns(fit: Fit, theta: Array, level: float) -> dict[str, Array]:
    """The slopes at thetas (M, p) and the ends of their intervals, (M,) each, by name."""
    mean, low, high = (each.reshape(*theta.shape, -1) for each in fit.gradient(theta, level=level))
    columns: dict[str, Array] = {}
    for j, names in enumerate(slope_names(fit)):
        for c, name in enumerate(names):
            columns |= {name: mean[:, j, c], f"{name}, lower": low[:, j, c], f"{name}, upper": high[:, j, c]}
    return columns
