"""Probability weights: checked, normalised, updated in logarithms."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array


def checked_weights(weights: Array, count: int, what: str) -> Array:
    """`weights` (..., count) divided by their sum, which must be 1 to single precision; none may be negative."""
    if weights.ndim == 0 or weights.shape[-1] != count:
        raise ValueError(
            f"weights have shape {weights.shape}, but {count} {what}{'s' * (count > 1)} need shape "
            f"(..., {count}), one weight each."
        )
    if np.any(weights < 0):
        raise ValueError(f"weights must not be negative, but the smallest is {np.min(weights):g}.")
    sums = np.sum(weights, axis=-1, keepdims=True)
    if np.any(np.abs(sums - 1) > 1e-6):
        worst = sums.flat[np.argmax(np.abs(sums - 1))]
        raise ValueError(
            f"weights must sum to 1, but they sum to {worst:.10g}: pass weights / weights.sum(-1, keepdims=True)."
        )
    return np.asarray(weights / sums)


def from_logarithms(log_w: Array, fallback: Array) -> Array:
    """Weights (..., K) from unnormalised logarithms; those of `fallback` where all of log_w are -inf."""
    log_w = np.where(np.max(log_w, axis=-1, keepdims=True) == -np.inf, fallback, log_w)
    weights = np.exp(log_w - np.max(log_w, axis=-1, keepdims=True))
    return np.asarray(weights / np.sum(weights, axis=-1, keepdims=True))
