"""Monte Carlo: the average of f over the points of each theta, at the observed thetas alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np

from cbq.common import Array, Executor, Integers
from cbq.estimators.base import Compared, Estimator, estimator
from cbq.estimators.baselines.averages import Averages, averages
from cbq.fit import Finding, Fit, PredictiveDistribution, design_findings, heading, per_output
from cbq.io import Boolean, Instance, Text, saved
from cbq.samples import Design, Samples, find_thetas


@estimator(
    "monte-carlo",
    title="averages at the observed thetas",
    order=70,
    compared=[Compared("MonteCarlo")],
)
@dataclass(frozen=True)
class MonteCarlo(Estimator["MonteCarloFit"]):
    """Plain averages: I(theta_t) is the mean of f over the N_t points of theta_t.

    For points from a proposal q in place of the measure p, it is the mean of w f, w = p / q, with the standard error of
    that mean: unbiased, and not divided by the mean of w.

    There is nothing to choose. The fit predicts at the observed thetas only, and pools the points of equal thetas.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> fit = cbq.MonteCarlo().fit(samples)
    >>> np.allclose(fit.predict(samples.theta), samples.f.mean(axis=1))
    True
    """

    needs_measure = False

    def _fit(self, samples: Samples, pool: Executor | None) -> MonteCarloFit:
        return MonteCarloFit(averages(samples, pool=True), design=samples.design, single=samples.C is None)


@saved(
    "MonteCarlo",
    read=lambda fit: {"single": fit.C is None},
    averages=Instance(Averages),
    design=Text(get_args(Design)),
    single=Boolean(only_if=("C", 1)),
)
class MonteCarloFit(Fit):
    """I at the observed thetas by plain averages; see `Fit` for its answers.

    The predictive distribution at theta_t is Student-t with N_t - 1 degrees of freedom, around the mean of f, with the
    scale s_t / sqrt N_t (s_t the standard deviation of f there). Different thetas are independent. With N_t = 1 there
    is a mean only; with N_t = 2 or 3 the standard deviation is infinite, as that of a Student-t distribution with one
    or two degrees of freedom is, while intervals and draws are finite.

    averages : the thetas without repetition, the N_t, the means and their squared standard errors.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> mean, std = cbq.MonteCarlo().fit(samples).predict(samples.theta, return_std=True)
    >>> bool((std > 0).all())
    True
    """

    def __init__(self, averages: Averages, *, design: Design, single: bool) -> None:
        self.averages, self.design = averages, design
        self.theta = averages.theta
        self.C = None if single else int(averages.mean.shape[1])

    @property
    def counts(self) -> Integers:
        """The number N_t of points of each theta: (T,)."""
        return self.averages.counts

    @property
    def correlation(self) -> Array:
        return self.averages.correlation

    def _findings(self) -> tuple[Finding, ...]:
        alone = int(np.count_nonzero(self.counts == 1))
        few = f"{alone} of {len(self.theta)} thetas have one point, and therefore no standard error."
        alone_findings = [Finding("few points", few)] if alone else []
        return (*design_findings(self.design), *alone_findings, *self.averages.findings())

    def _predictive(self, theta: Array, c: int, *, joint: bool) -> PredictiveDistribution:
        rows = self._rows(theta)
        mean, variance = self.averages.mean[rows, c], self.averages.variance[rows, c]
        df = self.counts[rows].astype(np.float64) - 1.0
        why = None
        if np.any(df == 0):
            which = theta[int(np.argmin(df))]
            why = (
                f"there is no standard error at theta = {which}, which has one point: evaluate f at more of its "
                f"points, predict elsewhere, or use an estimator that learns from other thetas, such as cbq.CBQ."
            )
        same = rows[:, None] == rows if joint else np.True_
        return PredictiveDistribution(mean[None], (variance * same)[None], df, why)

    def _joint_matrices(self, *, drawn: bool) -> int:
        return len(self._outputs) if drawn else super()._joint_matrices(drawn=False)  # independent thetas need no root

    def _rows(self, theta: Array) -> Integers:
        """The row of each theta among the observed ones."""
        rows = find_thetas(theta, self.theta)
        if np.any(rows < 0):
            raise ValueError(
                f"cbq.MonteCarlo predicts at the {len(self.theta)} observed thetas only, and theta = "
                f"{theta[np.argmin(rows)]} is not one of them: predict at fit.theta, or use cbq.CBQ, cbq.KLSMC or "
                f"cbq.LSMC."
            )
        return rows

    def _description(self) -> list[str]:
        lines = heading(self, "Monte Carlo", self.counts, self.design)
        lines += per_output([self._errors(c) for c in self._outputs], self)
        how = "Predicts at the observed thetas only. Predictive distribution: Student-t with N - 1 degrees of freedom."
        return [*lines, how, *self.averages.description()]

    def _errors(self, c: int) -> list[str]:
        std = np.sqrt(self.averages.variance[self.counts > 1, c])
        if not len(std):
            return ["There are no standard errors: no theta has more than one point."]
        return [f"Standard errors of the averages: median {np.median(std):.3g}, largest {np.max(std):.3g}."]
