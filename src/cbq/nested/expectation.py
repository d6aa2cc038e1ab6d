"""Nested expectations: the mean of phi(I(theta)) when theta follows its measure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from cbq._arrays import Array, real
from cbq.fit.base import Fit
from cbq.nested.answer import Answer
from cbq.nested.functionals import assess, one_output, refuse_other
from cbq.nested.outer import NODES, Design, Prior
from cbq.nested.quadrature import integrate

Method = Literal["mc", "bq"]
THETAS = {"mc": NODES, "bq": 2**8}


def nested_expectation(
    fit: Fit,
    phi: Callable[[Array], Any],
    prior: Prior,
    *,
    method: Method = "mc",
    n: int | None = None,
    design: Design = "sobol",
    rng: np.random.Generator | int = 0,
) -> Answer:
    """E[phi(I(theta))], theta following its prior, with an interval.

    The interval holds the error of standing for the prior by n thetas, and what is not known about I: phi is averaged
    over draws of I from its posterior, as functions of theta. phi may have kinks.

    Parameters
    ----------
    fit : what a method returned.
    phi : a function of an array of values of I, which returns one number for each, as `numpy.square` does; where f has
        C outputs they are the last axis, and phi takes it away, as `lambda I: I.max(axis=-1)` does.
    prior : the distribution of theta, a measure or a scipy distribution; or draws of it, (n, p), or (n,) for p = 1.
    method : "mc", an average over thetas; or "bq", Bayesian quadrature over theta, which needs far fewer of them where
        phi(I(theta)) is smooth. It takes a distribution of theta that is no table.
    n : the number of thetas: 16384 ("mc"; with Sobol points, 8 designs of a power of two each), or 256 ("bq").
    design : of the thetas: "sobol", scrambled Sobol points, or "iid".
    rng : a Generator or a seed.
    """
    if not callable(phi):
        raise TypeError(f"phi must be a function of values of I, but it is a {type(phi).__name__}.")
    return _expectation(fit, phi, prior, method, n, design, rng)


def expected_loss(
    fit: Fit,
    prior: Prior,
    *,
    threshold: float = 0.0,
    output: int | None = None,
    method: Method = "mc",
    n: int | None = None,
    design: Design = "sobol",
    rng: np.random.Generator | int = 0,
) -> Answer:
    """E[max(I(theta) - threshold, 0)], theta following its prior: the mean of what is lost above a threshold.

    output : which output, where f has several. See `nested_expectation` for the other parameters.
    """
    if not isinstance(threshold, int | float | np.number) or not np.isfinite(threshold):
        raise ValueError(f"threshold must be a finite number, but it is {threshold!r}.")
    take = one_output(fit, output)

    def loss(values: Array) -> Array:
        return np.maximum(take(values) - threshold, 0.0)

    return _expectation(fit, loss, prior, method, n, design, rng, least=0.0)


def _expectation(
    fit: Fit,
    phi: Callable[[Array], Any],
    prior: Prior,
    method: Method,
    n: int | None,
    design: Design,
    rng: np.random.Generator | int,
    least: float = -np.inf,
) -> Answer:
    """E[phi(I(theta))], which is no less than `least`."""
    refuse_other(fit)
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(map(repr, get_args(Method)))}, but it is {method!r}.")
    at = partial(_apply, phi, fit.C)
    number = THETAS[method] if n is None else n
    if method == "bq":
        return integrate(fit, at, prior, n=number, design=design, rng=rng, least=least)

    def functional(values: Array, weights: Array) -> Array:
        return np.asarray(at(values) @ weights)

    return assess(fit, functional, prior, n=number, design=design, rng=rng, least=least)


def _apply(phi: Callable[[Array], Any], C: int | None, values: Array) -> Array:
    """phi at values of I, one number for each; or an error that says what it returned."""
    expected = values.shape if C is None else values.shape[:-1]
    asked = f"phi was given an array of shape {values.shape}" + (f", its last axis being {C} outputs" * (C is not None))
    values = values.view()
    values.setflags(write=False)  # a phi that works in place would change the values of the next one
    try:
        found = real(phi(values), "what phi returns")
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"{asked}, and failed: {error}. It must work on arrays and leave them as they are: write "
            f"numpy.maximum(I, 0) for max(I, 0), and numpy.vectorize(phi) for a function of one number."
        ) from error
    if found.shape != expected:
        raise ValueError(f"{asked}, and returned one of shape {found.shape}: it must be {expected}.")
    if not np.all(np.isfinite(found)):
        bad = found.size - np.count_nonzero(np.isfinite(found))
        raise ValueError(
            f"{asked}, and returned NaN or inf for {bad} of {found.size} values: draws of I may lie where its mean "
            f"does not, so phi must be finite there too."
        )
    return found
