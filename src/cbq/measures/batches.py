"""Indexing and joining measures whose batch shapes broadcast against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cbq._arrays import Array
from cbq.measures.base import Measure


def take(measure: Measure, batch: tuple[int, ...], index: Any) -> Measure:
    """The measures at `index` of `measure` broadcast to `batch`."""
    own = measure.batch_shape
    order = np.broadcast_to(np.arange(math.prod(own)).reshape(own), batch)[index]
    if own:
        return measure[np.unravel_index(order, own)]
    return measure[(None,) * np.ndim(order)]  # one measure for all: axes of length 1 broadcast


def all_equal(these: Sequence[Measure], those: Sequence[Measure]) -> bool:
    """Whether two lists hold the same measures in the same order."""
    return len(these) == len(those) and all(a.equals(b) for a, b in zip(these, those, strict=True))


def join(parts: list[Array]) -> Array:
    """Arrays (..., n, d_i) side by side: (..., n, sum d_i)."""
    lead = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return np.concatenate([np.broadcast_to(part, (*lead, part.shape[-1])) for part in parts], axis=-1)
