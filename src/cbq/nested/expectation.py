"""Nested expectations: E[phi(I(theta))] over the prior of theta."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from cbq._arrays import Array, real
from cbq.fit.base import Fit
from cbq.nested.answer import Answer, assess, output_selector, require_fit
from cbq.nested.outer import NODES, Design, PriorLike
from cbq.nested.quadrature import integrate

Method = Literal["mc", "bq"]
DEFAULT_N = {"mc": NODES, "bq": 2**8}


def nested_expectation(
    fit: Fit,
    phi: Callable[[Array], Any],
    prior: PriorLike,
    *,
    method: Method = "mc",
    n: int | None = None,
    design: Design = "sobol",
    rng: np.random.Generator | int = 0,
) -> Answer:
    """E[phi(I(theta))] over the prior of theta, with an interval.

    The interval covers the uncertainty of I, through draws of I as a function of theta, and the error of representing
    the prior by n thetas. phi may have kinks.

    Parameters
    ----------
    fit : the fit of an estimator.
    phi : a vectorised function of values of I, such as `numpy.square`. If f has C outputs, they are the last axis of
        its argument, and phi reduces this axis, as `lambda I: I.max(axis=-1)` does.
    prior : the distribution of theta, a measure or a scipy distribution; or draws of it, (n, p), or (n,) for p = 1.
    method : "mc", an average over thetas; or "bq", Bayesian quadrature over theta, which needs far fewer thetas if
        phi(I(theta)) is smooth, and takes no table of draws.
    n : the number of thetas, by default 16384 ("mc"; Sobol: 8 designs of a power of two each) or 256 ("bq").
    design : of the thetas, "sobol" (scrambled) or "iid".
    rng : a generator or a seed.
    """
    if not callable(phi):
        raise TypeError(f"phi must be a function of values of I, but it is a {type(phi).__name__}.")
    return _expectation(fit, phi, prior, method, n, design, rng)


def expected_loss(
    fit: Fit,
    prior: PriorLike,
    *,
    threshold: float = 0.0,
    output: int | None = None,
    method: Method = "mc",
    n: int | None = None,
    design: Design = "sobol",
    rng: np.random.Generator | int = 0,
) -> Answer:
    """E[max(I(theta) - threshold, 0)] over the prior of theta: the expected loss above a threshold.

    output : the output that is the loss, if f has several. For the other parameters see `nested_expectation`.
    """
    if not isinstance(threshold, int | float | np.number) or not np.isfinite(threshold):
        raise ValueError(f"threshold must be a finite number, but it is {threshold!r}.")
    select = output_selector(fit, output)

    def loss(values: Array) -> Array:
        return np.maximum(select(values) - threshold, 0.0)

    return _expectation(fit, loss, prior, method, n, design, rng, least=0.0)


def _expectation(
    fit: Fit,
    phi: Callable[[Array], Any],
    prior: PriorLike,
    method: Method,
    n: int | None,
    design: Design,
    rng: np.random.Generator | int,
    least: float = -np.inf,
) -> Answer:
    """E[phi(I(theta))], with the lower bound `least`."""
    require_fit(fit)
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(map(repr, get_args(Method)))}, but it is {method!r}.")
    checked = partial(_apply, phi, fit.C)
    number = DEFAULT_N[method] if n is None else n
    if method == "bq":
        return integrate(fit, checked, prior, n=number, design=design, rng=rng, least=least)

    def functional(values: Array, weights: Array) -> Array:
        return np.asarray(checked(values) @ weights)

    return assess(fit, functional, prior, n=number, design=design, rng=rng, least=least)


def _apply(phi: Callable[[Array], Any], C: int | None, values: Array) -> Array:
    """phi at values of I, (..., m) or (..., m, C): (..., m). Raise unless it returns finite numbers of this shape."""
    expected = values.shape if C is None else values.shape[:-1]
    called = f"phi was given an array of shape {values.shape}" + f", whose last axis is {C} outputs" * (C is not None)
    values = values.view()
    values.setflags(write=False)  # the values are used again, so phi must not work in place
    try:
        found = real(phi(values), "the value of phi")
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"{called} and failed: {error}. phi must be vectorised and must not change its argument: write "
            f"numpy.maximum(I, 0) for max(I, 0), or numpy.vectorize(phi) for a function of one number."
        ) from error
    if found.shape != expected:
        raise ValueError(f"{called} and returned one of shape {found.shape}, but it must return shape {expected}.")
    if not np.all(np.isfinite(found)):
        bad = found.size - np.count_nonzero(np.isfinite(found))
        raise ValueError(
            f"{called} and returned NaN or inf for {bad} of {found.size} values: phi must be finite at all draws of I, "
            f"which also lie outside the range of its mean."
        )
    return found
