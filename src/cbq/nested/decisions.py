"""Decisions: their net benefits as linear functions of outputs, and the value of learning theta before deciding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Integers, Progress, RNGLike, as_text, did_you_mean, listed, real, shown
from cbq.fit import Fit
from cbq.nested.answer import Answer, OuterPosterior, require_fit
from cbq.nested.outer import NODES, Design, Outer, PriorLike, standard_error

Name = str | int


@dataclass(frozen=True, eq=False)
class Decisions:
    """Net benefits of D decisions as linear functions of C outputs, for each of K values of the willingness to pay.

    weights : (K, D, C); the net benefits of outputs f (..., C) are `f @ weights[k].T`, of shape (..., D).
    willingness_to_pay : None if the outputs are net benefits (K = 1); else of shape () for a number (K = 1) or (K,)
        for a vector.
    """

    weights: Array
    willingness_to_pay: Array | None

    @property
    def several(self) -> bool:
        """Whether answers have an axis of willingness to pay, because a vector was given."""
        return self.willingness_to_pay is not None and self.willingness_to_pay.ndim == 1


@dataclass(frozen=True, eq=False, repr=False)
class Evppi(Answer):
    """The expected value of learning theta, and the best decision at each theta; see `Answer`.

    Numbers are arrays (K,) if a vector of K values of the willingness to pay was given.

    Examples
    --------
    >>> problem = cbq.Problem(
    ...     lambda x, theta: np.stack([0 * x[:, 0], theta[0] + x[:, 0]], axis=1),
    ...     lambda theta: cbq.measures.Gaussian(0.0, cov=1.0),
    ...     cbq.measures.Gaussian(0.0, cov=1.0),
    ... )
    >>> fit = cbq.CBQ().fit(problem.collect(T=12, N=12, rng=0, design="sobol"))
    >>> cbq.evppi(fit, problem.prior).best([-1.0, 1.0])
    array([0, 1])
    """

    fit: Fit
    decisions: Decisions

    def best(self, theta: npt.ArrayLike) -> Integers:
        """The decision with the largest expected net benefit at each theta: (M,), or (M, K)."""
        return np.asarray(np.argmax(self.net_benefits(theta), axis=-1))

    def net_benefits(self, theta: npt.ArrayLike) -> Array:
        """The expected net benefits of all decisions at each theta: (M, D), or (M, K, D)."""
        benefits = np.einsum("mc,kdc->mkd", self.fit.predict(theta), self.decisions.weights)
        return np.asarray(benefits if self.decisions.several else benefits[:, 0])


def evppi(
    fit: Fit,
    prior: PriorLike,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    n: int = NODES,
    design: Design = "sobol",
    rng: RNGLike = 0,
    progress: Progress = False,
) -> Evppi:
    """The expected value of learning theta before deciding: E max_d NB_d(theta) - max_d E NB_d(theta).

    The estimate is the expectation over the joint posterior of the net benefits of all decisions. The plug-in of their
    posterior means is reported beside it; it is too small where decisions are close.

    Parameters
    ----------
    fit : the fit of an estimator, for f with C outputs: net benefits of C decisions, or their effects and costs.
    prior : the distribution of theta, all its coordinates jointly; or draws of it, (n, p), or (n,) for p = 1.
    effects, costs : the positions, or the names, of the outputs that are the effect and the cost of each decision.
    willingness_to_pay : for one unit of effect, a number or a vector (K,). The net benefit is
        willingness_to_pay * effect - cost.
    n, design, rng, progress : the number of thetas, "sobol" (scrambled) or "iid", a generator or a seed, and True for
        a bar over the thetas, or a function of the numbers of finished and of all thetas.

    Examples
    --------
    >>> problem = cbq.Problem(
    ...     lambda x, theta: np.stack([0 * x[:, 0], theta[0] + x[:, 0]], axis=1),  # net benefits of two decisions
    ...     lambda theta: cbq.measures.Gaussian(0.0, cov=1.0),
    ...     cbq.measures.Gaussian(0.0, cov=1.0),
    ... )
    >>> fit = cbq.CBQ().fit(problem.collect(T=12, N=12, rng=0, design="sobol"))
    >>> round(cbq.evppi(fit, problem.prior).estimate, 2)  # 1 / sqrt(2 pi)
    0.4
    """
    require_fit(fit)
    names = fit.names.f if fit.names.are_given("f") else None
    pay = {"effects": effects, "costs": costs, "willingness_to_pay": willingness_to_pay}
    decisions = make_decisions(fit.C or 1, names, **pay)  # type: ignore[arg-type]

    def stacked(parts: Sequence[Array]) -> Array:
        return np.stack(parts, axis=-1) if decisions.several else parts[0]

    def functional(values: Array, weights: Array) -> Array:
        return stacked([_gain(values @ weight.T, weights) for weight in decisions.weights])

    def at_mean(nodes: Outer, mean: Array) -> tuple[Array, Array]:
        # All parts are compared with the same single decision. If each part chose its own, nearly equal decisions would
        # give gains that are too small in all parts, and the standard error would not show it.
        benefits = [mean @ weight.T for weight in decisions.weights]
        parts = [nodes.of_parts(partial(_gain, overall=nodes.weights @ each), each) for each in benefits]
        return stacked([_gain(each, nodes.weights) for each in benefits]), stacked(list(map(standard_error, parts)))

    posterior = OuterPosterior.at(fit, prior, n=n, design=design, rng=rng, progress=progress)
    result = posterior.answer(functional, at_mean).at_least(0.0)
    return Evppi(**vars(result), fit=fit, decisions=decisions)


def make_decisions(
    C: int,
    names: Sequence[str] | None = None,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
) -> Decisions:
    """The D >= 2 decisions that C outputs describe, called `names` or by their positions "0", "1", ...

    The outputs are net benefits unless effects, costs and willingness_to_pay are given, as in `evppi`.
    """
    known = [str(c) for c in range(C)] if names is None else [str(name) for name in names]
    if len(known) != C:
        raise ValueError(f"there are {C} outputs, but {len(known)} names of outputs: {known}.")
    options = {"effects": effects, "costs": costs, "willingness_to_pay": willingness_to_pay}
    missing = [name for name, value in options.items() if value is None]
    if len(missing) == len(options):
        return _from_net_benefits(known)
    if missing:
        given = "= and ".join(name for name in options if name not in missing)
        raise ValueError(
            f"{given} came without {' and '.join(f'{name}=' for name in missing)}: pass effects=, costs= and "
            f"willingness_to_pay= together, or none of them if the outputs are net benefits."
        )
    return _from_effects_and_costs(known, effects, costs, _thresholds(willingness_to_pay))


def positions(wanted: Any, known: Sequence[str], what: str) -> list[int]:
    """The positions of the columns `wanted` among the columns `known`, each at most once.

    wanted : names; or positions, unless some name is an integer, which makes a position ambiguous.
    what : how an error refers to `wanted`.
    """
    if not is_list(wanted):
        raise TypeError(f"{what} must be a list of names or positions, but {shown(wanted)} arrived.")
    places = [_position(name, known, what) for name in wanted]
    repeated = [known[i] for i in dict.fromkeys(places) if places.count(i) > 1]
    if repeated:
        raise ValueError(f"{what} lists {listed(repeated)} more than once: list each column once.")
    return places


def is_list(value: Any) -> bool:
    """Whether it is a sequence or an array with an axis, and no text."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _gain(benefits: Array, weights: Array, overall: Array | None = None) -> Array:
    """The gain (...) of deciding at each theta over the best single decision, for net benefits (..., m, D).

    overall : (..., D), the mean net benefits that select the single decision (default: of these thetas).
    """
    overall = np.einsum("...md,m->...d", benefits, weights) if overall is None else overall
    best = np.argmax(overall, axis=-1)[..., None, None]
    chosen = np.take_along_axis(benefits, best, axis=-1)[..., 0]
    return np.asarray((np.max(benefits, axis=-1) - chosen) @ weights)


def _from_net_benefits(known: list[str]) -> Decisions:
    D = len(known)
    if D < 2:
        raise ValueError(
            f"a decision needs at least 2 net benefits to choose from, but {D} output{'s' * (D != 1)} arrived "
            f"({listed(known)}): to compare an intervention with doing nothing, add an output of zeros."
        )
    return Decisions(_frozen(np.eye(D)[None]), None)


def _from_effects_and_costs(known: list[str], effects: Any, costs: Any, thresholds: Array) -> Decisions:
    effect_at, cost_at = positions(effects, known, "effects"), positions(costs, known, "costs")
    if len(effect_at) != len(cost_at):
        raise ValueError(
            f"each decision needs one column of effects and one of costs, but effects= has {len(effect_at)} columns "
            f"and costs= has {len(cost_at)}."
        )
    D = len(effect_at)
    if D < 2:
        raise ValueError(
            f"a decision needs at least 2 options to choose from, but effects= and costs= list {D}: to "
            f"compare an intervention with doing nothing, add columns of zeros for the effect and the cost of doing "
            f"nothing."
        )
    both = [known[i] for i in effect_at if i in cost_at]
    if both:
        raise ValueError(f"{listed(both)} is listed as an effect and as a cost: list each column as one of them.")
    weights = np.zeros((thresholds.size, D, len(known)))
    weights[:, np.arange(D), effect_at] = thresholds.reshape(-1, 1)
    weights[:, np.arange(D), cost_at] = -1.0
    return Decisions(_frozen(weights), thresholds)


def _thresholds(willingness_to_pay: Any) -> Array:
    """The willingness to pay as an array () or (K,) of finite, non-negative numbers."""
    thresholds = real(willingness_to_pay, "willingness_to_pay")
    if thresholds.ndim > 1 or thresholds.size == 0:
        raise ValueError(f"willingness_to_pay must be a number or a vector, but its shape is {thresholds.shape}.")
    bad = thresholds[~(np.isfinite(thresholds) & (thresholds >= 0))]
    if bad.size:
        raise ValueError(
            f"willingness_to_pay must be finite and not negative, but it holds {bad[0]:g}: it is the value of "
            f"one unit of effect, in units of cost."
        )
    return thresholds


def _position(name: Any, known: Sequence[str], what: str) -> int:
    label = as_text(name)
    if label in known:
        return list(known).index(label)
    ambiguous = any(map(_is_integer, known))
    is_position = isinstance(name, int | np.integer) and not isinstance(name, bool)
    if is_position and not ambiguous and 0 <= name < len(known):
        return int(name)
    hint = did_you_mean(label, known, "columns")
    if is_position and ambiguous:
        hint += " A position is accepted only if no column name is an integer."
    raise ValueError(f"{what} lists {shown(name)}, which is not a column: {hint}")


def _is_integer(name: str) -> bool:
    try:
        return float(name).is_integer()
    except ValueError:
        return False


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array
