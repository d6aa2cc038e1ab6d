"""Weights of importance sampling, in logarithms, and the strata that their points come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq.common import Array, Booleans, Integers
from cbq.measures import Measure, Unnormalised
from cbq.samples import Samples, effective_size


def log_proposal(samples: Samples, *, mixture: bool) -> Array:
    """The log density (n,) that each point was drawn with: of its own measure, or of the mixture of all measures.

    Where points were drawn from proposals, these are the measures.
    """
    log_q = _log_mixture(samples) if mixture else samples.log_density()
    if samples.log_weights is not None and not mixture:
        log_q = log_q - samples.log_weights
    if not np.all(np.isfinite(log_q)):
        i = int(np.argmin(np.isfinite(log_q)))
        raise ValueError(
            f"importance sampling divides by the density of each point, but that of point {i} of all, of theta index "
            f"t = {samples.owners[i]}, is infinite: leave the point out."
        )
    return log_q


def _log_mixture(samples: Samples) -> Array:
    """The log density (n,) of all points under sum_t (N_t / n) q_t, with q_t the measure or the proposal of theta t."""
    observed = samples.proposals or samples.measures  # once: a batch makes new objects each time
    if samples.log_weights is not None and samples.proposals is None:
        raise ValueError(
            "the points were drawn from a proposal that is not known any more, since a file keeps their weights alone: "
            "pass kind='plain' or 'self-normalised', or samples with their proposal."
        )
    shares: dict[int, float] = {}
    for measure, count in zip(observed, samples.counts, strict=True):  # thetas may share a measure
        shares[id(measure)] = shares.get(id(measure), 0.0) + count / samples.n_evaluations
    measures = {id(measure): measure for measure in observed}
    log_q = np.full(samples.n_evaluations, -np.inf)
    for name, share in shares.items():
        log_q = np.logaddexp(log_q, np.log(share) + measures[name].logpdf(samples.all_points))
    return log_q


def log_density(measure: Measure, theta: Array, points: Array) -> Array:
    """The log density (n,) of points (n, d) under the measure at theta (p,), or an error if it is not fully known."""
    if any(isinstance(part, Unnormalised) for part in measure.factors()):
        raise _no_density(measure, theta, "it is known up to a constant only")
    try:
        with np.errstate(over="ignore"):  # far out in a tail the density is zero
            return measure.logpdf(points)
    except TypeError as error:
        raise _no_density(measure, theta, str(error).rstrip(".")) from error


def _no_density(measure: Measure, theta: Array, why: str) -> ValueError:
    return ValueError(
        f"importance sampling needs the density of x, but {measure!r}, the measure at theta = {theta}, has none that "
        f"can be used: {why}. Use cbq.CBQ or cbq.KLSMC, which need no density."
    )


@dataclass(frozen=True, eq=False)
class Supports:
    """The supports of the measures that points were drawn from: boxes between lower and upper, both (T, d).

    together: the points of all thetas serve one measure, so that the union of the boxes has to cover its support. That
    is checked along each coordinate, which is exact for d = 1.
    """

    theta: Array
    lower: Array
    upper: Array
    together: bool

    @classmethod
    def of(cls, theta: Array, measures: Sequence[Measure], *, together: bool) -> Supports:
        """The supports of the measures at theta (T, p)."""
        lower, upper = (np.stack(ends) for ends in zip(*(measure.support for measure in measures), strict=True))
        return cls(theta, lower, upper, together)

    def reach(self, measure: Measure) -> bool:
        """Whether the points can be anywhere in the support of the measure."""
        return not np.any(self._missed(measure))

    def require(self, measure: Measure, theta: Array) -> None:
        """Raise unless they cover the support of the measure at theta (p,)."""
        missed = self._missed(measure)
        if not np.any(missed):
            return
        t, j = np.argwhere(missed)[0]
        low, high = (end[j] for end in measure.support)
        drawn = "the points of all thetas together do not cover it"
        if not self.together:
            drawn = f"those of theta = {self.theta[t]} were drawn from [{self.lower[t, j]:g}, {self.upper[t, j]:g}]"
        raise ValueError(
            f"along coordinate {j} of x the measure at theta = {theta} has the support [{low:g}, {high:g}], but "
            f"{drawn}: the estimate would silently miss the rest. Draw points at a theta whose measure covers it"
            f"{'' if self.together else ', pass kind=' + repr('balance')}, or use cbq.CBQ."
        )

    def _missed(self, measure: Measure) -> Booleans:
        """Which coordinates miss a part of the support of the measure: (T, d), or (1, d) if `together`."""
        lower, upper = measure.support
        if not self.together:
            return np.asarray((lower < self.lower) | (upper > self.upper))
        order = np.argsort(self.lower, axis=0)
        starts = np.take_along_axis(self.lower, order, axis=0)
        reach = np.maximum.accumulate(np.take_along_axis(self.upper, order, axis=0), axis=0)
        gaps = (starts[1:] > reach[:-1]) & (starts[1:] > lower) & (reach[:-1] < upper)
        return np.asarray((lower < starts[:1]) | (upper > reach[-1:]) | np.any(gaps, axis=0, keepdims=True))


@dataclass(frozen=True, eq=False)
class ImportanceWeights:
    """Weights exp(log_unit) * scaled (n,), the largest of `scaled` being 1: no ratio of densities overflows."""

    scaled: Array
    log_unit: float

    @classmethod
    def at(cls, theta: Array, log_p: Array, log_q: Array) -> ImportanceWeights:
        """The weights p / q of points (n,) at theta (p,)."""
        logs = log_p - log_q
        log_unit = float(np.max(logs))
        if log_unit == -np.inf:
            raise ValueError(
                f"all {len(logs)} weights at theta = {theta} are zero: the measure there has no density at any of the "
                f"points. Draw points at a theta that is nearer."
            )
        if not np.isfinite(log_unit):
            bad = int(np.count_nonzero(~(logs < np.inf)))
            raise ValueError(
                f"{bad} of {len(logs)} weights at theta = {theta} are not finite: the density there is infinite at "
                f"some of the points. Leave them out, or predict at another theta."
            )
        return cls(np.exp(logs - log_unit), log_unit)

    @property
    def effective_sample_size(self) -> float:
        """(sum w)^2 / sum w^2."""
        return effective_size(self.scaled)

    def times_unit(self, values: Array, theta: Array) -> Array:
        """exp(log_unit) * values, or an error if that is too large for a double."""
        half = 0.5 * self.log_unit
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            found = np.exp(half) * values * np.exp(half)  # in two steps, so that large and small factors cancel
        if not np.all(np.isfinite(found)):
            raise ValueError(
                f"the weights at theta = {theta} reach exp({self.log_unit:.0f}), and their average is not finite: "
                f"this theta is too far from the observed ones. Draw points nearer to it, or pass kind='balance'."
            )
        return np.asarray(found)


@dataclass(frozen=True, eq=False)
class Strata:
    """Groups of points: `order` (n,) lists the points group by group, `counts` (G,) their numbers."""

    order: Integers
    counts: Integers

    @classmethod
    def of(cls, counts: Integers) -> Strata:
        """One stratum for each theta, from the N_t (T,); thetas with one point share a stratum.

        If there is one such theta only, it joins the smallest of the others.
        """
        label = np.arange(len(counts))
        lone = counts == 1
        if np.count_nonzero(lone) == 1 and len(counts) > 1:
            lone[np.argmin(np.where(lone, np.iinfo(np.intp).max, counts))] = True
        label[lone] = np.argmax(lone)
        owners = np.repeat(label, counts)
        return cls(np.argsort(owners, kind="stable"), np.unique(owners, return_counts=True)[1])

    @classmethod
    def whole(cls, n: int) -> Strata:
        """All n points in one."""
        return cls(np.arange(n), np.array([n]))

    @property
    def df(self) -> int:
        """The degrees of freedom of a variance within strata."""
        return int(np.sum(self.counts) - len(self.counts))

    def errors(self, terms: Array) -> Array:
        """Numbers (n,) whose squares sum to the variance of the mean of `terms` (n,)."""
        terms, n = terms[self.order], len(terms)
        starts = np.cumsum(self.counts) - self.counts
        means = np.add.reduceat(terms, starts) / self.counts
        factors = np.sqrt(self.counts / np.maximum(self.counts - 1, 1)) / n
        return np.asarray((terms - np.repeat(means, self.counts)) * np.repeat(factors, self.counts))
