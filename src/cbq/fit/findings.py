"""Findings about a fit that a user should read, each of a kind that has a remedy, and the warnings that they raise.

Findings about samples alone, which no estimator has seen, are here; `heavy_tails` has the ones about tails.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cbq.common import Array, Integers, evenly
from cbq.io import Text, saved
from cbq.samples import Enumerated, Samples, equal_rows, in_brief, shown_bounds

# Each kind of finding, and what to do about it. docs/guide/warnings.md explains how each is found.
KINDS = {
    "failures": "Make f return a value at all points, or define I without these points.",
    "measures": (
        "Check measure= and the order of theta and x; pass proposal= if the points were drawn from other measures, or "
        "design='adaptive' if a rule chose them."
    ),
    "noise": "If f is a random simulator, pass stochastic=True to cbq.Problem or cbq.Samples.",
    "dependence": "Pass depends_on_theta=True to cbq.Problem or cbq.Samples.",
    "bounds": "Correct bounds= of cbq.Problem or cbq.Samples; for a random f, they bound its mean.",
    "equal values": "Take more points there, or points where f is expected to differ; pass bounds= if f has them.",
    "tails": "Take more points, or points from a wider distribution that reach the tails: proposal=... in collect.",
    "ratio": "Pass a wider q to samples.reweighted, and take the points from it: proposal=q in collect.",
    "leave-one-out": "Take more thetas, or compare with other estimators: cbq.compare(samples).",
    "few points": "Take more points per theta, or fewer thetas with more points each.",
    "few thetas": "Take more thetas, if need be with fewer points each.",
    "convergence": "Run longer or more chains.",
    "chains": "Pass design='mcmc' if the points are a Markov chain, and thin it: samples.thinned(n).",
    "chosen points": "Use cbq.MOBQ(), which learns f from all points, or cbq.CBQ() with several points at each theta.",
    "shared design": "Draw other points for each theta (in collect, scramble='independent'), or take more points.",
    "beyond": "Collect samples there, or predict within the range of the observed thetas.",
    "reach": "Make runs where fit.suggest(n) of this fit places them, or ask for measures that the runs cover.",
    "not learnt": "Take more points, or try cbq.CBQ() or cbq.LSMC().",
    "kernel": "Pass a kernel on coordinates of one scale, such as cbq.kernels.Warped(kernel, 'whiten').",
    "rounding": "Pass a rougher kernel_x, or drop points that nearly coincide.",
    "design": "Do nothing if you meant this.",
}
REMARKS = frozenset({"rounding", "design"})  # intervals are as good as without them, so that they raise no warning
PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"

POINTS_PER_COORDINATE = 5  # of all thetas together, at least, for each coordinate of x and of theta, and two besides
MIN_EQUAL = 4  # points of a theta
EQUAL = 1e-9  # a range of values, in units of that over all thetas, up to which they are equal
STRONG = 0.2  # autocorrelation
STANDARD_ERRORS = 4.0  # of points in random order: a false alarm in less than one of 1000 fits
MIN_IN_ORDER, MAX_IN_ORDER = 4, 500  # points of a theta whose order is looked at
MAX_COLUMNS = 1000  # coordinates of all thetas whose order is looked at
MIN_REPEATED = 3  # points in a row


class FitWarning(UserWarning):
    """The intervals of a fit may be unreliable; its summary explains why.

    Examples
    --------
    >>> import warnings
    >>> samples = cbq.problems.get("butterfly").collect(T=3, N=20, rng=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", cbq.FitWarning)
    ...     fit = cbq.LSMC().fit(samples)
    >>> [finding.kind for finding in fit.serious_findings]
    ['few thetas']
    """


@saved("Finding", kind=Text(tuple(KINDS)), text=Text())
@dataclass(frozen=True)
class Finding:
    """A remark or a warning about a fit: a kind, one of `KINDS`, and a text of whole sentences.

    Examples
    --------
    >>> from cbq.fit import Finding
    >>> finding = Finding("few thetas", "3 thetas are too few to learn I elsewhere.")
    >>> finding.remedy
    'Take more thetas, if need be with fewer points each.'
    """

    kind: str
    text: str

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, but it is {self.kind!r}.")

    def __str__(self) -> str:
        return self.text

    @property
    def remedy(self) -> str:
        """What to do about it: a sentence."""
        return KINDS[self.kind]

    @property
    def is_remark(self) -> bool:
        """Whether intervals are as good as without it, so that it raises no warning."""
        return self.kind in REMARKS


def for_some(outputs: int, C: int) -> str:
    """How many of C outputs a finding is about, as a part of its text; empty if there is one output."""
    return f" for {outputs} of {C} outputs" * (C > 1)


def warn_of(findings: Iterable[Finding]) -> None:
    """Raise a `FitWarning` for each kind of finding, which points to the line outside of cbq that called it.

    The message begins with the kind, so that filters can tell the kinds apart.
    """
    texts: dict[str, list[str]] = {}
    for each in findings:
        texts.setdefault(each.kind, []).append(each.text)
    for kind, found in texts.items():
        warnings.warn(f"{kind}: {' '.join(found)} {KINDS[kind]}", FitWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """The `stacklevel` of the innermost line outside of cbq, for a warning that the caller of this function raises."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def dependence_on_theta(samples: Samples, tolerance: float = 1e-6) -> str | None:
    """A sentence on different values of f at the same x and different thetas; None if there are none, or f is random.

    Where f has different values at the same x and theta, it is random, whether it was declared or not.

    tolerance: share of the range of values by which simulators in single precision may differ. Smaller differences are
    the finding "noise".
    """
    if samples.stochastic:
        return None
    f, theta, x = samples.table, samples.theta[samples.owners], samples.all_points

    def apart(inputs: Array) -> tuple[Array, Integers]:
        """How far each value is from the first one at equal inputs, and its row."""
        rows, group = equal_rows(inputs)
        first = rows[group]
        return np.max(np.abs(f - f[first]) / np.maximum(np.ptp(f, axis=0), np.finfo(float).tiny), axis=1), first

    found, first = apart(x)
    j = int(np.argmax(found))
    if found[j] <= tolerance or np.max(apart(np.column_stack([x, theta]))[0]) > tolerance:
        return None
    i, names = int(first[j]), samples.names
    one, other = (f"{_value(f[row])} at {names.at('theta', theta[row])}" for row in (i, j))
    return f"at {names.at('x', x[j])}, f is {one} and {other}"


def _value(f: Array) -> str:
    return f"{f[0]:.6g}" if len(f) == 1 else str(f)


def few_thetas(samples: Samples) -> tuple[Finding, ...]:
    """A finding where there are too few thetas to learn I between them."""
    found = len(np.unique(samples.theta, axis=0))
    least = (samples.p + 1) * (samples.p + 2)  # twice the number of coefficients of a quadratic
    if found >= least:
        return ()
    thetas = "1 theta is" if found == 1 else f"{found} thetas are"
    text = f"{thetas} too few to learn I elsewhere: for p = {samples.p}, {least} or more are needed."
    return (Finding("few thetas", text),)


def unlearnt_over_theta(learnt: bool) -> tuple[Finding, ...]:
    """A finding where the observed thetas do not predict each other."""
    if learnt:
        return ()
    text = (
        "a theta that is left out is predicted from all others hardly better than by their mean: I may vary between "
        "the thetas in ways that they do not show."
    )
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
    least = POINTS_PER_COORDINATE * inputs + 2
    if samples.n_evaluations >= least:
        return ()
    of = f"{inputs} input{'s' * (inputs > 1)}"
    text = f"{samples.n_evaluations} points are few to learn f of {of}: {least} or more are needed."
    return (Finding("few points", text),)


def all_equal(samples: Samples) -> bool:
    """Whether no output has two different values, so that nothing has been seen of how f varies."""
    f = samples.table
    return samples.n_evaluations >= MIN_EQUAL and bool(np.all(np.min(f, axis=0) == np.max(f, axis=0)))


def shows_one_value(samples: Samples) -> bool:
    """Whether all values of f are equal, at points that are not all there are."""
    return all_equal(samples) and not np.all(Enumerated.of(samples.merged()[0]).thetas)


def are_events(values: Array) -> bool:
    """Whether values of f are 0 or 1, and both of them."""
    return bool(np.all((values == 0) | (values == 1)) and np.any(values != values[0]))


def unseen_points(samples: Samples) -> int | None:
    """How many points, of a theta or of an adaptive run, have seen one value of f; None where f is known to vary.

    A theta with few points does not count, unless all have few. An output that is constant beside others is meant to be
    so, and the values at all atoms of a measure are all of f.
    """
    if not shows_one_value(samples):
        return None
    if samples.design == "adaptive":
        return samples.n_evaluations
    most = int(np.max(samples.counts))
    return int(np.min(samples.counts[samples.counts >= min(most, MIN_EQUAL)]))


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
    if all_equal(samples) and (samples.design == "adaptive" or not np.any(several)):
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
    """Twice the ranks of values (N,), averaged over equal ones, less their mean."""
    ordered = np.sort(values)
    ranks = np.searchsorted(ordered, values) + np.searchsorted(ordered, values, side="right")
    return ranks.astype(np.float64) - len(values)


def _autocorrelation(columns: Sequence[Array]) -> float | None:
    """The autocorrelation of centred columns (N,) at lag one, all together, if it is strong and not chance.

    The sum over columns z of z_i z_i+1 is the sum of G_i,i+1, for G = sum z z'. It is compared with its mean and
    variance over all orders of the rows, which have closed forms, and hold where columns depend on each other, as they
    do where the points of all thetas come from the same random numbers.
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
