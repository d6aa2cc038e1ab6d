"""What a run is to estimate: the mean of f, the probability of an event, a quantile, the standard deviation.

An estimand has an estimate over theta with an interval, points of P_theta that decide it, and slopes: how the estimate
moves with the mean m of f at a point of weight w and standard deviation s. Points and slopes choose the next runs.

- P(f > c) moves by w phi((c - m) / s) / s. Times s^2, this is also the covariance of the event with f at the point.
- a quantile moves as the probability to exceed it, over the density of f at the quantile.
- the standard deviation moves by w (m - E f) / std.

A new estimand is one class.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from cbq.common import Array, finite, is_whole, shown
from cbq.fit import Marginals, Outcome, Triple
from cbq.samples import Names

WIDTHS = ("tolerance", "rtol", "relative")
ROUNDING = 1e-15  # of a probability: 1 - P(f <= c) is not known better


@dataclass(frozen=True, kw_only=True)
class Estimand(ABC):
    """What is wanted, and how accurately: the half-width of its interval.

    tolerance : in units of the estimand. rtol : in units of its spread over Q. relative : in units of its value. None:
    no such goal. output : the number or the name of the output of f, if it has several.
    """

    tolerance: float | None = None
    rtol: float | None = None
    relative: float | None = None
    output: int | str | None = None

    of_outcome: ClassVar[bool] = (
        False  # whether it is read from the outcome of f, at points, rather than from integrals
    )
    is_local: ClassVar[bool] = False  # whether few points of P_theta may decide it
    in_tails: ClassVar[bool] = False  # whether few thetas of Q may decide it

    def __post_init__(self) -> None:
        for name in WIDTHS:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, wanted_width(value, name))
        if not (self.output is None or isinstance(self.output, str) or is_whole(self.output)):
            raise TypeError(f"output must be the number or the name of an output of f, but it is {shown(self.output)}.")

    @abstractmethod
    def text(self, f: str) -> str:
        """The estimand in words, for an output that is called f."""

    @property
    def needs_emulator(self) -> bool:
        """Whether a model of f itself is needed, not of its integrals alone."""
        return self.of_outcome

    def require_dimension(self, p: int) -> None:  # noqa: B027, most have nothing to check
        """Raise if it does not fit thetas of p coordinates."""

    def column(self, names: Names, C: int) -> int:
        """The output of f that is meant, among C."""
        called = names.with_f(C).f if C > 1 else names.f
        if isinstance(self.output, str):
            if self.output not in called:
                raise ValueError(f"output must be a number or one of {list(called)}, but it is {self.output!r}.")
            return called.index(self.output)
        if self.output is None and C > 1:
            raise ValueError(f"f has {C} outputs: name the one that {type(self).__name__} is about, as in output=0.")
        if (self.output or 0) >= C:
            raise ValueError(f"output is {self.output}, but f has {C} output{'s' * (C > 1)}: count from 0.")
        return int(self.output or 0)

    @property
    def key(self) -> str:
        """The estimand without its tolerance, as text."""
        return json.dumps({name: value for name, value in self.record.items() if name not in WIDTHS})

    @property
    def record(self) -> dict[str, Any]:
        """The estimand as a JSON object."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": type(self).__name__} | {name: value for name, value in values.items() if value is not None}

    @staticmethod
    def of_record(record: dict[str, Any]) -> Estimand:
        """From its record, or raise a TypeError."""
        kinds: list[type[Estimand]] = [Estimand]
        for each in kinds:  # which grows
            kinds += each.__subclasses__()
        kind = next((each for each in kinds if each.__name__ == record.get("kind")), None)
        if kind is None:
            raise TypeError(f"goal must be an estimand, such as cbq.Probability(above=c), but it is {shown(record)}.")
        return kind(**{name: value for name, value in record.items() if name != "kind"})


class Pointwise(Estimand):
    """A property of the distribution of f at each theta."""

    of_outcome: ClassVar[bool] = True

    @abstractmethod
    def of(self, outcome: Outcome, level: float | None) -> Array | Triple:
        """The estimate (M,) or (M, C) and, with a level, the ends of its interval."""

    def relevance(self, known: Marginals) -> Array:
        """The logarithm (n,), at most 0, of how much points decide the estimate."""
        return np.zeros(len(known.mean))

    @abstractmethod
    def slopes(self, known: Marginals) -> Array:
        """How the estimate moves with the mean of f at each point, (n,)."""

    def interval(self, outcome: Outcome, level: float, n: int) -> Triple:
        """The estimate, and the ends of its interval given n runs."""
        found = self.of(outcome, level)
        assert isinstance(found, tuple)
        return found


@dataclass(frozen=True, kw_only=True)
class Mean(Pointwise):
    """The mean I(theta) of f, for `problem.solve(goal=...)`, of all outputs unless one is named.

    tolerance, rtol, relative : the wanted half-width of its interval: in units of I, of the spread of I over Q, of I.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> problem.solve(goal=cbq.Mean(rtol=0.3), budget=60, rng=0).reached
    True
    """

    of_outcome: ClassVar[bool] = False

    def of(self, outcome: Outcome, level: float | None) -> Array | Triple:
        return outcome.mean(level)

    def slopes(self, known: Marginals) -> Array:
        return known.weights

    def text(self, f: str) -> str:
        return f"E {f}"


class AtThreshold(Pointwise):
    """An estimand that the values of f near one value decide: a probability or a quantile."""

    is_local: ClassVar[bool] = True

    @abstractmethod
    def threshold(self, known: Marginals) -> float:
        """The value of f."""

    def relevance(self, known: Marginals) -> Array:
        """The probability of the rarer side of the threshold at each point."""
        c = self.threshold(known)
        z, above = known.standardised(c), known.cdf(np.array([c]))[0] > 0.5
        return np.asarray(log_ndtr(-z if above else z))

    def slopes(self, known: Marginals) -> Array:
        """The density of f at the threshold, at each point, times the weight of the point."""
        z = np.clip(known.standardised(self.threshold(known)), -40.0, 40.0)  # beyond, the density is zero in float64
        each = np.exp(-0.5 * z**2) / (np.sqrt(2 * np.pi) * np.maximum(known.std, np.finfo(float).tiny))
        return np.asarray(known.weights * each)


@dataclass(frozen=True, kw_only=True)
class Probability(AtThreshold):
    """The probability that f exceeds, or is at most, a value, for `problem.solve(goal=...)`.

    above, below : one of the two: P(f > above), or P(f <= below).
    tolerance, rtol, relative : the wanted half-width of its interval: as a probability, in units of its spread over Q,
        or as a share of the probability itself. output : of f, if it has several.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> answer = problem.solve(goal=cbq.Probability(above=5.0), relative=0.1, budget=60, rng=0)
    >>> probability, low, high = answer.estimate([90.0, 110.0])
    >>> bool(np.all((low <= probability) & (probability <= high)))
    True
    """

    above: float | None = None
    below: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.above is None) == (self.below is None):
            raise ValueError("Probability needs either above=c, for P(f > c), or below=c, for P(f <= c).")
        name = "above" if self.below is None else "below"
        object.__setattr__(self, name, _number(getattr(self, name), name))

    @property
    def _c(self) -> float:
        return float(self.below if self.above is None else self.above)  # type: ignore[arg-type]

    def of(self, outcome: Outcome, level: float | None) -> Array | Triple:
        return outcome.cdf(self._c, level) if self.above is None else outcome.sf(self._c, level)

    def interval(self, outcome: Outcome, level: float, n: int) -> Triple:
        """With n runs, an event that no draw of f meets has the upper end for n independent draws without it."""
        estimate, low, high = super().interval(outcome, level, n)
        unseen = 1 - (1 - level) ** (1 / n)
        never, always = high <= ROUNDING, low >= 1 - ROUNDING
        low = np.where(never, 0.0, np.where(always, 1 - unseen, low))
        high = np.where(always, 1.0, np.where(never, unseen, high))
        return estimate, low, high

    def threshold(self, known: Marginals) -> float:
        return self._c

    def text(self, f: str) -> str:
        return f"P({f} <= {self._c:g})" if self.above is None else f"P({f} > {self._c:g})"


@dataclass(frozen=True)
class Quantile(AtThreshold):
    """A quantile of f under P_theta, for `problem.solve(goal=...)`: f is at most this with probability q.

    q : strictly between 0 and 1.
    tolerance, rtol, relative : the wanted half-width of its interval: in units of f, of its spread over Q, or as a
        share of the quantile. output : of f, if it has several.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> answer = problem.solve(goal=cbq.Quantile(0.95), budget=10, rng=0)
    >>> answer.estimate([90.0, 110.0], level=None).shape
    (2,)
    """

    q: float

    def __post_init__(self) -> None:
        super().__post_init__()
        q = _number(self.q, "q")
        if not 0 < q < 1:
            raise ValueError(f"q must be between 0 and 1, without the ends, but it is {shown(self.q)}.")
        object.__setattr__(self, "q", q)

    def of(self, outcome: Outcome, level: float | None) -> Array | Triple:
        return outcome.ppf(self.q, level)

    def threshold(self, known: Marginals) -> float:
        return float(known.ppf(np.array([self.q]))[0])

    def text(self, f: str) -> str:
        return f"the {self.q:g} quantile of {f}"


@dataclass(frozen=True, kw_only=True)
class Std(Pointwise):
    """The standard deviation of f under P_theta, for `problem.solve(goal=...)`.

    tolerance, rtol, relative : the wanted half-width of its interval: in units of f, of its spread over Q, or as a
        share of the standard deviation. output : of f, if it has several.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> answer = problem.solve(goal=cbq.Std(), budget=12, rng=0)
    >>> answer.estimate([90.0, 110.0], level=None).shape
    (2,)
    """

    def of(self, outcome: Outcome, level: float | None) -> Array | Triple:
        return outcome.std(level)

    def slopes(self, known: Marginals) -> Array:
        centre = known.weights @ known.mean
        unit = np.sqrt(max(float(known.variance(np.zeros(1))[0]), np.finfo(float).tiny))
        return np.asarray(known.weights * (known.mean - centre) / unit)

    def text(self, f: str) -> str:
        return f"the standard deviation of {f}"


def estimands(goal: Any) -> tuple[Estimand, ...]:
    """The argument `goal` of `solve`: an estimand, a list of them, or None for the mean."""
    if goal is None:
        return (Mean(),)
    listed = list(goal) if isinstance(goal, list | tuple) else [goal]
    if listed and all(isinstance(each, dict) for each in listed):
        listed = [Estimand.of_record(each) for each in listed]
    if not listed or not all(isinstance(each, Estimand) for each in listed):
        raise TypeError(
            f"goal must be cbq.Mean(), cbq.Probability(above=c), cbq.Quantile(q), cbq.Std(), cbq.Best(), "
            f"cbq.ValueAtRisk(alpha), cbq.ExpectedShortfall(alpha), cbq.ExpectedLoss() or a list of them, but it is "
            f"{shown(goal)}."
        )
    keys = ["Mean" if isinstance(each, Mean) else each.key for each in listed]
    twice = next((each for key, each in zip(keys, listed, strict=True) if keys.count(key) > 1), None)
    if twice is not None:
        raise ValueError(f"goal has {twice!r} twice: leave one of them out.")
    return tuple(listed)


def wanted_width(value: Any, name: str) -> float:
    """A half-width: a number above 0."""
    found = finite(value, name)
    if found.ndim or not found > 0:
        raise ValueError(f"{name} must be a number above 0, such as 0.05, but it is {shown(value)}.")
    return float(found)


def _number(value: Any, name: str) -> float:
    found = finite(value, name)
    if found.ndim:
        raise ValueError(f"{name} must be a number, but it has shape {found.shape}.")
    return float(found)
