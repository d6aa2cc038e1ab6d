"""Adaptive quadrature in the standard normal coordinates of the measure, independent of the closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from cbq.common import Array, in_blocks
from cbq.embeddings.embedding import Embedding, NoEmbedding
from cbq.kernels import Kernel
from cbq.measures import Empirical, Measure, Unnormalised

REACH = 9.0  # in normal coordinates: the mass beyond is 2e-19
# distances from the kink of the kernel at which the line is split, so that no peak wider than 1e-6 is missed
SPLITS = np.array([0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0])
TOLERANCE = {1: 1e-12, 2: 1e-8, 3: 1e-6}  # by dimension, relative
MEAN_TOLERANCE = {1: 1e-10, 2: 1e-8, 3: 1e-6}  # of functions that may have kinks
BLOCK = 32  # points at a time on the line: each adds panels for all points
MAX_HALVINGS = 40  # of a panel on the line
ABSOLUTE_TOLERANCE = 1e-14  # in two and three dimensions

Function = Callable[[Array], Array]


class Quadrature(Embedding):
    """Adaptive quadrature, for any kernel and any measure with a transport.

    The mean works in up to three dimensions, z and cross on the line. It shares no code with the closed forms: use it
    to check them, or where no closed form exists.
    """

    method = "quadrature"

    def __init__(self, kernel: Kernel, measure: Measure) -> None:
        super().__init__(kernel, measure)
        if measure.has_atoms or isinstance(measure, Unnormalised):
            raise NoEmbedding(f"quadrature needs a measure with a smooth transport, not {measure!r}.")
        if measure.dim not in TOLERANCE:
            raise NoEmbedding(
                f"quadrature works in up to {max(TOLERANCE)} dimensions, but {measure!r} has {measure.dim}: "
                f"use a kernel with a closed form."
            )
        self.rule = f"adaptive quadrature, relative tolerance {TOLERANCE[measure.dim]:g}"

    def _mean(self, x: Array) -> Array:
        return in_blocks(self._mean_block, x, BLOCK if self.measure.dim == 1 else 1)

    def _mean_block(self, x: Array) -> Array:
        kinks = np.clip(self.measure._to_normal(x), -REACH, REACH)
        return _integrate(lambda y: self.kernel.gram(y, x), self.measure, kinks, TOLERANCE[self.measure.dim])

    def _cross(self, other: Measure) -> Array:
        if other.dim > 1:
            raise NoEmbedding(
                f"z and cross in {other.dim} dimensions are nested integrals, which quadrature computes on the line "
                f"only: use a kernel with a closed form, such as RBF, or TensorProduct on independent coordinates."
            )
        return _integrate(lambda y: self._mean(y)[..., None], other, np.empty(0), 100 * TOLERANCE[1])[..., 0]


def mean_under(fn: Function, measure: Measure) -> Array:
    """E fn(X), X ~ measure, for fn from points (m, d) to (m, C): shape (C,). Sums over atoms, otherwise adaptive."""
    if isinstance(measure, Empirical):
        return np.asarray(measure.weights @ fn(measure.points))
    if measure.has_atoms or isinstance(measure, Unnormalised) or measure.dim not in TOLERANCE:
        raise NoEmbedding(f"quadrature takes up to {max(TOLERANCE)} dimensions and a transport, not {measure!r}.")
    return _integrate(fn, measure, np.empty((0, measure.dim)), MEAN_TOLERANCE[measure.dim])


def _integrate(fn: Function, measure: Measure, kinks: Array, tolerance: float) -> Array:
    """E fn(Y), Y ~ measure, for fn from points (..., m, d) to (..., m, n): shape (..., n).

    kinks: (..., n, d) or empty, in normal coordinates.
    """

    def integrand(v: Array) -> Array:
        """fn times the normal density at v (m, d), with the axis of points first: (m, ..., n)."""
        y = measure._from_normal(np.broadcast_to(v, (*measure.batch_shape, *v.shape)))
        density = np.exp(-0.5 * np.sum(v * v, axis=-1)) / (2 * np.pi) ** (measure.dim / 2)
        return np.moveaxis(fn(y) * density[:, None], -2, 0)

    if measure.dim == 1:
        return _on_the_line(integrand, kinks, tolerance)
    return _in_space(integrand, kinks, measure.dim, tolerance)


def _on_the_line(integrand: Function, kinks: Array, tolerance: float) -> Array:
    """Bisect panels until Gauss-Legendre on each panel agrees with Gauss-Legendre on its halves, in all components."""
    splits = (kinks.reshape(-1, 1) + np.concatenate([SPLITS, -SPLITS])).ravel()
    edges = np.unique(np.clip(np.concatenate([[-REACH, 0.0, REACH], splits]), -REACH, REACH))
    left, right = edges[:-1], edges[1:]
    total = scale = np.zeros(())
    for _ in range(MAX_HALVINGS):
        middle = 0.5 * (left + right)
        halves = _gauss_legendre(integrand, left, middle) + _gauss_legendre(integrand, middle, right)
        error = np.abs(_gauss_legendre(integrand, left, right) - halves)
        scale = np.maximum(scale, np.abs(total) + np.sum(np.abs(halves), axis=0))
        good = np.all(error <= tolerance * scale, axis=tuple(range(1, error.ndim)))
        total = total + np.sum(halves[good], axis=0)
        if np.all(good):
            return np.asarray(total)
        left, right = np.concatenate([left[~good], middle[~good]]), np.concatenate([middle[~good], right[~good]])
    raise RuntimeError(
        f"quadrature did not converge (error {np.max(error[~good]):.1e}): use a kernel with a closed form."
    )


def _gauss_legendre(integrand: Function, left: Array, right: Array) -> Array:
    """The integral over each of K panels: (K, ..., n)."""
    half, nodes, weights = 0.5 * (right - left), *np.polynomial.legendre.leggauss(20)
    v = 0.5 * (left + right)[:, None] + half[:, None] * nodes
    values = integrand(v.reshape(-1, 1))
    values = values.reshape(*v.shape, *values.shape[1:])
    return np.asarray(np.einsum("k,j,kj...->k...", half, weights, values))


def _in_space(integrand: Function, kinks: Array, d: int, tolerance: float) -> Array:
    """Adaptive cubature of all components at once, in d dimensions."""
    from scipy.integrate import cubature

    splits = np.unique(kinks.reshape(-1, d), axis=0)
    splits = splits[np.all(np.abs(splits) < REACH, axis=-1)]
    corner, points = np.full(d, REACH), list(splits)
    rule: Literal["gk21", "genz-malik"] = "gk21" if d == 2 else "genz-malik"
    result = cubature(integrand, -corner, corner, rule=rule, rtol=tolerance, atol=ABSOLUTE_TOLERANCE, points=points)
    if result.status != "converged":
        raise RuntimeError(
            f"quadrature did not converge (error {np.max(result.error):.1e}): use a kernel with a closed form."
        )
    return np.asarray(result.estimate)
