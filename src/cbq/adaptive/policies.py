"""How an adaptive run learns: by one process on all runs, or in two stages where no kernel has embeddings."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from cbq._arrays import Array
from cbq.adaptive.quantity import Quantity
from cbq.adaptive.repeats import REPEATS, with_repeats
from cbq.collect.draws import THETA_KEY, X_KEY, keyed_generator, sobol
from cbq.embeddings import NoEmbedding
from cbq.fit.base import Fit
from cbq.fit.of_samples import few_points_each, few_points_together, few_thetas
from cbq.methods.conditional import CBQ, CBQFit
from cbq.methods.conditional.fit import NEW_THETAS, RANDOM_RATE, RATE, best_thetas
from cbq.methods.multioutput import MOBQ, MOBQFit
from cbq.methods.multioutput.steep import between_steepest
from cbq.methods.multioutput.suggestion import N_CANDIDATES, Wanted, choose_points, rough_kernels, with_tails
from cbq.samples import Samples
from cbq.samples.arrays import equal_rows
from cbq.samples.conditional import find_thetas
from cbq.samples.runs import Cost, Runs

FIRST_RUNS, FIRST_RUNS_PER_INPUT = 16, 2  # before the first fit of one process
FIRST_THETAS, POINTS_PER_THETA = 6, 6  # of two stages; and a point more for each coordinate of x


class Policy(ABC):
    """What is fitted to runs, and which runs come next."""

    first: int  # runs before the first fit

    @abstractmethod
    def fit(self, samples: Samples) -> Fit:
        """The fit to samples."""

    @abstractmethod
    def is_sound(self, fit: Fit, samples: Samples) -> bool:
        """Whether the samples are enough for a fit that learns f, and the fit has learnt it."""

    @abstractmethod
    def choose(
        self, n: int, known: Runs, fit: Fit | None, need: Array | None, cost: Cost | None, rng: np.random.Generator
    ) -> Runs:
        """The next n runs, given those that were made or are under way.

        fit: of the runs that have values, None if they are few. need: (C,), how much each output matters. cost: of a
        run; None if all cost the same.
        """


def policy_for(quantity: Quantity, wanted: Wanted, entropy: list[int]) -> Policy:
    """One process where kernels have embeddings under all measures, otherwise two stages."""
    at_wanted = Runs.at(wanted.theta, quantity.family, np.full((len(wanted.theta), quantity.d), 0.5))
    try:
        rough_kernels(at_wanted, wanted, of_theta=quantity.depends_on_theta)
    except NoEmbedding:
        return TwoStages(quantity, wanted, entropy)
    return OneProcess(quantity, wanted)


class OneProcess(Policy):
    """One Gaussian process on all runs, most of which have a theta of their own."""

    def __init__(self, quantity: Quantity, wanted: Wanted) -> None:
        self._quantity, self._wanted = quantity, wanted
        self.first = max(FIRST_RUNS, FIRST_RUNS_PER_INPUT * quantity.inputs)

    def fit(self, samples: Samples) -> MOBQFit:
        fit = MOBQ(structure="dense").fit(samples)
        assert isinstance(fit, MOBQFit)
        return fit

    def is_sound(self, fit: Fit, samples: Samples) -> bool:
        assert isinstance(fit, MOBQFit)
        between = few_thetas(samples) if samples.depends_on_theta else ()
        return fit.is_learnt and not between and not few_points_together(samples)

    def choose(
        self, n: int, known: Runs, fit: Fit | None, need: Array | None, cost: Cost | None, rng: np.random.Generator
    ) -> Runs:
        assert fit is None or isinstance(fit, MOBQFit)
        quantity, p = self._quantity, self._quantity.prior.dim
        u = with_tails(sobol(max(N_CANDIDATES, 2 * n), p + quantity.d, rng))  # a candidate is chosen once
        candidates = Runs.at(quantity.prior.transport(u[:, :p]), quantity.family, u[:, p:])
        if fit is not None and fit.jumping:
            candidates += between_steepest(fit, quantity.prior, rng)
        if quantity.stochastic:
            candidates += known  # a further draw where there is one may be worth more than one elsewhere
        rows = choose_points(
            n,
            candidates,
            self._wanted,
            known,
            fit,
            of_theta=quantity.depends_on_theta,
            need=need,
            cost=None if cost is None else candidates.costs(cost),
        )
        chosen = candidates.take(rows)
        if quantity.depends_on_theta or quantity.stochastic:
            return chosen
        return with_repeats(chosen, known, max(self.first - REPEATS, len(quantity.started)), quantity.family)


class TwoStages(Policy):
    """Bayesian quadrature at each of several thetas, and a process over theta: for measures without embeddings.

    The points of a theta are those of a Sobol sequence of its own; a batch of them goes to one theta.
    """

    def __init__(self, quantity: Quantity, wanted: Wanted, entropy: list[int]) -> None:
        self._quantity, self._wanted, self._entropy = quantity, wanted, entropy
        p = quantity.prior.dim
        self._thetas = self._prior_thetas(max(FIRST_THETAS, (p + 1) * (p + 2)), keyed_generator(entropy, THETA_KEY))
        self._batch = quantity.d + POINTS_PER_THETA
        self.first = len(self._thetas) * self._batch

    def fit(self, samples: Samples) -> CBQFit:
        whole = samples.counts >= self._batch  # a few points of a theta say little, and their variances are huge
        return CBQ().fit(samples.select(whole) if np.count_nonzero(whole) >= len(self._thetas) else samples)

    def is_sound(self, fit: Fit, samples: Samples) -> bool:
        assert isinstance(fit, CBQFit)
        return not few_thetas(samples) and not few_points_each(samples, fit.stage1.counts)

    def choose(
        self, n: int, known: Runs, fit: Fit | None, need: Array | None, cost: Cost | None, rng: np.random.Generator
    ) -> Runs:
        assert fit is None or isinstance(fit, CBQFit)
        thetas = self._first_thetas(known) if fit is None else self._best_thetas(n, known, fit, need, cost, rng)
        if sum(missing for _, missing in thetas) < n:
            thetas.append((self._prior_thetas(1, rng)[0], n))
        chosen = known.take(slice(0, 0))
        for theta, missing in thetas:
            chosen += self._next_points(theta, known + chosen, min(missing, n - len(chosen)))
        return chosen

    def _prior_thetas(self, n: int, rng: np.random.Generator) -> Array:
        """n thetas (n, p) of Q."""
        return self._quantity.prior.transport(sobol(n, self._quantity.prior.dim, rng))

    def _first_thetas(self, known: Runs) -> list[tuple[Array, int]]:
        """The thetas to begin with, and how many points each still lacks."""
        counts = [np.count_nonzero(find_thetas(known.theta, theta[None]) == 0) for theta in self._thetas]
        return [(theta, max(self._batch - int(n), 0)) for theta, n in zip(self._thetas, counts, strict=True)]

    def _best_thetas(
        self, n: int, known: Runs, fit: CBQFit, need: Array | None, cost: Cost | None, rng: np.random.Generator
    ) -> list[tuple[Array, int]]:
        """The thetas, observed or new, at which points help most, and how many points each is to have more."""
        first, group = equal_rows(known.theta)
        theta = np.concatenate([known.theta[first], self._prior_thetas(NEW_THETAS, rng)])
        counts = np.concatenate([np.bincount(group), np.zeros(NEW_THETAS, dtype=np.intp)])
        price = None
        if cost is not None:
            middle = np.full((len(theta), self._quantity.d), 0.5)
            price = Runs.at(theta, self._quantity.family, middle).costs(cost)
        begun = [(each, self._batch - int(N)) for each, N in zip(theta, counts, strict=True) if 0 < N < self._batch]
        batches = -(-max(n - sum(missing for _, missing in begun), 0) // self._batch)
        rate, wanted = RANDOM_RATE if self._quantity.stochastic else RATE, self._wanted.theta
        rows = best_thetas(batches, fit, theta, counts, wanted, self._batch, need=need, price=price, rate=rate)
        return [*begun, *((theta[j], self._batch) for j in rows)]

    def _next_points(self, theta: Array, known: Runs, n: int) -> Runs:
        """The next n points of theta (p,)."""
        if not n:
            return known.take(slice(0, 0))
        mine = np.flatnonzero(find_thetas(known.theta, theta[None]) == 0)
        key = int(mine[0]) if len(mine) else len(known)
        u = sobol(len(mine) + n, self._quantity.d, keyed_generator(self._entropy, X_KEY, key))[len(mine) :]
        return Runs.at(np.repeat(theta[None], n, axis=0), self._quantity.family, u)
