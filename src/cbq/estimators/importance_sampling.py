"""Importance sampling: values of f at the points of all thetas, weighted by how likely they are at another theta.

Weights are in logarithms; points come from strata, one for each theta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Booleans, Executor, Integers, blocks
from cbq.estimators.base import Compared, Estimator, check_choices, estimator
from cbq.estimators.monte_carlo import Averages, averages
from cbq.estimators.smoothing import rms
from cbq.fit import Finding, Fit, PredictiveDistribution, design_findings, heading, saving_lines, shared_design
from cbq.io import Instance, Numbers, Text, saved
from cbq.measures import Measure, Unnormalised
from cbq.samples import MIN_EFFECTIVE_SIZE, Design, Samples, effective_size

Kind = Literal["plain", "self-normalised", "balance"]
FORMULAS = {
    "plain": "p_theta(x) / p_theta_t(x)",
    "self-normalised": "p_theta(x) / p_theta_t(x), normalised to sum to one",
    "balance": "p_theta(x) / q(x), where q is the mixture of the measures at all observed thetas",
}


@estimator("importance-sampling", title="weighted averages", order=60, compared=[Compared("ImportanceSampling")])
@dataclass(frozen=True)
class ImportanceSampling(Estimator["ImportanceSamplingFit"]):
    """Importance sampling, for f that does not depend on theta. A configuration: `fit` changes nothing.

    With n points in all, drawn from p_t at theta_t, and weights w = p_theta(x) / q(x):

    kind : "plain": I = 1/n sum w f, with the measure q = p_t that each point was drawn from;
        "self-normalised": I = sum w f / sum w, with the same q;
        "balance": I = 1/n sum w f, with the mixture q = sum_t (N_t / n) p_t, which keeps weights small.

    Where points were drawn from proposals in place of their measures, p_t are the proposals.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> fit = cbq.ImportanceSampling(kind="self-normalised").fit(samples)
    >>> bool(fit.effective_sample_size([100.0])[0] > 10)
    True
    """

    kind: Kind = "balance"

    def __post_init__(self) -> None:
        check_choices(self, {"kind": Kind})

    def _fit(self, samples: Samples, pool: Executor | None) -> ImportanceSamplingFit:
        if samples.depends_on_theta:
            raise ValueError(
                "cbq.ImportanceSampling uses values of f from other thetas, but in these samples f depends on theta: "
                "pass depends_on_theta=False if it does not, or use cbq.CBQ."
            )
        for t, measure in enumerate(samples.measures):
            log_density(measure, samples.theta[t], samples.points(t)[:1])
        return ImportanceSamplingFit(samples, log_proposal(samples, mixture=self.kind == "balance"), kind=self.kind)


def _at_least_plain_error(errors: Array, f: Array, size: float) -> Array:
    """Errors (n,) whose squares sum to a variance, at least the variance of `size` values of f where these are few.

    With all the weight on one point, the weighted values cannot differ, and their variance is no error.
    """
    if size >= MIN_EFFECTIVE_SIZE:
        return errors
    least, own = rms(f - f[0] - np.mean(f - f[0])) / np.sqrt(size), rms(errors) * np.sqrt(len(f))
    if own >= least:
        return errors
    return np.full(len(f), least / np.sqrt(len(f)))


def _check_saved(samples: Samples, **_: Any) -> None:
    """Raise if a saved fit has samples that importance sampling cannot use."""
    if samples.depends_on_theta:
        raise ValueError("importance sampling needs samples of an f that does not depend on theta.")


@saved(
    "ImportanceSampling", check=_check_saved, samples=Instance(Samples), log_q=Numbers("n"), kind=Text(get_args(Kind))
)
class ImportanceSamplingFit(Fit):
    """I over theta by importance sampling; see `Fit` for its answers.

    The predictive distribution is Student-t. "plain" and "balance": the points of each theta are a stratum, the
    variance is the sum over strata, and the degrees of freedom are n less the number of strata; thetas with
    one point form a stratum together (a single such theta joins the smallest stratum), which makes the variance a
    little too large. "self-normalised": the delta method on w (f - I), with n - 1 degrees of freedom. The variance is
    estimated with the same weights: where a few points have almost all the weight it is too small, and
    `effective_sample_size` shows it. If that is below five, the variance is at least the one of as many values of f.

    samples : thetas, points and values, with the measure of x at any theta.
    log_q : (n,), the log densities that weights divide by.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> cbq.ImportanceSampling().fit(samples).predict([100.0]).shape
    (1,)
    """

    def __init__(self, samples: Samples, log_q: Array, *, kind: Kind) -> None:
        self.samples, self.log_q, self.kind = samples, log_q, kind
        self.theta, self.C = samples.theta, samples.C
        self._strata = Strata.whole(samples.n_evaluations) if kind == "self-normalised" else Strata.of(samples.counts)
        self._supports = Supports.of(samples.theta, samples.measures, together=kind == "balance")

    @property
    def design(self) -> Design:
        """How the points were drawn."""
        return self.samples.design

    @property
    def averages(self) -> Averages:
        """The plain averages of f at each theta."""
        return averages(self.samples)

    @property
    def correlation(self) -> Array:
        return self.averages.correlation

    def _findings_about(self, samples: Samples) -> tuple[Finding, ...]:
        return (*super()._findings_about(samples), *shared_design(samples))

    def _findings(self) -> tuple[Finding, ...]:
        return design_findings(self.design)

    def effective_sample_size(self, theta: npt.ArrayLike) -> Array:
        """The number of points of equal weight that the points are worth at theta, (sum w)^2 / sum w^2: (M,)."""
        thetas = self._thetas(theta)
        measures = self.samples.conditional(thetas)
        return np.array([self._weights(*each).effective_sample_size for each in zip(thetas, measures, strict=True)])

    @property
    def _width(self) -> int:
        return len(self.log_q)  # the weights of all points

    def _predictive(self, theta: Array, c: int, *, joint: bool) -> PredictiveDistribution:
        measures, f = self.samples.conditional(theta), self.samples.table[:, c]
        location, scales2 = (self._joint if joint else self._apart)(theta, measures, f)
        why = None
        if self._strata.df == 0:
            why = "there is one point in all, which cannot show its own error: evaluate f at more points."
        return PredictiveDistribution(location[None], scales2[None], float(self._strata.df), why)

    def _apart(self, theta: Array, measures: Sequence[Measure], f: Array) -> tuple[Array, Array]:
        """Estimates at theta (M, p) and their variances, each (M,)."""
        location, variance = np.empty(len(theta)), np.empty(len(theta))
        for m, measure in enumerate(measures):
            location[m], errors = self._estimate(theta[m], measure, f)
            variance[m] = errors @ errors
        return location, variance

    def _joint(self, theta: Array, measures: Sequence[Measure], f: Array) -> tuple[Array, Array]:
        """Estimates at theta (M, p), and their covariance (M, M)."""
        M, every = len(theta), list(blocks(len(theta), self._block_size))
        location, cov = np.empty(M), np.empty((M, M))
        for i, rows in enumerate(every):
            location[rows], errors = self._estimates(theta[rows], measures[rows], f)
            cov[rows, rows] = errors @ errors.T
            for columns in every[i + 1 :]:
                cov[rows, columns] = errors @ self._estimates(theta[columns], measures[columns], f)[1].T
                cov[columns, rows] = cov[rows, columns].T
        return location, cov

    def _estimates(self, theta: Array, measures: Sequence[Measure], f: Array) -> tuple[Array, Array]:
        """Estimates (M,), and errors (M, n) whose products sum to their covariance."""
        pairs = [self._estimate(row, measure, f) for row, measure in zip(theta, measures, strict=True)]
        return np.array([value for value, _ in pairs]), np.stack([errors for _, errors in pairs])

    def _estimate(self, theta: Array, measure: Measure, f: Array) -> tuple[float, Array]:
        """The estimate at theta (p,) from values f (n,), and errors (n,) whose squares sum to its variance."""
        weights = self._weights(theta, measure)
        if self.kind == "self-normalised":
            share = weights.scaled / np.sum(weights.scaled)
            value = f[0] + float(share @ (f - f[0]))
            errors = self._strata.errors(len(f) * share * (f - value))
        else:
            terms = weights.scaled * f
            value = float(weights.times_unit(np.asarray(np.mean(terms)), theta))
            errors = weights.times_unit(self._strata.errors(terms), theta)
        return value, _at_least_plain_error(errors, f, weights.effective_sample_size)

    def _weights(self, theta: Array, measure: Measure) -> ImportanceWeights:
        self._supports.require(measure, theta)
        return ImportanceWeights.at(theta, log_density(measure, theta, self.samples.all_points), self.log_q)

    def _description(self) -> list[str]:
        return [
            *heading(self, f"Importance sampling, {self.kind}", self.samples.counts, self.design),
            f"Average of {self.samples.n_evaluations} values with weights {FORMULAS[self.kind]}.",
            *([] if self.samples.log_weights is None else ["The points, and the denominators, belong to proposals."]),
            *self._sizes(),
            "Standard errors use the same weights, so they are too small where the effective sample size is small.",
            *saving_lines(self.samples),
        ]

    def _sizes(self) -> list[str]:
        """Lines about effective sample sizes at the observed thetas, some of which may have no estimate."""
        reached = np.array([self._supports.reach(measure) for measure in self.samples.measures])
        lines = []
        if np.any(reached):
            sizes = self.effective_sample_size(self.theta[reached])
            lines.append(
                f"Effective sample sizes at the observed thetas: smallest {np.min(sizes):.3g}, median "
                f"{np.median(sizes):.3g}."
            )
        if not np.all(reached):
            lines.append(
                f"No estimate at {np.count_nonzero(~reached)} of the {len(reached)} observed thetas: their measures "
                f"extend beyond the support of the sampled measures."
            )
        return lines

    def __repr__(self) -> str:
        return f"ImportanceSamplingFit(kind={self.kind!r}, T={len(self.theta)}, p={self.p}, C={self.C})"


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
