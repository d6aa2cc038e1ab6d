"""Looking into what a file says: each function returns what is asked for, or says what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cbq.io.archive import Archive

Kind = TypeVar("Kind")
Shape = tuple[int | None, ...]
NAMES = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "an integer"}


def field(record: Any, name: str, kind: type[Kind]) -> Kind:
    """The value of `name` in a JSON object, which must have that type."""
    if not isinstance(record, Mapping) or name not in record:
        raise ValueError(f"{name!r} is missing.")
    value = record[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name!r} must be {NAMES[kind]}, but it is {_short(value)}.")
    return value


def texts(record: Any, name: str) -> list[str]:
    """A list of texts in a JSON object."""
    values = field(record, name, list)
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name!r} must hold texts only.")
    return values


def number(value: Any, name: str, least: float = -math.inf) -> float:
    """A finite number that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ValueError(f"{name!r} must be a number, but it is {_short(value)}.")
    if not math.isfinite(value) or value < least:
        limit = f" of at least {least:g}" if math.isfinite(least) else ""
        raise ValueError(f"{name!r} must be a finite number{limit}, but it is {value!r}.")
    return float(value)


def array(values: npt.NDArray[Any], name: str, shape: Shape, least: float = -math.inf) -> npt.NDArray[Any]:
    """`values`, all finite and at least `least`, of a shape in which None stands for any length of 1 or more."""
    fits = len(shape) == values.ndim and all(
        n >= 1 and m in (None, n) for n, m in zip(values.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if m is None else str(m) for m in shape) + "," * (len(shape) == 1)
        raise ValueError(f"{name} must have the shape ({wanted}), but it has {values.shape}.")
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} must be finite, but {np.count_nonzero(~np.isfinite(values))} values are NaN or inf.")
    if np.any(values < least):
        raise ValueError(f"{name} must be at least {least:g}, but its smallest value is {np.min(values):g}.")
    return values


def kept_correlation(archive: Archive, mean: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The correlation of the outputs of a fit with these means (T, C); files from before there was one know of none."""
    if archive.has("correlation"):
        return archive.array("correlation", np.float64)
    return np.eye(mean.shape[-1])


def correlation(values: npt.NDArray[Any], C: int) -> None:
    """Raise unless these are the correlations of C outputs."""
    array(values, "correlation", (C, C), -1.0)
    if np.any(values > 1) or np.any(np.diagonal(values) != 1) or np.any(values != values.T):
        raise ValueError("correlation must be symmetric, with ones on its diagonal and no number above 1.")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
