"""From outputs to the net benefits of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, real

Name = str | int


@dataclass(frozen=True, eq=False)
class Decisions:
    """Net benefits of D decisions as linear maps of C outputs, one map for each of K willingnesses to pay.

    weights : (K, D, C); the net benefits of outputs f (..., C) are `f @ weights[k].T`, of shape (..., D).
    willingness_to_pay : None where the outputs are net benefits themselves (K = 1); of shape () where a number was
        given (K = 1), of shape (K,) where a vector was.
    """

    weights: Array
    willingness_to_pay: Array | None

    @property
    def several(self) -> bool:
        """Whether answers have an axis of willingness to pay: a vector of them was given."""
        return self.willingness_to_pay is not None and self.willingness_to_pay.ndim == 1


def make_decisions(
    C: int,
    names: Sequence[str] | None = None,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
) -> Decisions:
    """The decisions that C outputs describe.

    names : of the outputs, C of them; None calls them by their positions "0", "1", ...
    effects, costs : the outputs that hold the effect and the cost of each decision, D >= 2 each, by name, or by
        position where no name is a whole number.
    willingness_to_pay : for one unit of effect, a number or a vector (K,). The net benefit of decision d is then
        willingness_to_pay * effect_d - cost_d. Without any of these three the outputs are net benefits.
    """
    known = [str(c) for c in range(C)] if names is None else [str(name) for name in names]
    if len(known) != C:
        raise ValueError(f"there are {C} outputs, but {len(known)} names of outputs: {known}.")
    options = {"effects": effects, "costs": costs, "willingness_to_pay": willingness_to_pay}
    missing = [name for name, value in options.items() if value is None]
    if len(missing) == len(options):
        return _of_net_benefits(known)
    if missing:
        given = " and ".join(name for name in options if name not in missing)
        raise ValueError(
            f"{given} came without {' and '.join(missing)}: pass effects, costs and willingness_to_pay together, or "
            f"none of them for outputs that are net benefits."
        )
    return _of_effects_and_costs(known, effects, costs, _prices(willingness_to_pay))


def positions(wanted: Any, known: Sequence[str], what: str) -> list[int]:
    """Where the columns `wanted` are among the known ones, each of them once.

    wanted: names, or positions where no name is a whole number, which could be meant instead.
    what: what the columns are, for the words of an error.
    """
    if isinstance(wanted, str) or not isinstance(wanted, Sequence | np.ndarray):
        raise TypeError(f"{what} must be a list of names or positions, but {wanted!r} arrived.")
    found = [_position(name, known, what) for name in wanted]
    repeated = [known[i] for i in dict.fromkeys(found) if found.count(i) > 1]
    if repeated:
        raise ValueError(f"{what} name {_quoted(repeated)} more than once: name each column once.")
    return found


def _of_net_benefits(known: list[str]) -> Decisions:
    D = len(known)
    if D < 2:
        raise ValueError(
            f"a decision needs at least 2 net benefits to choose from, but {D} output{'s' * (D != 1)} arrived "
            f"({_quoted(known)}): for a new decision against doing nothing, add an output of zeros."
        )
    return Decisions(_frozen(np.eye(D)[None]), None)


def _of_effects_and_costs(known: list[str], effects: Any, costs: Any, prices: Array) -> Decisions:
    gains, losses = positions(effects, known, "effects"), positions(costs, known, "costs")
    if len(gains) != len(losses):
        raise ValueError(
            f"effects has {len(gains)} columns and costs has {len(losses)}, but each decision has one of both."
        )
    D = len(gains)
    if D < 2:
        raise ValueError(
            f"a decision needs at least 2 options to choose from, but effects and costs name {D}: for a new one "
            f"against doing nothing, add columns of zeros for the effect and the cost of nothing."
        )
    both = [known[i] for i in gains if i in losses]
    if both:
        raise ValueError(f"{_quoted(both)} is named as an effect and as a cost: a column is one of them.")
    weights = np.zeros((prices.size, D, len(known)))
    weights[:, np.arange(D), gains] = prices.reshape(-1, 1)
    weights[:, np.arange(D), losses] = -1.0
    return Decisions(_frozen(weights), prices)


def _prices(willingness_to_pay: Any) -> Array:
    """Willingness to pay as an array () or (K,) of finite numbers, none below 0."""
    prices = real(willingness_to_pay, "willingness_to_pay")
    if prices.ndim > 1 or prices.size == 0:
        raise ValueError(f"willingness_to_pay must be a number or a vector, but its shape is {prices.shape}.")
    bad = prices[~(np.isfinite(prices) & (prices >= 0))]
    if bad.size:
        raise ValueError(
            f"willingness_to_pay must be finite and not negative, but it holds {bad[0]:g}: it is what one unit of "
            f"effect is worth, in units of cost."
        )
    return prices


def _position(name: Any, known: Sequence[str], what: str) -> int:
    """Where a column is: by its name, or by its position where no column is called by a whole number."""
    if str(name) in known:
        return list(known).index(str(name))
    numbered = any(map(_is_whole, known))
    number = isinstance(name, int | np.integer) and not isinstance(name, bool)
    if number and not numbered and 0 <= name < len(known):
        return int(name)
    close = get_close_matches(str(name), known, n=3)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"the columns are {_quoted(known)}."
    if number and numbered:
        hint += " Positions count only where no column is called by a whole number."
    raise ValueError(f"{what} names {name!r}, which is no column: {hint}")


def _is_whole(name: str) -> bool:
    """Whether a name reads as a whole number."""
    try:
        return float(name).is_integer()
    except ValueError:
        return False


def _quoted(names: Sequence[str], most: int = 20) -> str:
    """Names in a sentence, the first of them where there are many."""
    listed = ", ".join(map(repr, names[:most]))
    return listed + f" and {len(names) - most} more" * (len(names) > most)


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array
