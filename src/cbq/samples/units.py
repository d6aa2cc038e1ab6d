"""Units in which the values of f are of size one."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array
from cbq.samples.samples import Samples

LARGEST = 1e140  # values of f, and one over the smallest
QUIETEST = 1e-5  # spread of f at a theta, in units of that over all: below, it is taken for this


def units(f: Array, *, centred: bool = True) -> tuple[Array, Array]:
    """What is to be subtracted from f (n, C), and what it is to be divided by: (C,) each."""
    refuse_size(f)
    shift = np.mean(f, axis=0) if centred else np.zeros(f.shape[1])
    largest = np.max(np.abs(f), axis=0)
    scale = np.sqrt(np.mean((f - shift) ** 2, axis=0))
    rounding = np.finfo(float).eps * largest  # all that there is of a constant f
    return shift, np.where(scale > rounding, scale, np.where(largest > 0, rounding, 1.0))


def refuse_size(f: Array, huge: float = LARGEST, tiny: float = 1 / LARGEST) -> None:
    """Raise where the squares of values f (n, C) are no numbers any more."""
    largest = np.max(np.abs(f), axis=0)
    if np.any(largest > huge) or np.any((largest > 0) & (largest < tiny)):
        raise ValueError(
            f"values of f are of size {largest[np.argmax(np.abs(np.log(np.maximum(largest, 1e-300))))]:.0e}, whose "
            f"square is no number any more: multiply them by a constant, and the answers by its inverse."
        )


def spread(samples: Samples) -> Array:
    """The standard deviation of f at each theta (T, C), in units near 1: loud thetas must not outvote quiet ones.

    One point has none: it counts in the units of all.
    """
    apart = samples.table - samples.averages(samples.table)[samples.owners]
    found = np.maximum(np.sqrt(samples.averages(apart**2)), QUIETEST)
    return np.where(samples.counts[:, None] > 1, found, 1.0)
