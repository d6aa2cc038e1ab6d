"""How far integrals of a process can be trusted: by how much they move when parts of the values are left out.

With P = K^-1 with the constant projected out, and the weights w of an integral, leaving out the values of a group B
moves the integral by D = w_B' P_BB^-1 (P f)_B, which has the variance A V, V = w_B' P_BB^-1 w_B. The ratio of sums over
all groups, sum D^2 / sum V, estimates the amplitude A where it matters for this integral: a function that is smooth but
for three kinks is rough only for the integrals that see them (Naslidnyk, Kanagawa, Karvonen and Mahsereci 2023 estimate
one amplitude from all leave-one-out residuals in the same way).

Groups are single points, and the points of each theta. A theta that is left out leaves the gap that lies between
thetas, so its move foresees errors better than single points do; each is needed where the other is blind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers
from cbq._checks import is_number, is_whole, shown
from cbq.gp.pooled import ExactGP
from cbq.io import Integer, Number, saved
from cbq.linalg.dense import eigh

MIN_GROUPS = 3  # with fewer, the groups that are left say nothing about the one that is not


@saved("Calibration", df=Number(2.0), optimism=Number(0.0), points=Integer(3))
@dataclass(frozen=True)
class Calibration:
    """How variances follow from the moves of integrals when values are left out.

    df : degrees of freedom of the predictive Student-t distribution. Moves of 8 to 20 thetas tell the size of an error
        within a factor of about three.
    optimism : the factor of all variances. The kernel was chosen to make these very residuals small.
    points : the largest number of points whose moves are computed; of more, so many evenly spaced ones serve.
    """

    df: float = 3.0
    optimism: float = 1.5
    points: int = 1000

    def __post_init__(self) -> None:
        if not is_number(self.df, 2.0, 1e6):
            raise ValueError(f"df must be a number above 2, so that variances are finite, but it is {shown(self.df)}.")
        if not is_number(self.optimism, 0.0, 1e6):
            raise ValueError(f"optimism must be a factor of variances above 0, but it is {shown(self.optimism)}.")
        if not is_whole(self.points, 3):
            raise ValueError(f"points must be a number of points, 3 or more, but it is {shown(self.points)}.")


class LeftOut:
    """Values f (n, C) of a process, each predicted from all values outside of its group.

    precision: (n, n), P of the process. owners: (n,), the group of each value.
    """

    def __init__(self, process: ExactGP, precision: Array, owners: Integers) -> None:
        self.residuals = np.empty_like(process.alpha)
        self.groups = _by_size(owners)
        self._roots = [_inverse_root(precision[rows[:, :, None], rows[:, None, :]]) for rows in self.groups]
        for rows, roots in zip(self.groups, self._roots, strict=True):
            self.residuals[rows] = roots @ (roots.swapaxes(1, 2) @ process.alpha[rows])

    @property
    def means(self) -> Array:
        """The mean residuals (G, C) of the groups, those of the smallest first."""
        return np.concatenate([np.mean(self.residuals[rows], axis=1) for rows in self.groups])

    def amplitude(self, weights: Array) -> Array:
        """The amplitudes (M, C) that integrals with weights (M, n) have by their moves."""
        moves2, variance = 0.0, 0.0
        for rows, roots in zip(self.groups, self._roots, strict=True):
            mine = weights[:, rows]  # (M, G, s)
            moves2 = moves2 + np.sum(np.einsum("mgs,gsc->mgc", mine, self.residuals[rows]) ** 2, axis=1)
            variance = variance + np.sum(np.einsum("mgs,gsr->mgr", mine, roots) ** 2, axis=(1, 2))
        return np.asarray(moves2 / np.maximum(variance, np.finfo(float).tiny)[:, None])


class LocalAmplitude:
    """The amplitude of a process at each integral: the largest by the moves of several groupings of its values.

    groupings: the owners (n,) of the values, for each grouping besides that by single points.
    """

    def __init__(self, process: ExactGP, groupings: Sequence[Integers], options: Calibration) -> None:
        self._process, self._options = process, options
        n = len(process.nodes)
        useful = [each for each in groupings if MIN_GROUPS <= len(np.unique(each)) < n]
        precision = process.precision()
        self._left_out = [LeftOut(process, precision, owners) for owners in (np.arange(n), *useful)]

    @property
    def nodes(self) -> Array:
        """The points (n, D) at which embeddings are needed."""
        return self._process.nodes

    def __call__(self, mu: Array) -> Array:
        """The amplitudes (M, C) at integrals with embeddings mu (M, n)."""
        weights = self._process.weights(mu)
        largest = np.max([each.amplitude(weights) for each in self._left_out], axis=0)
        return np.asarray(self._options.optimism * largest)


def _inverse_root(matrices: Array) -> Array:
    """R (G, s, s) with R R' the inverses of matrices (G, s, s)."""
    if matrices.shape[-1] == 1:
        return np.asarray(1.0 / np.sqrt(np.maximum(matrices, np.finfo(float).tiny)))
    values, vectors = eigh(matrices)
    # The precision of values that nearly follow from others is zero up to rounding.
    least = np.finfo(float).eps * np.max(values, axis=1, keepdims=True)
    return np.asarray(vectors / np.sqrt(np.maximum(values, least))[:, None, :])


def _by_size(owners: Integers) -> list[Integers]:
    """The rows of each group, (G, s) for all groups of s rows together."""
    _, group, sizes = np.unique(owners, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    starts = np.cumsum(sizes) - sizes
    return [order[starts[sizes == s][:, None] + np.arange(s)] for s in np.unique(sizes)]
