"""Sites: the rows of a table as a regression sees them, those of a single column gathered in narrow bins.

A regression on one column needs no more than the mean outputs in a few hundred bins of it and their scatter, so that
its cost hardly depends on the number of rows. With several columns each row is a site of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from cbq.common.arrays import Array, Integers
from cbq.gp.sparse import Targets
from cbq.voi.steps import Step

EQUAL_COUNT_BINS, EQUAL_WIDTH_BINS = 256, 128  # of a column: by counts, and by width in normal scores for the tails


@dataclass(frozen=True, eq=False)
class Sites:
    """Groups of n rows, in s sites: the site of each row, (n,), and the number of rows at each site, (s,)."""

    place: Integers
    counts: Array

    @classmethod
    def of(cls, columns: Array, steps: Sequence[Step] = ()) -> Sites:
        """The sites of columns (n, p). If p is 1, equal rows share a site, and no site is on both sides of a step."""
        n, p = columns.shape
        if p > 1:
            return cls(np.arange(n), np.ones(n))
        _, place, counts = np.unique(columns[:, 0], return_inverse=True, return_counts=True)
        if len(counts) > EQUAL_COUNT_BINS + EQUAL_WIDTH_BINS:
            share = ((np.cumsum(counts) - 0.5 * counts) / n)[place]  # of smaller values, half of the equal ones counted
            scores = ndtri(share)
            width = (np.max(scores) - np.min(scores)) / EQUAL_WIDTH_BINS
            by_width = np.floor((scores - np.min(scores)) / width).astype(np.intp)
            both = np.floor(share * EQUAL_COUNT_BINS).astype(np.intp) * (EQUAL_WIDTH_BINS + 1) + by_width
            for step in steps:  # bins and sides rise with the column, so that their sum tells them apart
                both += step(columns).astype(np.intp)
            _, place, counts = np.unique(both, return_inverse=True, return_counts=True)
        return cls(place, counts.astype(float))

    @property
    def n(self) -> int:
        return len(self.place)

    def means(self, values: Array) -> Array:
        """The means (s, q) of values (n, q) at the sites."""
        return np.asarray(self.sums(values) / self.counts[:, None])

    def sums(self, values: Array) -> Array:
        """The sums (s, q) of values (n, q) at the sites."""
        s = len(self.counts)
        return np.stack([np.bincount(self.place, each, minlength=s) for each in values.T], axis=1)

    def products(self, values: Array) -> Array:
        """The sums (s, q, q) of products of pairs of values (n, q) at the sites."""
        pairs = values[:, :, None] * values[:, None, :]
        return self.sums(pairs.reshape(self.n, -1)).reshape(-1, *pairs.shape[1:])


@dataclass(frozen=True, eq=False)
class SiteOutputs:
    """Canonical outputs at s sites: numbers of rows (s,), means (s, r), sums of products (s, r, r)."""

    counts: Array
    means: Array
    products: Array

    @classmethod
    def of(cls, sites: Sites, values: Array) -> SiteOutputs:
        """Of the outputs (n, r) in all rows."""
        return cls(sites.counts, sites.means(values), sites.products(values))

    @property
    def n(self) -> float:
        return float(np.sum(self.counts))

    def targets(self, times: Array) -> Iterator[Targets]:
        """Of the regression of each output, whose rows are worth 1 / times (r,) of an independent one."""
        for c, (y, time) in enumerate(zip(self.means.T, times, strict=True)):
            within = float(np.sum(self.products[:, c, c]) - self.counts @ y**2)
            yield Targets(y, self.counts / time, max(within, 0.0) / time)

    def residual_products(self, sites: slice, mean: Array) -> Array:
        """Sums over the rows of some sites of products of residuals (b, r, r), for fitted means (b, r)."""
        y, counts = self.means[sites], self.counts[sites, None, None]
        between = y - mean
        within = self.products[sites] - counts * (y[:, :, None] * y[:, None, :])
        return np.asarray(within + counts * (between[:, :, None] * between[:, None, :]))
