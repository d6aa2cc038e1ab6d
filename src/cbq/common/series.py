"""Series of values in the order of a Markov chain."""

from __future__ import annotations

import numpy as np

from cbq.common.arrays import Array

SIGNIFICANT = 4.0  # standard errors of an autocorrelation of ranks under independence
MIN_CHAIN = 4  # rows below which there is no autocorrelation to be seen
FIRST_LAGS = 5  # whose mean is tested beside the first one
SERIES_AT_ONCE = 16
CONSTANT_BELOW = 1e-12  # standard deviation of a series, relative to its largest value


def autocorrelation_times(series: Array) -> Array:
    """The variances of the means of q series (n, q), relative to independent values, (q,), at least 1.

    This is 1 + 2 times the sum of autocorrelations, summed in pairs of lags while these are positive and decrease
    (Geyer 1992), if the autocorrelations of the ranks at the first lags are significant, and else exactly 1.
    """
    starts = range(0, series.shape[1], SERIES_AT_ONCE)
    return np.concatenate([_times(series[:, i : i + SERIES_AT_ONCE]) for i in starts])


def _times(series: Array) -> Array:
    n = len(series)
    if n < MIN_CHAIN:
        return np.ones(series.shape[1])
    dependent = np.array([_is_dependent(each) for each in series.T])
    if not np.any(dependent):
        return np.ones(series.shape[1])
    centred = series - np.mean(series, axis=0)
    size = 2 ** int(np.ceil(np.log2(2 * n)))
    spectrum = np.abs(np.fft.rfft(centred, size, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, size, axis=0)[: n // 2]
    varies = np.sqrt(covariance[0] / n) > CONSTANT_BELOW * np.max(np.abs(series), axis=0)
    rho = np.divide(covariance[1:], covariance[0], out=np.zeros((len(covariance) - 1, len(varies))), where=varies)
    return np.array([_initial_sequence(each) if some else 1.0 for each, some in zip(rho.T, dependent, strict=True)])


def _is_dependent(values: Array) -> bool:
    """Whether the first autocorrelation of values (n,), or the mean of the first few, is significant.

    The ranks are tested, and their products are compared with their own spread: few extreme values, or few that differ
    at all, would often pass a test that relies on a normal distribution.
    """
    place, counts = np.unique(values, return_inverse=True, return_counts=True)[1:]
    ranks = (np.cumsum(counts) - 0.5 * counts)[place]
    ranks -= np.mean(ranks)
    few = min(FIRST_LAGS, len(ranks) // 2)
    before = np.stack([ranks[few - lag : len(ranks) - lag] for lag in range(1, few + 1)])
    products = np.stack([before[0], np.sum(before, axis=0)]) * ranks[few:]
    return bool(np.any(np.sum(products, axis=1) > SIGNIFICANT * np.sqrt(np.sum(products**2, axis=1))))


def _initial_sequence(rho: Array) -> float:
    """1 + 2 sum rho over lags 1, 2, ..., by pairs (0, 1), (2, 3), ... while they are positive, made to decrease."""
    every = np.concatenate([[1.0], rho])
    pairs = every[0 : len(every) - 1 : 2] + every[1::2]
    positive = pairs[: int(np.argmax(pairs <= 0))] if np.any(pairs <= 0) else pairs
    return max(2.0 * float(np.sum(np.minimum.accumulate(positive))) - 1.0, 1.0)


def is_sorted(columns: Array) -> bool:
    """Whether some column of (n, k) rises or falls all along without being constant: then the order is no chain's."""
    moves = np.diff(columns, axis=0)
    rises, falls = np.any(moves > 0, axis=0), np.any(moves < 0, axis=0)
    return bool(np.any(rises != falls))
