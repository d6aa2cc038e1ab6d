"""Sums and products of kernels, whether of the same points or coordinate by coordinate: what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, Booleans, finite
from cbq.linalg.features import Features

if TYPE_CHECKING:
    from cbq.kernels.base import Kernel

Fill = Callable[[Sequence["Kernel"], Features, Features, Array], None]
Contract = Callable[[Sequence["Kernel"], Features, Features, Array], Array]


class Combination(NamedTuple):
    """How kernels are combined: on values, on Gram blocks, on their derivatives and sums of those."""

    operation: np.ufunc
    fill: Fill
    fill_derivatives: Fill
    contract: Contract


def fill_sum(parts: Sequence[Kernel], fx: Features, fy: Features, out: Array) -> None:
    """Write the sum of the Gram blocks (..., n, m) of `parts`, each with its own features, into `out`."""
    parts[0].fill(fx[0], fy[0], out)
    term = np.empty_like(out)
    for i, k in enumerate(parts[1:], start=1):
        k.fill(fx[i], fy[i], term)
        out += term


def fill_sum_derivatives(parts: Sequence[Kernel], fx: Features, fy: Features, out: Array) -> None:
    """Write the derivatives (P, ..., n, m) of the sum of `parts` into `out`."""
    start = 0
    for i, k in enumerate(parts):
        stop = start + k.n_lengthscales
        k.fill_derivatives(fx[i], fy[i], out[start:stop])
        start = stop


def contract_sum(parts: Sequence[Kernel], fx: Features, fy: Features, G: Array) -> Array:
    """sum_ij G_ij times the derivatives of the sum of `parts`: (..., P)."""
    return np.concatenate([k.contract_features(fx[i], fy[i], G) for i, k in enumerate(parts)], axis=-1)


def fill_product(parts: Sequence[Kernel], fx: Features, fy: Features, out: Array) -> None:
    """Write the product of the Gram blocks (..., n, m) of `parts`, each with its own features, into `out`."""
    parts[0].fill(fx[0], fy[0], out)
    factor = np.empty_like(out)
    for i, k in enumerate(parts[1:], start=1):
        k.fill(fx[i], fy[i], factor)
        out *= factor


def fill_product_derivatives(parts: Sequence[Kernel], fx: Features, fy: Features, out: Array) -> None:
    """Write the derivatives (P, ..., n, m) of the product of `parts` into `out`."""
    fill_sum_derivatives(parts, fx, fy, out)
    factor = np.empty(out.shape[1:])
    owner = np.repeat(np.arange(len(parts)), [k.n_lengthscales for k in parts])
    for i, k in enumerate(parts):
        k.fill(fx[i], fy[i], factor)
        out[owner != i] *= factor


def contract_product(parts: Sequence[Kernel], fx: Features, fy: Features, G: Array) -> Array:
    """sum_ij G_ij times the derivatives of the product of `parts`: (..., P)."""
    factors = np.empty((len(parts), *G.shape))
    for i, k in enumerate(parts):
        k.fill(fx[i], fy[i], factors[i])
    each = []
    for i, k in enumerate(parts):
        others = np.prod(np.delete(factors, i, axis=0), axis=0)
        each.append(k.contract_features(fx[i], fy[i], np.multiply(others, G, out=others)))
    return np.concatenate(each, axis=-1)


def join_lengthscales(parts: Sequence[Kernel]) -> Array:
    """Log-lengthscales of all `parts`, one after the other: (..., P)."""
    each = [k.log_lengthscales for k in parts]
    batch = np.broadcast_shapes(*(v.shape[:-1] for v in each))
    return np.concatenate([np.broadcast_to(v, (*batch, v.shape[-1])) for v in each], axis=-1)


def split_lengthscales(parts: Sequence[Kernel], values: npt.ArrayLike) -> list[Kernel]:
    """The `parts` with new log-lengthscales (..., P), as `join_lengthscales` orders them."""
    counts = [k.n_lengthscales for k in parts]
    v = finite(values, "log_lengthscales")
    if v.ndim == 0 or v.shape[-1] != sum(counts):
        raise ValueError(f"log_lengthscales has shape {v.shape}, but {sum(counts)} values are expected.")
    pieces = np.split(v, np.cumsum(counts)[:-1], axis=-1)
    return [k.with_log_lengthscales(piece) for k, piece in zip(parts, pieces, strict=True)]


def parts_to_fit(parts: Sequence[Kernel], points: Iterable[Array], ard: bool) -> tuple[list[Kernel], Booleans]:
    """`Kernel.to_fit` of each of the `parts`, from points of its own: the kernels, and which lengthscales are free."""
    kernels, free = zip(*(k.to_fit(x, ard) for k, x in zip(parts, points, strict=True)), strict=True)
    return list(kernels), np.concatenate(free)


SUM = Combination(np.add, fill_sum, fill_sum_derivatives, contract_sum)
PRODUCT = Combination(np.multiply, fill_product, fill_product_derivatives, contract_product)
