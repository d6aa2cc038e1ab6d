"""Features of points, from which a kernel fills Gram matrices: arrays (..., N, k), maybe in nested tuples."""

from __future__ import annotations

from math import prod
from typing import Any, Protocol

import numpy as np

from cbq._arrays import Array

Features = tuple[Any, ...]


class Fills(Protocol):
    """The part of a kernel that the linear algebra needs."""

    def features(self, x: Array) -> Features:
        """What `fill` needs of the points x (..., N, d): all that is linear in their number."""

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        """Write k (..., n, m) into the C-ordered `out` from features (..., n, k) and (..., m, k)."""

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        """sum_ij G_ij dk_ij / d log_lengthscales (..., P) from features and weights G (..., n, m)."""


def take(features: Features, index: Any) -> Features:
    """Index every array of the features."""
    return tuple(take(a, index) if isinstance(a, tuple) else a[index] for a in features)


def leading_shape(features: Features) -> tuple[int, ...]:
    """The axes (..., N) that the arrays of the features, each (..., N, k), have in common."""
    shapes = [leading_shape(a) if isinstance(a, tuple) else a.shape[:-1] for a in features]
    return np.broadcast_shapes(*shapes)


def flat_features(features: Features, batch: tuple[int, ...]) -> Features:
    """Every array (..., N, k) of the features broadcast to the leading axes `batch`, as one axis: (B, N, k)."""
    return tuple(
        flat_features(a, batch)
        if isinstance(a, tuple)
        else np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(prod(batch), *a.shape[-2:])
        for a in features
    )
