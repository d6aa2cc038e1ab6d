"""Panel rules in one dimension: Gauss-Legendre between breakpoints where kernel or density change character.

They serve where there is no closed form, or where one loses digits. A density is smooth between neighbouring
points of a grid of its quantiles (graded geometrically towards the ends of its support and out into heavy
tails); a radial kernel is smooth on either side of its kink at x, on the scale of its lengthscales.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from cbq._arrays import Array, in_blocks
from cbq.embeddings.errors import NoEmbedding
from cbq.kernels import Kernel
from cbq.measures import Measure

NODES, WEIGHTS = np.polynomial.legendre.leggauss(14)
# quantiles in normal coordinates: beyond the last lies a mass of 2e-17; the core of a heavy tail is narrow
NORMAL_GRID = np.sort(np.concatenate([np.linspace(-8.5, 8.5, 21), [-0.45, -0.2, 0.2, 0.45]]))
KERNEL_GRID = np.array([0.5, 1.5, 3.0, 6.0, 10.0, 16.0, 26.0, 40.0])  # in lengthscales; e^-40 = 4e-18
RATIO = 4.0  # of the widths of neighbouring panels, at most
BULK = 7.3  # in normal coordinates: beyond lies a mass of 3e-13, and a panel that is good to 1e-2 will do
REFINEMENTS = 14  # halvings of a panel, at most
END_CELL = 1e-9  # of the size of an end of the support: closer to it doubles are too coarse for a singular density
TINY = 1e-300  # where an end of the support is zero
HUGE = 1e150  # stands for infinity: differences of such numbers are numbers
CHUNK = 50_000  # nodes at a time: they stay in the cache


@dataclass(frozen=True, eq=False)
class Panels:
    """A 1-D measure with its breakpoints (..., K), and points and masses (..., m) of what lies beyond them."""

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
        """The same with an axis for points: (..., 1, K)."""
        return Panels(self.measure[..., None], *(a[..., None, :] for a in (self.edges, self.y_ends, self.mass_ends)))

    def __getitem__(self, rows: slice) -> Panels:
        """The panels of some measures of a batch."""
        return Panels(self.measure[rows], self.edges[rows], self.y_ends[rows], self.mass_ends[rows])


def mean_by_panels(kernel: Kernel, panels: Panels, x: Array) -> Array:
    """E k(X, x) at x (..., N, 1) for a stationary kernel and a 1-D measure with a smooth density: (..., N)."""
    batch = panels.measure.batch_shape
    measures = math.prod(np.broadcast_shapes(batch, x.shape[:-2]))
    cost = (
        measures * len(NODES) * (panels.edges.shape[-1] + 2 * len(KERNEL_GRID))
    )  # nodes for one point of each measure
    batched = any(s.ndim for s in kernel.line_lengthscales())
    if cost > CHUNK and batch and batch[0] > 1 and x.ndim - 2 <= len(batch) and not batched:
        x = np.broadcast_to(x, (*np.broadcast_shapes(batch, x.shape[:-2]), *x.shape[-2:]))
        rows = max(1, CHUNK * batch[0] // cost)
        pieces = [slice(i, i + rows) for i in range(0, batch[0], rows)]
        return np.concatenate([mean_by_panels(kernel, panels[piece], x[piece]) for piece in pieces])
    own = panels.per_point()

    def part(x: Array) -> Array:
        y, mass = nodes(merge(own.edges, around(x, kernel)), own.measure)  # (..., n, m)
        inner = np.sum(mass * kernel.on_line(np.abs(y - x)), axis=-1)
        return np.asarray(inner + np.sum(own.mass_ends * kernel.on_line(np.abs(own.y_ends - x)), axis=-1))

    return in_blocks(part, x, CHUNK // max(1, cost))


def expectation(fn: Callable[[Array], Array], panels: Panels, kernel: Kernel, source: Measure) -> Array:
    """E fn(Y), Y ~ measure of the panels, for fn the mean embedding of `source`: the batch shapes broadcast.

    Where `source` is narrower than the kernel, fn has the shape of the kernel about its median; it bends at the
    ends of the support of `source`, on the scale of the kernel.
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
    singular end of the support and out into a heavy tail. At a finite end they stop short of a small cell.
    """
    if not measure.has_smooth_density:
        raise NoEmbedding(
            f"no closed form for {measure!r}, whose density may have kinks: pass method='transport' to put the kernel "
            f"on the gaussianised coordinate, or method='quadrature' to integrate numerically."
        )
    cells = [np.where(np.isfinite(end), END_CELL * np.abs(end), 0.0) + TINY for end in measure.support]
    first, last = measure.support[0] + cells[0], measure.support[1] - cells[1]
    v = NORMAL_GRID
    for _ in range(REFINEMENTS):
        grid = np.broadcast_to(v[:, None], (*measure.batch_shape, len(v), 1))
        y = np.clip(measure._from_normal(grid)[..., 0], np.maximum(first, -HUGE), np.minimum(last, HUGE))
        floor = np.where(v[1:] <= 0, *cells)
        jumps = np.diff(np.log(np.maximum(np.diff(y, axis=-1), floor)), axis=-1)
        over_batch = tuple(range(jumps.ndim - 1))
        # of two panels too different in width, the wider one is split
        wide = np.zeros(len(v) - 1, dtype=bool)
        wide[1:] |= np.any(jumps > np.log(RATIO), axis=over_batch)
        wide[:-1] |= np.any(jumps < -np.log(RATIO), axis=over_batch)
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
    """Breakpoints (..., K + C) in order: `cuts` added to `edges` where they fall between the first and last."""
    return join(edges, np.clip(cuts, edges[..., :1], edges[..., -1:]))


def join(edges: Array, others: Array) -> Array:
    """Breakpoints (..., K) and (..., C) in one order: (..., K + C)."""
    batch = np.broadcast_shapes(edges.shape[:-1], others.shape[:-1])
    both = [np.broadcast_to(e, (*batch, e.shape[-1])) for e in (edges, others)]
    return np.sort(np.concatenate(both, axis=-1), axis=-1)


def nodes(edges: Array, measure: Measure) -> tuple[Array, Array]:
    """Points (..., m) and masses of the measure at them, by Gauss-Legendre between breakpoints (..., K)."""
    half = 0.5 * np.diff(edges, axis=-1)[..., None]
    centre = 0.5 * (edges[..., 1:] + edges[..., :-1])[..., None]
    # an empty panel may sit on a singularity of the density: its nodes move where the weight 0 is harmless
    widest = np.take_along_axis(centre, np.argmax(half, axis=-2)[..., None, :], axis=-2)
    flat = (*edges.shape[:-1], (edges.shape[-1] - 1) * len(NODES))
    y = np.where(half > 0, centre + half * NODES, widest).reshape(flat)
    return y, (half * WEIGHTS).reshape(flat) * np.exp(measure._logpdf(y[..., None]))


def end_cells(edges: Array, measure: Measure) -> tuple[Array, Array]:
    """Points (..., m) and masses of the measure below the first and above the last of its breakpoints (..., K).

    There, beside an end of the support, the density may be singular and doubles too coarse: Gauss-Legendre over
    the mass instead of over y.
    """
    points, masses = [], []
    for edge, sign in ((edges[..., :1], 1.0), (edges[..., -1:], -1.0)):
        total = ndtr(sign * measure._to_normal(edge[..., None])[..., 0])
        y = measure._from_normal(sign * ndtri(0.5 * (1 + NODES) * total)[..., None])[..., 0]
        points.append(np.clip(np.where(total > 0, y, edge), -HUGE, HUGE))
        masses.append(0.5 * WEIGHTS * total)
    return np.concatenate(points, axis=-1), np.concatenate(masses, axis=-1)
