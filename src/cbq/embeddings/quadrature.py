"""The second way: adaptive quadrature in the standard normal coordinates of the law."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cbq._arrays import Array
from cbq.embeddings.base import Embedding
from cbq.embeddings.errors import NoEmbedding
from cbq.kernels import Kernel
from cbq.measures import Empirical, Measure, Unnormalised

REACH = 9.0  # the standard normal beyond holds a mass of 2e-19
# distances from the kink of the kernel at which to split, so that no peak wider than 1e-6 is stepped over
SPLITS = np.array([0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0])
TOLERANCE = {1: 1e-12, 2: 1e-8, 3: 1e-6}  # by dimension, relative
ACCEPTED = 1e-9  # relative error estimate beyond which an integral on the line is refused
NEGLIGIBLE = 1e-14  # absolute

Function = Callable[[Array], Array]


class Quadrature(Embedding):
    """Adaptive quadrature, for any kernel and any law with a transport, in up to three dimensions.

    It is slow (nested integrals for z and `cross`) and shares no code with the closed forms: use it to check
    them, or where there is none.
    """

    method = "quadrature"

    def __init__(self, kernel: Kernel, measure: Measure) -> None:
        super().__init__(kernel, measure)
        if isinstance(measure, (Empirical, Unnormalised)):
            raise NoEmbedding(f"quadrature needs a law with a smooth transport, not {measure!r}.")
        if measure.dim not in TOLERANCE:
            raise NoEmbedding(
                f"quadrature works in up to {max(TOLERANCE)} dimensions, but {measure!r} has {measure.dim}: "
                f"use a kernel with a closed form."
            )
        self.rule = f"adaptive quadrature, relative tolerance {TOLERANCE[measure.dim]:g}"

    def _mean(self, x: Array) -> Array:
        kinks = np.clip(self.measure._to_normal(x), -REACH, REACH)
        return integrate(lambda y: self.kernel.gram(y, x), self.measure, kinks)

    def _cross(self, other: Measure) -> Array:
        return integrate(lambda y: self._mean(y)[..., None], other, tolerance=10 * TOLERANCE[other.dim])[..., 0]


def integrate(fn: Function, law: Measure, kinks: Array | None = None, tolerance: float | None = None) -> Array:
    """E fn(Y), Y ~ law, for fn from points (..., m, d) to (..., m, n): (..., n); kinks (..., n, d) in normal space."""

    def integrand(v: Array) -> Array:
        """fn times the normal density at v (m, d), with the points in front: (m, ..., n)."""
        y = law._from_normal(np.broadcast_to(v, (*law.batch_shape, *v.shape)))
        density = np.exp(-0.5 * np.sum(v * v, axis=-1)) / (2 * np.pi) ** (law.dim / 2)
        return np.moveaxis(fn(y) * density[:, None], -2, 0)

    tolerance = tolerance or TOLERANCE[law.dim]
    return (on_the_line if law.dim == 1 else in_space)(integrand, kinks, law.dim, tolerance)


def on_the_line(integrand: Function, kinks: Array | None, d: int, tolerance: float) -> Array:
    """One integral for each component, so that small ones are as accurate as large ones."""
    from scipy.integrate import quad  # slow to import, and seldom needed

    out = np.empty(integrand(np.zeros((1, 1))).shape[1:])
    splits = np.unique(np.concatenate([SPLITS, -SPLITS])) if kinks is not None else np.zeros(1)
    centres = np.zeros(out.shape) if kinks is None else np.broadcast_to(kinks[..., 0], out.shape)
    for index in np.ndindex(out.shape):

        def component(v: float, index: tuple[int, ...] = index) -> float:
            return float(integrand(np.array([[v]]))[0][index])

        points = centres[index] + splits
        points = points[np.abs(points) < REACH]
        value, error, *rest = quad(
            component, -REACH, REACH, points=points, epsabs=NEGLIGIBLE, epsrel=tolerance, limit=1000, full_output=1
        )
        if error > ACCEPTED * abs(value) + NEGLIGIBLE and len(rest) > 1:
            raise RuntimeError(f"quadrature did not converge (error {error:.1e} of {value:.1e}): use a closed form.")
        out[index] = value
    return out


def in_space(integrand: Function, kinks: Array | None, d: int, tolerance: float) -> Array:
    """All components at once by adaptive cubature in d dimensions."""
    from scipy.integrate import cubature

    splits = np.zeros((0, d))
    if kinks is not None:
        shifts = np.unique(np.concatenate([SPLITS, -SPLITS]))
        splits = (kinks.reshape(-1, 1, d) + shifts[:, None]).reshape(-1, d)
        splits = np.unique(splits[np.all(np.abs(splits) < REACH, axis=-1)], axis=0)
    result = cubature(
        integrand,
        np.full(d, -REACH),
        np.full(d, REACH),
        rule="gk21" if d == 2 else "genz-malik",
        rtol=tolerance,
        atol=NEGLIGIBLE,
        points=list(splits),
    )
    if result.status != "converged":
        raise RuntimeError(f"quadrature did not converge (error {np.max(result.error):.1e}): use a closed form.")
    return np.asarray(result.estimate)
