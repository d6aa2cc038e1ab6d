"""Features of points, from which a kernel fills Gram matrices: arrays (..., N, k), maybe in nested tuples."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from cbq._arrays import Array

Features = tuple[Any, ...]


class Fills(Protocol):
    """The part of a kernel that the linear algebra needs."""

    def features(self, x: Array) -> Features:
        """What `fill` needs of the points x (..., N, d): all that is linear in their number."""

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        """Write k (n, m) into `out` from the features of n and m points, without batch axes."""


def take(features: Features, index: Any) -> Features:
    """Index every array of the features."""
    return tuple(take(a, index) if isinstance(a, tuple) else a[index] for a in features)


def leading_shape(features: Features) -> tuple[int, ...]:
    """The axes (..., N) that the arrays of the features, each (..., N, k), have in common."""
    shapes = [leading_shape(a) if isinstance(a, tuple) else a.shape[:-1] for a in features]
    return np.broadcast_shapes(*shapes)


def broadcast_features(features: Features, batch: tuple[int, ...]) -> Features:
    """Give every array (..., N, k) of the features the leading axes `batch`."""
    return tuple(
        broadcast_features(a, batch) if isinstance(a, tuple) else np.broadcast_to(a, (*batch, *a.shape[-2:]))
        for a in features
    )
