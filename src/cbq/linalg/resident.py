"""Arrays on the device of an engine or on the host, so that one formula serves both.

Arrays on the host are NumPy arrays, and are never copied here.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq.common.arrays import Array

Features = tuple[Any, ...]


def namespace(array: Any) -> Any:
    """The library of an array: NumPy, or the library of an engine, which has functions of the same names."""
    return np if isinstance(array, np.ndarray) else sys.modules[type(array).__module__.partition(".")[0]]


def empty(shape: tuple[int, ...], like: Any) -> Any:
    """A C-ordered array of this shape, on the device of the array `like`."""
    return np.empty(shape) if isinstance(like, np.ndarray) else like.new_empty(shape)


def moved(a: npt.NDArray[Any], like: Any) -> Any:
    """The array `a` on the device of the array `like`; `a` itself if that is the host."""
    if isinstance(like, np.ndarray):
        return a
    return namespace(like).tensor(np.ascontiguousarray(a), device=like.device)


def moved_features(features: Features, like: Any) -> Features:
    """Every array of the features on the device of the array `like`."""
    return tuple(moved_features(a, like) if isinstance(a, tuple) else moved(a, like) for a in features)


def on_host(a: Any) -> Array:
    """An array of an engine as a NumPy array."""
    return a if isinstance(a, np.ndarray) else np.asarray(a.cpu().contiguous().numpy())
