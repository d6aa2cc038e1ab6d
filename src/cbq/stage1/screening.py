"""Which kernels are worth the work at all thetas, from how well they explain some of the points of some thetas."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from cbq.linalg import Jitter, NotPositiveDefinite
from cbq.samples import Samples
from cbq.samples.arrays import Integers
from cbq.stage1.average import Weights, weigh
from cbq.stage1.candidates import Family
from cbq.stage1.everywhere import Everywhere
from cbq.stage1.quadrature import Explained, explain

THETAS, POINTS = 10, 100  # looked at
NEGLIGIBLE = 1e-3  # a weight that is not worth the work
MOST, FEWEST = 24, 3  # kernels at all thetas: MOST for up to POINTS points, fewer as the cost of each grows with N^2
WORTH_THE_COST = 0.5  # a costly family must have less than this share of the squared error of any other

Member = tuple[int, int]  # the number of a family and of a factor in it


def glance(samples: Samples) -> Samples:
    """Some thetas, with equally many of their points: enough to choose kernels by."""
    n = int(min(POINTS, np.median(samples.counts)))
    enough = np.flatnonzero(samples.counts >= n)
    some = np.unique(np.linspace(0, len(enough) - 1, THETAS).round().astype(int))
    return samples.select(enough[some]).thinned(n)


def screen(
    families: Sequence[Family], view: Everywhere, n: float, tau: float, jitter: Jitter, *, shared: bool
) -> list[Member]:
    """The members of the families that are worth trying at all thetas, which have about n points each."""
    members: list[Member] = []
    results: list[Explained] = []
    for k, family in enumerate(families):
        for i in range(len(family.factors)):
            function = partial(explain, family.member(i), tau=tau, jitter=jitter)
            with suppress(NotPositiveDefinite):
                results.append(view.evaluate(family.coordinates, function))
                members.append((k, i))
    if not members:
        raise NotPositiveDefinite((), int(n), jitter.ceiling)
    weights = _weigh(members, results, view.samples, shared)
    worth = _worth(families, members, weights)
    if not all(worth):
        members = [m for m, w in zip(members, worth, strict=True) if w]
        results = [r for r, w in zip(results, worth, strict=True) if w]
        weights = _weigh(members, results, view.samples, shared)
    score = np.max(np.mean(weights.kernel, axis=1), axis=1)  # the mean over thetas, the largest over outputs
    most = int(np.clip(MOST * (POINTS / n) ** 2, FEWEST, MOST))
    kept = np.argsort(-score, kind="stable")[:most]
    return sorted(members[j] for j in kept if score[j] > NEGLIGIBLE)


def numbered(members: Sequence[Member]) -> Integers:
    """The families of the members, numbered from 0 without gaps: (K,)."""
    return np.unique([k for k, _ in members], return_inverse=True)[1]


def _weigh(members: Sequence[Member], results: Sequence[Explained], samples: Samples, shared: bool) -> Weights:
    return weigh(results, numbered(members), samples.owners, shared=shared)


def _worth(families: Sequence[Family], members: Sequence[Member], weights: Weights) -> list[bool]:
    """Whether each member belongs to a family that is worth its cost, for one of the outputs at least."""
    costly = np.array([families[k].costly for k, _ in members])
    if np.all(costly):
        return [True] * len(members)
    unexplained = weights.unexplained[numbered(members)]  # (K, C)
    better = unexplained < WORTH_THE_COST * np.min(unexplained[~costly], axis=0)
    return list(~costly | np.any(better, axis=1))
