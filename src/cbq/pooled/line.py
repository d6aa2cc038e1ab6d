"""One quadrature rule on the line for the measures of all thetas.

Where embeddings have no formula, each measure and point takes a rule of its own, which is exact and slow. A process can
do with less: replace every measure by masses at the same nodes, and its integrals are sums of values of f, whose posterior
is exact. What is left is the error of the rule for f itself, which many narrow panels keep far below that of any
estimate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq._arrays import Array, evenly
from cbq.embeddings.panels import breakpoints
from cbq.measures import Measure
from cbq.measures.base import stack

PANELS, MORE = 400, 800  # about, and at most so many beyond the ends
NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)
COVERED = 1e-8  # what may be missing from the mass of a measure


class LineRule:
    """Nodes y (Q, 1) with masses for any measure on the line that lies where the measures it was made for do."""

    def __init__(self, edges: Array) -> None:
        half = 0.5 * np.diff(edges)[:, None]
        self.edges = edges
        self.y = (edges[:-1, None] + half * (1.0 + NODES)).reshape(-1, 1)
        self._widths = (half * WEIGHTS).reshape(-1)

    @classmethod
    def of(cls, measures: Sequence[Measure]) -> LineRule:
        """That of some measures."""
        ends = _ends(measures)
        coarse = ends[evenly(len(ends), PANELS // 4)]
        pieces = -(-PANELS // max(len(coarse) - 1, 1))
        return cls(np.interp(np.arange((len(coarse) - 1) * pieces + 1) / pieces, np.arange(len(coarse)), coarse))

    def extended(self, measures: Sequence[Measure]) -> LineRule | None:
        """The line with panels added at its ends, as wide as the last ones, for other measures; None if these are many."""
        ends, edges = _ends(measures), self.edges
        first, last = edges[1] - edges[0], edges[-1] - edges[-2]
        left, right = (edges[0] - ends[0]) / first, (ends[-1] - edges[-1]) / last
        if not max(left, 0.0) + max(right, 0.0) <= MORE:
            return None
        below = edges[0] - first * np.arange(np.ceil(left), 0, -1)
        above = edges[-1] + last * np.arange(1, np.ceil(right) + 1)
        return LineRule(np.concatenate([np.maximum(below, ends[0]), edges, np.minimum(above, ends[-1])]))

    def masses(self, measures: Sequence[Measure]) -> Array | None:
        """The masses (M, Q) of M measures at the nodes; None where one of them reaches beyond."""
        whole = stack(tuple(measures))
        if whole is not None:
            density = whole.logpdf(np.broadcast_to(self.y, (*whole.batch_shape, *self.y.shape)))
        else:
            density = np.stack([measure.logpdf(self.y) for measure in measures])
        found = np.broadcast_to(
            np.exp(density) * self._widths, (len(measures), len(self.y))
        )  # one measure may serve all
        total = np.sum(found, axis=1, keepdims=True)
        return None if np.any(np.abs(total - 1.0) > COVERED) else np.asarray(found / total)


def _ends(measures: Sequence[Measure]) -> Array:
    """The ends of the panels that measures have by themselves, in order."""
    whole = stack(tuple(measures))
    return np.unique(
        np.concatenate([breakpoints(measure).ravel() for measure in (measures if whole is None else [whole])])
    )
