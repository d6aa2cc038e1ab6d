"""A second level of Bayesian quadrature: phi(I(theta)) at some thetas, integrated under the prior of theta."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from cbq._arrays import Array, generator
from cbq.collect.draws import iid, sobol
from cbq.embeddings import NoEmbedding
from cbq.embeddings.many import Integrals
from cbq.fit.base import Fit
from cbq.gp.calibration import split_half_calibration
from cbq.gp.choice import PooledPoints, choose_kernel
from cbq.gp.pooled import ExactGP
from cbq.measures import Empirical, Gaussian, Measure
from cbq.methods.multioutput.candidates import automatic_kernels_of_x
from cbq.methods.multioutput.estimator import DEFAULT_JITTER
from cbq.nested.answer import Answer, answer, drawn
from cbq.nested.outer import Design, PriorLike, as_prior, check_design
from cbq.samples.arrays import units

MIN_NODES, MAX_NODES = 4, 2000  # thetas: whole functions are drawn at all of them
WIDENING = 0.5  # by which, for p = 1, Sobol thetas lie farther out than draws: quadrature needs nodes in the tails


def integrate(
    fit: Fit,
    phi: Callable[[Array], Array],
    prior: PriorLike,
    *,
    n: int,
    design: Design,
    rng: np.random.Generator | int,
    least: float,
) -> Answer:
    """The mean of phi(I) by Bayesian quadrature at n thetas.

    The kernel and the error of the quadrature come from the mean of phi over draws of I, by one Gaussian process that
    is integrated under the prior of theta. The same process integrates phi of each draw.
    """
    check_design(design)
    measure = _embeddable(prior, fit.p)
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or not MIN_NODES <= n <= MAX_NODES:
        raise ValueError(
            f"n must be an integer from {MIN_NODES} to {MAX_NODES}, but it is {n!r}: method='mc' takes any number."
        )
    for_thetas, for_paths = generator(rng).spawn(2)
    theta = (_widened_sobol if design == "sobol" else iid)(measure, int(n), for_thetas)
    values = phi(drawn(fit, theta, for_paths))  # (PATHS, n)
    at_mean = phi(np.asarray(fit.predict(theta)))
    try:
        found, outer_std = _integrals(theta, measure, values, at_mean)
    except NoEmbedding:  # coordinates in which the prior is standard normal always have one
        normal = Gaussian(np.zeros(measure.dim), np.ones(measure.dim))
        found, outer_std = _integrals(measure.inverse_transport(theta, base="normal"), normal, values, at_mean)
    return answer(found[0], found[1:], outer_std, n=int(n), outer_df=np.inf, least=least)


def _integrals(nodes: Array, measure: Measure, values: Array, at_mean: Array) -> tuple[Array, Array]:
    """The integrals of at_mean (n,) and of each of `values` (S, n) at nodes (n, p), under a measure: (1 + S,).

    Also the standard error of the quadrature, (), by a process that is calibrated by halves of the nodes.
    """
    averages = np.mean(values, axis=0)[:, None]
    shift, scale = units(averages)
    f = (averages - shift) / scale
    points = PooledPoints(nodes, f, np.broadcast_to(np.std(f), f.shape), shift, scale)
    chosen = choose_kernel(automatic_kernels_of_x(nodes, (measure,)), points, DEFAULT_JITTER)
    integrals = Integrals(chosen.kernel, [measure], np.empty((1, 0)))
    calibration = split_half_calibration(chosen, points, None, integrals, DEFAULT_JITTER)
    process = ExactGP(chosen.kernel, nodes, np.column_stack([f[:, 0], at_mean, *values]), DEFAULT_JITTER)
    mu = integrals.mean(nodes)
    variance = process.variance(mu, integrals.variance())[0, 0]
    std = scale[0] * np.sqrt(calibration.variance(variance, process.amplitude, 0))
    return process.mean(mu)[0, 1:], np.asarray(std)


def _widened_sobol(measure: Measure, n: int, rng: np.random.Generator) -> Array:
    """n thetas (n, p) by a scrambled Sobol design that is wider than the measure."""
    wider = 1.0 + WIDENING / np.sqrt(measure.dim)
    return measure.transport(wider * ndtri(sobol(n, measure.dim, rng)), "normal")


def _embeddable(prior: PriorLike, p: int) -> Measure:
    if isinstance(prior, list | tuple | np.ndarray):
        raise ValueError(
            "method='bq' integrates under a prior measure, but prior is a table of draws: pass method='mc'."
        )
    measure = as_prior(prior, p)
    if isinstance(measure, Empirical):
        raise ValueError(f"method='bq' integrates under a continuous prior, but it is {measure!r}: pass method='mc'.")
    return measure
