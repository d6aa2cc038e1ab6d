"""Thetas whose measure is discrete and at whose atoms f is known: the integral is a sum, and nothing is estimated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.measures import Empirical
from cbq.samples.samples import Samples

NEGLIGIBLE = 1e-14  # the mass of atoms at which f need not be known


@dataclass(frozen=True, eq=False)
class Enumerated:
    """Which thetas (T,) have all atoms among their points, and the weights (n,) of all points, zero elsewhere."""

    thetas: Booleans
    weights: Array

    @classmethod
    def of(cls, samples: Samples) -> Enumerated:
        """The thetas of samples without equal points that have all their atoms."""
        weights, thetas = np.zeros(samples.n_evaluations), np.zeros(samples.T, dtype=bool)
        if samples.stochastic or samples.log_weights is not None:
            return cls(thetas, weights)
        for t, measure in enumerate(samples.measures):
            if isinstance(measure, Empirical):
                found = _atom_weights(measure, samples.points(t))
                thetas[t] = np.sum(found) >= 1 - NEGLIGIBLE
                if thetas[t]:
                    weights[samples.starts[t] : samples.starts[t] + samples.counts[t]] = found / np.sum(found)
        return cls(thetas, weights)

    def sums(self, samples: Samples) -> Array:
        """The integrals (T, C), zero for other thetas."""
        return np.asarray(np.add.reduceat(self.weights[:, None] * samples.table, samples.starts, axis=0))


def _atom_weights(measure: Empirical, x: Array) -> Array:
    """The probabilities (N,) of points x (N, d), no two of which are equal."""
    used = measure.weights > 0
    atoms, weights = measure.points[used], measure.weights[used]
    distinct, which = np.unique(np.concatenate([x, atoms]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    mass = np.bincount(which[len(x) :], weights, minlength=len(distinct))
    return np.asarray(mass[which[: len(x)]])
