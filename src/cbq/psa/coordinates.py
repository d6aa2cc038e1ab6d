"""Coordinates of the columns of a set, in which a function of them is smooth: standardised, or normal scores."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from cbq._arrays import Array

ALIKE = 0.995  # correlation of a column with its normal scores above which both say the same


def coordinates(columns: Array) -> list[Array]:
    """The coordinates (n, p) to choose from, for the columns (n, p) of a set, none of them constant.

    Always the columns in units of their standard deviations; where one of them is far from normal also their normal
    scores, in which no row is far from the others.
    """
    standard = (columns - np.mean(columns, axis=0)) / np.std(columns, axis=0)
    scores = np.stack([normal_scores(column) for column in columns.T], axis=1)
    alike = np.mean(standard * scores, axis=0)
    two_valued = np.array([len(np.unique(column[:1000])) <= 2 and len(np.unique(column)) <= 2 for column in columns.T])
    return [standard] if np.all((alike > ALIKE) | two_valued) else [standard, scores]


def normal_scores(column: Array) -> Array:
    """The normal quantiles of the ranks of a column (n,), equal values sharing a rank, in standard units: (n,)."""
    _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - 0.5 * counts
    scores = ndtri(middle / len(column))[place]
    return np.asarray((scores - np.mean(scores)) / np.std(scores))
