"""Where the next values of f help most: points chosen from candidates by what one process would learn from them.

The design must not trust one fitted kernel: where its lengthscale is too long, the process is sure of values that it
has never looked at. The gain is therefore averaged over the kernels of the fit and rough ones whose lengthscales are
the spread of the candidates. One amplitude for all of f is too small at a kink or a narrow feature and too large
elsewhere: the gain is multiplied by how much larger than expected errors of f seem to be near a candidate. Once f has
been learnt, that is how far the process is there from one that is a step rougher; before, both are wrong, and smoothed
leave-one-out residuals say it; and once f is known but for rounding, the difference counts less. One point in eight is
chosen by the rough kernels alone, whatever the values. Where f jumps, there are further candidates across the jump.

Where there are many inputs, processes disagree everywhere and the gains of rough kernels tell little apart: residuals
alone say where f is hard, the kernels of the fit count more, and one point in three, and the first ones, fill space.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import ndtr

from cbq.common import ROUNDING, Array, Booleans, Integers, blocks, check_fields, is_number, is_whole
from cbq.embeddings.many import Integrals, line_for, together
from cbq.estimators.multioutput.candidates import MANY_INPUTS, automatic_kernels_of_x
from cbq.gp import Gain, PointValues, knowledge_gradient
from cbq.kernels import Kernel, Matern, XThetaKernel
from cbq.linalg.threads import one_blas_thread
from cbq.measures import Measure
from cbq.samples import Family, Runs, measures_at

if TYPE_CHECKING:
    from cbq.estimators.multioutput.fit import MOBQFit


@dataclass(frozen=True)
class Exploration:
    """How points are chosen from candidates.

    candidates : drawn from the measures, or twice as many as there are points to choose, if that is more.
    most : points that can be chosen jointly; the cost grows with the third power.
    fitted, fitted_of_many : the share of the gain that the kernels of the fit have; rough ones have the rest. With many
        inputs rough ones tell nothing apart, and have less.
    exploring : one point in so many is chosen by rough kernels alone, whatever the fit believes.
    filling, fillers : with many inputs, one point in so many fills space. It is the first of the first so many
        candidates that no point is near; once these are taken, the next one in their order.
    learnt : a leave-one-out error, in units of the spread of f, up to which processes tell where they err.
    known : one below which most of the rest is rounding.
    least_factor : of the size of errors near a candidate, in units of the largest: where processes agree but for
        rounding, the gain decides.
    prior_residuals : the weight of the expected squared residual against those near a candidate.
    tails : one candidate in so many has more weight at the ends of each coordinate.
    beyond : the probability beyond the outermost candidate.
    slow_step : one in so many thetas serves where embeddings are slow.
    between, pairs : candidates where f is steepest, and pairs of runs that they lie between, at most.
    least_volume : of a cube with the gap between two runs as its side, in units of the spread of the runs: in a smaller
        one a jump hardly matters.
    """

    candidates: int = 768
    most: int = 1000
    fitted: float = 0.5
    fitted_of_many: float = 0.8
    exploring: int = 8
    filling: int = 3
    fillers: int = 32
    learnt: float = 0.1
    known: float = 1e-5
    least_factor: float = 1e-6
    prior_residuals: float = 0.01
    tails: int = 4
    beyond: float = 1e-9
    slow_step: int = 4
    between: int = 192
    pairs: int = 64
    least_volume: float = 1e-4

    def __post_init__(self) -> None:
        whole = ("candidates", "most", "exploring", "filling", "fillers", "tails", "slow_step", "between", "pairs")
        check_fields(self, whole, "a whole number, 1 or more", lambda value: is_whole(value, 1))
        shares = ("fitted", "fitted_of_many", "least_factor", "beyond", "least_volume")
        check_fields(self, shares, "a number from 0 to 1", lambda value: is_number(value, 0.0, 1.0))
        errors = ("learnt", "known", "prior_residuals")
        check_fields(self, errors, "a number, zero or more", lambda value: is_number(value, 0.0))


EXPLORATION = Exploration()


@dataclass(frozen=True, eq=False)
class Wanted:
    """The thetas (G, p), draws of Q, at which I is wanted, and the measures there, together where they can be.

    weights: (G,), how much each matters; by default all matter as much.
    slow_step: one in so many of them serves where embeddings are slow.
    """

    theta: Array
    measures: tuple[Measure, ...]
    weights: Array | None = None
    slow_step: int = EXPLORATION.slow_step

    @classmethod
    def at(cls, theta: Array, family: Family, weights: Array | None = None) -> Self:
        """At thetas (G, p)."""
        return cls(theta, tuple(together(measures_at(family, theta))), weights)

    def thinned(self, kernel: Kernel) -> Self:
        """Some of them, if the embeddings of a kernel are slow."""
        if not kernel.on_x.has_slow_embedding:
            return self
        step = self.slow_step
        measures = tuple(each[::step] if each.batch_shape else each for each in self.measures)
        measures = measures[::step] if len(measures) > 1 else measures
        weights = None if self.weights is None else self.weights[::step]
        return replace(self, theta=self.theta[::step], measures=measures, weights=weights)

    @property
    def factors(self) -> Array | None:
        """The weights in the average; None if all matter as much."""
        return self.weights

    def integrals(self, kernel: Kernel) -> Integrals:
        """The integrals of a kernel that matter."""
        measures = list(self.measures)
        return Integrals(kernel, measures, self.theta, line_for(kernel, measures, coarse=True))

    def worth(self, gain: Gain, unit: float) -> Array:
        """What a value at each candidate is worth, (M,). unit: the standard deviation of f under the prior."""
        return gain.average


@dataclass(frozen=True, eq=False)
class WantedBest(Wanted):
    """Thetas of which the best is wanted: the first has the best mean of I, others are worse by weights (G,)."""

    @property
    def factors(self) -> None:
        return None

    def worth(self, gain: Gain, unit: float) -> Array:
        assert self.weights is not None
        saved = knowledge_gradient(self.weights, unit * gain.moves)
        return saved if np.any(saved > 0) else gain.average


@dataclass(frozen=True, eq=False)
class WantedValues:
    """Values of f that are wanted at points u (G, D), and the weights (G,) by which they matter."""

    u: Array
    weights: Array

    @property
    def factors(self) -> Array:
        """The weights in the average."""
        return self.weights

    def thinned(self, kernel: Kernel) -> Self:
        """All of them, as values have no embeddings."""
        return self

    def worth(self, gain: Gain, unit: float) -> Array:
        """What a value at each candidate is worth, (M,)."""
        return gain.average

    def integrals(self, kernel: Kernel) -> PointValues:
        """The values as integrals under measures of one atom each."""
        return PointValues(kernel, self.u)


Wish = tuple[Wanted | WantedValues, Array | None]  # an estimand, and how much each output (C,) matters


@dataclass(frozen=True, eq=False)
class _Score:
    """What is wanted of one output or several, by one kernel: weight, and unit, the standard deviation of f."""

    wanted: Wanted | WantedValues
    gain: Gain
    unit: float
    weight: float

    @classmethod
    def of(
        cls,
        wanted: Wanted | WantedValues,
        kernel: Kernel,
        points: Array,
        u: Array,
        noise: float,
        unit: float = 1.0,
        weight: float = 1.0,
    ) -> Self:
        """Given values at points (n, D), for candidates u (M, D)."""
        wanted = wanted.thinned(kernel)
        gain = Gain(kernel, wanted.integrals(kernel), points, u, noise, factors=wanted.factors)
        return cls(wanted, gain, unit, weight)

    def __call__(self) -> Array:
        """The worth of each candidate (M,), in units of the largest, so that kernels count by their weights alone."""
        worth = self.wanted.worth(self.gain, self.unit)
        return np.asarray(self.weight * (worth / max(float(np.max(worth)), np.finfo(float).tiny)))


def with_tails(u: Array, options: Exploration = EXPLORATION) -> Array:
    """Uniform coordinates (M, k) of candidates, some of which reach further into the tails.

    Beyond the outermost run nothing is known of f, and draws hardly reach where f may still matter: the last rows, one
    in `options.tails`, have the arcsine distribution.
    """
    found, tails = u.copy(), slice(-(len(u) // options.tails), None)
    found[tails] = np.sin(0.5 * np.pi * u[tails]) ** 2
    return np.clip(found, options.beyond, 1.0 - options.beyond)


def choose_points(
    n: int,
    candidates: Runs,
    wanted: Wanted,
    known: Runs,
    fit: MOBQFit | None,
    *,
    of_theta: bool,
    need: Array | None = None,
    wishes: Sequence[Wish] = (),
    margin: Array | None = None,
    doubted: bool = False,
    cost: Array | None = None,
    options: Exploration = EXPLORATION,
) -> Integers:
    """The n candidates, chosen jointly, that reduce the variance of I most for their cost.

    known: runs that were made or are under way. fit: of the runs with values; None if there is none yet.
    need: (C,), how much each output matters; by default all matter as much.
    wishes: estimands in place of I, if there are any.
    margin: how far f seems to be from a threshold at the first candidates, in units of its spread; infinite at others.
    Then points that explore are those where f would cross the threshold furthest if it were rough: an unseen event may
    be there.
    doubted: whether the first of the points explores.
    cost: (M,), of each candidate; by default all cost the same.
    """
    u, points = candidates.inputs(of_theta=of_theta), known.inputs(of_theta=of_theta)
    with one_blas_thread():
        noise = 0.0 if fit is None else _noise(fit)
        kernels = rough_kernels(candidates, wanted, of_theta=of_theta)
        wishes = wishes or [(wanted, need)]
        units = [1.0 if fit is None else fit._spread(each) for _, each in wishes]
        pairs = [(each, unit) for (each, _), unit in zip(wishes, units, strict=True)]
        rough = [_Score.of(each, kernel, points, u, noise, unit) for each, unit in pairs for kernel in kernels]
        fitted = [] if fit is None else list(_fitted_scores(fit, wishes, points, u))
        of_integrals = [each for each, _ in wishes if isinstance(each, Wanted)]
        # Integrals that matter now are a guess: a point that explores serves those of all thetas.
        abroad = rough
        if any(each.weights is not None for each in of_integrals):
            abroad = [_Score.of(wanted, kernel, points, u, noise) for kernel in kernels]
        factor = error_factors(fit, u, options) if fit is not None and of_integrals else np.ones(len(u))
        price = np.ones(len(u)) if cost is None else cost
        many = u.shape[1] > MANY_INPUTS
        of_many, of_few = (options.filling, options.fitted_of_many), (options.exploring, options.fitted)
        if margin is not None:
            margin = np.concatenate([margin, np.full(len(u) - len(margin), np.inf)])
        every, fitted_share = of_many if many and margin is None else of_few
        every_score = list({id(each): each for each in (*rough, *abroad, *fitted)}.values())
        chosen = list[int]()
        for _ in range(n):
            explores = (len(known) + len(chosen)) % every == every - 1 or (doubted and not chosen)
            if fitted and not explores:
                by_fit, by_rough = sum(each() for each in fitted), np.mean([each() for each in rough], axis=0)
                score = factor * (fitted_share * by_fit + (1 - fitted_share) * by_rough)
            elif margin is not None and np.any(np.isfinite(margin)):
                score = _expected_crossing(margin, np.mean([each.gain.variance for each in rough], axis=0))
            elif many:
                score = np.where(np.arange(len(u)) < options.fillers, rough[0].gain.variance, 0.0)
            else:
                score = np.mean([each() for each in abroad], axis=0)
            score = score / price
            score[chosen] = -np.inf
            chosen.append(int(np.argmax(score)))
            for each in every_score:
                each.gain.add(chosen[-1])
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


def _fitted_scores(fit: MOBQFit, wishes: Sequence[Wish], points: Array, u: Array) -> Iterator[_Score]:
    """The scores by the kernels of a fit, with weights that sum to one."""
    needs = np.array(
        [[1.0 if need is None else np.max(need[list(group.outputs)]) for group in fit.groups] for _, need in wishes]
    )
    needs = needs / np.sum(needs) if np.sum(needs) > 0 else np.full(needs.shape, 1 / needs.size)
    for (wanted, need), of_groups in zip(wishes, needs, strict=True):
        for g, (of_group, group) in enumerate(zip(of_groups, fit.groups, strict=True)):
            if of_group > 0:
                for k, (weight, member) in enumerate(zip(group.chosen.weights, group.chosen.members, strict=True)):
                    unit = fit._prior_std(g, k, need)
                    yield _Score.of(wanted, member.kernel, points, u, member.noise, unit, of_group * weight)


def _noise(fit: MOBQFit) -> float:
    """The noise of values in units of the amplitude, averaged over the outputs of a fit."""
    return float(np.mean([group.chosen.noise for group in fit.groups]))


def error_factors(fit: MOBQFit, u: Array, options: Exploration = EXPLORATION) -> Array:
    """How much larger than expected squared errors of f seem to be near the candidates u (M, D): (M,)."""
    error = max(group.chosen.residual for group in fit.groups)
    bisected = fit.jumping and u.shape[1] == 1  # a jump of one input is between two neighbours, learnt or not
    if u.shape[1] > MANY_INPUTS or (error > options.learnt and not bisected):
        return residual_factors(fit, u, options.prior_residuals)
    found = fit._disagreements(u)
    if not np.any(found > 0):
        return np.ones(len(u))  # a kernel without a rougher one, or a constant f
    found = np.maximum(found, options.least_factor * np.max(found))
    return found if error > options.known else np.sqrt(found)


def residual_factors(fit: MOBQFit, u: Array, prior: float = EXPLORATION.prior_residuals) -> Array:
    """How much larger than expected squared leave-one-out residuals are near the candidates u (M, D): (M,).

    Near is where the nearest points are, in units of the spread of the candidates. prior: the weight of the expected
    squared residual.
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
    return np.asarray((prior + weights @ squares) / (prior + np.sum(weights, axis=1)))


def _squared_distances(a: Array, b: Array) -> Array:
    return np.asarray(np.sum((a[:, None] - b) ** 2, axis=-1))


def _expected_crossing(margin: Array, variance: Array) -> Array:
    """E max(e - margin, 0) (M,) of normal errors e."""
    std = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    t = np.minimum(margin / std, 1e3)
    return np.asarray(std * (np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi) - t * ndtr(-t)))


def between_steepest(
    fit: MOBQFit, prior: Measure | None, rng: np.random.Generator, options: Exploration = EXPLORATION
) -> Runs:
    """Runs between those of a fit, at random places between two that are the steepest neighbours of each other.

    Candidates that are drawn from the measures hardly ever fall into the gap between two runs on either side of a jump
    once the gap is small. These do, however small it is.

    Where f does not depend on theta, they have that of one of the two. Runs outside of the support of the prior, if it
    is known, or of the measure of x are left out, such as those between atoms.
    """
    samples = fit.samples
    made = Runs(samples.theta[samples.owners], samples.all_points)
    inputs = made.inputs(of_theta=samples.depends_on_theta)
    pairs = steepest_pairs(inputs, samples.table[:, fit.jumping], options)
    if not len(pairs):
        return made.take(slice(0))
    pairs = np.repeat(pairs, -(-options.between // len(pairs)), axis=0)
    one, other = (made.take(rows) for rows in pairs.T)
    share = rng.random((len(pairs), 1))
    theta = one.theta + share * (other.theta - one.theta) * samples.depends_on_theta
    found = Runs(theta, one.x + share * (other.x - one.x))
    if prior is not None and samples.depends_on_theta:  # the family may have no measure elsewhere
        found = found.take(_in_support(prior, theta))
    return found.take(found.inside(samples.conditional)) if len(found) else found


def _in_support(prior: Measure, theta: Array) -> Booleans:
    """Which of the thetas (n, p) the prior supports; none if it has no density."""
    try:
        return np.asarray(prior.logpdf(theta) > -np.inf)
    except TypeError:
        return np.zeros(len(theta), dtype=bool)


def steepest_pairs(u: Array, f: Array, options: Exploration = EXPLORATION) -> Integers:
    """The pairs (m, 2) of inputs u (n, D) with values f (n, C) that are the steepest neighbours of each other.

    Those come first whose distance times the difference of their values is largest, which bounds what is not known of
    an integral across the gap. Distances and differences are in units of the standard deviations of u and f.
    """
    u, f = (_standardised(each) for each in (u, f))
    least2 = options.least_volume ** (2 / u.shape[1])
    steepest, area2 = np.arange(len(u)), np.zeros(len(u))
    for rows in blocks(len(u), 256):  # whose distances to all others are in memory at a time
        apart2, change2 = (np.sum((each[rows, None] - each) ** 2, axis=-1) for each in (u, f))
        slope2 = np.where(apart2 > least2, change2 / np.maximum(apart2, least2), 0.0)
        steepest[rows] = np.argmax(slope2, axis=1)
        area2[rows] = np.take_along_axis(apart2 * change2, steepest[rows, None], axis=1)[:, 0]
    first = np.flatnonzero((steepest[steepest] == np.arange(len(u))) & (np.arange(len(u)) < steepest) & (area2 > 0))
    first = first[np.argsort(-area2[first], kind="stable")[: options.pairs]]
    return np.column_stack([first, steepest[first]])


def _standardised(values: Array) -> Array:
    """Values (n, k) less their means, in units of their standard deviations; a constant is zero."""
    std = np.std(values, axis=0)
    varies = std > ROUNDING * np.max(np.abs(values), axis=0)
    return np.where(varies, (values - np.mean(values, axis=0)) / np.where(varies, std, 1.0), 0.0)
