"""Monte Carlo: the average of f over the points of each theta, at the observed thetas alone.

The other baselines start from these averages, too. Points from a proposal q in place of p have weights w = p / q: then
they are averages of w f, which are unbiased, and not divided by those of w.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np

from cbq.common import Array, Executor, Integers
from cbq.estimators.base import Compared, Estimator, estimator
from cbq.fit import Finding, Fit, PredictiveDistribution, design_findings, heading, per_output
from cbq.io import Boolean, Correlation, Instance, Numbers, Optional, Text, saved
from cbq.linalg.lapack import correlation
from cbq.samples import MIN_EFFECTIVE_SIZE, Design, Samples, check_magnitude, effective_sizes, find_thetas


@saved(
    "Averages",
    theta=Numbers("T p"),
    counts=Numbers("T", int, least=1),
    mean=Numbers("T C"),
    variance=Numbers("T C", least=0.0),
    correlation=Correlation("C C"),
    sizes=Optional(Numbers("T", least=0.0)),
)
@dataclass(frozen=True, eq=False)
class Averages:
    """The averages of f over the points of each theta.

    theta: (T, p). counts: (T,), the N_t. mean: (T, C). variance: (T, C), s_t^2 / N_t, and zero where N_t = 1.
    correlation: (C, C), of the values of outputs around their averages.
    sizes: (T,), the effective sample sizes (sum w)^2 / sum w^2 of points from a proposal; None where they come from
    their measures.

    With a proposal, w f stands for f everywhere.
    """

    theta: Array
    counts: Integers
    mean: Array
    variance: Array
    correlation: Array
    sizes: Array | None = None

    def __post_init__(self) -> None:
        for array in vars(self).values():
            if array is not None:
                array.setflags(write=False)

    def findings(self) -> tuple[Finding, ...]:
        """A finding if the weights leave few of the points of a theta."""
        if self.sizes is None or np.min(self.sizes) >= MIN_EFFECTIVE_SIZE:
            return ()
        few, worst = int(np.count_nonzero(self.sizes < MIN_EFFECTIVE_SIZE)), int(np.argmin(self.sizes))
        text = (
            f"the points of {few} of {len(self.sizes)} thetas come from a proposal and are worth fewer than "
            f"{MIN_EFFECTIVE_SIZE:g} points of their measures: {self.sizes[worst]:.3g} at theta = {self.theta[worst]}, "
            f"of {self.counts[worst]}. Averages with such weights, and their standard errors, may miss much of I."
        )
        return (Finding("few points", text),)

    def description(self) -> list[str]:
        """Lines of a summary on the weights, if there are some."""
        if self.sizes is None:
            return []
        sizes = f"smallest {np.min(self.sizes):.3g}, median {np.median(self.sizes):.3g}"
        return [f"Points come from a proposal q: averages of f p / q, with effective sample sizes: {sizes}."]


def averages(samples: Samples, *, pool: bool = False) -> Averages:
    """The averages at each theta; with `pool`, the points of equal thetas belong together."""
    table, weights = _weighted(samples)
    check_magnitude(table, largest=1e153, smallest=0.0)
    owner = find_thetas(samples.theta, samples.theta) if pool else np.arange(samples.T)
    firsts, label = np.unique(owner, return_inverse=True)
    order = np.argsort(label[samples.owners], kind="stable")
    counts = np.bincount(label, samples.counts).astype(np.intp)
    starts = np.cumsum(counts) - counts
    mean, variance = (np.array(rows) for rows in zip(*map(_average, np.split(table[order], starts[1:])), strict=True))
    apart = table - mean[label[samples.owners]]
    sizes = None if weights is None else effective_sizes(weights[order], starts)
    return Averages(samples.theta[firsts], counts, mean, variance, correlation(apart), sizes)


def _weighted(samples: Samples, largest: float = 300.0) -> tuple[Array, Array | None]:
    """The values w f (n, C) whose averages estimate I, and the log weights (n,) if points come from a proposal.

    largest: log weight, with which w f stays within float64.
    """
    logs = samples.log_weights
    if logs is None:
        return samples.table, None
    if np.max(logs) > largest:
        i = int(np.argmax(logs))
        raise ValueError(
            f"the weight of a point of theta = {samples.theta[samples.owners[i]]} is exp({logs[i]:.0f}): its proposal "
            f"hardly reaches the measure. Pass a wider proposal, or use cbq.CBQ, which needs no weights."
        )
    return np.exp(logs)[:, None] * samples.table, logs


def _average(values: Array) -> tuple[Array, Array]:
    """The mean (C,) of values (N, C) and its squared standard error, exact where all values are equal."""
    n, apart = len(values), values - values[0]
    mean = values[0] + np.mean(apart, axis=0)
    apart = values - mean
    unit = np.max(np.abs(apart), axis=0)  # squares of numbers far from 1 would leave the range of doubles
    unit = np.where((unit > 0) & np.any(values != values[0], axis=0), unit, 0.0)
    shape = np.sum(np.divide(apart, unit, out=np.zeros(apart.shape), where=unit > 0) ** 2, axis=0)
    return mean, (unit * np.sqrt(shape / (n * max(n - 1, 1)))) ** 2


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
