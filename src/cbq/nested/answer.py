"""Answers: estimates of functionals of I under the prior of theta, with an interval.

A functional maps I, as a function of theta, and a distribution of theta to a number: an expectation, a quantile, a
value of information. Its estimate has two errors: I is known only through its posterior, and the prior is represented
by finitely many outer thetas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy.special import stdtrit

from cbq.common import (
    Array,
    Integers,
    Progress,
    RNGLike,
    as_progress,
    between_0_and_1,
    evenly,
    generator,
    is_whole,
    number,
    shown,
)
from cbq.fit import FRESH, Finding, Fit, warn_of
from cbq.nested.outer import Design, Outer, PriorLike, outer, posterior_means, standard_error
from cbq.report import ArrayTable, html

Functional = Callable[[Array, Array], Array]  # of I (..., m) or (..., m, C) and the weights (m,) of the thetas
ValueAndError = Callable[[Outer, Array], tuple[Array, Array]]  # of a functional, for I (n, ...) at all thetas
PATHS = 1000  # draws of I as a function of theta
FEW = 64  # thetas at which I is drawn to see how well it is known
OUTER_QUANTILES = 101  # quantiles that represent the distribution of the outer error in an interval


@dataclass(frozen=True, eq=False, repr=False)
class Answer(ArrayTable):
    """An estimate with its interval. Numbers, or arrays (K,) where there are K of them.

    estimate : the posterior expectation of the quantity.
    plug_in : the quantity at the posterior mean of I, which is biased where the functional is not linear.
    posterior_std : the posterior standard deviation of the quantity, due to the uncertainty of I.
    outer_std : the standard error of representing the prior by n thetas.
    draws : (S,) or (S, K), the quantity for draws of I from the posterior.
    n : the number of outer thetas.
    outer_df : the degrees of freedom of outer_std.
    least : a lower bound of the quantity, such as 0 for an expected loss.
    warnings : reasons to doubt the intervals of I itself, such as points at which f failed.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
    >>> answer = cbq.expected_loss(fit, problem.prior)
    >>> low, high = answer.interval(0.95)
    >>> bool(low < answer.estimate < high)
    True
    """

    estimate: float | Array
    plug_in: float | Array
    posterior_std: float | Array
    outer_std: float | Array
    draws: Array
    n: int
    outer_df: float
    least: float
    warnings: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def std(self) -> float | Array:
        """The standard deviation of the estimate: posterior and outer errors together."""
        return number_or_array(np.hypot(self.posterior_std, self.outer_std))

    def interval(self, level: float = 0.95) -> tuple[float | Array, float | Array]:
        """The ends of the central interval that contains the quantity with probability `level`."""
        level = between_0_and_1(level, "level")
        offsets = stdtrit(self.outer_df, (np.arange(OUTER_QUANTILES) + 0.5) / OUTER_QUANTILES)
        columns = self.draws.reshape(len(self.draws), -1).T  # (K, S)
        outer_stds = np.broadcast_to(np.ravel(self.outer_std), len(columns))
        mixtures = [(column[:, None] + std * offsets).ravel() for column, std in zip(columns, outer_stds, strict=True)]
        ends = [np.quantile(mixture, [0.5 * (1 - level), 0.5 * (1 + level)]) for mixture in mixtures]
        low, high = np.maximum(np.array(ends).T, self.least).reshape(2, *np.shape(self.estimate))
        return number_or_array(low), number_or_array(high)

    def at_least(self, least: float) -> Self:
        """The same answer for a quantity with a lower bound."""
        least = number(least, "least")
        return replace(self, estimate=number_or_array(np.maximum(self.estimate, least)), least=least)

    def to_columns(self) -> dict[str, Array]:
        """The numbers of the answer, with the ends of a 95% interval, (1,) or (K,) each."""
        low, high = self.interval()
        names = ("estimate", "lower", "upper", "std", "posterior_std", "outer_std", "plug_in")
        numbers = (self.estimate, low, high, self.std, self.posterior_std, self.outer_std, self.plug_in)
        return {name: np.ravel(number) for name, number in zip(names, numbers, strict=True)}

    def _repr_html_(self) -> str:
        about = {"outer thetas": self.n, "interval": "95%"}
        return html.box(type(self).__name__, about, html.column_table(self.to_columns()), notes=self._below())

    def _below(self) -> list[str]:
        return [f"Warning: {warning}" for warning in self.warnings]

    def __repr__(self) -> str:
        low, high = (np.ravel(end) for end in self.interval())
        numbers = zip(np.ravel(self.estimate), low, high, strict=True)
        values = [f"{estimate:.6g} ({a:.6g} to {b:.6g})" for estimate, a, b in numbers]
        line = f"{type(self).__name__}: {', '.join(values)}, 95% interval{'s' * (len(values) > 1)}, {self.n} thetas"
        return "\n".join([line, *self._below()])


def answer(
    fit: Fit,
    theta: Array,
    mean_value: Array,
    draws: Array,
    outer_std: Array,
    *,
    outer_df: float,
    findings: Sequence[Finding] | None = None,
    warn: bool = True,
) -> Answer:
    """The answer from the functional at the posterior mean of I at theta (n, p), (...), and at draws of I, (S, ...).

    findings : about the thetas that decide the functional, by default all of them. warn : whether to raise them as
        warnings.
    """
    draws.setflags(write=False)
    beyond = tuple(fit._beyond_findings(theta, tolerated=FRESH) if findings is None else findings)
    if warn and not fit._is_quiet:
        warn_of(beyond)
    return Answer(
        number_or_array(np.mean(draws, axis=0)),
        number_or_array(mean_value),
        number_or_array(np.std(draws, axis=0)),
        number_or_array(np.broadcast_to(outer_std, np.shape(mean_value))),
        draws,
        len(theta),
        outer_df,
        -np.inf,
        warnings=(*fit.failure_warnings, *(finding.text for finding in (*fit._doubts, *beyond))),
    )


@dataclass(frozen=True, eq=False)
class OuterPosterior:
    """I at the outer thetas: its posterior mean (n,) or (n, C) at all, and draws (PATHS, m, ...) at their subset."""

    fit: Fit
    nodes: Outer
    mean: Array
    paths: Array

    @classmethod
    def at(
        cls,
        fit: Fit,
        prior: PriorLike,
        *,
        n: int,
        design: Design,
        rng: RNGLike,
        min_part: int = 1,
        subset: Callable[[Outer, Array], tuple[Integers, Array]] | None = None,
        progress: Progress = False,
    ) -> OuterPosterior:
        """The posterior at n thetas. min_part : the smallest number of thetas for an estimate of a functional.

        subset : the rows of the thetas at which I is drawn, and their weights, from the thetas and the means there; by
        default some that stand for all.
        """
        progress = as_progress(progress)
        for_thetas, for_paths = generator(rng).spawn(2)
        nodes = outer(prior, n, design, for_thetas, fit.names, min_part)
        later = subset is not None and len(nodes.subset) < len(nodes.theta)
        if later:  # these draws only tell how well I is known
            few = nodes.subset[evenly(len(nodes.subset), FEW)]
            nodes = replace(nodes, subset=few, subset_weights=np.full(len(few), 1 / len(few)))
        paths = drawn(fit, nodes.theta[nodes.subset], for_paths)
        mean = posterior_means(fit._quiet, nodes, paths, progress)
        if later and subset is not None:
            rows, weights = subset(nodes, mean)
            nodes = replace(nodes, subset=rows, subset_weights=weights)
            paths, mean[rows] = drawn(fit, nodes.theta[rows], for_paths), fit._quiet.predict(nodes.theta[rows])
        return cls(fit, nodes, mean, paths)

    def answer(
        self,
        functional: Functional,
        at_mean: ValueAndError | None = None,
        findings: Sequence[Finding] | None = None,
        *,
        warn: bool = True,
    ) -> Answer:
        """The answer for a functional of I under the prior of theta.

        The functional is computed for the posterior mean of I at all n thetas. Draws of I are made at a subset of them;
        their differences from the posterior mean on that subset are added to the value at all thetas.

        at_mean : computes the functional at the posterior mean and its standard error (default: by `functional`).
        findings, warn : as in `answer`.
        """
        nodes, mean, weights = self.nodes, self.mean, self.nodes.subset_weights
        if at_mean is None:
            value, outer_std = functional(mean, nodes.weights), standard_error(nodes.of_parts(functional, mean))
        else:
            value, outer_std = at_mean(nodes, mean)
        deviations = functional(self.paths, weights) - functional(mean[nodes.subset], weights)  # (PATHS, ...)
        return answer(
            self.fit, nodes.theta, value, value + deviations, outer_std, outer_df=nodes.df, findings=findings, warn=warn
        )


def drawn(fit: Fit, theta: Array, rng: np.random.Generator) -> Array:
    """Posterior draws of I as a function, at theta (m, p): (PATHS, m) or (PATHS, m, C)."""
    predictives = fit._calibrated_predictives(theta, joint=True)
    if not all(np.all(np.isfinite(predictive.variance)) for predictive in predictives):
        raise ValueError(
            "the predictive distribution of I has infinite variance, so averages over its draws do not converge: it is "
            "a Student-t distribution with at most two degrees of freedom, or all values of f are equal and it has no "
            "bounds. Evaluate f at more points per theta or at more thetas, or use cbq.CBQ; if f has bounds, pass them."
        )
    return fit._drawn(predictives, PATHS, rng, antithetic=True)


def require_fit(fit: object) -> None:
    """Raise unless `fit` is a fit."""
    if not isinstance(fit, Fit):
        raise TypeError(
            f"fit must be the fit of an estimator, such as cbq.CBQ().fit(samples), but it is a {type(fit).__name__}."
        )


def output_selector(fit: Fit, output: int | None) -> Callable[[Array], Array]:
    """A function that selects the values (..., m) of one output from values (..., m, C) of all."""
    require_fit(fit)
    if fit.C is None:
        if output is not None:
            raise ValueError(f"output is {shown(output)}, but f has no axis of outputs: omit output.")
        return lambda values: values
    if not is_whole(output, 0, fit.C - 1):
        raise ValueError(
            f"output must be one of the {fit.C} outputs, output=0 to {fit.C - 1}, but it is {shown(output)}."
        )
    return lambda values: values[..., output]


def number_or_array(value: float | Array) -> float | Array:
    """A float if `value` is a scalar, else a read-only copy of the array."""
    if np.ndim(value) == 0:
        return float(value)
    array = np.array(value)
    array.setflags(write=False)
    return array
