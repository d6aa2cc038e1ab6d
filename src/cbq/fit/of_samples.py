"""Findings that samples alone show, before any estimator sees them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from cbq._arrays import Array, Booleans, Integers, evenly
from cbq.fit.findings import Finding, for_some
from cbq.fit.heavy_tails import heavy_coordinates
from cbq.samples import Samples
from cbq.samples.arrays import equal_rows, shown_bounds
from cbq.samples.enumerated import Enumerated
from cbq.samples.findings import in_brief

POINTS_PER_COORDINATE = 5  # of all thetas together, at least, for each coordinate of x and of theta
MIN_EQUAL = 4  # points of a theta
EQUAL = 1e-9  # a range of values, in units of that over all thetas, up to which they are equal
HEAVY_SHARE = 1.45  # of the outermost points in the variance of f, see `outer_share`
GROWTH, USUAL_N = 0.3, 30  # that of a square grows with (N / 30)^0.3, relative to that of a linear function
TAILS_SHARE, MIN_FOR_TAILS = 1.3, 25  # a share that is worth a warning by itself, with so many points at a theta
STRONG = 0.2  # autocorrelation
STANDARD_ERRORS = 4.0  # beyond those of points in random order: a false alarm in less than one of 1000 fits
MIN_IN_ORDER, MAX_IN_ORDER = 4, 500  # points of a theta whose order is looked at
MAX_COLUMNS = 1000  # coordinates of all thetas whose order is looked at
MIN_REPEATED = 3  # points in a row


def few_thetas(samples: Samples) -> tuple[Finding, ...]:
    """A finding where there are too few thetas to learn I between them."""
    found = len(np.unique(samples.theta, axis=0))
    least = (samples.p + 1) * (samples.p + 2)  # twice the number of coefficients of a quadratic
    if found >= least:
        return ()
    thetas = "1 theta says" if found == 1 else f"{found} thetas say"
    text = f"{thetas} little about I elsewhere: for p = {samples.p}, {least} or more are needed."
    return (Finding("few thetas", text),)


def few_points_each(samples: Samples, counts: Integers) -> tuple[Finding, ...]:
    """A finding where most thetas use too few points, counts (T,), to learn f at a theta.

    Of points that were chosen by a rule, the quadrature is then no better than their average.
    """
    least = samples.d + 2  # a plane has d + 1 coefficients
    few = int(np.count_nonzero(counts < least))
    if 2 * few <= samples.T:
        return ()
    text = f"{few} of {samples.T} thetas have fewer than {least} points, which is few to learn f in d = {samples.d}"
    if samples.design != "adaptive":
        return (Finding("few points", f"{text}."),)
    biased = "and some were chosen by a rule: quadratures are as biased as averages."
    return (Finding("chosen points", f"{text}, {biased}"),)


def few_points_together(samples: Samples) -> tuple[Finding, ...]:
    """A finding where the points of all thetas together are too few to learn f."""
    inputs = samples.d + samples.p * samples.depends_on_theta
    least = POINTS_PER_COORDINATE * inputs
    if samples.n_evaluations >= least:
        return ()
    of = f"{inputs} input{'s' * (inputs > 1)}"
    text = f"{samples.n_evaluations} points are few to learn f of {of}: {least} or more are needed."
    return (Finding("few points", text),)


def all_equal(samples: Samples) -> bool:
    """Whether no output has two different values, so that nothing has been seen of how f varies."""
    f = samples.table
    return samples.n_evaluations >= MIN_EQUAL and bool(np.all(np.min(f, axis=0) == np.max(f, axis=0)))


def unseen_points(samples: Samples) -> int | None:
    """How many points, of a theta or of an adaptive run, have seen one value of f; None where f is known to vary.

    An output that is constant beside others is meant to be so, and the values at all atoms of a measure are all of f.
    """
    if not all_equal(samples) or np.all(Enumerated.of(samples.merged()[0]).thetas):
        return None
    if samples.design == "adaptive":
        return samples.n_evaluations
    several = samples.counts[samples.counts >= MIN_EQUAL]
    return int(np.min(several)) if len(several) else None


def missed_variance(distance: float | Array, N: int | Integers) -> Array:
    """The variance of an integral of equal values at N points, which an event may move by up to a distance.

    An event of probability q is missed by N points with probability (1 - q)^N, so that q has the distribution
    Beta(1, N + 1) of a flat prior, and the event moves the integral by q times the distance.
    """
    return np.asarray(2.0 * np.square(distance) / ((N + 2) * (N + 3)))


def equal_values(samples: Samples) -> tuple[Finding, ...]:
    """A finding where all values of an output are equal at some thetas that have several points, or at all points.

    An output that is constant at all points, while others vary, is taken for one that is so by definition, such as the
    net benefit of a decision of reference.
    """
    f, several = samples.table, samples.counts[:, None] >= MIN_EQUAL
    low, high = (extreme.reduceat(f, samples.starts, axis=0) for extreme in (np.minimum, np.maximum))
    rounding = EQUAL * (np.max(high, axis=0) - np.min(low, axis=0))
    thetas = np.sum((high - low <= rounding) & several, axis=0)  # (C,)
    if np.any(rounding > 0):
        thetas[rounding == 0] = 0
    if samples.design == "adaptive" and all_equal(samples):
        text = f"all values of f are equal: {samples.n_evaluations} points do not exclude other values between them."
        return (Finding("equal values", text + _infinite(samples)),)
    if not np.any(thetas):
        return ()
    most = f"{np.max(thetas)} of {samples.T} thetas"
    where = most if samples.C is None else f"up to {most}, for {np.count_nonzero(thetas)} of its {samples.C} outputs"
    n = int(np.max(samples.counts))
    likely = "" if samples.design == "adaptive" else f" that have a probability of up to {min(1.0, 3 / n):.2g}"
    text = f"all values of f are equal at {where}: {n} points do not exclude other values{likely}."
    return (Finding("equal values", text + _infinite(samples)),)


def _infinite(samples: Samples) -> str:
    """A sentence where nothing limits the values that f may have elsewhere."""
    bounds = samples.known_bounds
    if unseen_points(samples) is None or (bounds is not None and np.all(np.isfinite(bounds))):
        return ""
    return " Nothing limits these: without bounds of f, intervals are infinite."


def carried(samples: Samples) -> tuple[Finding, ...]:
    """The findings that the samples carry, one of each kind."""
    kinds = dict.fromkeys(each.kind for each in samples.findings)
    return tuple(Finding(kind, in_brief(samples.findings, kind, samples.T)) for kind in kinds)


def contradicted_measures(samples: Samples) -> tuple[Finding, ...]:
    """A finding where points do not look like draws from their measures, unless they are an undeclared Markov chain."""
    if samples.measure_contradiction is None or chains(samples):
        return ()
    return (Finding("measures", samples.measure_contradiction),)


def shared_design(samples: Samples) -> tuple[Finding, ...]:
    """A finding where thetas share points, for estimators that average errors over thetas."""
    if not samples.shares_design:
        return ()
    uses = min(samples.T, max(2, round(samples.thetas_per_point)))
    which = "all" if uses == samples.T else f"about {uses} of"
    text = (
        f"{which} {samples.T} thetas have the same points, in the coordinates of their measures, so that their errors "
        f"are alike and do not average out over thetas: intervals may be too short."
    )
    return (Finding("shared design", text),)


def contradicted_bounds(samples: Samples) -> tuple[Finding, ...]:
    """A finding where averages of draws of a random f contradict its bounds, which are then not used."""
    found = samples.bounds_contradictions
    if not found or samples.bounds is None:
        return ()
    first, names, outputs = found[0], samples.names, len({each.output for each in found})
    limit = samples.bounds[first.end, first.output]
    where = names.ranges("theta", samples.theta[samples.owners[first.rows]])
    text = (
        f"draws of f contradict its bounds {shown_bounds(samples.bounds)}{for_some(outputs, samples.C or 1)}: the "
        f"average of {len(first.rows)} of them, at {where}, is {first.average:.4g}, by more than chance "
        f"{'above' if first.end else 'below'} {limit:.4g}. Estimates do not use the bounds that are contradicted."
    )
    return (Finding("bounds", text),)


def tails(samples: Samples) -> tuple[Finding, ...]:
    """A finding where the outermost points of the thetas have a large share in the variance of some output."""
    if np.mean(samples.counts) < MIN_FOR_TAILS or not samples.drawn:
        return ()
    f = samples.table
    unit = np.maximum(np.max(np.abs(f), axis=0), np.finfo(float).tiny)
    varies = samples.averages(np.abs(f - samples.averages(f)[samples.owners]) / unit) > EQUAL
    scaled = samples.rescaled(0.0, unit)
    if not any(np.any(outer_share(scaled, outer, varies) > TAILS_SHARE) for outer in outermost_sets(samples)):
        return ()
    text = (
        "f varies most at the outermost points: what lies beyond them, in the tails of the measures, is unknown. "
        "Intervals are not widened because of it."
    )
    return (Finding("tails", text),)


def outer_share(samples: Samples, outer: Booleans, varies: Array | Booleans) -> Array:
    """The share (C,) of the outermost points in the variance of f at the thetas at which it varies (T, C).

    In units of that of a linear function of normal inputs, and of how much larger that of a square is with N points
    than with a usual number.
    """
    apart2 = (samples.table - samples.averages(samples.table)[samples.owners]) ** 2
    there, everywhere = samples.averages(apart2 * outer[:, None]), samples.averages(apart2)  # (T, C)
    shares = np.divide(there, everywhere, out=np.zeros_like(there), where=everywhere > 0)
    shares /= linear_shares(samples.counts, samples.averages(outer.astype(np.float64)))[:, None]
    share = np.sum(varies * shares, axis=0) / np.maximum(np.sum(varies, axis=0), np.finfo(float).tiny)
    return np.asarray(share / (float(np.mean(samples.counts)) / USUAL_N) ** GROWTH)


def linear_shares(counts: Integers, parts: Array) -> Array:
    """The share (T,) of the variance of a linear function of one normal input that its outermost points have.

    counts: (T,), the numbers N of points. parts: (T,), which part of them are outermost in some coordinate.
    """
    found = np.ones(len(counts))
    for N in np.unique(counts[counts > 2]):
        scores2 = ndtri((np.arange(1, N + 1) - 0.375) / (N + 0.25)) ** 2  # near the expected order statistics
        own = 2 * scores2[0] / np.sum(scores2)
        others = np.maximum(parts[counts == N] * N - 2, 0.0) / (N - 2)  # those of other coordinates are any points
        found[counts == N] = own + (1 - own) * others
    return found


def outermost_sets(samples: Samples) -> list[Booleans]:
    """Sets of points (n,) that are outermost in any coordinate, and in each coordinate with heavy tails by itself.

    Among several coordinates, the points that are outermost in the others would hide those of a heavy one.
    """
    heavy = heavy_coordinates(samples) if samples.d > 1 else []
    return [outermost(samples), *(outermost(samples, j) for j in heavy)]


def outermost(samples: Samples, j: int | None = None) -> Booleans:
    """Which of the points (n,) are the largest or the smallest of their theta in any coordinate, or in coordinate j."""
    found = np.zeros(samples.n_evaluations, dtype=bool)
    for t in range(samples.T):
        x = samples.points(t) if j is None else samples.points(t)[:, j : j + 1]
        found[samples.starts[t] + np.argmax(x, axis=0)] = True
        found[samples.starts[t] + np.argmin(x, axis=0)] = True
    return found


def chains(samples: Samples) -> tuple[Finding, ...]:
    """A finding where points that are said to be iid look like a Markov chain.

    Either more points than by chance repeat the one before them with its value, as chains do where a proposal is
    rejected; or, in the ranks of their coordinates, points are more like the one before them than points in random
    order are. Points that are sorted by a coordinate, such as grids, tell nothing by their order. Equal points in a row
    whose values differ are replicates of a random f, and count once.
    """
    if samples.design != "iid":
        return ()
    x, f, owners = samples.all_points, samples.table, samples.owners
    repeats = np.all(x[1:] == x[:-1], axis=1) & (owners[1:] == owners[:-1])
    same = int(np.count_nonzero(repeats & np.all(f[1:] == f[:-1], axis=1)))
    if same >= MIN_REPEATED and same > _by_chance(samples):
        text = f"{same} of {len(x)} points repeat the one before them, as in a Markov chain, but the design is 'iid'."
        return (Finding("chains", text),)
    first = np.concatenate([[True], ~repeats])
    order = _order(x[first], owners[first])
    if order is None:
        return ()
    text = f"the points of a theta follow each other with an autocorrelation of {order:.2f}, but the design is 'iid'."
    return (Finding("chains", text),)


def _by_chance(samples: Samples) -> float:
    """How often a point may repeat the one before it in random order, where some points of a theta are equal."""
    _, group = equal_rows(np.column_stack([samples.owners, samples.all_points]))
    expected = np.sum((np.bincount(group)[group] - 1) / samples.counts[samples.owners])
    return float(expected + STANDARD_ERRORS * np.sqrt(expected))


def _order(x: Array, owners: Integers) -> float | None:
    """The autocorrelation of the ranks of points (n, d) of each theta, if it is strong; None if it may be chance."""
    counts = np.bincount(owners)
    starts = np.cumsum(counts) - counts
    for N in np.unique(counts[counts >= MIN_IN_ORDER]):
        thetas = np.flatnonzero(counts == N)
        some = thetas[evenly(len(thetas), max(1, MAX_COLUMNS // x.shape[1]))]
        points = x[starts[some][:, None] + np.arange(min(int(N), MAX_IN_ORDER))]  # (m, N, d)
        steps = np.diff(points, axis=1)
        is_sorted = np.any(np.all(steps >= 0, axis=1) | np.all(steps <= 0, axis=1), axis=1)
        found = _autocorrelation([_ranks(column) for each in points[~is_sorted] for column in each.T])
        if found is not None:
            return found
    return None


def _ranks(values: Array) -> Array:
    """Twice the ranks of values (N,), those of equal ones averaged, less their mean."""
    ordered = np.sort(values)
    ranks = np.searchsorted(ordered, values) + np.searchsorted(ordered, values, side="right")
    return ranks.astype(np.float64) - len(values)


def _autocorrelation(columns: Sequence[Array]) -> float | None:
    """The autocorrelation of centred columns (N,) at lag one, all together, if it is strong and not chance.

    The sum over columns z of z_i z_i+1 is that of G_i,i+1, for G = sum z z'. It is compared with its mean and variance
    over all orders of the rows, which have closed forms, and hold where columns depend on each other, as they do where
    the points of all thetas come from the same random numbers.
    """
    if not columns:
        return None
    z = np.stack(columns, axis=1)
    G, N = z @ z.T, len(z)
    total, pairs = float(np.trace(G)), N * (N - 1)
    g = G + total / pairs  # less the mean of its pairs, as all of G adds up to zero
    np.fill_diagonal(g, 0.0)
    value = float(np.sum(np.diagonal(g, 1)))
    squares = float(np.sum(g * g))  # of g_ab
    chained = float(np.sum(np.sum(g, axis=1) ** 2)) - squares  # the sum of g_ab g_bc
    variance = max((N - 3) * squares - 2 * chained, 0.0) / pairs  # the sum of g_ab g_cd is -2 squares - 4 chained
    strong = value > STRONG * total and value > STANDARD_ERRORS * np.sqrt(variance)
    return value / total if strong else None
