"""Integrals under P_theta as integrals under a q of the user's choice: of f p / q in place of f.

I = E f(X), X ~ P, is also E f(X) p(X) / q(X), X ~ q. Quadrature then needs the integrals of kernels under q alone. The
ratio must be such that f p / q is as easy to learn under q as f is under P: bounded, and known wherever q has mass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from cbq._arrays import Array, evenly
from cbq.linalg.dense import cholesky, eigh, solve_lower
from cbq.measures import Measure
from cbq.samples.arrays import MIN_EFFECTIVE_SIZE, effective_sizes
from cbq.samples.conditional import log_density, other_support, why_no_density

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

LARGEST_LOG_RATIO = 300.0  # so that f p / q stays within float64
BULK = np.arange(0.0, 4.25, 0.5)  # radii in coordinates in which P is standard normal
TAIL = np.array([4.0, 5.5, 7.0])  # radii: the last has a tail probability of 1e-12
STEADY = 0.5  # of its growth over one step in the tail, what a ratio without bound grows over the next, at least
NOTABLE = 1e-3  # growth of a log ratio over a step
MIN_REACH = 0.9  # of the points, the share that is left by their weights under q
TENTH, LARGE_RATIO = 10, 2.0  # a tenth of the points has the largest ratios; their mean, over that of all, if large
RULE = 256  # nodes, for the share of q that points reach
MAX_THETAS = 50  # whose tails are looked at


def check_ratio(measure: Measure, q: Measure, theta: Array, x: Array) -> None:
    """Raise unless p / q is a ratio of two densities with the same support, at theta (p,). x : (1, d), a point."""
    for name, each in (("measure", measure), ("q", q)):
        if why := why_no_density(each, x):
            raise ValueError(
                f"reweighted integrates f p / q under q, which takes two normalised densities, but {each!r}, the "
                f"{name} at theta = {theta}, has none: {why}. Use cbq.kernels.Stein, which needs a score only, or a "
                f"measure with a density."
            )
    if ends := other_support(measure, q):
        raise ValueError(
            f"q has the support {ends[2]} along coordinate {ends[0]} of x at theta = {theta}, and the measure has "
            f"{ends[1]}: f p / q must have a value wherever q has mass, and q must reach all of the measure. Pass a q "
            f"with the same support, such as the measure of a transformed Gaussian."
        )


def signs(bounds: Array) -> Array:
    """The bounds (2, C) that f p / q has where f has these: a ratio of densities leaves nothing but a sign."""
    return np.stack([np.where(bounds[0] >= 0, 0.0, -np.inf), np.where(bounds[1] <= 0, 0.0, np.inf)])


def largest_growth(measures: tuple[Measure, ...], q: tuple[Measure, ...]) -> tuple[float, int] | None:
    """The largest log ratio far out, and its theta index, where p / q grows without bound; None where none does."""
    rows = evenly(len(measures), MAX_THETAS)
    try:
        found = [(growth, int(t)) for t in rows if (growth := unbounded_log_ratio(measures[t], q[t])) is not None]
    except NotImplementedError:  # a measure of a user's own, whose tails cannot be found
        return None
    return max(found, default=None)


def unbounded_log_ratio(measure: Measure, q: Measure) -> float | None:
    """The log of p / q where the tail probability of P is 1e-12, if p / q still grows there; None if it does not.

    It is followed along rays from the centre of P, in coordinates in which P is standard normal. For two Gaussians
    the rays are those along which the ratio is a product of functions of one coordinate, so nothing is missed. Growth
    that slows down is that of a bounded ratio; growth up to a value that the bulk of P has too does no harm.
    """
    rays = _rays(measure, q)
    bulk, tail = (_log_ratios(measure, q, radii, rays) for radii in (BULK, TAIL))  # (R, D) each
    with np.errstate(invalid="ignore"):
        first, second = np.diff(tail, axis=0)
        grows = (second > np.maximum(STEADY * first, NOTABLE)) & (first > 0) & (tail[-1] > np.max(bulk, axis=0))
        grows |= tail[-1] == np.inf  # the density of q is 0 there, by rounding
    return float(np.max(tail[-1][grows])) if np.any(grows) else None


def _rays(measure: Measure, q: Measure) -> Array:
    """Directions (D, d) of length 1: along the coordinates, and along those that simplify two Gaussians, both ways."""
    axes = np.eye(measure.dim)
    found = axes if measure.dim == 1 else np.concatenate([axes, _joint_axes(measure, q)])
    return np.concatenate([found, -found])


def _joint_axes(measure: Measure, q: Measure) -> Array:
    """The principal axes (d, d) of q where P has been whitened; none, (0, d), where a covariance is not known."""
    try:
        own, other = measure.moments()[1], q.moments()[1]
        L = cholesky(own)
        return eigh(solve_lower(L, solve_lower(L, other).T))[1].T  # of L^-1 other L^-T
    except (ValueError, NotImplementedError, np.linalg.LinAlgError):  # infinite, or no formula for it
        return np.empty((0, measure.dim))


def _log_ratios(measure: Measure, q: Measure, radii: Array, rays: Array) -> Array:
    """log p - log q at the radii (R,) along the rays (D, d): (R, D); NaN beyond float64."""
    v = radii[:, None, None] * rays
    with np.errstate(all="ignore"):
        x = measure.transport(v.reshape(-1, measure.dim), "normal")
        inside = np.all(np.isfinite(x), axis=1)
        found = np.full(len(x), np.nan)
        found[inside] = measure.logpdf(x[inside]) - q.logpdf(x[inside])
    return found.reshape(len(radii), len(rays))


def ratio_warning(samples: Samples, reweighted: Samples, log_ratio: Array) -> str | None:
    """Why the integrals of f p / q under q may be worse than they seem, in whole sentences; None if there is no reason.

    log_ratio : (n,), log p - log q at all points of the samples.
    """
    said = []
    grows = not _compensated(reweighted, log_ratio)
    if grows and (found := largest_growth(samples.measures, reweighted.measures)) is not None:
        largest, t = found
        said.append(
            f"p / q grows without bound in the tails of the measure, as at theta = {samples.theta[t]}: q has lighter "
            f"tails. It is {_power(largest)} where the tail probability is 1e-12, and kernels are bounded."
        )
    carrying = effective_sizes(log_ratio, samples.starts)
    few = grows & (carrying < MIN_EFFECTIVE_SIZE) & (samples.counts > MIN_EFFECTIVE_SIZE)
    if np.any(few):
        t = int(np.argmin(np.where(few, carrying, np.inf)))
        said.append(
            f"At {np.count_nonzero(few)} of {samples.T} thetas fewer than {MIN_EFFECTIVE_SIZE:g} effective points "
            f"carry the ratio p / q: {carrying[t]:.3g} of {samples.counts[t]} at theta = {samples.theta[t]}."
        )
    sources = reweighted.proposals
    is_wider = sources is None or largest_growth(reweighted.measures, sources) is not None
    if is_wider and (share := reach(reweighted)) < MIN_REACH:
        said.append(
            f"The points were drawn from measures with lighter tails than q and leave those of q empty: on average, "
            f"they are worth {share:.2g} times as many points of q. What f p / q is there is unknown, and intervals "
            f"may be too narrow."
        )
    return " ".join(said) or None


def _compensated(samples: Samples, log_ratio: Array) -> bool:
    """Whether f p / q is no larger where p / q is, as that of a likelihood f is not under a q near the posterior."""
    top = np.zeros(samples.n_evaluations, dtype=bool)
    for start, count in zip(samples.starts, samples.counts, strict=True):
        order = np.argsort(log_ratio[start : start + count])
        top[start + order[count - max(1, count // TENTH) :]] = True
    log_peak = np.maximum.reduceat(log_ratio, samples.starts)[samples.owners]
    both = np.column_stack([np.exp(log_ratio - log_peak), np.abs(samples.table)])
    unit = np.maximum(samples.averages(both)[samples.owners], np.finfo(float).tiny)
    ratio, *values = np.mean((both / unit)[top], axis=0)  # over that of all points
    return bool(ratio > LARGE_RATIO and np.max(values) < 1.0)


def reach(samples: Samples) -> float:
    """The share of the points that is left by their weights under their measures q, averaged over thetas.

    Of points from r it is 1 / E w, w = q / r, under q, by a rule that sees tails which the points may have missed. If r
    is not known any more, it is the effective size of the points.
    """
    if samples.log_weights is None:
        return 1.0
    q, r = samples.measures, samples.proposals
    try:
        if r is not None:
            return float(np.mean([_share(q[t], r[t]) for t in evenly(samples.T, MAX_THETAS)]))
    except NotImplementedError:  # a measure of a user's own, without a transport
        pass
    return float(np.mean(effective_sizes(samples.log_weights, samples.starts) / samples.counts))


def _share(q: Measure, r: Measure) -> float:
    """1 / E w, w = q / r, under q."""
    from scipy.stats.qmc import Halton  # slow to import

    v = ndtri(Halton(q.dim, scramble=False).random(RULE + 1)[1:])  # the first point is 0
    x = q.transport(v, "normal")
    log_w = np.minimum(log_density(q, x) - log_density(r, x), LARGEST_LOG_RATIO)
    return float(1.0 / np.mean(np.exp(log_w)))


def _power(log: float) -> str:
    """exp(log) for people, also beyond float64."""
    return f"{np.exp(log):.2g}" if log < LARGEST_LOG_RATIO else "more than 1e130"
