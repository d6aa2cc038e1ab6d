"""The distribution of f(X, theta), X ~ P_theta, at several thetas: probabilities, quantiles, spread, shortfall.

Estimates are functionals of the distribution function of f given the runs (`mixtures`), over points of P_theta: no run
is lost to an indicator, as each shows how far f is from c. The size of errors of f is uncertain: estimates take the
middle one of its scales, draws take all. The average over scales would let the largest decide rare events: in eight
dimensions it doubled a probability of 0.005.

Intervals hold what the runs leave open about f, and the error of the points that stand for P_theta. For the first, f is
drawn as a function of x (`emulator.Paths`) at some of the points, more of them where f is small or large: errors at
neighbouring points go together, and the functional of each draw, less the functional of F at these points, is one of
its possible errors. For the second, the points are one scrambled Sobol sequence, and the functional scatters over its
blocks. The blocks complement each other: for probabilities and moments, one sequence of 2^13 points has errors 1 to 4
times smaller than eight sequences of 2^10 with scrambles of their own, and their scatter bounds it. All thetas have the
same sequence and draws, so that answers are as smooth over theta as f is, and at many thetas they are interpolated
(`between_thetas`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtrit

from cbq.common import (
    Array,
    Integers,
    Progress,
    RNGLike,
    as_progress,
    between_0_and_1,
    check_fields,
    data_frame,
    evenly,
    finite,
    generator,
    is_number,
    is_whole,
    one_of,
    reporting,
    shown,
)
from cbq.fit.between_thetas import Interpolation, NodeAnswer, answers_at
from cbq.fit.emulator import Emulator
from cbq.fit.findings import Finding, warn_of
from cbq.fit.heavy_tails import exponents, infinite_variance_of_squares
from cbq.fit.importance import WeightedPoints
from cbq.fit.mixtures import Marginals, OutcomeDraws, snapped
from cbq.linalg.lapack import symmetric_root
from cbq.measures import Empirical, Measure
from cbq.measures.points import sobol
from cbq.plotting import Drawn, Figure
from cbq.report import ArrayTable, Page
from cbq.samples import Samples, by_theta

if TYPE_CHECKING:
    from cbq.fit.base import Fit

Of = Literal["run", "mean"]
Triple = tuple[Array, Array, Array]
Functional = Callable[[Marginals, Array], Array]
DrawnFunctional = Callable[[OutcomeDraws, Array], Array]


@dataclass(frozen=True)
class OutcomeOptions:
    """How an outcome is computed.

    blocks : of the Sobol sequence, whose scatter shows the error of the points; 8 tell it to a quarter.
    draws : of f, from which ends of intervals are read: of 256, six are beyond each end of an interval of 95%.
    drawn : points at which f is drawn, a share of those of the measure in which all extremes of f are.
    few : points that carry the correlations of a draw; what they leave open is independent at other points. The cost
        grows with their square.
    most, least, total : the points of a measure, unless `size` is given: `total` over the number of thetas, within
        these ends.
    interpolation : at many thetas.
    repeats : runs of exactly the same value that show that f takes it with a positive probability, such as max(x, 0):
        at a point whose mean is that value but for `within` standard deviations, f has it. It must be known there: its
        standard deviation is at most `known` times the one of all runs.
    kept : numbers in memory: of more thetas, values are computed again when another question is asked.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> fit = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0))
    >>> outcome = fit.outcome([100.0], options=cbq.fit.OutcomeOptions(blocks=16, most=2**13))
    >>> outcome.size
    8192
    """

    blocks: int = 8
    draws: int = 256
    drawn: int = 2048
    few: int = 128
    most: int = 2**15
    least: int = 2**12
    total: int = 2**18
    interpolation: Interpolation = field(default_factory=Interpolation)
    repeats: int = 4
    within: float = 3.0
    known: float = 0.1
    kept: int = 2**26

    def __post_init__(self) -> None:
        rules = {2: ("blocks", "repeats"), 16: ("drawn", "few", "most", "least", "total"), 100: ("draws",)}
        for least, names in rules.items():
            check_fields(self, names, f"a whole number, {least} or more", partial(is_whole, least=least))
        check_fields(self, ("within", "known"), "a number, zero or more", lambda value: is_number(value, 0.0))
        check_fields(self, ("kept",), "a whole number, zero or more", is_whole)
        if not isinstance(self.interpolation, Interpolation):
            raise TypeError(f"interpolation must be a cbq.fit.Interpolation, but it is {shown(self.interpolation)}.")

    def size(self, thetas: int) -> int:
        """The number of points of each measure, a power of two."""
        return int(2 ** np.floor(np.log2(np.clip(self.total / thetas, self.least, self.most))))


OPTIONS = OutcomeOptions()
TAILS_AT, GROWTH_AT = 12, 4  # thetas, at most, at which the tails are looked at, and the growth of f there
KNOWN = 1e-4  # of the distance of f from its mean: a smaller standard deviation is one of polynomials and their like
MOST_MISSED = 0.1  # of the variance of f, beyond all points
MOST_UNREACHED = 0.5  # of the variance of f; with more of it where the runs do not reach, intervals failed


@dataclass(eq=False)
class MeasureValues:
    """All outputs of f at points x (n, d) of the measure of one theta (p,).

    rows: of each block of the sequence; none for a discrete measure. whole: of each output. noise2: (C,), of one run.
    exact: (n, C), the values of runs at these points, NaN at others.
    atoms, reach: of each output, values that many runs share, and how close (n, C) to one of them f is it.
    """

    emulator: Emulator
    theta: Array
    x: Array
    rows: list[slice]
    whole: tuple[Marginals, ...]
    noise2: Array
    exact: Array
    atoms: list[Array]
    reach: Array
    options: OutcomeOptions
    rng: np.random.Generator

    @cached_property
    def drawn(self) -> tuple[Integers, Array]:
        """The points (m,) at which f is drawn, in random order, and their weights.

        A point is taken with a probability that grows towards both ends of f, as the shares of outcomes beyond it fall:
        extremes are all taken, so that draws show rare events too. Where f is less known, points are taken more often.
        """
        weights, most = self.whole[0].weights, self.options.drawn
        rng = deepcopy(self.rng)
        if len(weights) <= most:
            rows = rng.permutation(len(weights))
            return rows, weights[rows]
        rate = weights.copy()
        for each in self.whole:
            order = np.argsort(each.mean)
            below, above = np.empty((2, len(order)))
            below[order] = np.cumsum(weights[order]) - 0.5 * weights[order]
            above[order] = np.cumsum(weights[order][::-1])[::-1] - 0.5 * weights[order]
            for share in (1 / below + 1 / above, each.std):
                total = weights @ share
                rate += weights * share / (total * len(self.whole)) if total > 0 else 0.0
        share = np.minimum(most * rate / 3, 1.0)
        order = np.argsort(self.whole[0].mean)  # systematic sampling: one point for each step of the sum
        steps = np.floor(np.cumsum(share[order]) + rng.random())
        chosen = order[np.diff(steps, prepend=0.0) > 0]
        chosen = rng.permutation(chosen)
        return chosen, weights[chosen] / share[chosen]

    @cached_property
    def draws(self) -> tuple[OutcomeDraws, ...]:
        """Draws of each output at these points."""
        options, rng, (rows, weights) = self.options, deepcopy(self.rng), self.drawn
        paths = self.emulator.paths(self.x[rows], self.theta, options.few, options.draws, rng)
        root = symmetric_root(self.emulator.fit.correlation)
        normal = rng.standard_normal((options.draws, len(rows), len(root))) @ root
        weights, found = weights / np.sum(weights), []
        for c, each in enumerate(self.whole):
            left = np.sqrt(np.multiply.outer(paths.factors2, paths.left[:, c]) + self.noise2[c])
            reach = np.multiply.outer(np.maximum(np.sqrt(paths.factors2), 1.0), self.reach[rows, c])
            moved, left = snapped(paths.moved[..., c], left, self.atoms[c], reach)
            exact = self.exact[rows, c]
            moved, left = np.where(np.isnan(exact), moved, exact), np.where(np.isnan(exact), left, 0.0)
            values = np.clip(moved + left * normal[..., c], each.low, each.high)
            found.append(OutcomeDraws(weights, moved, left, values, each.low, each.high))
        return tuple(found)

    def possible(
        self,
        c: int,
        of_f: Functional,
        of_draws: DrawnFunctional,
        at: Array,
        estimate: Array,
        *,
        counted: bool,
        positive: bool,
    ) -> Array:
        """Possible values (draws, K) of a functional of output c, around its estimate (K,).

        positive: the error of the points multiplies: few of them decide the variance of heavy tails, and more of it may
        lie beyond all.
        """
        some = self.whole[c].take(*self.drawn)
        by_block = [of_f(self.whole[c].take(rows), at) for rows in self.rows]
        error = self.error_of_points(by_block, counted=counted)
        if positive:
            unit = np.maximum(estimate, np.finfo(float).tiny)
            error = estimate * np.expm1(np.clip(error / unit, -50.0, 50.0))
        return of_draws(self.draws[c], at) - of_f(some, at) + estimate + error

    def error_of_points(self, by_block: list[Array], *, counted: bool) -> Array:
        """Possible errors (draws, K) of the average over the answers (R, K) of blocks; none without blocks.

        counted: whether these are shares of the points. Several blocks may have the same one, and each is right to
        one point of its block, if all points have the same weight.
        """
        size, R = self.options.draws, len(by_block)
        if not by_block:
            return np.zeros((size, 1))
        grain2 = (R / len(self.x)) ** 2 / 12 if counted and np.ptp(self.whole[0].weights) == 0 else 0.0
        error = np.sqrt((np.var(by_block, axis=0, ddof=1) + grain2) / R)
        scores = stdtrit(len(by_block) - 1, (np.arange(size) + 0.5) / size)
        return np.asarray(np.multiply.outer(np.random.default_rng(0).permutation(scores), error))


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(ArrayTable, Drawn):
    """The distribution of f(X, theta) under P_theta at M thetas. Made by `fit.outcome(theta)`.

    Results are (M,), or (M, K) for K values or probabilities, with an axis of outputs (C,) at the end where f has one.
    With `level`, each is a triple: the estimate, and the ends of an interval.

    theta : (M, p). size : number of points of each measure. of : "run" or "mean", see `fit.outcome`.
    options : how it is computed.

    It is a table of moments and quantiles, which displays in notebooks, `plot()` draws it, and `report(path)` writes a
    page with sliders for theta and c.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> outcome = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0)).outcome([90.0, 100.0, 110.0])
    >>> outcome.ppf([0.5, 0.95]).shape
    (3, 2)
    >>> median, low, high = outcome.ppf(0.5, level=0.9)
    >>> outcome.interval(0.8)[1].shape  # the upper ends of intervals that hold 80% of the outcomes
    (3,)
    """

    fit: Fit
    theta: Array
    size: int
    of: Of
    options: OutcomeOptions
    _seed: np.random.Generator
    _progress: Progress
    _kept: dict[int, MeasureValues] = field(default_factory=dict)
    _given: Sequence[WeightedPoints] | None = None  # points of each measure, if they are not from Sobol sequences

    @classmethod
    def of_fit(
        cls,
        fit: Fit,
        theta: npt.ArrayLike,
        *,
        size: int | None,
        of: Of,
        rng: RNGLike,
        options: OutcomeOptions,
        progress: Progress,
    ) -> Outcome:
        """From the arguments of `fit.outcome`."""
        emulator, thetas = fit.emulator, fit._thetas(theta)
        if not isinstance(options, OutcomeOptions):
            raise TypeError(f"options must be cbq.fit.OutcomeOptions, but it is {shown(options)}.")
        if size is not None and not is_whole(size, least := 32 * options.blocks):
            raise ValueError(f"size must be a whole number of points, {least} or more, but it is {shown(size)}.")
        emulator.require_draws()
        emulator.require_measures(thetas)
        if not isinstance(emulator.samples.conditional.one(thetas[0]), Empirical):  # of atoms, runs are exact
            emulator.require_continuous()
        points = options.size(len(thetas)) if size is None else int(size)
        return cls(fit, thetas, points, one_of(of, Of, "of"), options, generator(rng), as_progress(progress))

    @classmethod
    def at_points(cls, fit: Fit, theta: Array, points: Sequence[WeightedPoints], rng: RNGLike = 0) -> Outcome:
        """The outcome of one run from given points of the measures of thetas (M, p), such as importance points."""
        fit.emulator.require_draws()
        options = OutcomeOptions(interpolation=Interpolation(first=max(3, len(theta))))
        return cls(fit, theta, len(points[0][0]), "run", options, generator(rng), False, _given=points)

    def known(self, m: int) -> tuple[Marginals, ...]:
        """What is known of each output at the points of theta m."""
        return self._values(m).whole

    def mean(self, level: float | None = None) -> Array | Triple:
        """I(theta), the mean of the distribution: `fit.predict` and, with `level`, `fit.interval`."""
        found = np.asarray(self.fit.predict(self.theta))
        return found if level is None else (found, *self.fit.interval(self.theta, level))

    def var(self, level: float | None = None) -> Array | Triple:
        """The variance."""
        self._warn_of_tails()
        return self._answer(None, "", Marginals.variance, OutcomeDraws.variance, level, least=0.0)

    def std(self, level: float | None = None) -> Array | Triple:
        """The standard deviation."""
        found = self.var(level)
        if isinstance(found, tuple):
            estimate, low, high = found
            return np.sqrt(estimate), np.sqrt(low), np.sqrt(high)
        return np.sqrt(found)

    def cdf(self, c: npt.ArrayLike, level: float | None = None) -> Array | Triple:
        """The probability that f is at most c, a number or (K,)."""
        return self._answer(finite(c, "c"), "c", Marginals.cdf, OutcomeDraws.cdf, level, least=0.0, most=1.0)

    def sf(self, c: npt.ArrayLike, level: float | None = None) -> Array | Triple:
        """The probability that f exceeds c, a number or (K,)."""
        found = self.cdf(c, level)
        return (1 - found[0], 1 - found[2], 1 - found[1]) if isinstance(found, tuple) else 1 - found

    def ppf(self, q: npt.ArrayLike, level: float | None = None) -> Array | Triple:
        """The quantiles: f is at most this with probability q, a number in (0, 1) or (K,)."""
        self._warn_of_tails(shares(q, "q"))
        return self._answer(shares(q, "q"), "q", Marginals.ppf, OutcomeDraws.ppf, level)

    def expected_shortfall(self, q: npt.ArrayLike, level: float | None = None) -> Array | Triple:
        """The mean of f over its largest 1 - q outcomes, for q in (0, 1) or (K,): of losses, the conditional VaR."""
        self._warn_of_tails(shares(q, "q"))
        return self._answer(shares(q, "q"), "q", Marginals.shortfall, OutcomeDraws.shortfall, level)

    def interval(self, share: float = 0.9) -> tuple[Array, Array]:
        """The ends of the central interval that holds this share of the outcomes, each (M,) or (M, C)."""
        share = between_0_and_1(share, "share")
        ends = np.asarray(self.ppf([0.5 * (1 - share), 0.5 * (1 + share)]))
        return ends[:, 0], ends[:, 1]

    def probability(self, event: Callable[[Array], npt.ArrayLike], level: float | None = None) -> Array | Triple:
        """The probability (M,) of an event, which may concern all outputs together, by draws of f.

        event : a function of values of f (K,), or (K, C), that returns K booleans.

        Where no draw meets the event, or all do, the interval reaches as far as that shows.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> outcome = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0)).outcome([100.0])
        >>> inside = outcome.probability(lambda f: (f > 1.0) & (f < 4.0))
        >>> bool(abs(inside - (outcome.sf(1.0) - outcome.sf(4.0))) < 0.02)
        True
        """
        if not callable(event):
            raise TypeError(f"event must be a function of values of f, but it is {shown(event)}.")
        tail = None if level is None else 0.5 * (1 - between_0_and_1(level, "level"))
        root = symmetric_root(self.fit.correlation)

        def answer(values: MeasureValues) -> tuple[Array, Array | None]:
            whole = values.whole
            shape = (3, len(whole[0].mean), len(whole))
            normal = np.random.default_rng(0).standard_normal(shape) @ root
            at_all = np.stack([each.mean + each.std * normal[..., c] for c, each in enumerate(whole)], axis=-1)
            met = np.mean(self._met(event, np.clip(at_all, *self._bounds)), axis=0)  # (n,)
            estimate = np.atleast_1d(met @ whole[0].weights)
            if tail is None:
                return estimate, None
            draws = values.draws
            each = self._met(event, np.stack([each.values for each in draws], axis=-1)) @ draws[0].weights
            by_block = [np.atleast_1d(np.mean(met[rows])) for rows in values.rows]
            possible = (each - np.mean(each))[:, None] + estimate + values.error_of_points(by_block, counted=True)
            if 0 < estimate[0] < 1:
                return estimate, possible
            unseen = 1 - tail ** (1 / len(met))  # so rare that no point may meet it
            return estimate, np.vstack([possible, np.abs(estimate - unseen) * np.ones((len(possible), 1))])

        found = self._at_all(answer, level, 0.0, 1.0)
        return found[0][:, 0] if level is None else tuple(each[:, 0] for each in found)  # type: ignore[return-value]

    def _met(self, event: Callable[[Array], npt.ArrayLike], f: Array) -> Array:
        """Whether values of f (..., C) meet an event, 0 or 1."""
        rows = f.reshape(-1, f.shape[-1])
        met = np.asarray(event(rows[:, 0] if self.fit.C is None else rows))
        if met.shape != (len(rows),) or met.dtype != np.bool_:
            raise ValueError(
                f"event must return a boolean for each of {len(rows)} rows of f, but it returned {met.dtype} of shape "
                f"{met.shape}."
            )
        return met.reshape(f.shape[:-1]).astype(np.float64)

    @property
    def _bounds(self) -> Array:
        """The bounds of f, (2, C)."""
        bounds = np.array([[-np.inf], [np.inf]]) if self.fit.bounds is None else self.fit.bounds
        return np.broadcast_to(bounds, (2, self.fit.C or 1))

    def to_columns(self, quantiles: npt.ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)) -> dict[str, Any]:
        """The columns of the table: theta, mean, std and quantiles of f, (M,) each."""
        q = np.atleast_1d(shares(quantiles, "quantiles"))
        ends, mean, std = np.asarray(self.ppf(q)), np.asarray(self.mean()), np.asarray(self.std())
        columns = {f"q{100 * at:g}": ends[:, k] for k, at in enumerate(q)}
        return by_theta(self.theta, {"mean": mean, "std": std, **columns}, self.fit.names)

    def to_frame(self, quantiles: npt.ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Any:
        """A pandas table with a row for each theta: mean, std and quantiles of f.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> outcome = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0)).outcome([90.0, 100.0])
        >>> list(outcome.to_frame([0.5, 0.95]).columns)
        ['theta', 'mean', 'std', 'q50', 'q95']
        """
        return data_frame(self.to_columns(quantiles))

    def _figure(self) -> Figure:
        from cbq.fit.outcome_page import outcome_figure

        return outcome_figure(self)

    def _page(self, title: str | None, repeat: str | None) -> Page:
        from cbq.fit.outcome_page import outcome_page

        return outcome_page(self, title, repeat)

    def _warn_of_tails(self, q: npt.ArrayLike = ()) -> None:
        """Warn where the variance of f, and the outcomes beyond quantiles (K,), are not known from the runs.

        Without quantiles, the variance is asked for.
        """
        about, asked, worst = list(self._about_variance) if not np.size(q) else [], 0.0, 0
        for m, variance in self._unreached:
            if np.max(variance) > MOST_UNREACHED:
                tails = [self._share(m, partial(Marginals.beyond, q=each)) for each in np.ravel(q).tolist()]
                share = float(np.max(np.minimum(variance, np.max(tails, axis=0)) if tails else variance))
                asked, worst = max((asked, worst), (share, m))
        if asked > MOST_UNREACHED:
            text = (
                f"{np.max(dict(self._unreached)[worst]):.0%} of the variance of f at "
                f"{self.fit.names.at('theta', self.theta[worst])} lies in tails of the measure that the runs do not "
                f"reach: the answer follows from how f seems to continue there, and its interval need not hold."
            )
            about.append(Finding("tails", text))
        warn_of(about)

    @cached_property
    def _about_variance(self) -> tuple[Finding, ...]:
        """Findings where points that stand for the measures miss much of the variance of f as it is known."""
        if self._is_exact:
            return ()
        rows = evenly(len(self.theta), TAILS_AT).tolist()
        missed = [max(each.beyond_all() for each in self.known(m)) for m in rows]
        if np.max(missed) > MOST_MISSED:
            where = self.fit.names.at("theta", self.theta[rows[int(np.argmax(missed))]])
            text = (
                f"about {np.max(missed):.0%} of the variance of f at {where} lies beyond all {self.size} points of it."
            )
            return (Finding("tails", text),)
        return self._square_of_power_tails(rows[:: -(-len(rows) // GROWTH_AT)])

    def _square_of_power_tails(self, rows: list[int]) -> tuple[Finding, ...]:
        """Findings about the square of f, whose growth is taken from f as it is known at the points of some thetas."""
        if not exponents(self.fit.emulator.samples):
            return ()
        known, measures = [self._values(m) for m in rows], self.fit.emulator.samples.conditional(self.theta[rows])
        f = [np.stack([each.mean for each in values.whole], axis=1)[: self.options.least] for values in known]
        x = [values.x[: self.options.least] for values in known]
        names = replace(self.fit.names, f=())
        return infinite_variance_of_squares(Samples(self.theta[rows], x, f, measures, design="sobol", names=names))

    @cached_property
    def _unreached(self) -> list[tuple[int, Array]]:
        """Some of the thetas, and the share (C,) of the variance of f there that lies where the runs do not reach."""
        some = [] if self._is_exact else evenly(len(self.theta), TAILS_AT).tolist()
        return [(m, self._share(m, Marginals.squares)) for m in some]

    @property
    def _is_exact(self) -> bool:
        """Whether the points are all atoms of the measure, or were chosen for what is asked."""
        one = self.fit.emulator.samples.conditional.one(self.theta[0])
        return self._given is not None or isinstance(one, Empirical)

    def _share(self, m: int, of: Callable[[Marginals], Array]) -> Array:
        """The share (C,) of what the points of theta m add to a number that they add where the runs do not reach."""
        values = self._values(m)
        weights = np.stack([of(each) for each in values.whole], axis=1)
        is_open = np.stack(
            [each.std > KNOWN * np.abs(each.mean - each.mean @ each.weights) for each in values.whole], 1
        )
        return self.fit.emulator.unreached(values.x, values.theta, weights, is_open)

    def _take(self, rows: Integers) -> Outcome:
        """The outcome at some of the thetas, with the values that are known already."""
        kept = {i: self._kept[m] for i, m in enumerate(rows.tolist()) if m in self._kept}
        return replace(self, theta=self.theta[rows], _kept=kept)

    def __repr__(self) -> str:
        what = ", of single runs" if self.of == "run" else ", of means"
        return f"Outcome({len(self.theta)} thetas, {self.size} points each{what * self.fit.emulator.is_random})"

    @cached_property
    def _u(self) -> Array:
        """Points (n, d) of a Sobol sequence in the unit cube."""
        return sobol_blocks(self.fit.emulator.samples.d, self.size, self.options.blocks, deepcopy(self._seed))

    def _values(self, m: int) -> MeasureValues:
        """The values at theta m: kept where there is room, otherwise made again when asked for."""
        if (found := self._kept.get(m)) is not None:
            return found
        emulator, theta = self.fit.emulator, self.theta[m]
        measure = emulator.samples.conditional.one(theta)
        x, weights, rows = points_of(measure, self._u, self.options.blocks) if self._given is None else self._given[m]
        noise2 = emulator.noise_std**2 * (self.of == "run")
        variance, means = emulator.marginals(x, theta)
        exact = emulator.values_of_runs(x, theta) if isinstance(measure, Empirical) else np.full_like(means, np.nan)
        means, variance = np.where(np.isnan(exact), means, exact), np.where(np.isnan(exact), variance, 0.0)
        spread = np.sqrt(variance)
        reach = np.where(spread <= self.options.known * emulator.spread, self.options.within * spread, -1.0)
        atoms, whole = emulator.atoms(self.options.repeats), []
        for c, (low, high) in enumerate(self._bounds.T.tolist()):
            mean, std = snapped(means[:, c], np.sqrt(variance[:, c] + noise2[c]), atoms[c], reach[:, c])
            whole.append(Marginals(weights, mean, std, low, high))
        found = MeasureValues(
            emulator, theta, x, rows, tuple(whole), noise2, exact, atoms, reach, self.options, self._seed
        )
        numbers = (4 * len(x) + 3 * self.options.draws * self.options.drawn) * len(whole)
        if len(self._kept) < self.options.kept // numbers:
            self._kept[m] = found
        return found

    def _answer(
        self,
        at: Array | None,
        name: str,
        of_f: Functional,
        of_draws: DrawnFunctional,
        level: float | None,
        *,
        least: float = -np.inf,
        most: float = np.inf,
    ) -> Array | Triple:
        """A functional of every distribution at K arguments of this name and, with a level, the ends of intervals."""
        if at is not None and at.ndim > 1:
            raise ValueError(f"{name} must be a number or (K,) of them, but it has shape {at.shape}.")
        asked, C = np.zeros(1) if at is None else np.atleast_1d(at), self.fit.C or 1
        level = None if level is None else between_0_and_1(level, "level")

        def answer(values: MeasureValues) -> tuple[Array, Array | None]:
            estimate = np.stack([of_f(each, asked) for each in values.whole], axis=-1)  # (K, C)
            if level is None:
                return estimate.ravel(), None
            kind = {"counted": most == 1.0, "positive": least == 0.0 and most == np.inf}  # probabilities, variances
            columns = [values.possible(c, of_f, of_draws, asked, estimate[:, c], **kind) for c in range(C)]
            return estimate.ravel(), np.stack(columns, axis=-1).reshape(self.options.draws, -1)

        def shaped(array: Array) -> Array:
            array = array.reshape(len(self.theta), len(asked), C)
            array = array[..., 0] if self.fit.C is None else array
            return array[:, 0] if at is None or at.ndim == 0 else array

        found = tuple(shaped(each) for each in self._at_all(answer, level, least, most))
        return found[0] if level is None else found  # type: ignore[return-value]

    def _at_all(
        self,
        answer: Callable[[MeasureValues], tuple[Array, Array | None]],
        level: float | None,
        least: float,
        most: float,
    ) -> Triple:
        """Estimates and ends of intervals (M, K) at all thetas, from estimates (K,) and possible values at one."""
        are_probabilities = (least, most) == (0.0, 1.0)
        n = self.size

        def answered(m: int) -> NodeAnswer:
            values = self._values(m)
            estimate, possible = answer(values)
            below = above = np.zeros(len(estimate))
            if possible is not None and level is not None:
                ends = np.quantile(possible, [0.5 * (1 - level), 0.5 * (1 + level)], axis=0)
                below, above = np.maximum(estimate - ends[0], 0.0), np.maximum(ends[1] - estimate, 0.0)
            if are_probabilities:  # as of n draws of f
                spread = np.sqrt(np.maximum(estimate * (1 - estimate), 1 / n))
            else:
                std = [np.sqrt((each.mean - each.mean @ each.weights) ** 2 @ each.weights) for each in values.whole]
                spread = np.tile(std, len(estimate) // len(std))
            return NodeAnswer(estimate, below, above, spread / np.sqrt(n))

        def scaled(p: Array) -> Array:
            return np.asarray(ndtri(np.clip(p, 0.1 / n, 1 - 0.1 / n)))

        def back(z: Array) -> Array:
            p = ndtr(z)
            return np.where(p < 0.11 / n, 0.0, np.where(p > 1 - 0.11 / n, 1.0, p))

        options = self.options.interpolation
        if any(isinstance(each, Empirical) for each in [self.fit.emulator.samples.conditional.one(self.theta[0])]):
            options = replace(options, first=max(3, len(self.theta)))  # sums over atoms are exact
        with reporting(self._progress, "outcome", 0, len(self.theta)) as report:
            scales = (scaled, back) if are_probabilities else (np.asarray, np.asarray)
            estimate, below, above = answers_at(self.theta, answered, options, report, *scales)
        return estimate, np.clip(estimate - below, least, most), np.clip(estimate + above, least, most)


def sobol_blocks(d: int, size: int, number: int, rng: np.random.Generator) -> Array:
    """At least `size` points (n, d) of one Sobol sequence in the unit cube, in `number` blocks of equal size."""
    return sobol(number * -(-size // number), d, rng)


def points_of(measure: Measure, u: Array, number: int) -> WeightedPoints:
    """Points (n, d) of a measure, weights (n,), and the rows of `number` blocks of u (n, d); or all atoms, no rows."""
    if isinstance(measure, Empirical):
        kept = measure.weights > 0
        return measure.points[kept], measure.weights[kept] / np.sum(measure.weights[kept]), []
    x = measure.transport(u)
    n = len(x) // number
    return x, np.full(len(x), 1 / len(x)), [slice(i, i + n) for i in range(0, len(x), n)]


def shares(q: npt.ArrayLike, name: str) -> Array:
    """Probabilities strictly between 0 and 1."""
    found = finite(q, name)
    if np.any(found <= 0) or np.any(found >= 1):
        raise ValueError(f"{name} must be between 0 and 1, without the ends, but it is {shown(q)}.")
    return found
