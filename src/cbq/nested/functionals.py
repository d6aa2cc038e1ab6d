"""Numbers that depend on I as a whole, under a distribution of theta, with both of their errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cbq._arrays import Array, generator
from cbq.fit.base import Fit
from cbq.nested.answer import Answer, answer
from cbq.nested.outer import Design, Outer, Prior, outer, standard_error

Functional = Callable[[Array, Array], Array]  # of values of I, (..., m) or (..., m, C), and weights (m,) of the thetas
Estimator = Callable[[Outer, Array], tuple[Array, Array]]  # of a functional, and its standard error, for I (n, ...)
PATHS = 1000  # functions that are drawn


def assess(
    fit: Fit,
    functional: Functional,
    prior: Prior,
    *,
    n: int,
    design: Design,
    rng: np.random.Generator | int,
    least: float = -np.inf,
    estimator: Estimator | None = None,
    in_a_part: int = 1,
) -> Answer:
    """A functional of I under the distribution of theta.

    It is computed for the mean of I at n thetas, and for draws of I as a function at few of them: how they differ from
    the mean there is added to the value at all. estimator: of the value at all, where the functional is not the best.
    least: the smallest value that it can have. in_a_part: the fewest thetas for which it means something.
    """
    refuse_other(fit)
    for_thetas, for_paths = generator(rng).spawn(2)
    nodes = outer(prior, n, design, for_thetas, fit.p, in_a_part)
    mean = np.asarray(fit.predict(nodes.theta))
    value, outer_std = _plainly(functional, nodes, mean) if estimator is None else estimator(nodes, mean)
    deviations = _deviations(fit, functional, nodes, mean, for_paths)
    return answer(value, value + deviations, outer_std, n=len(mean), outer_df=nodes.df, least=least)


def _plainly(functional: Functional, nodes: Outer, mean: Array) -> tuple[Array, Array]:
    return functional(mean, nodes.weights), standard_error(nodes.of_parts(functional, mean))


def _deviations(fit: Fit, functional: Functional, nodes: Outer, mean: Array, rng: np.random.Generator) -> Array:
    """What a functional of draws of I differs by from that of its mean: (PATHS, ...)."""
    paths = drawn(fit, nodes.theta[nodes.few], rng)
    return functional(paths, nodes.few_weights) - functional(mean[nodes.few], nodes.few_weights)


def drawn(fit: Fit, theta: Array, rng: np.random.Generator) -> Array:
    """Draws of I at theta (m, p), as functions: (PATHS, m) or (PATHS, m, C)."""
    _, std = fit.predict(theta, return_std=True)
    if not np.all(np.isfinite(std)):
        raise ValueError(
            "the distribution of I has no variance, so that averages over it mean nothing: its Student-t distributions have two degrees "
            "of freedom or fewer. Evaluate f at more points of each theta, or at more thetas, or use cbq.CBQ."
        )
    return fit.sample(theta, PATHS, rng, antithetic=True)


def refuse_other(fit: object) -> None:
    """Raise unless this is a fit."""
    if not isinstance(fit, Fit):
        raise TypeError(
            f"fit must be what a method returns, as cbq.CBQ().fit(samples) does, but it is a {type(fit).__name__}."
        )


def one_output(fit: Fit, output: int | None) -> Callable[[Array], Array]:
    """What takes the values (..., m) of one output from those of all."""
    refuse_other(fit)
    if fit.C is None:
        if output is not None:
            raise ValueError(f"output = {output!r} was asked for, but f has no axis of outputs: leave output out.")
        return lambda values: values
    if output is None or not (isinstance(output, int | np.integer) and 0 <= output < fit.C):
        raise ValueError(f"f has {fit.C} outputs: say which with output=0 to {fit.C - 1}; {output!r} arrived.")
    return lambda values: values[..., output]
