"""Seeds: every draw of a run has its own, made from the entropy of the run and from what the draw is for."""

from __future__ import annotations

import numpy as np

from cbq._arrays import generator

THETA, X = 0, 1  # which of the two draws of a theta a seed is for
WORDS = 4  # of 32 bits, which a run takes from the generator that it is given


def entropy_of(rng: np.random.Generator | int) -> list[int]:
    """The entropy of a run, from a Generator or a seed."""
    return [int(word) for word in generator(rng).integers(2**32, size=WORDS)]


def seeded(entropy: list[int], *key: int) -> np.random.Generator:
    """The generator of one draw: nothing but the entropy of the run and this key enters."""
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key))
