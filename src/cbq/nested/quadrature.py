"""A second level of Bayesian quadrature: phi(I(theta)) at some thetas, integrated under their law."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from cbq._arrays import Array, generator
from cbq.design.draws import iid, sobol
from cbq.fit import Fit
from cbq.measures import Empirical, Measure, Unnormalised
from cbq.methods import MOBQ
from cbq.nested.answer import Answer, answer
from cbq.nested.functionals import PATHS
from cbq.nested.outer import Design, Prior, check_design, law_of
from cbq.pooled import Integrals
from cbq.pooled.process import Exact
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
) -> Answer:
    """The mean of phi(I) by Bayesian quadrature at n thetas.

    The kernel and the error of the quadrature come from the mean of phi over draws of I, by one Gaussian process that
    is integrated under the law of theta. The same process integrates phi of each draw.
    """
    check_design(design)
    law = _embeddable(prior, fit.p)
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or not FEWEST <= n <= MOST:
        raise ValueError(
            f"n must be a number of thetas from {FEWEST} to {MOST}, but it is {n!r}: method='mc' takes any number."
        )
    for_thetas, for_paths = generator(rng).spawn(2)
    theta = (_spread if design == "sobol" else iid)(law, int(n), for_thetas)
    values = phi(fit.sample(theta, PATHS, for_paths, antithetic=True))  # (PATHS, n)
    averages = np.mean(values, axis=0)
    one = np.zeros((1, 1))  # the law of theta takes the place of the law of x, at a single theta
    second = MOBQ().fit(Samples(one, theta[None], averages[None], [law], design=design, depends_on_theta=False))
    _, outer_std = second.predict(one, return_std=True)
    kernel = second.parts[0].chosen.kernel
    process = Exact(kernel, theta, np.column_stack([phi(np.asarray(fit.predict(theta))), *values]), second.jitter)
    at_mean, *draws = process.mean(Integrals(kernel, [law], one).mean(theta))[0]
    return answer(at_mean, np.array(draws), outer_std[0], n=int(n), outer_df=np.inf)


def _spread(law: Measure, n: int, rng: np.random.Generator) -> Array:
    """n thetas (n, p) by a scrambled Sobol design that is wider than the law."""
    wider = 1.0 + WIDER / np.sqrt(law.dim)
    return law.transport(wider * ndtri(sobol(n, law.dim, rng)), "normal")


def _embeddable(prior: Prior, p: int) -> Measure:
    if isinstance(prior, list | tuple | np.ndarray):
        raise ValueError(
            "method='bq' integrates under a law of theta, and prior is a table of draws: use method='mc' for it."
        )
    law = law_of(prior, p)
    if isinstance(law, Empirical | Unnormalised):
        raise ValueError(f"method='bq' needs a law of theta with an embedding, which {law!r} has not: use method='mc'.")
    return law
