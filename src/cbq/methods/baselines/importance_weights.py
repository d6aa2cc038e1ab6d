"""Weights of importance sampling, in logarithms, and the strata that their points come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers
from cbq.measures import Measure, Unnormalised
from cbq.samples import Samples


def log_proposal(samples: Samples, *, mixture: bool) -> Array:
    """The log density (n,) that each point was drawn with: of its own measure, or of the mixture of all measures."""
    log_q = _log_mixture(samples) if mixture else samples.log_density()
    if not np.all(np.isfinite(log_q)):
        i = int(np.argmin(np.isfinite(log_q)))
        raise ValueError(
            f"importance sampling divides by the density of each point, but that of point {i} of all, of theta index "
            f"t = {samples.owners[i]}, is infinite: leave the point out."
        )
    return log_q


def _log_mixture(samples: Samples) -> Array:
    """The log density (n,) of all points under sum_t (N_t / n) p_t."""
    shares: dict[int, float] = {}
    for measure, count in zip(samples.measures, samples.counts, strict=True):  # thetas may share a measure
        shares[id(measure)] = shares.get(id(measure), 0.0) + count / samples.n_evaluations
    measures = {id(measure): measure for measure in samples.measures}
    log_q = np.full(samples.n_evaluations, -np.inf)
    for name, share in shares.items():
        log_q = np.logaddexp(log_q, np.log(share) + measures[name].logpdf(samples.all_points))
    return log_q


def log_density(measure: Measure, theta: Array, points: Array) -> Array:
    """The log density (n,) of points (n, d) under the measure at theta (p,), or an error if it is not fully known."""
    why = "it is known up to a constant only" if any(isinstance(f, Unnormalised) for f in measure.factors()) else ""
    try:
        if not why:
            with np.errstate(over="ignore"):  # far out in a tail the density is zero
                return measure.logpdf(points)
    except TypeError as error:
        why = str(error).rstrip(".")
    raise ValueError(
        f"importance sampling needs the density of x, but {measure!r}, the measure at theta = {theta}, has none that "
        f"can be used: {why}. Use cbq.CBQ or cbq.KLSMC, which need no density."
    )


@dataclass(frozen=True, eq=False)
class Supports:
    """The supports of the measures that points were drawn from: boxes between lower and upper, both (T, d).

    together: the points of all thetas serve one measure, so that their union has to cover its support.
    """

    theta: Array
    lower: Array
    upper: Array
    together: bool

    @classmethod
    def of(cls, theta: Array, measures: Sequence[Measure], *, together: bool) -> Supports:
        """The supports of the measures at theta (T, p)."""
        lower, upper = (np.stack(ends) for ends in zip(*(measure.support for measure in measures), strict=True))
        if together:
            lower, upper = np.min(lower, axis=0, keepdims=True), np.max(upper, axis=0, keepdims=True)
        return cls(theta, lower, upper, together)

    def reach(self, measure: Measure) -> bool:
        """Whether the points can be anywhere in the support of the measure."""
        return not np.any(self._beyond(measure))

    def require(self, measure: Measure, theta: Array) -> None:
        """Raise unless they cover the support of the measure at theta (p,)."""
        beyond = self._beyond(measure)
        if not np.any(beyond):
            return
        t, j = np.argwhere(beyond)[0]
        whose = "the points of all thetas" if self.together else f"those of theta = {self.theta[t]}"
        low, high = (end[j] for end in measure.support)
        raise ValueError(
            f"along coordinate {j} of x the measure at theta = {theta} has the support [{low:g}, {high:g}], but "
            f"{whose} were drawn from [{self.lower[t, j]:g}, {self.upper[t, j]:g}]: the estimate would silently miss "
            f"the rest. Draw points at a theta whose measure covers it"
            f"{'' if self.together else ', pass kind=' + repr('balance')}, or use cbq.CBQ."
        )

    def _beyond(self, measure: Measure) -> Array:
        """Which boxes end inside the support of the measure, along each coordinate: (T, d)."""
        lower, upper = measure.support
        return np.asarray((lower < self.lower) | (upper > self.upper))


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
        return float(np.sum(self.scaled) ** 2 / np.sum(self.scaled**2))

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
    """Groups of points, each drawn from one measure: those of stratum g are order[starts[g]:][:counts[g]]."""

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
