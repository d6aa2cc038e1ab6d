"""What a study would observe: its summary for each row of a table, if the inputs of that row were the truth.

A larger study contains the smaller ones: participants are added to it, so that all sizes share their random numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from scipy.special import bdtr, ndtr, pdtr

from cbq.common import Array, as_array, called, finite, flag, is_number, listed, named, number, shown, whole

__all__ = [
    "BinomialCount",
    "Custom",
    "EndPoints",
    "LossToFollowUp",
    "Normal",
    "PoissonCount",
    "Study",
    "Survival",
    "Trial",
    "TwoArm",
]

Columns = Mapping[str, Array]  # inputs (N,) by name
MAX_CELLS = 512  # of the results of a study: larger numbers of events are grouped, and means rounded
REACH = 8.0  # standard deviations beyond which results are not told apart
MAX_SUMMARY = 1000  # numbers in a row
MAX_EXACT_TIMES = 200  # events whose times are drawn one by one; the sum of more is normal to well within their spread


class Study(ABC):
    """A study of some inputs. Subclasses differ in their observations.

    Examples
    --------
    >>> isinstance(cbq.voi.studies.BinomialCount(), cbq.voi.studies.Study)
    True
    """

    @property
    def further_inputs(self) -> tuple[str, ...]:
        """The names of further inputs that the study depends on, beside its subject."""
        return ()

    @property
    def own_inputs(self) -> int:
        """The number of inputs that the study is about where it is a part of another one."""
        return 1

    def participants(self, size: int, pars: int) -> float:
        """The number of participants of a study of this size of so many inputs."""
        return float(size * pars)

    def check(self, columns: Columns) -> None:  # noqa: B027, most studies of the user's own need none
        """Raise if the columns cannot be the subject of the study."""

    def result_probabilities(self, theta: Array, size: int) -> Array | None:
        """The probabilities (s, Y) of each of Y results of a study of one input, at its values theta (s,).

        None if the results cannot be listed.
        """
        return None

    @abstractmethod
    def summaries(self, columns: Columns, sizes: Sequence[int], rng: np.random.Generator) -> Iterator[Array]:
        """A summary (N, q) of the results in each of N rows, for increasing sizes."""


class _Growing(Study):
    """A study whose summary is a function of sums over participants, with a group of them for each input."""

    @abstractmethod
    def totals(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Sums (N, q) over the results of so many participants, at the values theta (N,) of an input."""

    @abstractmethod
    def summary(self, totals: Array, theta: Array, size: int) -> Array:
        """The summary (N, q) of a study with these totals."""

    def summaries(self, columns: Columns, sizes: Sequence[int], rng: np.random.Generator) -> Iterator[Array]:
        totals, before = [np.zeros((len(each), 1)) for each in columns.values()], 0
        for size in sizes:
            more = [self.totals(each, size - before, rng) for each in columns.values()]
            totals, before = [one + other for one, other in zip(totals, more, strict=True)], size
            parts = zip(totals, columns.values(), strict=True)
            yield np.concatenate([self.summary(total, each, size) for total, each in parts], axis=1)


@dataclass(frozen=True)
class Normal(Study):
    """The mean of `size` observations, each normal around the input with this standard deviation.

    sd : a positive number; or the name of an input that holds the standard deviation in each row. It is then unknown to
        those who analyse the study, which observes the standard deviation of its results, too.

    Examples
    --------
    >>> cbq.voi.studies.Normal(sd=2.5)
    Normal(sd=2.5)
    """

    sd: float | str

    def __post_init__(self) -> None:
        if not isinstance(self.sd, str):
            object.__setattr__(self, "sd", _positive(self.sd, "sd"))

    @property
    def further_inputs(self) -> tuple[str, ...]:
        return (self.sd,) if isinstance(self.sd, str) else ()

    def check(self, columns: Columns) -> None:
        if isinstance(self.sd, str):
            _check_values(columns, [self.sd], "a standard deviation", lambda sd: sd > 0, "above 0")
            if set(columns) == {self.sd}:
                raise ValueError(f"pars has the standard deviation {self.sd!r} alone: add the mean.")

    def result_probabilities(self, theta: Array, size: int) -> Array | None:
        if isinstance(self.sd, str):
            return None
        se = self.sd / np.sqrt(size)
        edges = np.linspace(np.min(theta) - REACH * se, np.max(theta) + REACH * se, MAX_CELLS)
        return _between(ndtr((edges - theta[:, None]) / se))

    def summaries(self, columns: Columns, sizes: Sequence[int], rng: np.random.Generator) -> Iterator[Array]:
        means = {name: each for name, each in columns.items() if name != self.sd}
        theta = np.stack([*means.values()], axis=1)
        sd = columns[self.sd][:, None] if isinstance(self.sd, str) else np.full((len(theta), 1), self.sd)
        total, squares, before = np.zeros(theta.shape), np.zeros(theta.shape), 0  # of deviations from theta
        for size in sizes:
            more, before = size - before, size
            sums = sd * np.sqrt(more) * rng.standard_normal(theta.shape)
            spread = rng.chisquare(more - 1, theta.shape) if more > 1 else np.zeros(theta.shape)
            total, squares = total + sums, squares + sums**2 / more + sd**2 * spread
            if not isinstance(self.sd, str) or size == 1:
                yield theta + total / size
            else:
                within = np.sum(squares - total**2 / size, axis=1, keepdims=True)
                yield np.column_stack([theta + total / size, np.log(within)])


@dataclass(frozen=True)
class BinomialCount(_Growing):
    """The number of events among `size` participants, of which the input is the probability.

    Examples
    --------
    >>> cbq.voi.studies.BinomialCount()
    BinomialCount()
    """

    def check(self, columns: Columns) -> None:
        _check_values(columns, columns, "a probability", lambda p: (p >= 0) & (p <= 1), "from 0 to 1")

    def result_probabilities(self, theta: Array, size: int) -> Array:
        edges = _count_edges(size * theta, np.sqrt(size * theta * (1 - theta)), size - 1)
        return _between(np.asarray(bdtr(edges, size, theta[:, None]), dtype=np.float64))

    def totals(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        return rng.binomial(size, theta)[:, None].astype(float)

    def summary(self, totals: Array, theta: Array, size: int) -> Array:
        return totals / size


@dataclass(frozen=True)
class PoissonCount(_Growing):
    """The number of events in an exposure of `size` units, of which the input is the rate.

    exposure : of each participant, such as years under observation.

    Examples
    --------
    >>> cbq.voi.studies.PoissonCount(exposure=0.5)
    PoissonCount(exposure=0.5)
    """

    exposure: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "exposure", _positive(self.exposure, "exposure"))

    def check(self, columns: Columns) -> None:
        _check_values(columns, columns, "a rate", lambda rate: rate >= 0, "at least 0")
        _check_values(columns, columns, "a rate", lambda rate: rate * self.exposure < 1e9, "below 1e9 per participant")

    def result_probabilities(self, theta: Array, size: int) -> Array:
        mean = size * self.exposure * theta
        return _between(pdtr(_count_edges(mean, np.sqrt(mean)), mean[:, None]))

    def totals(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        return rng.poisson(size * self.exposure * theta)[:, None].astype(float)

    def summary(self, totals: Array, theta: Array, size: int) -> Array:
        return totals / (size * self.exposure)


@dataclass(frozen=True)
class Survival(_Growing):
    """The number of events and the time at risk of `size` participants, of whom each is followed until the event.

    The input is the rate of events, so that times are exponential; a median m has the rate log(2) / m.

    follow_up : the time after which those without an event are censored.
    dropout : the rate at which they are lost before, independently of events.

    Examples
    --------
    >>> cbq.voi.studies.Survival(follow_up=2.0)
    Survival(follow_up=2.0, dropout=0.0)
    """

    follow_up: float
    dropout: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "follow_up", _positive(self.follow_up, "follow_up"))
        if number(self.dropout, "dropout") < 0:
            raise ValueError(f"dropout must be a rate, at least 0, but it is {shown(self.dropout)}.")
        object.__setattr__(self, "dropout", float(self.dropout))

    def check(self, columns: Columns) -> None:
        _check_values(columns, columns, "a rate of events", lambda rate: rate > 0, "above 0")

    def totals(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        leaving = theta + self.dropout  # the rate at which participants stop being at risk
        left = rng.binomial(size, -np.expm1(-leaving * self.follow_up)).astype(float)
        events = rng.binomial(left.astype(int), theta / leaving).astype(float)
        return np.column_stack([events, self.follow_up * (size - left) + self._times(leaving, left, rng)])

    def summary(self, totals: Array, theta: Array, size: int) -> Array:
        events, time = totals.T
        return np.column_stack([np.log((events + 0.5) / time), events / size])

    def _times(self, rate: Array, left: Array, rng: np.random.Generator) -> Array:
        """The sum (N,) of the times of those who left, `left` (N,) in number, before the end of the follow-up."""
        reach = rate * self.follow_up
        most = -np.expm1(-reach)
        found = np.zeros(len(rate))
        few = left <= MAX_EXACT_TIMES
        for i in range(int(np.max(left, where=few, initial=0))):
            on = np.flatnonzero(few & (left > i))
            found[on] -= np.log1p(-most[on] * rng.random(len(on))) / rate[on]
        # The mean and the variance of an exponential time that is known to be below the follow-up.
        odds = reach * np.exp(-reach) / most
        mean, variance = (1 - odds) / rate, np.maximum(1 - odds * reach - odds**2, 0) / rate**2
        normal = left * mean + np.sqrt(left * variance) * rng.standard_normal(len(rate))
        return np.where(few, found, np.clip(normal, 0, left * self.follow_up))


class _Combined(Study):
    """Several studies together, to which the inputs belong in order. `kind` is the word for one of them."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def parts(self) -> Sequence[tuple[Study, int]]:
        """The studies, each with its participants in units of the size."""

    @property
    def own_inputs(self) -> int:
        return sum(each.own_inputs for each, _ in self.parts)

    def check(self, columns: Columns) -> None:
        if len(columns) != self.own_inputs:
            raise ValueError(
                f"study has {len(self.parts)} {self.kind}s about {self.own_inputs} inputs together, but pars= has "
                f"{len(columns)}: {listed(columns)}."
            )
        for each, _, own in self._with_inputs(columns):
            each.check(own)

    def summaries(self, columns: Columns, sizes: Sequence[int], rng: np.random.Generator) -> Iterator[Array]:
        parts = [each.summaries(own, [n * r for n in sizes], rng) for each, r, own in self._with_inputs(columns)]
        return (np.concatenate(found, axis=1) for found in zip(*parts, strict=True))

    def _with_inputs(self, columns: Columns) -> Iterator[tuple[Study, int, Columns]]:
        rest = iter(columns.items())
        for each, ratio in self.parts:
            yield each, ratio, dict(islice(rest, each.own_inputs))


def _several(given: Any, name: str) -> tuple[Study, ...]:
    """The studies of a list."""
    if not isinstance(given, list | tuple) or not given:
        raise TypeError(f"{name} must be a list of studies, not {shown(given)}.")
    return tuple(as_study(each, name) for each in given)


@dataclass(frozen=True)
class Trial(_Combined):
    """A study with several arms: the first is about the first input, the second about the second, and so on.

    arms : a study for each input.
    ratio : the participants of each arm, in units of the size (default: 1 for each: a size is the size of an arm).

    Examples
    --------
    >>> arms = [cbq.voi.studies.BinomialCount(), cbq.voi.studies.BinomialCount()]
    >>> cbq.voi.studies.Trial(arms, ratio=(1, 2)).participants(50, 2)
    150.0
    """

    arms: tuple[Study, ...]
    ratio: tuple[int, ...] | None = None

    kind = "arm"

    def __post_init__(self) -> None:
        arms = _several(self.arms, "arms")
        if any(each.own_inputs != 1 or each.further_inputs for each in arms):
            raise ValueError(f"arms must be studies of one input each, but they are {shown(arms)}.")
        ratio = (1,) * len(arms) if self.ratio is None else self.ratio
        if (
            not isinstance(ratio, list | tuple)
            or len(ratio) != len(arms)
            or not all(is_number(r, 1, 1e6) and r == int(r) for r in ratio)
        ):
            raise ValueError(
                f"ratio must have a whole number, at least 1, for each of {len(arms)} arms, but it is "
                f"{shown(self.ratio)}."
            )
        object.__setattr__(self, "arms", arms)
        object.__setattr__(self, "ratio", tuple(int(r) for r in ratio))

    @property
    def parts(self) -> Sequence[tuple[Study, int]]:
        return list(zip(self.arms, self.ratio or (), strict=True))

    def participants(self, size: int, pars: int) -> float:
        return float(sum(each.participants(size * r, 1) for each, r in self.parts))


@dataclass(frozen=True)
class TwoArm(Study):
    """A trial of `size` participants in each of two arms, about a baseline and the ratio between the arms.

    The first input is the risk or the rate of events in the control arm, the second the ratio of the other arm to it.

    end_point : BinomialCount(), PoissonCount(...) or Survival(...), the study in each arm.
    ratio : "odds" or "risk", of a BinomialCount; of rates, or hazards, otherwise.

    Examples
    --------
    >>> cbq.voi.studies.TwoArm(ratio="odds").participants(50, 2)
    100.0
    """

    end_point: Study = BinomialCount()
    ratio: str = "risk"

    own_inputs = 2

    def __post_init__(self) -> None:
        kinds = ("risk", "odds") if isinstance(self.end_point, BinomialCount) else ("risk",)
        known = isinstance(self.ratio, str) and self.ratio in kinds
        if not isinstance(self.end_point, BinomialCount | PoissonCount | Survival) or not known:
            raise ValueError(
                f"end_point must be BinomialCount(), PoissonCount(...) or Survival(...), and ratio 'risk', or 'odds' "
                f"of a BinomialCount, but they are {shown(self.end_point)} and {shown(self.ratio)}."
            )

    def participants(self, size: int, pars: int) -> float:
        return 2.0 * size

    def check(self, columns: Columns) -> None:
        if len(columns) != 2:
            raise ValueError(f"pars must be a baseline and a ratio for this study, but they are {listed(columns)}.")
        _check_values(columns, list(columns)[1:], "a ratio", lambda ratio: ratio > 0, "above 0")
        self.end_point.check(dict(list(columns.items())[:1]))
        self.end_point.check(self._arms(columns))

    def summaries(self, columns: Columns, sizes: Sequence[int], rng: np.random.Generator) -> Iterator[Array]:
        return self.end_point.summaries(self._arms(columns), sizes, rng)

    def _arms(self, columns: Columns) -> dict[str, Array]:
        """The risk or the rate (N,) in each arm."""
        (name, base), (other, ratio) = columns.items()
        treated = base * ratio
        if self.ratio == "odds":  # p / (1 - p) is multiplied by the ratio
            treated = treated / (1.0 - base + treated)
        return {name: base, f"{name} times {other}": treated}


@dataclass(frozen=True)
class EndPoints(_Combined):
    """A study of several end points in the same participants, who are counted once.

    end_points : a study for each of them. The inputs belong to them in order: two to a `TwoArm`, one for each arm to a
        `Trial`, and one to any other. Given the inputs, the results of a participant are taken to be independent.

    Examples
    --------
    >>> response = cbq.voi.studies.TwoArm(ratio="odds")
    >>> utility = cbq.voi.studies.Trial([cbq.voi.studies.Normal(sd=0.2)] * 2)
    >>> cbq.voi.studies.EndPoints([response, utility]).participants(50, 4)
    100.0
    """

    end_points: tuple[Study, ...]

    kind = "end point"

    def __post_init__(self) -> None:
        studies = _several(self.end_points, "end_points")
        if any(each.further_inputs for each in studies):
            raise ValueError(f"end_points must be studies without further inputs, but they are {shown(studies)}.")
        object.__setattr__(self, "end_points", studies)

    @property
    def parts(self) -> Sequence[tuple[Study, int]]:
        return [(each, 1) for each in self.end_points]

    def participants(self, size: int, pars: int) -> float:
        return max(each.participants(size, each.own_inputs) for each in self.end_points)


@dataclass(frozen=True)
class LossToFollowUp(Study):
    """A study that loses some of its participants, whose results are not observed but who cost as much.

    study : with the participants that stay. lost : the share that is lost, whatever their results; the expected number
        is left out, at most all but one.

    Examples
    --------
    >>> study = cbq.voi.studies.LossToFollowUp(cbq.voi.studies.TwoArm(), lost=0.15)
    >>> study.observed(200), study.participants(200, 2)
    (170, 400.0)
    """

    study: Study
    lost: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "study", as_study(self.study))
        if not is_number(self.lost, 0.0, 1.0) or self.lost == 1:
            raise ValueError(f"lost must be a share from 0 to below 1, but it is {shown(self.lost)}.")

    @property
    def own_inputs(self) -> int:
        return self.study.own_inputs

    @property
    def further_inputs(self) -> tuple[str, ...]:
        return self.study.further_inputs

    def observed(self, size: int) -> int:
        """The number of participants that stay, of each group of this size."""
        return max(1, round(size * (1.0 - self.lost)))

    def participants(self, size: int, pars: int) -> float:
        return self.study.participants(size, pars)

    def check(self, columns: Columns) -> None:
        self.study.check(columns)

    def result_probabilities(self, theta: Array, size: int) -> Array | None:
        return self.study.result_probabilities(theta, self.observed(size))

    def summaries(self, columns: Columns, sizes: Sequence[int], rng: np.random.Generator) -> Iterator[Array]:
        different = sorted({self.observed(size) for size in sizes})
        found = dict(zip(different, self.study.summaries(columns, different, rng), strict=True))
        return (found[self.observed(size)] for size in sizes)


@dataclass(frozen=True)
class Custom(Study):
    """A study of your own: `simulate(row, n, rng)` returns a summary (q,) of the results of n participants.

    simulate : row is a mapping from the names of the inputs to their values in one row of the table. The summary should
        hold all that those who analyse the study would use, such as estimates and counts, in few numbers.
    vectorised : whether it takes all rows at once: row then maps to arrays (N,), and the result is (N, q) or (N,).
    arms : the number of groups of n participants, all of which cost money in `cbq.enbs`.

    Examples
    --------
    >>> def simulate(row, n, rng):
    ...     return row["risk"] + rng.standard_t(5, size=n).mean()
    >>> cbq.voi.studies.Custom(simulate).vectorised
    False
    """

    simulate: Callable[[Any, int, np.random.Generator], Any]
    vectorised: bool = False
    arms: int = 1

    def __post_init__(self) -> None:
        if not callable(self.simulate):
            raise TypeError(f"simulate must be a function of row, n and rng, but it is {shown(self.simulate)}.")
        flag(self.vectorised, "vectorised")
        object.__setattr__(self, "arms", whole(self.arms, "arms", 1))

    def __repr__(self) -> str:
        return f"Custom(simulate={named(self.simulate)}, vectorised={self.vectorised}, arms={self.arms})"

    def participants(self, size: int, pars: int) -> float:
        return float(size * self.arms)

    def summaries(self, columns: Columns, sizes: Sequence[int], rng: np.random.Generator) -> Iterator[Array]:
        seed, N = int(rng.integers(2**62)), len(next(iter(columns.values())))
        for size in sizes:  # with the same random numbers
            random, what = np.random.default_rng(seed), f"what simulate of the study returns for {size} participants"
            if self.vectorised:
                found: Any = self._simulated(dict(columns), size, random, what, N)
            else:
                rows = [dict(zip(columns, row, strict=True)) for row in np.stack([*columns.values()], axis=1).tolist()]
                found = [np.ravel(self._simulated(row, size, random, what)) for row in rows]
            array = finite(found, what)
            if array.ndim == 0 or len(array) != N or array.ndim > 2 or not array.size:
                each = f"an array ({N}, q)" if self.vectorised else "q numbers, as many for all rows"
                raise ValueError(f"{what} must be {each}, but its shape is {array.shape}.")
            yield array.reshape(N, -1)

    def _simulated(self, row: Any, size: int, rng: np.random.Generator, what: str, N: int = 1) -> Any:
        found = as_array(called(self.simulate, "simulate of the study", row, size, rng), what)
        if found.size > N * MAX_SUMMARY:
            raise ValueError(f"{what} must be a summary in few numbers, but its shape is {found.shape}.")
        return found


# By name, studies without arguments, and their names in R's voi; "trial_binary" is about two probabilities.
STUDIES: dict[str, type[Study]] = {
    "binomial": BinomialCount,
    "poisson": PoissonCount,
    "binary": BinomialCount,
    "trial_binary": BinomialCount,
}


def as_study(study: Any, name: str = "study") -> Study:
    """A study, from one, from its name, or from a function that simulates it."""
    if isinstance(study, Study):
        return study
    if isinstance(study, str) and study.lower() in STUDIES:
        return STUDIES[study.lower()]()
    if callable(study) and not isinstance(study, type):
        return Custom(study)
    raise TypeError(
        f"{name} must be a study of cbq.voi.studies, such as BinomialCount() or Normal(sd=2.0), the name of one "
        f"({listed(STUDIES)}), or a function simulate(row, n, rng), but it is {shown(study)}."
    )


def _between(below: Array) -> Array:
    """The probabilities (s, Y) of cells, from the probabilities (s, Y - 1) to be below their edges."""
    s = len(below)
    return np.maximum(np.diff(np.concatenate([np.zeros((s, 1)), below, np.ones((s, 1))], axis=1), axis=1), 0.0)


def _count_edges(mean: Array, sd: Array, most: float = np.inf) -> Array:
    """Numbers of events that end the cells of counts: all that may occur, or evenly spaced if these are many."""
    low = max(0.0, float(np.floor(np.min(mean - REACH * (sd + 1)))))
    high = min(most, float(np.ceil(np.max(mean + REACH * (sd + 1)))))
    return np.unique(np.floor(np.linspace(low, max(low, high), min(MAX_CELLS, int(max(high - low, 0.0)) + 1))))


def _positive(value: Any, name: str) -> float:
    if not number(value, name) > 0:
        raise ValueError(f"{name} must be above 0, but it is {shown(value)}.")
    return float(value)


def _check_values(
    columns: Columns, names: Sequence[str] | Columns, what: str, holds: Callable[[Array], Any], where: str
) -> None:
    """Raise if a column, which is to be `what`, has a value where `holds` is false."""
    for name in names:
        bad = np.flatnonzero(~np.asarray(holds(columns[name])))
        if bad.size:
            raise ValueError(
                f"column {name!r} of inputs must be {what}, {where}, for this study, but it is "
                f"{columns[name][bad[0]]:g} in row {bad[0]}."
            )
