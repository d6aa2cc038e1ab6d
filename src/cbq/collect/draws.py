"""Where f is evaluated: the thetas and points of a run, and the seeds that they are drawn with.

Draws are prefix-stable: the first n of a longer draw are the draw of n, to the last bit. Every draw has its own seed,
made from the entropy of the run and a key: what the draw is for, and which theta it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cbq._arrays import Array, generator
from cbq.measures import Measure, Product
from cbq.samples.conditional import Family, measures_at

CollectDesign = Literal["iid", "sobol"]
Scramble = Literal["independent", "common"]
THETA_KEY, X_KEY = 0, 1  # the first part of the key of a seed
ENTROPY_WORDS = 4  # of 32 bits, which a run takes from the generator that it is given
SOBOL_BITS = 30
BLOCK_ROWS = 64  # points that are transported together


@dataclass(frozen=True, eq=False)
class RunPoints:
    """The thetas (T, p) of a run, the T measures of x there, and the points, T arrays (N_t, d).

    settings: what the draws depend on, by name; a checkpoint refuses a run with other settings.
    """

    settings: dict[str, Any]
    thetas: Array
    measures: Sequence[Measure]
    x: list[Array]


def run_entropy(rng: np.random.Generator | int) -> list[int]:
    """The entropy of a run, from a Generator or a seed."""
    return [int(word) for word in generator(rng).integers(2**32, size=ENTROPY_WORDS)]


def draw_run(
    settings: dict[str, Any],
    thetas: Array,
    family: Family,
    counts: Sequence[int],
    design: CollectDesign,
    scramble: Scramble,
    entropy: list[int],
) -> RunPoints:
    """Draw counts[t] points at each of the thetas (T, p); `settings` are those of the problem."""
    measures = measures_at(family, thetas)
    settings = {
        **settings,
        "p": thetas.shape[1],
        "d": measures[0].dim,
        "design": design,
        "scramble": scramble if design == "sobol" else None,
        "seed": entropy,
    }
    return RunPoints(settings, thetas, measures, draw_points(measures, counts, design, scramble, entropy))


def draw_thetas(prior: Measure, T: int, design: CollectDesign, entropy: list[int]) -> Array:
    """T thetas (T, p) from their prior."""
    if design == "sobol":
        return _transported(prior.transport, sobol(T, prior.dim, _seeded(entropy, THETA_KEY)), 0.5)
    return np.concatenate([prior.sample(1, _seeded(entropy, THETA_KEY, t)) for t in range(T)])


def draw_points(
    measures: Sequence[Measure], counts: Sequence[int], design: CollectDesign, scramble: Scramble, entropy: list[int]
) -> list[Array]:
    """N_t points (N_t, d) from each of T measures of one dimension. The points of a theta depend on no other theta.

    scramble: "common" transports the same points of the unit cube, the first N_t of them, to each measure; with
        "independent" each theta has its own.
    """
    pairs = list(enumerate(zip(measures, counts, strict=True)))
    if design == "iid":
        return [iid(measure, n, _seeded(entropy, X_KEY, t)) for t, (measure, n) in pairs]
    if scramble == "common":
        u = sobol(max(counts), measures[0].dim, _seeded(entropy, X_KEY))
        return [_transported(measure.transport, u[:n], 0.5) for _, (measure, n) in pairs]
    return [
        _transported(measure.transport, sobol(n, measure.dim, _seeded(entropy, X_KEY, t)), 0.5)
        for t, (measure, n) in pairs
    ]


def iid(measure: Measure, n: int, rng: np.random.Generator) -> Array:
    """n independent points (n, d) from a measure."""
    if type(measure).sample not in (Measure.sample, Product.sample):
        return measure.sample(n, rng)  # a method of its own, which is prefix-stable by itself
    return _transported(lambda v: measure.transport(v, "normal"), rng.standard_normal((n, measure.dim)), 0.0)


def sobol(n: int, dim: int, rng: np.random.Generator) -> Array:
    """The first n points of a scrambled Sobol sequence, strictly inside the unit cube: (n, dim)."""
    from scipy.stats.qmc import Sobol  # slow to import

    u = Sobol(dim, scramble=True, bits=SOBOL_BITS, rng=rng).random_base2((n - 1).bit_length())
    return np.asarray(u[:n] + 0.5 ** (SOBOL_BITS + 1), dtype=np.float64)  # the centre of each cell, which is never 0


def _seeded(entropy: list[int], *key: int) -> np.random.Generator:
    """The generator of one draw, which depends on the entropy of the run and this key only."""
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key))


def _transported(transport: Callable[[Array], Array], u: Array, padding: float) -> Array:
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
