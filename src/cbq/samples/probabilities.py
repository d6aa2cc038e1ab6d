"""Probability transforms: coordinates in which the draws of every measure are uniform on the unit cube.

Points of all thetas can then be compared and pooled, as if they had one measure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cbq.common import Array, Booleans, evenly
from cbq.measures import Empirical, Measure
from cbq.measures.base import stack

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

MAX_POINTS = 2**16  # tested, of all thetas together
MAX_COSTLY_POINTS = 2**11  # if scipy may integrate a density for each point
MAX_ATOMS = 2**14  # of one measure: probabilities of points are sums over all atoms
BLOCK = 2**22  # pairs of a point and an atom in memory at a time


def source(samples: Samples) -> Measure | tuple[Measure, ...] | None:
    """The measures that the points were drawn from, as samples hold them: of x, or proposals; None if unknown.

    Points that a rule has chosen were drawn from no measure.
    """
    if samples.design == "adaptive" or not samples.has_measure:
        return None
    return samples._measure if samples.log_weights is None else samples._proposal


def measures_of_points(samples: Samples) -> Measure | tuple[Measure, ...]:
    """The measures that the points were drawn from, or else the measures of x."""
    measures = source(samples)
    return samples._measure if measures is None else measures


def as_list(measures: Measure | tuple[Measure, ...]) -> tuple[Measure, ...]:
    """Measures as samples hold them, as a tuple: one for each theta, or a single one, which may be a batch."""
    return (measures,) if isinstance(measures, Measure) else measures


def some_of(samples: Samples, *, first: bool = False) -> Samples:
    """The points to test, at each theta if there are not too many thetas: evenly spaced, or the `first` ones."""
    costly = any(measure.has_slow_transport for measure in as_list(measures_of_points(samples)))
    most = MAX_COSTLY_POINTS if costly else MAX_POINTS
    if samples.n_evaluations <= most:
        return samples
    kept = samples.select(evenly(samples.T, most)) if most < samples.T else samples
    per_theta = max(1, most // kept.T)
    chosen = [np.arange(min(n, per_theta)) if first else evenly(int(n), min(int(n), per_theta)) for n in kept.counts]
    return kept.regrouped([start + rows for start, rows in zip(kept.starts, chosen, strict=True)])


def probabilities(samples: Samples) -> Array:
    """The probability transforms (n, d) of all points under the measures of their thetas; NaN if there is none.

    They are independent and uniform for draws of continuous measures. At an atom, they are P(X < x) + P(X = x) / 2.
    """
    measures, x = measures_of_points(samples), samples.x
    batched = measures if isinstance(measures, Measure) else stack(measures)
    if batched is not None and isinstance(x, np.ndarray):
        return _transformed(batched, x).reshape(-1, samples.d)
    if batched is not None and not batched.batch_shape:
        return _transformed(batched, samples.all_points)
    separate = [batched[t] for t in range(samples.T)] if batched is not None else measures
    assert isinstance(separate, list | tuple)
    return np.concatenate([_transformed(measure, samples.points(t)) for t, measure in enumerate(separate)])


def _transformed(measure: Measure, x: Array) -> Array:
    """The probability transforms of points x (..., n, d), by independent blocks if some have none."""
    try:
        with np.errstate(all="ignore"):
            u = _in_blocks(measure, x)
        return u if u.shape == x.shape else np.full(x.shape, np.nan)
    except Exception:  # a user's measure may raise any error; a missing transform only loses a test
        parts, stops = measure.factors(), np.cumsum([part.dim for part in measure.factors()])
        if len(parts) == 1:
            return np.full(x.shape, np.nan)
        columns = np.split(x, stops[:-1], axis=-1)
        return np.concatenate([_transformed(*pair) for pair in zip(parts, columns, strict=True)], axis=-1)


def _in_blocks(measure: Measure, x: Array) -> Array:
    """`inverse_transport` of points (..., n, d), in blocks, so that sums over atoms fit into memory."""
    atoms = _atoms(measure)
    if atoms > MAX_ATOMS:
        return np.full(x.shape, np.nan)
    thetas = max(1, int(np.prod(x.shape[:-2])))
    step = x.shape[-2] if not atoms else max(1, BLOCK // (atoms * thetas))
    parts = [measure.inverse_transport(x[..., i : i + step, :]) for i in range(0, x.shape[-2], step)]
    return np.concatenate(parts, axis=-2)


def _atoms(measure: Measure) -> int:
    """The largest number of atoms of a measure or one of its parts; zero if it has none."""
    own = measure.points.shape[-2] if isinstance(measure, Empirical) else 0
    return max([own, *(_atoms(part) for part in measure._parts)])


def continuous(samples: Samples) -> Booleans:
    """Which coordinates of the points have no atoms at any theta: (d,)."""
    kept = np.ones(samples.d, dtype=bool)
    for measure in as_list(measures_of_points(samples)):
        if measure.has_atoms:
            kept &= np.concatenate([np.full(part.dim, not part.has_atoms) for part in measure.factors()])
    return kept
