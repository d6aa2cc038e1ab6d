"""Nested expectations: E[phi(I(theta))] over the prior of theta, by averages or by Bayesian quadrature over theta."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from cbq.common import Array, Progress, RNGLike, as_progress, as_text, generator, is_whole, number, one_of, real, shown
from cbq.embeddings import NoEmbedding
from cbq.embeddings.many import Integrals
from cbq.estimators import automatic_kernels_of_x
from cbq.fit import Fit
from cbq.gp import ExactGP, LocalAmplitude, PooledPoints, choose_kernel
from cbq.linalg.jitter import SMALL_JITTER
from cbq.measures import Gaussian, Measure
from cbq.measures.points import iid, sobol
from cbq.nested.answer import Answer, OuterPosterior, answer, drawn, output_selector, require_fit
from cbq.nested.outer import NODES, Design, PriorLike, as_prior, is_table
from cbq.samples import units

Method = Literal["mc", "bq"]
DEFAULT_N = {"mc": NODES, "bq": 2**8}
MIN_NODES, MAX_NODES = 4, 2000  # thetas of "bq": whole functions are drawn at all of them
# Leave-one-out residuals give the error of one integral only within a factor of about three: hence few degrees of
# freedom, and half of the variance on top.
OUTER_DF, OUTER_COMMON = 2.5, 0.5
WIDENING = 0.5  # of Sobol thetas, relative to draws, for p = 1: quadrature needs nodes in the tails


def nested_expectation(
    fit: Fit,
    phi: Callable[[Array], Any],
    prior: PriorLike,
    *,
    method: Method = "mc",
    n: int | None = None,
    design: Design = "sobol",
    rng: RNGLike = 0,
    progress: Progress = False,
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
    progress : True for a bar over the thetas, or a function of the numbers of finished and of all thetas ("mc").

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
    >>> answer = cbq.nested_expectation(fit, np.square, problem.prior)  # E I^2
    >>> answer.estimate > 0
    True
    """
    if not callable(phi):
        raise TypeError(f"phi must be a function of values of I, but it is a {type(phi).__name__}.")
    require_fit(fit)
    one_of(method, Method, "method")
    progress = as_progress(progress)
    checked = partial(_apply, phi, fit.C)
    number = DEFAULT_N[method] if n is None else n
    if method == "bq":
        return _quadrature(fit, checked, prior, number, design, generator(rng))

    def functional(values: Array, weights: Array) -> Array:
        return np.asarray(checked(values) @ weights)

    posterior = OuterPosterior.at(fit, prior, n=number, design=design, rng=rng, progress=progress)
    return posterior.answer(functional)


def expected_loss(
    fit: Fit,
    prior: PriorLike,
    *,
    threshold: float = 0.0,
    output: int | None = None,
    method: Method = "mc",
    n: int | None = None,
    design: Design = "sobol",
    rng: RNGLike = 0,
    progress: Progress = False,
) -> Answer:
    """E[max(I(theta) - threshold, 0)] over the prior of theta: the expected loss above a threshold.

    output : the output that is the loss, if f has several. For the other parameters see `nested_expectation`.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> fit = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0, design="sobol"))
    >>> round(cbq.expected_loss(fit, problem.prior).estimate, 1)  # the truth is 3.0737
    3.1
    """
    threshold = number(threshold, "threshold")
    select = output_selector(fit, output)

    def loss(values: Array) -> Array:
        return np.maximum(select(values) - threshold, 0.0)

    return nested_expectation(fit, loss, prior, method=method, n=n, design=design, rng=rng, progress=progress).at_least(
        0.0
    )


def _apply(phi: Callable[[Array], Any], C: int | None, values: Array) -> Array:
    """phi at values of I, (..., m) or (..., m, C): (..., m). Raise unless it returns finite numbers of this shape."""
    expected = values.shape if C is None else values.shape[:-1]
    called = f"phi was given an array of shape {values.shape}" + f", whose last axis is {C} outputs" * (C is not None)
    values = values.view()
    values.setflags(write=False)  # the values are used again, so phi must not work in place
    try:
        result = real(phi(values), "the value of phi")
    except Exception as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"{called} and failed: {as_text(error)}. phi must be vectorised and must not change its argument: write "
            f"numpy.maximum(I, 0) for max(I, 0), or numpy.vectorize(phi) for a function of one number."
        ) from error
    if result.shape != expected:
        raise ValueError(f"{called} and returned one of shape {result.shape}, but it must return shape {expected}.")
    if not np.all(np.isfinite(result)):
        bad = result.size - np.count_nonzero(np.isfinite(result))
        raise ValueError(
            f"{called} and returned NaN or inf for {bad} of {result.size} values: phi must be finite at all draws of "
            f"I, which also lie outside the range of its mean. If phi is a logarithm, draws of I must stay away from "
            f"0: divide f by a function of theta so that I varies little, and take more points."
        )
    return result


def _quadrature(
    fit: Fit, phi: Callable[[Array], Array], prior: PriorLike, n: int, design: Design, rng: np.random.Generator
) -> Answer:
    """The mean of phi(I) by Bayesian quadrature at n thetas.

    The kernel and the error of the quadrature come from the mean of phi over draws of I, by one Gaussian process that
    is integrated under the prior of theta. The same process integrates phi of each draw.
    """
    one_of(design, Design, "design")
    measure = None if is_table(prior) else as_prior(prior, fit.p)
    if measure is None or measure.has_atoms:
        arrived = "a table of draws" if measure is None else repr(measure)
        raise ValueError(f"method='bq' integrates under a continuous prior, but it is {arrived}: pass method='mc'.")
    if not is_whole(n, MIN_NODES, MAX_NODES):
        given = f"but it is {shown(n)}: method='mc' takes more"
        raise ValueError(f"n must be a number of thetas from {MIN_NODES} to {MAX_NODES}, {given}.")
    for_thetas, for_paths = rng.spawn(2)
    theta = (_widened_sobol if design == "sobol" else iid)(measure, int(n), for_thetas)
    values = phi(drawn(fit, theta, for_paths))  # (PATHS, n)
    mean = np.asarray(fit._quiet.predict(theta))
    at_mean = phi(mean)
    try:
        integrals, outer_std = _integrals(theta, measure, values, at_mean)
    except NoEmbedding:  # coordinates in which the prior is standard normal always have one
        normal = Gaussian(np.zeros(measure.dim), np.ones(measure.dim))
        integrals, outer_std = _integrals(measure.inverse_transport(theta, base="normal"), normal, values, at_mean)
    return answer(fit, theta, integrals[0], integrals[1:], outer_std, outer_df=OUTER_DF)


def _integrals(nodes: Array, measure: Measure, values: Array, at_mean: Array) -> tuple[Array, Array]:
    """The integrals of at_mean (n,) and of each of `values` (S, n) at nodes (n, p), under a measure: (1 + S,).

    Also the scale, (), of the Student-t distribution of the quadrature error, which MOBQ computes for one integral.
    """
    averages = np.mean(values, axis=0)[:, None]
    shift, scale = units(averages)
    f = (averages - shift) / scale
    points = PooledPoints(nodes, f, np.broadcast_to(np.std(f), f.shape), shift, scale)

    chosen = choose_kernel(automatic_kernels_of_x(nodes, (measure,)), points, SMALL_JITTER)
    integrals = Integrals(chosen.kernel, [measure], np.empty((1, 0)))
    mu, z = integrals.mean(nodes), integrals.variance()
    process = ExactGP(chosen.kernel, nodes, np.column_stack([f[:, 0], at_mean, *values]), SMALL_JITTER)
    mean = process.mean(mu)[0]
    averaged, *others = (ExactGP(candidate.kernel, nodes, f, SMALL_JITTER) for candidate in chosen.members)
    scale2 = (LocalAmplitude(averaged)(mu) * averaged.variance(mu, z) + averaged.rounding**2)[0, 0]
    for weight, member, other in zip(chosen.weights[1:], chosen.members[1:], others, strict=True):
        apart = other.mean(Integrals(member.kernel, [measure], np.empty((1, 0))).mean(nodes))[0, 0] - mean[0]
        scale2 += weight * apart**2
    return mean[1:], np.asarray(scale[0] * np.sqrt((1.0 + OUTER_COMMON) * scale2))


def _widened_sobol(measure: Measure, n: int, rng: np.random.Generator) -> Array:
    """n thetas (n, p) by a scrambled Sobol design that is wider than the measure."""
    wider = 1.0 + WIDENING / np.sqrt(measure.dim)
    return measure.transport(wider * ndtri(sobol(n, measure.dim, rng)), "normal")
