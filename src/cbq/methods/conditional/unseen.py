"""What the points of a theta have not seen: the tails of its measure, and events that are rarer than one in N."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.fit.findings import Finding
from cbq.gp.constant_mean import BayesianQuadrature
from cbq.methods.conditional.averaging import KernelWeights
from cbq.samples import Samples

MIN_COMPARED = 8  # points, outermost ones and others
HEAVY = 5.0  # the ratio of standardised residuals, of outermost points to others, above which tails carry the answer
RAMP = 4.0, 6.0  # the ratios between which intervals begin to be stretched
STRETCH_SHARE = 0.5  # of the ratio


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


def tail_stretch(z: Array, samples: Samples) -> Array:
    """The factor (C,) of standard deviations because the tails beyond the outermost points may carry the answer.

    z: (n, C), standardised leave-one-out residuals. Where f grows towards the tails faster than a Gaussian process
    expects, those of the outermost points are large, and all others small, because the amplitude is that of the tails.
    What lies beyond the outermost points is as badly foreseen as these were.
    """
    outer = outermost(samples)
    if min(np.count_nonzero(outer), np.count_nonzero(~outer)) < MIN_COMPARED:
        return np.ones(z.shape[1])
    size2 = [np.mean(z[rows] ** 2, axis=0) for rows in (outer, ~outer)]
    ratio = np.sqrt(size2[0] / np.maximum(size2[1], np.finfo(float).tiny))
    known = size2[1] > 0  # not where all but the outermost values are equal: then there is no growth to be seen
    low, high = RAMP
    part = np.where(known, np.clip((ratio - low) / (high - low), 0.0, 1.0), 0.0)
    return np.asarray(np.maximum(STRETCH_SHARE * ratio, 1.0) ** part)


def tail_findings(stretch: Array) -> list[Finding]:
    """A finding where the tails carry the answer of some outputs, from the factors (C,) of `tail_stretch`."""
    least = (STRETCH_SHARE * HEAVY) ** ((HEAVY - RAMP[0]) / (RAMP[1] - RAMP[0]))
    heavy = int(np.count_nonzero(stretch > least))
    if not heavy:
        return []
    of = f" for {heavy} of {len(stretch)} outputs" * (len(stretch) > 1)
    text = (
        f"the outermost points decide the answer{of}: f grows towards the tails of the measures, and what lies beyond "
        f"the points is unknown. Standard deviations are multiplied by {np.max(stretch):.2g} because of it."
    )
    return [Finding("tails", text)]


def outermost(samples: Samples) -> Booleans:
    """Which of the points (n,) are the largest or the smallest of their theta in a coordinate."""
    found = np.zeros(samples.n_evaluations, dtype=bool)
    for t in range(samples.T):
        x = samples.points(t)
        found[samples.starts[t] + np.argmax(x, axis=0)] = True
        found[samples.starts[t] + np.argmin(x, axis=0)] = True
    return found


def unseen_variance(samples: Samples) -> Array:
    """The least variance (T, C) of integrals where all values at a theta are equal and f is known to be bounded.

    An event of probability q is missed by N points with probability (1 - q)^N, so that q has the distribution
    Beta(1, N + 1) of a flat prior, and the event moves the integral by q times the distance to the farther bound.
    """
    bounds = samples.known_bounds
    if bounds is None:
        return np.zeros((samples.T, samples.table.shape[1]))
    f, N = samples.table, samples.counts[:, None]
    low, high = (extreme.reduceat(f, samples.starts, axis=0) for extreme in (np.minimum, np.maximum))
    distance = np.maximum(bounds[1] - low, high - bounds[0])
    event2 = np.where((low == high) & np.isfinite(distance), distance, 0.0) ** 2
    return np.asarray(2.0 * event2 / ((N + 2) * (N + 3)))
