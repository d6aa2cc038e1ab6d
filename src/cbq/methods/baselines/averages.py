"""Plain averages of f at each theta, which the baselines start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers
from cbq.io import Correlation, Numbers, saved
from cbq.linalg.dense import correlation
from cbq.samples import Samples
from cbq.samples.arrays import check_magnitude
from cbq.samples.conditional import find_thetas


@saved(
    "Averages",
    theta=Numbers("T p"),
    counts=Numbers("T", int, least=1),
    mean=Numbers("T C"),
    variance=Numbers("T C", least=0.0),
    correlation=Correlation("C C"),
)
@dataclass(frozen=True, eq=False)
class Averages:
    """The averages of f over the points of each theta.

    theta: (T, p). counts: (T,), the N_t. mean: (T, C). variance: (T, C), s_t^2 / N_t, and zero where N_t = 1.
    correlation: (C, C), of the values of outputs around their averages.
    """

    theta: Array
    counts: Integers
    mean: Array
    variance: Array
    correlation: Array

    def __post_init__(self) -> None:
        for array in (self.theta, self.counts, self.mean, self.variance, self.correlation):
            array.setflags(write=False)


def averages(samples: Samples, *, pool: bool = False) -> Averages:
    """The averages at each theta; with `pool`, the points of equal thetas belong together."""
    check_magnitude(samples.table, largest=1e153, smallest=0.0)
    owner = find_thetas(samples.theta, samples.theta) if pool else np.arange(samples.T)
    firsts, label = np.unique(owner, return_inverse=True)
    order = np.argsort(label[samples.owners], kind="stable")
    counts = np.bincount(label, samples.counts).astype(np.intp)
    parts = [_average(part) for part in np.split(samples.table[order], np.cumsum(counts)[:-1])]
    mean, variance = (np.array(rows) for rows in zip(*parts, strict=True))
    apart = samples.table - mean[label[samples.owners]]
    return Averages(samples.theta[firsts], counts, mean, variance, correlation(apart))


def _average(values: Array) -> tuple[Array, Array]:
    """The mean (C,) of values (N, C) and its squared standard error, exact where all values are equal."""
    n, apart = len(values), values - values[0]
    mean = values[0] + np.mean(apart, axis=0)
    apart = values - mean
    unit = np.max(np.abs(apart), axis=0)  # squares of numbers far from 1 would leave the range of doubles
    unit = np.where((unit > 0) & np.any(values != values[0], axis=0), unit, 0.0)
    shape = np.sum(np.divide(apart, unit, out=np.zeros(apart.shape), where=unit > 0) ** 2, axis=0)
    return mean, (unit * np.sqrt(shape / (n * max(n - 1, 1)))) ** 2
