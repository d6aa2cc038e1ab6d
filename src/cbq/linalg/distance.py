"""Squared distances between two sets of points, by differences (never by expanding the square)."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array


def sqdist(x: Array, y: Array, out: Array) -> Array:
    """|x_i - y_j|^2 for x (n, d), y (m, d), written into out (n, m)."""
    np.subtract(x[:, 0, None], y[None, :, 0], out=out)
    np.multiply(out, out, out=out)
    for j in range(1, x.shape[-1]):
        diff = np.subtract(x[:, j, None], y[None, :, j])
        diff *= diff
        out += diff
    return out
