"""The entropy of a run, which all its draws are made from, and the seed that it came from, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq._checks import generator

ENTROPY_WORDS = 4  # of 32 bits, which a run takes from the generator that it is given
TRIED_SEEDS = 1000  # among which a message looks for the seed of a file


def run_entropy(rng: np.random.Generator | int) -> list[int]:
    """The entropy of a run, from a Generator or a seed."""
    return [int(word) for word in generator(rng).integers(2**32, size=ENTROPY_WORDS)]


def shown_seed(entropy: Sequence[int]) -> str:
    """The seed that has this entropy, if it is a small number; else what can be said about its generator."""
    for seed in range(TRIED_SEEDS):
        if run_entropy(seed) == list(entropy):
            return f"rng={seed}"
    return f"a generator or a seed above {TRIED_SEEDS - 1}, whose first number is {next(iter(entropy), None)}"
