"""Arrays where an engine works, on the host or on a device, so that one formula serves both.

On the host they are arrays of NumPy, and nothing here copies them.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array

Features = tuple[Any, ...]


def namespace(array: Any) -> Any:
    """The library whose functions work on an array: NumPy, or that of an engine, with functions of the same names."""
    return np if isinstance(array, np.ndarray) else sys.modules[type(array).__module__.partition(".")[0]]


def empty(shape: tuple[int, ...], like: Any) -> Any:
    """A C-ordered array of this shape, where the array `like` is."""
    return np.empty(shape) if isinstance(like, np.ndarray) else like.new_empty(shape)


def moved(a: npt.NDArray[Any], like: Any) -> Any:
    """The array `a` where the array `like` is: itself, if that is the host."""
    if isinstance(like, np.ndarray):
        return a
    return namespace(like).tensor(np.ascontiguousarray(a), device=like.device)


def moved_features(features: Features, like: Any) -> Features:
    """Every array of the features where the array `like` is."""
    return tuple(moved_features(a, like) if isinstance(a, tuple) else moved(a, like) for a in features)


def on_host(a: Any) -> Array:
    """An array of an engine as one of NumPy."""
    return a if isinstance(a, np.ndarray) else np.asarray(a.cpu().contiguous().numpy())
