"""Canonical outputs: linear combinations whose signals and noises are both uncorrelated, as nearly as can be told.

Independent regressions of them are right where those of the outputs would not be, and whatever is computed from them is
the same for all outputs that are linear maps of each other: in other units, or as differences from another decision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array
from cbq.gp.pooled import choose_landmarks
from cbq.kernels import RBF

DEPENDENT = 1e-10  # an eigenvalue of correlations below this, of the largest, is rounding
PILOT = 20  # landmarks of the first regression, of which at most a row in so many is one:
ROWS_EACH = 20


@dataclass(frozen=True, eq=False)
class Canonical:
    """y = mean + values . back, with y (n, q), mean (q,), values (n, r) of mean 0 and variance 1, back (r, q).

    r is the rank of y less its mean: none where all of y is constant.
    """

    mean: Array
    values: Array
    back: Array


def canonical(y: Array, z: Array, rng: np.random.Generator) -> Canonical:
    """The canonical outputs of y (n, q) for a regression on z (n, p)."""
    mean = np.mean(y, axis=0)
    apart = y - mean
    unit = np.sqrt(np.mean(apart**2, axis=0))
    varies = unit > 1e-12 * np.max(np.abs(y), axis=0)
    scaled = apart[:, varies] / unit[varies]
    if not scaled.size:
        return Canonical(mean, np.empty((len(y), 0)), np.empty((0, y.shape[1])))
    white, roots = _whitened(scaled)
    residual = white - (basis := _basis(z, rng)) @ (basis.T @ white)
    turn = np.linalg.eigh(residual.T @ residual / len(y))[1]
    values = white @ turn
    turn *= np.where(np.sum(values**3, axis=0) < 0, -1.0, 1.0)  # a sign that depends on the values alone
    back = np.zeros((turn.shape[1], y.shape[1]))
    back[:, varies] = turn.T @ roots * unit[varies]
    return Canonical(mean, white @ turn, back)


def _whitened(scaled: Array) -> tuple[Array, Array]:
    """Uncorrelated columns (n, r) of variance 1, and the map (r, q) from them to `scaled` (n, q), of mean 0."""
    eigenvalues, axes = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    kept = eigenvalues > DEPENDENT * eigenvalues[-1]
    sizes = np.sqrt(eigenvalues[kept])
    return scaled @ axes[:, kept] / sizes, sizes[:, None] * axes[:, kept].T


def _basis(z: Array, rng: np.random.Generator) -> Array:
    """Orthonormal columns (n, k) that span the constant, lines and a few bumps over z (n, p): a first regression."""
    n, p = z.shape
    kernel = RBF(2.0 * np.sqrt(p))
    most = max(1, min(PILOT, n // ROWS_EACH))
    some = rng.choice(n, min(n, 2000), replace=False)
    nodes = z[some[choose_landmarks(kernel, z[some], most, rng)]]
    lines = z if n >= ROWS_EACH * (p + most) else z[:, :0]
    U, sizes, _ = np.linalg.svd(np.column_stack([np.ones(n), lines, kernel(z, nodes)]), full_matrices=False)
    return np.asarray(U[:, sizes > 1e-10 * sizes[0]])
