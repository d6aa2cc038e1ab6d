"""How much of a measure lies where hardly any point has been, and a process on the points of all thetas extrapolates.

Points of all thetas reach as far as the measures of the observed thetas. That of another theta may have much of its
mass beyond them, or near a single point far from all others. The process goes on there as it does at the points, and
its variance knows nothing of a threshold that no point has passed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq._arrays import Array
from cbq.measures import Discrete, Empirical, Measure
from cbq.measures.base import stack

OUTERMOST = 2  # points on each side of each coordinate, which do not say what f does between and beyond them
# What may be there for each coordinate: more than twice the mass that so many points of the measure itself leave, and
# more than the outermost of the observed thetas leave.
EXPECTED_POINTS, EXPECTED_MASS = 10.0, 0.1


def unreached(measures: Sequence[Measure], x: Array) -> Array:
    """The mass (M,) of measures beyond all but the outermost points x (n, d), in excess of what may be there.

    Tails are summed over coordinates. It is zero where marginal distributions are not known.
    """
    n, d = x.shape
    tables = any(isinstance(m, Empirical) and not isinstance(m, Discrete) for m in measures)  # all that there is
    if n <= EXPECTED_POINTS * d or tables:
        return np.zeros(len(measures))
    ends = np.sort(x, axis=0)[[OUTERMOST - 1, n - OUTERMOST]]  # (2, d)
    try:
        mass = sum(_tails(measures, ends[:, j], j) for j in range(d))
    except NotImplementedError:
        return np.zeros(len(measures))
    return np.asarray(np.maximum(mass - d * max(EXPECTED_POINTS / n, EXPECTED_MASS), 0.0))


def _tails(measures: Sequence[Measure], ends: Array, j: int) -> Array:
    """The mass (M,) of measures outside of two ends of coordinate j."""
    together = stack(measures)
    each = [measure.marginal(j) for measure in measures] if together is None else [together.marginal(j)]
    below = [np.reshape(marginal.inverse_transport(ends[:, None]), (-1, 2)) for marginal in each]
    below_both = np.broadcast_to(np.concatenate(below), (len(measures), 2))
    return np.asarray(below_both[:, 0] + 1.0 - below_both[:, 1])
