"""Where the next values of f help most: points chosen from candidates by what one process would learn from them.

The design must not trust one fitted kernel: where its lengthscale is too long, the process believes it knows what it
has never looked at. The gain is therefore averaged over the kernels of the fit and rough ones whose lengthscales are
the spread of the candidates. One amplitude for all of f is too small at a kink or a narrow feature and too large
elsewhere: the gain is multiplied by how much larger than expected errors of f seem to be near a candidate. Once f has
been learnt, that is how far the process is there from one that is a step rougher; before, both are wrong, and smoothed
leave-one-out residuals say it; and once f is known but for rounding, the difference counts less. One point in eight is
chosen by the rough kernels alone, whatever the values. Where f jumps, there are further candidates across the jump (see
`steep`).

Where there are many inputs, processes disagree everywhere and the gains of rough kernels tell little apart: residuals
alone say where f is hard, the kernels of the fit count more, and one point in three, and the first ones, fill space.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cbq._arrays import Array, Integers
from cbq.embeddings.many import Integrals, line_for, together
from cbq.gp.acquisition import Gain
from cbq.kernels import Kernel, Matern, XThetaKernel
from cbq.linalg.threads import one_blas_thread
from cbq.measures import Measure
from cbq.methods.multioutput.candidates import MANY_INPUTS, automatic_kernels_of_x
from cbq.samples.conditional import Family, measures_at
from cbq.samples.runs import Runs

if TYPE_CHECKING:
    from cbq.methods.multioutput.fit import MOBQFit

FITTED_SHARE = 0.5  # of the gain that the kernels of the fit have; rough ones have the rest
MOSTLY_FITTED = 0.8  # the same with many inputs, among which rough ones tell nothing apart
EXPLORING = 8  # one point in so many is chosen by rough kernels alone
FILLING = 3  # with many inputs, one in so many fills space
FILLING_CANDIDATES = 32  # the first ones, from which it is taken; once these are, the next ones in their order
LEARNT = 0.1  # a leave-one-out error, in units of the spread of f, up to which processes tell where they err
LEAST_FACTOR = 1e-6  # in units of the largest: where processes agree but for rounding, the gain decides
KNOWN = 1e-5  # and one below which much of what is left is rounding
PRIOR_RESIDUALS = 0.01  # the weight of the expected squared residual against those near a candidate
N_CANDIDATES = 768
MAX_JOINT = 1000  # points chosen jointly; the cost grows with the third power
TAIL_SHARE = 4  # one candidate in so many has more weight at the ends of each coordinate
SLOW_STEP = 4  # one in so many thetas serves where embeddings are slow
LEAST_TAIL = 1e-9  # the probability beyond the outermost candidate


@dataclass(frozen=True, eq=False)
class Wanted:
    """The thetas (G, p), draws of Q, at which I is wanted, and the measures there, together where they can be."""

    theta: Array
    measures: tuple[Measure, ...]

    @classmethod
    def at(cls, theta: Array, family: Family) -> Wanted:
        """At thetas (G, p)."""
        return cls(theta, tuple(together(measures_at(family, theta))))

    def integrals(self, kernel: Kernel) -> Integrals:
        """The integrals of a kernel that matter; of some of the thetas if its embeddings are slow."""
        step = SLOW_STEP if kernel.on_x.has_slow_embedding else 1
        measures = [each[::step] if each.batch_shape else each for each in self.measures]
        if len(measures) > 1:
            measures = measures[::step]
        return Integrals(kernel, measures, self.theta[::step], line_for(kernel, measures, coarse=True))


def with_tails(u: Array) -> Array:
    """Uniform coordinates (M, k) of candidates, some of which reach further into the tails.

    Beyond the outermost run nothing is known of f, and draws hardly reach where f may still matter: the last quarter of
    the rows has the arcsine distribution.
    """
    found, tails = u.copy(), slice(-(len(u) // TAIL_SHARE), None)
    found[tails] = np.sin(0.5 * np.pi * u[tails]) ** 2
    return np.clip(found, LEAST_TAIL, 1.0 - LEAST_TAIL)


def choose_points(
    n: int,
    candidates: Runs,
    wanted: Wanted,
    known: Runs,
    fit: MOBQFit | None,
    *,
    of_theta: bool,
    need: Array | None = None,
    cost: Array | None = None,
) -> Integers:
    """The n candidates, chosen jointly, that reduce the variance of I most for their cost.

    known: runs that were made or are under way. fit: of the runs with values; None if there is none yet.
    need: (C,), how much each output matters; by default all matter as much.
    cost: (M,), of each candidate; by default all cost the same.
    """
    u, points = candidates.inputs(of_theta=of_theta), known.inputs(of_theta=of_theta)
    with one_blas_thread():
        noise = 0.0 if fit is None else _noise(fit)
        kernels = rough_kernels(candidates, wanted, of_theta=of_theta)
        rough = [Gain(kernel, wanted.integrals(kernel), points, u, noise) for kernel in kernels]
        fitted = [] if fit is None else list(_fitted_gains(fit, wanted, points, u, need))
        factor = np.ones(len(u)) if fit is None else error_factors(fit, u)
        price = np.ones(len(u)) if cost is None else cost
        many = u.shape[1] > MANY_INPUTS
        every, fitted_share = (FILLING, MOSTLY_FITTED) if many else (EXPLORING, FITTED_SHARE)
        chosen = list[int]()
        for _ in range(n):
            score = np.mean([_scaled(each.average) for each in rough], axis=0)
            if fitted and (len(known) + len(chosen)) % every != every - 1:
                by_fit = sum(weight * _scaled(each.average) for weight, each in fitted)
                score = factor * (fitted_share * by_fit + (1 - fitted_share) * score)
            elif many:
                score = np.where(np.arange(len(u)) < FILLING_CANDIDATES, rough[0].variance, 0.0)
            score = score / price
            score[chosen] = -np.inf
            chosen.append(int(np.argmax(score)))
            for each in (*rough, *(gain for _, gain in fitted)):
                each.add(chosen[-1])
    return np.array(chosen, dtype=np.intp)


def rough_kernels(candidates: Runs, wanted: Wanted, *, of_theta: bool) -> list[Kernel]:
    """Kernels of Matern 3/2, if they have embeddings, on x and, where it is positive, on log x, as wide as the
    candidates. The gains of the roughest would be those of points that fill space.
    """
    kernels = automatic_kernels_of_x(candidates.x, wanted.measures)
    found = [kernel for kernel in kernels if kernel.smoothness == kernels[0].smoothness]
    if of_theta:
        found = [XThetaKernel(kernel, Matern(1.5), candidates.x.shape[1]) for kernel in found]
    u = candidates.inputs(of_theta=of_theta)
    guesses = [kernel.to_fit(u, ard=True)[0] for kernel in found]
    longer = 0.5 * np.log(u.shape[1])  # as points are further apart with more coordinates
    return [guess.with_log_lengthscales(guess.log_lengthscales + longer) for guess in guesses]


def _fitted_gains(
    fit: MOBQFit, wanted: Wanted, points: Array, u: Array, need: Array | None
) -> Iterator[tuple[float, Gain]]:
    """The gains by the kernels of a fit, with weights that sum to one."""
    needs = np.array([1.0 if need is None else np.max(need[list(group.outputs)]) for group in fit.groups])
    needs = needs / np.sum(needs) if np.sum(needs) > 0 else np.full(len(needs), 1 / len(needs))
    for of_group, group in zip(needs, fit.groups, strict=True):
        for weight, member in zip(group.chosen.weights, group.chosen.members, strict=True):
            integrals = wanted.integrals(member.kernel)
            yield of_group * weight, Gain(member.kernel, integrals, points, u, member.noise)


def _noise(fit: MOBQFit) -> float:
    """The noise of values in units of the amplitude, averaged over the outputs of a fit."""
    return float(np.mean([group.chosen.noise for group in fit.groups]))


def error_factors(fit: MOBQFit, u: Array) -> Array:
    """How much larger than expected squared errors of f seem to be near the candidates u (M, D): (M,)."""
    error = max(group.chosen.residual for group in fit.groups)
    bisected = fit.jumping and u.shape[1] == 1  # a jump of one input is between two neighbours, learnt or not
    if u.shape[1] > MANY_INPUTS or (error > LEARNT and not bisected):
        return residual_factors(fit, u)
    found = fit._disagreements(u)
    if not np.any(found > 0):
        return np.ones(len(u))  # a kernel that knows no rougher one, or a constant f
    found = np.maximum(found, LEAST_FACTOR * np.max(found))
    return found if error > KNOWN else np.sqrt(found)


def residual_factors(fit: MOBQFit, u: Array) -> Array:
    """How much larger than expected squared leave-one-out residuals are near the candidates u (M, D): (M,).

    Near is where the nearest points are, in units of the spread of the candidates.
    """
    nodes, squares = fit.squared_residuals()
    if np.all(u > 0) and np.all(nodes > 0):
        u, nodes = np.log(u), np.log(nodes)
    unit = np.maximum(np.std(u, axis=0), np.finfo(float).tiny)
    apart2 = _squared_distances(u / unit, nodes / unit)  # (M, n)
    between2 = _squared_distances(nodes / unit, nodes / unit)
    np.fill_diagonal(between2, np.inf)
    second2 = np.partition(apart2, min(1, len(nodes) - 1), axis=1)[:, min(1, len(nodes) - 1)]
    reach2 = np.maximum(second2, max(float(np.median(np.min(between2, axis=1))), np.finfo(float).tiny))
    weights = np.exp(-0.5 * apart2 / reach2[:, None])
    return np.asarray((PRIOR_RESIDUALS + weights @ squares) / (PRIOR_RESIDUALS + np.sum(weights, axis=1)))


def _squared_distances(a: Array, b: Array) -> Array:
    return np.asarray(np.sum((a[:, None] - b) ** 2, axis=-1))


def _scaled(gain: Array) -> Array:
    """A gain in units of the largest, so that kernels with a large variance do not dominate."""
    return gain / max(float(np.max(gain)), np.finfo(float).tiny)
