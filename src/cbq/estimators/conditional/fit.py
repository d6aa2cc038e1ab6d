"""The fit of conditional Bayesian quadrature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any, Self, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq.common import ROUNDING, Array, Integers, between_0_and_1, evenly, require_memory
from cbq.estimators.base import variances_near
from cbq.estimators.conditional.stage_one_data import StageOne
from cbq.estimators.conditional.stage_two import (
    NodeEstimates,
    ThetaPosterior,
    require_memory_for_stage_two,
)
from cbq.fit import (
    N_WANTED,
    Diagnostic,
    Finding,
    Fit,
    PredictiveDistribution,
    Suggestion,
    count_range,
    few_points_each,
    few_thetas,
    heading,
    left_out,
    on_one_line,
    per_output,
    shared_design,
    thetas_between,
    unlearnt_over_theta,
)
from cbq.gp import MIN_GROUPS, NOT_LEARNT, Calibration, GPPrior, relative_errors
from cbq.io import Boolean, Instance, Many, Numbers, Optional, Text, Texts, saved
from cbq.samples import Design, Samples, equal_rows, find_thetas


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Each node predicted from all others by the plain posterior, with the hyperparameters of the whole fit.

    Arrays (T,) or (T, C). residual: the estimate of stage 1 at the node less its prediction. std: its predicted
    standard deviation.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> loo = cbq.CBQ().fit(samples).leave_one_out()
    >>> bool(0 <= loo.coverage(0.95) <= 1)
    True
    """

    residual: Array
    std: Array

    @property
    def standardised(self) -> Array:
        """Residuals in units of their standard deviation: of size 1 where noise and kernel are right."""
        return np.asarray(self.residual / self.std)

    @property
    def sizes(self) -> Array:
        """The root mean squares of standardised residuals, () or (C,)."""
        return np.asarray(np.sqrt(np.mean(self.standardised**2, axis=0)))

    def coverage(self, level: float = 0.95) -> float:
        """The share of nodes inside their predictive interval."""
        reach = ndtri(0.5 * (1 + between_0_and_1(level, "level")))
        return float(np.mean(np.abs(self.standardised) <= reach))


def _check_saved(
    theta: Array,
    stage1: StageOne,
    priors: Sequence[Sequence[GPPrior]],
    counts: Integers,
    rows: Integers | None,
    **_: Any,
) -> None:
    """Raise unless the fields of a saved fit belong together."""
    T, p = theta.shape
    for each in priors:
        if all(prior.evidence == -np.inf for prior in each):
            raise ValueError("the evidence must be a number for at least one prior of each output.")
        for prior in each:
            prior.kernel.check_dim(p)
            if prior.degree and comb(prior.degree + p, p) > T:
                raise ValueError(f"a trend of degree {prior.degree} has too many coefficients for {T} thetas.")
    points = sum(counts.tolist())
    if rows is None and not np.array_equal(counts, stage1.counts):
        raise ValueError("counts must be those of stage 1 where each theta used its own points.")
    if rows is not None and np.any(rows >= points):
        raise ValueError(f"rows must be numbers below {points}, the number of points, but the largest is {rows.max()}.")


@saved(
    "CBQ",
    read=lambda fit: {"findings": fit.own_findings, "calibration": fit.theta_calibration},
    check=_check_saved,
    theta=Numbers("T p"),
    stage1=Instance(StageOne),
    priors=Many(Many(Instance(GPPrior), least=1), "C"),
    design=Text(get_args(Design)),
    calibration=Optional(Instance(Calibration)),
    settings=Texts(),
    findings=Many(Instance(Finding)),
    counts=Numbers("T", int, least=1),
    rows=Optional(Numbers("n", int, least=0)),
    drawn=Boolean(),
    shared=Boolean(),
)
class CBQFit(Fit):
    """I over theta by conditional Bayesian quadrature; see `Fit` for its answers.

    stage1 : the integrals at the observed thetas, their weights, the kernels used.
    counts : (T,), the N_t. rows : which points stage 1 used, those of each theta together, as rows of all points of the
        samples in the order of the thetas; None where each theta used its own.
    drawn : whether the points are draws of their measures, neither of a proposal nor chosen by a rule.
    shared : whether thetas share points, so that their errors are alike.
    priors : for each output the Gaussian processes over theta that were fitted, likeliest first.
    posteriors : for each output the distribution of I over theta that they give.
    settings : the options of the estimator, as text.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> fit = cbq.CBQ().fit(samples)
    >>> fit.leave_one_out().residual.shape
    (12,)
    """

    conditional_on = "f going on there as it does at the points where it succeeded"

    def __init__(
        self,
        theta: Array,
        stage1: StageOne,
        priors: Sequence[Sequence[GPPrior]],
        *,
        design: Design,
        calibration: Calibration | None,
        settings: Mapping[str, str],
        findings: Sequence[Finding] = (),
        counts: Integers | None = None,
        rows: Integers | None = None,
        drawn: bool = True,
        shared: bool = False,
    ) -> None:
        self.theta, self.stage1, self.design, self.theta_calibration = theta, stage1, design, calibration
        self.drawn, self.shared = bool(drawn), bool(shared)
        self.counts, self.rows = stage1.counts if counts is None else counts, rows
        self.C = None if stage1.single else int(stage1.columns["mean"].shape[1])
        require_memory_for_stage_two(len(theta), len(priors))
        self.priors = tuple(tuple(each) for each in priors)
        self.settings, self.own_findings = dict(settings), tuple(findings)
        iid = design == "iid" and self.drawn and not self.shared
        self.posteriors = tuple(
            ThetaPosterior(each, self._nodes(c), iid=iid, calibration=calibration, shared=rows is not None)
            for c, each in enumerate(self.priors)
        )

    @property
    def calibrate(self) -> bool:
        """Whether intervals are calibrated."""
        return self.theta_calibration is not None

    @property
    def correlation(self) -> Array:
        return self.stage1.correlation

    def _noise(self, theta: Array) -> Array:
        squares = self.stage1.noise_std.reshape(len(self.theta), -1) ** 2
        return np.sqrt(variances_near(theta, self.theta, squares, self.stage1.counts.astype(np.float64)))

    def _findings_about(self, samples: Samples) -> tuple[Finding, ...]:
        between = few_thetas(samples) or unlearnt_over_theta(self.learns_over_theta)
        few = (*between, *few_points_each(samples, self.stage1.counts))
        return (*super()._findings_about(samples), *shared_design(samples), *few)

    def _findings(self) -> tuple[Finding, ...]:
        """The findings of stage 1, then of the whole fit."""
        several = self.calibrate and len(self.theta) > 1
        worst = float(np.max(self.leave_one_out().sizes)) if several else 1.0
        if worst <= 3.0:  # residuals of three times their predicted size are worth a warning
            return (*self.stage1.findings, *self.own_findings)
        text = (
            f"thetas that are left out differ from what all others predict {worst:.2g} times as much as expected; "
            f"intervals are scaled to match."
        )
        return (*self.stage1.findings, *self.own_findings, Finding("leave-one-out", text))

    def _with_findings(self, findings: Sequence[Finding]) -> Self:
        """The same fit with more findings."""
        return self._replaced(own_findings=(*self.own_findings, *findings))

    def _suggest(self, n: int, prior: Any, rng: np.random.Generator, *, new: int = 32) -> Suggestion:
        """new: further thetas that compete with those observed."""
        first, group = equal_rows(self.theta)
        some = evenly(len(first), 2000)  # all pairs of candidates have a covariance
        fresh = thetas_between(self.theta, prior, new, rng)
        theta = np.concatenate([self.theta[first[some]], fresh])
        counts = np.concatenate([np.bincount(group, self.counts)[some], np.zeros(new)])
        wanted = thetas_between(self.theta, prior, N_WANTED, rng)
        points = min(n, 5)  # one alone teaches little at a new theta
        rows = best_thetas(-(-n // points), self, theta, counts, wanted, points)
        return Suggestion(np.repeat(theta[rows], points, axis=0)[:n], None, self.names)

    def _nodes(self, c: int) -> NodeEstimates:
        column = {name: self.stage1.columns[name][:, c] for name in ("mean", "variance", "bias", "spread2")}
        return NodeEstimates(self.theta, **column, stretch=float(self.stage1.stretch[c]))

    def _predictives(self, theta: Array, *, joint: bool) -> list[PredictiveDistribution]:
        return [posterior.predictive(theta, joint=joint) for posterior in self.posteriors]

    @property
    def _width(self) -> int:
        return max(posterior.process.width for posterior in self.posteriors)

    def weights(self, theta: npt.ArrayLike) -> Array | tuple[Array, ...]:
        """The weights of all values of f in the plain posterior mean at theta, stage 1 and stage 2 together.

        They are (M, T, N), or (M, T, N, C), and the mean is their sum against f over the points of all thetas; where
        the N_t differ, a tuple of T arrays (M, N_t) or (M, N_t, C). The plain mean is that of `calibrate=False`: the
        calibrated distribution may subtract an estimated bias from it.
        """
        thetas = self._thetas(theta)
        numbers = len(thetas) * int(np.sum(self.counts)) * len(self._outputs)
        require_memory(2 * numbers, f"an array of {numbers} weights", "pass fewer thetas at a time")
        flat = self._shaped([self._weights(thetas, c) for c in self._outputs])
        parts = tuple(np.split(flat, np.cumsum(self.counts)[:-1], axis=1))
        return parts if np.any(self.counts != self.counts[0]) else np.stack(parts, axis=1)

    def _weights(self, theta: Array, c: int) -> Array:
        """The weights (M, n) of all points of the samples at theta (M, p), for output c."""
        owners = np.repeat(np.arange(len(self.theta)), self.stage1.counts)
        over_theta = self.posteriors[c].process.predict(theta).weights
        own = self.stage1.point_weights[:, c]
        is_centred = float(self.stage1.centred)  # where it is, averages have the weight that both stages lack to 1
        over_theta = over_theta + is_centred * (1.0 - np.sum(over_theta, axis=1, keepdims=True)) / len(self.theta)
        lacking = is_centred * (1.0 - np.bincount(owners, own))
        used = over_theta[:, owners] * own + (over_theta @ lacking)[:, None] / len(own)
        if self.rows is None:
            return np.asarray(used)
        whole = np.zeros((int(np.sum(self.counts)), len(theta)))
        np.add.at(whole, self.rows, used.T)
        return whole.T

    def leave_one_out(self) -> LeaveOneOut:
        """Each node predicted from all others: the check that the noise and the kernel of stage 2 are right."""
        if len(self.theta) < 2:
            raise ValueError("leaving one theta out takes at least two of them, but there is one.")
        columns = [posterior.process.leave_one_out() for posterior in self.posteriors]
        residual = self._shaped([Qy / diagonal for Qy, diagonal in columns])
        return LeaveOneOut(residual, self._shaped([1.0 / np.sqrt(diagonal) for _, diagonal in columns]))

    @property
    def learns_over_theta(self) -> bool:
        """Whether each theta is predicted from all others better than by their mean.

        It is taken for granted where errors of stage 1 may be half of the residuals, and in `CBQ.paper`, whose mean is
        known and whose lambda, the least of which is 1% of the variance, may smooth all that thetas show.
        """
        recipe = any(prior.degree is None for priors in self.priors for prior in priors)
        if recipe or len(self.theta) < MIN_GROUPS:
            return True
        mean, variance = (self.stage1.columns[name] for name in ("mean", "variance"))
        tiny = np.maximum(ROUNDING * np.max(np.abs(mean), axis=0), np.finfo(float).tiny)
        found = relative_errors(self.leave_one_out().residual.reshape(mean.shape), mean, tiny)
        known = relative_errors(np.sqrt(variance), mean, tiny)
        return not np.any((found >= NOT_LEARNT) & (found > 2.0 * known))

    def _diagnostics(self) -> tuple[Diagnostic, ...]:
        if len(self.theta) < 2:
            return ()
        residual = self.leave_one_out().standardised.reshape(len(self.theta), -1)
        return (left_out(residual, self.theta, calibrated=self.calibrate),)

    def _description(self) -> list[str]:
        lines = heading(self, "Conditional Bayesian quadrature", self.counts, self.design)
        if self.rows is not None:
            lines.append(f"Borrowing: stage 1 uses {count_range(self.stage1.counts)} points at each theta.")
        lines += per_output([self._described(c) for c in self._outputs], self)
        if self.theta_calibration is None:
            return [*lines, "Predictive distribution: normal, not calibrated."]
        factor = self.theta_calibration.factor
        return [*lines, f"Predictive distribution: normal, with a scale that is known within a factor of {factor:g}."]

    def _described(self, c: int) -> list[str]:
        """Lines about output c."""
        shares = self.stage1.hyperparameters[c]
        named = ", ".join(on_one_line(str(share)) for share in shares[:4])
        more = f" and {len(shares) - 4} more" * (len(shares) > 4)
        std = np.sqrt(self.stage1.columns["variance"][:, c])
        posterior = self.posteriors[c]
        prior = posterior.process.prior
        weight = 1.0 / sum(np.exp(other.evidence - prior.evidence) for other in self.priors[c])
        logs = [self.names.theta[j] for j in np.flatnonzero(prior.coordinates.logs)]
        of = "" if not logs else " on log theta" if len(logs) == self.p else f" with log {', log '.join(logs)}"
        lines = [
            f"Stage 1 kernels: {named}{more}.",
            f"  Standard deviations of the estimates: median {np.median(std):.3g}, largest {np.max(std):.3g}.",
            f"Stage 2 kernel: {on_one_line(repr(prior.kernel))}{of}, the likeliest of {len(self.priors[c])} "
            f"(weight {weight:.0%}); amplitude {prior.amplitude:.3g}, lambda {prior.noise:.3g}.",
        ]
        noise = np.sqrt(self.stage1.columns["noise"][:, c])
        if np.any(noise > 0):
            lines.insert(
                2,
                f"  Values of f are draws: standard deviations of their noise: median {np.median(noise):.3g}, largest "
                f"{np.max(noise):.3g}.",
            )
        if len(self.theta) > 1:
            Qy, diagonal = posterior.process.leave_one_out()
            loo = LeaveOneOut(Qy / diagonal, 1.0 / np.sqrt(diagonal))
            lines.append(
                f"  Leave-one-theta-out residuals (not calibrated): {loo.sizes:.2g} times their predicted size, "
                f"{loo.coverage(0.95):.0%} inside 95% intervals."
            )
        return lines


def best_thetas(
    n: int,
    fit: CBQFit,
    theta: Array,
    counts: Array | Integers,
    wanted: Array,
    points: int,
    *,
    need: Array | None = None,
    price: Array | None = None,
    random: bool = False,
) -> Integers:
    """Which of the thetas (M, p) are to have more points, n times; a theta may come several times.

    With the posterior covariance c of I between thetas, an estimate of I at one of them with the variance v lowers the
    variance of I(theta) by c(theta, .)^2 / (c(., .) + v). The variance of quadrature with N points is taken to fall as
    a / N^2, that of a random f as a / N. Points that bring an observed theta from N to M are worth an independent
    estimate with v = a / (M^2 - N^2), or a / (M - N).

    counts: (M,), the points that each has. wanted: (G, p), draws of Q, at which I is wanted. points: how many are added
    at a time. need: (C,), how much each output matters. price: (M,), of a point at each theta. By default, all are 1.
    random: whether f is.
    """
    G, rate = len(wanted), 1.0 if random else 2.0
    finite = fit._replaced(unseen=None)  # what no point has seen is unknown everywhere alike
    _, cov = finite.predict(np.concatenate([wanted, theta]), return_cov=True)
    cov = np.moveaxis(np.atleast_3d(cov), -1, 0).copy()  # (C, G + M, G + M)
    unit = np.maximum(np.mean(np.diagonal(cov, axis1=1, axis2=2)[:, :G], axis=1), np.finfo(float).tiny)
    weight = (1.0 if need is None else need) / unit  # (C,)
    cov *= weight[:, None, None]
    of_one = weight[:, None] * _variances_of_one_point(fit, theta, rate)  # (C, M)
    N, chosen, least = counts.astype(np.float64), list[int](), np.finfo(float).tiny  # a constant output has none
    for _ in range(n):
        variance = np.diagonal(cov, axis1=1, axis2=2)[:, G:] + of_one / ((N + points) ** rate - N**rate)
        with np.errstate(over="ignore"):
            gain = np.sum(np.mean(cov[:, :G, G:] ** 2, axis=1) / np.maximum(variance, least), axis=0)
        j = int(np.argmax(gain if price is None else gain / price))
        column = cov[:, :, G + j].copy()
        cov -= column[:, :, None] * column[:, None] / np.maximum(variance[:, j, None, None], least)
        N[j] += points
        chosen.append(j)
    return np.array(chosen, dtype=np.intp)


def _variances_of_one_point(fit: CBQFit, theta: Array, rate: float) -> Array:
    """The variances (C, M) that estimates at thetas (M, p) would have with one point, by how they fall."""
    observed = (fit.stage1.columns["variance"] * fit.counts[:, None] ** rate).T  # (C, T)
    found = np.repeat(np.median(observed, axis=1, keepdims=True), len(theta), axis=1)
    at = find_thetas(theta, fit.theta)
    found[:, at >= 0] = observed[:, at[at >= 0]]
    return np.asarray(found)
