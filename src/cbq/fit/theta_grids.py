"""Grids of thetas for figures, tables and reports: over the range of the prior, or over the observed thetas."""

from __future__ import annotations

import numpy as np

from cbq.common import Array, digits_apart, is_whole, require_memory, shown
from cbq.fit.thetas import more_symmetric_logs
from cbq.measures import Measure

MARGIN = 0.04  # on either side of a range, relative to it
TAIL = 0.005  # prior probability beyond either end of its central range
PRIOR_DRAWS, PRIOR_SEED = 4000, 20240619  # of priors without quantiles
SPARE_DIGITS = 6  # beyond which a round number differs from others by rounding errors alone
DECADES = 1.0  # that a range must have to be even in logarithms


def prior_range(prior: Measure) -> Array:
    """The central range of each coordinate of the prior, (2, p): all but half a per cent on either side."""
    tails = np.array([TAIL, 1.0 - TAIL])
    try:
        if prior.dim == 1:
            return prior.transport(tails[:, None])
        draws = prior.sample(PRIOR_DRAWS, PRIOR_SEED)
    except NotImplementedError as error:
        raise ValueError(
            f"the range of the prior is not known, as {prior!r} cannot be drawn from: pass theta."
        ) from error
    return np.asarray(np.quantile(draws, tails, axis=0))


def observed_range(theta: Array) -> Array:
    """A little more than the range of thetas (T, p), but positive in coordinates that are all positive: (2, p)."""
    low, high = np.min(theta, axis=0), np.max(theta, axis=0)
    margin = MARGIN * (high - low)
    margin = np.where(margin > 0, margin, np.where(low != 0, 0.5 * np.abs(low), 1.0))
    return np.stack([np.where(low > 0, np.maximum(low - margin, 0.5 * low), low - margin), high + margin])


def theta_range(theta: Array, prior: Measure | None) -> Array:
    """The range that figures cover, (2, p): the ranges of the prior and of the observed thetas (T, p)."""
    if prior is None:
        return observed_range(theta)
    ends = prior_range(prior)
    low, high = np.minimum(ends[0], np.min(theta, axis=0)), np.maximum(ends[1], np.max(theta, axis=0))
    return np.stack([low, np.where(high > low, high, low + np.maximum(0.5 * np.abs(low), 1.0))])


def regular_grid(theta: Array, prior: Measure | None, points: int) -> Array:
    """A regular grid (M, p) over the range of figures, for p = 1 with the observed thetas (T, 1) among it."""
    if not is_whole(points, 2):
        raise ValueError(
            f"points must be the number of grid points, an integer of 2 or more, but it is {shown(points)}."
        )
    p = theta.shape[1]
    require_memory(p * points**p, f"a grid of points = {points} in each coordinate", "pass fewer points")
    axes = [np.linspace(low, high, points) for low, high in theta_range(theta, prior).T]
    if p > 1:
        return mesh(*axes)
    if len(theta) == 1:  # without the node, whose narrow interval would look like a crack in the band
        return axes[0][:, None]
    return np.union1d(axes[0], theta[:, 0])[:, None]  # with the nodes, where a rough I has its corners


def is_logarithmic(theta: Array, low: float, high: float) -> bool:
    """Whether an axis from low to high should be logarithmic: it spans decades, as the observed thetas (T, 1) do."""
    spans = low > 0 and np.log10(high / low) > DECADES
    return bool(spans and len(theta) > 2 and more_symmetric_logs(theta)[0])


def round_axis(low: float, high: float, most: int, *, log: bool = False) -> Array:
    """At most `most` round numbers from low to high: multiples of 1, 2 or 5 times a power of ten.

    log : for positive ranges, numbers of three digits that are evenly spaced in logarithms.
    """
    if log:
        return np.unique([float(f"{value:.3g}") for value in np.geomspace(low, high, most)])
    nearest = float(np.spacing(max(abs(low), abs(high))))  # numbers are no nearer to each other
    step = round_step(max((high - low) / max(most - 1, 1), nearest))
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    digits = digits_apart(np.array([low, high])) + SPARE_DIGITS
    found = np.unique([float(f"{k * step:.{digits}g}") for k in np.arange(first, last + 1) + 0.0])  # not -0
    return found if len(found) > 1 else np.unique([low, high])  # too near to each other for round numbers


def round_step(least: float) -> float:
    """The smallest of 1, 2 or 5 times a power of ten that is not below `least`."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least * (1 - 1e-9)))


def mesh(*axes: Array) -> Array:
    """All combinations of coordinates, sorted by the last one, then by the one before: (M, p)."""
    columns = np.meshgrid(*axes[::-1], indexing="ij")[::-1]
    return np.stack([column.ravel() for column in columns], axis=1)
