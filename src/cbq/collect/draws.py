"""Drawing thetas and points. The first n of a longer draw are the draw of n, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from cbq._arrays import Array
from cbq.collect.seeds import THETA, X, seeded
from cbq.measures import Measure, Product

Plan = Literal["iid", "sobol"]
Scramble = Literal["independent", "common"]
SOBOL_BITS = 30
ROWS = 64  # points that are transported at once


def draw_thetas(prior: Measure, T: int, design: Plan, entropy: list[int]) -> Array:
    """T thetas (T, p) of their prior."""
    if design == "sobol":
        return _through(prior.transport, sobol(T, prior.dim, seeded(entropy, THETA)), 0.5)
    return np.concatenate([prior.sample(1, seeded(entropy, THETA, t)) for t in range(T)])


def draw_points(
    measures: Sequence[Measure], counts: Sequence[int], design: Plan, scramble: Scramble, entropy: list[int]
) -> list[Array]:
    """N_t points (N_t, d) of each of T measures of one dimension. Those of theta t depend on no other theta.

    scramble: "common" sends the same points of the unit cube, the first N_t of them, through the transport of each
        measure; with "independent" each theta has its own.
    """
    pairs = list(enumerate(zip(measures, counts, strict=True)))
    if design == "iid":
        return [iid(measure, n, seeded(entropy, X, t)) for t, (measure, n) in pairs]
    if scramble == "common":
        u = sobol(max(counts), measures[0].dim, seeded(entropy, X))
        return [_through(measure.transport, u[:n], 0.5) for _, (measure, n) in pairs]
    return [_through(measure.transport, sobol(n, measure.dim, seeded(entropy, X, t)), 0.5) for t, (measure, n) in pairs]


def iid(measure: Measure, n: int, rng: np.random.Generator) -> Array:
    """n independent points (n, d) of a measure."""
    if type(measure).sample not in (Measure.sample, Product.sample):
        return measure.sample(n, rng)  # it has a way of its own
    return _through(lambda v: measure.transport(v, "normal"), rng.standard_normal((n, measure.dim)), 0.0)


def sobol(n: int, dim: int, rng: np.random.Generator) -> Array:
    """The first n points of a scrambled Sobol sequence, strictly inside the unit cube: (n, dim)."""
    from scipy.stats.qmc import Sobol  # slow to import

    u = Sobol(dim, scramble=True, bits=SOBOL_BITS, rng=rng).random_base2((n - 1).bit_length())
    return np.asarray(u[:n] + 0.5 ** (SOBOL_BITS + 1), dtype=np.float64)  # the middle of each cell: never 0


def _through(transport: Callable[[Array], Array], u: Array, middle: float) -> Array:
    """The points that u (n, d) are sent to, ROWS of them at a time, the last ones filled up with `middle`.

    The last bits of a matrix product depend on the number of its rows, and a point must not depend on how many
    others were drawn.
    """
    n, d = u.shape
    if d == 1:
        return transport(u)
    padded = np.full((-(-n // ROWS) * ROWS, d), middle)
    padded[:n] = u
    blocks = [transport(padded[i : i + ROWS]) for i in range(0, len(padded), ROWS)]
    return np.concatenate(blocks)[:n]
