"""Numbers that depend on I as a function of theta: the best theta, and risk measures over the prior Q of theta.

Such an estimand has an estimate with an interval, the accuracy that its goal compares, and wishes: the thetas whose I
it depends on, which choose the next runs.

- the best theta depends on the thetas that are best in some draw of I. A run is worth what it is expected to save there
  (the knowledge gradient). The accuracy is the expected regret.
- a value at risk moves with I at theta by the density of I(theta) there, relative to all of Q; an expected shortfall
  and an expected loss move by the probability that I(theta) is beyond. Thetas are drawn from Q in proportion to this
  slope times the standard deviation of I.

A new estimand of this kind is one class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from scipy.special import ndtr

from cbq.common import Array, RNGLike, between_0_and_1, finite, flag, is_whole, number, shown
from cbq.estimators import Wanted, WantedBest, WantedValues
from cbq.fit import N_WANTED, BestTheta, Contest, Fit
from cbq.measures import Measure
from cbq.measures.points import sobol
from cbq.nested import NODES, SUBSET, Answer, OuterPosterior, TailRisk, output_selector, step_quantile, tail_risk
from cbq.runs.estimands import Estimand, Pointwise
from cbq.runs.focus import Focus
from cbq.runs.quantity import Quantity
from cbq.samples import Names

TAIL = 32  # thetas of Q beyond a quantile
MEANS, DRAWN, SPREAD = 2**11, 256, 128  # of thetas at each round: means, draws, and candidates for the best one


@dataclass(frozen=True, eq=False)
class CurveFocus:
    """One number, how accurate it is, and what further runs should show.

    accuracy : what the goal compares with its tolerance. spread : the standard deviation of I over Q. wishes : what is
    wanted, of which output. sound : whether there is such a number: a theta that satisfies the constraints.
    """

    estimand: CurveEstimand
    c: int
    estimate: float
    accuracy: float
    spread: float
    wishes: Sequence[tuple[Wanted | WantedValues, int]]
    sound: bool = True

    @property
    def theta(self) -> Array:
        """The thetas (G, p) that matter most."""
        return np.concatenate([wanted.theta for wanted, _ in self.wishes if isinstance(wanted, Wanted)])


Foci = Sequence[tuple[Focus | CurveFocus | None, int]]  # of several quantities, with their outputs; None for means


class CurveEstimand(Estimand):
    """A number that depends on I as a function of theta."""

    @abstractmethod
    def focus(self, fit: Fit, c: int, quantity: Quantity, level: float, rng: np.random.Generator) -> CurveFocus:
        """The number for output c, by a fit, and what further runs should show."""

    @abstractmethod
    def estimate(self, fit: Fit, c: int, prior: Measure, level: float) -> tuple[float, float, float]:
        """The number for output c, and the ends of its interval."""

    def accuracy(self, size: str, level: float, of: str) -> str:
        """The accuracy in words."""
        return f"the {level:.0%} interval{of} has a half-width of {size}"


@dataclass(frozen=True, kw_only=True)
class Best(CurveEstimand):
    """The theta with the largest or the smallest I, for `problem.solve(goal=...)`; `answer.best` has it.

    tolerance, rtol, relative : the wanted expected regret: in units of I, of the spread of I over Q, of the best I.
    maximize : False for the smallest I.
    bounds : the ends (p, 2) of a box to look in (default: the central 99% of the prior, or all points of a discrete
        one).
    among : thetas (M, p) to choose from instead.
    subject_to : limits as for `fit.best`, of outputs by their names or of probabilities, such as
        {cbq.Probability(above=beds, output="beds"): (None, 0.05)}.
    output : of f, if it has several.

    Examples
    --------
    >>> problem = cbq.problems.get("linear", dim=2)
    >>> answer = problem.solve(goal=cbq.Best(tolerance=0.1), budget=8, rng=0)
    >>> answer.best.theta.shape
    (2,)
    """

    maximize: bool = True
    bounds: Any = None
    among: Any = None
    subject_to: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "maximize", flag(self.maximize, "maximize"))
        if self.bounds is not None and self.among is not None:
            raise ValueError("Best takes bounds or thetas to choose among, not both: omit one of them.")
        if self.bounds is not None:
            ends = finite(self.bounds, "bounds")
            if ends.ndim != 2 or ends.shape[1] != 2 or not np.all(ends[:, 0] <= ends[:, 1]):
                raise ValueError(f"bounds must be the ends (p, 2) of a box, but they are {shown(self.bounds)}.")
            object.__setattr__(self, "bounds", tuple(map(tuple, ends.tolist())))
        if self.among is not None:
            rows = finite(self.among, "among")
            rows = rows[:, None] if rows.ndim == 1 else rows
            if rows.ndim != 2 or not rows.size:
                raise ValueError(f"among must be thetas (M, p), but it is {shown(self.among)}.")
            object.__setattr__(self, "among", tuple(map(tuple, rows.tolist())))
        if self.subject_to is not None:
            object.__setattr__(self, "subject_to", tuple(_limit(*each) for each in _items(self.subject_to)))

    @property
    def limits(self) -> dict[Any, tuple[float | None, float | None]] | None:
        """The constraints, as `fit.best` takes them."""
        return None if self.subject_to is None else {key: (low, high) for key, low, high in self.subject_to}

    @property
    def needs_emulator(self) -> bool:
        return any(isinstance(key, Estimand) for key in self.limits or ())

    @property
    def record(self) -> dict[str, Any]:
        found = super().record
        if self.subject_to is not None:
            found["subject_to"] = [
                [key.record if isinstance(key, Estimand) else key, low, high] for key, low, high in self.subject_to
            ]
        return found

    def column(self, names: Names, C: int) -> int:
        known = names.with_f(C).f if C > 1 else names.f
        for key in self.limits or ():
            if isinstance(key, Estimand):
                key.column(names, C)
            elif key not in known and not is_whole(key, 0, C - 1):
                raise ValueError(f"subject_to limits {shown(key)}, but the outputs of f are {list(known)}.")
        return super().column(names, C)

    def require_dimension(self, p: int) -> None:
        if self.bounds is not None and len(self.bounds) != p:
            raise ValueError(f"bounds has {len(self.bounds)} rows, but theta has {p} coordinates: one row for each.")
        if self.among is not None and len(self.among[0]) != p:
            raise ValueError(f"among has thetas of {len(self.among[0])} coordinates, but theta has {p}.")

    def _contest(self, fit: Fit, c: int, prior: Measure, level: float, rng: RNGLike, **sizes: int) -> Contest:
        region: Any = prior if self.bounds is None and self.among is None else self.bounds
        return Contest.of(
            fit,
            region,
            among=self.among,
            maximize=self.maximize,
            subject_to=self.limits,
            output=None if fit.C is None else c,
            level=level,
            rng=rng,
            **sizes,
        )

    def focus(self, fit: Fit, c: int, quantity: Quantity, level: float, rng: np.random.Generator) -> CurveFocus:
        contest = self._contest(fit, c, quantity.prior, level, rng, size=1000, spread=SPREAD)
        best, rows = contest.best(), contest.rivals(N_WANTED)
        theta, gaps = contest.theta[rows], contest.mean[rows[0]] - contest.mean[rows]
        wishes: list[tuple[Wanted | WantedValues, int]] = [
            (WantedBest.at(theta, quantity.family, np.maximum(gaps, 0.0)), c)
        ]
        wishes += self._of_limits(fit, theta, quantity, rng)
        prior = quantity.prior.transport(sobol(N_WANTED, quantity.prior.dim, rng))
        spread = float(np.std(np.reshape(fit._quiet.predict(prior), (len(prior), -1))[:, c]))
        return CurveFocus(self, c, best.value, best.expected_regret, spread, wishes, best.feasible >= level)

    def _of_limits(
        self, fit: Fit, theta: Array, quantity: Quantity, rng: np.random.Generator, few: int = 8, points: int = 128
    ) -> list[tuple[Wanted | WantedValues, int]]:
        """What constraints want at rivals (G, p): few of them for a property of the distribution of f."""
        found = list[tuple[Wanted | WantedValues, int]]()
        for key in self.limits or ():
            if isinstance(key, Pointwise):
                c = key.column(fit.names, fit.C or 1)
                values, factors = Focus.on(key, c, fit, theta[:few], rng).undecided(points, rng)
                found.append((WantedValues(values.inputs(of_theta=quantity.depends_on_theta), factors), c))
            else:
                c = fit.names.f.index(key) if isinstance(key, str) else int(key)
                found.append((Wanted.at(theta, quantity.family, np.ones(len(theta))), c))
        return found

    def estimate(self, fit: Fit, c: int, prior: Measure, level: float) -> tuple[float, float, float]:
        best = self.best(fit, c, prior, level)
        return best.value, *best.interval

    def best(self, fit: Fit, c: int, prior: Measure, level: float, *, feasible: bool = True) -> BestTheta:
        """The best theta of a fit. feasible : whether to raise if no theta satisfies the constraints."""
        contest = self._contest(fit, c, prior, level, 0, size=2000)
        if feasible:
            contest.require_feasible()
        return contest.best()

    def accuracy(self, size: str, level: float, of: str) -> str:
        return f"the expected regret{of} is {size}"

    def text(self, f: str) -> str:
        return f"the {'largest' if self.maximize else 'smallest'} E {f}"


class Risk(CurveEstimand):
    """A risk measure: a number that few thetas of Q decide."""

    in_tails: ClassVar[bool] = True

    @abstractmethod
    def answer(self, fit: Fit, prior: Measure, output: int | None, n: int, drawn: int) -> tuple[Answer, OuterPosterior]:
        """The number by a fit, and the posterior of I behind it.

        n : the number of thetas of Q, or fewest. drawn : of those at which I is drawn.
        """

    @abstractmethod
    def slopes(self, mean: Array, std: Array, weights: Array, estimate: float) -> Array:
        """How the number moves with I at each theta (n,) of Q, which has this weight, up to a factor."""

    def estimate(self, fit: Fit, c: int, prior: Measure, level: float) -> tuple[float, float, float]:
        return _ends(self.answer(fit, prior, None if fit.C is None else c, NODES, SUBSET)[0], level)

    def focus(self, fit: Fit, c: int, quantity: Quantity, level: float, rng: np.random.Generator) -> CurveFocus:
        found, posterior = self.answer(fit._quiet, quantity.prior, None if fit.C is None else c, MEANS, DRAWN)
        estimate, low, high = _ends(found, level)
        nodes, tiny = posterior.nodes, np.finfo(float).tiny
        theta, paths = nodes.theta[nodes.subset], posterior.paths
        mean, paths = (each if fit.C is None else each[..., c] for each in (posterior.mean[nodes.subset], paths))
        std = np.maximum(np.std(paths, axis=0), 1e-9 * np.ptp(mean) + tiny)
        mass = nodes.subset_weights * self.slopes(mean, std, nodes.subset_weights, estimate) * std
        mass = mass if np.sum(mass) > 0 else nodes.subset_weights
        edges = (np.arange(N_WANTED) + rng.random()) / N_WANTED
        rows = np.minimum(np.searchsorted(np.cumsum(mass) / np.sum(mass), edges), len(mass) - 1)
        wanted = Wanted.at(theta[rows], quantity.family, np.min(std[rows]) / std[rows])
        spread = np.sqrt(np.cov(mean, aweights=nodes.subset_weights, ddof=0))
        return CurveFocus(self, c, estimate, max(high - estimate, estimate - low), float(spread), [(wanted, c)])


class _Tail(Risk):
    """A risk measure of the tail of probability 1 - alpha."""

    alpha: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", between_0_and_1(self.alpha, "alpha"))

    def _risk(
        self, fit: Fit, prior: Measure, output: int | None, n: int, drawn: int, **options: bool
    ) -> tuple[TailRisk, OuterPosterior]:
        n = max(n, int(np.ceil(TAIL / (1 - self.alpha))))
        return tail_risk(fit, prior, self.alpha, "upper", output, n=n, design="sobol", rng=0, drawn=drawn, **options)


@dataclass(frozen=True)
class ValueAtRisk(_Tail):
    """The value at risk, the alpha-quantile of I over the prior of theta, for `problem.solve(goal=...)`.

    alpha : the probability outside the tail. I is a loss: large values are bad.
    tolerance, rtol, relative : the wanted half-width of its interval: in units of I, of the spread of I over Q, or as a
        share of the value at risk. output : of f, if it has several.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> answer = problem.solve(goal=cbq.ValueAtRisk(0.9), budget=8, rng=0)
    >>> estimate, low, high = answer.estimate()
    >>> low < estimate < high
    True
    """

    alpha: float = 0.995

    def answer(self, fit: Fit, prior: Measure, output: int | None, n: int, drawn: int) -> tuple[Answer, OuterPosterior]:
        return self._risk(fit, prior, output, n, drawn, start_only=True)

    def slopes(self, mean: Array, std: Array, weights: Array, estimate: float) -> Array:
        return np.asarray(np.exp(-0.5 * np.clip((mean - estimate) / std, -40, 40) ** 2) / std)

    def text(self, f: str) -> str:
        return f"the {self.alpha:g} value at risk of E {f}"


@dataclass(frozen=True)
class ExpectedShortfall(_Tail):
    """The mean of I over its largest 1 - alpha, by the prior of theta, for `problem.solve(goal=...)`.

    alpha, tolerance, rtol, relative, output : as for `ValueAtRisk`.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> answer = problem.solve(goal=cbq.ExpectedShortfall(0.9), budget=8, rng=0)
    >>> estimate, low, high = answer.estimate()
    >>> low < estimate < high
    True
    """

    alpha: float = 0.995

    def answer(self, fit: Fit, prior: Measure, output: int | None, n: int, drawn: int) -> tuple[Answer, OuterPosterior]:
        found, posterior = self._risk(fit, prior, output, n, drawn)
        return found.tail, posterior

    def slopes(self, mean: Array, std: Array, weights: Array, estimate: float) -> Array:
        start = step_quantile(mean, weights, self.alpha)
        return np.asarray(ndtr((mean - start) / std))

    def text(self, f: str) -> str:
        return f"the {self.alpha:g} expected shortfall of E {f}"


@dataclass(frozen=True, kw_only=True)
class ExpectedLoss(Risk):
    """The expected loss E max(I(theta) - threshold, 0) over the prior of theta, for `problem.solve(goal=...)`.

    tolerance, rtol, relative, output : as for `ValueAtRisk`.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> answer = problem.solve(goal=cbq.ExpectedLoss(threshold=3.0), budget=8, rng=0)
    >>> estimate, low, high = answer.estimate()
    >>> low < estimate < high
    True
    """

    threshold: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "threshold", number(self.threshold, "threshold"))

    def answer(self, fit: Fit, prior: Measure, output: int | None, n: int, drawn: int) -> tuple[Answer, OuterPosterior]:
        select = output_selector(fit, output)

        def functional(values: Array, weights: Array) -> Array:
            return np.asarray(np.maximum(select(values) - self.threshold, 0.0) @ weights)

        posterior = OuterPosterior.at(fit, prior, n=n, design="sobol", rng=0)
        return posterior.answer(functional).at_least(0.0), posterior

    def slopes(self, mean: Array, std: Array, weights: Array, estimate: float) -> Array:
        return np.asarray(ndtr((mean - self.threshold) / std))

    def text(self, f: str) -> str:
        over = f" above {self.threshold:g}" * (self.threshold != 0)
        return f"the expected loss of E {f}{over}"


def _items(subject_to: Any) -> list[tuple[Any, Any, Any]]:
    """Constraints as triples, from a mapping or from a record."""
    if isinstance(subject_to, Mapping):
        pairs = list(subject_to.items())
        if not all(isinstance(ends, tuple | list) and len(ends) == 2 for _, ends in pairs):
            raise ValueError(
                f"subject_to must map to (least, largest), with None for no limit: it is {shown(subject_to)}."
            )
        return [(key, *ends) for key, ends in pairs]
    if isinstance(subject_to, tuple | list) and all(
        isinstance(each, tuple | list) and len(each) == 3 for each in subject_to
    ):
        return [tuple(each) for each in subject_to]
    raise TypeError(
        f"subject_to must map outputs or probabilities to (least, largest), with None for no limit, but it is "
        f"{shown(subject_to)}: a function of thetas is for fit.best alone, since it cannot be kept in a checkpoint."
    )


def _limit(key: Any, least: Any, largest: Any) -> tuple[Any, float | None, float | None]:
    """A constraint, whose key may be the record of an estimand."""
    key = Estimand.of_record(key) if isinstance(key, dict) else key
    ends = [None if end is None else number(end, "a limit of subject_to") for end in (least, largest)]
    return key, ends[0], ends[1]


def _ends(found: Answer, level: float) -> tuple[float, float, float]:
    """A number and the ends of its interval."""
    low, high = found.interval(level)
    return cast(float, found.estimate), cast(float, low), cast(float, high)
