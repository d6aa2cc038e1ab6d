"""Pieces of a batch, and of its matrices, that stay in the cache."""

from __future__ import annotations

from math import prod

from cbq._arrays import Array

BLOCK = 32768  # numbers in a piece: temporaries stay in the cache, and the interpreter has little to do
_FEWEST_ROWS = 16


def spans(count: int, size: int) -> list[slice]:
    """Slices that cover 0, ..., count - 1, as long as things of `size` numbers each fit a piece."""
    step = max(1, BLOCK // max(1, size))
    return [slice(i, min(i + step, count)) for i in range(0, count, step)]


def row_blocks(n: int, count: int) -> list[slice]:
    """Slices of the rows of `count` matrices (n, n), as many as fit a piece but not too few."""
    step = max(_FEWEST_ROWS, BLOCK // max(1, n * count))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def stacked(matrices: Array) -> Array:
    """Matrices (..., N, M) with all leading axes as one, (B, N, M): a view, if they are C-ordered."""
    return matrices.reshape(prod(matrices.shape[:-2]), *matrices.shape[-2:])
