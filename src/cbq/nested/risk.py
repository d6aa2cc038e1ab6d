"""Risk measures: the tail of the distribution of I(theta) over the prior of theta."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from cbq.common import ROUNDING, Array, Integers, Progress, RNGLike, between_0_and_1, one_of
from cbq.fit import FRESH, MARGIN, Finding, Fit
from cbq.measures import Empirical
from cbq.nested.answer import Answer, OuterPosterior, output_selector
from cbq.nested.outer import NODES, SUBSET, Design, Outer, PriorLike, as_prior, is_table, standard_error

Tail = Literal["upper", "lower"]
MIN_IN_TAIL = 4  # thetas that each part has in the tail, on average
UNSEEN = 0.5  # share of the tail that may be unlike all observed thetas


@dataclass(frozen=True, eq=False, repr=False)
class TailRisk(Answer):
    """The value at risk, see `Answer`; and from the same draws of I, the mean loss beyond it.

    tail : the conditional value at risk.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
    >>> cbq.value_at_risk(fit, problem.prior, 0.9).tail.estimate > 0
    True
    """

    tail: Answer


def value_at_risk(
    fit: Fit,
    prior: PriorLike,
    alpha: float = 0.95,
    *,
    tail: Tail = "upper",
    output: int | None = None,
    n: int = NODES,
    design: Design = "sobol",
    rng: RNGLike = 0,
    progress: Progress = False,
) -> TailRisk:
    """The value at risk: the alpha-quantile of the loss I(theta) over the prior of theta, and the mean of its tail.

    Parameters
    ----------
    fit : the fit of an estimator. I is a loss: large values are bad. If small values are, pass tail="lower".
    prior : the distribution of theta, a measure or a scipy distribution; or draws of it, (n, p), or (n,) for p = 1.
    alpha : the probability outside the tail.
    tail : "upper", or "lower" for the (1 - alpha)-quantile.
    output : the output that is the loss, if f has several.
    n, design, rng : the number of thetas, "sobol" (scrambled) or "iid", and a generator or a seed. Far tails need many
        thetas: at least 32 / (1 - alpha), or 16 / (1 - alpha) draws in a table.
    progress : True for a bar over the thetas, or a function of the numbers of finished and of all thetas.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
    >>> risk = cbq.value_at_risk(fit, problem.prior, 0.9)
    >>> risk.estimate < risk.tail.estimate
    True
    """
    return tail_risk(fit, prior, alpha, tail, output, n=n, design=design, rng=rng, progress=progress)[0]


def conditional_value_at_risk(
    fit: Fit,
    prior: PriorLike,
    alpha: float = 0.95,
    *,
    tail: Tail = "upper",
    output: int | None = None,
    n: int = NODES,
    design: Design = "sobol",
    rng: RNGLike = 0,
    progress: Progress = False,
) -> Answer:
    """The mean loss I(theta) in the tail of probability 1 - alpha, also called expected shortfall.

    For the parameters see `value_at_risk`, whose answer has this one as its `tail`.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
    >>> low, high = cbq.conditional_value_at_risk(fit, problem.prior, 0.9).interval()
    >>> bool(low < high)
    True
    """
    loss = _Loss.of(fit, alpha, tail, output)
    posterior, findings = loss.posterior(fit, prior, n=n, design=design, rng=rng, progress=progress)
    return posterior.answer(loss.tail_mean, findings=findings)


def tail_risk(
    fit: Fit,
    prior: PriorLike,
    alpha: float,
    tail: Tail,
    output: int | None,
    *,
    drawn: int = SUBSET,
    start_only: bool = False,
    **how: Any,
) -> tuple[TailRisk, OuterPosterior]:
    """The value at risk, and the posterior of I behind it.

    drawn : the number of thetas at which I is drawn. start_only : whether nothing but the start of the tail is wanted.
    """
    loss = _Loss.of(fit, alpha, tail, output)
    find = quantile if is_table(prior) or not isinstance(as_prior(prior, fit.p), Empirical) else step_quantile

    def functional(values: Array, weights: Array) -> Array:
        return loss.sign * find(loss(values), weights, alpha)

    def at_mean(nodes: Outer, mean: Array) -> tuple[Array, Array]:
        # The standard error belongs to the average over parts, which in one dimension is also the better estimate
        # for Sobol points.
        parts = nodes.of_parts(functional, mean)
        value = np.mean(parts, axis=0) if parts else functional(mean, nodes.weights)
        return value, standard_error(parts)

    posterior, findings = loss.posterior(fit, prior, drawn, start_only, **how)
    result = posterior.answer(functional, at_mean, findings)
    risk = TailRisk(**vars(result), tail=posterior.answer(loss.tail_mean, findings=findings, warn=False))
    return risk, posterior


def quantile(values: Array, weights: Array, alpha: float) -> Array:
    """The alpha-quantile (...) of values (..., m) with weights (m,), interpolated between midpoints of its steps."""
    order = np.argsort(values, axis=-1)
    ordered, mass = np.take_along_axis(values, order, axis=-1), weights[order]
    middle = np.cumsum(mass, axis=-1) - 0.5 * mass
    above = np.clip(np.sum(middle < alpha, axis=-1, keepdims=True), 1, len(weights) - 1)

    def at(rows: Array, shift: int) -> Array:
        return np.asarray(np.take_along_axis(rows, above - shift, axis=-1)[..., 0])

    gap = at(middle, 0) - at(middle, 1)
    share = np.clip(np.divide(alpha - at(middle, 1), gap, out=np.ones_like(gap), where=gap > 0), 0.0, 1.0)
    return np.asarray(at(ordered, 1) + share * (at(ordered, 0) - at(ordered, 1)))


def step_quantile(values: Array, weights: Array, alpha: float) -> Array:
    """The smallest of values (..., m) at or below which the weight is at least alpha: (...)."""
    order = np.argsort(values, axis=-1)
    reached = np.cumsum(weights[order], axis=-1) >= alpha - ROUNDING
    first = np.take_along_axis(order, np.argmax(reached, axis=-1)[..., None], axis=-1)
    return np.asarray(np.take_along_axis(values, first, axis=-1)[..., 0])


def tail_mean(values: Array, weights: Array, alpha: float) -> Array:
    """The mean (...) of the largest of values (..., m), of total weight 1 - alpha (Rockafellar and Uryasev 2000)."""
    start = step_quantile(values, weights, alpha)
    excess = np.maximum(values - start[..., None], 0.0) @ weights
    return np.asarray(start + excess / (1.0 - alpha))


@dataclass(frozen=True, eq=False)
class _Loss:
    """The loss: one output of I, whose sign is -1 for the lower tail. alpha : the probability outside the tail."""

    select: Callable[[Array], Array]
    sign: float
    alpha: float

    @classmethod
    def of(cls, fit: Fit, alpha: float, tail: Tail, output: int | None) -> Self:
        """From the arguments of `value_at_risk`."""
        alpha = between_0_and_1(alpha, "alpha")
        return cls(output_selector(fit, output), 1.0 if one_of(tail, Tail, "tail") == "upper" else -1.0, alpha)

    def __call__(self, values: Array) -> Array:
        return self.sign * self.select(values)

    def tail_mean(self, values: Array, weights: Array) -> Array:
        """The mean of I in the tail."""
        return self.sign * tail_mean(self(values), weights, self.alpha)

    def posterior(
        self, fit: Fit, prior: PriorLike, drawn: int = SUBSET, start_only: bool = False, **how: Any
    ) -> tuple[OuterPosterior, tuple[Finding, ...]]:
        """The posterior of I at thetas of which some lie in the tail in each part, and findings about the tail.

        Thetas that no draw of I has in the tail do not decide it: they may be beyond the observed ones.
        """
        min_part = int(np.ceil(MIN_IN_TAIL / (1.0 - self.alpha) - ROUNDING))
        subset = partial(self._towards_tail, drawn)
        posterior = OuterPosterior.at(fit, prior, min_part=min_part, subset=subset, **how)
        return posterior, self._unseen_tail(posterior, start_only) or self._beyond(posterior)

    def _beyond(self, posterior: OuterPosterior) -> tuple[Finding, ...]:
        """A finding where thetas that are in the tail of some draw are beyond the observed ones."""
        fit, theta = posterior.fit, posterior.nodes.theta[posterior.nodes.subset]
        losses, weights = self(posterior.paths), posterior.nodes.subset_weights
        in_tail = np.any(losses >= step_quantile(losses, weights, self.alpha)[:, None], axis=0)
        away = fit.beyond(theta) & in_tail
        return fit._beyond_findings(theta[away]) if np.sum(weights[away]) > FRESH else ()

    def _towards_tail(self, size: int, nodes: Outer, mean: Array) -> tuple[Integers, Array]:
        """Rows of about `size` thetas, most of them near the tail and in it, and weights with which they stand for all.

        A theta is taken with a probability that grows as the share of worse losses falls, but not beyond the tail: of
        thetas in proportion to their weights, a tail of half a per cent would have two or three.
        """
        losses = self(mean)
        order = np.argsort(-losses, kind="stable")
        weights = nodes.weights[order]
        worse = np.cumsum(weights) - 0.5 * weights
        rate = weights / (worse + (1.0 - self.alpha))
        rate = np.minimum(size * rate / np.sum(rate), 1.0)
        steps = np.floor(np.cumsum(rate) + 0.5)  # systematic: one row for each step of the sum
        chosen = np.diff(steps, prepend=0.0) > 0
        found = weights[chosen] / rate[chosen]
        return order[chosen], found / np.sum(found)

    def _unseen_tail(self, posterior: OuterPosterior, start_only: bool) -> tuple[Finding, ...]:
        """A finding where most of the tail, and its start if it alone is wanted, is unlike all observed thetas.

        It is outside of their range, with losses worse than at any of them; or the losses are worse by more than a
        margin, wherever they are.
        """
        fit, nodes = posterior.fit, posterior.nodes
        observed, losses = self(np.asarray(fit.predict(fit.theta))), self(posterior.mean)
        start, largest = float(step_quantile(losses, nodes.weights, self.alpha)), float(np.max(observed))
        tail = losses >= start
        margin = MARGIN * (largest - float(np.min(observed))) + ROUNDING * abs(largest)
        outside = np.any((nodes.theta < np.min(fit.theta, axis=0)) | (nodes.theta > np.max(fit.theta, axis=0)), axis=1)
        unseen = tail & (losses > largest + np.where(outside, ROUNDING * abs(largest), margin))
        share = 1.0 if np.all(unseen[tail]) else float(np.sum(nodes.weights[unseen]) / np.sum(nodes.weights[tail]))
        if share <= UNSEEN or (start_only and start <= largest):
            return ()
        which = "the whole tail" if share == 1 else f"{share:.0%} of the tail"
        text = (
            f"{which}, {fit.names.ranges('theta', nodes.theta[tail])}, has worse losses than any of "
            f"the {len(observed)} observed thetas: the tail starts at {self.sign * start:.4g}, and the worst observed "
            f"theta has {self.sign * largest:.4g}. The interval rests on the prior of I alone."
        )
        return (Finding("beyond", text),)
