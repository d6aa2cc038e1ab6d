"""Runs that test whether f depends on theta, where it is said not to: points that were run already, at other thetas.

One process on all runs learns f as a function of x alone then, and no other run would contradict it: each has an x of
its own. Two runs of the budget are repeats. For a random f there are none: two draws differ anyway.
"""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array
from cbq.samples import Samples
from cbq.samples.arrays import equal_rows
from cbq.samples.conditional import Family, measures_at
from cbq.samples.runs import Runs

REPEATS = 2
# Of the range of values: a simulator in single precision may differ by it. Smaller differences are the finding "noise".
ROUNDING = 1e-6


def with_repeats(chosen: Runs, known: Runs, first: int, family: Family) -> Runs:
    """The chosen runs, of which those numbered first and first + 1, after the known ones, are repeats of earlier runs.

    They repeat the runs at both ends of the thetas, each at the theta that is furthest from its own, among those whose
    measure of x supports its point; there is no repeat if no measure does.
    """
    theta, x, every = chosen.theta.copy(), chosen.x.copy(), known + chosen
    for k in range(REPEATS):
        row = first + k - len(known)
        if 0 <= row < len(chosen):
            repeat = _repeat(every.take(slice(first)), k, family)
            if repeat is not None:
                theta[row], x[row] = repeat
    return Runs(theta, x)


def _repeat(runs: Runs, k: int, family: Family) -> tuple[Array, Array] | None:
    """Theta (p,) and x (d,) of a repeat of the run at end k, 0 or 1, of the thetas; None if no measure supports x."""
    z = (runs.theta - np.mean(runs.theta, axis=0)) / np.maximum(np.std(runs.theta, axis=0), np.finfo(float).tiny)
    end = int(np.argmax(np.sum(z**2, axis=1)))
    if k:
        end = int(np.argmax(np.sum((z - z[end]) ** 2, axis=1)))
    apart2 = np.sum((z - z[end]) ** 2, axis=1)
    there = Runs(runs.theta, np.repeat(runs.x[end][None], len(runs), axis=0))
    apart2[~there.inside(lambda theta: measures_at(family, theta))] = 0.0
    furthest = int(np.argmax(apart2))
    return (runs.theta[furthest], runs.x[end]) if apart2[furthest] > 0 else None


def dependence_on_theta(samples: Samples) -> str | None:
    """Where f has other values at the same x and another theta, in a sentence; None if it has none, or is random."""
    if samples.stochastic:
        return None
    f, theta, x = samples.table, samples.theta[samples.owners], samples.all_points
    rows, group = equal_rows(x)
    apart = np.max(np.abs(f - f[rows][group]) / np.maximum(np.ptp(f, axis=0), np.finfo(float).tiny), axis=1)
    apart[np.all(theta == theta[rows][group], axis=1)] = 0.0
    j = int(np.argmax(apart))
    if apart[j] <= ROUNDING:
        return None
    i, names = int(rows[group[j]]), samples.names
    one, other = (f"{_value(f[row])} at {names.at('theta', theta[row])}" for row in (i, j))
    return f"at {names.at('x', x[j])}, f is {one} and {other}"


def _value(f: Array) -> str:
    return f"{f[0]:.6g}" if len(f) == 1 else str(f)
