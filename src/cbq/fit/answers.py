"""Around an answer at theta: the warning of thetas beyond the observed ones, results in the library of
a table of thetas, the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from cbq.common import Array, called, finite, frame_like, gathered, squarable
from cbq.fit.findings import warn_of
from cbq.samples import Names

if TYPE_CHECKING:
    from cbq.fit.base import Fit

Method = TypeVar("Method", bound=Callable[..., Any])
TruthFunction = Callable[[Array], npt.ArrayLike]
Truth = TruthFunction | npt.ArrayLike


def warning_beyond(method: Method) -> Method:
    """A method of a fit that answers at theta, and warns once if some of the thetas are beyond the observed ones."""

    @wraps(method)
    def answer_and_warn(fit: Fit, *arguments: Any, **named: Any) -> Any:
        if arguments:
            arguments = gathered(arguments[0]), *arguments[1:]
        elif "theta" in named:
            named["theta"] = gathered(named["theta"])
        found = method(fit._quiet, *arguments, **named)
        theta = _theta(arguments, named)
        if theta is not None and not fit._is_quiet:
            warn_of(fit._beyond_findings(fit._thetas(theta)))
        return found

    return cast(Method, answer_and_warn)


def in_kind(method: Method) -> Method:
    """A method of a fit whose answers at a table of thetas are in the library of the table, with its index."""

    @wraps(method)
    def answer(fit: Fit, *arguments: Any, **named: Any) -> Any:
        return _in_kind(method(fit, *arguments, **named), _theta(arguments, named), fit)

    return cast(Method, answer)


def _theta(arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return named.get("theta", arguments[0] if arguments else None)


def _in_kind(found: Any, theta: Any, fit: Fit) -> Any:
    """Answers (M,), (M, C), or between thetas (M, M), in the library of theta."""
    if isinstance(found, tuple):
        return tuple(_in_kind(each, theta, fit) for each in found)
    names = fit.names.f
    if found.ndim == 1:
        table = frame_like(theta, {names[0]: found})
        return found if table is None else table[names[0]]
    if found.ndim == 2 and fit.C is not None:
        table = frame_like(theta, dict(zip(names, found.T, strict=True)))
        return found if table is None else table
    if found.ndim == 2 and hasattr(theta, "iloc"):  # thetas of pandas have labels, also for columns
        return frame_like(theta, dict(enumerate(found.T))).set_axis(theta.index, axis=1)
    return found


def true_values(truth: Truth, thetas: Array, outputs: list[int], names: Names, *, given: bool) -> Array:
    """The true values (M, C) at thetas (M, p); if one output is drawn, the truth of that output is enough.

    names : of the C outputs, by which the columns of a table are found.
    """
    if not callable(truth) and not given:
        raise ValueError("truth is an array: pass the thetas of its values as theta, or a function of theta as truth.")
    found = called(truth, "truth", thetas) if callable(truth) else truth
    values = squarable(finite(names.ordered("f", found, "truth"), "truth"), "truth")
    M, C = len(thetas), len(names.f)
    if values.shape == (M, C):
        return values
    if len(outputs) > 1 or values.shape not in {(M,), (M, 1)}:
        wanted = f"({M},)" if C == 1 else f"({M}, {C}){f' or ({M},)' * (len(outputs) == 1)}"
        raise ValueError(f"truth has shape {values.shape}, but for {M} thetas it must have shape {wanted}.")
    return np.broadcast_to(values.reshape(M, 1), (M, C))


def r_squared(mean: Array, truth: Array) -> float:
    """1 - sum (truth - mean)^2 / sum (truth - average)^2 of values (M,) or (M, C), averaged over outputs."""
    if truth.shape != mean.shape or len(mean) < 2:
        raise ValueError(
            f"truth has shape {truth.shape}, but for {len(mean)} thetas in theta it must have shape {mean.shape}, and "
            f"there must be two thetas or more."
        )
    around = truth - np.mean(truth, axis=0)
    if not np.all(np.any(around != 0, axis=0)):
        raise ValueError(
            "truth is the same at all of theta, so that there is no variance to explain: pass other thetas."
        )
    return float(np.mean(1.0 - np.sum((truth - mean) ** 2, axis=0) / np.sum(around**2, axis=0)))
