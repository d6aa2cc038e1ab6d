"""The second way: adaptive cubature in the standard normal coordinates of the law."""

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
TOLERANCE = {1: 1e-12, 2: 1e-9, 3: 1e-6}  # by dimension, relative
NEGLIGIBLE = 1e-15  # absolute


class Quadrature(Embedding):
    """Adaptive cubature, for any kernel and any law with a transport, in up to three dimensions.

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
        self.rule = f"adaptive cubature, relative tolerance {TOLERANCE[measure.dim]:g}"

    def _mean(self, x: Array) -> Array:
        kinks = self.measure._to_normal(x).reshape(-1, self.measure.dim)
        return integrate(lambda y: self.kernel.gram(y, x), self.measure, kinks)

    def _cross(self, other: Measure) -> Array:
        return integrate(lambda y: self._mean(y)[..., None], other, np.empty((0, other.dim)))[..., 0]


def integrate(fn: Callable[[Array], Array], law: Measure, kinks: Array) -> Array:
    """E fn(Y), Y ~ law, for fn from points (..., m, d) to (..., m, n): (..., n); kinks (K, d) in normal coordinates."""
    from scipy.integrate import cubature  # slow to import, and seldom needed

    d = law.dim

    def integrand(v: Array) -> Array:
        y = law._from_normal(np.broadcast_to(v, (*law.batch_shape, *v.shape)))
        density = np.exp(-0.5 * np.sum(v * v, axis=-1)) / (2 * np.pi) ** (d / 2)
        return np.moveaxis(fn(y) * density[:, None], -2, 0)

    shifts = np.unique(np.concatenate([SPLITS, -SPLITS]))
    splits = (np.clip(kinks, -REACH, REACH)[:, None, :] + shifts[:, None]).reshape(-1, d)
    inside = splits[np.all(np.abs(splits) < REACH, axis=-1)]
    result = cubature(
        integrand,
        np.full(d, -REACH),
        np.full(d, REACH),
        rule="gk21" if d < 3 else "genz-malik",
        rtol=TOLERANCE[d],
        atol=NEGLIGIBLE,
        max_subdivisions=100_000,
        points=list(np.unique(inside, axis=0)),
    )
    if result.status != "converged":
        raise RuntimeError(
            f"quadrature under {law!r} did not converge (error {np.max(result.error):.1e}): "
            f"use a closed form, or a longer lengthscale."
        )
    return np.asarray(result.estimate)
