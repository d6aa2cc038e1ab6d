"""Which kernels are worth the work at all thetas, from how well they explain some of the points of some thetas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import compress

import numpy as np

from cbq._arrays import Booleans, evenly
from cbq.linalg import Jitter
from cbq.samples import Samples
from cbq.stage1.average import KernelWeights, weigh
from cbq.stage1.candidates import KernelFamily
from cbq.stage1.everywhere import BlockedSamples
from cbq.stage1.quadrature import explain

THETAS, POINTS = 10, 100  # looked at, at least and at most
MATRICES = 25_000  # thetas are looked at until they have so many numbers in their Gram matrices
NEGLIGIBLE = 0.01  # a weight that is not worth the work
MOST, FEWEST = 24, 3  # kernels at all thetas: MOST for up to POINTS points, fewer as the cost of each grows with N^2
WORTH_THE_COST = 0.5  # a costly family must have less than this share of the squared error of any other


def screening_subset(samples: Samples) -> Samples:
    """Some thetas, with equally many of their points: enough to choose kernels by."""
    n = int(min(POINTS, np.median(samples.counts)))
    enough = np.flatnonzero(samples.counts >= n)
    some = evenly(len(enough), max(THETAS, MATRICES // n**2))
    return samples.select(enough[some]).thinned(n)


def screen(
    families: Sequence[KernelFamily], view: BlockedSamples, n: float, tau: float, jitter: Jitter
) -> list[KernelFamily]:
    """The families, and the factors of each, that are worth trying at all thetas, which have about n points each.

    The best of the first family, the roughest, is always among them: where a smooth kernel fails at thetas that were
    not looked at, there is another to turn to.
    """
    results = [view.evaluate(f.coordinates, partial(explain, f.all(), tau=tau, jitter=jitter)) for f in families]
    weights = weigh(results, view.samples)
    worth = _worth(families, weights)
    if not np.all(worth):
        families, results = list(compress(families, worth)), list(compress(results, worth))
        weights = weigh(results, view.samples)
    score = np.max(np.mean(weights.kernel, axis=1), axis=1)  # the mean over thetas, the largest over outputs
    score[np.argmax(score[: len(families[0].factors)])] = np.inf
    most = int(np.clip(MOST * (POINTS / n) ** 2, FEWEST, MOST))
    kept = (score > NEGLIGIBLE) & (np.argsort(np.argsort(-score, kind="stable")) < most)
    each = np.split(kept, np.cumsum([len(family.factors) for family in families])[:-1])
    return [family.only(np.flatnonzero(mine)) for family, mine in zip(families, each, strict=True) if np.any(mine)]


def _worth(families: Sequence[KernelFamily], weights: KernelWeights) -> Booleans:
    """Whether each family is worth its cost, for one of the outputs at least: (F,)."""
    costly = np.array([family.costly for family in families])
    if np.all(costly):
        return np.ones(len(families), dtype=bool)
    better = weights.unexplained < WORTH_THE_COST * np.min(weights.unexplained[~costly], axis=0)
    return np.asarray(~costly | np.any(better, axis=1))
