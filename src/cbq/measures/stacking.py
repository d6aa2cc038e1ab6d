"""Several measures as one measure with a batch axis."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cbq.measures.base import Measure
from cbq.measures.product import Product


def stack(measures: tuple[Measure, ...]) -> Measure | None:
    """One measure with batch shape (T,) that holds the T measures; the measure itself if all are the same object.

    None if they differ in type or in the shapes of their parameters.
    """
    first = measures[0]
    if all(measure is first for measure in measures):
        return first
    if any(type(measure) is not type(first) for measure in measures):
        return None
    if isinstance(first, Product):
        tuples = [measure.blocks for measure in measures if isinstance(measure, Product)]
        if any(len(blocks) != len(first.blocks) for blocks in tuples):
            return None
        stacked = [stack(blocks) for blocks in zip(*tuples, strict=True)]
        return None if any(block is None for block in stacked) else Product(stacked)
    kind = type(first)
    if kind.__getitem__ is not Measure.__getitem__ or kind._rebuild is not Measure._rebuild:
        return None  # `parameters` are the arguments of the constructor only where indexing rebuilds from them
    parameters = [measure.parameters() for measure in measures]
    if any(p.keys() != q.keys() or any(p[k].shape != q[k].shape for k in p) for p, q in pairwise(parameters)):
        return None
    return kind(**{name: np.stack([p[name] for p in parameters]) for name in parameters[0]})
