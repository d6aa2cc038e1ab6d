"""Thetas, points and values as a user passes them, checked and laid out in rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, Booleans, Integers, real


def as_thetas(theta: npt.ArrayLike) -> Array:
    """Thetas as a read-only array (T, p); a scalar is one theta and (T,) means p = 1."""
    array = real(theta, "theta")
    thetas = array.reshape(-1, 1) if array.ndim < 2 else array
    if thetas.ndim != 2 or 0 in thetas.shape:
        raise ValueError(
            f"theta has shape {array.shape}, but it must be (T, p), or (T,) for p = 1, with T and p at least 1."
        )
    bad = some_infinite(thetas)
    if np.any(bad):
        t = int(np.argmax(bad))
        raise ValueError(f"theta must be finite, but it is {thetas[t]} at theta index t = {t}: remove or correct it.")
    return thetas


def thetas_in(theta: npt.ArrayLike, p: int, owner: str) -> Array:
    """Thetas (M, p) as `as_thetas` gives them, or an error in the name of what has p coordinates."""
    thetas = as_thetas(theta)
    if thetas.shape[1] != p:
        raise ValueError(
            f"theta has shape {np.shape(theta)}, so {thetas.shape[1]} coordinates, but {owner} has p = {p}: pass one "
            f"of shape (M, {p}){', or (M,)' * (p == 1)}; one theta is theta[None, :]."
        )
    return thetas


def some_infinite(rows: Array) -> Booleans:
    """Which rows (n, ...) hold NaN or inf: (n,)."""
    return np.asarray(np.any(~np.isfinite(rows).reshape(len(rows), -1), axis=1))


def flatten(value: Any, name: str, T: int) -> tuple[Array, Integers]:
    """`value`, (T, N), (T, N, k) or T arrays (N_t,) or (N_t, k), as one array (sum N_t, ...) and the N_t (T,)."""
    if not isinstance(value, list | tuple) and getattr(getattr(value, "dtype", None), "kind", "") != "O":
        array = real(value, name)
        if array.ndim not in (2, 3) or len(array) != T:
            raise ValueError(
                f"{name} has shape {array.shape}, but with T = {T} theta{'s' * (T > 1)} it must be ({T}, N) or "
                f"({T}, N, {'d' if name == 'x' else 'C'}), or a list of {T} arrays where the N_t differ"
                f". A 1-D theta means p = 1: one theta with several coordinates is theta[None, :]."
            )
        rows = [array.reshape(T * array.shape[1], *array.shape[2:])]
        counts = np.full(T, array.shape[1])
    else:
        rows = [real(row, f"{name}[{t}]") for t, row in enumerate(value)]
        _refuse_rows(rows, name, T)
        counts = np.array([len(row) for row in rows])
    if np.any(counts == 0):
        raise ValueError(f"{name} has no point at theta index t = {np.argmin(counts)}: leave that theta out.")
    if 0 in rows[0].shape:
        raise ValueError(
            f"{name} has an empty last axis (its parts have shape {rows[0].shape}): it must be at least 1."
        )
    return np.concatenate(rows), counts


def _refuse_rows(rows: Sequence[Array], name: str, T: int) -> None:
    if len(rows) != T:
        raise ValueError(
            f"{name} is a list of {len(rows)} arrays, but theta has T = {T} rows: pass one array for each."
        )
    for t, row in enumerate(rows):
        if row.ndim not in (1, 2):
            raise ValueError(
                f"{name}[{t}] has shape {row.shape}, but the part of one theta must be (N_t,) or "
                f"(N_t, {'d' if name == 'x' else 'C'})."
            )
        if row.shape[1:] != rows[0].shape[1:]:
            raise ValueError(
                f"{name}[{t}] has shape {row.shape} and {name}[0] has {rows[0].shape}: after the first axis, which "
                f"counts points, all thetas must agree."
            )


def refuse_other_counts(x_counts: Integers, f_counts: Integers) -> None:
    """Raise unless x and f hold as many points at each theta (T,)."""
    if not np.array_equal(x_counts, f_counts):
        t = int(np.argmax(x_counts != f_counts))
        raise ValueError(
            f"x has {x_counts[t]} points and f has {f_counts[t]} values at theta index t = {t}: f must hold one value "
            f"(or C of them, along the last axis) for each point."
        )


def equal_rows(keys: Array) -> tuple[Integers, Integers]:
    """The first of each kind of row of keys (n, k), in their order, and which of these kinds each row is: (n,)."""
    order = np.lexsort(keys.T[::-1])
    fresh = np.append(True, np.any(keys[order[1:]] != keys[order[:-1]], axis=1))
    label = np.empty(len(keys), dtype=np.intp)
    label[order] = np.cumsum(fresh) - 1
    first = np.full(label.max() + 1, len(keys))
    np.minimum.at(first, label, np.arange(len(keys)))
    return np.sort(first), np.argsort(np.argsort(first))[label]


def group_averages(values: Array, group: Integers) -> Array:
    """The averages (G, C) of values (n, C) over the rows of each group, numbered (n,) from 0 to G - 1."""
    sums = np.stack([np.bincount(group, column) for column in values.T], axis=1)
    return np.asarray(sums / np.bincount(group)[:, None])
