"""The method that suits the samples: chosen by cost, by what f depends on, and by the errors that methods expect."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array
from cbq.embeddings import NoEmbedding
from cbq.fit import Fit
from cbq.methods.averages import require_samples
from cbq.methods.cbq import CBQ
from cbq.methods.cbq_fit import CBQFit
from cbq.methods.mobq import MOBQ
from cbq.methods.mobq_fit import MOBQFit
from cbq.samples import Samples

LARGEST = 5000  # points that are pooled
BORROWED = 200  # points that each theta has where it borrows
LEARNT = 0.02  # leave-one-out error of f, in units of its spread: below, nothing is gained by looking further
CLEARLY = 4.0  # times smaller the error of one process for x and theta must be, for that of two stages to be left


@dataclass(frozen=True)
class Auto:
    """The most accurate of the methods for the samples at hand. A configuration: `fit` changes nothing.

    Where there is a family, embeddings in shared coordinates and at most 5000 points, one process on all points
    (`cbq.MOBQ`) is fitted. If f does not depend on theta, and leaving one point out shows that the process has learnt
    it, that is the answer; otherwise it is compared with conditional Bayesian quadrature that borrows points
    (`cbq.CBQ(borrow=200)`), and the one that expects the smaller error is taken. If f depends on theta, the process has
    to expect clearly smaller errors than conditional Bayesian quadrature (`cbq.CBQ`), which is taken otherwise.

    `fit` returns the fit of the method that was chosen, whose `summary()` begins with the choice and its reason.
    """

    def fit(self, samples: Samples) -> CBQFit | MOBQFit:
        """The law of I over theta from samples, by the method that suits them."""
        require_samples(samples)
        pooled = _pooled(samples)
        if isinstance(pooled, str):
            rival, kind = _by_theta(samples)
            return rival.noted(f"{kind}, because {pooled}.")
        error = max(part.chosen.error for part in pooled.parts)
        if not samples.depends_on_theta and error <= LEARNT:
            return pooled.noted(f"one process on all points, because it has learnt f to {error:.1g} of its spread.")
        rival, kind = _by_theta(samples)
        logs = np.log(_expected(pooled, samples.theta)) - np.log(_expected(rival, samples.theta))
        ratio = float(np.exp(np.mean(logs)))  # of all outputs
        if ratio <= (1.0 / CLEARLY if samples.depends_on_theta else 1.0):
            return pooled.noted(f"one process on all points, which expects {ratio:.2g} of the error of {kind}.")
        return rival.noted(f"{kind}, because one process on all points expects {ratio:.2g} times its error.")


def _pooled(samples: Samples) -> MOBQFit | str:
    """One process on all points, or why there is none."""
    if samples.n_evaluations > LARGEST:
        return f"{samples.n_evaluations} points are too many for one process"
    if not samples.laws.everywhere:
        return "the samples have no family, which one process on all points needs between thetas"
    try:
        return MOBQ().fit(samples)
    except (NoEmbedding, ValueError) as error:
        return f"one process on all points cannot be had ({str(error).partition(':')[0]})"


def _by_theta(samples: Samples) -> tuple[CBQFit, str]:
    """Conditional Bayesian quadrature, with borrowed points where there are any to borrow; and its name."""
    if not samples.depends_on_theta and samples.T > 1 and np.any(samples.counts < BORROWED):
        try:
            return CBQ(borrow=BORROWED).fit(samples), "conditional Bayesian quadrature with borrowed points"
        except ValueError:
            pass  # laws that cannot tell where their bulk is
    return CBQ().fit(samples), "conditional Bayesian quadrature"


def _expected(fit: Fit, theta: Array) -> Array:
    """The root-mean-square error (C,) that a fit expects at thetas (T, p) and between neighbours."""
    units = np.maximum(np.std(theta, axis=0), np.finfo(float).tiny)
    apart = np.sum(((theta[:, None] - theta) / units) ** 2, axis=-1)
    apart[apart == 0] = np.inf
    middle = 0.5 * (theta + theta[np.argmin(apart, axis=1)])
    _, std = fit.predict(np.concatenate([theta, middle]), return_std=True)
    size = np.sqrt(np.mean(std.reshape(len(std), -1) ** 2, axis=0))
    return np.asarray(np.maximum(size, np.finfo(float).tiny))
