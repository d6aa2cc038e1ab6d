"""The coordinates of theta that the kernel of stage 2 acts on: centred, in units of their spread, raw or in logs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array
from cbq.samples.arrays import Booleans


@dataclass(frozen=True, eq=False)
class Coordinates:
    """z = (theta - centre) / scale, with log theta in place of theta where `logs`; all three (p,)."""

    logs: Booleans
    centre: Array
    scale: Array

    @classmethod
    def standard(cls, theta: Array, logs: Booleans) -> Coordinates:
        """Coordinates in which the thetas (T, p) have mean 0 and standard deviation 1."""
        raw = cls(logs, np.zeros(theta.shape[1]), np.ones(theta.shape[1]))(theta)
        spread = np.std(raw, axis=0)
        flat = spread <= 1e-12 * np.max(np.abs(raw), axis=0)
        return cls(logs, np.mean(raw, axis=0), np.where(flat, 1.0, spread))

    @classmethod
    def identity(cls, p: int) -> Coordinates:
        """Theta as it is, for a kernel given by the user."""
        return cls(np.zeros(p, dtype=bool), np.zeros(p), np.ones(p))

    def __call__(self, theta: Array) -> Array:
        """The coordinates (M, p) of theta (M, p)."""
        bad = self.logs & np.any(theta <= 0, axis=0)
        if np.any(bad):
            j = int(np.argmax(bad))
            raise ValueError(
                f"theta[:, {j}] must be positive, but its smallest value is {theta[:, j].min():g}: all observed thetas "
                f"are positive there, and the fit works with their logarithms. Fit again with log_theta=False to "
                f"predict at such thetas."
            )
        z = np.where(self.logs, np.log(np.where(self.logs, theta, 1.0)), theta)
        return np.asarray((z - self.centre) / self.scale)
