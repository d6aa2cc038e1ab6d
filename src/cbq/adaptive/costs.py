"""What a run is expected to cost, by how long runs near it took."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array
from cbq.samples.runs import Runs

NEAREST = 5  # runs that are averaged
LEAST_SECONDS = 1e-3  # shorter runs cost the same: their times are those of the call


class MeasuredCost:
    """The geometric mean of the seconds (n,) of the nearest runs, in theta and x, each in units of its spread."""

    def __init__(self, runs: Runs, seconds: Array) -> None:
        inputs = runs.inputs(of_theta=True)
        self._unit = np.maximum(np.std(inputs, axis=0), np.finfo(float).tiny)
        self._inputs, self._logs = inputs / self._unit, np.log(np.maximum(seconds, LEAST_SECONDS))

    def __call__(self, theta: Array, x: Array) -> float:
        """The expected seconds of a run at theta (p,) and x (d,)."""
        apart2 = np.sum((self._inputs - np.concatenate([x, theta]) / self._unit) ** 2, axis=1)
        nearest = np.argsort(apart2, kind="stable")[:NEAREST]
        return float(np.exp(np.mean(self._logs[nearest])))
