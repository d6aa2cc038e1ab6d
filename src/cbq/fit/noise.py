"""The noise of a random f at any theta, from how far single values are off where they are known."""

from __future__ import annotations

import numpy as np

from cbq.common import Array, Integers


def near(
    theta: Array,
    at: Array,
    squares: Array,
    counts: Array | Integers | None = None,
    *,
    width: float = 0.25,
    prior: float = 8.0,
) -> Array:
    """Averages (M, C) near thetas (M, p) of squares (n, C) at thetas (n, p), shrunk towards the average of all.

    counts: (n,), of values in each square; by default one. width: of the neighbourhood, in units of the standard
    deviation of each coordinate. prior: values that the average of all counts for, since a few squares are a poor
    estimate; on the scale of logarithms, as variances may differ by orders of magnitude.
    """
    counts = np.ones(len(at)) if counts is None else counts
    unit = width * np.maximum(np.std(at, axis=0), np.finfo(float).tiny)
    apart2 = np.sum(((theta[:, None] - at) / unit) ** 2, axis=2)
    weights = counts * np.exp(-0.5 * apart2)
    n = np.sum(weights, axis=1)[:, None]
    least = np.finfo(float).tiny
    local = np.log(np.maximum(weights @ squares, least) / np.maximum(n, least))
    common = np.log(np.maximum(counts @ squares / np.sum(counts), least))
    found = np.exp((n * local + prior * common) / (n + prior))
    return np.where(np.any(squares > 0, axis=0), found, 0.0)
