"""The true I, where it is known, and how much of it the mean of a fit explains."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cbq.common.arrays import Array, finite, squarable
from cbq.common.checks import called
from cbq.samples.names import Names

TruthFunction = Callable[[Array], npt.ArrayLike]
Truth = TruthFunction | npt.ArrayLike


def true_values(truth: Truth, thetas: Array, outputs: list[int], names: Names, *, given: bool) -> Array:
    """The true values (M, C) at thetas (M, p); if one output is drawn, the truth of that output is enough.

    names : of the C outputs, by which the columns of a table are found.
    """
    if not callable(truth) and not given:
        raise ValueError("truth is an array: pass the thetas of its values as theta, or a function of theta as truth.")
    found = called(truth, "truth", thetas) if callable(truth) else truth
    values = squarable(finite(names.ordered("f", found, "truth"), "truth"), "truth")
    M, C = len(thetas), len(names.f)
    if values.shape == (M, C):
        return values
    if len(outputs) > 1 or values.shape not in {(M,), (M, 1)}:
        wanted = f"({M},)" if C == 1 else f"({M}, {C}){f' or ({M},)' * (len(outputs) == 1)}"
        raise ValueError(f"truth has shape {values.shape}, but for {M} thetas it must have shape {wanted}.")
    return np.broadcast_to(values.reshape(M, 1), (M, C))


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
