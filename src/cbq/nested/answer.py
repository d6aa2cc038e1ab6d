"""A number that depends on I as a whole, with what is not known about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from cbq._arrays import Array, between_0_and_1

OFFSETS = 101  # values that stand for the measure of the outer error


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """An estimate with its interval. Numbers, or arrays (K,) where there are K of them.

    estimate : the posterior expectation, over what I may be given the data.
    plug_in : the same with the posterior mean of I put in the place of I, which is wrong where phi is curved.
    posterior_std : how far the number varies with what I may be.
    outer_std : the standard error of standing for the distribution of theta by n thetas.
    draws : (S,) or (S, K), the number for draws of I.
    n : the number of thetas.
    outer_df : the degrees of freedom of outer_std.
    least : the smallest value that the number can have.
    """

    estimate: float | Array
    plug_in: float | Array
    posterior_std: float | Array
    outer_std: float | Array
    draws: Array
    n: int
    outer_df: float
    least: float

    @property
    def std(self) -> float | Array:
        """The standard deviation of the estimate: of the posterior of I and of the outer error together."""
        return _plain(np.hypot(self.posterior_std, self.outer_std))

    def interval(self, level: float = 0.95) -> tuple[float | Array, float | Array]:
        """The ends of the central interval that holds the number with probability `level`."""
        level = between_0_and_1(level, "level")
        offsets = stdtrit(self.outer_df, (np.arange(OFFSETS) + 0.5) / OFFSETS)
        columns = self.draws.reshape(len(self.draws), -1).T  # (K, S)
        spread = np.broadcast_to(np.ravel(self.outer_std), len(columns))
        ends = [
            np.quantile((column[:, None] + std * offsets).ravel(), [0.5 * (1 - level), 0.5 * (1 + level)])
            for column, std in zip(columns, spread, strict=True)
        ]
        low, high = np.maximum(np.array(ends).T, self.least)
        shape = np.shape(self.estimate)
        return _plain(low.reshape(shape)), _plain(high.reshape(shape))

    def __repr__(self) -> str:
        low, high = (np.ravel(end) for end in self.interval())
        values = [
            f"{estimate:.6g} ({a:.6g} to {b:.6g})"
            for estimate, a, b in zip(np.ravel(self.estimate), low, high, strict=True)
        ]
        return f"{type(self).__name__}: {', '.join(values)}, 95% interval{'s' * (len(values) > 1)}, {self.n} thetas"


def _plain(value: float | Array) -> float | Array:
    """A number where there is one, or a read-only array."""
    if np.ndim(value) == 0:
        return float(value)
    array = np.array(value)
    array.setflags(write=False)
    return array


def answer(
    mean_value: Array,
    draws: Array,
    outer_std: Array,
    *,
    n: int,
    outer_df: float,
    least: float = -np.inf,
) -> Answer:
    """An answer from the value (...) at the mean of I, and draws (S, ...) of it."""
    draws.setflags(write=False)
    return Answer(
        _plain(np.maximum(np.mean(draws, axis=0), least)),
        _plain(mean_value),
        _plain(np.std(draws, axis=0)),
        _plain(np.broadcast_to(outer_std, np.shape(mean_value))),
        draws,
        n,
        outer_df,
        least,
    )
