"""Importance sampling: values of f at the points of all thetas, weighted by how likely they are at another theta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Executor, blocks
from cbq.estimators.base import Compared, Estimator, check_choices, estimator
from cbq.estimators.baselines.averages import Averages, averages
from cbq.estimators.baselines.importance_weights import ImportanceWeights, Strata, Supports, log_density, log_proposal
from cbq.estimators.baselines.smoothing import rms
from cbq.fit import Finding, Fit, PredictiveDistribution, design_findings, heading, saving_lines, shared_design
from cbq.io import Instance, Numbers, Text, saved
from cbq.measures import Measure
from cbq.samples import MIN_EFFECTIVE_SIZE, Design, Samples

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
