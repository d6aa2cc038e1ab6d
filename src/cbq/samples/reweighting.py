"""Integrals of f under P_theta as integrals of f p / q under a user's measure q.

I = E f(X), X ~ P, is also E f(X) p(X) / q(X), X ~ q. Quadrature then needs integrals of kernels under q only. The
product f p / q must be as easy to learn under q as f is under P: bounded, and known wherever q has mass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from cbq.common import Array, evenly
from cbq.linalg.lapack import cholesky, eigh, solve_lower
from cbq.measures import Measure
from cbq.samples.arrays import MIN_EFFECTIVE_SIZE, effective_sizes
from cbq.samples.bounds import signs
from cbq.samples.conditional import ConditionalMeasure, check_ratio, log_density
from cbq.samples.findings import SamplesFinding

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

LARGEST_LOG_RATIO = 300.0  # so that f p / q stays within float64
BULK = np.arange(0.0, 4.25, 0.5)  # radii in coordinates in which P is standard normal
TAIL = np.array([4.0, 5.5, 7.0])  # radii: the last has a tail probability of 1e-12
STEADY = 0.5  # least growth of an unbounded ratio over a step in the tail, relative to the step before
NOTABLE = 1e-3  # growth of a log ratio over a step
MIN_REACH = 0.9  # smallest share of effective points under q
TENTH, LARGE_RATIO = 10, 2.0  # the largest ratios, a tenth of the points; their mean is large, over the mean of all
RULE = 256  # nodes, for the reach of the points
MAX_THETAS = 50  # thetas whose tails are tested


def reweighted(samples: Samples, q: Any) -> Samples:
    """The samples of f p / q with the measure q; see `Samples.reweighted`."""
    target = ConditionalMeasure.of(q, samples.theta, samples.d, "q")
    if samples.conditional.equals(target):
        known = replace(samples.conditional, family=target.family or samples.family)
        return samples._replaced(conditional=known)
    for t in range(samples.T):
        check_ratio(samples.measure(t), target.observed_at(t), "q", samples.theta[t], samples.points(t)[:1])
    ratio = samples.log_density() - target.log_density(samples.x)
    rule = f"must have densities under its measure and q whose ratio is below exp({LARGEST_LOG_RATIO:g})"
    samples._require_none(~np.isfinite(ratio) | (ratio > LARGEST_LOG_RATIO), "x", samples.all_points, rule)
    source = samples.conditional if samples.log_weights is None else samples._proposal
    if samples.design == "adaptive" or (source is not None and source.equals(target)):
        source, weights = None, None
    else:
        weights = (0.0 if samples.log_weights is None else samples.log_weights) - ratio
    new = samples._replaced(
        _f=np.exp(ratio).reshape(-1, *(1,) * (samples._f.ndim - 1)) * samples._f,
        conditional=target,
        depends_on_theta=samples.depends_on_theta or samples.conditional.varies or target.varies,
        bounds=None if samples.bounds is None else signs(samples.bounds),
        _proposal=source,
        log_weights=weights,
    )
    hard = ratio_warning(samples, new, ratio)
    others = tuple(finding for finding in samples.findings if finding.kind != "ratio")
    return new._replaced(findings=others if hard is None else (*others, SamplesFinding("ratio", hard)))


def largest_growth(measures: tuple[Measure, ...], q: tuple[Measure, ...]) -> tuple[float, int] | None:
    """The largest log ratio in the tails of an unbounded p / q, with its theta index; None if all are bounded."""
    rows = evenly(len(measures), MAX_THETAS)
    try:
        growths = [(growth, int(t)) for t in rows if (growth := unbounded_log_ratio(measures[t], q[t])) is not None]
    except NotImplementedError:  # a measure of a user's own, whose tails cannot be found
        return None
    return max(growths, default=None)


def unbounded_log_ratio(measure: Measure, q: Measure) -> float | None:
    """The log of p / q where the tail probability of P is 1e-12, if p / q still grows there; None if it does not.

    The ratio is evaluated along rays from the centre of P, in coordinates in which P is standard normal. For two
    Gaussians it is a product of functions of one coordinate along these rays, so that none is missed. If the growth
    slows down, the ratio is bounded; growth up to values in the bulk of P does no harm.
    """
    rays = _rays(measure, q)
    bulk, tail = (_log_ratios(measure, q, radii, rays) for radii in (BULK, TAIL))  # (R, D) each
    with np.errstate(invalid="ignore"):
        first, second = np.diff(tail, axis=0)
        grows = (second > np.maximum(STEADY * first, NOTABLE)) & (first > 0) & (tail[-1] > np.max(bulk, axis=0))
        grows |= tail[-1] == np.inf  # the density of q is 0 there, by rounding
    return float(np.max(tail[-1][grows])) if np.any(grows) else None


def _rays(measure: Measure, q: Measure) -> Array:
    """Unit directions (D, d): along the coordinates, and along the joint axes of two Gaussians, both ways."""
    axes = np.eye(measure.dim)
    directions = axes if measure.dim == 1 else np.concatenate([axes, _joint_axes(measure, q)])
    return np.concatenate([directions, -directions])


def _joint_axes(measure: Measure, q: Measure) -> Array:
    """The principal axes (d, d) of q where P has been whitened; none, (0, d), where a covariance is not known."""
    try:
        own, other = measure.moments()[1], q.moments()[1]
        L = cholesky(own)
        return eigh(solve_lower(L, solve_lower(L, other).T))[1].T  # of L^-1 other L^-T
    except (ValueError, NotImplementedError):  # infinite or unknown covariance
        return np.empty((0, measure.dim))


def _log_ratios(measure: Measure, q: Measure, radii: Array, rays: Array) -> Array:
    """log p - log q at the radii (R,) along the rays (D, d): (R, D); NaN beyond float64."""
    v = radii[:, None, None] * rays
    with np.errstate(all="ignore"):
        x = measure.transport(v.reshape(-1, measure.dim), "normal")
        inside = np.all(np.isfinite(x), axis=1)
        ratios = np.full(len(x), np.nan)
        ratios[inside] = measure.logpdf(x[inside]) - q.logpdf(x[inside])
    return ratios.reshape(len(radii), len(rays))


def ratio_warning(samples: Samples, reweighted: Samples, log_ratio: Array) -> str | None:
    """Why the integrals of f p / q under q may be inaccurate, in whole sentences; None if there is no reason.

    log_ratio : (n,), log p - log q at all points of the samples.
    """
    said = []
    grows = not _compensated(reweighted, log_ratio)
    if grows and (growth := largest_growth(samples.measures, reweighted.measures)) is not None:
        largest, t = growth
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
            f"The points were drawn from measures with lighter tails than q, so that f p / q is unknown in the tails "
            f"of q: on average, they are worth {share:.2g} times as many points of q. Intervals may be too narrow."
        )
    return " ".join(said) or None


def _compensated(samples: Samples, log_ratio: Array) -> bool:
    """Whether small f compensates large p / q, as a likelihood f does for q near the posterior."""
    top = np.zeros(samples.n_evaluations, dtype=bool)
    for start, count in zip(samples.starts, samples.counts, strict=True):
        order = np.argsort(log_ratio[start : start + count])
        top[start + order[count - max(1, count // TENTH) :]] = True
    log_peak = np.maximum.reduceat(log_ratio, samples.starts)[samples.owners]
    both = np.column_stack([np.exp(log_ratio - log_peak), np.abs(samples.table)])
    unit = np.maximum(samples.averages(both)[samples.owners], np.finfo(float).tiny)
    ratio, *values = np.mean((both / unit)[top], axis=0)  # relative to all points
    return bool(ratio > LARGE_RATIO and np.max(values) < 1.0)


def reach(samples: Samples) -> float:
    """The effective share of the points under their measures q, averaged over thetas.

    For points from r it is 1 / E w, w = q / r, under q, by a quadrature rule, which covers tails that the points may
    miss. If r is unknown, it is the effective size of the points over their number.
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
    """exp(log) as text, also beyond float64."""
    return f"{np.exp(log):.2g}" if log < LARGEST_LOG_RATIO else "more than 1e130"
