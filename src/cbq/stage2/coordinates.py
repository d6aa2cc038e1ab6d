"""The coordinates of theta that the kernel of stage 2 acts on: centred, in units of their spread, raw or in logs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.io import Numbers, saved

_FAR = 1e3  # the coordinate of log 0, in units of the spread: correlated with nothing


@saved(
    "ThetaCoordinates",
    logs=Numbers("p", bool, inline=True),
    centre=Numbers("p", inline=True),
    scale=Numbers("p", least=math.ulp(0.0), inline=True),
)
@dataclass(frozen=True, eq=False)
class ThetaCoordinates:
    """z = (theta - centre) / scale, with log theta in place of theta where `logs`; all three (p,)."""

    logs: Booleans
    centre: Array
    scale: Array

    @classmethod
    def standard(cls, theta: Array, logs: Booleans) -> ThetaCoordinates:
        """Coordinates in which the thetas (T, p) have mean 0 and standard deviation 1."""
        raw = cls(logs, np.zeros(theta.shape[1]), np.ones(theta.shape[1]))(theta)
        spread = np.std(raw, axis=0)
        flat = spread <= 1e-12 * np.max(np.abs(raw), axis=0)
        return cls(logs, np.mean(raw, axis=0), np.where(flat, 1.0, spread))

    @classmethod
    def identity(cls, p: int) -> ThetaCoordinates:
        """Theta as it is, for a kernel given by the user."""
        return cls(np.zeros(p, dtype=bool), np.zeros(p), np.ones(p))

    def covers(self, theta: Array) -> bool:
        """Whether all thetas (M, p) have coordinates: a negative number has no logarithm, while that of zero is far."""
        return not np.any(self.logs & (theta < 0))

    def __call__(self, theta: Array) -> Array:
        """The coordinates (M, p) of theta (M, p)."""
        if not self.covers(theta):
            j = int(np.argmax(self.logs & np.any(theta < 0, axis=0)))
            raise ValueError(
                f"theta[:, {j}] must not be negative, but its smallest value is {theta[:, j].min():g}: all observed "
                f"thetas are positive there, and the fit works with their logarithms. Fit again with log_theta=False "
                f"to predict at such thetas."
            )
        positive = self.logs & (theta > 0)
        z = (np.where(positive, np.log(np.where(positive, theta, 1.0)), theta) - self.centre) / self.scale
        return np.where(self.logs & (theta == 0), -_FAR, z)
