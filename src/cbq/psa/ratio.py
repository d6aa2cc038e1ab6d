"""The ratio gamma of the variances of signal and noise, given all else: its posterior mean, and whether it is 0.

Where the rows say little about it, its likeliest value is too often nearly 0, with a posterior that is far too sure.
The standard deviation of the signal, in units of that of the noise, is half-Cauchy before anything is seen.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logsumexp

from cbq._arrays import Array
from cbq.gp.sparse import LEAST_NOISE, Moments

GRID = np.linspace(-25.0, 20.0, 361)  # of log gamma


def average_ratio(moments: Moments) -> tuple[float, float]:
    """The posterior mean of gamma, were it not 0, and the probability that it is, as likely as not before."""
    relative = -objective(np.exp(GRID), moments) + objective(np.zeros(1), moments)  # log-likelihood above that of 0
    prior = 0.5 * GRID - np.logaddexp(0.0, GRID)  # of log gamma, where sqrt(gamma) is half-Cauchy
    prior -= logsumexp(prior)
    posterior = relative + prior
    evidence = float(logsumexp(posterior))
    return float(np.exp(logsumexp(posterior + GRID) - evidence)), float(expit(-evidence))


def objective(gamma: Array, moments: Moments) -> Array:
    """J of `cbq.gp.sparse` at ratios gamma (G,): (G,)."""
    roots, axes = np.linalg.eigh(moments.M)
    roots, seen2 = np.maximum(roots, 0.0), (axes.T @ moments.seen) ** 2
    shrunk = 1.0 + gamma[:, None] * roots
    explained = np.sum(gamma[:, None] * seen2 / shrunk, axis=1)
    dof = max(moments.n - 1, 1)
    noise = np.maximum(moments.total - explained, LEAST_NOISE * moments.total) / dof
    return np.asarray(0.5 * (dof * np.log(noise) + np.sum(np.log(shrunk), axis=1) + gamma * moments.unseen))
