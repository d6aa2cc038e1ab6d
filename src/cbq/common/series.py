"""Series of values in the order of a Markov chain."""

from __future__ import annotations

import numpy as np

from cbq.common.arrays import Array

SIGNIFICANT = 4.0  # standard errors of an autocorrelation under independence
MIN_CHAIN = 4  # rows below which there is no autocorrelation to be seen
FIRST_LAGS = 5  # whose mean is tested beside the first one
SERIES_AT_ONCE = 16
CONSTANT_BELOW = 1e-12  # standard deviation of a series, relative to its largest value


def autocorrelation_times(series: Array) -> Array:
    """The variances of the means of q series (n, q), relative to independent values, (q,), at least 1.

    This is 1 + 2 times the sum of autocorrelations, summed in pairs of lags while these are positive and decrease
    (Geyer 1992), if the autocorrelations of the first lags are significant, and else exactly 1.
    """
    starts = range(0, series.shape[1], SERIES_AT_ONCE)
    return np.concatenate([_times(series[:, i : i + SERIES_AT_ONCE]) for i in starts])


def _times(series: Array) -> Array:
    n = len(series)
    if n < MIN_CHAIN:
        return np.ones(series.shape[1])
    centred = series - np.mean(series, axis=0)
    size = 2 ** int(np.ceil(np.log2(2 * n)))
    spectrum = np.abs(np.fft.rfft(centred, size, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, size, axis=0)[: n // 2]
    varies = np.sqrt(covariance[0] / n) > CONSTANT_BELOW * np.max(np.abs(series), axis=0)
    rho = np.divide(covariance[1:], covariance[0], out=np.zeros((len(covariance) - 1, len(varies))), where=varies)
    few = min(FIRST_LAGS, len(rho))
    sizes = np.maximum(np.sqrt(n) * rho[0], np.sqrt(n / few) * np.sum(rho[:few], axis=0))
    found = [_initial_sequence(each) if size > SIGNIFICANT else 1.0 for each, size in zip(rho.T, sizes, strict=True)]
    return np.array(found)


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
