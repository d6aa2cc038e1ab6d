"""How much of the truth the mean of a fit explains."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array


def r_squared(mean: Array, truth: Array) -> float:
    """1 - sum (truth - mean)^2 / sum (truth - average)^2 of values (M,) or (M, C), averaged over outputs."""
    if truth.shape != mean.shape or len(mean) < 2:
        raise ValueError(
            f"truth has shape {truth.shape}, but for {len(mean)} thetas in theta it must have shape {mean.shape}, and "
            f"there must be two thetas or more."
        )
    around = truth - np.mean(truth, axis=0)
    if not np.all(np.any(around != 0, axis=0)):
        raise ValueError(
            "truth is the same at all of theta, so that there is no variance to explain: pass other thetas."
        )
    return float(np.mean(1.0 - np.sum((truth - mean) ** 2, axis=0) / np.sum(around**2, axis=0)))
