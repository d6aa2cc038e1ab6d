"""What the points of a theta have not seen: the tails of its measure, and events that are rarer than one in N."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.fit.findings import Finding, for_some
from cbq.fit.of_samples import HEAVY_SHARE, missed_variance, outer_share, outermost_sets
from cbq.gp.constant_mean import BayesianQuadrature
from cbq.methods.conditional.candidates import KernelWeights
from cbq.samples import Samples

MIN_COMPARED = 8  # points, outermost ones and others
# Tails carry the answer where both are large: the ratio of standardised residuals, of the outermost points to others,
# and the share of the outermost points in the variance of f. Between the two numbers of each, the stretch rises from
# none to all.
RATIOS, SHARES = (3.0, 5.0), (1.25, HEAVY_SHARE)
STRETCH_SHARE = 0.5  # of the ratio, by which standard deviations are stretched
NOTABLE = 1.5  # a stretch that is worth a warning


def standardised_residuals(
    result: BayesianQuadrature, weights: KernelWeights, amplitude: Array, samples: Samples
) -> Array:
    """The leave-one-out residuals (n, C) of averaged kernels, in units of their predicted standard deviations.

    amplitude: (K, T, C).
    """
    own = amplitude[:, samples.owners] / result.precision[..., None]
    between = (result.residuals - weights.residuals) ** 2
    predicted = np.sum(weights.without * (own + between), axis=0)
    return np.asarray(weights.residuals / np.sqrt(np.maximum(predicted, np.finfo(float).tiny)))


def tail_stretch(z: Array, varies: Array, samples: Samples) -> Array:
    """The factor (C,) of standard deviations because the tails beyond the outermost points may carry the answer.

    z: (n, C), standardised leave-one-out residuals. varies: (T, C), whether f does, from 0 to 1. Where f grows towards
    the tails faster than a Gaussian process expects, residuals of the outermost points are large, and all others small,
    because the amplitude is that of the tails; and f varies at the outermost points more than at all others. What lies
    beyond them is as badly foreseen as they were.
    """
    found = [_tail_stretch(z, varies, samples, outer) for outer in outermost_sets(samples)]
    return np.asarray(np.max(found, axis=0))


def _tail_stretch(z: Array, varies: Array, samples: Samples, outer: Booleans) -> Array:
    """The factor (C,) from one set of outermost points (n,)."""
    if min(np.count_nonzero(outer), np.count_nonzero(~outer)) < MIN_COMPARED:
        return np.ones(z.shape[1])
    size2 = [np.mean(z[rows] ** 2, axis=0) for rows in (outer, ~outer)]
    tiny = np.finfo(float).tiny
    ratio = np.where(size2[1] > 0, np.sqrt(size2[0] / np.maximum(size2[1], tiny)), 1.0)
    share = outer_share(samples, outer, varies)
    return np.asarray(np.maximum(STRETCH_SHARE * ratio, 1.0) ** (_between(ratio, RATIOS) * _between(share, SHARES)))


def _between(values: Array, ends: tuple[float, float]) -> Array:
    """How far values are on the way from one end to the other, from 0 to 1."""
    return np.clip((values - ends[0]) / (ends[1] - ends[0]), 0.0, 1.0)


def tail_findings(stretch: Array) -> list[Finding]:
    """A finding where the tails carry the answer of some outputs, from the factors (C,) of `tail_stretch`."""
    heavy = int(np.count_nonzero(stretch > NOTABLE))
    if not heavy:
        return []
    text = (
        f"the outermost points decide the answer{for_some(heavy, len(stretch))}: f grows towards the tails of the "
        f"measures, and what lies beyond the points is unknown. Standard deviations are multiplied by "
        f"{np.max(stretch):.2g} because of it."
    )
    return [Finding("tails", text)]


def unseen_variance(samples: Samples) -> Array:
    """The least variance (T, C) of integrals where all values at a theta are equal and f is known to be bounded."""
    bounds = samples.known_bounds
    if bounds is None:
        return np.zeros((samples.T, samples.table.shape[1]))
    f, N = samples.table, samples.counts[:, None]
    low, high = (extreme.reduceat(f, samples.starts, axis=0) for extreme in (np.minimum, np.maximum))
    distance = np.maximum(bounds[1] - low, high - bounds[0])
    return missed_variance(np.where((low == high) & np.isfinite(distance), distance, 0.0), N)
