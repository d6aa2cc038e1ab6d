"""The choice of an estimator that suits the samples: by cost, by what f depends on, and by predicted errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq.common import Array, Executor, evenly
from cbq.embeddings import NoEmbedding
from cbq.estimators.base import Estimator, estimator
from cbq.estimators.conditional import CBQ, CBQFit
from cbq.estimators.conditional.stage_one import UNDECLARED_NOISE
from cbq.estimators.multioutput import MOBQ, PooledFit
from cbq.fit import Fit, has_long_tails
from cbq.samples import Samples

COMPARED_THETAS = 100  # at most
TAILS = 1.5  # the stretch of CBQ's standard deviations for the tails, beyond which one process would be overconfident


@estimator("auto", title="chosen for the samples", order=10)
@dataclass(frozen=True)
class Auto(Estimator[CBQFit | PooledFit]):
    """The estimator that suits the samples. A configuration: `fit` changes nothing.

    `cbq.CBQ` is fitted and, where there is a family and kernels have embeddings in coordinates that all thetas share,
    `cbq.MOBQ(nystrom="auto")`. The smaller predicted error wins: the standard deviation, at the observed thetas and
    between them. Where long tails of the measures decide the answer, CBQ is chosen, whose intervals allow
    for what lies beyond the points. Where points were chosen by a rule, CBQ would take them for draws, and where each
    theta has one, they cannot show it its error: MOBQ is chosen. docs/theory/estimators.md has measured how well this
    chooses.

    `fit` returns the fit of the chosen estimator, whose `summary()` begins with the choice and its reason.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> fit = cbq.Auto().fit(samples)
    >>> type(fit).__name__
    'MOBQFit'
    """

    def _fit(self, samples: Samples, pool: Executor | None) -> CBQFit | PooledFit:
        plain = CBQ()._undiagnosed(samples, pool)
        return _with_noise_of(plain, self._chosen(samples, plain))

    def _chosen(self, samples: Samples, plain: CBQFit) -> CBQFit | PooledFit:
        """The fit of the estimator that suits the samples; plain: the fit of CBQ."""
        if plain.unseen is not None:
            return plain.with_choice("Chose CBQ. All values of f are equal, and one process cannot be judged by them.")
        if np.any(plain.stage1.stretch > TAILS) and has_long_tails(samples):
            return plain.with_choice("Chose CBQ. The outermost points decide the answer, and it allows for the tails.")
        if not samples.conditional.everywhere:
            return plain.with_choice("Chose CBQ. MOBQ needs a family, and these samples have none.")
        try:
            pooled = MOBQ(nystrom="auto")._undiagnosed(samples, None)
        except (NoEmbedding, ValueError, MemoryError) as error:
            return plain.with_choice(f"Chose CBQ. MOBQ could not be fitted: {str(error).rstrip('.')}.")
        if samples.design == "adaptive":
            return pooled.with_choice("Chose MOBQ. Points were chosen by a rule, and CBQ would take them for draws.")
        if samples.n_evaluations == samples.T:
            return pooled.with_choice("Chose MOBQ. One value at each theta cannot show CBQ how large its error is.")
        theta = _compared_thetas(samples)
        ratio = float(np.exp(np.mean(np.log(_errors(pooled, theta)) - np.log(_errors(plain, theta)))))
        compared = f"MOBQ's predicted error is {ratio:.2g} times CBQ's."
        if ratio <= 1:
            return pooled.with_choice(f"Chose MOBQ. {compared}")
        return plain.with_choice(f"Chose CBQ. {compared}")


def _with_noise_of(plain: CBQFit, chosen: CBQFit | PooledFit) -> CBQFit | PooledFit:
    """The chosen fit with the noise that CBQ finds in samples of an f that was not declared random."""
    if UNDECLARED_NOISE not in plain.stage1.findings or UNDECLARED_NOISE in chosen._findings():
        return chosen
    return chosen._with_findings([UNDECLARED_NOISE])


def _compared_thetas(samples: Samples) -> Array:
    """Some of the thetas, and the midpoints to their nearest neighbours where the measure of x is known there."""
    theta = samples.theta[evenly(samples.T, COMPARED_THETAS)]
    units = np.maximum(np.std(theta, axis=0), np.finfo(float).tiny)
    apart = np.sum(((theta[:, None] - theta) / units) ** 2, axis=-1)
    apart[apart == 0] = np.inf
    both = np.concatenate([theta, 0.5 * (theta + theta[np.argmin(apart, axis=1)])])
    try:
        samples.conditional(both)
    except ValueError:  # a family for some thetas only, or none
        return theta
    return both


def _errors(fit: Fit, theta: Array) -> Array:
    """The root mean squares (C,) of predicted errors at thetas (M, p)."""
    _, std = fit._quiet.predict(theta, return_std=True)
    return np.asarray(np.maximum(np.sqrt(np.mean(std.reshape(len(theta), -1) ** 2, axis=0)), np.finfo(float).tiny))
