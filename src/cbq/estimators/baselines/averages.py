"""Plain averages of f at each theta, which the baselines start from.

Points from a proposal q in place of p have weights w = p / q: then they are averages of w f, which are unbiased, and
not divided by those of w.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq.common import Array, Integers
from cbq.fit import Finding
from cbq.io import Correlation, Numbers, Optional, saved
from cbq.linalg.lapack import correlation
from cbq.samples import MIN_EFFECTIVE_SIZE, Samples, check_magnitude, effective_sizes, find_thetas


@saved(
    "Averages",
    theta=Numbers("T p"),
    counts=Numbers("T", int, least=1),
    mean=Numbers("T C"),
    variance=Numbers("T C", least=0.0),
    correlation=Correlation("C C"),
    sizes=Optional(Numbers("T", least=0.0)),
)
@dataclass(frozen=True, eq=False)
class Averages:
    """The averages of f over the points of each theta.

    theta: (T, p). counts: (T,), the N_t. mean: (T, C). variance: (T, C), s_t^2 / N_t, and zero where N_t = 1.
    correlation: (C, C), of the values of outputs around their averages.
    sizes: (T,), the effective sample sizes (sum w)^2 / sum w^2 of points from a proposal; None where they come from
    their measures.

    With a proposal, w f stands for f everywhere.
    """

    theta: Array
    counts: Integers
    mean: Array
    variance: Array
    correlation: Array
    sizes: Array | None = None

    def __post_init__(self) -> None:
        for array in vars(self).values():
            if array is not None:
                array.setflags(write=False)

    def findings(self) -> tuple[Finding, ...]:
        """A finding if the weights leave few of the points of a theta."""
        if self.sizes is None or np.min(self.sizes) >= MIN_EFFECTIVE_SIZE:
            return ()
        few, worst = int(np.count_nonzero(self.sizes < MIN_EFFECTIVE_SIZE)), int(np.argmin(self.sizes))
        text = (
            f"the points of {few} of {len(self.sizes)} thetas come from a proposal and are worth fewer than "
            f"{MIN_EFFECTIVE_SIZE:g} points of their measures: {self.sizes[worst]:.3g} at theta = {self.theta[worst]}, "
            f"of {self.counts[worst]}. Averages with such weights, and their standard errors, may miss much of I."
        )
        return (Finding("few points", text),)

    def description(self) -> list[str]:
        """Lines of a summary on the weights, if there are some."""
        if self.sizes is None:
            return []
        sizes = f"smallest {np.min(self.sizes):.3g}, median {np.median(self.sizes):.3g}"
        return [f"Points come from a proposal q: averages of f p / q, with effective sample sizes: {sizes}."]


def averages(samples: Samples, *, pool: bool = False) -> Averages:
    """The averages at each theta; with `pool`, the points of equal thetas belong together."""
    table, weights = _weighted(samples)
    check_magnitude(table, largest=1e153, smallest=0.0)
    owner = find_thetas(samples.theta, samples.theta) if pool else np.arange(samples.T)
    firsts, label = np.unique(owner, return_inverse=True)
    order = np.argsort(label[samples.owners], kind="stable")
    counts = np.bincount(label, samples.counts).astype(np.intp)
    starts = np.cumsum(counts) - counts
    mean, variance = (np.array(rows) for rows in zip(*map(_average, np.split(table[order], starts[1:])), strict=True))
    apart = table - mean[label[samples.owners]]
    sizes = None if weights is None else effective_sizes(weights[order], starts)
    return Averages(samples.theta[firsts], counts, mean, variance, correlation(apart), sizes)


def _weighted(samples: Samples, largest: float = 300.0) -> tuple[Array, Array | None]:
    """The values w f (n, C) whose averages estimate I, and the log weights (n,) if points come from a proposal.

    largest: log weight, with which w f stays within float64.
    """
    logs = samples.log_weights
    if logs is None:
        return samples.table, None
    if np.max(logs) > largest:
        i = int(np.argmax(logs))
        raise ValueError(
            f"the weight of a point of theta = {samples.theta[samples.owners[i]]} is exp({logs[i]:.0f}): its proposal "
            f"hardly reaches the measure. Pass a wider proposal, or use cbq.CBQ, which needs no weights."
        )
    return np.exp(logs)[:, None] * samples.table, logs


def _average(values: Array) -> tuple[Array, Array]:
    """The mean (C,) of values (N, C) and its squared standard error, exact where all values are equal."""
    n, apart = len(values), values - values[0]
    mean = values[0] + np.mean(apart, axis=0)
    apart = values - mean
    unit = np.max(np.abs(apart), axis=0)  # squares of numbers far from 1 would leave the range of doubles
    unit = np.where((unit > 0) & np.any(values != values[0], axis=0), unit, 0.0)
    shape = np.sum(np.divide(apart, unit, out=np.zeros(apart.shape), where=unit > 0) ** 2, axis=0)
    return mean, (unit * np.sqrt(shape / (n * max(n - 1, 1)))) ** 2
