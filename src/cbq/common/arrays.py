"""Types of arrays, the checks that turn arguments into float64 arrays, operations on arrays, and immutable objects.

Every array argument passes through `real`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cbq.common.checks import LARGEST, described, is_number, shown
from cbq.common.memory import require_memory

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]
Booleans = npt.NDArray[np.bool_]

ROUNDING = 1e-12  # relative to the largest number: a smaller spread or difference counts as rounding
NESTED = (list, tuple, np.ma.MaskedArray)  # types that NumPy unpacks, or whose mask it drops
LEAST_DIGITS, MAX_DIGITS = 6, 16  # significant digits of numbers shown side by side
HOST_DEVICES = (1, 3)  # of DLPack: memory of the host, and the same pinned for CUDA
MAX_NESTING = 32  # of lists: every version of NumPy has at least this many axes


def finite(value: npt.ArrayLike, name: str) -> Array:
    """A read-only float64 copy of `value`, which must not contain NaN or inf."""
    array = real(value, name)
    if bad := np.count_nonzero(~np.isfinite(array)):
        flaw = f"{bad} of its {array.size} values are NaN or inf"
        raise ValueError(f"{name} must be finite, but {flaw}: remove or correct them.")
    return array


def real(value: npt.ArrayLike, name: str) -> Array:
    """A read-only, C-ordered float64 copy of `value`, which may contain NaN and inf but no masked values."""
    raw = as_array(value, name)
    if raw.dtype.kind not in "buif":
        raw = _numbers_in_objects(raw, value, name)
    if raw.dtype.itemsize > 8:  # long doubles may overflow to inf
        with np.errstate(over="ignore"):
            raw = raw.astype(np.float64)
    array = np.array(raw, dtype=np.float64, order="C")  # sums over axes depend on the layout, in their last digits
    array.setflags(write=False)
    return array


def as_array(value: Any, name: str) -> npt.NDArray[Any]:
    """`value` as an array of any type that this machine can hold; masked values are refused."""
    if type(value) is not np.ndarray:
        _refuse_unreadable(value, name, [])
    try:
        raw = np.asarray(_on_host(value))
    except Exception as error:  # also of a foreign __array__
        raise ValueError(f"{name} must be a rectangular array of numbers ({described(error)}).") from error
    require_memory(raw.size, f"{name} of shape {raw.shape}", "pass fewer numbers")
    return raw


def _on_host(value: Any) -> Any:
    """An array of another library (torch, CuPy, JAX, ...), or a list of them, as one that NumPy reads.

    Memory of the host is read in place. Arrays on a device are copied to the host, and gradients are left behind, since
    all answers are arrays of NumPy.
    """
    if isinstance(value, list | tuple) and any(hasattr(kind, "__dlpack__") for kind in set(map(type, value))):
        return [_on_host(item) for item in value]
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return value
    if getattr(value, "requires_grad", False):
        value = value.detach()
    if value.__dlpack_device__()[0] not in HOST_DEVICES:
        for copy in ("cpu", "get"):  # of torch, and of CuPy
            if callable(getattr(value, copy, None)):
                return np.asarray(getattr(value, copy)())
    return value if hasattr(value, "__array__") else np.from_dlpack(value)


def _refuse_unreadable(value: Any, name: str, inside: list[int]) -> None:
    """Raise if `value` is, or lists, an array with masked values, whose mask NumPy would drop.

    Also if it is raw bytes, which NumPy would take for numbers, or a list that contains itself.
    inside : the ids of the lists around `value`.
    """
    if isinstance(value, np.ma.MaskedArray) and value.mask is not np.ma.nomask:
        mask = np.ravel(value.mask).view(np.bool_)  # also of a structured array
        if bad := np.count_nonzero(mask):
            raise ValueError(
                f"{name} must not be masked, but {bad} of its {len(mask)} values are, and NumPy would use the numbers "
                f"underneath: leave these points out, as row.compressed() does (lists of arrays may differ in length), "
                f"or pass their true values."
            )
    elif isinstance(value, bytearray) or (isinstance(value, memoryview) and value.format == "B"):
        raise TypeError(f"{name} must hold real numbers, but it holds raw bytes ({type(value).__name__}): decode them.")
    elif isinstance(value, list | tuple):
        if id(value) in inside or len(inside) > MAX_NESTING:
            raise ValueError(f"{name} is a list that contains itself, or is nested too deeply: pass an array.")
        if any(issubclass(kind, NESTED) for kind in set(map(type, value))):  # most lists hold numbers alone
            for item in value:
                _refuse_unreadable(item, name, [*inside, id(value)])


def _numbers_in_objects(raw: npt.NDArray[Any], value: Any, name: str) -> Array:
    """The numbers in an array of objects, such as nullable columns of pandas; an error names the first other object."""
    kind = type(value).__name__ if raw.dtype == object else raw.dtype
    if raw.dtype != object or raw.ndim == 0:
        large = f" ({shown(value)}), which float64 cannot hold" if isinstance(value, int) else ""
        raise TypeError(f"{name} must hold real numbers, but its type is {kind}{large}.")
    for item in raw.flat:
        if not isinstance(item, float | np.floating | bool | np.bool_) and not is_number(item):
            odd = f"its type is {kind} and it holds {shown(item)}"
            raise TypeError(f"{name} must hold real numbers, but {odd}: remove or correct it.")
    return np.asarray(raw, dtype=np.float64)


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


def squarable(array: Array, name: str) -> Array:
    """Return the array if no finite number in it is too large to be squared."""
    large = np.abs(array) > LARGEST
    if large.any() and (large := large & np.isfinite(array)).any():
        raise ValueError(f"{name} must be at most {LARGEST:g} in size, but it is {array[large][0]:g}: rescale it.")
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
    """Broadcast batch shapes, given by name; `what` is the object that an error names."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        rule = "leading axes must broadcast as in NumPy, so that each is equal, 1 or absent"
        raise ValueError(f"{what}: the batch shapes {listed} do not fit together: {rule}.") from error


def blocks(n: int, size: int = 4096) -> Iterator[slice]:
    """Slices of at most `size` rows, from 0 to n - 1, to bound memory; 4096 rows keep matrix products fast."""
    return (slice(i, min(i + size, n)) for i in range(0, n, size))


def evenly(n: int, most: int) -> Integers:
    """At most `most` evenly spaced integers between 0 and n - 1, both included."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def digits_apart(values: Array) -> int:
    """Significant digits that distinguish numbers (n,): six, or more if they are large and nearly equal."""
    with np.errstate(over="ignore"):
        size, span = float(np.max(np.abs(values))), float(np.ptp(values))
    if not 0 < span < size:
        return LEAST_DIGITS
    return min(LEAST_DIGITS - 1 + math.ceil(math.log10(size) - math.log10(span)), MAX_DIGITS)


def take_rows(values: Array, batch: tuple[int, ...], index: Any) -> Array:
    """`values` (*batch, ...) at `index` of the batch, with NumPy's indexing restricted to the batch axes."""
    order = indexed(np.arange(math.prod(batch)).reshape(batch), index)
    return np.asarray(values.reshape(-1, *values.shape[len(batch) :])[order])


def indexed(array: npt.NDArray[Any], index: Any, name: str = "index") -> npt.NDArray[Any]:
    """`array[index]`, with NumPy's indexing; an error names the index and the shape."""
    _refuse_unreadable(index, name, [])
    try:
        return np.asarray(array[index])
    except Exception as error:  # also of a foreign __index__ or __array__
        raise IndexError(
            f"{name} = {shown(index)} does not fit the shape {array.shape} ({described(error)}): use integers, "
            f"slices, lists of integers or masks, as for NumPy arrays."
        ) from error


def in_blocks(fn: Callable[[Array], Array], x: Array, size: int) -> Array:
    """Apply fn, from points (..., n, d) to (..., n), to x (..., N, d) in blocks of at most `size` points."""
    size = max(1, size)
    parts = [fn(x[..., i : i + size, :]) for i in range(0, x.shape[-2], size)]
    return np.concatenate(parts, axis=-1) if parts else np.empty((*x.shape[:-2], 0))


class Immutable:
    """A base class whose attributes can be set only once, and whose arrays become read-only, also in copies."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            kind = type(self).__name__
            raise AttributeError(f"{kind}.{name} cannot be changed: a {kind} is immutable. Make a new {kind} instead.")
        for part in value.values() if isinstance(value, dict) else (value,):
            if isinstance(part, np.ndarray):
                part.setflags(write=False)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted: a {type(self).__name__} is immutable.")

    def _replaced(self, **changes: Any) -> Self:
        """A copy with other values of some attributes. Cached properties are computed again."""
        kind = type(self)
        given = {k: v for k, v in self.__dict__.items() if not isinstance(getattr(kind, k, None), cached_property)}
        new = object.__new__(kind)
        new.__setstate__({**given, **changes})
        return new

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
