"""Candidates where f is steepest: between runs whose values differ much for their distance.

Candidates that are drawn from the measures hardly ever fall into the gap between two runs on either side of a jump, or
of a narrow feature, once the gap is small. Those between a run and its steepest neighbour do, however small it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cbq._arrays import Array, Integers
from cbq.samples.runs import Runs

if TYPE_CHECKING:
    from cbq.methods.multioutput.fit import MOBQFit

N_PAIRS, PER_PAIR = 64, 3  # of neighbours, those that differ most, and candidates between two of them
LEAST_VOLUME = 1e-4  # of a cube with the gap as its side, in units of the spread of the runs: less hardly matters
ROWS = 256  # of runs whose distances to all others are in memory at a time


def between_steepest(fit: MOBQFit, rng: np.random.Generator) -> Runs:
    """Runs between those of a fit, at random places between a run and its steepest neighbour.

    At the theta of one of the two where f does not depend on theta. Runs outside of the support of their measures are
    left out, such as those between atoms.
    """
    samples = fit.samples
    made = Runs(samples.theta[samples.owners], samples.all_points)
    pairs = np.repeat(steepest_pairs(made.inputs(of_theta=samples.depends_on_theta), samples.table), PER_PAIR, axis=0)
    one, other = (made.take(rows) for rows in pairs.T)
    share = rng.random((len(pairs), 1))
    theta = one.theta + share * (other.theta - one.theta) * samples.depends_on_theta
    found = Runs(theta, one.x + share * (other.x - one.x))
    return found.take(found.inside(samples.conditional))


def steepest_pairs(u: Array, f: Array) -> Integers:
    """The pairs (m, 2) of inputs u (n, D) with values f (n, C) that differ most, each a point and where f is steepest.

    Distances and differences are in units of the standard deviations of u and f.
    """
    u, f = (each / np.maximum(np.std(each, axis=0), np.finfo(float).tiny) for each in (u, f))
    least2 = LEAST_VOLUME ** (2 / u.shape[1])
    pairs = np.empty((len(u), 2), dtype=np.intp)
    differences = np.empty(len(u))
    for start in range(0, len(u), ROWS):
        rows = np.arange(start, min(start + ROWS, len(u)))
        apart2, change2 = (np.sum((each[rows, None] - each) ** 2, axis=-1) for each in (u, f))
        with np.errstate(divide="ignore", invalid="ignore"):
            slope2 = np.where(apart2 > least2, change2 / apart2, 0.0)
        steepest = np.argmax(slope2, axis=1)
        pairs[rows] = np.sort(np.column_stack([rows, steepest]), axis=1)
        differences[rows] = change2[np.arange(len(rows)), steepest]
    order = np.argsort(-differences, kind="stable")[: 2 * N_PAIRS]  # most pairs are found twice, once from each end
    return np.unique(pairs[order[differences[order] > 0]], axis=0)[:N_PAIRS]
