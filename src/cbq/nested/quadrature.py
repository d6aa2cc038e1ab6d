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
from cbq.measures import Empirical, Gaussian, Measure
from cbq.methods import MOBQ
from cbq.nested.answer import Answer, answer
from cbq.nested.functionals import drawn
from cbq.nested.outer import Design, Prior, as_prior, check_design
from cbq.pooled.process import ExactGP
from cbq.samples import Samples

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

    Beside them the standard error of the quadrature.
    """
    one = np.zeros((1, 1))  # the distribution of theta takes the place of the measure of x, at a single theta
    averages = np.mean(values, axis=0)
    second = MOBQ().fit(Samples(one, nodes[None], averages[None], [measure], depends_on_theta=False))
    _, std = second.predict(one, return_std=True)
    kernel = second.parts[0].chosen.kernel
    process = ExactGP(kernel, nodes, np.column_stack([at_mean, *values]), second.jitter)
    return process.mean(Integrals(kernel, [measure], one).mean(nodes))[0], std[0]


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
