"""Points of a measure: independent draws, and scrambled Sobol points of the unit cube, transported to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cbq.common import Array
from cbq.measures.base import Measure

SOBOL_BITS = 30
BLOCK_ROWS = 64  # points that are transported together


def iid(measure: Measure, n: int, rng: np.random.Generator) -> Array:
    """n independent points (n, d) from a measure."""
    if type(measure).sample is not Measure.sample:
        return measure.sample(n, rng)  # its own method, which must be prefix-stable for a run to be extended
    return transported(lambda v: measure.transport(v, "normal"), rng.standard_normal((n, measure.dim)), 0.0)


def sobol(n: int, dim: int, rng: np.random.Generator) -> Array:
    """The first n points of a scrambled Sobol sequence, strictly inside the unit cube: (n, dim)."""
    from scipy.stats.qmc import Sobol  # slow to import

    u = Sobol(dim, scramble=True, bits=SOBOL_BITS, rng=rng).random_base2((n - 1).bit_length())
    return np.asarray(u[:n] + 0.5 ** (SOBOL_BITS + 1), dtype=np.float64)  # the centre of each cell, which is never 0


def transported(transport: Callable[[Array], Array], u: Array, padding: float) -> Array:
    """The images of u (n, d), computed in blocks of BLOCK_ROWS rows, the last one filled up with `padding`.

    The last bits of a matrix product depend on the number of its rows, and a point must not depend on how many others
    are drawn.
    """
    n, d = u.shape
    if d == 1:
        return transport(u)
    padded = np.full((-(-n // BLOCK_ROWS) * BLOCK_ROWS, d), padding)
    padded[:n] = u
    blocks = [transport(padded[i : i + BLOCK_ROWS]) for i in range(0, len(padded), BLOCK_ROWS)]
    return np.concatenate(blocks)[:n]
