"""The theta at which I is best, and how sure that is: draws of I at candidates, each with an optimum of its own.

A draw of I from the fit is a curve that the runs allow. Its best theta, and the loss by choosing another one, are
known; over many draws they have distributions. Candidates of a region are spread over it, and then gathered where I may
be best: a candidate whose interval lies below another's is not the optimum of a draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from cbq.common import (
    Array,
    Booleans,
    RNGLike,
    between_0_and_1,
    count,
    finite,
    flag,
    generator,
    is_number,
    is_whole,
    shown,
)
from cbq.fit.findings import warn_of
from cbq.fit.theta_grids import observed_range, prior_range, theta_prior
from cbq.measures import Measure
from cbq.report import ArrayTable
from cbq.samples import Names, by_theta

if TYPE_CHECKING:
    from cbq.fit.base import Fit

Constraints = Mapping[str, tuple[float | None, float | None]] | Callable[[Array], npt.ArrayLike]

NEAR = 0.01  # the default epsilon, relative to the range of the mean


@dataclass(frozen=True, eq=False, repr=False)
class Best(ArrayTable):
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
            f"Best({at}, value={self.value:.5g}, {ends} with probability {self.level:g}; within {self.epsilon:.3g} of "
            f"the best with probability {self.probability:.3g}; expected regret {self.expected_regret:.3g}; "
            f"as good may be {self.names.ranges('theta', self.credible_set)})"
        )


def find_best(
    fit: Fit,
    prior_or_bounds: Any,
    *,
    among: Any,
    maximize: bool,
    subject_to: Constraints | None,
    output: int | str | None,
    epsilon: float | None,
    level: float,
    size: int,
    rng: RNGLike,
) -> Best:
    """The best theta of a fit; `Fit.best` explains the arguments."""
    warns, fit = not fit._is_quiet, fit._quiet
    sign, level = (1.0 if flag(maximize, "maximize") else -1.0), between_0_and_1(level, "level")
    c, rng, size = _output(fit, output), generator(rng), count(size, "size")
    if size < 2:
        raise ValueError(f"size must be a number of draws, 2 or more, but it is {shown(size)}.")
    if epsilon is not None and not (is_number(epsilon) and epsilon >= 0):
        raise ValueError(f"epsilon must be a number of zero or more, in units of I, but it is {shown(epsilon)}.")
    limits = _limits(fit, subject_to)
    if among is not None:
        if prior_or_bounds is not None:
            raise ValueError("best takes prior_or_bounds or thetas to choose among, not both: omit one of them.")
        candidates = np.unique(fit._thetas(among), axis=0)
        mean = sign * _of(fit.predict(candidates), c)
    else:
        candidates, mean = _gathered(fit, _ends(fit, prior_or_bounds), sign, c, rng)
    allowed = _allowed(subject_to, candidates)
    draws, feasible = _drawn(fit, candidates, c, limits, size, rng)
    draws *= sign
    feasible &= allowed
    sure = np.mean(feasible, axis=0)
    if not np.any(sure >= level):
        i = int(np.argmax(sure))
        raise ValueError(
            f"no theta satisfies subject_to with probability {level:g}: at most {sure[i]:.3g}, at "
            f"{fit.names.at('theta', candidates[i])}. Relax the constraints, take more runs, or lower level."
        )
    chosen = int(np.argmax(np.where(sure >= level, mean, -np.inf)))
    near = NEAR * float(np.ptp(mean)) if epsilon is None else float(epsilon)
    possible = np.where(feasible, draws, -np.inf)
    top = np.maximum(np.max(possible, axis=1), draws[:, chosen])  # a draw may allow none
    regret = top - draws[:, chosen]
    within = np.mean(possible >= draws[:, [chosen]] - near, axis=0)
    within[chosen] = 1.0
    order = np.lexsort((np.arange(len(within)) != chosen, -within))  # the chosen one first
    order = order[within[order] >= 1 - level]
    low, high = (float(_of(end, c)[0]) for end in fit.interval(candidates[[chosen]], level))
    if warns:
        warn_of(fit._beyond_findings(candidates[order]))
    return Best(
        theta=candidates[chosen],
        value=float(sign * mean[chosen]),
        interval=(low, high),
        probability=float(np.mean(regret <= near)),
        epsilon=near,
        expected_regret=float(np.mean(regret)),
        feasible=float(sure[chosen]),
        level=level,
        credible_set=candidates[order],
        probabilities=within[order],
        names=fit.names,
    )


def _gathered(
    fit: Fit,
    ends: Array,
    sign: float,
    c: int,
    rng: np.random.Generator,
    *,
    spread: int = 512,
    kept: int = 256,
    rounds: int = 5,
    centres: int = 16,
    narrower: float = 0.35,
    reach: float = 3.0,
) -> tuple[Array, Array]:
    """Candidates in a box, with ends (2, p), that gather where I may be best, and their means.

    spread: candidates all over the box. rounds: of candidates around some `centres`: the best by their means, and by
        ends `reach` standard deviations above. narrower: the radius of a round, relative to the one before.
    kept: the most promising candidates that draws are made at; as many others come with them, since a draw may have its
        optimum elsewhere.
    """
    low, high = ends
    p = len(low)
    everywhere = qmc.Sobol(p, rng=rng).random(spread)
    # A part of the candidates lies on the faces of the box, where optima often are.
    unit = np.clip(1.2 * everywhere - 0.1, 0.0, 1.0)
    candidates, means, uppers = np.empty((0, p)), np.empty(0), np.empty(0)
    for k in range(rounds + 1):
        theta = low + unit * (high - low)
        mean, std = fit.predict(theta, return_std=True)
        mean = sign * _of(mean, c)
        candidates, means = np.concatenate([candidates, theta]), np.concatenate([means, mean])
        uppers = np.concatenate([uppers, mean + reach * np.minimum(_of(std, c), np.ptp(mean) + 1e-300)])
        if k == rounds:
            break
        half = centres // 2
        around = np.unique(np.concatenate([np.argsort(-means)[:half], np.argsort(-uppers)[:half]]))
        steps = narrower ** (k + 1) * rng.uniform(-0.5, 0.5, (spread // (2 * len(around)), len(around), p))
        unit = np.clip((candidates[around] - low) / np.where(high > low, high - low, 1.0) + steps, 0, 1).reshape(-1, p)
    best = np.unique(np.concatenate([[np.argmax(means)], np.argsort(-uppers)[:kept]]))
    some = rng.choice(len(candidates), min(kept, len(candidates)), replace=False)
    best = np.union1d(best, some)
    return candidates[best], means[best]


def _drawn(
    fit: Fit,
    candidates: Array,
    c: int,
    limits: tuple[Array, Array] | None,
    size: int,
    rng: np.random.Generator,
) -> tuple[Array, Booleans]:
    """Draws (size, M) of output c at the candidates, and whether all outputs keep their limits there."""
    values = fit.sample(candidates, size, rng)
    every = values[..., None] if fit.C is None else values
    feasible = np.ones(every.shape[:2], dtype=bool)
    if limits is not None:
        feasible = np.all((every >= limits[0]) & (every <= limits[1]), axis=-1)
    return np.array(every[..., c]), feasible


def _of(values: Any, c: int) -> Array:
    """Output c of values (M,) or (M, C)."""
    array = np.asarray(values)
    return array if array.ndim == 1 else array[:, c]


def _output(fit: Fit, output: int | str | None) -> int:
    """The index of the output to choose by."""
    names = fit.names.f
    if isinstance(output, str) and output in names:
        return names.index(output)
    if output is None and fit.C in (None, 1):
        return 0
    if isinstance(output, str) or not is_whole(output, 0, (fit.C or 1) - 1):
        raise ValueError(
            f"output must be one of {', '.join(map(repr, names))}, or its index, but it is {shown(output)}."
        )
    return int(output)


def _ends(fit: Fit, prior_or_bounds: Any) -> Array:
    """The ends (2, p) of the box in which to look."""
    if prior_or_bounds is None:
        return observed_range(fit.theta)
    if not isinstance(prior_or_bounds, Measure) and not hasattr(prior_or_bounds, "rvs"):
        ends = finite(prior_or_bounds, "prior_or_bounds")
        if ends.shape == (fit.p, 2) and np.all(ends[:, 0] <= ends[:, 1]):
            return ends.T
        raise ValueError(
            f"prior_or_bounds must be a measure of theta or the ends (p, 2) of a box, but it is "
            f"{shown(prior_or_bounds)}."
        )
    return prior_range(theta_prior(prior_or_bounds, fit.p))


def _limits(fit: Fit, subject_to: Any) -> tuple[Array, Array] | None:
    """The least and the largest allowed value of each output, (C,) each."""
    if subject_to is None or callable(subject_to):
        return None
    if not isinstance(subject_to, Mapping):
        raise TypeError(
            f"subject_to must map names of outputs to (least, largest), with None for no limit, or be a function of "
            f"thetas (M, p) that returns which are allowed, (M,); but it is {shown(subject_to)}."
        )
    low, high = np.full(fit.C or 1, -np.inf), np.full(fit.C or 1, np.inf)
    for name, ends in subject_to.items():
        c = _output(fit, name)
        if not isinstance(ends, tuple | list) or len(ends) != 2:
            raise ValueError(
                f"subject_to[{name!r}] must be (least, largest), with None for no limit, but it is {shown(ends)}."
            )
        low[c], high[c] = (
            default if end is None else float(end) for end, default in zip(ends, (-np.inf, np.inf), strict=True)
        )
        if not low[c] <= high[c]:
            raise ValueError(
                f"subject_to[{name!r}] must be (least, largest), with None for no limit, but it is {shown(ends)}."
            )
    return low, high


def _allowed(subject_to: Any, candidates: Array) -> Booleans:
    """Which candidates a function of the user allows: (M,)."""
    if not callable(subject_to):
        return np.ones(len(candidates), dtype=bool)
    allowed = np.asarray(subject_to(candidates))
    if allowed.shape != (len(candidates),) or allowed.dtype != bool:
        raise ValueError(
            f"subject_to must return a boolean for each of {len(candidates)} thetas, but it returned an array of shape "
            f"{allowed.shape} and type {allowed.dtype}."
        )
    return allowed
