"""The theta at which I is best, and how sure that is: draws of I at candidates, each with an optimum of its own.

A draw of I from the fit is a curve that the runs allow. Its best theta, and the loss by choosing another one, are
known; over many draws they have distributions. Candidates of a region are spread over it, and then gathered where I may
be best: a candidate whose interval lies below another's is not the optimum of a draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from cbq.common import (
    Array,
    Booleans,
    Integers,
    RNGLike,
    between_0_and_1,
    called,
    count,
    finite,
    flag,
    generator,
    is_number,
    is_whole,
    shown,
)
from cbq.fit.between_thetas import Interpolation
from cbq.fit.findings import warn_of
from cbq.fit.outcome import OutcomeOptions
from cbq.fit.theta_grids import observed_range, prior_range
from cbq.fit.thetas import theta_prior
from cbq.measures import Empirical, Measure
from cbq.measures.points import sobol
from cbq.report import ArrayTable
from cbq.samples import Names, by_theta

if TYPE_CHECKING:
    from cbq.fit.base import Fit
    from cbq.fit.outcome import Outcome

Limited = tuple[float | None, float | None]
Constraints = Mapping[Any, Limited] | Callable[[Array], npt.ArrayLike]

NEAR = 0.01  # the default epsilon, relative to the range of the mean
SPREAD = 512  # candidates all over a region
# Properties of f are smooth over theta, so that few thetas tell them of all candidates; rough ones choose candidates.
OF_OUTCOME = OutcomeOptions(interpolation=Interpolation(first=8, checked=4))
ROUGHLY = replace(OF_OUTCOME, draws=100, drawn=128, few=32)


@dataclass(frozen=True, eq=False, repr=False)
class BestTheta(ArrayTable):
    """The theta with the best I, and the thetas that may be best: a row for each, the likeliest first.

    theta : (p,), with the best mean among those that satisfy the constraints with probability `level`.
    value, interval : I there, and the ends of its interval of `level`.
    probability : that I there is within `epsilon` of the best. expected_regret : the expected loss against the best.
    feasible : the probability that theta satisfies the constraints; 1 without any.
    credible_set : (k, p), thetas that are no worse than this one, up to `epsilon`, with probability 1 - level or more.
    probabilities : (k,), these probabilities.
    """

    theta: Array
    value: float
    interval: tuple[float, float]
    probability: float
    epsilon: float
    expected_regret: float
    feasible: float
    level: float
    credible_set: Array
    probabilities: Array
    names: Names

    def to_columns(self) -> dict[str, Array]:
        """The columns of a table: the thetas that may be best, and the probability of each."""
        return by_theta(self.credible_set, {"probability": self.probabilities}, self.names.for_output(0))

    @property
    def ranges(self) -> Array:
        """The range of each coordinate in the thetas that may be best: (2, p)."""
        return np.stack([np.min(self.credible_set, axis=0), np.max(self.credible_set, axis=0)])

    def __len__(self) -> int:
        return len(self.credible_set)

    def __repr__(self) -> str:
        at, ends = self.names.at("theta", self.theta), f"{self.interval[0]:.5g} to {self.interval[1]:.5g}"
        return (
            f"BestTheta({at}, value={self.value:.5g}, {ends} with probability {self.level:g}; within "
            f"{self.epsilon:.3g} of the best with probability {self.probability:.3g}; expected regret "
            f"{self.expected_regret:.3g}; as good may be {self.names.ranges('theta', self.credible_set)})"
        )


@dataclass(frozen=True, eq=False)
class Contest:
    """Candidates for the best theta, and joint draws of I there; larger is better.

    theta : (M, p). sign : -1 if small values of I are wanted. mean : (M,). draws : (S, M). feasible : (S, M), whether
    each draw keeps the constraints there. level : the probability with which a chosen theta keeps them.
    """

    fit: Fit
    c: int  # the output to choose by
    sign: float
    level: float
    theta: Array
    mean: Array
    draws: Array
    feasible: Booleans

    @classmethod
    def of(
        cls,
        fit: Fit,
        prior_or_bounds: Any,
        *,
        among: Any,
        maximize: bool,
        subject_to: Constraints | None,
        output: int | str | None,
        level: float,
        size: int,
        rng: RNGLike,
        spread: int = SPREAD,
    ) -> Contest:
        """From the arguments of `Fit.best`. spread : the number of candidates all over a region."""
        fit, sign, level = fit._quiet, 1.0 if flag(maximize, "maximize") else -1.0, between_0_and_1(level, "level")
        c, rng, size = _output(fit, output), generator(rng), count(size, "size")
        if size < 2:
            raise ValueError(f"size must be a number of draws, 2 or more, but it is {shown(size)}.")
        limits = Limits.of(fit, subject_to)
        if among is not None and prior_or_bounds is not None:
            raise ValueError("best takes prior_or_bounds or thetas to choose among, not both: omit one of them.")
        among = _atoms(prior_or_bounds, fit.p) if among is None else among
        if among is not None:
            theta = np.unique(fit._thetas(among, "among"), axis=0)
            try:
                mean = sign * _of(fit.predict(theta), c)
            except ValueError as error:  # as of an estimator that answers at the observed thetas only
                raise ValueError(f"among must hold thetas at which the fit has an answer: {error}") from error
        else:
            theta, mean = _gathered(fit, _ends(fit, prior_or_bounds), sign, c, limits, level, rng, spread=spread)
        values = fit.sample(theta, size, rng)
        every = np.asarray(values[..., None] if fit.C is None else values)
        return cls(fit, c, sign, level, theta, mean, sign * every[..., c], limits.kept(fit, theta, every, level, rng))

    @cached_property
    def sure(self) -> Array:
        """The probability (M,) that each theta keeps the constraints."""
        return np.asarray(np.mean(self.feasible, axis=0))

    @cached_property
    def chosen(self) -> int:
        """The best by the mean, of those that keep the constraints with probability `level`; else the likeliest to."""
        allowed = self.sure >= self.level
        return int(np.argmax(np.where(allowed, self.mean, -np.inf) if np.any(allowed) else self.sure))

    @cached_property
    def possible(self) -> Array:
        """The draws (S, M), -inf where they do not keep the constraints."""
        return np.where(self.feasible, self.draws, -np.inf)

    @cached_property
    def regret(self) -> Array:
        """The loss (S,) by the chosen theta against the best one of each draw."""
        mine = self.draws[:, self.chosen]
        return np.asarray(np.maximum(np.max(self.possible, axis=1), mine) - mine)  # a draw may allow none

    def rivals(self, n: int) -> Integers:
        """At most n candidates: the chosen one first, and then those that are best in most draws."""
        wins = np.bincount(np.argmax(self.possible, axis=1), minlength=len(self.theta))
        wins[self.chosen] = len(self.draws) + 1
        order = np.argsort(-wins, kind="stable")[:n]
        return order[wins[order] > 0]

    def require_feasible(self) -> None:
        """Raise if no candidate keeps the constraints with probability `level`."""
        i = self.chosen
        if self.sure[i] < self.level:
            raise ValueError(
                f"no theta satisfies subject_to with probability {self.level:g}: at most {self.sure[i]:.3g}, at "
                f"{self.fit.names.at('theta', self.theta[i])}. Relax the constraints, take more runs, or lower level."
            )

    def best(self, epsilon: float | None = None) -> BestTheta:
        """The chosen theta, and those that may be best instead."""
        i, mine = self.chosen, self.draws[:, [self.chosen]]
        near = NEAR * float(np.ptp(self.mean)) if epsilon is None else float(epsilon)
        within = np.mean(self.possible >= mine - near, axis=0)
        within[i] = 1.0
        order = np.lexsort((np.arange(len(within)) != i, -within))  # the chosen one first
        order = order[within[order] >= 1 - self.level]
        low, high = (float(_of(end, self.c)[0]) for end in self.fit.interval(self.theta[[i]], self.level))
        return BestTheta(
            theta=self.theta[i],
            value=float(self.sign * self.mean[i]),
            interval=(low, high),
            probability=float(np.mean(self.regret <= near)),
            epsilon=near,
            expected_regret=float(np.mean(self.regret)),
            feasible=float(self.sure[i]),
            level=self.level,
            credible_set=self.theta[order],
            probabilities=within[order],
            names=self.fit.names,
        )


def find_best(fit: Fit, prior_or_bounds: Any, epsilon: float | None, **options: Any) -> BestTheta:
    """The best theta of a fit; `Fit.best` explains the arguments."""
    if epsilon is not None and not (is_number(epsilon) and epsilon >= 0):
        raise ValueError(f"epsilon must be a number of zero or more, in units of I, but it is {shown(epsilon)}.")
    contest = Contest.of(fit, prior_or_bounds, **options)
    contest.require_feasible()
    best = contest.best(epsilon)
    if not fit._is_quiet:
        warn_of(fit._beyond_findings(best.credible_set))
    return best


def _gathered(
    fit: Fit,
    ends: Array,
    sign: float,
    c: int,
    limits: Limits,
    level: float,
    rng: np.random.Generator,
    *,
    spread: int = SPREAD,
    rounds: int = 5,
    centres: int = 16,
    narrower: float = 0.35,
    reach: float = 3.0,
) -> tuple[Array, Array]:
    """Candidates in a box, with ends (2, p), that gather where I may be best within its limits, and their means.

    spread: candidates all over the box. rounds: of candidates around some `centres`: the best by their means, of those
        that keep the limits with probability `level`, and the best by ends `reach` standard deviations above, of those
        that may keep them. narrower: the radius of a round, relative to the one before.
    Draws are made at the most promising candidates, half as many as `spread`; as many others come with them, since a
    draw may have its optimum elsewhere.
    """
    low, high = ends
    p, kept = len(low), spread // 2
    everywhere = sobol(spread, p, *rng.spawn(1))
    # A part of the candidates lies on the faces of the box, where optima often are.
    unit = np.clip(1.2 * everywhere - 0.1, 0.0, 1.0)
    candidates, means, uppers, sure = np.empty((0, p)), np.empty(0), np.empty(0), np.empty(0)
    for k in range(rounds + 1):
        theta = low + unit * (high - low)
        mean, std = (np.reshape(each, (len(theta), -1)) for each in fit.predict(theta, return_std=True))
        kept_limits = limits.sure(fit, theta, mean, std, level)
        mean, std = sign * mean[:, c], std[:, c]
        candidates, means = np.concatenate([candidates, theta]), np.concatenate([means, mean])
        upper = mean + reach * np.minimum(std, np.ptp(mean) + 1e-300)
        uppers, sure = np.concatenate([uppers, upper]), np.concatenate([sure, kept_limits])
        good = np.where(sure >= level, means, -np.inf) if np.any(sure >= level) else sure
        promising = np.where(sure >= 1 - level, uppers, -np.inf)
        if k == rounds:
            break
        half = centres // 2
        around = np.unique(np.concatenate([np.argsort(-good)[:half], np.argsort(-promising)[:half]]))
        steps = narrower ** (k + 1) * rng.uniform(-0.5, 0.5, (spread // (2 * len(around)), len(around), p))
        unit = np.clip((candidates[around] - low) / np.where(high > low, high - low, 1.0) + steps, 0, 1).reshape(-1, p)
    best = np.unique(np.concatenate([np.argsort(-good)[:half], np.argsort(-promising)[:kept]]))
    some = rng.choice(len(candidates), min(kept, len(candidates)), replace=False)
    best = np.union1d(best, some)
    return candidates[best], means[best]


def _of(values: Any, c: int) -> Array:
    """Output c of values (M,) or (M, C)."""
    array = np.asarray(values)
    return array if array.ndim == 1 else array[:, c]


def _output(fit: Fit, output: int | str | None, name: str = "output") -> int:
    """The index of the output to choose by. name : of the argument, in errors."""
    names = fit.names.f
    if isinstance(output, str) and output in names:
        return names.index(output)
    if output is None and fit.C in (None, 1):
        return 0
    if isinstance(output, str) or not is_whole(output, 0, (fit.C or 1) - 1):
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, names))}, or its index, but it is {shown(output)}."
        )
    return int(output)


def _ends(fit: Fit, prior_or_bounds: Any) -> Array:
    """The ends (2, p) of the box in which to look."""
    if prior_or_bounds is None:
        return observed_range(fit.theta)
    if not isinstance(prior_or_bounds, Measure) and not hasattr(prior_or_bounds, "rvs"):
        ends = finite(prior_or_bounds, "prior_or_bounds")
        if ends.shape == (fit.p, 2) and np.all(ends[:, 0] <= ends[:, 1]):
            return _positive_ends(fit, ends.T)
        raise ValueError(
            f"prior_or_bounds must be a measure of theta or the ends (p, 2) of a box, but it is "
            f"{shown(prior_or_bounds)}."
        )
    return prior_range(theta_prior(prior_or_bounds, fit.p, "prior_or_bounds"))


def _positive_ends(fit: Fit, ends: Array) -> Array:
    """The ends (2, p), above zero in coordinates whose logarithms the fit works with."""
    low, least = ends[0], np.min(fit.theta, axis=0)
    try:
        fit.predict(low[None])
    except ValueError:
        if not np.any((low <= 0) & (least > 0)):
            raise
        return np.stack([np.where((low <= 0) & (least > 0), np.minimum(0.5 * least, ends[1]), low), ends[1]])
    return ends


class OfOutcome(Protocol):
    """A property of the distribution of f at theta, such as `cbq.Probability(above=c)`."""

    def of(self, outcome: Outcome, level: float | None) -> Any:
        """The estimate (M,) or (M, C) and, with a level, the ends of its interval."""

    def column(self, names: Names, C: int) -> int:
        """The output of f that is meant, among C."""


@dataclass(frozen=True, eq=False)
class Limits:
    """Constraints: the least and the largest allowed value of each output, (C,) each, and of properties of f.

    allowed : a function of thetas (M, p) that returns which are allowed.
    """

    low: Array
    high: Array
    of_outcome: Sequence[tuple[OfOutcome, float, float]] = ()
    allowed: Callable[[Array], npt.ArrayLike] | None = None

    @classmethod
    def of(cls, fit: Fit, subject_to: Any) -> Limits:
        """From the argument of `Fit.best`."""
        low, high = np.full(fit.C or 1, -np.inf), np.full(fit.C or 1, np.inf)
        if subject_to is None or (callable(subject_to) and not isinstance(subject_to, type)):
            return cls(low, high, (), subject_to)
        if not isinstance(subject_to, Mapping):
            raise TypeError(
                f"subject_to must map names of outputs, or probabilities such as cbq.Probability(above=c), to (least, "
                f"largest), with None for no limit, or be a function of thetas (M, p) that returns which are allowed, "
                f"(M,); but it is {shown(subject_to)}."
            )
        of_outcome = list[tuple[OfOutcome, float, float]]()
        for key, ends in subject_to.items():
            least, largest = _ends_of(key, ends)
            if isinstance(key, str | int):
                c = _output(fit, key, "an output in subject_to")
                low[c], high[c] = least, largest
            elif getattr(key, "of_outcome", False):
                key.column(fit.names, fit.C or 1)
                of_outcome.append((key, least, largest))
            else:
                raise TypeError(
                    f"subject_to limits outputs, by name or number, or cbq.Probability, cbq.Quantile or cbq.Std, but "
                    f"it has {shown(key)}."
                )
        return cls(low, high, of_outcome)

    def kept(self, fit: Fit, theta: Array, draws: Array, level: float, rng: np.random.Generator) -> Booleans:
        """Whether draws (S, M, C) of I at thetas (M, p) keep the constraints: (S, M)."""
        found = np.all((draws >= self.low) & (draws <= self.high), axis=-1)
        for each, least, largest in self.of_outcome:
            # One number for all thetas: the uncertainty of f moves the property the same way at neighbours.
            sure = self._sure(each, least, largest, fit, theta, level, 2**12, OF_OUTCOME)
            drawn = rng.random((len(draws), 1))
            found &= drawn < sure
        if self.allowed is not None:
            found &= _allowed(self.allowed, theta)
        return np.asarray(found)

    def sure(self, fit: Fit, theta: Array, mean: Array, std: Array, level: float, size: int = 2**9) -> Array:
        """About the probability (M,) that thetas (M, p), with means and standard deviations (M, C), keep the limits.

        size: number of points of each measure from which properties of f are read.
        """
        std = np.maximum(std, np.finfo(float).tiny)
        with np.errstate(over="ignore"):
            found = np.prod(ndtr((self.high - mean) / std) - ndtr((self.low - mean) / std), axis=1)
        for each, least, largest in self.of_outcome:
            found = found * self._sure(each, least, largest, fit, theta, level, size, ROUGHLY)
        return found if self.allowed is None else np.where(_allowed(self.allowed, theta), found, 0.0)

    @staticmethod
    def _sure(
        each: OfOutcome,
        least: float,
        largest: float,
        fit: Fit,
        theta: Array,
        level: float,
        size: int,
        options: OutcomeOptions,
    ) -> Array:
        """The probability (M,) that a property of f is within its limits.

        Its uncertainty on either side is that of a normal distribution with the end of its interval. size: number of
        points of each measure.
        """
        found = each.of(fit.outcome(theta, size=size, options=options), level)
        c = each.column(fit.names, fit.C or 1)
        estimate, low, high = (np.asarray(part) if fit.C is None else part[:, c] for part in found)
        score, tiny = float(ndtri(0.5 * (1 + level))), np.finfo(float).tiny
        above, below = np.maximum(high - estimate, tiny) / score, np.maximum(estimate - low, tiny) / score
        with np.errstate(over="ignore"):
            up, down = (np.where(end > estimate, above, below) for end in (largest, least))
            return np.asarray(ndtr((largest - estimate) / up) - ndtr((least - estimate) / down))


def _ends_of(key: Any, ends: Any) -> tuple[float, float]:
    """The least and the largest value of a constraint; infinite for none."""
    if isinstance(ends, tuple | list) and len(ends) == 2 and all(end is None or is_number(end) for end in ends):
        least, largest = (
            default if end is None else float(end) for end, default in zip(ends, (-np.inf, np.inf), strict=True)
        )
        if least <= largest:
            return least, largest
    raise ValueError(f"subject_to[{key!r}] must be (least, largest), with None for no limit, but it is {shown(ends)}.")


def _atoms(prior: Any, p: int) -> Array | None:
    """The thetas of a discrete prior, which are all that there are; None for another region."""
    if isinstance(prior, Empirical):
        measure = theta_prior(prior, p, "prior_or_bounds")
        assert isinstance(measure, Empirical)
        return np.asarray(measure.points[measure.weights > 0])
    return None


def _allowed(subject_to: Callable[[Array], npt.ArrayLike], candidates: Array) -> Booleans:
    """Which candidates a function of the user allows: (M,)."""
    allowed = np.asarray(called(subject_to, "subject_to", candidates))
    if allowed.shape != (len(candidates),) or allowed.dtype != bool:
        raise ValueError(
            f"subject_to must return a boolean for each of {len(candidates)} thetas, but it returned an array of shape "
            f"{allowed.shape} and type {allowed.dtype}."
        )
    return allowed
