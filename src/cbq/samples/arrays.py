"""Checked arrays of thetas, points and values, one row per point; equal rows, averages and units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Integers, real, rows_not_finite
from cbq.samples.names import Names, Part

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

MAX_MAGNITUDE = 1e140  # of f and of 1 / f: sums of squares of larger ones overflow or underflow
MIN_EFFECTIVE_SIZE = 5.0  # points: with fewer, weights do not determine their own error
MIN_SPREAD = 1e-5  # of f at a theta, relative to all thetas; smaller ones are raised to it


def as_thetas(theta: npt.ArrayLike, name: str = "theta") -> Array:
    """Thetas as a read-only array (T, p); a scalar is one theta and (T,) means p = 1."""
    array = real(theta, name)
    thetas = array.reshape(-1, 1) if array.ndim < 2 else array
    if thetas.ndim != 2 or 0 in thetas.shape:
        raise ValueError(
            f"{name} has shape {array.shape}, but it must be (T, p), or (T,) for p = 1, with T and p at least 1."
        )
    bad = rows_not_finite(thetas)
    if np.any(bad):
        t = int(np.argmax(bad))
        raise ValueError(f"{name} must be finite, but it is {thetas[t]} at theta index t = {t}: remove or correct it.")
    return thetas


def thetas_in(theta: npt.ArrayLike, names: Names, owner: str, name: str = "theta") -> Array:
    """Thetas (M, p) as `as_thetas` returns them, from the columns of a table by their names.

    names : of the p coordinates. owner : what has p coordinates, in the error for another number.
    """
    thetas, p = as_thetas(names.ordered("theta", theta, name), name), len(names.theta)
    if thetas.shape[1] != p:
        raise ValueError(
            f"{name} has shape {np.shape(theta)}, so {thetas.shape[1]} coordinates, but {owner} has p = {p}: pass an "
            f"array of shape (M, {p}){', or (M,)' * (p == 1)}; a single theta is theta[None, :]."
        )
    return thetas


def first_of(value: Any) -> Any:
    """The first item of a list of arrays or tables; None if it is no list, or empty."""
    return value[0] if isinstance(value, list | tuple) and value else None


def flatten(value: Any, name: Part, T: int, names: Names) -> tuple[Array, Integers]:
    """Join the rows of all thetas into one array (sum N_t, ...), returned with the N_t (T,).

    `value` is (T, N), (T, N, k), or T arrays (N_t,) or (N_t, k), each of which may be a table with named columns.
    """
    if not isinstance(value, list | tuple) and getattr(getattr(value, "dtype", None), "kind", "") != "O":
        array = real(value, name)
        if array.ndim not in (2, 3) or len(array) != T:
            raise ValueError(
                f"{name} has shape {array.shape}, but with T = {T} theta{'s' * (T > 1)} it must be ({T}, N) or "
                f"({T}, N, {'d' if name == 'x' else 'C'}), or a list of {T} arrays if the N_t differ"
                f". A 1-D theta means p = 1: one theta with several coordinates is theta[None, :]."
            )
        rows = [array.reshape(T * array.shape[1], *array.shape[2:])]
        counts = np.full(T, array.shape[1])
    else:
        rows = [real(names.ordered(name, row, f"{name}[{t}]"), f"{name}[{t}]") for t, row in enumerate(value)]
        _check_list(rows, name, T)
        counts = np.array([len(row) for row in rows])
    if np.any(counts == 0):
        raise ValueError(f"{name} has no point at theta index t = {np.argmin(counts)}: leave that theta out.")
    if 0 in rows[0].shape:
        raise ValueError(f"{name} has an empty last axis (its parts have shape {rows[0].shape}): it needs at least 1.")
    return np.concatenate(rows), counts


def _check_list(rows: Sequence[Array], name: str, T: int) -> None:
    if len(rows) != T:
        raise ValueError(f"{name} is a list of {len(rows)} arrays, but theta has T = {T} rows: pass one for each.")
    for t, row in enumerate(rows):
        if row.ndim not in (1, 2):
            raise ValueError(
                f"{name}[{t}] has shape {row.shape}, but the part of one theta must be (N_t,) or "
                f"(N_t, {'d' if name == 'x' else 'C'})."
            )
        if row.shape[1:] != rows[0].shape[1:]:
            raise ValueError(
                f"{name}[{t}] has shape {row.shape} and {name}[0] has {rows[0].shape}: all axes but the first, which "
                f"counts points, must agree."
            )


def check_counts(x_counts: Integers, f_counts: Integers) -> None:
    """Raise unless x and f have the same numbers of points at each theta, (T,) each."""
    if not np.array_equal(x_counts, f_counts):
        t = int(np.argmax(x_counts != f_counts))
        raise ValueError(
            f"x has {x_counts[t]} points and f has {f_counts[t]} values at theta index t = {t}: f needs one value, or "
            f"C values along the last axis, for each point."
        )


def equal_rows(keys: Array) -> tuple[Integers, Integers]:
    """The index of the first row in each group of equal rows of keys (n, k), ascending; and the group of each row."""
    last = np.sort(keys[:, -1])
    if np.all(last[1:] != last[:-1]):  # no two rows are equal, the usual case: a tenth of the work below
        return np.arange(len(keys)), np.arange(len(keys))
    order = np.lexsort(keys.T[::-1])
    is_new = np.append(True, np.any(keys[order[1:]] != keys[order[:-1]], axis=1))
    label = np.empty(len(keys), dtype=np.intp)
    label[order] = np.cumsum(is_new) - 1
    first = np.full(label.max() + 1, len(keys))
    np.minimum.at(first, label, np.arange(len(keys)))
    return np.sort(first), np.argsort(np.argsort(first))[label]


def group_averages(values: Array, group: Integers) -> Array:
    """The averages (G, C) of values (n, C) over the rows of each group, numbered (n,) from 0 to G - 1."""
    sums = np.stack([np.bincount(group, column) for column in values.T], axis=1)
    return np.asarray(sums / np.bincount(group)[:, None])


def effective_size(weights: Array) -> float:
    """The effective number of points with these weights (n,)."""
    return float(np.sum(weights) ** 2 / np.sum(weights**2))


def effective_sizes(log_weights: Array, starts: Integers) -> Array:
    """The effective sizes (T,) of the points of each theta, whose log weights (n,) begin at starts (T,)."""
    return np.array([effective_size(np.exp(logs - np.max(logs))) for logs in np.split(log_weights, starts[1:])])


def units(f: Array, *, centred: bool = True) -> tuple[Array, Array]:
    """The shift and the scale, (C,) each, for which (f - shift) / scale, f (n, C), has root mean square 1."""
    check_magnitude(f)
    shift = np.mean(f, axis=0) if centred else np.zeros(f.shape[1])
    largest = np.max(np.abs(f), axis=0)
    scale = np.sqrt(np.mean((f - shift) ** 2, axis=0))
    rounding = np.finfo(float).eps * largest  # the only variation of a constant f
    return shift, np.where(scale > rounding, scale, np.where(largest > 0, rounding, 1.0))


def check_magnitude(f: Array, largest: float = MAX_MAGNITUDE, smallest: float = 1 / MAX_MAGNITUDE) -> None:
    """Raise if the squares of values f (n, C) would overflow or underflow."""
    size = np.max(np.abs(f), axis=0)
    size = size[size > 0]
    if np.any((size > largest) | (size < smallest)):
        extreme = size[np.argmax(np.abs(np.log(size)))]
        raise ValueError(
            f"values of f of about {extreme:.0e} are too {'large' if extreme > 1 else 'small'}: their squares leave "
            f"the range of float64. Multiply f by a constant, and divide the estimates by it."
        )


def spread(samples: Samples) -> Array:
    """The standard deviation of f at each theta (T, C), for f in units near 1; 1 where a theta has a single point.

    Divide by it so that thetas with a large variance do not dominate.
    """
    residuals = samples.table - samples.averages(samples.table)[samples.owners]
    deviations = np.maximum(np.sqrt(samples.averages(residuals**2)), MIN_SPREAD)
    return np.where(samples.counts[:, None] > 1, deviations, 1.0)
