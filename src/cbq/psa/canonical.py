"""What is regressed on what: canonical outputs on the coordinates of a set.

Canonical outputs are linear combinations of outputs whose signals and noises are both uncorrelated in a pilot
regression. Regressing them independently is therefore adequate, and results do not depend on linear maps of the
outputs: on their units, or on the decision that differences are taken from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from cbq._arrays import Array
from cbq.gp.pooled import choose_landmarks
from cbq.kernels import RBF
from cbq.linalg.dense import eigh, thin_svd

RANK_TOLERANCE = 1e-10  # relative to the largest eigenvalue of the correlations, or singular value of the basis
PILOT_LANDMARKS = 20  # at most, in the pilot regression
PILOT_ROWS = 20  # at least, for each column of its basis
NORMAL_ABOVE = 0.995  # correlation of a column with its normal scores


@dataclass(frozen=True, eq=False)
class CanonicalOutputs:
    """y = mean + values @ back, for y (n, q), mean (q,), values (n, r) of mean 0 and variance 1, and back (r, q).

    r is the rank of y less its mean: 0 if all of y is constant.
    """

    mean: Array
    values: Array
    back: Array


def canonical_outputs(y: Array, z: Array, rng: np.random.Generator) -> CanonicalOutputs:
    """The canonical outputs of y (n, q) for a regression on z (n, p)."""
    mean = np.mean(y, axis=0)
    centred = y - mean
    std = np.sqrt(np.mean(centred**2, axis=0))
    varies = std > 1e-12 * np.max(np.abs(y), axis=0)
    scaled = centred[:, varies] / std[varies]
    if not scaled.size:
        return CanonicalOutputs(mean, np.empty((len(y), 0)), np.empty((0, y.shape[1])))
    white, unwhiten = _whitened(scaled)
    residual = white - (basis := _pilot_basis(z, rng)) @ (basis.T @ white)
    rotation = eigh(residual.T @ residual / len(y))[1]
    values = white @ rotation
    rotation *= np.where(np.sum(values**3, axis=0) < 0, -1.0, 1.0)  # fixes the signs of the eigenvectors
    back = np.zeros((rotation.shape[1], y.shape[1]))
    back[:, varies] = rotation.T @ unwhiten * std[varies]
    return CanonicalOutputs(mean, white @ rotation, back)


def candidate_coordinates(columns: Array) -> list[Array]:
    """The coordinates (n, p) to choose from for the columns (n, p) of a set, none of them constant.

    These are the standardised columns and, if one of them is far from normal, also the normal scores of all columns,
    which have no outliers.
    """
    standard = (columns - np.mean(columns, axis=0)) / np.std(columns, axis=0)
    scores = np.stack([normal_scores(column) for column in columns.T], axis=1)
    correlation = np.mean(standard * scores, axis=0)
    binary = np.array([len(np.unique(column[:1000])) <= 2 and len(np.unique(column)) <= 2 for column in columns.T])
    return [standard] if np.all((correlation > NORMAL_ABOVE) | binary) else [standard, scores]


def normal_scores(column: Array) -> Array:
    """The standardised normal quantiles (n,) of the ranks of a column (n,); ties share their mean rank."""
    _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - 0.5 * counts
    scores = ndtri(middle / len(column))[place]
    return np.asarray((scores - np.mean(scores)) / np.std(scores))


def _whitened(scaled: Array) -> tuple[Array, Array]:
    """Uncorrelated columns (n, r) of variance 1, and the map (r, q) from them to centred columns `scaled` (n, q)."""
    eigenvalues, axes = eigh(scaled.T @ scaled / len(scaled))
    kept = eigenvalues > RANK_TOLERANCE * eigenvalues[-1]
    stds = np.sqrt(eigenvalues[kept])
    return scaled @ axes[:, kept] / stds, stds[:, None] * axes[:, kept].T


def _pilot_basis(z: Array, rng: np.random.Generator) -> Array:
    """Orthonormal columns (n, k) that span a constant, linear terms and a few RBF kernels over z (n, p)."""
    n, p = z.shape
    kernel = RBF(2.0 * np.sqrt(p))
    most = max(1, min(PILOT_LANDMARKS, n // PILOT_ROWS))
    some = rng.choice(n, min(n, 2000), replace=False)
    nodes = z[some[choose_landmarks(kernel, z[some], most, rng)]]
    linear = z if n >= PILOT_ROWS * (p + most) else z[:, :0]
    U, sizes, _ = thin_svd(np.column_stack([np.ones(n), linear, kernel(z, nodes)]))
    return np.asarray(U[:, sizes > RANK_TOLERANCE * sizes[0]])
