"""Types of arrays, checks that turn arguments into float64 arrays, and small operations on arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]
Booleans = npt.NDArray[np.bool_]


def finite(value: npt.ArrayLike, name: str) -> Array:
    """A read-only float64 copy of `value`, which must not contain NaN or inf."""
    array = real(value, name)
    if bad := np.count_nonzero(~np.isfinite(array)):
        found = f"{bad} of its {array.size} values are NaN or inf"
        raise ValueError(f"{name} must be finite, but {found}: remove or correct them.")
    return array


def real(value: npt.ArrayLike, name: str) -> Array:
    """A read-only, C-ordered float64 copy of `value`, which may contain NaN and inf."""
    try:
        raw = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers ({error}).") from error
    if raw.dtype.kind not in "buif":
        kind = type(value).__name__ if raw.dtype == object else raw.dtype
        raise TypeError(f"{name} must hold real numbers, but its type is {kind}.")
    array = np.array(raw, dtype=np.float64, order="C")  # sums over axes depend on the layout, in their last digits
    array.setflags(write=False)
    return array


def not_nan(value: npt.ArrayLike, name: str) -> Array:
    """A read-only float64 copy of `value`, which may contain inf but not NaN."""
    array = real(value, name)
    if np.any(np.isnan(array)):
        raise ValueError(f"{name} must not be NaN: pass numbers, inf or -inf.")
    return array


def positive(value: npt.ArrayLike, name: str) -> Array:
    """A read-only float64 copy of `value`, which must be finite and strictly positive."""
    array = finite(value, name)
    if not np.all(array > 0):
        raise ValueError(f"{name} must be positive, but its smallest value is {np.min(array):g}.")
    return array


def rows_not_finite(rows: Array) -> Booleans:
    """Which rows (n, ...) contain NaN or inf: (n,)."""
    return np.asarray(np.any(~np.isfinite(rows).reshape(len(rows), -1), axis=1))


def points(x: npt.ArrayLike, dim: int, name: str = "x") -> Array:
    """Points as an array (..., n, dim). A scalar or an array (n,) stands for points in one dimension."""
    array = finite(x, name)
    if array.ndim < 2 and dim == 1:
        return array.reshape(-1, 1)
    if array.ndim < 2 or array.shape[-1] != dim:
        raise ValueError(
            f"{name} has shape {array.shape}, but points in {dim} dimension{'s' * (dim > 1)} must have shape "
            f"(..., n, {dim})" + (": write x[None, :] for a single point." if array.shape == (dim,) else ".")
        )
    return array


def broadcast_batch(shapes: dict[str, tuple[int, ...]], what: str) -> tuple[int, ...]:
    """Broadcast batch shapes against each other; the names of the shapes and `what` they belong to serve the error."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        rule = "leading axes must broadcast as in NumPy, so that each is equal, 1 or absent"
        raise ValueError(f"{what}: the batch shapes {listed} do not fit together: {rule}.") from error


def evenly(n: int, most: int) -> Integers:
    """At most `most` evenly spaced integers between 0 and n - 1, both included."""
    return np.unique(np.linspace(0, n - 1, most).round().astype(np.intp))


def take_rows(values: Array, batch: tuple[int, ...], index: Any) -> Array:
    """`values` (*batch, ...) at `index` of the batch, with NumPy's indexing restricted to the batch axes."""
    order = np.arange(math.prod(batch)).reshape(batch)[index]
    return np.asarray(values.reshape(-1, *values.shape[len(batch) :])[order])


def in_blocks(fn: Callable[[Array], Array], x: Array, size: int) -> Array:
    """Apply fn, from points (..., n, d) to (..., n), to x (..., N, d) in blocks of at most `size` points."""
    size = max(1, size)
    parts = [fn(x[..., i : i + size, :]) for i in range(0, x.shape[-2], size)]
    return np.concatenate(parts, axis=-1) if parts else np.empty((*x.shape[:-2], 0))


def checked_out(out: Any, shape: tuple[int, ...], *, contiguous: bool = False) -> Array:
    """Return `out` if results of this shape can be written into it, and raise otherwise."""
    required = f"out must be a writeable {'C-ordered ' * contiguous}float64 array of shape {shape}, but it is"
    if not isinstance(out, np.ndarray):
        raise ValueError(f"{required} {out!r}.")
    not_ordered = contiguous and not out.flags.c_contiguous
    if out.shape != shape or out.dtype != np.float64 or not_ordered or not out.flags.writeable:
        flaws = ", not C-ordered" * not_ordered + ", read-only" * (not out.flags.writeable)
        raise ValueError(f"{required} {out.dtype} {out.shape}{flaws}.")
    return out


def between_0_and_1(value: Any, name: str) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1, such as the level of an interval."""
    if not isinstance(value, int | float | np.integer | np.floating) or not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, as 0.95 does, but it is {value!r}.")
    return float(value)


def generator(rng: Any) -> np.random.Generator:
    """The Generator of a Generator or an integer seed. None is an error, so that results are reproducible."""
    if rng is None:
        raise TypeError("rng must be a numpy.random.Generator or an integer seed, not None: pass rng=0, for example.")
    return np.random.default_rng(rng)


def count(n: Any, name: str = "n") -> int:
    """Return `n` as an int if it is an integer of zero or more."""
    if not isinstance(n, (int, float, np.integer, np.floating)) or n < 0 or n != int(n):
        raise ValueError(f"{name} must be a number of points, zero or more, but it is {n!r}.")
    return int(n)
