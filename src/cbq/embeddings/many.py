"""Embeddings of many measures under one kernel, and a quadrature rule on the line that all of them share.

Where an embedding has no formula, each measure and point takes a panel rule of its own, which is exact and slow. A
Gaussian process can do with less: it replaces every measure by masses at the same nodes. The integrals are then sums of
values of f, and their posterior is exact. What remains is the error of the rule for f itself, and many narrow panels
keep that far below the error of any estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from cbq._arrays import Array, evenly
from cbq.embeddings.embedding import embed
from cbq.embeddings.panels import breakpoints
from cbq.kernels import Kernel
from cbq.measures import Measure
from cbq.measures.base import stack

MAX_CROSS_SIZE = 2**23  # numbers in the covariances of all pairs of measures that are processed at a time
N_PANELS, MAX_EXTRA_PANELS = 400, 800  # of a line, approximately; and added at its ends
N_COARSE_PANELS = 100
NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)
MASS_TOLERANCE = 1e-8  # by which the total mass of a measure on the line may differ from 1


class Integrals:
    """The integrals of k(., u) against the measures of x at M thetas.

    Where the kernel acts on (x, theta), theta is the one that the measure belongs to.

    Parameters
    ----------
    kernel : a kernel of x, or of (x, theta).
    measures : the M measures of x.
    theta : (M, p), their thetas.
    line : a rule for all measures, from `line_for`; None for embeddings of their own.
    """

    def __init__(self, kernel: Kernel, measures: Sequence[Measure], theta: Array, line: LineRule | None = None) -> None:
        self.kernel_theta = kernel.on_theta
        self.theta, self.d = theta, measures[0].dim
        whole = stack(measures)
        self._embedded: _ByLine | _Batch | _OneByOne
        if line is not None and (found := line.covering(measures)) is not None:
            self._embedded = _ByLine(kernel.on_x, *found)
        elif whole is not None:
            self._embedded = _Batch(kernel.on_x, whole, len(theta))
        else:
            self._embedded = _OneByOne(kernel.on_x, measures)

    def mean(self, u: Array) -> Array:
        """The embeddings (M, n) at points u (n, d) or (n, d + p)."""
        mu = self._embedded.mean(u[:, : self.d])
        return mu if self.kernel_theta is None else mu * self.kernel_theta(self.theta, u[:, self.d :])

    def variance(self) -> Array:
        """The initial errors (M,)."""
        z = self._embedded.variance()
        return z if self.kernel_theta is None else z * self.kernel_theta.diag(self.theta)

    def cross(self) -> Array:
        """The cross terms (M, M) of all pairs."""
        square = self._embedded.cross()
        return square if self.kernel_theta is None else square * self.kernel_theta(self.theta)


# Three ways to embed M measures of x: each has the methods of `Integrals`, for a kernel of x and points x (n, d).


class _Batch:
    """One measure with batch shape (M,), or one measure that serves M times."""

    def __init__(self, kernel: Kernel, measure: Measure, M: int) -> None:
        self.kernel, self.measure, self.M, self.embedding = kernel, measure, M, embed(kernel, measure)

    def mean(self, x: Array) -> Array:
        return np.broadcast_to(self.embedding.mean(x), (self.M, len(x)))

    def variance(self) -> Array:
        return np.broadcast_to(self.embedding.variance, self.M)

    def cross(self) -> Array:
        if not self.measure.batch_shape:
            return np.full((self.M, self.M), float(self.embedding.variance))
        step = max(1, MAX_CROSS_SIZE // (self.M * self.measure.dim**2))
        parts = [self.measure[i : i + step, None] for i in range(0, self.M, step)]
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
        found = np.diag(self.variance())
        for i, e in enumerate(self.embeddings):
            for j in range(i):
                found[i, j] = found[j, i] = float(e.cross(self.embeddings[j]))
        return found


class _ByLine:
    """Measures on the line as masses (M, Q) at nodes y (Q, 1)."""

    def __init__(self, kernel: Kernel, y: Array, masses: Array) -> None:
        self.kernel, self.y, self.masses = kernel, y, masses

    def mean(self, x: Array) -> Array:
        return np.asarray(self.masses @ self.kernel(self.y, x))

    def variance(self) -> Array:
        return self._variance

    @cached_property
    def _variance(self) -> Array:  # once: the line has thousands of nodes
        return np.asarray(np.sum((self.masses @ self.kernel(self.y)) * self.masses, axis=1))

    def cross(self) -> Array:
        return np.asarray(self.masses @ self.kernel(self.y) @ self.masses.T)


class LineRule:
    """Nodes y (Q, 1) with masses for any measure whose mass lies where the panels between `edges` (K,) are."""

    def __init__(self, edges: Array) -> None:
        half = 0.5 * np.diff(edges)[:, None]
        self.edges = edges
        self.y = (edges[:-1, None] + half * (1.0 + NODES)).reshape(-1, 1)
        self._widths = (half * WEIGHTS).reshape(-1)

    @classmethod
    def of(cls, measures: Sequence[Measure], panels: int = N_PANELS) -> LineRule:
        """The rule with about so many panels."""
        ends = _panel_ends(measures)
        coarse = ends[evenly(len(ends), panels // 4)]
        pieces = -(-panels // max(len(coarse) - 1, 1))
        return cls(np.interp(np.arange((len(coarse) - 1) * pieces + 1) / pieces, np.arange(len(coarse)), coarse))

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
        whole = stack(measures)
        if whole is not None:
            density = whole.logpdf(np.broadcast_to(self.y, (*whole.batch_shape, *self.y.shape)))
        else:
            density = np.stack([measure.logpdf(self.y) for measure in measures])
        shape = (len(measures), len(self.y))  # for one measure that serves M times
        found = np.broadcast_to(np.exp(density) * self._widths, shape)
        total = np.sum(found, axis=1, keepdims=True)
        return None if np.any(np.abs(total - 1.0) > MASS_TOLERANCE) else np.asarray(found / total)


def line_for(kernel: Kernel, measures: Sequence[Measure], *, coarse: bool = False) -> LineRule | None:
    """One rule for all measures if each of their embeddings would use a panel rule; otherwise None.

    coarse: with few panels, if they hold the measures: for variances, which are exact for the measures of the rule.
    """
    if measures[0].dim > 1 or not all(embed(kernel.on_x, measure).uses_panels for measure in measures):
        return None
    lines = (LineRule.of(measures, panels) for panels in ((N_COARSE_PANELS,) if coarse else ()) + (N_PANELS,))
    return next((line for line in lines if line.masses(measures) is not None), None)


def _panel_ends(measures: Sequence[Measure]) -> Array:
    """The sorted breakpoints of all measures."""
    whole = stack(measures)
    each = measures if whole is None else [whole]
    return np.unique(np.concatenate([breakpoints(measure).ravel() for measure in each]))
