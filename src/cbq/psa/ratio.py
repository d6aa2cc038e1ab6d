"""The signal-to-noise ratio gamma of a regression, given its other hyperparameters.

If the rows say little about gamma, its maximum-likelihood estimate is often close to 0, with a posterior of g that is
far too narrow. Gamma is therefore averaged over its posterior. A priori, gamma is 0 with probability 1/2, and else the
standard deviation of the signal, in units of that of the noise, is half-Cauchy.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logsumexp

from cbq._arrays import Array
from cbq.linalg.dense import eigh
from cbq.psa.sparse import LEAST_NOISE, Moments

LOG_RATIOS = np.linspace(-25.0, 20.0, 361)  # grid of log gamma


def average_ratio(moments: Moments) -> tuple[float, float]:
    """The posterior mean of gamma given that it is not 0, and the posterior probability that it is 0."""
    relative = -objective(np.exp(LOG_RATIOS), moments) + objective(np.zeros(1), moments)  # to the log-likelihood at 0
    prior = 0.5 * LOG_RATIOS - np.logaddexp(0.0, LOG_RATIOS)  # of log gamma, for half-Cauchy sqrt(gamma)
    prior -= logsumexp(prior)
    posterior = relative + prior
    evidence = float(logsumexp(posterior))
    return float(np.exp(logsumexp(posterior + LOG_RATIOS) - evidence)), float(expit(-evidence))


def objective(gamma: Array, moments: Moments) -> Array:
    """J (G,), minus the lower bound of the restricted log-likelihood, at ratios gamma (G,)."""
    roots, axes = eigh(moments.M)
    roots, seen2 = np.maximum(roots, 0.0), (axes.T @ moments.seen) ** 2
    shrunk = 1.0 + gamma[:, None] * roots
    explained = np.sum(gamma[:, None] * seen2 / shrunk, axis=1)
    dof = max(moments.n - 1, 1)
    noise = np.maximum(moments.total - explained, LEAST_NOISE * moments.total) / dof
    return np.asarray(0.5 * (dof * np.log(noise) + np.sum(np.log(shrunk), axis=1) + gamma * moments.unseen))
