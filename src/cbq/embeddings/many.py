"""Embeddings of many measures under one kernel, and quadrature rules on the line that the measures share.

Without a formula, each measure and point needs its own panel rule, which is accurate but slow. Instead, masses at
shared nodes can replace every measure: integrals are then sums of values of f, with an exact posterior. The error of
the rule for f remains, and many narrow panels keep it far below the error of any estimate. Where the kernel and the
measures are products over coordinates, each coordinate without a formula has its own line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from typing import Protocol

import numpy as np
from numpy.polynomial.legendre import leggauss, legvander

from cbq.common import Array, evenly
from cbq.embeddings.composite import blocks
from cbq.embeddings.embedding import embed
from cbq.embeddings.panels import breakpoints, density_kinks
from cbq.kernels import Kernel
from cbq.linalg.threads import in_threads, spans
from cbq.measures import Measure
from cbq.measures.base import remembered, stack

MAX_CROSS_SIZE = 2**23  # numbers in memory at a time, for covariances of all pairs of measures
N_PANELS, MAX_EXTRA_PANELS = 400, 800  # of a line, approximately; and added at its ends
N_COARSE_PANELS = 100
MAX_SPLITS = 2000  # of the panels of a line
NODES, WEIGHTS = leggauss(6)
# (k, j): the coefficient of the Legendre polynomial P_k in the polynomial that is 1 at node j and 0 at the others
INTERPOLATION = (np.arange(len(NODES)) + 0.5)[:, None] * legvander(NODES, len(NODES) - 1).T * WEIGHTS
CROSS_BLOCK = 3000  # nodes of a line at a time, for cross terms: nearly all lines have fewer
BLOCK = 128  # nodes of a line at a time, whose kernel values stay in the cache
MASS_TOLERANCE = 1e-8  # by which the total mass of a measure on the line may differ from 1


class Integrals:
    """The integrals of k(., u) against the measures of x at M thetas.

    Where the kernel acts on (x, theta), each measure comes with its own theta.

    Parameters
    ----------
    kernel : a kernel of x, or of (x, theta).
    measures : the M measures of x, one by one or `together`.
    theta : (M, p), their thetas.
    line : a rule for all measures, from `line_for`; None for embeddings of their own.
    """

    def __init__(
        self, kernel: Kernel, measures: Sequence[Measure], theta: Array, line: SharedRule | None = None
    ) -> None:
        self.kernel_theta = kernel.on_theta
        self.theta, self.d = theta, measures[0].dim
        self._embedded = _embedded(kernel.on_x, together(measures), line)

    def mean(self, u: Array) -> Array:
        """The embeddings (M, n) at points u (n, d) or (n, d + p)."""
        mu = np.broadcast_to(self._embedded.mean(u[:, : self.d]), (len(self.theta), len(u)))
        return mu if self.kernel_theta is None else mu * self.kernel_theta(self.theta, u[:, self.d :])

    def variance(self) -> Array:
        """The initial errors (M,)."""
        z = np.broadcast_to(self._embedded.variance(), len(self.theta))
        return z if self.kernel_theta is None else z * self.kernel_theta.diag(self.theta)

    def cross(self) -> Array:
        """The cross terms (M, M) of all pairs."""
        square = np.broadcast_to(self._embedded.cross(), (len(self.theta), len(self.theta)))
        return square if self.kernel_theta is None else square * self.kernel_theta(self.theta)


class _Embedded(Protocol):
    """M measures of x, or one for all, embedded under a kernel of x; results broadcast as `Integrals` needs them."""

    def mean(self, x: Array) -> Array:
        """The embeddings at points x (n, d)."""

    def variance(self) -> Array:
        """The initial errors."""

    def cross(self) -> Array:
        """The cross terms of all pairs."""


def _embedded(kernel: Kernel, measures: Sequence[Measure], line: SharedRule | None) -> _Embedded:
    """The embedded measures, given as `together` returns them; by the rule if it covers them."""
    if line is not None and (by_line := line.embedded(kernel, measures)) is not None:
        return by_line
    return _Batch(kernel, measures[0]) if len(measures) == 1 else _OneByOne(kernel, measures)


class _Batch:
    """One measure with batch shape (M,), or one without a batch axis."""

    def __init__(self, kernel: Kernel, measure: Measure) -> None:
        self.kernel, self.measure, self.embedding = kernel, measure, embed(kernel, measure)

    def mean(self, x: Array) -> Array:
        pieces = spans(len(x), prod(self.measure.batch_shape))
        return in_threads(lambda piece: self.embedding.mean(x[piece]), pieces, axis=-1)

    def variance(self) -> Array:
        return self.embedding.variance

    def cross(self) -> Array:
        if not self.measure.batch_shape:
            return self.embedding.variance
        (M,) = self.measure.batch_shape
        step = max(1, MAX_CROSS_SIZE // (M * self.measure.dim**2))
        parts = [self.measure[i : i + step, None] for i in range(0, M, step)]
        return np.concatenate([embed(self.kernel, part).cross(self.measure[None, :]) for part in parts])


class _OneByOne:
    """Measures of different types."""

    def __init__(self, kernel: Kernel, measures: Sequence[Measure]) -> None:
        self.embeddings = [embed(kernel, measure) for measure in measures]

    def mean(self, x: Array) -> Array:
        return np.stack([e.mean(x) for e in self.embeddings])

    def variance(self) -> Array:
        return np.array([float(e.variance) for e in self.embeddings])

    def cross(self) -> Array:
        crosses = np.diag(self.variance())
        for i, e in enumerate(self.embeddings):
            for j in range(i):
                crosses[i, j] = crosses[j, i] = float(e.cross(self.embeddings[j]))
        return crosses


class _ByLine:
    """Measures on the line as masses (M, Q) at nodes y (Q, 1)."""

    def __init__(self, kernel: Kernel, y: Array, masses: Array) -> None:
        self.kernel, self.y, self.masses = kernel, y, masses

    def mean(self, x: Array) -> Array:
        return np.asarray(self.masses @ self.kernel(self.y, x))

    def variance(self) -> Array:
        return self._variance

    @cached_property
    def _variance(self) -> Array:
        # The line has thousands of nodes; by symmetry, each pair of them is filled once.
        z = np.zeros(len(self.masses))
        for i in range(0, len(self.y), BLOCK):
            mine, others = self.masses[:, i : i + BLOCK], 2.0 * self.masses[:, i:]
            others[:, :BLOCK] *= 0.5
            z += np.sum((others @ self.kernel(self.y[i:], self.y[i : i + BLOCK])) * mine, axis=1)
        return z

    def cross(self) -> Array:
        crosses = np.zeros((len(self.masses), len(self.masses)))
        for i in range(0, len(self.y), CROSS_BLOCK):
            piece = slice(i, i + CROSS_BLOCK)
            crosses += (self.masses @ self.kernel(self.y, self.y[piece])) @ self.masses[:, piece].T
        return crosses


@dataclass(frozen=True, eq=False)
class _Blockwise:
    """Measures of independent blocks of coordinates, each with its own embeddings: these are multiplied."""

    parts: Sequence[tuple[slice, _Embedded]]

    def mean(self, x: Array) -> Array:
        return reduce(np.multiply, [part.mean(x[:, block]) for block, part in self.parts])

    def variance(self) -> Array:
        return reduce(np.multiply, [part.variance() for _, part in self.parts])

    def cross(self) -> Array:
        return reduce(np.multiply, [part.cross() for _, part in self.parts])


class LineRule:
    """Nodes y (Q, 1), and masses there for any measure that the panels between `edges` (K,) cover."""

    def __init__(self, edges: Array) -> None:
        half = 0.5 * np.diff(edges)[:, None]
        self.edges = edges
        self.y = (edges[:-1, None] + half * (1.0 + NODES)).reshape(-1, 1)
        self._widths = (half * WEIGHTS).reshape(-1)

    @classmethod
    def of(cls, measures: Sequence[Measure], panels: int = N_PANELS) -> LineRule:
        """The rule with about `panels` panels."""
        ends = _panel_ends(measures)
        coarse = ends[evenly(len(ends), panels // 4)]
        pieces = -(-panels // max(len(coarse) - 1, 1))
        return cls(np.interp(np.arange((len(coarse) - 1) * pieces + 1) / pieces, np.arange(len(coarse)), coarse))

    def split_at(self, points: Array) -> LineRule:
        """The rule with further panels that end at points (n,), unless these lie in the outermost panels.

        A kernel that bends at these points is smooth inside each panel, and so are means of its process.
        """
        inside = np.unique(points[(points > self.edges[1]) & (points < self.edges[-2])])
        return LineRule(np.union1d(self.edges, inside[evenly(len(inside), MAX_SPLITS)])) if len(inside) else self

    @property
    def n_nodes(self) -> int:
        """The number Q of nodes."""
        return len(self.y)

    def embedded(self, kernel: Kernel, measures: Sequence[Measure]) -> _ByLine | None:
        """The measures on the line, or on a longer one if they reach beyond; None if it were too long."""
        covered = self.covering(measures)
        return None if covered is None else _ByLine(kernel, *covered)

    def covering(self, measures: Sequence[Measure]) -> tuple[Array, Array] | None:
        """Nodes (Q, 1) and masses (M, Q), on a longer line if a measure reaches beyond; None if it were too long."""
        if (masses := self.masses(measures)) is not None:
            return self.y, masses
        longer = self.extended(measures)
        if longer is None or (masses := longer.masses(measures)) is None:
            return None
        return longer.y, masses

    def extended(self, measures: Sequence[Measure]) -> LineRule | None:
        """The line with panels as wide as the outermost ones added at its ends; None if measures need too many."""
        ends, edges = _panel_ends(measures), self.edges
        first, last = edges[1] - edges[0], edges[-1] - edges[-2]
        left, right = (edges[0] - ends[0]) / first, (ends[-1] - edges[-1]) / last
        if not max(left, 0.0) + max(right, 0.0) <= MAX_EXTRA_PANELS:
            return None
        below = edges[0] - first * np.arange(np.ceil(left), 0, -1)
        above = edges[-1] + last * np.arange(1, np.ceil(right) + 1)
        return LineRule(np.concatenate([np.maximum(below, ends[0]), edges, np.minimum(above, ends[-1])]))

    def masses(self, measures: Sequence[Measure]) -> Array | None:
        """The masses (M, Q) of M measures at the nodes; None if one of them reaches beyond the line."""
        masses = np.concatenate([remembered(measure, self._masses) for measure in measures])
        total = np.sum(masses, axis=1, keepdims=True)
        return None if np.any(np.abs(total - 1.0) > MASS_TOLERANCE) else np.asarray(masses / total)

    def _masses(self, measure: Measure) -> Array:
        """The masses (M, Q) of the part of a measure, with batch shape (M,) or (), that lies on the line.

        In a panel that contains an end of the support, or a kink or jump of the density, the masses integrate
        polynomials over the parts between them, so that no measure needs panels of its own.
        """
        measure = measure if measure.batch_shape else measure[None]
        density = np.exp(measure.logpdf(np.broadcast_to(self.y, (*measure.batch_shape, *self.y.shape))))
        masses = (density * self._widths).reshape(len(density), -1, len(NODES))  # (M, K - 1, nodes of a panel)
        cuts = np.concatenate([*measure.support, density_kinks(measure)], axis=-1)
        panels = np.clip(np.searchsorted(self.edges, cuts, side="right") - 1, 0, len(self.edges) - 2)
        inside = (self.edges[panels] < cuts) & (cuts < self.edges[panels + 1])
        rows, panel = np.unique(np.stack([np.nonzero(inside)[0], panels[inside]]), axis=1)
        if len(rows):
            left, right = self.edges[panel], self.edges[panel + 1]
            lower, upper = (np.clip(end[rows, 0], left, right)[:, None] for end in measure.support)
            ends = np.sort(np.concatenate([lower, np.clip(cuts[rows], lower, upper), upper], axis=1), axis=1)
            half = 0.5 * np.diff(ends, axis=1)[..., None]
            y = (ends[:, :-1, None] + half * (1.0 + NODES)).reshape(len(rows), -1)
            weights = (half * WEIGHTS).reshape(y.shape)
            y = np.where(weights > 0, y, 0.5 * (lower + upper))  # an empty part may sit on a singularity
            part = weights * np.exp(measure[rows].logpdf(y[..., None]))
            powers = legvander((2.0 * y - (left + right)[:, None]) / (right - left)[:, None], len(NODES) - 1)
            masses[rows, panel] = np.einsum("mi,mik,kj->mj", part, powers, INTERPOLATION)
        return masses.reshape(len(masses), -1)


@dataclass(frozen=True, eq=False)
class LineRules:
    """Rules on the line for independent coordinates of x, by their numbers."""

    lines: Mapping[int, LineRule]

    @property
    def n_nodes(self) -> int:
        """The number of nodes on the longest line."""
        return max(line.n_nodes for line in self.lines.values())

    def embedded(self, kernel: Kernel, measures: Sequence[Measure]) -> _Blockwise | None:
        """Each independent coordinate by its line, if the line covers it, and the others by their own embeddings.

        None if the measures have no common batch.
        """
        if len(measures) > 1:
            return None
        return _Blockwise(
            [
                (block, _embedded(part, [measure], self.lines.get(block.start) if measure.dim == 1 else None))
                for block, part, measure in _independent(kernel, measures[0])
            ]
        )


SharedRule = LineRule | LineRules


def line_for(
    kernel: Kernel, measures: Sequence[Measure], *, coarse: bool = False, x: Array | None = None
) -> SharedRule | None:
    """One rule for all measures if each of their embeddings would use a panel rule; otherwise None.

    In several dimensions, rules for the independent coordinates whose embeddings would use one; None if there are none.

    coarse: use few panels if they cover the measures; enough for variances, which are exact for the rule's measures,
        and to compare kernels.
    x: (n, d), the points of the process: the roughest kernels bend there, so their panels end there.
    """
    measures = together(measures)
    bends = x if kernel.is_roughest else None
    if measures[0].dim == 1:
        return _one_line(kernel.on_x, measures, coarse, bends)
    if len(measures) > 1:
        return None
    rules = {
        block.start: _one_line(part, [measure], coarse, None if bends is None else bends[:, block])
        for block, part, measure in _independent(kernel.on_x, measures[0])
        if measure.dim == 1
    }
    lines = {j: line for j, line in rules.items() if line is not None}
    return LineRules(lines) if lines else None


def _independent(kernel: Kernel, measure: Measure) -> list[tuple[slice, Kernel, Measure]]:
    """The independent blocks of coordinates for which kernel and measure are products, with the factors of both."""
    factors = embed(kernel, measure)._factors()
    places = blocks([factor.measure for factor in factors])
    return [(block, factor.kernel, factor.measure) for block, factor in zip(places, factors, strict=True)]


def _one_line(kernel: Kernel, measures: Sequence[Measure], coarse: bool, bends: Array | None) -> LineRule | None:
    """`line_for` for measures in one dimension; the kernel bends at points (n, 1)."""
    if not all(embed(kernel, measure).uses_panels for measure in measures):
        return None
    lines = (_line(measures, panels) for panels in ((N_COARSE_PANELS,) if coarse else ()) + (N_PANELS,))
    rule = next((line for line in lines if line.masses(measures) is not None), None)
    return rule if rule is None or bends is None else rule.split_at(bends[:, 0])


def _line(measures: Sequence[Measure], panels: int) -> LineRule:
    """The rule with about `panels` panels; measures that are `together` keep it."""
    if len(measures) > 1:
        return LineRule.of(measures, panels)
    return remembered(measures[0], _coarse_line if panels == N_COARSE_PANELS else _fine_line)


def _coarse_line(measure: Measure) -> LineRule:
    return LineRule.of([measure], N_COARSE_PANELS)


def _fine_line(measure: Measure) -> LineRule:
    return LineRule.of([measure], N_PANELS)


def _panel_ends(measures: Sequence[Measure]) -> Array:
    """The sorted breakpoints of all measures."""
    return np.unique(np.concatenate([breakpoints(measure).ravel() for measure in measures]))


def together(measures: Sequence[Measure]) -> Sequence[Measure]:
    """M measures as one with the batch shape (M,), or () where all are equal; unchanged if they cannot be stacked."""
    whole = stack(measures)
    return measures if whole is None else [whole]
