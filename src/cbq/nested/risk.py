"""Risk measures of I(theta) when theta follows its measure: the tail of its distribution."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from cbq._arrays import Array, between_0_and_1
from cbq.fit.base import Fit
from cbq.measures import Empirical
from cbq.nested.answer import Answer
from cbq.nested.functionals import assess, one_output
from cbq.nested.outer import NODES, Design, Outer, Prior, standard_error

Tail = Literal["upper", "lower"]
IN_TAIL = 4  # thetas of each part of them, at least
ROUNDING = 1e-12


def value_at_risk(
    fit: Fit,
    prior: Prior,
    alpha: float = 0.95,
    *,
    tail: Tail = "upper",
    output: int | None = None,
    n: int = NODES,
    design: Design = "sobol",
    rng: np.random.Generator | int = 0,
) -> Answer:
    """The loss I(theta) that is exceeded with probability 1 - alpha, theta following its prior: a quantile.

    Parameters
    ----------
    fit : what a method returned. I is a loss, large values being bad; where small ones are, pass tail="lower".
    prior : the distribution of theta, a measure or a scipy distribution; or draws of it, (n, p), or (n,) for p = 1.
    alpha : how much of the measure is not in the tail.
    tail : "upper", or "lower" for the value that I falls below with probability 1 - alpha.
    output : which output, where f has several.
    n, design, rng : how many thetas stand for their measure, scrambled Sobol points or iid, and the seed. Far tails take
        many: at least 32 / (1 - alpha), and half as many draws in a table.
    """
    side, take = _side(alpha, tail), one_output(fit, output)
    find = step_quantile if isinstance(prior, Empirical) else quantile

    def functional(values: Array, weights: Array) -> Array:
        return side * find(side * take(values), weights, alpha)

    def estimator(nodes: Outer, mean: Array) -> tuple[Array, Array]:
        # the average over parts is what the standard error is of, and on the line the better one for Sobol points
        parts = nodes.of_parts(functional, mean)
        value = np.mean(parts, axis=0) if parts else functional(mean, nodes.weights)
        return value, standard_error(parts)

    return assess(fit, functional, prior, n=n, design=design, rng=rng, estimator=estimator, in_a_part=_in_a_part(alpha))


def conditional_value_at_risk(
    fit: Fit,
    prior: Prior,
    alpha: float = 0.95,
    *,
    tail: Tail = "upper",
    output: int | None = None,
    n: int = NODES,
    design: Design = "sobol",
    rng: np.random.Generator | int = 0,
) -> Answer:
    """The mean of the losses I(theta) in the tail of probability 1 - alpha, theta following its prior.

    It is also called expected shortfall. See `value_at_risk` for the parameters.
    """
    side, take = _side(alpha, tail), one_output(fit, output)

    def functional(values: Array, weights: Array) -> Array:
        return side * tail_mean(side * take(values), weights, alpha)

    return assess(fit, functional, prior, n=n, design=design, rng=rng, in_a_part=_in_a_part(alpha))


def quantile(values: Array, weights: Array, alpha: float) -> Array:
    """The alpha-quantile (...) of values (..., m) with weights (m,), linear between the middles of their steps."""
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
    """The smallest of values (..., m) that the weight alpha lies at or below: (...)."""
    order = np.argsort(values, axis=-1)
    reached = np.cumsum(weights[order], axis=-1) >= alpha - ROUNDING
    first = np.take_along_axis(order, np.argmax(reached, axis=-1)[..., None], axis=-1)
    return np.asarray(np.take_along_axis(values, first, axis=-1)[..., 0])


def tail_mean(values: Array, weights: Array, alpha: float) -> Array:
    """The mean (...) of the largest values (..., m), those of the weight 1 - alpha (Rockafellar and Uryasev 2000)."""
    start = step_quantile(values, weights, alpha)
    excess = np.maximum(values - start[..., None], 0.0) @ weights
    return np.asarray(start + excess / (1.0 - alpha))


def _side(alpha: float, tail: Tail) -> float:
    """1 for the upper tail, -1 for the lower one."""
    between_0_and_1(alpha, "alpha")
    if tail not in get_args(Tail):
        raise ValueError(f"tail must be one of {', '.join(map(repr, get_args(Tail)))}, but it is {tail!r}.")
    return 1.0 if tail == "upper" else -1.0


def _in_a_part(alpha: float) -> int:
    """How many thetas it takes to have some of them in the tail."""
    return int(np.ceil(IN_TAIL / (1.0 - alpha) - ROUNDING))
