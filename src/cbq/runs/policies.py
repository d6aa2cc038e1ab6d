"""The policies of adaptive runs, which fit and choose runs; repeats of runs, and the cost of runs.

A policy is one process on all runs, or two stages if no kernel has embeddings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import ndtr, ndtri

from cbq.common import Array
from cbq.embeddings import NoEmbedding
from cbq.estimators import (
    CBQ,
    EXPLORATION,
    MOBQ,
    CBQFit,
    Exploration,
    MOBQFit,
    PointsGroup,
    Wanted,
    WantedValues,
    Wish,
    best_thetas,
    between_steepest,
    choose_points,
    rough_kernels,
    with_tails,
)
from cbq.fit import Fit, few_points_each, few_points_together, few_thetas
from cbq.measures.points import sobol
from cbq.runs.curves import CurveFocus, Foci
from cbq.runs.draws import THETA_KEY, X_KEY, keyed_generator
from cbq.runs.goal import Goal
from cbq.runs.quantity import Quantity
from cbq.samples import Cost, Family, Runs, Samples, equal_rows, find_thetas, measures_at

Kernels = tuple[PointsGroup, ...]  # of each group of outputs


class Policy(ABC):
    """The interface of a policy: fit samples, and choose the next runs."""

    first: int  # runs before the first fit

    @abstractmethod
    def fit(self, samples: Samples, kernels: Kernels | None = None) -> Fit:
        """The fit to samples, with kernels that were chosen for fewer of them, if there are any."""

    def kernels(self, fit: Fit) -> Kernels | None:
        """The kernels that were chosen for a fit; None where choosing them again costs little."""
        return None

    @abstractmethod
    def split(self, budget: int) -> tuple[int, int]:
        """The numbers T of thetas and N of points at each that suit a fixed design of at most `budget` runs."""

    @abstractmethod
    def plain(self, n: int, known: Runs, rng: np.random.Generator) -> Runs:
        """The next n runs, which follow the measures, whatever f is: they cost nothing to choose."""

    @abstractmethod
    def is_sound(self, fit: Fit, samples: Samples) -> bool:
        """Whether there are enough samples to learn f, and the fit has learnt it."""

    @abstractmethod
    def choose(
        self,
        n: int,
        known: Runs,
        fit: Fit | None,
        need: Array | None,
        cost: Cost | None,
        rng: np.random.Generator,
        foci: Foci = (),
        *,
        doubted: bool = False,
    ) -> Runs:
        """The next n runs, given the known ones, finished or pending.

        fit: to the runs with values; None if there are few. need: (K,), how much each quantity matters. cost: of a run;
        None if all cost the same. foci: of the K quantities; by default these are the means of the outputs.
        doubted: whether the first run should be one that could refute the estimate.
        """


def policy_for(quantity: Quantity, wanted: Wanted, entropy: list[int], goal: Goal) -> Policy:
    """One process if kernels have embeddings under all measures, otherwise two stages, which know the mean alone."""
    in_tails = any(each.in_tails for each in goal.estimands)
    at_wanted = Runs.at(wanted.theta, quantity.family, np.full((len(wanted.theta), quantity.d), 0.5))
    try:
        rough_kernels(at_wanted, wanted, of_theta=quantity.depends_on_theta)
    except NoEmbedding as error:
        other = next((each for each in goal.estimands if each.needs_emulator), None)
        if other is None:
            return TwoStages(quantity, wanted, entropy, tails=in_tails)
        raise ValueError(
            f"goal={other!r} needs a model of f, which this problem has none of, because no kernel has an embedding "
            f"under its measures: take goal=cbq.Mean(), or make the measures of x with cbq.measures."
        ) from error
    if goal.of_mean_only:
        return OneProcess(quantity, wanted)
    return OneProcess(quantity, wanted, least=6, wide=any(each.is_local for each in goal.estimands), tails=in_tails)


class OneProcess(Policy):
    """One Gaussian process on all runs, most of which have a theta of their own.

    least, per_input: minimum number of runs before the first fit, in all and for each input: fewer do not show f.
    wide: whether the first runs must reach into the tails of x, since the event that is wanted may be there.
    tails: whether they must reach into the tails of Q, for the same reason.
    width: how much wider than the measure, in normal coordinates.
    points: number of points that stand for all at which values of f are wanted.
    exploration: how runs are chosen.
    """

    def __init__(
        self,
        quantity: Quantity,
        wanted: Wanted,
        *,
        least: int = 16,
        per_input: int = 2,
        wide: bool = False,
        tails: bool = False,
        width: float = 1.5,
        points: int = 256,
        exploration: Exploration = EXPLORATION,
    ) -> None:
        self._quantity, self._wanted, self._exploration = quantity, wanted, exploration
        self._wide, self._tails, self._width, self._points = wide, tails, width, points
        self.first = max(least, per_input * quantity.inputs)

    def fit(self, samples: Samples, kernels: Kernels | None = None) -> MOBQFit:
        estimator = MOBQ(structure="dense")
        if kernels is not None:
            return estimator._with_kernels(samples, kernels)
        fit = estimator._diagnosed(samples)
        assert isinstance(fit, MOBQFit)
        return fit

    def kernels(self, fit: Fit) -> Kernels:
        assert isinstance(fit, MOBQFit)
        return fit.groups

    def split(self, budget: int) -> tuple[int, int]:
        p = self._quantity.prior.dim
        N = min(max(budget // ((p + 1) * (p + 2)), 1), 3)  # three are best, where there are thetas enough (splits.py)
        return budget // N, N

    def plain(self, n: int, known: Runs, rng: np.random.Generator) -> Runs:
        quantity, p = self._quantity, self._quantity.prior.dim
        u = sobol(n, p + quantity.d, rng)
        return Runs.at(quantity.prior.transport(u[:, :p]), quantity.family, u[:, p:])

    def is_sound(self, fit: Fit, samples: Samples) -> bool:
        assert isinstance(fit, MOBQFit)
        return fit.is_learnt and not few_points_together(samples)

    def choose(
        self,
        n: int,
        known: Runs,
        fit: Fit | None,
        need: Array | None,
        cost: Cost | None,
        rng: np.random.Generator,
        foci: Foci = (),
        *,
        doubted: bool = False,
    ) -> Runs:
        assert fit is None or isinstance(fit, MOBQFit)
        quantity, p, options = self._quantity, self._quantity.prior.dim, self._exploration
        M = max(options.candidates, 2 * n)  # a candidate is chosen once
        u = sobol(M, p + quantity.d, rng)
        if fit is not None and not fit.is_learnt:  # its best theta and its tail are guesses
            foci = [(None if isinstance(focus, CurveFocus) else focus, c) for focus, c in foci]
        first_and_wide = (self._wide or self._tails) and not foci
        if first_and_wide:
            far = np.repeat([self._tails, self._wide], [p, quantity.d])
            u[:, far] = _widened(u[:, far], self._width)
        else:
            u = with_tails(u, options)
        theta = quantity.prior.transport(u[:, :p])
        near = [focus.theta for focus, _ in foci if isinstance(focus, CurveFocus)]
        if near:  # every other one where the number that is wanted is decided
            theta[::2] = rng.choice(np.concatenate(near), len(theta[::2]))
        candidates = Runs.at(theta, quantity.family, u[:, p:])
        of_theta, wishes, margin = quantity.depends_on_theta, list[Wish](), None
        if first_and_wide:  # no value shows yet where the event is: fill the space that may hold it
            wishes.append((WantedValues(candidates.inputs(of_theta=of_theta), np.ones(M)), None))
        if foci:
            assert fit is not None
            wishes, more, apart = self._towards(foci, np.ones(len(foci)) if need is None else need, fit, rng)
            candidates += more
            if np.any(np.isfinite(apart)):
                margin = np.concatenate([np.full(M, np.inf), apart])
        if fit is not None and fit.jumping:
            candidates += between_steepest(fit, quantity.prior, rng, options)
        if quantity.stochastic:
            candidates += known  # a replicate may reduce the variance most
        rows = choose_points(
            n,
            candidates,
            self._wanted,
            known,
            fit,
            of_theta=of_theta,
            need=need,
            wishes=wishes,
            margin=margin,
            doubted=doubted,
            cost=None if cost is None else candidates.costs(cost),
            options=options,
        )
        chosen = candidates.take(rows)
        if of_theta or quantity.stochastic:
            return chosen
        first = max(self.first - 2, len(quantity.started))  # both repeats are made before the first fit
        return with_repeats(chosen, known, first, quantity.family)

    def _towards(
        self, foci: Foci, need: Array, fit: MOBQFit, rng: np.random.Generator
    ) -> tuple[list[Wish], Runs, Array]:
        """What K quantities want, further candidates, and how far f is from a threshold there, or infinity."""
        quantity, wishes, margin = self._quantity, list[Wish](), list[Array]()
        found = Runs(np.empty((0, quantity.prior.dim)), np.empty((0, quantity.d)))
        for weight, (focus, c) in zip(need, foci, strict=True):
            weights = np.zeros(len(fit._outputs))
            weights[c] = weight
            if focus is None:
                wishes.append((self._wanted, weights))
                continue
            if isinstance(focus, CurveFocus):
                for wanted, column in focus.wishes:
                    weights = np.zeros(len(fit._outputs))
                    weights[column] = weight
                    wishes.append((wanted, weights))
                continue
            values, factors = focus.undecided(self._points, rng)
            inputs = values.inputs(of_theta=quantity.depends_on_theta)
            wishes.append((WantedValues(inputs, factors), weights))
            found, margin = found + values, [*margin, np.full(len(values), np.inf)]
            if focus.estimand.is_local:
                elsewhere, apart = focus.elsewhere(self._points, rng)
                found, margin = found + elsewhere, [*margin, apart]
        return wishes, found, np.concatenate([np.empty(0), *margin])


class TwoStages(Policy):
    """Bayesian quadrature at each of several thetas, and a process over theta: for measures without embeddings.

    Each theta has a Sobol sequence of its own, and each batch of points belongs to one theta.

    thetas: minimum number before the first fit; more if theta has several coordinates. points: of a batch, besides one
    for each coordinate of x: with fewer, a theta has no error estimate. new: number of new thetas that compete with
    observed ones for the next batch. tails: whether thetas must reach into the tails of Q. width: how much wider they
    are then, in normal coordinates.
    """

    def __init__(
        self,
        quantity: Quantity,
        wanted: Wanted,
        entropy: list[int],
        *,
        thetas: int = 6,
        points: int = 6,
        new: int = 32,
        tails: bool = False,
        width: float = 1.5,
    ) -> None:
        self._quantity, self._wanted, self._entropy, self._new = quantity, wanted, entropy, new
        self._width, p = width if tails else 1.0, quantity.prior.dim
        self._thetas = self._prior_thetas(max(thetas, (p + 1) * (p + 2)), keyed_generator(entropy, THETA_KEY))
        self._batch = quantity.d + points
        self.first = len(self._thetas) * self._batch

    def fit(self, samples: Samples, kernels: Kernels | None = None) -> CBQFit:
        whole = samples.counts >= self._batch  # thetas with few points have huge variances
        return CBQ()._diagnosed(samples.select(whole) if np.count_nonzero(whole) >= len(self._thetas) else samples)

    def is_sound(self, fit: Fit, samples: Samples) -> bool:
        assert isinstance(fit, CBQFit)
        return not few_thetas(samples) and not few_points_each(samples, fit.stage1.counts)

    def choose(
        self,
        n: int,
        known: Runs,
        fit: Fit | None,
        need: Array | None,
        cost: Cost | None,
        rng: np.random.Generator,
        foci: Foci = (),
        *,
        doubted: bool = False,
    ) -> Runs:
        assert fit is None or isinstance(fit, CBQFit)
        thetas = self._first_thetas(known)
        if fit is not None:
            near = [focus.theta for focus, _ in foci if isinstance(focus, CurveFocus)]
            wanted = np.concatenate(near) if near else self._wanted.theta
            thetas = self._best_thetas(n, known, fit, wanted, need if not near else None, cost, rng)
        if sum(missing for _, missing in thetas) < n:
            thetas.append((self._prior_thetas(1, rng)[0], n))
        chosen = known.take(slice(0, 0))
        for theta, missing in thetas:
            chosen += self._next_points(theta, known + chosen, min(missing, n - len(chosen)))
        return chosen

    def split(self, budget: int) -> tuple[int, int]:
        """At least as many points at each of the first thetas as a theta needs; the square root of what is left."""
        T = max(len(self._thetas), int(np.sqrt(budget * len(self._thetas) / self._batch)))
        T = min(T, budget // self._batch)
        if len(self._thetas) > T:
            raise ValueError(
                f"budget is {budget} runs, but {len(self._thetas)} thetas with {self._batch} points each need "
                f"{self.first}: pass budget={self.first} or more, or T= and N=."
            )
        return T, budget // T

    def plain(self, n: int, known: Runs, rng: np.random.Generator) -> Runs:
        chosen = known.take(slice(0, 0))
        for theta in self._prior_thetas(-(-n // self._batch), rng):
            chosen += self._next_points(theta, known + chosen, min(self._batch, n - len(chosen)))
        return chosen

    def _prior_thetas(self, n: int, rng: np.random.Generator) -> Array:
        """n thetas (n, p) of Q, or wider."""
        u = sobol(n, self._quantity.prior.dim, rng)
        return self._quantity.prior.transport(u if self._width == 1.0 else _widened(u, self._width))

    def _first_thetas(self, known: Runs) -> list[tuple[Array, int]]:
        """The first thetas, with the number of points that each lacks."""
        counts = [np.count_nonzero(find_thetas(known.theta, theta[None]) == 0) for theta in self._thetas]
        return [(theta, max(self._batch - int(n), 0)) for theta, n in zip(self._thetas, counts, strict=True)]

    def _best_thetas(
        self,
        n: int,
        known: Runs,
        fit: CBQFit,
        wanted: Array,
        need: Array | None,
        cost: Cost | None,
        rng: np.random.Generator,
    ) -> list[tuple[Array, int]]:
        """The thetas, observed or new, at which points help most to know I at thetas `wanted` (G, p), with the number
        of points to add.
        """
        first, group = equal_rows(known.theta)
        new = self._prior_thetas(self._new, rng)
        if wanted is not self._wanted.theta:
            new[::2] = rng.choice(wanted, len(new[::2]))
        theta = np.concatenate([known.theta[first], new])
        counts = np.concatenate([np.bincount(group), np.zeros(self._new, dtype=np.intp)])
        price = None
        if cost is not None:
            middle = np.full((len(theta), self._quantity.d), 0.5)
            price = Runs.at(theta, self._quantity.family, middle).costs(cost)
        begun = [(row, self._batch - int(N)) for row, N in zip(theta, counts, strict=True) if 0 < N < self._batch]
        batches = -(-max(n - sum(missing for _, missing in begun), 0) // self._batch)
        rows = best_thetas(
            batches,
            fit,
            theta,
            counts,
            wanted,
            self._batch,
            need=need,
            price=price,
            random=self._quantity.stochastic,
        )
        return [*begun, *((theta[j], self._batch) for j in rows)]

    def _next_points(self, theta: Array, known: Runs, n: int) -> Runs:
        """The next n points of theta (p,)."""
        if not n:
            return known.take(slice(0, 0))
        mine = np.flatnonzero(find_thetas(known.theta, theta[None]) == 0)
        key = int(mine[0]) if len(mine) else len(known)
        u = sobol(len(mine) + n, self._quantity.d, keyed_generator(self._entropy, X_KEY, key))[len(mine) :]
        return Runs.at(np.repeat(theta[None], n, axis=0), self._quantity.family, u)


def _widened(u: Array, width: float) -> Array:
    """Uniform coordinates (M, k) that are further out, by a factor in normal coordinates."""
    return np.asarray(ndtr(width * ndtri(u)))


def with_repeats(chosen: Runs, known: Runs, first: int, family: Family) -> Runs:
    """The chosen runs, with repeats of earlier runs at positions first and first + 1 among all runs.

    Repeats test whether f depends on theta although the problem denies it: the process then learns f as a function of x
    alone, and since every run has its own x, no other run could contradict that. A random f has no repeats, because two
    draws differ anyway.

    They repeat the runs at both ends of the thetas, each at the furthest theta whose measure of x supports the point;
    without such a theta there is no repeat.
    """
    theta, x, all_runs = chosen.theta.copy(), chosen.x.copy(), known + chosen
    for k in (0, 1):
        row = first + k - len(known)
        if 0 <= row < len(chosen):
            repeat = _repeat(all_runs.take(slice(first)), k, family)
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


class MeasuredCost:
    """The geometric mean of the seconds (n,) of the nearest runs, in theta and x, each in units of its spread.

    nearest: number of runs to average. least: seconds below which runs cost the same, the overhead of a call.
    """

    def __init__(self, runs: Runs, seconds: Array, *, nearest: int = 5, least: float = 1e-3) -> None:
        inputs = runs.inputs(of_theta=True)
        self._unit = np.maximum(np.std(inputs, axis=0), np.finfo(float).tiny)
        self._inputs, self._logs = inputs / self._unit, np.log(np.maximum(seconds, least))
        self._nearest = nearest

    def __call__(self, theta: Array, x: Array) -> float:
        """The expected seconds of a run at theta (p,) and x (d,)."""
        apart2 = np.sum((self._inputs - np.concatenate([x, theta]) / self._unit) ** 2, axis=1)
        nearest = np.argsort(apart2, kind="stable")[: self._nearest]
        return float(np.exp(np.mean(self._logs[nearest])))
