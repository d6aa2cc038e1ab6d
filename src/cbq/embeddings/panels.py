"""Panel rules on the line: Gauss-Legendre between breakpoints, so that density and kernel are smooth between them.

They serve where no closed form exists, or where it loses digits or overflows for short lengthscales. The published
formulas for Gamma (1F1, 2F1, Tricomi's U), truncated Gaussian (incomplete moments) and similar measures do both. A
density is smooth between neighbouring quantiles on a grid that is graded geometrically towards the ends of its support
and out into heavy tails, unless it has kinks or jumps: the panel of one has another mass than the distribution function
gives it, and halving finds the place. A radial kernel is smooth on both sides of its kink at x, on the scale of its
lengthscales.

Where the lengthscale is not much shorter than the measure, all points share the same nodes: panels of a few
lengthscales are few, and the density is evaluated once at each node. The panel around x is split at x. For shorter
lengthscales each point has its own nodes, on panels graded about it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from cbq.common import Array, in_blocks
from cbq.embeddings.embedding import Embedding, NoEmbedding, register
from cbq.kernels import Kernel, Radial
from cbq.measures import LogMeasure, Measure, Univariate
from cbq.measures.base import remembered

NODES, WEIGHTS = np.polynomial.legendre.leggauss(14)
# quantiles in normal coordinates: the mass beyond the last one is 2e-17; the core of a heavy tail is narrow
NORMAL_GRID = np.sort(np.concatenate([np.linspace(-8.5, 8.5, 21), [-0.45, -0.2, 0.2, 0.45]]))
KERNEL_GRID = np.array([0.5, 1.5, 3.0, 6.0, 10.0, 16.0, 26.0, 40.0])  # in lengthscales; e^-40 = 4e-18
MAX_WIDTH_RATIO = 4.0  # of neighbouring panels
BULK = 7.3  # in normal coordinates: the mass beyond is 3e-13, so that an accuracy of 1e-2 suffices there
MAX_REFINEMENTS = 13  # of the grid of quantiles
END_CELL = 1e-9  # relative distance from an end of the support below which doubles are too coarse for a singularity
MIN_END_CELL = 1e-300  # where an end of the support is zero
INFINITE = 1e150  # stands for infinity: differences of such numbers are finite
MAX_PANEL_WIDTH = 2.5  # of shared panels, in lengthscales
MAX_PANELS = 80  # shared by all points: beyond, separate nodes for each point cost less
MAX_NODES = 5_000_000  # shared nodes of all measures of a batch together
NEGLIGIBLE_MASS = 1e-20  # of a node
MASS_TOLERANCE = 1e-12  # by which the mass of a panel may miss the distribution function
MAX_HALVINGS = 45  # of a panel that has a kink
MAX_KINKS = 12  # of a panel
TOTAL_TOLERANCE = 1e-6  # by which the mass of all panels may differ from 1
CHUNK = 50_000  # nodes at a time, which stay in the cache


@register(Radial, Univariate, LogMeasure)
class PanelEmbedding(Embedding):
    """Panel rule on the line."""

    rule = "Gauss-Legendre panels between breakpoints of density and kernel"
    uses_panels = True
    is_fast = False

    def __init__(self, kernel: Kernel, measure: Measure) -> None:
        super().__init__(kernel, measure)
        _require_panels(measure, kernel)

    @cached_property
    def _centred(self) -> tuple[Array, Measure]:
        """The median, and the measure of x minus the median; zero and the measure itself if it cannot be translated.

        Without centring, nodes near a large location would be rounded on the scale of the measure.
        """
        median = self.measure._from_normal(np.zeros((*self.measure.batch_shape, 1, 1)))[..., 0]
        moved = self.measure.translated(-median)
        return (np.zeros_like(median), self.measure) if moved is None else (median, moved)

    @property
    def _shift(self) -> Array:
        return self._centred[0]

    @cached_property
    def _panels(self) -> Panels:  # on demand: finding an embedding does not need them
        return Panels.of(self._centred[1])

    def _mean(self, x: Array) -> Array:
        return self._centred_mean(x - self._shift[..., None, :])

    def _centred_mean(self, x: Array) -> Array:
        edges = shared_edges(self._panels.edges, self.kernel)
        if edges is None:
            return mean_with_own_nodes(self.kernel, self._panels, x)
        return mean_with_shared_nodes(self.kernel, self._panels, edges, x)

    def _variance(self) -> Array:
        return self._double(self._panels)

    def _cross(self, other: Measure) -> Array:
        moved = other.translated(-self._shift)
        if moved is None and np.any(self._shift):
            return expectation(self._mean, Panels.of(other), self.kernel, self.measure)
        return self._double(Panels.of(other if moved is None else moved))

    def _double(self, other: Panels) -> Array:
        """E k(X, Y) for X of the centred measure, and Y of another measure in the same coordinates."""
        edges = self._panels.edges if other is self._panels else join(self._panels.edges, other.edges)
        fine = shared_edges(edges, self.kernel)
        if fine is None:
            return expectation(self._centred_mean, other, self.kernel, self._panels.measure)
        return double_with_shared_nodes(self.kernel, self._panels, other, fine)


def mean_with_own_nodes(kernel: Kernel, panels: Panels, x: Array) -> Array:
    """E k(X, x) at x (..., N, 1) for a stationary kernel and a 1-D measure, on panels about each x: (..., N)."""
    batch = panels.measure.batch_shape
    measures = math.prod(np.broadcast_shapes(batch, x.shape[:-2]))
    cost = measures * len(NODES) * (panels.edges.shape[-1] + 2 * len(KERNEL_GRID))  # nodes for a point of each measure
    batched = any(s.ndim for s in kernel.line_lengthscales())
    if cost > CHUNK and batch and batch[0] > 1 and x.ndim - 2 <= len(batch) and not batched:
        x = np.broadcast_to(x, (*np.broadcast_shapes(batch, x.shape[:-2]), *x.shape[-2:]))
        rows = max(1, CHUNK * batch[0] // cost)
        pieces = [slice(i, i + rows) for i in range(0, batch[0], rows)]
        return np.concatenate([mean_with_own_nodes(kernel, panels[piece], x[piece]) for piece in pieces])
    own = panels.per_point()

    def part(x: Array) -> Array:
        y, mass = nodes(merge(own.edges, around(x, kernel)), own.measure)  # (..., n, m)
        inner = np.sum(mass * kernel.on_line(np.abs(y - x)), axis=-1)
        return np.asarray(inner + np.sum(own.mass_ends * kernel.on_line(np.abs(own.y_ends - x)), axis=-1))

    return in_blocks(part, x, CHUNK // max(1, cost))


def shared_edges(edges: Array, kernel: Kernel) -> Array | None:
    """Breakpoints (..., K') that refine `edges` (..., K) to panels of a few lengthscales; None if they are too many."""
    widths = np.diff(edges, axis=-1)
    shortest = np.min(np.stack(np.broadcast_arrays(*kernel.line_lengthscales())), axis=0)
    ratio = widths / shortest[..., None]
    widest = np.max(ratio, axis=tuple(range(ratio.ndim - 1)), initial=0.0)
    pieces = np.maximum(np.ceil(widest / MAX_PANEL_WIDTH), 1.0)
    if np.sum(pieces) > MAX_PANELS or np.sum(pieces) * len(NODES) * edges[..., 0].size > MAX_NODES:
        return None
    parts = [edges[..., k, None] + widths[..., k, None] * (np.arange(m) / m) for k, m in enumerate(pieces.astype(int))]
    return np.concatenate([*parts, edges[..., -1:]], axis=-1)


def mean_with_shared_nodes(kernel: Kernel, panels: Panels, edges: Array, x: Array) -> Array:
    """E k(X, x) at x (..., N, 1), on panels between `edges` (..., K) from `shared_edges`: (..., N)."""
    y, mass = _with_end_cells(edges, panels)
    left, right = edges[..., None, :-1], edges[..., None, 1:]
    own = panels.per_point()

    def part(x: Array) -> Array:
        total = np.sum(mass[..., None, :] * kernel.on_line(np.abs(y[..., None, :] - x)), axis=-1)
        if not kernel.has_kink:
            return np.asarray(total)
        # The panel around x, or the nearest one.
        holds = np.sum(left <= x, axis=-1, keepdims=True) - 1
        holds = np.clip(holds, 0, left.shape[-1] - 1)
        rows = [np.broadcast_to(ends, (*holds.shape[:-1], ends.shape[-1])) for ends in (left, right)]
        a, b = (np.take_along_axis(row, holds, axis=-1) for row in rows)
        return np.asarray(total + _split(kernel, own, a, np.clip(x, a, b), b, x))

    measures = math.prod(np.broadcast_shapes(y.shape[:-1], x.shape[:-2]))
    return in_blocks(part, x, CHUNK // max(1, measures * y.shape[-1]))


def double_with_shared_nodes(kernel: Kernel, first: Panels, second: Panels, edges: Array) -> Array:
    """E k(X, Y) for X and Y of two measures whose breakpoints are all among `edges` (..., K): (...)."""
    total = _quadratic(kernel, *_with_end_cells(edges, first), *_with_end_cells(edges, second))
    if not kernel.has_kink:
        return total
    x, mass = _inside(edges, first)
    # Elsewhere the kink is negligible.
    heavy = np.any(mass > NEGLIGIBLE_MASS, axis=tuple(range(mass.ndim - 1)))
    a, b = (np.repeat(ends, len(NODES), axis=-1)[..., heavy, None] for ends in (edges[..., :-1], edges[..., 1:]))
    x, mass = x[..., heavy, None], mass[..., heavy]
    own = second.per_point()
    step = max(1, CHUNK // (3 * len(NODES) * max(1, total.size)))
    for i in range(0, x.shape[-2], step):
        piece = np.s_[..., i : i + step, :]
        corrections = _split(kernel, own, a[piece], x[piece], b[piece], x[piece])
        total = total + np.sum(mass[..., i : i + step] * corrections, -1)
    return np.asarray(total)


def _quadratic(kernel: Kernel, x: Array, mass_x: Array, y: Array, mass_y: Array) -> Array:
    """sum mass_x k(x, y) mass_y over the nodes (..., m) of two measures, for each pair of the batch: (...)."""
    if any(s.ndim for s in kernel.line_lengthscales()):
        gram = kernel.on_line(np.abs(x[..., :, None] - y[..., None, :]))
        return np.asarray(np.einsum("...i,...ij,...j->...", mass_x, gram, mass_y))
    out = np.empty(np.broadcast_shapes(x.shape[:-1], y.shape[:-1]))
    x, mass_x, y, mass_y = (np.broadcast_to(v, (*out.shape, v.shape[-1])) for v in (x, mass_x, y, mass_y))
    for t in np.ndindex(out.shape):
        i, j = (mass[t] > NEGLIGIBLE_MASS * np.max(mass[t]) for mass in (mass_x, mass_y))
        out[t] = mass_x[t][i] @ kernel.on_line(np.abs(x[t][i, None] - y[t][j])) @ mass_y[t][j]
    return out


def _split(kernel: Kernel, panels: Panels, a: Array, cut: Array, b: Array, x: Array) -> Array:
    """The correction of E k(X, x) for splitting the panel (a, b) at `cut`, all (..., N, 1): (..., N)."""
    whole, halves = (
        np.sum(mass * kernel.on_line(np.abs(y - x)), axis=-1)
        for y, mass in (_inside(np.concatenate(cuts, axis=-1), panels) for cuts in ((a, b), (a, cut, b)))
    )
    return np.asarray(halves - whole)


def _with_end_cells(edges: Array, panels: Panels) -> tuple[Array, Array]:
    """Nodes (..., m) and masses of the measure, including the cells at the ends of its support."""
    y, mass = _inside(edges, panels)
    batch = y.shape[:-1]
    ends = [np.broadcast_to(e, (*batch, e.shape[-1])) for e in (panels.y_ends, panels.mass_ends)]
    return np.concatenate([y, ends[0]], axis=-1), np.concatenate([mass, ends[1]], axis=-1)


def _inside(edges: Array, panels: Panels) -> tuple[Array, Array]:
    """Nodes (..., m) and masses of the measure on the panels between `edges`; zero beyond its own breakpoints."""
    y, mass = nodes(edges, panels.measure)
    return y, np.where((y >= panels.edges[..., :1]) & (y <= panels.edges[..., -1:]), mass, 0.0)


@dataclass(frozen=True, eq=False)
class Panels:
    """A 1-D measure with its breakpoints (..., K), and points and masses (..., m) for the cells beyond them."""

    measure: Measure
    edges: Array
    y_ends: Array
    mass_ends: Array

    @classmethod
    def of(cls, measure: Measure) -> Panels:
        edges = breakpoints(measure)
        return cls(measure, edges, *end_cells(edges, measure))

    def per_point(self) -> Panels:
        """The same panels with an axis for points: (..., 1, K)."""
        return Panels(self.measure[..., None], *(a[..., None, :] for a in (self.edges, self.y_ends, self.mass_ends)))

    def __getitem__(self, rows: slice) -> Panels:
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
    Each kink or jump of the density lies between two of them that are close together.
    """
    _require_panels(measure)
    return np.sort(np.concatenate([remembered(measure, _graded), density_kinks(measure)], axis=-1), axis=-1)


def density_kinks(measure: Measure) -> Array:
    """The ends (..., 2 m) of the short panels of `breakpoints` that hold kinks and jumps of the density."""
    return remembered(measure, _kinks)


def _graded(measure: Measure) -> Array:
    """Quantiles (..., K), as in `breakpoints`."""
    cells = [np.where(np.isfinite(end), END_CELL * np.abs(end), 0.0) + MIN_END_CELL for end in measure.support]
    first, last = measure.support[0] + cells[0], measure.support[1] - cells[1]

    def quantiles(v: Array) -> Array:
        grid = np.broadcast_to(v[:, None], (*measure.batch_shape, len(v), 1))
        return np.clip(measure._from_normal(grid)[..., 0], np.maximum(first, -INFINITE), np.minimum(last, INFINITE))

    v, y = NORMAL_GRID, quantiles(NORMAL_GRID)
    for _ in range(MAX_REFINEMENTS):
        floor = np.where(v[1:] <= 0, *cells)
        jumps = np.diff(np.log(np.maximum(np.diff(y, axis=-1), floor)), axis=-1)
        over_batch = tuple(range(jumps.ndim - 1))
        # Where two neighbours differ too much in width, the wider one is split.
        wide = np.zeros(len(v) - 1, dtype=bool)
        wide[1:] |= np.any(jumps > np.log(MAX_WIDTH_RATIO), axis=over_batch)
        wide[:-1] |= np.any(jumps < -np.log(MAX_WIDTH_RATIO), axis=over_batch)
        middle = 0.5 * (v[1:] + v[:-1])
        wide &= np.abs(middle) < BULK
        if not np.any(wide):
            break
        v = np.concatenate([v, middle[wide]])
        y = np.concatenate([y, quantiles(middle[wide])], axis=-1)
        order = np.argsort(v)
        v, y = v[order], y[..., order]
    ends = [np.where(np.isfinite(end), end, edge) for end, edge in ((first, y[..., :1]), (last, y[..., -1:]))]
    return np.concatenate([ends[0], y, ends[1]], axis=-1)


def _kinks(measure: Measure) -> Array:
    """The ends (..., 2 m) of short panels that hold the kinks and jumps of a density.

    With them, all panels of `_graded` have the masses that the distribution function gives them, up to MASS_TOLERANCE.
    A measure with fewer kinks than another of the batch repeats its first edge.
    """
    edges = remembered(measure, _graded)
    found = edges[..., :0]
    for _ in range(0 if measure.has_smooth_density else MAX_KINKS):
        every = np.sort(np.concatenate([edges, found], axis=-1), axis=-1)
        left, right = every[..., :-1], every[..., 1:]
        missed = _missed_mass(left, right, measure)
        columns = np.flatnonzero(np.any(missed > MASS_TOLERANCE, axis=tuple(range(missed.ndim - 1))))
        left, right, missed = left[..., columns], right[..., columns], missed[..., columns]
        start = missed
        for _ in range(MAX_HALVINGS):
            searched = missed > 0.1 * MASS_TOLERANCE
            if not np.any(searched):
                break
            middle = 0.5 * (left + right)
            below, above = _missed_mass(left, middle, measure), _missed_mass(middle, right, measure)
            left = np.where(searched & (above > below), middle, left)
            right = np.where(searched & (above <= below), middle, right)
            missed = np.where(searched, np.maximum(below, above), missed)
        # where halving does not help, the distribution function is less accurate than the density
        located = (start > MASS_TOLERANCE) & (missed < 0.1 * start)
        if not np.any(located):
            break
        ends = np.concatenate([np.where(located, end, edges[..., :1]) for end in (left, right)], axis=-1)
        found = _packed(np.concatenate([found, ends], axis=-1), edges[..., :1])
    _require_unit_mass(np.sort(np.concatenate([edges, found], axis=-1), axis=-1), measure)
    return found


def _require_unit_mass(edges: Array, measure: Measure) -> None:
    """Raise where a density does not integrate to one over its panels and end cells."""
    total = np.sum(nodes(edges, measure)[1], axis=-1) + np.sum(end_cells(edges, measure)[1], axis=-1)
    if not np.all(np.abs(total - 1.0) < TOTAL_TOLERANCE):
        raise NoEmbedding(
            f"the density of {measure!r} integrates to {np.ravel(total)[np.argmax(np.abs(np.ravel(total) - 1.0))]:.6g} "
            f"between quantiles that hold all of its mass: its density and its distribution function do not agree."
        )


def _packed(cuts: Array, filling: Array) -> Array:
    """Cuts (..., m) without the columns that are only filling (..., 1) after each row was sorted."""
    cuts = np.sort(cuts, axis=-1)
    return cuts[..., np.any(cuts > filling, axis=tuple(range(cuts.ndim - 1)))]


def _missed_mass(left: Array, right: Array, measure: Measure) -> Array:
    """How far the masses (..., K) of panels by Gauss-Legendre are from those by the distribution function."""
    v = measure._to_normal(np.concatenate([left, right], axis=-1)[..., None])[..., 0]
    low, high = np.split(v, 2, axis=-1)
    exact = np.where(low + high < 0, ndtr(high) - ndtr(low), ndtr(-low) - ndtr(-high))
    half, centre = 0.5 * (right - left)[..., None], 0.5 * (left + right)[..., None]
    y = centre + half * NODES
    density = np.exp(measure._logpdf(y.reshape(*y.shape[:-2], -1)[..., None])).reshape(y.shape)
    return np.asarray(np.abs(np.sum(half * WEIGHTS * density, axis=-1) - exact))


def _require_panels(measure: Measure, kernel: Kernel | None = None) -> None:
    if measure.has_atoms or measure.has_slow_transport:
        pair = "" if kernel is None else f"{type(kernel).__name__} under {type(measure).__name__}: "
        reason = "has atoms" if measure.has_atoms else "has no fast quantile function"
        raise NoEmbedding(
            f"no closed form for {pair}{measure!r}, which {reason}: pass method='transport' to put the "
            f"kernel on the gaussianised coordinate, method='quadrature' to integrate numerically, or register a rule "
            f"of your own with cbq.embeddings.register."
        )
    if not measure.has_smooth_density:
        density_kinks(measure)  # which checks the density


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
    # An empty panel may sit on a singularity of the density: move its nodes, whose weights are 0, to the widest panel.
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
