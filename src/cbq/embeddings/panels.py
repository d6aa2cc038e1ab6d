"""Panels on the line: Gauss-Legendre rules between breakpoints, chosen so that kernel and density are smooth between.

They serve where there is no closed form, or where a closed form loses digits. A density is smooth between neighbouring
points of a grid of its quantiles, graded geometrically towards the ends of its support and out into heavy tails. A
radial kernel is smooth on both sides of its kink at x, on the scale of its lengthscales.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from cbq._arrays import Array
from cbq.embeddings.embedding import NoEmbedding
from cbq.kernels import Kernel
from cbq.measures import Measure

NODES, WEIGHTS = np.polynomial.legendre.leggauss(14)
# quantiles in normal coordinates: the mass beyond the last one is 2e-17; the core of a heavy tail is narrow
NORMAL_GRID = np.sort(np.concatenate([np.linspace(-8.5, 8.5, 21), [-0.45, -0.2, 0.2, 0.45]]))
KERNEL_GRID = np.array([0.5, 1.5, 3.0, 6.0, 10.0, 16.0, 26.0, 40.0])  # in lengthscales; e^-40 = 4e-18
MAX_WIDTH_RATIO = 4.0  # of neighbouring panels
BULK = 7.3  # in normal coordinates: the mass beyond is 3e-13, where panels that are accurate to 1e-2 suffice
MAX_REFINEMENTS = 14  # of the grid of quantiles
END_CELL = 1e-9  # relative distance from an end of the support below which doubles are too coarse for a singularity
MIN_END_CELL = 1e-300  # where an end of the support is zero
INFINITE = 1e150  # stands for infinity: differences of such numbers are finite


@dataclass(frozen=True, eq=False)
class Panels:
    """A 1-D measure with its breakpoints (..., K), and points and masses (..., m) that stand for what lies beyond."""

    measure: Measure
    edges: Array
    y_ends: Array
    mass_ends: Array

    @classmethod
    def of(cls, measure: Measure) -> Panels:
        """The panels of a measure."""
        edges = breakpoints(measure)
        return cls(measure, edges, *end_cells(edges, measure))

    def per_point(self) -> Panels:
        """The same panels with an axis for points: (..., 1, K)."""
        return Panels(self.measure[..., None], *(a[..., None, :] for a in (self.edges, self.y_ends, self.mass_ends)))

    def __getitem__(self, rows: slice) -> Panels:
        """The panels of some measures of the batch."""
        return Panels(self.measure[rows], self.edges[rows], self.y_ends[rows], self.mass_ends[rows])


def expectation(fn: Callable[[Array], Array], panels: Panels, kernel: Kernel, source: Measure) -> Array:
    """E fn(Y), Y ~ measure of the panels, where fn is the mean embedding of `source`: the batch shapes broadcast.

    Where `source` is narrower than the kernel, fn has the shape of the kernel about the median of `source`. It bends
    at the ends of the support of `source`, on the scale of the kernel.
    """
    edges = panels.edges if source is panels.measure else merge(panels.edges, breakpoints(source))
    median = source._from_normal(np.zeros((*source.batch_shape, 1, 1)))[..., 0]
    for end in (*source.support, median):
        centre = np.where(np.isfinite(end), end, median)
        edges = merge(edges, around(centre[..., None, :], kernel)[..., 0, :])
    y, mass = nodes(edges, panels.measure)
    inner = np.sum(mass * fn(y[..., None]), axis=-1)
    return np.asarray(inner + np.sum(panels.mass_ends * fn(panels.y_ends[..., None]), axis=-1))


def breakpoints(measure: Measure) -> Array:
    """Points (..., K) between which the density of a 1-D measure is smooth, from one end of its mass to the other.

    They are quantiles, so dense that neighbouring panels differ in width by a bounded factor: geometric towards a
    singular end of the support and out into a heavy tail. At a finite end of the support they leave out a small cell.
    """
    if not measure.has_smooth_density:
        raise NoEmbedding(
            f"no closed form for {measure!r}, whose density may have kinks: pass method='transport' to put the kernel "
            f"on the gaussianised coordinate, or method='quadrature' to integrate numerically."
        )
    cells = [np.where(np.isfinite(end), END_CELL * np.abs(end), 0.0) + MIN_END_CELL for end in measure.support]
    first, last = measure.support[0] + cells[0], measure.support[1] - cells[1]
    v = NORMAL_GRID
    for _ in range(MAX_REFINEMENTS):
        grid = np.broadcast_to(v[:, None], (*measure.batch_shape, len(v), 1))
        y = np.clip(measure._from_normal(grid)[..., 0], np.maximum(first, -INFINITE), np.minimum(last, INFINITE))
        floor = np.where(v[1:] <= 0, *cells)
        jumps = np.diff(np.log(np.maximum(np.diff(y, axis=-1), floor)), axis=-1)
        over_batch = tuple(range(jumps.ndim - 1))
        # of two neighbours that differ too much in width, the wider one is split
        wide = np.zeros(len(v) - 1, dtype=bool)
        wide[1:] |= np.any(jumps > np.log(MAX_WIDTH_RATIO), axis=over_batch)
        wide[:-1] |= np.any(jumps < -np.log(MAX_WIDTH_RATIO), axis=over_batch)
        middle = 0.5 * (v[1:] + v[:-1])
        wide &= np.abs(middle) < BULK
        if not np.any(wide):
            break
        v = np.sort(np.concatenate([v, middle[wide]]))
    ends = [np.where(np.isfinite(end), end, edge) for end, edge in ((first, y[..., :1]), (last, y[..., -1:]))]
    return np.concatenate([ends[0], y, ends[1]], axis=-1)


def around(x: Array, kernel: Kernel) -> Array:
    """Breakpoints (..., N, C) of the kernel about the points x (..., N, 1)."""
    steps = np.concatenate([[0.0], KERNEL_GRID, -KERNEL_GRID])
    cuts = [x + s[..., None, None] * steps for s in kernel.line_lengthscales()] or [x]
    batch = np.broadcast_shapes(*(cut.shape[:-1] for cut in cuts))
    return np.concatenate([np.broadcast_to(cut, (*batch, cut.shape[-1])) for cut in cuts], axis=-1)


def merge(edges: Array, cuts: Array) -> Array:
    """Sorted breakpoints (..., K + C): `edges` (..., K), and `cuts` (..., C) clipped to the range of the edges."""
    return join(edges, np.clip(cuts, edges[..., :1], edges[..., -1:]))


def join(edges: Array, others: Array) -> Array:
    """The union of breakpoints (..., K) and (..., C), sorted: (..., K + C)."""
    batch = np.broadcast_shapes(edges.shape[:-1], others.shape[:-1])
    both = [np.broadcast_to(e, (*batch, e.shape[-1])) for e in (edges, others)]
    return np.sort(np.concatenate(both, axis=-1), axis=-1)


def nodes(edges: Array, measure: Measure) -> tuple[Array, Array]:
    """Nodes (..., m) between breakpoints (..., K), and the masses of the measure there, by Gauss-Legendre."""
    half = 0.5 * np.diff(edges, axis=-1)[..., None]
    centre = 0.5 * (edges[..., 1:] + edges[..., :-1])[..., None]
    # the nodes of an empty panel, which may sit on a singularity of the density, move to where weight 0 is harmless
    widest = np.take_along_axis(centre, np.argmax(half, axis=-2)[..., None, :], axis=-2)
    flat = (*edges.shape[:-1], (edges.shape[-1] - 1) * len(NODES))
    y = np.where(half > 0, centre + half * NODES, widest).reshape(flat)
    return y, (half * WEIGHTS).reshape(flat) * np.exp(measure._logpdf(y[..., None]))


def end_cells(edges: Array, measure: Measure) -> tuple[Array, Array]:
    """Nodes (..., m) and masses of the measure below the first and above the last of its breakpoints (..., K).

    Next to an end of the support the density may be singular and doubles too coarse, so Gauss-Legendre runs over the
    mass instead of over y.
    """
    points, masses = [], []
    for edge, sign in ((edges[..., :1], 1.0), (edges[..., -1:], -1.0)):
        total = ndtr(sign * measure._to_normal(edge[..., None])[..., 0])
        y = measure._from_normal(sign * ndtri(0.5 * (1 + NODES) * total)[..., None])[..., 0]
        points.append(np.clip(np.where(total > 0, y, edge), -INFINITE, INFINITE))
        masses.append(0.5 * WEIGHTS * total)
    return np.concatenate(points, axis=-1), np.concatenate(masses, axis=-1)
