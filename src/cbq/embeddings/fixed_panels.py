"""Panel rules with the same nodes for all points, where the lengthscale is not much shorter than the measure.

Then panels of a few lengthscales are few, and the density is needed only once at each node. The kernel is smooth on
a panel that does not hold the point x, and on a pair of different panels; the panel of x is split at x.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, in_blocks
from cbq.embeddings.panels import CHUNK, NODES, Panels, nodes
from cbq.kernels import Kernel

WIDEST = 2.5  # panel, in lengthscales
NEGLIGIBLE = 1e-20  # mass of a node
LARGEST = 5_000_000  # nodes of all measures of a batch together
MOST = 80  # panels: with more, nodes that follow the points cost less


def resolved(edges: Array, kernel: Kernel) -> Array | None:
    """Breakpoints (..., K') that refine `edges` (..., K) to panels of a few lengthscales; None if they are too many."""
    widths = np.diff(edges, axis=-1)
    shortest = np.min(np.stack(np.broadcast_arrays(*kernel.line_lengthscales())), axis=0)
    ratio = widths / shortest[..., None]
    widest = np.max(ratio, axis=tuple(range(ratio.ndim - 1)), initial=0.0)
    pieces = np.maximum(np.ceil(widest / WIDEST), 1.0)
    if np.sum(pieces) > MOST or np.sum(pieces) * len(NODES) * edges[..., 0].size > LARGEST:
        return None
    parts = [edges[..., k, None] + widths[..., k, None] * (np.arange(m) / m) for k, m in enumerate(pieces.astype(int))]
    return np.concatenate([*parts, edges[..., -1:]], axis=-1)


def mean(kernel: Kernel, panels: Panels, edges: Array, x: Array) -> Array:
    """E k(X, x) at x (..., N, 1), with the breakpoints of the measure refined to `edges` (..., K): (..., N)."""
    y, mass = with_ends(edges, panels)
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


def double(kernel: Kernel, first: Panels, second: Panels, edges: Array) -> Array:
    """E k(X, Y) for X and Y of two measures, whose breakpoints are all among `edges` (..., K): (...)."""
    total = _quadratic(kernel, *with_ends(edges, first), *with_ends(edges, second))
    if not kernel.has_kink:
        return total
    x, mass = inside(edges, first)
    heavy = np.any(mass > NEGLIGIBLE, axis=tuple(range(mass.ndim - 1)))  # elsewhere the kink does not count
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
    """Sum of mass_x k(x, y) mass_y over the points (..., m) of two measures, measure by measure: (...)."""
    if any(s.ndim for s in kernel.line_lengthscales()):
        gram = kernel.on_line(np.abs(x[..., :, None] - y[..., None, :]))
        return np.asarray(np.einsum("...i,...ij,...j->...", mass_x, gram, mass_y))
    out = np.empty(np.broadcast_shapes(x.shape[:-1], y.shape[:-1]))
    x, mass_x, y, mass_y = (np.broadcast_to(v, (*out.shape, v.shape[-1])) for v in (x, mass_x, y, mass_y))
    for t in np.ndindex(out.shape):
        i, j = (mass[t] > NEGLIGIBLE * np.max(mass[t]) for mass in (mass_x, mass_y))
        out[t] = mass_x[t][i] @ kernel.on_line(np.abs(x[t][i, None] - y[t][j])) @ mass_y[t][j]
    return out


def _split(kernel: Kernel, panels: Panels, a: Array, cut: Array, b: Array, x: Array) -> Array:
    """What splitting the panel (a, b) at `cut` changes in E k(X, x); all (..., N, 1), the result (..., N)."""
    whole, halves = (
        np.sum(mass * kernel.on_line(np.abs(y - x)), axis=-1)
        for y, mass in (inside(np.concatenate(cuts, axis=-1), panels) for cuts in ((a, b), (a, cut, b)))
    )
    return np.asarray(halves - whole)


def with_ends(edges: Array, panels: Panels) -> tuple[Array, Array]:
    """Points (..., m) and masses of the measure: those inside, and those of the cells at the ends of its support."""
    y, mass = inside(edges, panels)
    batch = y.shape[:-1]
    ends = [np.broadcast_to(e, (*batch, e.shape[-1])) for e in (panels.y_ends, panels.mass_ends)]
    return np.concatenate([y, ends[0]], axis=-1), np.concatenate([mass, ends[1]], axis=-1)


def inside(edges: Array, panels: Panels) -> tuple[Array, Array]:
    """Points (..., m) and masses of the measure on the panels between `edges`, zero beyond its own breakpoints."""
    y, mass = nodes(edges, panels.measure)
    return y, np.where((y >= panels.edges[..., :1]) & (y <= panels.edges[..., -1:]), mass, 0.0)


def _at(values: Array, index: npt.NDArray[np.int_]) -> Array:
    """The values (..., 1, K) at index (..., N, 1): (..., N, 1)."""
    rows = np.broadcast_to(values, (*index.shape[:-1], values.shape[-1]))
    return np.asarray(np.take_along_axis(rows, index, axis=-1))
