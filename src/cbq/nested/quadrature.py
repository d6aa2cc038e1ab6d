"""A second level of Bayesian quadrature: phi(I(theta)) at some thetas, integrated under their measure."""

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
from cbq.nested.answer import Answer, answer
from cbq.nested.functionals import drawn
from cbq.nested.outer import Design, Prior, as_prior, check_design
from cbq.samples.arrays import units

FEWEST, MOST = 4, 2000  # thetas: whole functions are drawn at all of them
WIDER = 0.5  # by this share, on the line, Sobol thetas lie farther out than draws: quadrature needs nodes in the tails


def integrate(
    fit: Fit,
    phi: Callable[[Array], Array],
    prior: Prior,
    *,
    n: int,
    design: Design,
    rng: np.random.Generator | int,
    least: float,
) -> Answer:
    """The mean of phi(I) by Bayesian quadrature at n thetas.

    The kernel and the error of the quadrature come from the mean of phi over draws of I, by one Gaussian process that
    is integrated under the distribution of theta. The same process integrates phi of each draw.
    """
    check_design(design)
    measure = _embeddable(prior, fit.p)
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or not FEWEST <= n <= MOST:
        raise ValueError(
            f"n must be a number of thetas from {FEWEST} to {MOST}, but it is {n!r}: method='mc' takes any number."
        )
    for_thetas, for_paths = generator(rng).spawn(2)
    theta = (_spread if design == "sobol" else iid)(measure, int(n), for_thetas)
    values = phi(drawn(fit, theta, for_paths))  # (PATHS, n)
    at_mean = phi(np.asarray(fit.predict(theta)))
    try:
        found, outer_std = _integrals(theta, measure, values, at_mean)
    except NoEmbedding:  # then in coordinates in which the measure is standard normal
        normal = Gaussian(np.zeros(measure.dim), np.ones(measure.dim))
        found, outer_std = _integrals(measure.inverse_transport(theta, base="normal"), normal, values, at_mean)
    return answer(found[0], found[1:], outer_std, n=int(n), outer_df=np.inf, least=least)


def _integrals(nodes: Array, measure: Measure, values: Array, at_mean: Array) -> tuple[Array, Array]:
    """The integrals under a measure of values at nodes (n, p): of at_mean (n,), then of each of `values` (S, n): (1 + S,).

    Beside them the standard error of the quadrature, (): that of a process calibrated by halves of the nodes.
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


def _spread(measure: Measure, n: int, rng: np.random.Generator) -> Array:
    """n thetas (n, p) by a scrambled Sobol design that is wider than the measure."""
    wider = 1.0 + WIDER / np.sqrt(measure.dim)
    return measure.transport(wider * ndtri(sobol(n, measure.dim, rng)), "normal")


def _embeddable(prior: Prior, p: int) -> Measure:
    if isinstance(prior, list | tuple | np.ndarray):
        raise ValueError(
            "method='bq' integrates under a distribution of theta, and prior is a table of draws: use method='mc' for it."
        )
    measure = as_prior(prior, p)
    if isinstance(measure, Empirical):
        raise ValueError(
            f"method='bq' integrates under a distribution of theta, and {measure!r} is a table: use method='mc'."
        )
    return measure
