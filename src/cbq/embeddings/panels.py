"""Panel rules in one dimension: Gauss-Legendre between breakpoints where kernel or density change character.

They serve where there is no closed form, or where one loses digits. A density is smooth between neighbouring
points of a grid of its quantiles (graded geometrically towards the ends of its support and out into heavy
tails); a radial kernel is smooth on either side of its kink at x, on the scale of its lengthscales.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from scipy.special import ndtr, ndtri

from cbq._arrays import Array
from cbq.embeddings.errors import NoEmbedding
from cbq.kernels import Kernel, Product, Scaled, Sum
from cbq.kernels.coordinatewise import Coordinatewise
from cbq.kernels.radial import Radial
from cbq.measures import Measure

NODES, WEIGHTS = np.polynomial.legendre.leggauss(14)
NORMAL_GRID = np.linspace(-8.5, 8.5, 21)  # beyond lies a mass of 2e-17
KERNEL_GRID = np.array([0.5, 1.5, 3.0, 6.0, 10.0, 16.0, 26.0, 40.0])  # in lengthscales; e^-40 = 4e-18
RATIO = 4.0  # of the distances of neighbouring breakpoints from an end of the support, at most
END_CELL = 1e-9  # of the size of an end of the support: closer to it doubles are too coarse for a singular density
TINY = 1e-300  # where an end of the support is zero
CHUNK = 1_000_000  # nodes in memory at a time


def mean_by_panels(kernel: Kernel, measure: Measure, x: Array) -> Array:
    """E k(X, x) at x (..., N, 1) for a stationary kernel and a 1-D law with a smooth density: (..., N)."""
    edges = breakpoints(measure)
    y_ends, mass_ends = end_cells(edges, measure)
    laws = measure[..., None]

    def part(x: Array) -> Array:
        y, mass = nodes(merge(edges[..., None, :], around(x, kernel)), laws)  # (..., n, m)
        inner = np.sum(mass * profile(kernel, np.abs(y - x)), axis=-1)
        ends = mass_ends[..., None, :] * profile(kernel, np.abs(y_ends[..., None, :] - x))
        return np.asarray(inner + np.sum(ends, axis=-1))

    per_point = len(NODES) * (edges.size + edges[..., 0].size * 2 * len(KERNEL_GRID))
    step = max(1, CHUNK // per_point)
    parts = [part(x[..., i : i + step, :]) for i in range(0, x.shape[-2], step)]
    return np.concatenate(parts, axis=-1) if parts else np.empty((*x.shape[:-2], 0))


def expectation(fn: Callable[[Array], Array], law: Measure, kernel: Kernel, source: Measure) -> Array:
    """E fn(Y), Y ~ law (1-D), for fn the mean embedding of `source`: the batch shapes broadcast.

    That function is smooth except at the ends of the support of `source`, on the scale of the kernel.
    """
    own = breakpoints(law)
    edges = merge(own, breakpoints(source))
    for end in source.support:
        finite_end = np.where(np.isfinite(end), end, edges[..., :1])
        edges = merge(edges, around(finite_end[..., None, :], kernel)[..., 0, :])
    sums = [np.sum(mass * fn(y[..., None]), axis=-1) for y, mass in (nodes(edges, law), end_cells(own, law))]
    return np.asarray(sums[0] + sums[1])


def breakpoints(measure: Measure) -> Array:
    """Points (..., K) between which the density of a 1-D law is smooth, from one end of its mass to the other."""
    if not measure.has_smooth_density:
        raise NoEmbedding(
            f"no closed form for {measure!r}, whose density may have kinks: pass method='transport' to put the kernel "
            f"on the gaussianised coordinate, or method='quadrature' to integrate numerically."
        )
    grid = np.broadcast_to(NORMAL_GRID[:, None], (*measure.batch_shape, len(NORMAL_GRID), 1))
    y = measure._from_normal(grid)[..., 0]
    half = len(NORMAL_GRID) // 2
    median = y[..., half : half + 1]
    lower, upper = measure.support
    below = _outward(y[..., half - 1 :: -1], median, lower, -1.0)
    above = _outward(y[..., half + 1 :], median, upper, 1.0)
    return np.concatenate([below[..., ::-1], median, above], axis=-1)


def _outward(y: Array, median: Array, end: Array, sign: float) -> Array:
    """Points (..., K') from the median outwards (to the left for sign -1), refining the points y (..., K).

    The refinement is geometric towards the end (..., 1) of the support, down to a small cell beside it; if there
    is no end it is geometric from the median.
    """
    bounded = np.isfinite(end)
    end = np.where(bounded, end, median)
    cell = np.where(bounded, np.minimum(END_CELL * np.abs(end), 1e-3 * np.abs(end - median)), 0.0) + TINY
    gap = np.abs(y - end)
    # at an end that is zero a quantile may be rounded to it: then the nearest one that is not will do
    nearest = np.min(np.where(gap > 0, gap, np.inf), axis=-1, keepdims=True)
    gap = np.where((gap == 0) & (cell == TINY), nearest, np.maximum(gap, cell))
    jumps = np.max(np.abs(np.diff(np.log(gap), axis=-1)), axis=tuple(range(gap.ndim - 1)))
    steps = np.maximum(np.ceil(jumps / np.log(RATIO)), 1).astype(int)
    pieces = [
        gap[..., k, None] * (gap[..., k + 1, None] / gap[..., k, None]) ** (np.arange(m) / m)
        for k, m in enumerate(steps)
    ]
    last = np.where(bounded, cell, gap[..., -1:])
    gap = np.concatenate([*pieces, gap[..., -1:], last], axis=-1)
    return np.where(bounded, end - sign * gap, median + sign * gap)


def around(x: Array, kernel: Kernel) -> Array:
    """Breakpoints (..., N, C) of the kernel about the points x (..., N, 1)."""
    steps = np.concatenate([[0.0], KERNEL_GRID, -KERNEL_GRID])
    cuts = [x + s[..., None, None] * steps for s in lengthscales(kernel)] or [x]
    batch = np.broadcast_shapes(*(cut.shape[:-1] for cut in cuts))
    return np.concatenate([np.broadcast_to(cut, (*batch, cut.shape[-1])) for cut in cuts], axis=-1)


def merge(edges: Array, cuts: Array) -> Array:
    """Breakpoints (..., K + C) in order: `cuts` added to `edges` where they fall between the first and last."""
    batch = np.broadcast_shapes(edges.shape[:-1], cuts.shape[:-1])
    edges = np.broadcast_to(edges, (*batch, edges.shape[-1]))
    inside = np.clip(cuts, edges[..., :1], edges[..., -1:])
    return np.sort(np.concatenate([edges, inside], axis=-1), axis=-1)


def nodes(edges: Array, law: Measure) -> tuple[Array, Array]:
    """Points (..., m) and masses of the law at them, by Gauss-Legendre between breakpoints (..., K)."""
    half = 0.5 * np.diff(edges, axis=-1)[..., None]
    centre = 0.5 * (edges[..., 1:] + edges[..., :-1])[..., None]
    # an empty panel may sit on a singularity of the density: its nodes move where the weight 0 is harmless
    widest = np.take_along_axis(centre, np.argmax(half, axis=-2)[..., None, :], axis=-2)
    y = np.where(half > 0, centre + half * NODES, widest).reshape(*edges.shape[:-1], -1)
    return y, (half * WEIGHTS).reshape(y.shape) * np.exp(law._logpdf(y[..., None]))


def end_cells(edges: Array, law: Measure) -> tuple[Array, Array]:
    """Points (..., m) and masses of the law below the first and above the last of its breakpoints (..., K).

    There, beside an end of the support, the density may be singular and doubles too coarse: Gauss-Legendre over
    the mass instead of over y.
    """
    points, masses = [], []
    for edge, sign in ((edges[..., :1], 1.0), (edges[..., -1:], -1.0)):
        total = ndtr(sign * law._to_normal(edge[..., None])[..., 0])
        y = law._from_normal(sign * ndtri(0.5 * (1 + NODES) * total)[..., None])[..., 0]
        points.append(np.where(total > 0, y, edge))
        masses.append(0.5 * WEIGHTS * total)
    return np.concatenate(points, axis=-1), np.concatenate(masses, axis=-1)


def profile(kernel: Kernel, r: Array) -> Array:
    """k as a function of the distance r (..., N, m) on the line; batched lengthscales go with the axes (...)."""
    if isinstance(kernel, Radial):
        return np.asarray(kernel.profile.value(np, (r / _on_line(kernel)[..., None, None]) ** 2))
    if isinstance(kernel, Scaled):
        return kernel.factor * profile(kernel.kernel, r)
    if isinstance(kernel, Sum):
        return reduce(np.add, [profile(k, r) for k in kernel.parts])
    if isinstance(kernel, Product):
        return reduce(np.multiply, [profile(k, r) for k in kernel.parts])
    assert isinstance(kernel, Coordinatewise)
    return profile(kernel.coordinates(1)[0], r)


def lengthscales(kernel: Kernel) -> list[Array]:
    """All lengthscales of a kernel on the line, each with its batch shape; none if it is not stationary."""
    if isinstance(kernel, Radial):
        return [_on_line(kernel)]
    if isinstance(kernel, Scaled):
        return lengthscales(kernel.kernel)
    if isinstance(kernel, (Sum, Product)):
        return [s for k in kernel.parts for s in lengthscales(k)]
    if isinstance(kernel, Coordinatewise):
        return lengthscales(kernel.coordinates(1)[0])
    return []


def is_stationary(kernel: Kernel) -> bool:
    """Whether a kernel on the line is made of radial ones, so that `profile` knows it."""
    if isinstance(kernel, (Sum, Product)):
        return all(is_stationary(k) for k in kernel.parts)
    if isinstance(kernel, Scaled):
        return is_stationary(kernel.kernel)
    if isinstance(kernel, Coordinatewise):
        return is_stationary(kernel.coordinates(1)[0])
    return isinstance(kernel, Radial)


def _on_line(kernel: Radial) -> Array:
    ell = kernel.known_lengthscale
    return ell if ell.ndim == 0 else ell[..., 0]
