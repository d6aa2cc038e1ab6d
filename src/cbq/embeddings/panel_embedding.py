"""RBF and Matern kernels, and products of them, under measures that have no closed form accurate to all digits.

The formulas in print for Gamma (1F1, 2F1, Tricomi's U), truncated Gaussian (incomplete moments) and similar measures
lose digits or overflow for short lengthscales; a panel rule does not.

Where the lengthscale is not much shorter than the measure, all points share the same nodes: panels of a few
lengthscales are few, and the density is evaluated once at each node. The kernel is smooth on a panel that does not
hold the point x, and on a pair of different panels; the panel of x is split at x. For shorter lengthscales each point
has nodes of its own, on panels that are graded about it.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, in_blocks
from cbq.embeddings.embedding import Embedding, register
from cbq.embeddings.panels import KERNEL_GRID, NODES, Panels, around, expectation, join, merge, nodes
from cbq.kernels import RBF, Kernel, Matern
from cbq.measures import Beta, Gamma, LogMeasure, Measure, StudentT, TruncatedGaussian

MAX_PANEL_WIDTH = 2.5  # of shared panels, in lengthscales
MAX_PANELS = 80  # shared by all points: beyond, nodes that follow the points cost less
MAX_NODES = 5_000_000  # shared nodes of all measures of a batch together
NEGLIGIBLE_MASS = 1e-20  # of a node
CHUNK = 50_000  # nodes at a time, which stay in the cache


@register(RBF, Gamma, Beta, StudentT, TruncatedGaussian, LogMeasure)
@register(Matern, Gamma, Beta, StudentT, TruncatedGaussian, LogMeasure)
class PanelEmbedding(Embedding):
    """Panel rule on the line."""

    rule = "Gauss-Legendre panels between breakpoints of density and kernel"
    uses_panels = True

    def __init__(self, kernel: Kernel, measure: Measure) -> None:
        super().__init__(kernel, measure)
        # centred where the family allows it: nodes near a large location would be rounded on the scale of the measure
        median = measure._from_normal(np.zeros((*measure.batch_shape, 1, 1)))[..., 0]
        moved = measure.translated(-median)
        self._panels = Panels.of(measure if moved is None else moved)
        self._shift = np.zeros_like(median) if moved is None else median

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

    def part(x: Array) -> Array:
        total = np.sum(mass[..., None, :] * kernel.on_line(np.abs(y[..., None, :] - x)), axis=-1)
        if not kernel.has_kink:
            return np.asarray(total)
        holds = np.sum(left <= x, axis=-1, keepdims=True) - 1  # the panel of x, or the nearest one
        holds = np.clip(holds, 0, left.shape[-1] - 1)
        a, b = (_at(ends, holds) for ends in (left, right))
        return np.asarray(total + _split(kernel, panels.per_point(), a, np.clip(x, a, b), b, x))

    measures = math.prod(np.broadcast_shapes(y.shape[:-1], x.shape[:-2]))
    return in_blocks(part, x, CHUNK // max(1, measures * y.shape[-1]))


def double_with_shared_nodes(kernel: Kernel, first: Panels, second: Panels, edges: Array) -> Array:
    """E k(X, Y) for X and Y of two measures whose breakpoints are all among `edges` (..., K): (...)."""
    total = _quadratic(kernel, *_with_end_cells(edges, first), *_with_end_cells(edges, second))
    if not kernel.has_kink:
        return total
    x, mass = _inside(edges, first)
    heavy = np.any(mass > NEGLIGIBLE_MASS, axis=tuple(range(mass.ndim - 1)))  # elsewhere the kink is negligible
    a, b = (np.repeat(ends, len(NODES), axis=-1)[..., heavy, None] for ends in (edges[..., :-1], edges[..., 1:]))
    x, mass = x[..., heavy, None], mass[..., heavy]
    own = second.per_point()
    step = max(1, CHUNK // (3 * len(NODES) * max(1, total.size)))
    for i in range(0, x.shape[-2], step):
        piece = np.s_[..., i : i + step, :]
        total = total + np.sum(
            mass[..., i : i + step] * _split(kernel, own, a[piece], x[piece], b[piece], x[piece]), -1
        )
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
    """Nodes (..., m) and masses of the measure, with those of the cells at the ends of its support."""
    y, mass = _inside(edges, panels)
    batch = y.shape[:-1]
    ends = [np.broadcast_to(e, (*batch, e.shape[-1])) for e in (panels.y_ends, panels.mass_ends)]
    return np.concatenate([y, ends[0]], axis=-1), np.concatenate([mass, ends[1]], axis=-1)


def _inside(edges: Array, panels: Panels) -> tuple[Array, Array]:
    """Nodes (..., m) and masses of the measure on the panels between `edges`; zero beyond its own breakpoints."""
    y, mass = nodes(edges, panels.measure)
    return y, np.where((y >= panels.edges[..., :1]) & (y <= panels.edges[..., -1:]), mass, 0.0)


def _at(values: Array, index: npt.NDArray[np.int_]) -> Array:
    """The values (..., 1, K) at an index (..., N, 1): (..., N, 1)."""
    rows = np.broadcast_to(values, (*index.shape[:-1], values.shape[-1]))
    return np.asarray(np.take_along_axis(rows, index, axis=-1))
