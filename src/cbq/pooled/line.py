"""One quadrature rule on the line for the laws of all thetas.

Where embeddings have no formula, each law and point takes a rule of its own, which is exact and slow. A process can
do with less: replace every law by masses at the same nodes, and its integrals are sums of values of f, whose posterior
is exact. What is left is the error of the rule for f itself, which many narrow panels keep far below that of any
estimate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq._arrays import Array, evenly
from cbq.embeddings.panels import breakpoints
from cbq.measures import Measure
from cbq.samples.laws import stack

PANELS, MORE = 400, 800  # about, and at most so many beyond the ends
NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)
COVERED = 1e-8  # what may be missing from the mass of a law


class Line:
    """Nodes y (Q, 1) with masses for any law on the line that lies where the laws it was made for do."""

    def __init__(self, edges: Array) -> None:
        half = 0.5 * np.diff(edges)[:, None]
        self.edges = edges
        self.y = (edges[:-1, None] + half * (1.0 + NODES)).reshape(-1, 1)
        self._widths = (half * WEIGHTS).reshape(-1)

    @classmethod
    def of(cls, laws: Sequence[Measure]) -> Line:
        """That of some laws."""
        ends = _ends(laws)
        coarse = ends[evenly(len(ends), PANELS // 4)]
        pieces = -(-PANELS // max(len(coarse) - 1, 1))
        return cls(np.interp(np.arange((len(coarse) - 1) * pieces + 1) / pieces, np.arange(len(coarse)), coarse))

    def extended(self, laws: Sequence[Measure]) -> Line | None:
        """The line with panels added at its ends, as wide as the last ones, for other laws; None if these are many."""
        ends, edges = _ends(laws), self.edges
        first, last = edges[1] - edges[0], edges[-1] - edges[-2]
        left, right = (edges[0] - ends[0]) / first, (ends[-1] - edges[-1]) / last
        if not max(left, 0.0) + max(right, 0.0) <= MORE:
            return None
        below = edges[0] - first * np.arange(np.ceil(left), 0, -1)
        above = edges[-1] + last * np.arange(1, np.ceil(right) + 1)
        return Line(np.concatenate([np.maximum(below, ends[0]), edges, np.minimum(above, ends[-1])]))

    def masses(self, laws: Sequence[Measure]) -> Array | None:
        """The masses (M, Q) of M laws at the nodes; None where one of them reaches beyond."""
        whole = stack(tuple(laws))
        if whole is not None:
            density = whole.logpdf(np.broadcast_to(self.y, (*whole.batch_shape, *self.y.shape)))
        else:
            density = np.stack([law.logpdf(self.y) for law in laws])
        found = np.broadcast_to(np.exp(density) * self._widths, (len(laws), len(self.y)))  # one law may serve all
        total = np.sum(found, axis=1, keepdims=True)
        return None if np.any(np.abs(total - 1.0) > COVERED) else np.asarray(found / total)


def _ends(laws: Sequence[Measure]) -> Array:
    """The ends of the panels that laws have by themselves, in order."""
    whole = stack(tuple(laws))
    return np.unique(np.concatenate([breakpoints(law).ravel() for law in (laws if whole is None else [whole])]))
